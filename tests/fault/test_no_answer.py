# SPDX-License-Identifier: MIT
"""A program runs from a file system that does not answer any more, such as that of a server that is down."""
import contextlib
import os
import pathlib
import re
import signal
import time

import pytest
from conftest import sanitized, wait_until

pytestmark = [pytest.mark.alone,  # a recorder of all CPUs meets that program, too
              pytest.mark.skipif(sanitized(), reason='LeakSanitizer stops all threads, also one that waits in open(2)')]

ANSWERS_KEPT_S = 1.1  # what a server has said of a file


def cpu_seconds(pid):
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


@contextlib.contextmanager
def stopped_server(directory):
    server = next(int(path.parent.name) for path in pathlib.Path('/proc').glob('[0-9]*/cmdline')
                  if os.fsencode(directory) in path.read_bytes())
    os.kill(server, signal.SIGSTOP)
    time.sleep(ANSWERS_KEPT_S)
    try:
        yield
    finally:
        os.kill(server, signal.SIGCONT)


@pytest.fixture(name='of_server')
def fixture_of_server(spawn, programs, fuse_fs):
    """A program whose file system does not answer. It is in memory, and goes on."""
    directory = fuse_fs(programs / 'spin', 1 << 40, 1 << 40, program='unreadable_fs.py')
    process = spawn([directory / 'file', '-t', 1, '-m', 600000])
    wait_until(lambda: cpu_seconds(process.pid) > 0.2, 'the program runs')
    with stopped_server(directory):
        yield process
        process.kill()


@pytest.mark.parametrize('options', [['-g'], ['--call-graph', 'unwind'], ['--call-graph', 'unwind', '--threads'],
                                     ['--call-graph', 'dwarf,1024']], ids=' '.join)
def test_others_are_recorded(millrace, spawn, programs, tmp_path, of_server, options):
    """Their samples come until the end, which is not delayed for long, and the reason is told."""
    other = spawn([programs / 'spin', '-t', 1, '-m', 600000])
    before = time.monotonic()
    done = millrace('record', '-a', '-e', 'cpu-clock', '-F', 199, *options, '-o', tmp_path / 'data', '--', 'sleep', 2,
                    timeout=60)
    took = time.monotonic() - before
    assert took < 12, f'{took:.1f} s, and {done.err}'
    assert 'a file system does not answer: 1 object could not be opened and is not kept' in done.err
    assert '; lost 0' in done.err
    text = millrace('script', '-i', tmp_path / 'data', '-F', 'pid,time', '-G').out
    times = {pid: [float(t) for t in re.findall(rf'^ *{pid} +([\d.]+):', text, re.M)]
             for pid in (other.pid, of_server.pid)}
    assert all(max(its) - min(its) > 1.5 for its in times.values())


COMPILES = 'import mmap, os, sys\n' \
    'code = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_EXEC)\n' \
    'os.chroot(sys.argv[1])\n' \
    'while True: pass'


def test_root_directory(millrace, spawn, fuse_fs, programs, tmp_path):
    """Of a process with code without a file, whose names would be in the /tmp that the process has."""
    directory = fuse_fs(programs / 'spin', 1 << 40, 1 << 40, program='unreadable_fs.py')
    process = spawn(['/usr/bin/python3', '-c', COMPILES, directory])
    wait_until(lambda: os.readlink(f'/proc/{process.pid}/root') == str(directory), 'it has another root directory')
    with stopped_server(directory):
        before = time.monotonic()
        done = millrace('record', '-a', '-e', 'cpu-clock', '-F', 199, '-g', '-o', tmp_path / 'data', '--', 'sleep', 2,
                        timeout=60)
        took = time.monotonic() - before
        process.kill()
    assert took < 12 and '; lost 0' in done.err, f'{took:.1f} s, and {done.err}'
    assert 'does not answer' not in done.err  # objects of others are kept
    assert f'{process.pid}' in millrace('script', '-i', tmp_path / 'data', '-F', 'pid', '-G').out
