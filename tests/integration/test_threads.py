# SPDX-License-Identifier: MIT
"""--threads: a data directory that perf reads, with every record once."""
import ctypes
import os
import pathlib
import platform
import re
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import each_thread, sanitized, stat_of, threads_of, wait_until  # noqa: E402
from law import check_law  # noqa: E402
from perfdata import FINISHED_ROUND, PerfData, SAMPLE  # noqa: E402

COUNTED = 'dummy,syscalls:sys_enter_getppid'
CALLS = 20000 if not sanitized() else 5000  # of each thread


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


# What is recorded does not hang on which thread has which ring: each specification with one of the three, two with all.
RECORDED = {'command': ['-e', 'cpu-clock'], 'dwarf': ['-e', 'cpu-clock', '--call-graph', 'dwarf,4096', '-F', '500'],
            'all CPUs': ['-a', '-e', 'cpu-clock', '-g']}
PAIRS = [(spec, name) for nr, spec in enumerate(SPECS) for name in RECORDED
         if spec in ('--threads', '--threads=numa') or list(RECORDED)[nr % 3] == name]


@pytest.mark.parametrize('spec, what', PAIRS)
def test_perf_reads_the_directory(millrace, perf, programs, need_root, directory, spec, what):
    if os.cpu_count() != 2 and '/' in spec:
        pytest.skip('masks for 2 CPUs')
    done = millrace('record', spec, *RECORDED[what], '-o', directory, '--', programs / 'spin', '-t', '2', '-m', '150')
    main, parts = load(directory)
    assert main.features >> 24 & 1 and len(parts) == RINGS * os.cpu_count()
    samples = sum(record.type == SAMPLE for part in parts for record in part.records())
    assert f'captured {samples} samples' in done.err and 'lost 0' in done.err
    assert not any(record.type == FINISHED_ROUND for part in [main, *parts] for record in part.records())
    script = perf('script', '-i', directory, '-F', 'tid,time')
    assert not script.err.strip()
    heads = [line for line in script.out.splitlines() if line.strip().endswith(':')]
    assert len(heads) == samples


@pytest.mark.parametrize('writer', ['serial', 'mmap', 'aio', 'direct'])
def test_exactly_once(millrace, program, programs, need_tracefs, directory, writer):
    if writer == 'aio' and 'tsan' in str(program):
        pytest.skip("ThreadSanitizer dies when one of glibc's AIO threads starts another, for a second file")
    for run in range(3):
        millrace('record', '--threads', f'--writer={writer}', '-m', '16' if run % 2 else '128', '-o', directory,
                 '-e', COUNTED, '--', programs / 'syscalls', '-t', '3', '-n', CALLS)
        _, parts = load(directory)
        samples = [(sample.tid, sample.time, sample.id, sample.raw) for part in parts for sample in part.samples()]
        assert len(set(samples)) == len(samples)
        assert len(samples) + check_law(millrace, directory, 'getppid', 3 * CALLS) == 3 * CALLS


def test_masks_filtered_by_cpu_list(millrace, need_root, directory):
    done = millrace('record', '-v', '--threads', '-C', '1', '-e', 'cpu-clock', '-o', directory, '--', 'sleep', '0.1')
    assert done.err.count(': rings ') == 1 and 'on CPUs 1;' in done.err
    _, parts = load(directory)
    assert len(parts) == RINGS + os.cpu_count() - 1  # the task events of the other CPUs


def test_per_thread_rings(millrace, programs, spawn, need_root, directory):
    target = spawn([programs / 'spin', '-t', '3', '-m', '30000'])
    threads_of(target.pid, 4)
    millrace('record', '--threads', '--per-thread', '-e', 'cpu-clock', '-p', target.pid, '-o', directory, '--',
             'sleep', '0.3')
    _, parts = load(directory)
    assert len(parts) == RINGS * len(os.listdir(f'/proc/{target.pid}/task'))
    assert sum(record.type == SAMPLE for part in parts for record in part.records()) > 100


OUTPUTS = pytest.mark.parametrize('output', [[], ['--single-file']], ids=['directory', 'one file'])


def parts_of(path):
    main = PerfData(path / 'data' if path.is_dir() else path)
    return [main, *(Part(main, part) for part in (sorted(path.glob('data.*')) if path.is_dir() else []))]


def where_threads_run(done):
    return re.findall(r'thread \d+: rings [\d,]+; on CPUs (\S+); scheduling', done.err)


@OUTPUTS
@pytest.mark.parametrize('affinity, spec', [('node', 'numa'), ('cpu', 'cpu')])
def test_affinity(millrace, programs, need_tracefs, directory, output, affinity, spec):
    load = ['-e', COUNTED, '-o', directory, '--', programs / 'syscalls', '-t', '2', '-n', '5000']
    asked = millrace('record', '-v', '--threads', f'--affinity={affinity}', *output, *load)
    parts = parts_of(directory)
    assert sum(1 for part in parts for _ in part.samples()) + parts[0].lost_samples(parts[0].attrs[1]) == 10000
    reported = millrace('record', '-v', f'--threads={spec}', *output, *load)
    assert where_threads_run(asked) == where_threads_run(reported) != []


@OUTPUTS
def test_each_thread_is_reported_at_the_end(millrace, programs, need_tracefs, directory, output):
    done = millrace('record', '-v', '--threads', '-m', '1', *output, '-e', COUNTED, '-o', directory, '--',
                    programs / 'syscalls', '-t', '3', '-n', '50000')
    found = re.findall(r'thread \d+: (\d+) bytes, (\d+) wake-ups, [\d.]+ s of CPU, lost (\d+)$', done.err, re.M)
    assert len(found) == os.cpu_count()
    drained = re.search(r'(\d+) bytes in \d+ rings drained, (\d+) wake-ups', done.err)
    lost = re.search(r'; lost (\d+)', done.err)[1]
    assert [str(sum(int(row[i]) for row in found)) for i in range(3)] == [*drained.groups(), lost]


@OUTPUTS
def test_realtime_priority(recorder, need_root, directory, output):
    process = recorder(['--threads', *output, '-r', '7', '-e', 'dummy', '-o', directory, '--', 'sleep', '1000'])

    def priorities():  # rt_priority of proc(5)
        return each_thread(process.pid, lambda tid: int(stat_of(f'{process.pid}/task/{tid}')[37]))
    wait_until(lambda: priorities().count(7) == os.cpu_count(), 'each thread that drains has the priority')
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


@OUTPUTS
def test_size_limit(millrace, programs, need_tracefs, directory, output):
    done = millrace('record', '--threads', *output, '--max-size=1M', '-e', COUNTED, '-o', directory, '--',
                    programs / 'syscalls', '-t', '2', '-n', '2000000000', status=None)
    assert 'the size limit is reached' in done.err
    parts = parts_of(directory)
    assert sum(len(part.bytes) for part in parts) >= 1 << 20
    assert sum(record.type == SAMPLE for part in parts for record in part.records()) > 1000


@OUTPUTS
def test_one_running_thread(millrace, programs, spawn, need_root, directory, output):
    target = spawn([programs / 'spin', '-t', '3', '-m', '60000'])
    tid = max(threads_of(target.pid, 4))
    done = millrace('record', '--threads', *output, '-e', 'cpu-clock', '-t', tid, '-o', directory, '--', 'sleep', '0.5')
    tids = [sample.tid for part in parts_of(directory) for sample in part.samples()]
    assert set(tids) == {tid} and f'captured {len(tids)} samples' in done.err


@OUTPUTS
def test_running_process(millrace, programs, spawn, need_root, directory, output):
    target = spawn([programs / 'spin', '-t', '3', '-m', '60000'])
    tids = threads_of(target.pid, 4)
    millrace('record', '--threads', *output, '-e', 'cpu-clock', '-p', target.pid, '-o', directory, '--', 'sleep', '0.7')
    found = {sample.tid for part in parts_of(directory) for sample in part.samples()}
    assert found and found <= tids


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


INTERLEAVE, SET_MEMPOLICY = 3, {'x86_64': 238, 'aarch64': 237}.get(platform.machine())


def policies(pid):
    """Of the memory of each of its threads."""
    maps = each_thread(pid, lambda tid: pathlib.Path(f'/proc/{pid}/task/{tid}/numa_maps').read_text())
    return {line.split()[1] for text in maps for line in text.splitlines()}


@pytest.mark.skipif(not pathlib.Path('/proc/thread-self/numa_maps').exists() or not SET_MEMPOLICY,
                    reason='needs a kernel with NUMA')
@pytest.mark.parametrize('given', ('default', 'interleave:0'))
def test_memory_stays_on_its_node(given, recorder, tmp_path):
    """The kernel does not look for memory of the recorder that might be moved. A policy that was given stays."""
    def give():
        if given != 'default':
            nodes = ctypes.c_ulong(1)
            assert not ctypes.CDLL(None).syscall(SET_MEMPOLICY, INTERLEAVE, ctypes.byref(nodes), 64)

    process = recorder(['--threads', '-e', 'cpu-clock:u', '-o', tmp_path / 'd', '--', 'sleep', '60'], preexec_fn=give)
    command, = pathlib.Path(f'/proc/{process.pid}/task/{process.pid}/children').read_text().split()
    assert policies(process.pid) == {'local' if given == 'default' else given}
    assert policies(command) == {given}
    process.send_signal(signal.SIGINT)
    process.communicate()
