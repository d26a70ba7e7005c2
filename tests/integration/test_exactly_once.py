# SPDX-License-Identifier: MIT
"""The first two laws: captured + lost = generated, and every record once."""
import collections
import struct
import sys
import pathlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from law import check_law  # noqa: E402
from perfdata import PerfData, TIME  # noqa: E402

GETPPID = 110  # x86_64


def threads_of(out):
    return {int(line.split()[0]): int(line.split()[1]) for line in out.splitlines() if line[:1].isdigit()}


# The kernel counts a lost record of a task's life (fork, exit, a map) with the event that carries these, by default the
# first. With "dummy" in front of it the counted event has lost nothing but samples.
COUNTED = 'dummy,syscalls:sys_enter_getppid'


def no_duplicates(samples):
    keys = [(sample.tid, sample.cpu, sample.time, sample.raw) for sample in samples]
    assert len(set(keys)) == len(keys), [key for key, times in collections.Counter(keys).items() if times > 1]


# make check repeats a recording a few times, make check-lab twenty times.
RUNS = pytest.mark.parametrize('runs', [4, pytest.param(20, marks=pytest.mark.lab)])


@pytest.mark.parametrize('ring', ['', '-m1', '-m4'])
def test_counted_system_calls(millrace, programs, need_tracefs, tmp_path, ring):
    """Each thread makes exactly N calls; small rings lose on purpose, and the loss is told to the record."""
    file = tmp_path / 'p.data'
    made = 4 * 30000
    for _ in range(2):
        done = millrace('record', *([ring] if ring else []), '-o', file, '-e', COUNTED, '--',
                        programs / 'syscalls', '-t', '4', '-n', '30000')
        check_law(millrace, file, 'getppid', made)
        data = PerfData(file)
        samples = list(data.samples())
        no_duplicates(samples)
        lost = data.lost_samples()
        assert f'captured {len(samples)} samples' in done.err
        assert (f'lost {lost} ' in done.err) if lost else ('; lost 0' in done.err)


@RUNS
def test_every_run(millrace, programs, need_tracefs, tmp_path, runs):
    """N sys_enter samples for a program that makes exactly N calls on each thread, in each of the runs."""
    calls = 20000
    for _ in range(runs):
        file = tmp_path / 'p.data'
        done = millrace('record', '-o', file, '-e', 'raw_syscalls:sys_enter', '--',
                        programs / 'syscalls', '-t', '3', '-n', str(calls))
        data = PerfData(file)
        counts, samples = {}, list(data.samples())
        for sample in samples:
            if struct.unpack_from('<q', sample.raw, 8)[0] == GETPPID:
                counts[sample.tid] = counts.get(sample.tid, 0) + 1
        made = threads_of(done.out)
        assert made and set(made.values()) == {calls}
        assert sum(counts.values()) + data.lost_samples() >= 3 * calls
        if not data.lost_samples():
            assert counts == made
        no_duplicates(samples)


@RUNS
@pytest.mark.parametrize('writer', ['serial', 'mmap', 'aio', 'aio,blocks=4', 'direct'])
def test_every_writer(millrace, programs, need_tracefs, tmp_path, writer, runs):
    made = 2 * 30000
    for run in range(runs):
        file = tmp_path / 'p.data'
        millrace('record', f'--writer={writer}', '-m', '16' if run % 2 else '128', '-o', file,
                 '-e', COUNTED, '--', programs / 'syscalls', '-t', '2', '-n', '30000')
        check_law(millrace, file, 'getppid', made)


def test_times_never_go_back_within_a_cpu(millrace, programs, need_tracefs, tmp_path):
    """Order of a ring is the order of the file."""
    file = tmp_path / 'p.data'
    millrace('record', '-o', file, '-e', 'raw_syscalls:sys_enter', '--', programs / 'syscalls', '-t', '2',
             '-n', '30000')
    data = PerfData(file)
    assert data.attrs[0].sample_type & TIME
    last = {}
    for sample in data.samples():
        assert sample.time >= last.get(sample.cpu, 0)
        last[sample.cpu] = sample.time
