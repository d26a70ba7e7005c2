# SPDX-License-Identifier: MIT
"""--flight: the last moments of a normal recording, kept in memory and written on request."""

import os
import re
from collections import Counter

import pytest

CALLS = 100000
COUNTED = ['-m', '4096', '-e', 'raw_syscalls:sys_enter', '--filter', 'id == 110']  # getppid; its first argument counts


def files(tmp_path):
    return sorted(tmp_path.glob('p.data*'))


def wait_for(file, nr):
    """Shell: until so many files are whole."""
    return f'until [ $(ls {file}.2*[0-9] 2>/dev/null | wc -l) -ge {nr} ]; do sleep 0.02; done'


def numbers(script):
    """The counted calls, as they are printed."""
    found = [line.split('NR 110 (')[1] for line in script.splitlines() if line.split()[0] != 'sh']
    return [int(text.split(',')[0], 16) for text in found]


@pytest.mark.parametrize('options', [[], ['--writer=mmap'], ['--side-channel=off'], ['--threads'],
                                     ['--threads', '--writer=aio']], ids=' '.join)
def test_size_is_the_limit(millrace, perf, programs, need_tracefs, tmp_path, options):
    """The newest calls, without a gap, and no more than there is memory for; perf reads the same."""
    file = tmp_path / 'p.data'
    done = millrace('record', '--flight=1000s,128K', *options, *COUNTED, '-o', file, '--',
                    'sh', '-c', f'taskset -c 0 {programs}/syscalls -t 1 -n {CALLS} >/dev/null; kill -USR2 $PPID; '
                                f'{wait_for(file, 1)}')
    assert len(files(tmp_path)) == 1 and 'the last ' in done.err
    calls = numbers(millrace('script', '-i', files(tmp_path)[0]).out)
    assert calls[-1] == CALLS - 1 and 0 < len(calls) < CALLS
    if 'lost 0' in done.err:
        assert calls == list(range(calls[0], CALLS))
    assert files(tmp_path)[0].stat().st_size < 1 << 20
    script = perf('script', '-i', files(tmp_path)[0], status=None)
    if 'build-id.c' in script.err:
        pytest.skip('another recorder has --buildid-mmap for all tasks: the kernel marks our maps, too, '
                    'and perf 6.1 fails on them')
    assert script.status == 0 and numbers(script.out) == calls and 'out of order' not in script.err


@pytest.mark.parametrize('options', [[], ['--threads']], ids=' '.join)
def test_nothing_is_written_unasked(millrace, tmp_path, options):
    done = millrace('record', '--flight=10s', *options, '-e', 'cpu-clock', '-o', tmp_path / 'p.data', '--', 'true')
    assert not files(tmp_path) and 'no snapshot was requested' in done.err


@pytest.mark.parametrize('options', [[], ['--threads']], ids=' '.join)
def test_tasks_that_have_ended(millrace, tmp_path, options):
    """They call into a library and end before anybody asks: in each file all is known."""
    file = tmp_path / 'p.data'
    task = 'awk "BEGIN { for (i = 0; i < 2e5; i++) x += sin(i) }"'
    rounds = ''.join(f'{task}; {task}; kill -USR2 $PPID; {wait_for(file, nr)}; ' for nr in (1, 2, 3))
    millrace('record', '--flight=1000s', *options, '-c', '100000', '-e', 'cpu-clock:u', '-o', file, '--', 'sh',
             '-c', rounds)
    assert len(files(tmp_path)) == 3
    for part in files(tmp_path):
        lines = millrace('script', '-i', part).out.splitlines()
        assert any(line.split()[0] == 'awk' and 'libm' in line for line in lines)
        assert not [line for line in lines if line.lstrip().startswith(':') or '([unknown])' in line]


def test_tasks_of_which_the_window_lost_the_start(millrace, programs, need_tracefs, tmp_path):
    """The names and maps of a task are dropped with the oldest extents, and are told all the same."""
    file = tmp_path / 'p.data'
    millrace('record', '--flight=1000s,64K', *COUNTED, '-o', file, '--',
             'sh', '-c', f'taskset -c 0 {programs}/syscalls -t 1 -n {CALLS} >/dev/null; kill -USR2 $PPID; '
                         f'{wait_for(file, 1)}')
    lines = millrace('script', '-i', files(tmp_path)[0]).out.splitlines()
    assert 0 < len(lines) < CALLS and {line.split()[0] for line in lines} - {'sh'} == {'syscalls'}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason='one CPU')
@pytest.mark.parametrize('options', [[], ['--threads=cpu']], ids=' '.join)
def test_task_events_are_written_once(millrace, programs, need_tracefs, tmp_path, options):
    """What the thread of one CPU has dropped, which is a lot, says nothing about what another thread still has."""
    file = tmp_path / 'p.data'
    here, other = sorted(os.sched_getaffinity(0))[:2]
    tasks = f'taskset -c {here} true; taskset -c {other} true; ' * 5
    millrace('record', '--flight=1000s,128K', *options, *COUNTED, '-m', '128', '-o', file, '--', 'sh', '-c',
             f'taskset -c {here} {programs}/syscalls -t 1 -n {CALLS} >/dev/null; {tasks} kill -USR2 $PPID; '
             f'{wait_for(file, 1)}')
    script = millrace('script', '-i', files(tmp_path)[0], '--show-task-events').out
    for kind in ('FORK', 'EXIT'):
        counts = Counter(re.findall(rf'PERF_RECORD_{kind}\(\d+:(\d+)\)', script))
        assert len(counts) >= 2 * 5 and set(counts.values()) == {1}, kind


def test_post(millrace, programs, need_tracefs, tmp_path):
    """Calls go on until the file is there: it holds such that were made after it was asked for."""
    file = tmp_path / 'p.data'
    calls = f'{programs}/syscalls -t 1 -n 100 >/dev/null'
    loop = wait_for(file, 1).replace('sleep 0.02', f'{calls}; sleep 0.02')
    done = millrace('record', '--flight=1000s', '--flight-post=1s', '-e', 'syscalls:sys_enter_getppid', '-o', file,
                    '--', 'sh', '-c', f'{calls}; kill -USR2 $PPID; {loop}')
    assert len(files(tmp_path)) == 1, done.err
    lines = millrace('script', '-i', files(tmp_path)[0]).out.splitlines()
    runs = {line.split()[1] for line in lines if line.split()[0] == 'syscalls'}
    assert len(runs) >= 2


def test_the_end_comes_before_the_post(millrace, tmp_path):
    """A snapshot that was requested is written, also when the recording ends before it is."""
    millrace('record', '--flight=10s', '--flight-post=1h', '-e', 'cpu-clock', '-o', tmp_path / 'p.data', '--', 'sh',
             '-c', 'kill -USR2 $PPID; sleep 0.2; kill -USR2 $PPID; sleep 0.2')
    assert len(files(tmp_path)) == 1


def test_threads_forget_nothing(millrace, programs, need_tracefs, tmp_path):
    """As long as there is room: each call is in one of the files, from whatever CPU a thread drained it."""
    file, made = tmp_path / 'p.data', 5000
    rounds = ''.join(f'{programs}/syscalls -t 3 -n {made} >/dev/null; kill -USR2 $PPID; {wait_for(file, nr)}; '
                     for nr in (1, 2, 3))
    millrace('record', '--flight=1000s', '--threads', *COUNTED, '-o', file, '--', 'sh', '-c', rounds)
    calls = Counter()
    for part in files(tmp_path):
        calls.update(numbers(millrace('script', '-i', part).out))
    assert calls == Counter({number: 3 * 3 for number in range(made)})


@pytest.mark.parametrize('asked', ['true', 'kill -USR2 $PPID'])
def test_rings_that_are_overwritten(millrace, programs, need_tracefs, tmp_path, asked):
    """What they hold at the end is in the file that was asked for, and in none if there is none."""
    calls = f'{programs}/syscalls -t 1 -n 100 >/dev/null'
    millrace('record', '--flight=1000s', '--flight-post=1h', '--overwrite', '-m', '64',
             '-e', 'syscalls:sys_enter_getppid', '-o', tmp_path / 'p.data', '--', 'sh',
             '-c', f'{calls}; {asked}; {calls}')
    assert len(files(tmp_path)) == (asked != 'true')
    for part in files(tmp_path):
        lines = millrace('script', '-i', part).out.splitlines()
        assert sum(line.split()[0] == 'syscalls' for line in lines) == 200


@pytest.mark.parametrize('options, end', [([], 'exec sleep 1000'), (['--threads'], 'exec sleep 1000'),
                                          (['--flight-post=1h'], 'true'), (['--threads', '--flight-post=1h'], 'true')],
                                          ids=lambda value: ' '.join(value))
def test_a_directory_that_vanishes(millrace, tmp_path, options, end):
    """What was held and has no file is told, whether the recording goes on or ends."""
    (tmp_path / 'd').mkdir()
    done = millrace('record', '--flight=1000s', *options, '-e', 'cpu-clock', '-o', tmp_path / 'd' / 'p.data', '--',
                    'sh', '-c', f'rm -r {tmp_path}/d; kill -USR2 $PPID; {end}', status=255)
    assert done.err.count('cannot create') == 1 and 'bytes of records could not be written' in done.err


def test_a_full_disk(millrace, programs, need_tracefs, tmpfs):
    disk = tmpfs('1m')
    (disk / 'ballast').write_bytes(bytes(900 << 10))
    done = millrace('record', '--flight=1000s,8M', *COUNTED, '-o', disk / 'p.data', '--',
                    'sh', '-c', f'{programs}/syscalls -t 1 -n 200000 >/dev/null; kill -USR2 $PPID; exec sleep 1000',
                    status=255)
    assert 'No space left' in done.err


@pytest.mark.parametrize('options', [['--flight=10'], ['--flight=10M'], ['--flight=10s,10s'], ['--flight=10s,'],
                                     ['--flight-post=1s'], ['--flight=1s', '--switch-output=1M'],
                                     ['--flight=1s', '-o', '-'], ['--flight=1s', '--max-size=1M'],
                                     ['--flight=1s', '--tail-synthesize']], ids=' '.join)
def test_what_does_not_go_together(millrace, options):
    assert '--flight' in millrace('record', *options, '-e', 'cpu-clock', '--', 'true', status=129).err


# Runs a copy of a program until the recorder holds it, deletes it, and goes on until the recorder lets it go.
DELETED = '''
held() { ls -l /proc/$PPID/fd | grep -q "$1 (deleted)"; }
parts() { ls $FILE.*[0-9] 2>/dev/null | wc -l; }
next() { n=$(parts); kill -USR2 $PPID; until [ $(parts) -gt $n ]; do sleep 0.02; done; }
ticks() { read -r line </proc/$1/stat; set -- ${line##*) }; echo ${12}; }
run() { until=$(($(ticks $1) + 10)); until [ $(ticks $1) -ge $until ]; do sleep 0.02; done; }
cp $SPIN lasting; cp $SPIN gone; sleep 0.1 # what was written just before it is mapped may be thought to be written over
./lasting -t 1 -m 600000 & lasting=$!
./gone -t 1 -m 600000 & gone=$!
run $lasting; run $gone; rm lasting gone
until held lasting && held gone; do sleep 0.02; done
kill $gone; next
while held gone; do sleep 0.02; done
held lasting && echo "one that runs is held"
run $lasting; next; kill $lasting
'''


def test_deleted_programs_are_let_go(millrace, programs, tmp_path, need_root):
    """Their disk has their room again when nothing in memory is of them, also without a snapshot."""
    file, home = tmp_path / 'data', {**os.environ, 'HOME': str(tmp_path / 'home')}
    done = millrace('record', '-q', '-e', 'cpu-clock:u', '-F', '999', '-o', file, '--flight=1s', '--', 'sh', '-c',
                    DELETED, cwd=tmp_path, env={**home, 'FILE': str(file), 'SPIN': str(programs / 'spin')}, timeout=120)
    assert done.out.splitlines() == ['one that runs is held']
    first, last = sorted(tmp_path.glob('data.2*'))
    for part, runs in ((first, {'gone', 'lasting'}), (last, {'lasting'})):
        out = millrace('report', '-i', part, '-g', 'none', '-s', 'dso,sym', '--dsos', 'gone,lasting', env=home).out
        assert set(re.findall(r'% +(\w+) +\[\.\] spin_', out)) == runs and '0x' not in out, out


# A program that was installed since the recording began, and mapped before the oldest record that a snapshot has.
INSTALLED = '''
cp $SPIN installed; sleep 0.1; ./installed -t 1 -m 600000 & installed=$!
until ls -l /proc/$PPID/fd | grep -q "installed"; do sleep 0.02; done
sleep 2; $REMOVE installed
kill -USR2 $PPID; until ls $FILE.*[0-9] 2>/dev/null; do sleep 0.02; done
kill $installed
'''


@pytest.mark.parametrize('remove', ['rm', 'test -e'])
def test_program_that_was_installed_since(millrace, programs, tmp_path, need_root, remove):
    """What a snapshot says was mapped when it begins was not mapped when the recording began."""
    file, home = tmp_path / 'data', {**os.environ, 'HOME': str(tmp_path / 'home')}
    millrace('record', '-q', '-e', 'cpu-clock:u', '-F', '999', '-o', file, '--flight=1s', '--', 'sh', '-c', INSTALLED,
             cwd=tmp_path, env={**home, 'FILE': str(file), 'SPIN': str(programs / 'spin'), 'REMOVE': remove})
    out = millrace('report', '-i', min(tmp_path.glob('data.2*')), '-g', 'none', '-s', 'dso,sym', '--dsos', 'installed',
                   env=home).out
    assert re.search(r'% +\[\.\] spin_', out) and '0x' not in out, out
