# SPDX-License-Identifier: MIT
"""Rings that change threads while events flow: what comes meanwhile is captured once, or counted as lost, and files stay in order."""
import os
import re
import subprocess
import sys
import time

import pytest

from conftest import MILLRACE, wait_until
from law import check_law, loss_of
from perfdata import PerfData
from test_growth import ALONE, COUNTED, check, stopped_for_a_while
from test_threads_single_file import check_marks, check_perf

# As often as they may, and not when that is of use.
RESTLESS = {**os.environ, 'MILLRACE_RESTLESS_MS': '1'}
MOVED = 'is drained by thread'
ONE = ['--threads', '--single-file']
SMALL, GROWING = ['-m', '64K'], ['-m', '4K', '--max-memory=64M']

# Makes calls until somebody says that it is enough: neither it nor Python calls getppid(2) otherwise.
LOAD = '''
import pathlib, subprocess, sys
syscalls, told, enough = sys.argv[1:]
with open(told, "w") as out:
    while not pathlib.Path(enough).exists():
        subprocess.run([syscalls, "-t", "3", "-n", "20000"], stdout=out, check=True)
'''


@pytest.fixture
def restless(programs, need_tracefs, tmp_path, spawn):
    """restless(options, times=30, stdout, late) -> (stderr, calls made): records LOAD until rings have changed threads so
    often, and then, being late, until it has said so."""
    if os.cpu_count() < 2:
        pytest.skip('one CPU has one ring')

    def record(options, times=30, stdout=None, late=None):
        told, enough, err = tmp_path / 'told', tmp_path / 'enough', tmp_path / 'err'
        with open(err, 'wb') as stderr:
            process = spawn([MILLRACE, 'record', '-v', '-e', COUNTED, *options, '--', sys.executable, '-c', LOAD,
                             programs / 'syscalls', told, enough], stderr=stderr, stdout=stdout, env=RESTLESS)
        wait_until(lambda: err.read_text().count(MOVED) >= times or process.poll() is not None, f'{times} moves')
        if late:
            wait_until(lambda: stopped_for_a_while(process, err, late), late)
        enough.touch()
        assert process.wait(120) == 0, err.read_text()
        assert 'Sanitizer' not in err.read_text(), err.read_text()
        assert err.read_text().count(MOVED) >= times
        return err.read_text(), sum(int(line.split()[1]) for line in told.read_text().splitlines())

    return record


WAYS = {
    'directory': ['--threads', *SMALL],
    'directory, mmap': ['--threads', '--writer=mmap', *SMALL],
    'directory, uring': ['--threads', '--writer=uring,blocks=4', *SMALL],
    'directory, direct': ['--threads', '--writer=direct', *SMALL],
    'directory, zstd': ['--threads', '-z', *SMALL],
    'directory, no side channel': ['--threads', '--side-channel=off', *SMALL],
    'one file': [*ONE, *SMALL],
    'one file, direct': [*ONE, '--writer=direct', *SMALL],
    'one file, zstd': [*ONE, '-z', *SMALL],
}


@pytest.mark.parametrize('way', WAYS)
def test_nothing_is_lost_or_doubled(restless, millrace, perf, tmp_path, way):
    file, plain = tmp_path / 'p.data', tmp_path / 'plain.data'
    # In one file a ring leaves at the end of a round, of 4 MiB.
    err, made = restless([*WAYS[way], '-o', file], 3 if ONE[1] in WAYS[way] else 30)
    lost = check_law(millrace, file, 'getppid', made)
    check_perf(perf, made - lost, '-i', file)
    if '-z' in WAYS[way]:
        millrace('merge', file, '-o', plain)
        file = plain
    check([file], made, err)
    if file.is_file():
        check_marks(PerfData(file))


@pytest.mark.parametrize('how', [['--threads'], ONE], ids=' '.join)
def test_rings_grow_meanwhile(restless, millrace, perf, tmp_path, how):
    """One that is being exchanged goes when that is over."""
    file = tmp_path / 'p.data'
    err, made = restless([*how, *GROWING, '-o', file], 3, late=r'(?s)has grown.*has grown.*is drained by thread')
    check_perf(perf, made - check_law(millrace, file, 'getppid', made), '-i', file)
    check([file], made, err)


def test_records_of_a_ring_stay_in_order(restless, tmp_path):
    """In one file, as they lie there: a thread ends with a ring before the other begins."""
    file, last = tmp_path / 'p.data', {}
    restless([*ONE, *SMALL, '--sample-cpu', '-o', file], 3)
    for sample in PerfData(file).samples():
        assert last.get(sample.cpu, 0) <= sample.time
        last[sample.cpu] = sample.time


def test_the_ledger_tells(restless, millrace, tmp_path):
    file = tmp_path / 'p.data'
    err, _ = restless(['--threads', *SMALL, '-o', file])
    loss = loss_of(millrace, file)
    moves = [action for action in loss['actions'] if action['deed'] == 'thread changed']
    assert len(moves) == err.count(MOVED)
    at = {}
    for move in moves:  # from where it went before
        assert move['from'] != move['to'] and at.get(move['cpu'], move['from']) == move['from']
        at[move['cpu']] = move['to']
    end = loss['started_ns'] + loss['elapsed_ns']
    assert all(loss['started_ns'] <= move['ns'] <= end for move in moves)
    assert re.search(r'CPU \d+  thread changed from [01] to [01]\n', millrace('report', '--loss', '-i', file).out)


def test_into_a_pipe(restless, perf, tmp_path):
    file = tmp_path / 'p.data'
    with open(file, 'wb') as out:
        reader = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=out)
        err, made = restless(['--threads', *SMALL, '-o', '-'], 3, reader.stdin)
        reader.stdin.close()
        assert reader.wait(60) == 0
    data = PerfData(file)
    samples = {(sample.tid, sample.cpu, sample.time, sample.raw) for sample in data.samples()}
    assert len(samples) + data.lost_samples(data.attrs[1]) == made, err
    check_marks(data)


def test_rings_of_threads(need_tracefs, tmp_path, spawn):
    """--per-thread: the thread that watches for the end of the target changes, too."""
    file, err, begin, enough = (tmp_path / name for name in ('p.data', 'err', 'begin', 'enough'))
    loads = [spawn([sys.executable, '-c', ALONE, begin, enough], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    with open(err, 'wb') as stderr:
        recorder = spawn([MILLRACE, 'record', '-v', '--threads', '--per-thread', '-T', *SMALL, '-e', COUNTED, '-o', file,
                          '-p', ','.join(str(load.pid) for load in loads)], stderr=stderr, env=RESTLESS)
    wait_until(lambda: 'thread 0:' in err.read_text(), 'the recording has begun')
    time.sleep(0.1)  # and its events are enabled
    begin.touch()
    wait_until(lambda: err.read_text().count(MOVED) >= 30, '30 moves')
    enough.touch()
    made = sum(int(load.communicate(timeout=60)[0]) for load in loads)
    assert recorder.wait(60) == 0, err.read_text()
    check([file], made, err.read_text())


@pytest.mark.parametrize('options', [['--switch-output=1s'], ['--flight=1s']])
def test_where_files_are_switched_rings_stay(millrace, programs, need_tracefs, tmp_path, options):
    done = millrace('record', '-v', '--threads', *options, '-e', COUNTED, '-o', tmp_path / 'p.data', '--', programs / 'syscalls',
                    '-t', '2', '-n', '20000', env=RESTLESS)
    assert MOVED not in done.err
