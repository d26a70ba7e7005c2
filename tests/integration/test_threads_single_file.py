# SPDX-License-Identifier: MIT
"""--threads --single-file, and --threads into a pipe: many threads, one output, every record once and in order."""
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import sanitized, wait_until  # noqa: E402
from law import check_law  # noqa: E402
from perfdata import FINISHED_INIT, FINISHED_ROUND, PerfData, SAMPLE  # noqa: E402

# As in test_exactly_once.py: the second event has lost nothing but samples.
COUNTED = 'dummy,syscalls:sys_enter_getppid'
ONE = ['--threads', '--single-file']
THREADS, CALLS = 3, 10000 if not sanitized() else 3000


@pytest.fixture
def file(tmp_path):
    return tmp_path / 'p.data'


def load(programs, calls=CALLS):
    return ['--', programs / 'syscalls', '-t', THREADS, '-n', calls]


def check_marks(data):
    """What follows a mark is not older than what stood before the mark that came before it. Returns the marks."""
    floor = at_mark = latest = marks = 0
    for record in data.records():
        if record.type == FINISHED_ROUND:
            floor, at_mark, marks = at_mark, latest, marks + 1
        elif record.type == SAMPLE:
            time = data.sample(record).time
            assert time >= floor
            latest = max(latest, time)
    return marks


def check(data, made=THREADS * CALLS):
    samples = [(sample.tid, sample.cpu, sample.time, sample.raw) for sample in data.samples()]
    assert len(set(samples)) == len(samples)
    assert len(samples) + data.lost_samples(data.attrs[1]) == made
    assert sum(record.type == FINISHED_INIT for record in data.records()) == 1
    check_marks(data)
    return len(samples)


def check_perf(perf, samples, *args, **more):
    script = perf('script', '-F', 'tid,time', *args, **more)
    assert 'order' not in script.err
    assert sum(line.strip().endswith(':') for line in script.out.splitlines()) == samples


@pytest.mark.parametrize('how', [[], ['--writer=mmap'], ['--writer=aio'], ['--writer=direct'],
                                 ['--buffer-memory=1M']], ids=lambda how: ' '.join(how) or 'serial')
def test_exactly_once(millrace, perf, programs, need_tracefs, file, how):
    for run in range(3):
        millrace('record', *ONE, *how, '-m', '4' if run % 2 else '128', '-e', COUNTED, '-o', file, *load(programs))
        samples = check(PerfData(file))
        check_law(millrace, file, 'getppid', THREADS * CALLS)
    check_perf(perf, samples, '-i', file)


def test_compressed(millrace, perf, programs, need_tracefs, file, tmp_path):
    for _ in range(2):
        millrace('record', *ONE, '-z', '-e', COUNTED, '-o', file, *load(programs))
        millrace('merge', file, '-o', tmp_path / 'plain.data')
        samples = check(PerfData(tmp_path / 'plain.data'))
    check_perf(perf, samples, '-i', file)


def test_rounds_are_marked(millrace, programs, need_tracefs, file):
    """Also when the load is on one CPU, and the threads of the others have nothing but their part of the round."""
    millrace('record', *ONE, '-m', '16', '-e', COUNTED, '-o', file, '--', 'taskset', '-c', '0', programs / 'syscalls',
             '-t', '1', '-n', '50000')
    data = PerfData(file)
    check(data, 50000)
    assert check_marks(data) >= 1


def test_per_thread_rings(millrace, programs, spawn, need_root, file):
    target = spawn([programs / 'spin', '-t', '3', '-m', '60000'])
    wait_until(lambda: len(os.listdir(f'/proc/{target.pid}/task')) == 4, 'the threads')  # later ones are not recorded
    done = millrace('record', '-v', *ONE, '--per-thread', '-e', 'cpu-clock', '-p', target.pid, '-o', file, '--',
                    'sleep', '0.5')
    samples = sum(record.type == SAMPLE for record in PerfData(file).records())
    assert f'captured {samples} samples' in done.err and samples > 0


def test_affinity_and_priority(millrace, need_root, file):
    done = millrace('record', '-v', *ONE, '--affinity=cpu', '-r', '1', '-C', '1', '-D', '10', '-e', 'cpu-clock',
                    '-o', file, '--', 'sleep', '0.1')
    assert done.err.count(': rings ') == 1 and 'on CPUs 1; scheduling fifo' in done.err
    assert sum(record.type == FINISHED_INIT for record in PerfData(file).records()) == 1


def test_into_a_pipe(millrace, perf, programs, need_tracefs, file):
    for options in ([], ['--single-file'], ['-z']):
        done = millrace('record', '--threads', *options, '-e', COUNTED, '-o', '-', *load(programs), binary=True)
        file.write_bytes(done.out)
        script = perf('script', '-F', 'tid,time', '-i', '-', input=done.out)
        assert 'order' not in script.err
        got = sum(line.strip().endswith(':') for line in script.out.splitlines())
        if '-z' not in options:
            assert check(PerfData(file)) == got
        assert got > 0


def test_reader_of_the_pipe_goes_away(program, programs, need_tracefs, spawn):
    recorder = spawn([program, 'record', '--threads', '-e', 'raw_syscalls:sys_enter', '-o', '-', '--',
                      programs / 'syscalls', '-t', '2', '-n', '2000000000'], stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE)
    recorder.stdout.read(100000)
    recorder.stdout.close()
    err = recorder.stderr.read().decode()
    assert recorder.wait(60) == 255
    assert err.count('Broken pipe') == 1 and 'Sanitizer' not in err, err


@pytest.mark.parametrize('how', [[], ['-z'], ['--writer=mmap']], ids=lambda how: ' '.join(how) or 'serial')
def test_full_disk(millrace, perf, programs, need_tracefs, tmpfs, how):
    file = tmpfs('256k') / 'p.data'
    done = millrace('record', *ONE, *how, '-e', 'raw_syscalls:sys_enter', '-o', file, '--',
                    programs / 'syscalls', '-t', '2', '-n', '2000000000', status=255)
    errors = [line for line in done.err.splitlines() if 'No space left' in line]
    assert len(errors) == 1 and str(file) in errors[0] and 'offset' in errors[0], done.err
    if not how:
        check_perf(perf, sum(record.type == SAMPLE for record in PerfData(file).records()), '-i', file)
    else:
        perf('script', '-i', file)
