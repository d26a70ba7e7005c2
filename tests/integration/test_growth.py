# SPDX-License-Identifier: MIT
"""Rings that are exchanged for larger ones while events flow: what comes meanwhile is captured once, or counted as lost."""
import json
import os
import re
import pathlib
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import MILLRACE, wait_until  # noqa: E402
from perfdata import PerfData  # noqa: E402

# As in test_exactly_once.py: the second event has lost nothing but samples.
COUNTED = 'dummy,syscalls:sys_enter_getppid'
SET_OUTPUT = 0x2405

# Makes calls until somebody says that it is enough: neither it nor Python calls getppid(2) otherwise.
LOAD = '''
import pathlib, subprocess, sys
syscalls, told, enough = sys.argv[1:]
with open(told, "w") as out:
    while not pathlib.Path(enough).exists():
        subprocess.run([syscalls, "-t", "2", "-n", "3000"], stdout=out, check=True)
    subprocess.run([syscalls, "-t", "2", "-n", "3000"], stdout=out, check=True)
'''


class Part(PerfData):
    """One data.N of a directory, whose records have no header of their own."""

    def __init__(self, main, path):
        self.bytes = path.read_bytes()
        self.start, self.end, self.attrs, self.by_id = 0, len(self.bytes), main.attrs, main.by_id


def samples_and_losses(paths):
    """(samples, lost calls) of all files together."""
    samples, lost = [], 0
    for path in paths:
        main = PerfData(path / 'data' if path.is_dir() else path)
        parts = [main] + [Part(main, part) for part in sorted(path.glob('data.*'))] if path.is_dir() else [main]
        samples += [sample for part in parts for sample in part.samples()]
        lost += main.lost_samples(main.attrs[1])
    return samples, lost


def stopped_for_a_while(process, err, said):
    """Who sleeps now and then finds its rings full, whatever else the machine does."""
    assert process.poll() is None, err.read_text()
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(0.02)
    os.kill(process.pid, signal.SIGCONT)
    return re.search(said, err.read_text())


@pytest.fixture
def grow(programs, need_tracefs, tmp_path, spawn):
    """grow(options, said, env=None) -> (stderr, calls made): records LOAD until millrace has said so."""
    def record(options, said, env=None):
        told, enough, err = tmp_path / 'told', tmp_path / 'enough', tmp_path / 'err'
        with open(err, 'wb') as stderr:
            process = spawn([MILLRACE, 'record', '-v', '-e', COUNTED, *options, '--', sys.executable, '-c', LOAD,
                             programs / 'syscalls', told, enough], stderr=stderr, env={**os.environ, **(env or {})})

        wait_until(lambda: told.exists() or process.poll() is not None, 'the load has begun')
        wait_until(lambda: stopped_for_a_while(process, err, said), said)
        enough.touch()
        assert process.wait(60) == 0, err.read_text()
        assert 'Sanitizer' not in err.read_text(), err.read_text()
        return err.read_text(), sum(int(line.split()[1]) for line in told.read_text().splitlines())

    return record


def check(files, made, err):
    samples, lost = samples_and_losses(files)
    assert len(samples) + lost == made, err
    assert len({(sample.tid, sample.cpu, sample.time, sample.raw) for sample in samples}) == len(samples)


WAYS = {
    'serial': ['--writer=serial'],
    'mmap': ['--writer=mmap'],
    'aio': ['--writer=aio,blocks=4'],
    'uring': ['--writer=uring,blocks=4'],
    'direct': ['--writer=direct'],
    'zstd': ['-z'],
    'memory': ['--buffer-memory=4M'],
    'threads': ['--threads'],
    'single file': ['--threads', '--single-file'],
    'no side channel': ['--side-channel=off'],
    'all CPUs': ['-a'],
}


@pytest.mark.parametrize('way', WAYS)
def test_nothing_is_lost_or_doubled_by_growth(grow, millrace, tmp_path, way):
    file, plain = tmp_path / 'p.data', tmp_path / 'plain.data'
    err, made = grow(['-m', '4K', '--max-memory=64M', *WAYS[way], '-o', file], 'has grown from 4 to 16 KiB')
    if way == 'zstd':
        millrace('merge', file, '-o', plain)
        file = plain
    if way != 'all CPUs':  # others may call getppid(2), too
        check([file], made, err)
        return
    samples, lost = samples_and_losses([file])
    assert len(samples) + lost >= made
    assert len({(sample.tid, sample.cpu, sample.time, sample.raw) for sample in samples}) == len(samples)


def test_the_order_of_one_event_stays(grow, tmp_path):
    """Of a CPU, also from one ring to the next."""
    file, last = tmp_path / 'p.data', {}
    grow(['-m', '4K', '--max-memory=64M', '--sample-cpu', '-o', file], '(?s)has grown.*has grown')
    for sample in PerfData(file).samples():
        assert last.get(sample.cpu, 0) <= sample.time
        last[sample.cpu] = sample.time


def test_files_are_switched_meanwhile(grow, tmp_path):
    err, made = grow(['-m', '4K', '--max-memory=64M', '--switch-output=1s', '-o', tmp_path / 'p.data'],
                     '(?s)has grown.*has grown')
    check(sorted(tmp_path.glob('p.data.2*')), made, err)


# Begins when it is told, and makes calls until it is told again.
ALONE = '''
import os, pathlib, sys, time
begin, enough = map(pathlib.Path, sys.argv[1:])
calls = 0
while not begin.exists():
    time.sleep(0.01)
while not enough.exists():
    for _ in range(3000):
        os.getppid()
    calls += 3000
print(calls)
'''


def test_rings_of_threads(need_tracefs, tmp_path, spawn):
    """--per-thread: a ring and its carrier belong to a thread."""
    file, err, begin, enough = (tmp_path / name for name in ('p.data', 'err', 'begin', 'enough'))
    load = spawn([sys.executable, '-c', ALONE, begin, enough], stdout=subprocess.PIPE, text=True)
    with open(err, 'wb') as stderr:
        recorder = spawn([MILLRACE, 'record', '-v', '--per-thread', '-T', '-m', '4K', '--max-memory=64M', '-e', COUNTED, '-o', file,
                          '-p', str(load.pid)], stderr=stderr)
    wait_until(lambda: 'thread 0:' in err.read_text(), 'the recording has begun')
    time.sleep(0.1)  # and its events are enabled
    begin.touch()
    wait_until(lambda: stopped_for_a_while(recorder, err, f'ring of thread {load.pid} has grown'), 'growth')
    enough.touch()
    made = int(load.communicate(timeout=60)[0])
    assert recorder.wait(60) == 0
    check([file], made, err.read_text())


def test_sizes_that_are_named_stay(millrace, programs, need_tracefs, tmp_path):
    done = millrace('record', '-v', '-m', '4K', '-o', tmp_path / 'p.data', '-e', COUNTED, '--', programs / 'syscalls', '-t', '2',
                    '-n', '100000')
    assert 'has grown' not in done.err and 'stays at' not in done.err


def test_the_ledger_tells(grow, millrace, tmp_path):
    file = tmp_path / 'p.data'
    err, _ = grow(['-m', '4K', '--max-memory=64M', '-o', file], '(?s)has grown.*has grown')
    loss = json.loads(millrace('report', '--loss', '--json', '-i', file).out)
    grown = [action for action in loss['actions'] if action['deed'] == 'ring grew']
    assert len(grown) == err.count('has grown from')
    assert all(action['to'] > action['from'] >= 4096 for action in grown)
    end = loss['started_ns'] + loss['elapsed_ns']
    assert all(loss['started_ns'] <= action['ns'] <= end for action in grown)
    assert 'ring grew from 4 to 16 KiB' in millrace('report', '--loss', '-i', file).out


@pytest.mark.parametrize('memory, said', [('64M', 'has grown from 16 to 64 KiB'), ('1M', 'stays at')])
def test_memory_is_the_bound(grow, tmp_path, memory, said):
    file = tmp_path / 'p.data'
    err, made = grow(['-m', '4K', f'--max-memory={memory}', '-o', file], said)
    check([file], made, err)
    sizes = [int(kib) for kib in re.findall(r'to (\d+) KiB', err)]
    assert sizes and max(sizes) * 1024 <= {'64M': 8 << 20, '1M': 1 << 20}[memory]


@pytest.mark.parametrize('granted', [0, 1], ids=['never', 'not for all events'])
def test_a_kernel_that_refuses(grow, programs, tmp_path, granted):
    """From the start; or of two events of a CPU the second, later."""
    if any(word in str(MILLRACE) for word in ('asan', 'tsan')):
        pytest.skip('a sanitizer wants to be loaded first')
    file = tmp_path / 'p.data'
    nr = 2 * os.cpu_count() + 1 if granted else 0
    said = 'keeps two rings' if granted else 'does not let rings be exchanged'
    env = {'LD_PRELOAD': str(programs / 'refuse.so'), 'REFUSE_IOCTL': str(SET_OUTPUT), 'REFUSE_AFTER': str(nr)}
    more = ['-e', 'syscalls:sys_enter_getpid'] if granted else []
    err, made = grow(['-m', '4K', '--max-memory=64M', *more, '-o', file], said, env)
    check([file], made, err)


SIZES = r'rings of (\d+) KiB, wake-up at (\d+) KiB'
MLOCK_KB = pathlib.Path('/proc/sys/kernel/perf_event_mlock_kb')


def test_the_first_rings_are_roomy(millrace, need_root, tmp_path):
    """And who drains is woken as early as by small ones."""
    if os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGESIZE') < 2 << 30 or os.cpu_count() > 8 or int(MLOCK_KB.read_text()) > 600:
        pytest.skip('not on such a machine')
    err = millrace('record', '-v', '-a', '-e', 'cpu-clock', '-o', tmp_path / 'p.data', '--', 'true').err
    assert re.search(SIZES, err).groups() == ('4096', '1024'), err
    err = millrace('record', '-v', '-a', '--max-memory=16M', '-e', 'cpu-clock', '-o', tmp_path / 'p.data', '--', 'true').err
    assert int(re.search(SIZES, err)[1]) <= 1024, err


def test_no_roomy_rings_without_carriers(millrace, programs, need_root, tmp_path):
    """A ring of an event wakes its reader at a half, when much of a roomy one has left the cache."""
    if any(word in str(MILLRACE) for word in ('asan', 'tsan')):
        pytest.skip('a sanitizer wants to be loaded first')
    env = {**os.environ, 'LD_PRELOAD': str(programs / 'refuse.so'), 'REFUSE_IOCTL': str(SET_OUTPUT), 'REFUSE_AFTER': '0'}
    done = subprocess.run([MILLRACE, 'record', '-v', '-e', 'cpu-clock', '-o', tmp_path / 'p.data', '--', 'true'], env=env,
                          stderr=subprocess.PIPE, text=True, check=True)
    ring, wakeup = map(int, re.search(SIZES, done.stderr).groups())
    assert wakeup * 2 == ring and (ring + 4 <= int(MLOCK_KB.read_text())), done.stderr
