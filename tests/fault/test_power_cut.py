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


@pytest.fixture(name='mounted_disk')
def fixture_mounted_disk(disk, tmp_path):
    """ext4 on a block device that forgets what was not flushed: where it is mounted, and what it has flushed."""
    if not shutil.which('mkfs.ext4') or not shutil.which('losetup'):
        pytest.skip('needs mkfs.ext4 and losetup')
    image, folder = disk / 'image', tmp_path / 'ext4'
    folder.mkdir()
    with image.open('wb') as file:
        file.truncate(24 << 20)
    subprocess.run(['mkfs.ext4', '-q', '-F', image], check=True)
    subprocess.run(['sync', image, disk], check=True)
    device = subprocess.run(['losetup', '--show', '-f', image], stdout=subprocess.PIPE, text=True, check=False)
    if device.returncode:
        pytest.skip('needs a loop device')
    try:
        subprocess.run(['mount', device.stdout.strip(), folder], check=True)
        yield folder, disk / 'synced' / 'image'
    finally:
        subprocess.run(['umount', folder], check=False)
        subprocess.run(['losetup', '-d', device.stdout.strip()], check=False)


@pytest.mark.parametrize('mode', MODES, ids=' '.join)
def test_a_block_device_loses_power(millrace, recorder, mounted_disk, calls, tmp_path, mode):
    """What the device has flushed is mounted elsewhere while the recording goes on: every call is there, once."""
    folder, flushed = mounted_disk
    output = tmp_path / 'output'
    process = recorder(['--durable=0.2', *mode, *EVENT, '-o', folder / 'p.data', '--', 'sh', '-c',
                        '"$@" >output && exec sleep 1000', 'sh', *calls], cwd=tmp_path)
    wait_until(lambda: output.exists() and output.read_text().endswith('\n'), 'the calls are made')
    tid = output.read_text().split()[0]
    image, left = tmp_path / 'image', tmp_path / 'left'
    left.mkdir()

    def all_are_there():
        shutil.copyfile(flushed, image)
        subprocess.run(['mount', '-o', 'loop', image, left], check=True)
        try:
            path = left / 'p.data'
            if not path.exists() or millrace('recover', path, status=None).status:
                return False
            lines = millrace('script', '-i', path, '-F', 'tid,time', '--ns').out.split('\n')
        finally:
            subprocess.run(['umount', left], check=True)
        found = [line for line in lines if line.split()[:1] == [tid]]
        assert len(set(found)) == len(found) <= CALLS
        return len(found) == CALLS

    wait_until(all_are_there, 'all calls are on the device')
    process.send_signal(signal.SIGINT)
    assert process.wait() == -signal.SIGTERM, 'of the command'
