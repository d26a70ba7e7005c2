# SPDX-License-Identifier: MIT
"""The text of `millrace script` is that of `perf script`, byte for byte, for recordings of either recorder."""
import json
import os
import pathlib
import platform
import re
import struct
import subprocess

import pytest

import perf_file
import return_addresses
from conftest import ALL_CPUS, plain_names, threads_of, while_it_runs
from test_report import lines  # noqa: F401 (a fixture)

WORKLOAD = ['sh', '-c', 'ls -lR /usr/share/doc | sort | wc -l; true & wait']

CASES = {
    'clock': ['-e', 'cpu-clock'],
    'chains': ['-e', 'cpu-clock', '-g'],
    'all-cpus': [*ALL_CPUS, '-g'],
    'user-only': ['-e', 'cpu-clock:u', '-g'],
    'period': ['-e', 'cpu-clock', '-c', '300000'],
    'per-thread': ['-e', 'cpu-clock', '--per-thread'],
    'addresses': ['-e', 'page-faults', '-c', '1', '-d'],
    'software': ['-e', 'cpu-clock,context-switches,page-faults'],
    'software-chains': ['-e', 'cpu-clock,context-switches,page-faults', '-g'],
    'sched': ['-e', 'sched:*', '-a'],
    'sched-chains': ['-e', 'sched:sched_switch,sched:sched_wakeup', '-g'],
    'raw-syscalls': ['-e', 'raw_syscalls:*'],
    'mixed-kinds': ['-e', 'sched:sched_switch,cpu-clock', '-g'],
}


@pytest.fixture(scope='module', params=['perf', 'millrace'])
def recorder(request, need_root, need_tracefs, perf, millrace):
    if request.param == 'millrace':
        if 'record' not in millrace('--complete').out.split():
            pytest.skip('millrace record is not there yet')
        return millrace
    return perf


def first_difference(ours, theirs):
    ours, theirs = ours.splitlines(), theirs.splitlines()
    for number, (left, right) in enumerate(zip(ours, theirs), 1):
        if left != right:
            return f'line {number}:\n  millrace {left!r}\n  perf     {right!r}'
    return f'{len(ours)} lines of millrace, {len(theirs)} of perf'


def assert_same(ours, theirs):
    if ours != theirs:
        pytest.fail(first_difference(ours, theirs))


@pytest.mark.parametrize('case', CASES)
def test_file(case, recorder, perf, millrace, tmp_path):
    data = tmp_path / 'perf.data'
    # Of a workload that forks, --per-thread sees only the first process.
    workload = ['ls', '-lR', '/usr/share/doc'] if case == 'per-thread' else WORKLOAD
    with plain_names():
        recorder('record', *CASES[case], '-o', data, '--', *workload)
    if '-g' in CASES[case]:
        return_addresses.move_into_calls(data, perf, millrace)
    theirs = perf('script', '-i', data, binary=True).out
    assert theirs.count(b'\n') > 5
    assert_same(millrace('script', '-i', data, binary=True).out, theirs)


# The last instruction of two functions is a call that does not return.
ENDS = """
#include <stdlib.h>
static volatile unsigned long n;
__attribute__((noinline, noreturn)) void spins(void) { while (n < 50000000) n++; exit(0); }
__attribute__((noinline, aligned(1))) void ends_with_call(void) { n++; spins(); }
__attribute__((noinline, aligned(64))) void comes_next(void) { n += 2; }
int main(int argc, char **argv) { if (argc > 1) comes_next(); ends_with_call(); }
"""


@pytest.mark.skipif(platform.machine() not in ('x86_64', 'aarch64'), reason='millrace does not know the code')
def test_callers_that_end_with_a_call(perf, millrace, need_root, tmp_path):
    """Other recordings may have a few: here are many. Moved into the calls they are all that differs."""
    program, data = tmp_path / 'program', tmp_path / 'data'
    subprocess.run(['gcc', '-O2', '-fno-omit-frame-pointer', '-fno-shrink-wrap', '-fno-reorder-functions',
                    '-fno-toplevel-reorder', '-x', 'c', '-', '-o', program], input=ENDS, text=True, check=True)
    perf('record', '-e', 'cpu-clock:u', '-g', '-o', data, '--', program)
    chain = re.compile(r' spins\+.*\n.* ends_with_call\+.*\n.* main\+')
    assert chain.search(millrace('script', '-i', data).out) and not chain.search(perf('script', '-i', data).out)
    return_addresses.move_into_calls(data, perf, millrace)
    theirs = perf('script', '-i', data, binary=True).out
    assert chain.search(theirs.decode())
    assert_same(millrace('script', '-i', data, binary=True).out, theirs)


def test_running_process(recorder, perf, millrace, programs, spawn, tmp_path):
    """Its maps are from /proc."""
    process = spawn([programs / 'spin', '-m', '60000'], stdout=subprocess.DEVNULL)
    threads_of(process.pid, 2)
    data = tmp_path / 'perf.data'
    recorder('record', '-e', 'cpu-clock', '-g', '-p', process.pid, '-o', data, '--', *while_it_runs(process.pid, 0.1))
    theirs = perf('script', '-i', data, binary=True).out
    assert b'/spin)' in theirs
    assert_same(millrace('script', '-i', data, binary=True).out, theirs)


@pytest.mark.parametrize('case', ['chains', 'software', 'sched', 'sched-chains'])
def test_pipe(case, recorder, perf, millrace, tmp_path):
    # The workload's output would land in the pipe: it has none.
    with plain_names():
        stream = recorder('record', *CASES[case], '-o', '-', '--', 'sh', '-c', 'ls -lR /usr/share/doc >/dev/null',
                          binary=True).out
    theirs = without_functions(perf('script', '-i', '-', input=stream, binary=True).out)
    assert theirs.count(b'\n') > 5
    ours = millrace('script', '-i', '-', input=stream, binary=True).out
    assert_same(without_functions(ours), theirs)
    # A pipe is what is read when standard input is one; a file may hold the same bytes.
    assert_same(millrace('script', input=stream, binary=True).out, ours)
    (tmp_path / 'stream').write_bytes(stream)
    assert_same(millrace('script', '-i', tmp_path / 'stream', binary=True).out, ours)


def without_functions(text):
    """perf prints addresses in place of their names when the recording is a pipe, as of sched_kthread_work_*."""
    return re.sub(rb'(\bfunction[ =])[\w.]+', rb'\1', text)


def test_functions_in_a_pipe(recorder, perf, millrace, tmp_path):
    """A worker of the kernel waits for others to let go of a mount."""
    (tmp_path / 'mount').mkdir()
    load = 'for i in 1 2 3; do mount -t tmpfs none mount; umount mount; done'
    with plain_names():
        stream = recorder('record', '-e', 'sched:sched_kthread_work_execute_start', '-a', '-o', '-', '--', 'sh', '-ec',
                          load, binary=True, cwd=tmp_path).out
    theirs = perf('script', '-i', '-', input=stream, binary=True).out
    ours = millrace('script', '-i', '-', input=stream, binary=True).out
    assert_same(without_functions(ours), without_functions(theirs))
    if b'function 0x' not in theirs:
        pytest.skip('this kernel needs no worker for that, or perf has names')
    names = dict(line.split()[::2] for line in pathlib.Path('/proc/kallsyms').read_bytes().splitlines())
    addresses = re.findall(rb'function 0x([0-9a-f]+)', theirs)
    assert [names[address] for address in addresses] == re.findall(rb'function (\w+)', ours)


@pytest.fixture(scope='module')
def data(need_root, perf, tmp_path_factory):
    path = tmp_path_factory.mktemp('script') / 'perf.data'
    perf('record', '-e', 'cpu-clock', '-g', '-o', path, '--', *WORKLOAD)
    return path


def test_header(data, perf, millrace):
    for option in ('--header', '--header-only'):
        assert_same(millrace('script', option, '-i', data, binary=True).out,
                    perf('script', option, '-i', data, binary=True).out)


@pytest.mark.parametrize('options', [['--comms', 'ls,sort'], ['-c', 'ls'], ['-S', 'do_syscall_64'], ['--tid', '1'],
                                     ['--dsos', 'libc.so.6', '-c', 'ls']], ids=' '.join)
def test_filters(options, data, perf, millrace):
    if '--dsos' in options:  # an option that perf script 6.1 has not
        found = millrace('script', *options, '-i', data).out
        assert all(sample.split()[0] == 'ls' for sample in found.split('\n\n') if sample)
        return
    assert_same(millrace('script', *options, '-i', data, binary=True).out,
                perf('script', *options, '-i', data, binary=True).out)


FIELD_EVENTS = {
    'kinds': ['-e', 'cpu-clock,sched:sched_switch,page-faults', '-d', '-I', '--namespaces', '--switch-events'],
    'traced': ['-e', 'sched:sched_switch', '-g', '--switch-events'],
    'dummy': ['-e', 'dummy', '--switch-events'],
}
CHANGED_FIELDS = [  # (of which recording, options)
    ('chains', ['-F', '+pid,+misc']), ('chains', ['-F', 'ip']), ('chains', ['-F', '-comm,-ip']),
    ('chains', ['-G', '--ns']), ('chains', ['-F', 'comm', '-F', '+pid']), ('chains', ['--max-stack', '2']),
    ('chains', ['--max-stack', '0']),
    ('chains', ['-F', 'symoff,ip']), ('chains', ['-F', 'trace:']), ('chains', ['-F', '+addr']),
    ('chains', ['-F', 'comm,+tid']), ('chains', ['-F', 'sw:trace']),
    ('chains', ['-F', 'synth:ip,sym']), ('chains', ['-F', 'synth:', '-F', 'sw:ip']), ('chains', ['-F', 'synth:foo']),
    ('chains', ['--show-round-events', '--show-mmap-events']),
    ('kinds', ['-F', 'comm,tid,pid,time,event,ip,sym,symoff,dso,addr,period,iregs,trace']),
    ('kinds', ['-F', 'addr,sym,dso']), ('kinds', ['-F', 'sw:period']), ('kinds', ['-F', 'trace:', '-F', 'sw:-comm']),
    ('kinds', ['--show-task-events', '--show-mmap-events', '--show-namespace-events', '-F', '+misc,+pid']),
    ('kinds', ['--reltime']), ('kinds', ['--deltatime', '--show-switch-events']),
    ('traced', ['-F', 'trace:comm,trace']), ('traced', ['-F', '+tid']), ('traced', ['-F', 'comm,pid,ip']),
    ('dummy', ['--show-switch-events', '--show-task-events']), ('dummy', ['-F', 'sw:']),
]


@pytest.fixture(scope='module')
def field_files(data, need_tracefs, perf, tmp_path_factory):
    base, made = tmp_path_factory.mktemp('fields'), {'chains': data}

    def get(name):
        if name not in made:
            made[name] = base / name
            perf('record', *FIELD_EVENTS[name], '-o', made[name], '--', 'sh', '-c', 'ls -l /usr/share/doc; true & wait')
        return made[name]

    return get


def assert_same_run(options, path, perf, millrace):
    theirs = perf('script', *options, '-i', path, status=None)
    ours = millrace('script', *options, '-i', path, status=None)
    assert_same(ours.out, theirs.out)
    assert ours.status == theirs.status
    assert bool(ours.status) == ours.err.startswith('millrace: ')
    return theirs


@pytest.mark.parametrize('name, options', CHANGED_FIELDS,
                         ids=lambda value: value if isinstance(value, str) else ' '.join(value))
def test_fields(name, options, field_files, perf, millrace):
    assert_same_run(options, field_files(name), perf, millrace)


def test_fields_of_a_pipe(recorder, perf, millrace):
    with plain_names():
        stream = recorder('record', '-e', 'cpu-clock,sched:sched_switch', '-g', '-o', '-', '--', 'sh', '-c',
                          'ls -l / >/dev/null', binary=True).out
    for options in (['-F', 'comm'], ['-F', '-ip'], ['-F', 'trace:trace'], ['-G']):
        theirs = perf('script', *options, '-i', '-', input=stream, binary=True).out
        assert theirs
        assert_same(millrace('script', *options, '-i', '-', input=stream, binary=True).out, theirs)


ON, OFF = ['--switch-on', 'sched:sched_process_exec'], ['--switch-off', 'sched:sched_process_exit']


@pytest.mark.parametrize('options', [ON, [*ON, *OFF], [*ON, *OFF, '--show-on-off-events'],
                                     ['--switch-on', OFF[1], '--switch-off', OFF[1]]], ids=' '.join)
def test_events_that_switch(options, perf, millrace, need_tracefs, tmp_path):
    path = tmp_path / 'perf.data'
    events = 'sched:sched_switch,sched:sched_process_exec,sched:sched_process_exit'
    with plain_names():
        perf('record', '-a', '-m', '8M', '-e', events, '-o', path, '--', 'sh', '-c',
             'ls >/dev/null; sleep 0.05; ls >/dev/null')
    assert assert_same_run(options, path, perf, millrace).out
    table = ['report', '--stdio', '-s', 'comm', *options, '-i', path]
    assert [line.split() for line in millrace(*table).out.splitlines() if '%' in line] == \
        [line.split() for line in perf(*table).out.splitlines() if '%' in line and 'Tip' not in line]


def test_switch_off_alone_switches_off(perf, millrace, need_tracefs, tmp_path):
    """perf goes on printing."""
    path = tmp_path / 'perf.data'
    perf('record', '-e', 'sched:sched_switch,sched:sched_process_exit', '-o', path, '--', 'sh', '-c', 'ls; sleep 0.1')
    everything = millrace('script', '-i', path).out
    before = everything.splitlines()[:[':sched_process_exit:' in line for line in everything.splitlines()].index(True)]
    assert millrace('script', *OFF, '-i', path).out.splitlines() == before
    assert 'no such event' in millrace('script', '--switch-off', 'foo', '-i', path, status=255).err


def test_time_of_day(perf, millrace, tmp_path):
    path = tmp_path / 'perf.data'
    perf('record', '-k', 'mono', '-e', 'cpu-clock', '-o', path, '--', *WORKLOAD)
    for options in (['-F', 'tod,comm,ip'], ['-F', '+tod', '--ns'], ['-L']):
        assert '20' in assert_same_run(options, path, perf, millrace).out
    without = tmp_path / 'without'
    perf('record', '-e', 'cpu-clock', '-o', without, '--', 'true')
    done = millrace('script', '-F', '+tod', '-i', without, status=255)
    assert not done.out and 'record with -k' in done.err


def test_narrow_columns(field_files, perf, millrace):
    assert_same_run(['-L'], field_files('traced'), perf, millrace)


def test_bpf_output(perf, millrace, tmp_path):
    sampled = 1 | 2 | 4 | 1 << 7 | 1 << 10  # IP, TID, TIME, CPU, RAW
    event = perf_file.attr(type=1, config=10, sample_type=sampled, sample_period=1, bits=1 << 18)
    path = tmp_path / 'bpf'
    texts = [b'hello, world\0' + bytes(7), bytes(range(20, 48)), b'no end', b'']
    records = b''
    for number, text in enumerate(texts):
        raw = text.ljust((len(text) + 4 + 7) // 8 * 8 - 4, b'\0')
        body = struct.pack('<QIIQIII', 0x401000, 77, 78, 5000000000 + number, 0, 0, len(raw)) + raw
        records += struct.pack('<IHH', 9, 2, 8 + len(body)) + body
    path.write_bytes(perf_file.build([event], {12: perf_file.event_desc(('bpf', event, [1]))}, [[1]],
                                     records + perf_file.FINISHED_ROUND))
    done = assert_same_run([], path, perf, millrace)
    assert 'BPF string: "hello, world"' in done.out
    assert_same_run(['-F', 'comm,ip'], path, perf, millrace)


@pytest.mark.parametrize('options', [['--', 'true'], ['-a', '-I', '50', '--', 'sleep', '0.12'],
                                     ['-p', '1,2', 'sleep', '0']], ids=' '.join)
def test_counts_of_perf_stat(options, perf, millrace, tmp_path):
    path = tmp_path / 'stat'
    perf('stat', 'record', '-e', 'task-clock,page-faults', '-o', path, *options)
    done = assert_same_run([], path, perf, millrace)
    assert done.out.startswith('CPU   THREAD             VAL') and done.out.count('task-clock') >= 1


@pytest.mark.parametrize('kind, config', [(4, 0xc0), (0, 4)], ids=['raw', 'hardware'])
def test_fields_of_memory_events(kind, config, perf, millrace, tmp_path):
    """What hardware tells of the memory that was touched; a raw event shows it unasked."""
    sampled = 1 | 2 | 4 | 8 | 1 << 8 | 1 << 14 | 1 << 19 | 1 << 22 | 1 << 23  # IP … ADDR, PERIOD, WEIGHT …
    records = b''.join(
        perf_file.sample(2, 0x401000, 77 | 78 << 32, 5000000000 + i, 0x7fff1000 + i, 100, 30 + i, 0x123000, *sizes)
        for i, sizes in enumerate([(0, 4096), (123456, 2 << 20), (1 << 30, 1 << 50)]))
    event = perf_file.attr(type=kind, config=config, sample_type=sampled, sample_period=100, bits=1 << 18)
    path = tmp_path / 'memory'
    path.write_bytes(perf_file.build([event], {}, records=records + perf_file.FINISHED_ROUND))
    for options in ([], ['-F', '+weight'], ['-F', 'addr,phys_addr'],
                    ['-F', 'weight,ip,phys_addr,data_page_size,code_page_size']):
        assert assert_same_run(options, path, perf, millrace).out.count('\n') == 3


@pytest.mark.parametrize('command', ['script', 'report'])
def test_options_of_perf_are_here_or_refused_by_name(command, perf, millrace):
    """None of them is "unknown", and what is refused says what to do."""
    listed = perf(command, '-h', status=None)
    names = re.findall(r'^ {4}(?:-\w, |    )(--[a-zA-Z-]+)', listed.out + listed.err, re.M)
    assert len(names) > 60
    reported = millrace('--complete', command).out.split() + millrace('--complete', command, '--accepted').out.split()
    for name in names:
        if name in reported or name == '--help':
            continue
        done = millrace(command, name, 'x', '-i', '/dev/null', status=129)
        if 'takes no argument, but got "x"' in done.err:  # --demangle is the opposite of --no-demangle
            continue
        assert 'unknown' not in done.err and ('use ' in done.err or 'printed' in done.err or 'always' in done.err), name


def test_fields_that_are_refused(data, millrace):
    for field, hint in (('brstackinsn', 'perf script'), ('insn', 'perf script'), ('metric', 'perf stat')):
        assert hint in millrace('script', '-F', f'+{field}', '-i', data, status=129).err
    err = millrace('script', '-F', 'comm,nothing', '-i', data, status=129).err
    assert '"nothing"' in err and 'symoff' in err


def test_source_lines(lines, perf, millrace):
    """Of the program alone: in libraries addr2line, which perf asks, takes the names of files from elsewhere."""
    for options in (['-F', 'comm,ip,sym,srcline'], ['-G', '-F', '+srcline', '--full-source-path'],
                    ['-F', 'ip,srcline', '-G']):
        ours, theirs = (tool('script', *options, '-i', lines).out for tool in (millrace, perf))
        place = re.compile(r'^  \S*lines\.c:\d+$', re.M)
        assert place.findall(theirs) and place.findall(ours) == place.findall(theirs)
        other = re.compile(r'^  \S*:\d+$|^  \S*\[[0-9a-f]+\]$', re.M)
        assert_same(other.sub('', ours), other.sub('', theirs))
    assert 'ip' in millrace('script', '-F', 'comm,srcline', '-i', lines, status=255).err
    first = json.loads(millrace('script', '--json', '-F', '+srcline', '-i', lines).out.splitlines()[-5])
    assert re.match(r'lines\.c:[56]$', first['callchain'][0]['srcline'])


@pytest.fixture(scope='module')
def odd_data(need_tracefs, millrace, tmp_path_factory):
    """Several events, call chains, and a command whose name has all that JSON must escape."""
    base = tmp_path_factory.mktemp('odd')
    program = os.fsencode(base) + b'/q"\\<\x07\xff\xc3\xa9'
    os.symlink('/bin/ls', program)
    path = base / 'perf.data'
    millrace('record', '-e', 'cpu-clock,sched:sched_switch,sched:sched_process_exec', '-g', '-o', path, '--', 'sh',
             '-c', '"$0"* -lR /usr/share/doc >/dev/null; true & wait', f'{base}/q')
    return path


def test_json(odd_data, millrace):
    """As many objects as samples, with the same values as in the text, and strings that survive."""
    objects = [json.loads(line) for line in millrace('script', '--json', '-i', odd_data, binary=True).out.splitlines()]
    lines = millrace('script', '-G', '--ns', '-F', 'pid,tid,time,event', '-i', odd_data).out.splitlines()
    assert len(objects) == len(lines) > 5
    for found, line in zip(objects, lines):
        task, time, event = line.split()
        seconds, nanoseconds = time[:-1].split('.')
        assert task == f"{found['pid']}/{found['tid']}"
        assert int(seconds) * 10 ** 9 + int(nanoseconds) == found['time_ns']
        assert event == found['event'] + ':'
        assert found['callchain'] and {'ip', 'sym', 'dso'} <= set(found['callchain'][0])
        assert ('trace' in found) == found['event'].startswith('sched:')
    assert {'cpu-clock', 'sched:sched_switch'} <= {found['event'] for found in objects}
    switch = next(found for found in objects if found['event'] == 'sched:sched_switch')
    assert switch['trace']['prev_comm'] and isinstance(switch['trace']['next_pid'], int)
    assert 'q"\\<\x07\ufffd\xe9' in {found['comm'] for found in objects}
    named = [found['trace']['filename'] for found in objects if found['event'] == 'sched:sched_process_exec']
    assert any(name.endswith('q"\\<\x07\ufffd\xe9') for name in named)


def test_json_has_the_fields_that_are_chosen(odd_data, millrace):
    lines = millrace('script', '--json', '-F', 'tid,trace', '-i', odd_data, binary=True).out.splitlines()
    assert {frozenset(json.loads(line)) for line in lines} == {frozenset({'tid'}), frozenset({'tid', 'trace'})}
    frames = [len(json.loads(line)['callchain'])
              for line in millrace('script', '--json', '--max-stack', '3', '-i', odd_data,
                                   binary=True).out.splitlines()]
    assert max(frames) == 3
    assert 'leave out' in millrace('script', '--json', '--folded', '-i', odd_data, status=129).err
    assert 'leave out' in millrace('script', '--json', '--show-task-events', '-i', odd_data, status=129).err


def test_json_and_folded_end_chains(data, millrace):
    def chains(*words):
        return [[frame['sym'] for frame in json.loads(line)['callchain']]
                for line in millrace('script', '--json', '-i', data, *words, binary=True).out.splitlines()]
    whole, name = chains(), 'do_syscall_64'
    cut = [chain[:chain.index(name) + 1] if name in chain else chain for chain in whole]
    assert cut != whole and chains('--stop-bt', name) == cut
    short = millrace('script', '--folded', '--max-stack', '2', '-i', data).out.splitlines()
    assert max(line.count(';') for line in short) == 2
    assert 'leave out --stop-bt' in millrace('script', '--folded', '--stop-bt', name, '-i', data, status=129).err


def test_json_to_a_full_disk(odd_data, program):
    with open('/dev/full', 'wb') as full:
        done = subprocess.run([program, 'script', '--json', '-i', odd_data], stdout=full, stderr=subprocess.PIPE,
                              timeout=60)
    assert done.returncode == 255 and b'No space left' in done.stderr


def test_folded(data, millrace):
    """As many samples as in the text, with the same frames."""
    samples = [sample for sample in millrace('script', '-i', data).out.split('\n\n') if sample]
    lines = [line.rpartition(' ') for line in millrace('script', '--folded', '-i', data).out.splitlines()]
    assert sum(int(count) for _, _, count in lines) == len(samples)
    assert len({line for line, _, _ in lines}) > 5
    syscalls = sum(' do_syscall_64+' in sample for sample in samples)
    assert syscalls and sum(int(count) for line, _, count in lines if ';do_syscall_64' in line) == syscalls
    only = millrace('script', '--folded', '-c', 'ls', '-i', data).out
    assert only and all(line.startswith('ls;') for line in only.splitlines())


def test_default_input_is_perf_data(data, millrace):
    # Standard input must not be a pipe here: the fixture gives /dev/null.
    assert millrace('script', cwd=data.parent).out == millrace('script', '-i', data).out


def write_changed(data, path, offset, value):
    content = bytearray(data.read_bytes())
    struct.pack_into('<Q', content, offset, value)
    path.write_bytes(content)
    return path


def data_end(data):
    start, size = struct.unpack_from('<QQ', data.read_bytes(), 0x28)
    return start, start + size


def test_cut_off(data, millrace, tmp_path):
    start, end = data_end(data)
    cut = tmp_path / 'cut'
    middle = (start + end) // 2
    cut.write_bytes(data.read_bytes()[:middle])
    done = millrace('script', '-i', cut, status=255)
    assert done.out
    assert str(cut) in done.err and 'cut off' in done.err and 'offset 0x' in done.err
    assert len([line for line in done.err.splitlines() if line]) == 1


def test_recorder_was_killed(data, millrace, tmp_path):
    start, end = data_end(data)
    unfinished = write_changed(data, tmp_path / 'unfinished', 0x30, 0)
    unfinished.write_bytes(unfinished.read_bytes()[:end])
    done = millrace('script', '-i', unfinished, status=255)
    assert 'not finished' in done.err and f'offset {end:#x}' in done.err
    assert done.out.count('cpu-clock') == millrace('script', '-i', data).out.count('cpu-clock')


@pytest.mark.parametrize('content, why', [
    (b'', 'empty'),
    (b'short', 'only 5 bytes'),
    (b'\x7fELF' + bytes(200), 'not a perf.data file'),
    (b'2ELIFREP' + bytes(200), 'byte order'),
])
def test_foreign_files(content, why, millrace, tmp_path):
    path = tmp_path / 'foreign'
    path.write_bytes(content)
    done = millrace('script', '-i', path, status=255)
    assert why in done.err and str(path) in done.err and not done.out


def test_missing_file(millrace, tmp_path):
    done = millrace('script', '-i', tmp_path / 'missing', status=255)
    assert 'No such file' in done.err


def test_file_through_a_pipe(data, millrace):
    done = millrace('script', '-i', '-', input=data.read_bytes(), binary=True, status=255)
    assert b'give its name with -i' in done.err


def test_file_of_another_user(data, perf, millrace, tmp_path):
    foreign = tmp_path / 'foreign'
    foreign.write_bytes(data.read_bytes())
    os.chown(foreign, 12345, 12345)
    perf('script', '-i', foreign, status=None)
    done = millrace('script', '-i', foreign, status=255)
    assert 'uid 12345' in done.err and '-f' in done.err and not done.out
    assert millrace('script', '-f', '-i', foreign).out == millrace('script', '-i', data).out


def test_compressed(perf, millrace, need_root, tmp_path):
    path = tmp_path / 'perf.data'
    perf('record', '-z', '-e', 'cpu-clock', '-o', path, '--', *WORKLOAD)
    assert_same(millrace('script', '-i', path).out, perf('script', '-i', path).out)


def test_reader_goes_away(data, program):
    done = subprocess.run(f'{program} script -i {data} | head -n 1', shell=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=True)
    assert done.stdout.count(b'\n') == 1 and not done.stderr


def test_full_disk(data, program):
    with open('/dev/full', 'wb') as full:
        done = subprocess.run([program, 'script', '-i', data], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 255 and b'No space left' in done.stderr
