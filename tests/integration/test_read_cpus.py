# SPDX-License-Identifier: MIT
"""What report and script say does not depend on how many CPUs there are to read with."""
import os
import re
import signal
import struct

import pytest

import perf_file
from conftest import sanitized

WORK = '{0}/syscalls -t 2 -n {1} >/dev/null; {0}/forkstorm -n 40 >/dev/null; ' \
       '{0}/syscalls -t 1 -n {1} >/dev/null; ls -lR {2} | wc -l'

RECORDINGS = {
    'syscalls': ['-e', 'raw_syscalls:*'],
    'compressed': ['-z', '-e', 'raw_syscalls:*'],
    'directory': ['--threads', '-a', '-e', 'raw_syscalls:*,sched:sched_switch'],
    'chains': ['-g', '-F', '20000', '-e', 'cpu-clock'],
    'events': ['-g', '-e', 'raw_syscalls:sys_enter,page-faults,cpu-clock'],
    'group': ['-e', '{cpu-clock,raw_syscalls:sys_enter}:S'],
    # Formats with functions and flags, too. Programs of others, of which chains would have names, may go at any time.
    'sched': ['-g', '--kernel-callchains', '-a', '-e', 'sched:*,raw_syscalls:sys_exit'],
    'stacks': ['--call-graph', 'dwarf,1024', '-F', '2000', '-e', 'cpu-clock'],
}
if sanitized():  # what others do in that time may be a million calls, for which a report takes minutes
    RECORDINGS['directory'].remove('-a')

# By name; `plain` is also what runs under ThreadSanitizer.
REPORTS = {
    'plain': ['--sort', 'comm,dso,sym', '--stdio'],
    'pid-cpu': ['-n', '-s', 'pid,cpu,sym'],
    'no-children': ['--no-children'],
    'time': ['--time', '10%-70%', '-n'],
    'filters': ['-C', '0', '-n', '--comms', 'syscalls,ls'],
    'quantum': ['-s', 'time,comm', '--time-quantum', '50ms'],
    'json': ['--json'],
}

SCRIPTS = {  # of which recordings, with which options
    'syscalls': {
        'plain': [],
        'fields': ['--ns', '-F', '+pid,+misc'],
        'trace': ['-F', 'comm,tid,trace'],
        'time': ['--time', '10%-70%'],
        'cpu': ['-C', '0'],
        'comms': ['-c', 'syscalls,ls'],
        'tid': ['--tid', '1'],
        'task-events': ['--show-task-events', '--show-mmap-events'],
        'reltime': ['--reltime'],
        'deltatime': ['--deltatime'],
        'json': ['--json'],
        'header': ['--header'],
    },
    'compressed': {'plain': []},
    'directory': {'plain': [], 'task-events': ['--show-task-events']},
    'chains': {
        'plain': [],
        'leaf': ['-G'],
        'short': ['--max-stack', '3'],
        'lines': ['-F', 'ip,sym,symoff,dso,srcline', '--max-stack', '1', '--time', '50%-52%'],
        'symbol': ['-S', 'do_syscall_64'],
        'dso': ['--dsos', 'libc.so.6'],
        'folded': ['--folded'],
        'rounds': ['-F', 'comm,ip', '--show-round-events'],
    },
    'events': {'plain': [], 'types': ['-F', 'trace:comm,trace', '-F', 'sw:-comm'], 'hidden': ['-F', 'sw:']},
    'group': {'plain': []},
    'stacks': {'plain': ['--time', '25%-75%']},
    'sched': {'plain': [], 'leaf': ['-G']},
}


@pytest.fixture(scope='module')
def one_cpu():
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        pytest.skip('needs two CPUs')
    return ['taskset', '-c', str(min(cpus))]


def said(done):
    return done.status, done.out, done.err


@pytest.fixture(scope='module')
def recordings(millrace, program, programs, one_cpu, need_tracefs, tmp_path_factory):
    """recordings(name) -> its path; recorded when it is asked for first."""
    base = tmp_path_factory.mktemp('recordings')
    work = WORK.format(programs, *((1000, '/usr/share/doc/lib[a-f]*') if sanitized() else (15000, '/usr/share/doc')))

    def get(name):
        if not (base / name).exists():
            millrace('record', '--sample-cpu', '-o', base / name, *RECORDINGS[name],
                     '--', 'sh', '-c', work)
        return base / name

    return get


@pytest.mark.parametrize('options', REPORTS)
@pytest.mark.parametrize('name', RECORDINGS)
def test_the_same_report(run, program, recordings, one_cpu, name, options):
    report = [program, 'report', '-i', recordings(name), *REPORTS[options]]
    assert said(run(report)) == said(run([*one_cpu, *report]))


INLINED = '''
#include <algorithm>
#include <map>
#include <string>
#include <vector>
int main() {
    size_t sum = 0;
    for (unsigned round = 0; round < 300; round++) {
        std::map<std::string, std::vector<unsigned>> all;
        for (unsigned i = 0; i < 1000; i++)
            all[std::to_string(i * 7919 % 97)].push_back(i ^ round);
        for (auto &entry : all)
            std::sort(entry.second.begin(), entry.second.end()), sum += entry.second.front();
    }
    return sum == 7;
}
'''


@pytest.fixture(scope='module')
def inlined(run, millrace, need_root, tmp_path_factory):
    directory = tmp_path_factory.mktemp('inlined')
    (directory / 'code.cc').write_text(INLINED)
    run(['g++', '-O2', '-g', '-o', directory / 'code', directory / 'code.cc'])
    millrace('record', '-N', '--call-graph', 'dwarf,2048', '-F', '5000', '-e', 'cpu-clock:u', '-o', directory / 'data',
             '--', directory / 'code')
    return directory / 'data'


@pytest.mark.parametrize('options', [[], ['-g', 'caller,srcline'], ['-g', 'callee,address'], ['-s', 'sym,srcline'],
                                     ['--inline', '--no-children'], ['--max-stack', '4'], ['--parent', 'sort']],
                         ids=' '.join)
def test_the_same_inlined_functions(run, program, inlined, one_cpu, options):
    """With several CPUs they are looked up while samples are read."""
    report = [program, 'report', '--stdio', '-i', inlined, *options]
    several = said(run(report))
    assert several[0] == 0 and ' (inlined)' in several[1]
    assert several == said(run([*one_cpu, *report]))


@pytest.mark.parametrize('command', ['report', 'script', 'export --format=folded -o -', 'flame -o -'])
@pytest.mark.parametrize('name', ['compressed', 'chains'])
def test_where_no_thread_can_be_started(own_user, run, program, recordings, name, command):
    """By an ordinary user, for whom the number of processes is limited."""
    if sanitized():
        pytest.skip('a sanitizer has threads of its own')
    os.chmod(recordings(name), 0o644)  # below a directory that is not for all
    user = ['setpriv', f'--reuid={own_user[0]}', '--clear-groups']
    words = [*user, program, *command.split(), '-i', '/proc/self/fd/3']
    many, one = (run(['sh', '-c', 'exec 3<"$0"; exec "$@"', recordings(name), 'prlimit', f'--nproc={nr}', *words])
                 for nr in (1000, 1))
    assert one.out.count('\n') > 4 and one.err == many.err
    same = one.out == many.out  # pytest would be long at comparing them
    assert same


@pytest.mark.parametrize('name,options', [(name, options) for name in SCRIPTS for options in SCRIPTS[name]])
def test_the_same_text(run, program, recordings, one_cpu, name, options):
    script = [program, 'script', '-i', recordings(name), *SCRIPTS[name][options]]
    all_cpus = run(script, binary=True)
    one = run([*one_cpu, *script], binary=True)
    assert all_cpus.out == one.out  # pytest would be long at comparing tuples of it
    assert (all_cpus.status, all_cpus.err) == (one.status, one.err)
    assert one.out or options != 'plain'


def test_a_reader_that_goes_away(run, program, recordings, one_cpu, tmp_path):
    file = recordings('syscalls')
    whole = run([program, 'script', '-i', file]).out
    for before in [], one_cpu:
        line = f'{{ "$@" 2>"{tmp_path}/err"; echo $? >"{tmp_path}/status"; }} | head -n 700'
        start = run(['sh', '-c', line, 'sh', *before, program, 'script', '-i', file]).out
        assert start and whole.startswith(start)
        assert int((tmp_path / 'status').read_text()) == 128 + signal.SIGPIPE
        assert 'standard output' not in (tmp_path / 'err').read_text()


def test_a_full_disk(run, program, recordings, one_cpu):
    file = recordings('syscalls')
    for before in [], one_cpu:
        line = '"$@" >/dev/full'
        done = run(['sh', '-c', line, 'sh', *before, program, 'script', '-i', file], status=None)
        assert done.status == 255
        assert 'standard output: No space left on device' in done.err


@pytest.mark.parametrize('command', ['report', 'script'])
@pytest.mark.parametrize('name', ['syscalls', 'compressed'])
@pytest.mark.parametrize('damage', ['cut', 'overwritten'])
def test_the_same_of_a_damaged_file(run, program, recordings, one_cpu, tmp_path, name, damage, command):
    file, whole = tmp_path / 'p.data', bytearray(recordings(name).read_bytes())
    file.touch(0o600)
    for tenth in 3, 6, 9:
        start, size = struct.unpack_from('<QQ', whole, 40)  # of the data; see perf.data-file-format.txt
        at = start + size * tenth // 10 & ~7
        file.write_bytes(whole[:at] if damage == 'cut' else whole[:at] + b'\xff' * 256 + whole[at + 256:])
        reader = [program, command, '-i', file, *(REPORTS['plain'] if command == 'report' else [])]
        all_cpus = run(reader, status=None)
        assert said(all_cpus) == said(run([*one_cpu, *reader], status=None)), at
        assert all_cpus.status and 'offset' in all_cpus.err

def test_a_process_that_is_known_late(run, program, one_cpu, tmp_path):
    """Its number changes in the middle of what several threads read at once: each sample is one line all the same."""
    data, lines = tmp_path / 'perf.data', 120000
    unknown, known = (1 << 64) - 1, 77 | 0xffffffff << 32  # the same thread, of no process and of one
    tasks = {10: unknown, lines // 6: known}
    records = [perf_file.sample(2, 4096 + i, tasks.get(i, 5 | 5 << 32), 1000 + i) for i in range(lines)]
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4, bits=1 << 18)
    data.write_bytes(perf_file.build([attr], {}, records=b''.join(records) + perf_file.FINISHED_ROUND))
    script = [program, 'script', '-i', data, '--ns', '-F', 'tid,time']
    text = run(script).out
    assert re.findall(r' (\d+)\.(\d{9}):', text) == [('0', f'{1000 + i:09}') for i in range(lines)]
    assert text == run([*one_cpu, *script]).out
