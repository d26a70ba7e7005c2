# SPDX-License-Identifier: MIT
"""Every writer on outputs that fail: it ends at once, with one message, and what was written can be read."""
import errno
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from perfdata import PerfData  # noqa: E402

WRITERS = ['serial', 'mmap', 'aio', 'aio,blocks=4', 'direct']
ENDLESS = 2000000000  # calls: the recording ends by itself, or not before the test is cut off


def record(millrace, programs, file, writer):
    """Records a load that would go on for ever; returns what was said."""
    return millrace('record', f'--writer={writer}', '-o', file, '-e', 'raw_syscalls:sys_enter', '--',
                    programs / 'syscalls', '-t', '2', '-n', str(ENDLESS), status=255).err


def check(millrace, perf, file, err, words):
    errors = [line for line in err.splitlines() if words in line]
    assert len(errors) == 1 and f'{file}: writing at offset ' in errors[0], err
    unwritten = re.search(r'(\d+) bytes of records could not be written', err)
    assert unwritten, err
    samples = len(list(PerfData(file).samples()))
    assert f'captured {samples} samples' in err
    assert samples > 500
    assert len(perf('script', '-i', file, '-F', 'tid').out.split()) == samples
    loss = millrace('report', '--loss', '-i', file).out
    assert f'Not counted: {unwritten[1]} bytes of records at the end' in loss and 'covered: at most ' in loss, loss


@pytest.mark.parametrize('writer', WRITERS)
def test_full_disk(millrace, perf, programs, need_tracefs, tmpfs, writer):
    file = tmpfs('256k') / 'x.data'
    check(millrace, perf, file, record(millrace, programs, file, writer), 'No space left on device')


@pytest.mark.parametrize('writer', WRITERS)
def test_file_size_limit(program, millrace, perf, programs, need_tracefs, tmp_path, writer):
    file = tmp_path / 'x.data'
    limited = tmp_path / 'millrace'
    limited.write_text(f'#!/bin/sh\nulimit -f 1024\nexec {program} "$@"\n')
    limited.chmod(0o755)

    def run_limited(*args, status):
        done = subprocess.run([limited, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=60)
        assert done.returncode == status, done
        done.err = done.stderr
        return done

    check(millrace, perf, file, record(run_limited, programs, file, writer), 'File too large')


@pytest.fixture
def failing_fs(request, fuse_fs):
    """A directory whose files fail at 1 MiB, or as the test says by indirect parameter."""
    return fuse_fs(errno.EIO, getattr(request, 'param', 1 << 20))


@pytest.mark.parametrize('writer', WRITERS)
def test_device_error(millrace, perf, programs, need_tracefs, failing_fs, tmp_path, writer):
    file = failing_fs / 'x.data'
    err = record(millrace, programs, file, writer)
    copy = tmp_path / 'copy.data'  # perf maps what it reads
    copy.write_bytes(file.read_bytes())
    copy.chmod(0o600)
    errors = [line for line in err.splitlines() if 'Input/output error' in line]
    assert len(errors) == 1 and f'{file}: writing at offset ' in errors[0], err
    samples = len(list(PerfData(copy).samples()))
    assert samples > 500 and len(perf('script', '-i', copy, '-F', 'tid').out.split()) == samples


@pytest.mark.parametrize('options', [[], ['-z']], ids=' '.join)
def test_directory_on_a_full_disk_that_is_copied_on_write(program, run, millrace, programs, need_tracefs, fuse_fs,
                                                          tmp_path, options):
    """As on btrfs: what is in a file cannot be written again either. What was written at the start tells what it is."""
    disk = fuse_fs(errno.ENOSPC, 1 << 20, 0, 0, 0, 'all')
    done = run([program, 'record', '--threads', *options, '-e', 'syscalls:sys_enter_getppid', '-o', disk / 'd', '--',
                programs / 'syscalls', '-t', '2', '-n', '2000000000'], status=255)
    assert sum('No space left' in line for line in done.err.splitlines()) == 1, done.err
    captured = int(re.search(r'captured (\d+) samples', done.err)[1])
    text = millrace('script', '-F', 'tid,event', '-i', disk / 'd').out
    assert text.count('getppid') == captured > 100


@pytest.mark.parametrize('failing_fs', [0], indirect=True)
def test_close_that_fails(millrace, failing_fs):
    file = failing_fs / 'x.data'
    done = millrace('record', '-e', 'cpu-clock', '-o', file, '--', 'true', status=255)
    assert f'{file}: cannot finish the file: Input/output error' in done.err and 'captured' in done.err


@pytest.mark.parametrize('failing_fs', [0], indirect=True)
def test_snapshot_that_fails(millrace, failing_fs):
    """It leaves no file, not even an empty one, and it is not said that none was requested."""
    done = millrace('record', '--flight=9s', '--durable', '-e', 'cpu-clock', '-o', failing_fs / 'x.data', '--', 'sh',
                    '-c', 'kill -USR2 $PPID; exec sleep 60', status=255)
    assert done.err.count('fsync of its directory: Input/output error') == 1 and 'captured' in done.err
    assert 'was requested' not in done.err
    assert list(failing_fs.iterdir()) == []


def test_window_that_vanishes(program, programs, need_tracefs, spawn, tmp_path):
    """Another process truncates the mapped file: SIGBUS in the window ends the recording, not the recorder."""
    file = tmp_path / 'x.data'
    recorder = spawn([program, 'record', '--mmap-output', '-o', file, '-e', 'raw_syscalls:sys_enter', '--',
                      programs / 'syscalls', '-t', '2', '-n', str(ENDLESS)], stderr=subprocess.PIPE,
                     stdout=subprocess.DEVNULL, text=True)
    while not file.exists() or file.stat().st_size < 1 << 20:  # the first window
        assert recorder.poll() is None
        time.sleep(0.05)
    os.truncate(file, 4096)
    err = recorder.communicate(timeout=60)[1]
    assert recorder.returncode == 255
    assert sum('Input/output error' in line for line in err.splitlines()) == 1, err
