# SPDX-License-Identifier: MIT
"""--durable: what survives the loss of all that was not synced to the disk."""
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import wait_until  # noqa: E402

CALLS = 2000
MODES = [[], ['-z'], ['--threads'], ['--writer=direct'], ['--mmap-output']]


@pytest.fixture(name='disk')
def fixture_disk(need_tracefs, fuse_fs):
    return fuse_fs(program='sync_fs.py')


@pytest.fixture(name='calls')
def fixture_calls(programs):
    """The command that makes CALLS system calls of their own number."""
    return [programs / 'syscalls', '-t', '1', '-n', str(CALLS)]


EVENT = ['-e', 'syscalls:sys_enter_getppid']


def bytes_of(path):
    """{name: bytes} of a recording; {}: it is not there."""
    paths = sorted(path.iterdir()) if path.is_dir() else [path] if path.exists() else []
    return {file.name: file.read_bytes() for file in paths}


@pytest.mark.parametrize('mode', MODES, ids=' '.join)
def test_a_recording_that_returned_is_on_the_disk(millrace, disk, calls, mode):
    millrace('record', '--durable', *mode, *EVENT, '-o', disk / 'p.data', '--', *calls)
    written = bytes_of(disk / 'p.data')
    assert written and bytes_of(disk / 'synced' / 'p.data') == written


def test_without_it_nothing_is_promised(millrace, disk, calls):
    """The file system does lose what was not synced."""
    millrace('record', *EVENT, '-o', disk / 'p.data', '--', *calls)
    assert bytes_of(disk / 'p.data') and not bytes_of(disk / 'synced' / 'p.data')


@pytest.mark.parametrize('mode', MODES, ids=' '.join)
def test_a_recording_that_goes_on_is_on_the_disk(millrace, recorder, disk, calls, tmp_path, mode):
    """Every call that was made is there some time later, once, though nothing comes behind them."""
    process = recorder(['--durable=0.2', *mode, '-a', *EVENT, '-o', disk / 'p.data'])
    tid = subprocess.run(calls, stdout=subprocess.PIPE, check=True, text=True).stdout.split()[0]
    left = tmp_path / 'left.data'

    def all_are_there():
        shutil.rmtree(left, ignore_errors=True)
        left.unlink(missing_ok=True)
        if not bytes_of(disk / 'synced' / 'p.data'):
            return False
        copy = shutil.copytree if (disk / 'p.data').is_dir() else shutil.copyfile
        copy(disk / 'synced' / 'p.data', left)
        if millrace('recover', left, status=None).status:
            return False
        lines = millrace('script', '-i', left, '-F', 'tid,time', '--ns').out.split('\n')
        found = [line for line in lines if line.split()[:1] == [tid]]
        assert len(set(found)) == len(found) <= CALLS
        return len(found) == CALLS

    wait_until(all_are_there, 'all calls are on the disk')
    process.send_signal(signal.SIGINT)
    assert process.wait() == -signal.SIGINT
