# SPDX-License-Identifier: MIT
"""--filter and --exclude-perf: the kernel drops what the user does not want."""
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import sanitized  # noqa: E402
from perfdata import PerfData  # noqa: E402

# For sh(1) under a recorder: one more file is there, and is written for a while.
NEXT_FILE = 'nr=$((nr + 1)); kill -USR2 $PPID; until [ $(ls | grep -c "x.data.*[0-9]$") -ge $nr ]; do :; done; '


def test_filters_add_up(millrace, perf, need_tracefs, tmp_path):
    """Of the shell's writes of 1 to 9 bytes those of 3 to 5 are wanted."""
    file = tmp_path / 'x.data'
    script = 'for i in 1 22 333 4444 55555 666666 7777777; do printf %s $i >/dev/null; done'
    millrace('record', '-q', '-o', file, '-e', 'syscalls:sys_enter_write', '--filter', 'count > 2', '--filter',
             'count < 6 || count == 99', '--', 'sh', '-c', script)
    lines = perf('script', '-i', file, '-F', 'event,trace').out.splitlines()
    assert [int(line.split('count: ')[1].split(')')[0], 16) for line in lines] == [3, 4, 5]


@pytest.mark.parametrize('options', [[], ['--threads'], ['--writer=mmap']])
def test_own_calls_left_out(program, need_tracefs, spawn, tmp_path, options):
    file = tmp_path / 'x.data'
    spawn(['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=1'], stderr=subprocess.DEVNULL)
    recorder = spawn([program, 'record', '-q', '-B', *options, '-o', file, '-a', '-e', 'raw_syscalls:*',
                      '--exclude-perf', '--', 'sleep', '0.1'])
    assert recorder.wait(60) == 0
    files = [file / name.name for name in file.iterdir() if name.name != 'data'] if file.is_dir() else [file]
    if file.is_dir():
        merged = tmp_path / 'merged.data'
        subprocess.run([program, 'merge', '-o', merged, file], check=True, stderr=subprocess.DEVNULL)
        files = [merged]
    pids = [sample.pid for sample in PerfData(files[0]).samples()]
    assert pids
    assert recorder.pid not in pids


@pytest.mark.parametrize('option', ['--switch-output=signal', '--flight=5s'])
def test_own_calls_left_out_of_later_files(program, need_tracefs, spawn, millrace, tmp_path, option):
    """No thread of the recorder is started after those that the filter names."""
    recorder = spawn([program, 'record', '-q', '-B', option, '-o', tmp_path / 'x.data', '-a', '-e', 'raw_syscalls:*',
                      '--exclude-perf', '--', 'sh', '-c', f'nr=0; {NEXT_FILE}{NEXT_FILE}{NEXT_FILE}:'], cwd=tmp_path)
    assert recorder.wait(60) == 0
    files = list(tmp_path.iterdir())
    assert len(files) >= 3
    for file in files:
        pids = set(millrace('script', '-F', 'pid', '-i', file).out.split())
        assert pids
        assert str(recorder.pid) not in pids


def test_own_calls_left_out_of_snapshots(program, need_tracefs, spawn, millrace, tmp_path):
    """Rings that are quiet are waited for, with membarrier(2), by no thread that is started for that."""
    events = 'syscalls:sys_enter_kill,syscalls:sys_enter_membarrier'
    recorder = spawn([program, 'record', '-q', '-B', '--overwrite', '--switch-output=signal', '-o',
                      tmp_path / 'x.data', '-a', '-e', events, '--exclude-perf', '--', 'sh', '-c',
                      f'nr=0; {NEXT_FILE}{NEXT_FILE}{NEXT_FILE}:'], cwd=tmp_path)
    assert recorder.wait(60) == 0
    pids = [millrace('script', '-F', 'pid', '-i', file).out.split() for file in sorted(tmp_path.iterdir())]
    assert len(pids) >= 3 and all(pids[:3])
    assert str(recorder.pid) not in sum(pids, [])


def test_many_threads(program, programs, need_tracefs, run, tmp_path):
    """A filter may be as long as a page: the numbers of 200 threads, one by one, are longer."""
    if sanitized():
        pytest.skip('a library cannot be loaded before that of the sanitizer')
    done = run([program, 'record', '-o', tmp_path / 'x.data', '-e', 'raw_syscalls:sys_enter', '--exclude-perf', '--',
                'true'], env={'LD_PRELOAD': str(programs / 'many_threads.so'), 'MANY_THREADS': '200'})
    assert 'captured' in done.err


def test_threads_and_filter_are_too_long(millrace, need_tracefs, tmp_path):
    """Each by itself is taken."""
    wanted = ' || '.join(['id == 1'] * 371)
    options = ['-o', tmp_path / 'x.data', '-e', 'raw_syscalls:sys_enter', '--filter', wanted]
    assert 4060 < len(wanted) < 4096
    done = millrace('record', *options, '--exclude-perf', '--', 'true', status=255)
    assert len(done.err.splitlines()) == 1 and '--exclude-perf' in done.err and 'is longer than' in done.err, done.err
    assert list(tmp_path.iterdir()) == []
    millrace('record', *options, '--', 'true')


def test_numbers_of_threads_in_a_container(program, need_tracefs, run, tmp_path):
    """Other tasks than the recorder have its numbers outside, and their events were left out."""
    command = [program, 'record', '-o', tmp_path / 'x.data', '-e', 'raw_syscalls:*', '--exclude-perf', '--', 'true']
    done = run(['unshare', '-pf', '--mount-proc', *command], status=255)
    assert len(done.err.splitlines()) == 1 and '--exclude-perf: ' in done.err and 'PID namespace' in done.err, done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('arguments, words', [
    (['-e', 'sched:sched_switch', '--filter', 'nosuch == 1'], ['sched:sched_switch', 'nosuch', 'prev_pid']),
    (['-e', 'sched:sched_switch', '--filter', 'prev_pid =='], ['sched:sched_switch', 'prev_pid ==']),
    (['-e', 'sched:sched_switch', '--exclude-perf', '--filter', 'x y'], ['sched:sched_switch', 'x y']),
])
def test_refused_by_the_kernel(millrace, need_tracefs, tmp_path, arguments, words):
    """In one line, before there is a file."""
    done = millrace('record', '-o', tmp_path / 'x.data', *arguments, '--', 'true', status=255)
    assert len(done.err.splitlines()) == 1
    for word in words:
        assert word in done.err
    assert 'common_pid' not in done.err
    assert not (tmp_path / 'x.data').exists()


@pytest.mark.parametrize('arguments, word', [
    (['--filter', 'a == 1'], 'must follow the -e'),
    (['--exclude-perf'], 'must follow the -e'),
    (['-e', 'cpu-clock', '--filter', 'a == 1'], 'cpu-clock is not one'),
    (['-e', 'sched:sched_switch,dummy', '--exclude-perf'], 'dummy is not one'),
    (['-e', 'sched:sched_switch', '--filter', ' '], 'empty filter'),
])
def test_refused_by_us(millrace, need_tracefs, tmp_path, arguments, word):
    done = millrace('record', '-o', tmp_path / 'x.data', *arguments, '--', 'true', status=129)
    assert word in done.err
