# SPDX-License-Identifier: MIT
"""--threads: a data directory that perf reads, with every record once."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import threads_of  # noqa: E402
from perfdata import FINISHED_ROUND, PerfData, SAMPLE  # noqa: E402

COUNTED = 'dummy,syscalls:sys_enter_getppid'


class Part(PerfData):
    """One data.N, whose records have no header of their own."""

    def __init__(self, main, path):
        self.bytes = path.read_bytes()
        self.start, self.end, self.attrs, self.by_id = 0, len(self.bytes), main.attrs, main.by_id


def load(directory):
    main = PerfData(directory / 'data')
    return main, [Part(main, path) for path in sorted(directory.glob('data.*'))]


RINGS = 2  # of each CPU or thread: what tasks do has rings of its own


@pytest.fixture
def directory(tmp_path):
    return tmp_path / 'd.data'


SPECS = ['--threads', '--threads=', '--threads=cpu', '--threads=core', '--threads=package', '--threads=socket',
         '--threads=numa', '--threads=0/1:1/0']


@pytest.mark.parametrize('spec', SPECS)
@pytest.mark.parametrize('extra', [['-e', 'cpu-clock'], ['-e', 'cpu-clock', '--call-graph', 'dwarf,4096', '-F', '500'],
                                   ['-a', '-e', 'cpu-clock', '-g']], ids=['command', 'dwarf', 'all CPUs'])
def test_perf_reads_the_directory(millrace, perf, programs, need_root, directory, spec, extra):
    if os.cpu_count() != 2 and '/' in spec:
        pytest.skip('masks for 2 CPUs')
    done = millrace('record', spec, *extra, '-o', directory, '--', programs / 'spin', '-t', '2', '-m', '150')
    main, parts = load(directory)
    assert main.features >> 24 & 1 and len(parts) == RINGS * os.cpu_count()
    samples = sum(record.type == SAMPLE for part in parts for record in part.records())
    assert f'captured {samples} samples' in done.err and 'lost 0' in done.err
    assert not any(record.type == FINISHED_ROUND for part in [main, *parts] for record in part.records())
    script = perf('script', '-i', directory, '-F', 'tid,time')
    assert not script.err.strip()
    heads = [line for line in script.out.splitlines() if line.strip().endswith(':')]
    assert len(heads) == samples


@pytest.mark.parametrize('writer', ['serial', 'mmap', 'aio', 'uring,blocks=4', 'direct'])
def test_exactly_once(millrace, program, programs, need_tracefs, directory, writer):
    if writer == 'aio' and 'tsan' in str(program):
        pytest.skip("ThreadSanitizer dies when one of glibc's AIO threads starts another, for a second file")
    for run in range(5):
        millrace('record', '--threads', f'--writer={writer}', '-m', '16' if run % 2 else '128', '-o', directory,
                 '-e', COUNTED, '--', programs / 'syscalls', '-t', '3', '-n', '20000')
        main, parts = load(directory)
        samples = [(sample.tid, sample.time, sample.id, sample.raw) for part in parts for sample in part.samples()]
        assert len(samples) + main.lost_samples(main.attrs[1]) == 60000
        assert len(set(samples)) == len(samples)


def test_masks_filtered_by_cpu_list(millrace, need_root, directory):
    done = millrace('record', '-v', '--threads', '-C', '1', '-e', 'cpu-clock', '-o', directory, '--', 'sleep', '0.1')
    assert done.err.count(': rings ') == 1 and 'on CPUs 1;' in done.err
    _, parts = load(directory)
    assert len(parts) == RINGS


def test_per_thread_rings(millrace, programs, spawn, need_root, directory):
    target = spawn([programs / 'spin', '-t', '3', '-m', '30000'])
    threads_of(target.pid, 4)
    millrace('record', '--threads', '--per-thread', '-e', 'cpu-clock', '-p', target.pid, '-o', directory, '--',
             'sleep', '0.3')
    _, parts = load(directory)
    assert len(parts) == RINGS * len(os.listdir(f'/proc/{target.pid}/task'))
    assert sum(record.type == SAMPLE for part in parts for record in part.records()) > 100


@pytest.mark.parametrize('spec, words', [('foo', 'foo'), ('0-/0', '0-'), ('0/0:0/1', '0'), ('99999/0', '99999'),
                                         (':', ':')])
def test_wrong_specs(millrace, need_root, directory, spec, words):
    done = millrace('record', f'--threads={spec}', '-e', 'cpu-clock', '-o', directory, '--', 'true', status=255)
    assert len(done.err.splitlines()) == 1 and words in done.err, done.err
    assert not directory.exists()


def test_old_directory_is_kept(millrace, need_root, directory):
    for _ in range(3):
        millrace('record', '--threads', '-e', 'cpu-clock', '-o', directory, '--', 'true')
    assert (directory.with_name('d.data.old') / 'data').exists()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in directory.iterdir())


def test_full_disk(millrace, perf, programs, need_tracefs, tmpfs):
    directory = tmpfs('1m') / 'd.data'
    done = millrace('record', '--threads', '-e', 'raw_syscalls:sys_enter', '-o', directory, '--',
                    programs / 'syscalls', '-t', '2', '-n', '20000000', status=255)
    errors = [line for line in done.err.splitlines() if 'No space left' in line]
    assert len(errors) >= 1 and '/data.' in errors[0] and 'offset' in errors[0], done.err
    _, parts = load(directory)
    assert sum(record.type == SAMPLE for part in parts for record in part.records()) > 1000
