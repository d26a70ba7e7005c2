# SPDX-License-Identifier: MIT
"""An output that takes nothing for a while: memory before the writer bridges it; without, every loss is counted."""
import os
import pathlib
import re
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import children, read_until, sanitized, wait_until  # noqa: E402
from law import check_law  # noqa: E402

pytestmark = pytest.mark.alone

MADE = 2 * 100000


def record_stalled(program, programs, spawn, path, *options):
    """Nothing is read of the pipe from the start of the work until it is done and the recorder can only wait."""
    ours, theirs = os.pipe()
    words = path.with_suffix('.words')  # with the recording on standard output the work talks there
    with words.open('wb') as said:
        process = spawn([program, 'record', *options, '-o', '-', '-e', 'dummy,syscalls:sys_enter_getppid', '--',
                         programs / 'syscalls', '-t', '2', '-n', '100000'], stdout=theirs, stderr=said)
    os.close(theirs)

    def done():
        return words.read_text().count(' 100000\n') == 2

    with open(ours, 'rb', buffering=0) as pipe, path.open('wb') as out:
        read_until(lambda: 'syscalls' in children(process.pid) or done(), 'the work begins', pipe, out)
        wait_until(done, 'the work is done')
        while chunk := pipe.read(1 << 16):
            out.write(chunk)
    assert process.wait() == 0


@pytest.mark.parametrize('options', [['--buffer-memory=128M'], ['--buffer-memory=1M', '-m512K'], [],
                                     ['-z', '--buffer-memory=128M']],
                         ids=['memory', 'little', 'default', 'zstd'])
def test_stalled(program, millrace, programs, spawn, need_tracefs, tmp_path, options):
    record_stalled(program, programs, spawn, tmp_path / 'p', *options)
    lost = check_law(millrace, tmp_path / 'p', 'getppid', MADE)
    # How fast it drains and compresses is nothing that a sanitizer leaves alone.
    if not sanitized():
        assert bool(lost) == ('--buffer-memory=1M' in options)


FILE_MODES = {
    'serial': [], 'aio': ['--aio=4'], 'direct': ['--writer=direct'], 'mmap': ['--writer=mmap'],
    'little': ['--buffer-memory=1M', '-m512K'], 'memory': ['--buffer-memory=128M'],
    'zstd': ['-z', '--buffer-memory=128M'], 'threads': ['--threads', '--single-file', '--buffer-memory=128M'],
    'zstd-threads': ['-z', '--threads', '--single-file', '--buffer-memory=128M'],
}


@pytest.mark.parametrize('mode', FILE_MODES)
def test_storage_that_stalls(program, millrace, programs, fuse_fs, need_tracefs, mode):
    """Two seconds in which a disk takes nothing: much less than all of it is written by then."""
    holds, losses = '--buffer-memory=1M' not in FILE_MODES[mode], []
    directory = fuse_fs(5, 1 << 40, 0, 64 << 10, 2)
    for run in range(3):
        file = directory / f'p{run}'
        began = time.monotonic()
        millrace('record', *FILE_MODES[mode], '-o', file, '-e', 'dummy,syscalls:sys_enter_getppid', '--',
                 programs / 'syscalls', '-t', '2', '-n', '100000')
        assert time.monotonic() - began > 2
        losses.append(check_law(millrace, file, 'getppid', MADE))
        # It stalls once. What holds may lose something where others take its CPUs; not each time.
        if not (holds and losses[-1]):
            break
        directory = fuse_fs(5, 1 << 40, 0, 64 << 10, 2)
    if not sanitized():
        assert bool(min(losses)) != holds, losses


def test_sizes(millrace):
    for size in ('0', '1K', 'much', '2000G'):
        assert 'size from 1M' in millrace('record', '--buffer-memory', size, 'true', status=129).err


def test_every_writer(millrace, programs, need_tracefs, tmp_path):
    for options in (['--writer=mmap'], ['--aio'], ['--writer=direct'], ['--threads']):
        file = tmp_path / 'p'
        done = millrace('record', '--buffer-memory=4M', *options, '-o', file, '-e', 'dummy,syscalls:sys_enter_getppid',
                        '--', programs / 'syscalls', '-t', '2', '-n', '20000')
        assert 'captured 40000 samples' in done.err or 'lost 0' not in done.err, done


@pytest.fixture(name='memory_group')
def fixture_memory_group(need_root):
    """A control group whose processes may use 64 MB."""
    for mount in map(pathlib.Path, ('/sys/fs/cgroup/memory', '/sys/fs/cgroup')):
        group = mount / f'millrace-test-{os.getpid()}'
        limit = group / ('memory.limit_in_bytes' if mount.name == 'memory' else 'memory.max')
        try:
            group.mkdir()
            if limit.exists():
                limit.write_text(str(64 << 20))
                yield group
                group.rmdir()
                return
            group.rmdir()
        except OSError:
            pass
    pytest.skip('needs a control group that limits memory')


@pytest.mark.parametrize('options', [[], ['-z'], ['--threads'], ['-z', '--threads', '--single-file']], ids=' '.join)
def test_the_bound_is_of_all_memory(run, program, tmp_path, options):
    done = run([program, 'record', '-v', '--buffer-memory=200M', *options, '-e', 'cpu-clock', '-o', tmp_path / 'p',
                '--', 'true'])
    assert 150 <= int(re.search(r'used at most, of (\d+) MiB', done.err)[1]) <= 200, done.err


@pytest.mark.parametrize('options', [[], ['--on-pressure=freeze']], ids=' '.join)
def test_memory_of_a_container(run, program, memory_group, tmp_path, options):
    """A recorder that took more than its container has would be killed as soon as storage stalls."""
    done = run(['sh', '-c', 'echo $$ >"$0/cgroup.procs"; exec "$@"', memory_group, program, 'record', '-v', *options,
                '-e', 'cpu-clock', '-o', tmp_path / 'p', '--', 'true'])
    assert int(re.search(r'used at most, of (\d+) MiB', done.err)[1]) < 16, done.err


@pytest.mark.parametrize('options', [[], ['-z'], ['--threads']], ids=' '.join)
def test_memory_of_a_small_address_space(run, program, tmp_path, options):
    if sanitized():
        pytest.skip('a sanitizer needs a large address space')
    done = run(['prlimit', '--as=600000000', program, 'record', '-v', *options, '-e', 'cpu-clock', '-o', tmp_path / 'p',
                '--', 'true'])
    assert int(re.search(r'used at most, of (\d+) MiB', done.err)[1]) < 100, done.err
