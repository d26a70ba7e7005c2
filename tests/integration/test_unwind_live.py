# SPDX-License-Identifier: MIT
"""`record --call-graph unwind`: whole call chains in every mode of recording, and no byte of a stack in any file."""
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import wait_until  # noqa: E402
from perfdata import CALLCHAIN, PerfData  # noqa: E402

USAGE, ERROR = 129, 255
UNWIND = ['-F', '497', '-e', 'cpu-clock', '--call-graph', 'unwind']
REGS_USER, STACK_USER = 1 << 12, 1 << 13
SECRET = b'STACK-SECRET'
CALLS = 21

pytestmark = pytest.mark.usefixtures('need_root')


def files_of(path):
    return sorted(path.iterdir()) if path.is_dir() else [path]


def check_no_stack(path):
    for file in files_of(path):
        data = file.read_bytes()
        assert SECRET not in data
        if file.name in ('data', path.name) and data[:8] == b'PERFILE2':
            for attr in PerfData(file).attrs:
                assert not attr.sample_type & (REGS_USER | STACK_USER)


@pytest.fixture(scope='module')
def programs(programs, tmp_path_factory):
    """With a `deep` of this module's own: a recording of all CPUs sees those of other tests, too."""
    directory = tmp_path_factory.mktemp('programs')
    shutil.copy(programs / 'deep', directory)
    return directory


def chains(millrace, path, programs):
    """The chains of our program through deep_burn(), innermost first: each as the functions' names."""
    text = millrace('script', '-i', path, '-F', 'comm,ip,sym,dso').out
    samples = [re.findall(r'^\s+[0-9a-f]+ (\S+)', sample, re.M) for sample in text.split('\n\n')
               if f'({programs}/deep)' in sample]
    return [names for names in samples if any(name.startswith('deep_burn') for name in names)]


def not_copied(said):
    """Of how many stacks the recorder has said that what their chain needs was not copied."""
    counts = re.findall(r'(\d+) of \d+ stacks (?:did not fit|go on beyond the part|had no stack)', said)
    return sum(map(int, counts))


def check_chains(found, least=30, said=''):
    """
    A sample may be in the kernel, or in what deep_burn() calls; all callers are there, up to _start(). But the kernel
    copies no page of a stack that it is just moving (compaction): of those stacks the recorder must have said so.
    """
    assert len(found) >= least
    short = [names for names in found if not names[-1].startswith('_start') or
             sum(name.startswith('deep_call') for name in names) != CALLS]
    assert len(short) <= min(not_copied(said), len(found) // 20), (short, said)


def until_used(process):
    """A command that ends when the process has run for 150 ms more: beside load that takes long."""
    used = f'cut -d" " -f14 /proc/{process.pid}/stat'
    return ['sh', '-c', f'end=$(($({used}) + 15)); while [ $({used}) -lt $end ]; do sleep 0.05; done']


MODES = {
    'file': [],
    'system': ['-a'],
    'compressed': ['-z'],
    'directory': ['-a', '--threads'],
    'directory-z': ['-a', '--threads', '-z'],
    'single-file': ['-a', '--threads', '--single-file'],
    'aio': ['--aio'],
    'mmap': ['--mmap-output'],
    'one-channel': ['--side-channel=off'],
    'overwrite': ['--overwrite', '-m', '8M'],
    'overwrite-z': ['-a', '--overwrite', '-m', '8M', '-z'],
    'overwrite-directory': ['-a', '--overwrite', '-m', '8M', '--threads'],
    'tail': ['--tail-synthesize'],
    'overwrite-tail': ['-a', '--overwrite', '-m', '8M', '--tail-synthesize'],
    'per-thread': ['--per-thread'],
    'size': ['--call-graph', 'unwind,8192'],
    'term': ['--call-graph', 'no', '-e', 'task-clock/call-graph=unwind/'],
}


@pytest.mark.parametrize('mode', MODES)
def test_modes(mode, millrace, perf, programs, tmp_path):
    path = tmp_path / 'perf.data'
    done = millrace('record', *UNWIND, *MODES[mode], '-o', path, '--', programs / 'deep', '-m', '150', '-c', '1')
    assert 'lost 0' in done.err
    check_no_stack(path)
    check_chains(chains(millrace, path, programs), said=done.err)
    if mode in ('file', 'compressed'):
        theirs = [sample for sample in perf('script', '-i', path).out.split('\n\n') if 'deep_burn' in sample]
        assert len(theirs) >= 30 and all(sample.count('deep_call+') == CALLS for sample in theirs)
        assert PerfData(path).attrs[0].sample_type & CALLCHAIN


def test_small_memory(millrace, programs, tmp_path):
    """What cannot wait until its maps are known keeps its innermost frame, and is counted."""
    path = tmp_path / 'perf.data'
    done = millrace('record', *UNWIND, '--buffer-memory', '2M', '-o', path, '--', programs / 'deep', '-m', '150')
    check_no_stack(path)
    reported = re.findall(r'(\d+) of \d+ stacks came when memory was full', done.err)
    found = chains(millrace, path, programs)
    whole = [names for names in found if names[-1].startswith('_start')]
    check_chains(whole, least=0)
    assert len(found) - len(whole) <= sum(map(int, reported)) + not_copied(done.err)


def test_pipe(millrace, perf, programs, tmp_path):
    for options in [], ['-z']:
        path = tmp_path / 'pipe'
        done = millrace('record', *UNWIND, *options, '-o', '-', '--', programs / 'deep', '-m', '150', binary=True)
        path.write_bytes(done.out)
        check_no_stack(path)
        check_chains(chains(millrace, path, programs), said=done.err.decode())
        assert 'deep_call' in perf('script', '-i', path).out


def test_switched_output(millrace, programs, tmp_path):
    done = millrace('record', *UNWIND, '--switch-output=20K', '-o', tmp_path / 'part', '--', programs / 'deep', '-m',
                    '800', '-c', '1')
    parts, found = sorted(tmp_path.glob('part.*')), []
    assert len(parts) > 1
    for path in parts:
        check_no_stack(path)
        found += chains(millrace, path, programs)
    check_chains(found, least=100, said=done.err)


def test_flight(millrace, programs, tmp_path):
    script = f'{programs}/deep -m 200; kill -USR2 $PPID; while ! ls {tmp_path}/held.*; do sleep 0.05; done'
    done = millrace('record', *UNWIND, '--flight=60s', '-o', tmp_path / 'held', '--', 'sh', '-c', script)
    path, = tmp_path.glob('held.*')
    check_no_stack(path)
    check_chains(chains(millrace, path, programs), said=done.err)


def test_snapshots_of_overwritten_rings(millrace, programs, tmp_path):
    """Samples of processes that have ended since are resolved when the snapshot is taken."""
    script = (f'for i in $(seq 20); do {programs}/deep -m 10; done; kill -USR2 $PPID; '
              f'while ! ls {tmp_path}/held.*; do sleep 0.05; done; for i in $(seq 20); do {programs}/deep -m 10; done')
    done = millrace('record', *UNWIND, '-F', '997', '--overwrite', '-m', '8M', '--switch-output=signal', '-o',
                    tmp_path / 'held', '--', 'sh', '-c', script)
    parts = sorted(tmp_path.glob('held.*'))
    assert len(parts) == 2, done.err
    for path in parts:
        check_no_stack(path)
        check_chains(chains(millrace, path, programs), least=60, said=done.err)


def test_both_kinds_of_rings(millrace, programs, tmp_path):
    path = tmp_path / 'perf.data'
    events = 'cpu-clock/call-graph=unwind/,task-clock/call-graph=unwind,overwrite/'
    done = millrace('record', '-F', '997', '-e', events, '-m', '8M', '-o', path, '--', 'sh', '-c',
                    f'for i in $(seq 15); do {programs}/deep -m 10; done')
    check_no_stack(path)
    check_chains(chains(millrace, path, programs), least=120, said=done.err)


def test_lost_task_events(recorder, millrace, programs, spawn, run, tmp_path):
    """
    While it is not known what is mapped chains are not guessed, and they are counted; then all of /proc is read, and
    they are whole again.
    """
    path = tmp_path / 'perf.data'
    load = spawn([programs / 'deep', '-m', '60000'])
    process = recorder([*UNWIND, '-a', '-m', '256K', '--side-channel=off', '-o', path])
    process.send_signal(signal.SIGSTOP)
    run(['sh', '-c', 'for i in $(seq 300); do /bin/true; done'])
    process.send_signal(signal.SIGCONT)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    load.kill()
    unknown = int(re.search(r'(\d+) of \d+ stacks came when records about tasks had been lost', err).group(1))
    text = millrace('script', '-i', path, '-F', 'pid,ip,sym').out
    found = [re.findall(r'^\s+[0-9a-f]+ (\S+)', sample, re.M) for sample in text.split('\n\n')
             if re.match(rf'\s*{load.pid}\b', sample)]
    user = [[name for name in names if name.startswith(('deep', 'main', '_start'))] for names in found]
    whole = [names for names in user if names and names[-1] == '_start']
    assert 0 < sum(len(names) < 2 for names in user) <= unknown
    assert sum(len(names) < 2 for names in user) + len(whole) == len(user)
    assert user[-1] in whole and len(whole) > 20


def many_functions(nr):
    functions = ['__attribute__((noinline)) int f0(int x) { return x; }']
    for i in range(1, nr):
        functions.append(f'__attribute__((noinline)) int f{i}(int x) {{\n'
                         f'\tif (x > 3) printf("%d %d\\n", x, f{i - 1}(x - 1));\n\treturn x * {i} + getchar();\n}}')
    main = f'int main(int argc, char **argv) {{\n\tif (argc > 1) pause();\n\treturn f{nr - 1}(argc) == 77;\n}}'
    return '\n'.join(['#include <stdio.h>', '#include <unistd.h>', *functions, main])


@pytest.mark.skipif(not shutil.which('gcc') or platform.machine() != 'x86_64', reason='needs gcc, of x86_64')
def test_whose_frame_pointers_the_kernel_follows(millrace, spawn, tmp_path):
    """The kernel is asked for call chains only where code keeps frame pointers, or where that is not known."""
    path, source = tmp_path / 'perf.data', many_functions(40)
    apps = {name: tmp_path / name for name in ('keeps', 'keeps-not', 'small')}
    programs = (('keeps', '-fno-omit-frame-pointer', source), ('keeps-not', '-fomit-frame-pointer', source),
                ('small', '-fno-omit-frame-pointer', many_functions(2)))
    for name, flags, text in programs:
        subprocess.run(['gcc', '-O2', flags, '-x', 'c', '-o', apps[name], '-'], input=text, check=True, text=True)

    def lines(*arguments):
        done = millrace('record', '-v', '-e', 'cpu-clock', '--call-graph', 'unwind', '-o', path, *arguments)
        return re.findall(r'millrace: (\S+ code|not all programs) (keeps|does not keep|that run)', done.err)

    assert not lines('--', apps['keeps-not'])  # what it starts is not known
    found = {}
    for name, app in apps.items():
        waiting = spawn([app, '1'])
        wait_until(lambda app=app, pid=waiting.pid: os.readlink(f'/proc/{pid}/exe') == str(app), 'it has begun')
        found[name] = lines('-p', str(waiting.pid), '--', 'true')
        if found[name][0][1] == 'keeps':
            pytest.skip('libc keeps them')
        found[name] = [words for at, words in found[name][1:] if at == f'/proc/{waiting.pid}/exe: code']
    assert found == {'keeps': ['keeps'], 'keeps-not': ['does not keep'], 'small': []}
    assert lines('-a', '--', 'true')[-1][1] in ('keeps', 'that run')  # one of them, or there are too many
    assert lines('-a', '--', apps['keeps'])[-1] == (f'{apps["keeps"]}: code', 'keeps')


def test_frame_pointers_lead_on(millrace, programs, run, tmp_path):
    """Where the copy of the stack ends, and the next frame is one that the kernel has found by frame pointers."""
    path, program = tmp_path / 'perf.data', tmp_path / 'deep'
    sources = pathlib.Path(__file__).resolve().parent.parent / 'programs'
    run(['gcc', '-O1', '-fno-omit-frame-pointer', f'-I{sources.parent.parent}', '-o', program, sources / 'deep.c',
         sources / 'args.c'])
    done = millrace('record', '-v', '-F', '497', '-e', 'cpu-clock', '--call-graph', 'unwind,1024', '-o', path, '--',
                    program, '-m', '150', '-b', '300')
    found = chains(millrace, path, tmp_path)
    assert len(found) >= 30 and 'stacks are continued by frame pointers' in done.err
    for names in found:
        assert sum(name.startswith('deep_call') for name in names) == CALLS and 'main' in names
    # Where libc keeps no frame pointers they do not lead to the start of the program, which is said.
    short = sum(not names[-1].startswith('_start') for names in found)
    cut = re.search(r'(\d+) of \d+ stacks did not fit in 1 KiB', done.err)
    assert short <= (int(cut[1]) if cut else 0), (short, done.err)


@pytest.mark.parametrize('frames', [5, 150])
def test_max_stack(frames, millrace, perf, programs, tmp_path):
    path = tmp_path / 'perf.data'
    millrace('record', *UNWIND, '--max-stack', frames, '-o', path, '--', programs / 'deep', '-m', '100', '-d', '200',
             '-b', '1')
    text = perf('script', '--max-stack', '1000', '-i', path, '-F', 'ip,sym').out
    depths = [len(sample.strip().splitlines()) for sample in text.split('\n\n') if 'deep_burn' in sample]
    assert len(depths) > 20 and max(depths) == frames
    text = millrace('script', '-i', path, '-F', 'ip,sym').out
    assert max(len(sample.strip().splitlines()) for sample in text.split('\n\n') if 'deep_burn' in sample) == frames
    report = millrace('report', '-i', path, '--stdio', '-g', 'caller', '--no-children').out
    assert report.count('deep_call') >= min(frames - 10, 100)


def test_more_frames_than_a_chain_has_are_said(millrace, programs, tmp_path):
    """But where fewer than by default were asked for."""
    deep = programs / 'deep', '-m', '100', '-d', '200', '-b', '1'
    for args, frames in ([], '127'), (['--max-stack', '150'], '150'), (['--max-stack', '5'], None):
        err = millrace('record', *UNWIND, *args, '-o', tmp_path / 'perf.data', '--', *deep).err
        said = re.search(r'(\d+) of (\d+) stacks have more than (\d+) frames: --max-stack', err)
        assert (said[3] if said else None) == frames, err
        assert not said or int(said[1]) > int(said[2]) / 2, err


def test_configuration(millrace, programs, tmp_path):
    """The key that perf has for it, and the one of the option."""
    keys = '[call-graph]\n\trecord-mode = unwind,8192', '[record]\n\tcall-graph = unwind'
    for number, text in enumerate(keys):
        config, path = tmp_path / 'config', tmp_path / f'{number}.data'
        config.write_text(text + '\n')
        done = millrace('record', '-F', '497', '-e', 'cpu-clock', '-g', '-o', path, '--', programs / 'deep', '-m',
                        '100', env={'MILLRACE_CONFIG': str(config)})
        assert 'unknown' not in done.err
        check_no_stack(path)
        check_chains(chains(millrace, path, programs), least=20, said=done.err)


def test_control(recorder, millrace, programs, run, tmp_path):
    path = tmp_path / 'perf.data'
    process = recorder([*UNWIND, '-a', '-o', path])
    run([programs / 'deep', '-m', '150'])
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    check_no_stack(path)
    check_chains(chains(millrace, path, programs), said=err)


def test_process_that_runs(millrace, programs, spawn, tmp_path):
    """With all its maps, which /proc describes."""
    path = tmp_path / 'perf.data'
    process = spawn([programs / 'deep', '-m', '60000'])
    wait_until(lambda: os.readlink(f'/proc/{process.pid}/exe') == str(programs / 'deep'), 'the program runs')
    done = millrace('record', *UNWIND, '-p', process.pid, '-o', path, '--', *until_used(process))
    process.kill()
    check_no_stack(path)
    check_chains(chains(millrace, path, programs), said=done.err)


def test_program_that_is_deleted(millrace, programs, spawn, tmp_path):
    """Names are gone with it, and what is under its name now is no ELF file; its chains are not."""
    program, path = tmp_path / 'deep', tmp_path / 'perf.data'
    shutil.copy(programs / 'deep', program)
    process = spawn([program, '-m', '60000'])
    wait_until(lambda: os.readlink(f'/proc/{process.pid}/exe') == str(program), 'the program runs')
    program.unlink()
    program.write_bytes(b'another file')
    done = millrace('record', *UNWIND, '-p', process.pid, '-o', path, '--', *until_used(process))
    process.kill()
    text = millrace('script', '-i', path, '-F', 'comm,ip,sym,dso').out
    found = [len(sample.strip().splitlines()) - 1 for sample in text.split('\n\n') if 'deep' in sample]
    in_program = [frames for frames in found if frames >= CALLS + 4]
    assert len(in_program) >= 30
    assert len(found) - len(in_program) <= min(not_copied(done.err), len(found) // 20)


def test_program_in_another_mount_namespace(millrace, programs, spawn, tmp_path):
    """Its path leads nowhere but inside."""
    inside, path = tmp_path / 'inside', tmp_path / 'perf.data'
    inside.mkdir()
    script = (f'mount -t tmpfs none {inside} && cp {programs}/deep {inside}/deep && touch {tmp_path}/ready && '
              f'exec {inside}/deep -m 60000')
    process = spawn(['unshare', '-m', 'sh', '-c', script])
    wait_until(lambda: os.readlink(f'/proc/{process.pid}/exe') == f'{inside}/deep', 'the program runs')
    assert not (inside / 'deep').exists()
    done = millrace('record', *UNWIND, '-p', process.pid, '-o', path, '--', *until_used(process))
    process.kill()
    text = millrace('script', '-i', path, '-F', 'comm,ip,sym,dso').out
    found = [len(sample.strip().splitlines()) - 1 for sample in text.split('\n\n') if 'deep' in sample]
    short = [frames for frames in found if frames < CALLS + 4]
    assert len(found) >= 30 and len(short) <= min(not_copied(done.err), len(found) // 20)


@pytest.mark.parametrize('options', [[], ['-B'], ['-o', '-']], ids=['file', 'no-build-ids', 'pipe'])
def test_programs_that_are_gone(options, millrace, programs, tmp_path):
    """They have ended, and are deleted, or where they were mounted is no more, when their samples are looked at."""
    mounted, path = tmp_path / 'mounted', tmp_path / 'perf.data'
    mounted.mkdir()
    script = (f'cp {programs}/deep {tmp_path}/gone; {tmp_path}/gone -m 200; rm {tmp_path}/gone; '
              f'mount -t tmpfs none {mounted}; cp {programs}/deep {mounted}/away; {mounted}/away -m 200; '
              f'umount -l {mounted}')
    done = millrace('record', *UNWIND, '-o', path, *options, '--', 'unshare', '-m', 'sh', '-ec', script, binary=True)
    if '-' in options:
        path.write_bytes(done.out)
    assert not (mounted / 'away').exists()
    check_no_stack(path)
    text = millrace('script', '-i', path, '-F', 'comm,ip,sym,dso').out
    for program in tmp_path / 'gone', mounted / 'away':
        found = [len(sample.strip().splitlines()) - 1 for sample in text.split('\n\n') if f'({program})' in sample]
        short = [frames for frames in found if frames < CALLS + 4]  # also while it calls itself
        assert len(found) >= 30 and len(short) <= len(found) // 20, (short, done.err)


def test_short_processes(millrace, programs, tmp_path):
    """They have ended when their samples are looked at."""
    path = tmp_path / 'perf.data'
    script = f'for i in $(seq 40); do {programs}/deep -m 10; done'
    done = millrace('record', *UNWIND, '-F', '997', '-o', path, '--', 'sh', '-c', script)
    check_chains(chains(millrace, path, programs), least=100, said=done.err)


def test_killed_recorder(recorder, millrace, programs, spawn, tmp_path):
    """What is in the file while it grows, and what SIGKILL leaves."""
    path, whole = tmp_path / 'perf.data', tmp_path / 'whole'
    process = recorder([*UNWIND, '-a', '-o', path])
    load = spawn([programs / 'deep', '-m', '60000'])
    of_load = struct.pack('<2I', load.pid, load.pid)  # in its samples; what runs already may fill megabytes
    wait_until(lambda: path.stat().st_size > 1 << 20 and path.read_bytes().count(of_load) > 100, 'the file has samples')
    assert SECRET not in path.read_bytes()
    process.kill()
    process.wait()
    load.kill()
    assert SECRET not in path.read_bytes()
    millrace('recover', '-o', whole, path)
    check_chains(chains(millrace, whole, programs))


def size_of(path):
    return sum(file.stat().st_size for file in files_of(path)) if path.exists() else 0


@pytest.mark.parametrize('killed', [False, True], ids=['ended', 'killed'])
@pytest.mark.parametrize('options', [[], ['--threads'], ['--threads', '--single-file']],
                         ids=['file', 'directory', 'single-file'])
def test_no_stack_is_compressed(options, killed, recorder, millrace, programs, spawn, tmp_path):
    """Nor is it in what -z has compressed. Of stack dumps, which are in a file, the same search finds it."""
    for mode in 'unwind', 'dwarf':
        path, whole, plain = tmp_path / mode, tmp_path / f'{mode}.whole', tmp_path / f'{mode}.plain'
        load = spawn([programs / 'deep', '-m', '60000'])
        process = recorder(['-F', '4000', '-e', 'cpu-clock', '--call-graph', mode, '-z', *options, '-p', str(load.pid),
                            '-o', path])
        start = size_of(path)
        wait_until(lambda: size_of(path) > start + (16 << 10), 'the output has samples')
        process.send_signal(signal.SIGKILL if killed else signal.SIGINT)
        process.communicate()
        load.kill()
        if killed:
            millrace('recover', '-o', whole, path)
        millrace('merge', '-o', plain, whole if killed else path)
        check_chains(chains(millrace, plain, programs))
        assert (SECRET in plain.read_bytes()) == (mode == 'dwarf')


def test_stacks_that_do_not_fit(millrace, programs, tmp_path):
    """What is cut is counted: in the summary, and in the ledger, with all other chains."""
    path = tmp_path / 'perf.data'
    done = millrace('record', '-F', '497', '-e', 'cpu-clock', '--call-graph', 'unwind,4096', '-o', path, '--',
                    programs / 'deep', '-m', '150', '-b', '3000')
    cut, all_stacks = map(int, re.search(r'(\d+) of (\d+) stacks did not fit in 4 KiB', done.err).groups())
    found = chains(millrace, path, programs)
    assert 30 <= len(found) <= not_copied(done.err) <= all_stacks
    calls = [sum(name.startswith('deep_call') for name in names) for names in found]
    assert max(calls) < 3 and calls.count(0) <= min(not_copied(done.err) - cut, len(found) // 20)
    loss = millrace('report', '--loss', '-i', path).out
    counts = {name: int(number) for name, number in re.findall(r'^ *stacks (\w+) +(\d+)$', loss, re.M)}
    assert counts['cut'] == cut and sum(counts.values()) <= all_stacks


def test_stacks_that_cannot_be_copied(millrace, programs, tmp_path):
    """Where a page of the stack is not there the copy ends, of any size: the summary advises none."""
    path = tmp_path / 'perf.data'
    done = millrace('record', *UNWIND, '-o', path, '--', programs / 'deep', '-m', '150', '-a', '8192')
    short = int(re.search(r'(\d+) of \d+ stacks go on beyond the part', done.err).group(1))
    found = chains(millrace, path, programs)
    assert 30 <= len(found) <= not_copied(done.err) and 'SIZE' not in done.err
    in_main = [names for names in found if names[-1] == 'main' and
               sum(name.startswith('deep_call') for name in names) == CALLS]
    assert len(found) - len(in_main) <= len(found) // 20  # a page that is moved is not there, either
    loss = millrace('report', '--loss', '-i', path).out
    assert re.search(rf'^ *stacks copied in part +{short}$', loss, re.M)


WITH_ASSEMBLER = """
#include <time.h>
__asm__(".text; .globl spin; .type spin, @function; spin: push %rbp; mov %rdi, %rbp; mov $20000000, %eax;"
        "1: dec %eax; jnz 1b; pop %rbp; ret; .size spin, . - spin");
void spin(long *words);
int main(void)
{
    long words[4] = {0, (long)&words[2], 0, 0};
    while (clock() < CLOCKS_PER_SEC * 3 / 10)
        spin(words);
    return 0;
}
"""


@pytest.mark.skipif(not shutil.which('gcc') or platform.machine() != 'x86_64', reason='needs gcc, of x86_64')
@pytest.mark.parametrize('mode', ('unwind', 'dwarf'))
def test_what_is_no_code_is_no_frame(millrace, tmp_path, mode):
    """Assembler without unwind information uses the frame pointer for data: what lies there is no return address."""
    app, path = tmp_path / 'app', tmp_path / 'perf.data'
    subprocess.run(['gcc', '-O2', '-x', 'c', '-o', app, '-'], input=WITH_ASSEMBLER, check=True, text=True)
    millrace('record', '-F', '497', '-e', 'cpu-clock:u', '--call-graph', mode, '-o', path, '--', app)
    text = millrace('script', '-i', path, '-F', 'ip,sym').out
    samples = [re.findall(r'^\s+[0-9a-f]+ (\S+)', sample, re.M) for sample in text.split('\n\n')]
    samples = [names for names in samples if 'spin' in names]
    assert len(samples) > 10 and all(names == ['spin'] for names in samples)


WITH_A_STALE_CALLER = """
__asm__(".globl fasm\\nfasm: push %rbx; sub $24, %rsp; mov %rdi, %rax; mov $20000, %ecx\\n"
        "1: imul $3, %rax; inc %rax; dec %ecx; jnz 1b; add $24, %rsp; pop %rbx; ret");
#define ALONE __attribute__((noinline, noclone))
#define TOUCH(words) __asm__ volatile ("" : "+m"(words))
unsigned long fasm(unsigned long number);
static volatile unsigned long sink;
ALONE unsigned long leaf(unsigned long n) { __asm__ volatile (""); return n * 3; }
ALONE unsigned long helper(unsigned long n)
{
    unsigned long words[2] = {n, n}, result;
    TOUCH(words);
    result = leaf(n);
    TOUCH(words);
    return result + words[0];
}
ALONE unsigned long caller(unsigned long n) { unsigned long sum = helper(n); return sum + fasm(sum); }
int main(void) { for (int i = 0; i < 20000; i++) sink += caller((unsigned long)i); }
"""
INDIRECT = 'unsigned long (*volatile call)(unsigned long) = fasm; return sum + call(sum);'


@pytest.mark.skipif(not shutil.which('gcc') or platform.machine() != 'x86_64', reason='needs gcc, of x86_64')
@pytest.mark.parametrize('options', ([], ['-a'], ['-z'], ['--call-graph', 'dwarf']), ids=('file', 'all', 'z', 'dwarf'))
@pytest.mark.parametrize('call', ('direct', 'indirect'))
def test_who_was_called_before_is_no_caller(millrace, tmp_path, call, options):
    """Assembler without unwind information that reserves stack: an old return address lies there, at its top."""
    app, path, chains = tmp_path / 'app', tmp_path / 'perf.data', tmp_path / 'chains'
    source = WITH_A_STALE_CALLER if call == 'direct' else \
        WITH_A_STALE_CALLER.replace('return sum + fasm(sum);', INDIRECT)
    subprocess.run(['gcc', '-O2', '-x', 'c', '-o', app, '-'], input=source, check=True, text=True)
    millrace('record', '-F', '497', '-e', 'cpu-clock:u', '--call-graph', 'unwind', *options, '-o', path, '--', app)
    if 'dwarf' in options:
        millrace('unwind', '-i', path, '-o', chains)
    for file in filter(pathlib.Path.exists, (path, chains)):
        text = millrace('script', '-i', file, '-F', 'ip,sym').out
        samples = [re.findall(r'^\s+[0-9a-f]+ (\S+)', sample, re.M) for sample in text.split('\n\n')]
        samples = [names for names in samples if names and names[0] == 'fasm']
        assert len(samples) > 20 and not [names for names in samples if 'helper' in names]


WITH_A_HANDLER = """
#include <signal.h>
#include <sys/time.h>
static volatile unsigned long sink;
static volatile sig_atomic_t left = 60;
__attribute__((noinline)) void in_handler(void)
{
    for (int i = 0; left && i < 5000000; i++)
        sink += i;
    left -= left > 0;
}
static void handler(int nr) { (void)nr; in_handler(); sink++; }
__attribute__((noinline)) void interrupted(void) { while (left) sink++; }
static char stack[65536];
int main(void)
{
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
    const struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    const struct itimerval every = {{0, 2000}, {0, 2000}};
    sigaltstack(&other, 0);
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &every, 0);
    interrupted();
    return 0;
}
"""


@pytest.mark.skipif(not shutil.which('gcc') or platform.machine() != 'x86_64', reason='needs gcc, of x86_64')
@pytest.mark.parametrize('joined', (False, True), ids=('counted', 'joined'))
def test_signal_handlers_with_a_stack_of_their_own(millrace, tmp_path, joined):
    """The chain ends in the function that was interrupted, and is counted as such; frame pointers lead on from it."""
    app, path = tmp_path / 'app', tmp_path / 'perf.data'
    subprocess.run(['gcc', *(['-O0'] if joined else ['-O2', '-fomit-frame-pointer']), '-x', 'c', '-o', app, '-'],
                   input=WITH_A_HANDLER, check=True, text=True)
    done = millrace('record', '-F', '497', '-e', 'cpu-clock:u', '--call-graph', 'unwind', '-o', path, '--', app)
    text = millrace('script', '-i', path, '-F', 'ip,sym').out
    samples = [re.findall(r'^\s+[0-9a-f]+ (\S+)', sample, re.M) for sample in text.split('\n\n')]
    samples = [names for names in samples if 'in_handler' in names and 'interrupted' in names]
    ends = [names[names.index('interrupted') + 1] if names[-1] != 'interrupted' else '' for names in samples]
    counted = sum(map(int, re.findall(r'(\d+) of \d+ stacks are of signal handlers', done.err)))
    assert len(samples) > 10
    if joined:  # but not where the kernel just moves a page of the stack
        assert ends.count('main') >= len(samples) - len(samples) // 20
        return
    assert set(ends) == {''} and counted >= len(samples) and 'SIZE' not in done.err
    loss = millrace('report', '--loss', '-i', path).out
    assert re.search(rf'^ *stacks of signal handlers +{counted}$', loss, re.M)


# As musl: signal handlers return to code without call frame information, behind a function whose symbol has no size.
WITHOUT_RESTORER = """
asm(".globl before, _start\\n.type before, @function\\nbefore: ret\\nnop\\nrestorer: mov $15, %rax\\nsyscall\\n"
    ".type _start, @function\\n_start:\\n.cfi_startproc\\n.cfi_undefined rip\\nmov %rsp, %rdi\\nand $-16, %rsp\\n"
    "call outer\\n.cfi_endproc\\n.size _start, .-_start\\n");
extern void restorer(void) __attribute__((visibility("hidden")));
static volatile long sink;
static long call(long nr, long a, long b, long c, long d)
{
    register long r10 asm("r10") = d;
    asm volatile("syscall" : "+a"(nr) : "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return nr;
}
void handler(int signal) { for (long i = 0; i < 150000000; i++) sink += i; }
__attribute__((noinline)) void interrupted(void) { call(62, call(39, 0, 0, 0, 0), 10, 0, 0); sink++; }
void outer(void)
{
    const struct { void *handler; long flags; void *restorer; long mask; } action = {handler, 0x4000000, restorer, 0};
    call(13, 10, (long)&action, 0, 8);
    interrupted();
    call(231, 0, 0, 0, 0);
}
"""


@pytest.mark.skipif(not shutil.which('gcc') or platform.machine() != 'x86_64', reason='needs gcc, of x86_64')
def test_signal_handlers_of_a_libc_without_cfi(millrace, tmp_path):
    """The chain leads through what was interrupted, and what the handler returns to has no name of another function."""
    app, path = tmp_path / 'app', tmp_path / 'perf.data'
    subprocess.run(['gcc', '-O2', '-static-pie', '-fpie', '-nostdlib', '-fomit-frame-pointer', '-s', '-Wl,-E', '-w',
                    '-fno-stack-protector', '-x', 'c', '-o', app, '-'], input=WITHOUT_RESTORER, check=True, text=True)
    millrace('record', '-F', '497', '-e', 'cpu-clock:u', '--call-graph', 'unwind', '-o', path, '--', app)
    text = millrace('script', '-i', path, '-F', 'ip,sym').out
    samples = [re.findall(r'^\s+[0-9a-f]+ (\S+)', sample, re.M) for sample in text.split('\n\n')]
    samples = [names for names in samples if 'handler' in names]
    whole = [names for names in samples if names == ['handler', '__restore_rt', 'interrupted', 'outer', '_start']]
    assert len(samples) > 10 and len(whole) >= len(samples) - len(samples) // 20, samples


@pytest.mark.skipif(not shutil.which('gcc'), reason='needs gcc')
def test_loader(millrace, tmp_path):
    """glibc's has no unwind information where it starts, up to 2.37: a stack in it is whole."""
    app, path = tmp_path / 'app', tmp_path / 'perf.data'
    # main() calls nothing: what is opened the loader opens.
    source = 'int main(void) { return 0; }'
    subprocess.run(['gcc', '-O2', '-o', app, '-x', 'c', '-'], input=source, check=True, text=True)
    done = millrace('record', '-e', 'syscalls:sys_enter_openat', '--call-graph', 'unwind', '-o', path, '--', app)
    samples = [re.findall(r'^\s+[0-9a-f]+ (\S+)', sample, re.M)
               for sample in millrace('script', '-i', path, '-F', 'ip,sym').out.strip().split('\n\n')]
    assert len(samples) > 1 and all(names[-1] == '_start' for names in samples), samples
    cost = json.loads(millrace('report', '--loss', '--json', '-i', path).out)['cost']
    assert cost['stacks whole'] == len(samples) and 'without unwind information' not in done.err, (cost, done.err)


WITHOUT_EH_FRAME = """
#include <time.h>
static volatile unsigned long sink;
__attribute__((noinline)) void inner(void) { for (int i = 0; i < 10000000; i++) sink += i; }
__attribute__((noinline)) void middle(int n) { volatile char b[64]; b[0] = n; inner(); sink += b[0]; }
__attribute__((noinline)) void outer(int n) { volatile char b[128]; b[0] = n; middle(n); sink += b[0]; }
int main(int argc, char **argv) { while (clock() < CLOCKS_PER_SEC * 3 / 10) outer(argc); return 0; }
"""


@pytest.mark.skipif(not shutil.which('gcc') or not shutil.which('objcopy') or platform.machine() != 'x86_64',
                    reason='needs gcc and objcopy, of x86_64')
@pytest.mark.parametrize('debug', ('right', 'other', 'none'))
def test_unwind_information_in_a_separate_file(debug, millrace, tmp_path):
    """It counts where that file has the build-id of the program."""
    app, path = tmp_path / 'app', tmp_path / 'perf.data'

    def build(option):
        subprocess.run(['gcc', '-O2', '-g', '-fno-asynchronous-unwind-tables', '-fno-exceptions', '-Wl,--build-id',
                        option, '-x', 'c', '-o', app, '-'], input=WITHOUT_EH_FRAME, check=True, text=True)
        subprocess.run(['objcopy', '--only-keep-debug', app, f'{app}.debug'], check=True)

    build('-fomit-frame-pointer')
    subprocess.run(['objcopy', '--strip-debug', f'--add-gnu-debuglink={app}.debug', app, tmp_path / 'stripped'],
                   check=True)
    if debug == 'other':
        build('-DOTHER')
    elif debug == 'none':
        (tmp_path / 'app.debug').unlink()
    done = millrace('record', '-v', '-F', '497', '-e', 'cpu-clock:u', '--call-graph', 'unwind', '-o', path, '--',
                    tmp_path / 'stripped')
    text = millrace('script', '-i', path, '-F', 'ip,sym').out
    samples = [re.findall(r'^\s+[0-9a-f]+ (\S+)', sample, re.M) for sample in text.split('\n\n')]
    samples = [names for names in samples if names[:1] == ['inner']]
    whole = [names for names in samples if names[:4] == ['inner', 'middle', 'outer', 'main'] and names[-1] == '_start']
    assert len(samples) >= 20
    assert len(whole) >= len(samples) - len(samples) // 20 if debug == 'right' else not whole
    assert ('lead into code without unwind information' in done.err) == (debug != 'right')


# C that Go calls, and Go that this C calls; each uses half of the time.
CGO = """
package main
/*
static volatile unsigned long sink;
extern void called_by_c(void);
static __attribute__((noinline)) void c_inner(void) { for (int i = 0; i < 15000000; i++) sink += i; }
static __attribute__((noinline)) void c_outer(void) { c_inner(); called_by_c(); sink++; }
static void called_by_go(void) { c_outer(); sink++; }
*/
import "C"
import "syscall"

var sink int

//export called_by_c
func called_by_c() { go_inner() }

//go:noinline
func go_inner() { for i := 0; i < 10000000; i++ { sink += i } }

//go:noinline
func go_outer() { C.called_by_go(); sink++ }

func main() {
	var usage syscall.Rusage
	for usage.Utime.Sec*1000000+usage.Utime.Usec < 800000 { // however fast the machine is
		go_outer()
		syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	}
}
"""


@pytest.mark.skipif(not shutil.which('go') or not shutil.which('gcc') or platform.machine() != 'x86_64',
                    reason='needs go and gcc, of x86_64')
def test_go_and_c_call_each_other(millrace, run, tmp_path):
    """No frame of an earlier time is taken for a caller where stacks are switched; the goroutine's frames follow."""
    path = tmp_path / 'perf.data'
    (tmp_path / 'main.go').write_text(CGO)
    (tmp_path / 'go.mod').write_text('module both\n')
    run(['go', 'build', '-o', 'app', '.'], cwd=tmp_path, timeout=300)
    millrace('record', '-F', '497', '-e', 'cpu-clock:u', '--call-graph', 'unwind', '-o', path, '--', tmp_path / 'app')
    text = millrace('script', '-i', path, '-F', 'ip,sym').out
    samples = [re.findall(r'^\s+[0-9a-f]+ (\S+)', sample, re.M) for sample in text.split('\n\n')]
    samples = [[re.sub(r'\.abi0$', '', name) for name in names] for names in samples]
    outer = ['main.main', 'runtime.main', 'runtime.goexit']
    for inner, switch in ('c_inner', 'runtime.asmcgocall'), ('main.go_inner', 'runtime.systemstack_switch'):
        found = [names for names in samples if names[:1] == [inner]]
        whole = [names for names in found if switch in names and 'main.go_outer' in names and names[-3:] == outer]
        assert len(found) >= 30 and len(whole) >= len(found) - len(found) // 20, found


# Two libraries with the same offsets and other frames.
TAKES_TURNS = """
#include <dlfcn.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    for (int i = 0; i < atoi(argv[3]); i++) {
        void *library = dlopen(argv[1 + i % 2], RTLD_NOW);
        ((void (*)(void))dlsym(library, "outer"))();
        dlclose(library);
    }
    return 0;
}
"""
LIBRARY = """
#define FRAME(bytes) volatile char frame[bytes]; frame[0] = 0
__attribute__((noinline)) void %c_inner(void) { FRAME(BYTES); for (int i = 0; i < 30000; i++) frame[1] += i; }
__attribute__((noinline)) void %c_mid(void) { FRAME(BYTES / 2); %c_inner(); frame[1]++; }
void outer(void) { FRAME(BYTES / 4); %c_mid(); frame[1]++; }
"""


@pytest.mark.skipif(not shutil.which('gcc') or platform.machine() != 'x86_64', reason='needs gcc, of x86_64')
@pytest.mark.parametrize('rings', ('2M', '64K'))
def test_libraries_that_take_turns_at_an_address(millrace, tmp_path, rings):
    """Each sample is unwound by what was mapped at its time, wherever that is done."""
    app, path = tmp_path / 'app', tmp_path / 'perf.data'
    subprocess.run(['gcc', '-O2', '-x', 'c', '-o', app, '-'], input=TAKES_TURNS, check=True, text=True)
    for name, frame in (('a', 200), ('b', 1600)):
        subprocess.run(['gcc', '-O2', '-fomit-frame-pointer', '-shared', '-fPIC', f'-DBYTES={frame}', '-x', 'c',
                        '-o', tmp_path / f'{name}.so', '-'], input=LIBRARY.replace('%c', name), check=True, text=True)
    time.sleep(0.1)  # what was written less than 25 ms before it is mapped may have been something else: no names
    done = millrace('record', '-m', rings, '-F', '9999', '-e', 'cpu-clock:u', '--call-graph', 'unwind,8192', '-o',
                    path, '--', app, tmp_path / 'a.so', tmp_path / 'b.so', 8000)
    text = millrace('script', '-i', path, '-F', 'ip,sym').out
    chains = [re.findall(r'^\s+[0-9a-f]+ (\S+)', sample, re.M) for sample in text.split('\n\n')]
    for name in ('a', 'b'):
        found = [names for names in chains if names and names[0] == f'{name}_inner']
        wrong = [names for names in found
                 if names[1:4] != [f'{name}_mid', 'outer', 'main'] or not names[-1].startswith('_start')]
        assert len(found) > 100
        assert len(wrong) <= not_copied(done.err), (wrong, done.err)


def test_the_kernels_part_only(millrace, programs, tmp_path):
    """Nothing is unwound, neither of an option nor of a term."""
    path = tmp_path / 'perf.data'
    for options in (UNWIND, ['-F', '497', '-e', 'cpu-clock/call-graph=unwind/']):
        done = millrace('record', '-v', *options, '--kernel-callchains', '-o', path, '--', programs / 'deep', '-m',
                        '150')
        attr = PerfData(path).attrs[0]
        assert attr.sample_type & CALLCHAIN and not attr.sample_type & STACK_USER and 'unwinding' not in done.err
        text = millrace('script', '-i', path, '-F', 'comm,ip,sym').out
        assert text.count('deep') >= 30 and 'deep_' not in text


def test_events_without_it_stay_as_they_are(millrace, programs, tmp_path):
    path = tmp_path / 'perf.data'
    millrace('record', '-F', '497', '-e', 'cpu-clock/call-graph=unwind/,task-clock/call-graph=dwarf/,page-faults',
             '-o', path, '--', programs / 'deep', '-m', '150')
    types = [attr.sample_type for attr in PerfData(path).attrs]
    assert types[0] & CALLCHAIN and not types[0] & STACK_USER
    assert types[1] & STACK_USER and not types[2] & (CALLCHAIN | STACK_USER)
    found = chains(millrace, path, programs)
    assert len(found) >= 60 and all(sum('deep_call' in name for name in names) == CALLS for names in found)


def test_ordinary_user(millrace, program, run, programs, steady_sysctl, tmp_path):
    if int(pathlib.Path('/proc/sys/kernel/perf_event_paranoid').read_text()) > 2:
        pytest.skip('kernel.perf_event_paranoid is above 2')
    place = pathlib.Path(subprocess.run(['mktemp', '-d', '/tmp/millrace-unwind.XXXXXX'], check=True, text=True,
                                        stdout=subprocess.PIPE).stdout.strip())
    try:
        place.chmod(0o777)
        for source in program, programs / 'deep':
            shutil.copy(source, place / source.name)
        options = ['-F', '497', '-e', 'cpu-clock:u', '--call-graph', 'unwind', '-o', place / 'perf.data']
        done = run(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', place / program.name, 'record',
                    *options, '--', place / 'deep', '-m', '150'], cwd=place)
        os.chown(place / 'perf.data', 0, 0)
        check_no_stack(place / 'perf.data')
        check_chains(chains(millrace, place / 'perf.data', place), said=done.err)
    finally:
        shutil.rmtree(place)


RUN_FROM_MEMORY = """
import os, sys
fd = os.memfd_create('deep')
os.write(fd, open(sys.argv[1], 'rb').read())
os.execve(fd, sys.argv[1:], os.environ)
"""


@pytest.mark.parametrize('where', ('deleted', 'memfd', 'memfd-bundle'))
def test_program_without_a_file_of_an_ordinary_user(where, program, run, programs, steady_sysctl):
    """It is opened as what the process runs: to open its mapping would need a capability."""
    if int(pathlib.Path('/proc/sys/kernel/perf_event_paranoid').read_text()) > 2:
        pytest.skip('kernel.perf_event_paranoid is above 2')
    place = pathlib.Path(subprocess.run(['mktemp', '-d', '/tmp/millrace-unwind.XXXXXX'], check=True, text=True,
                                        stdout=subprocess.PIPE).stdout.strip())
    user = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', 'env', f'HOME={place}']
    try:
        place.chmod(0o777)
        for source in program, programs / 'deep':
            shutil.copy(source, place / source.name)
        command = {'deleted': ['sh', '-c', f'{place}/deep -m 60000 & p=$!; '
                               f'until [ "$(readlink /proc/$p/exe)" = {place}/deep ]; do sleep 0.01; done; '
                               f'rm {place}/deep; {place}/{program.name} record "$@" -p $p -- '
                               f'sh -c "while [ \\$(cut -d\\  -f14 /proc/$p/stat) -lt 30 ]; do sleep 0.05; done"; '
                               f'kill $p', 'sh']}.get(where, [place / program.name, 'record'])
        options = ['-F', '497', '-e', 'cpu-clock:u', '--call-graph', 'unwind', '-o', place / 'perf.data']
        if where != 'deleted':
            options += [*(['--bundle'] if where == 'memfd-bundle' else []), '--', sys.executable, '-c',
                        RUN_FROM_MEMORY, place / 'deep', '-m', '150']
        done = run([*user, *command, *options], cwd=place)
        text = run([*user, place / program.name, 'script', '-i', place / 'perf.data', '-F', 'ip,sym'], cwd=place).out
    finally:
        shutil.rmtree(place)
    samples = [re.findall(r'^\s+[0-9a-f]+ (\S+)', sample, re.M) for sample in text.split('\n\n')]
    check_chains([names for names in samples if any(name.startswith('deep_burn') for name in names)], said=done.err)


@pytest.mark.parametrize('options,words', [
    (['--max-stack=0'], ['1 to 1024']),
    (['--max-stack=1025'], ['1 to 1024']),
    (['--no-timestamp'], ['times']),
    (['--user-regs=ip,sp'], ['--user-regs']),
    (['--call-graph', 'unwind,0'], ['unwind,0', '65528']),
    (['--call-graph', 'unwind,1M'], ['unwind,1M', '65528']),
    (['--call-graph', 'unwound'], ['unwind,SIZE']),
])
def test_what_is_refused(options, words, millrace, tmp_path):
    done = millrace('record', *UNWIND, *options, '-o', tmp_path / 'x', '--', 'true', status=None)
    assert done.status in (USAGE, ERROR) and not (tmp_path / 'x').exists()
    for word in words:
        assert word in done.err
