# SPDX-License-Identifier: MIT
"""--on-pressure=freeze: what is recorded stands still until there is room, and nothing is lost; it goes on when the
recorder or the watchdog dies."""
import errno
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import children, read_until, stat_of, wait_until  # noqa: E402
from law import check_law  # noqa: E402
from perfdata import PerfData  # noqa: E402

pytestmark = pytest.mark.alone

CALLS = 100000  # of each of two threads: 80 bytes each, several times the memory
EVENTS = ['-e', 'dummy,syscalls:sys_enter_getppid']


def state(pid):
    return stat_of(pid)[0]


def command_of(recorder, pipe, out=None):
    """The recorded command, when it has begun; nothing is read of the pipe from there on."""
    return read_until(lambda: children(recorder.pid).get('syscalls'), 'the command runs', pipe, out)


def start(program, spawn, output, *options, calls=CALLS, command):
    words = output.with_suffix('.words').open('wb')
    ours, theirs = os.pipe()
    recorder = spawn([program, 'record', '--on-pressure=freeze', '--buffer-memory=4M', *options, '-o', '-', *EVENTS,
                      '--', command, '-t', '2', '-n', str(calls)], stdout=theirs, stderr=words)
    os.close(theirs)
    return recorder, os.fdopen(ours, 'rb', buffering=0)


def expect_all(program, data, said, calls=CALLS):
    """Every call of each thread once, and the recorder says that it has stopped them."""
    assert 'stopped the recorded tasks' in said and '; lost 0\n' in said, said
    event = data.attrs[1]
    assert len(list(data.samples())) == 2 * calls and data.lost_samples(event) == 0


def test_reader_that_waits(program, programs, spawn, need_tracefs, tmp_path):
    """Nothing is read of the pipe before the command stands still: after that nothing may be missing."""
    recorder, pipe = start(program, spawn, tmp_path / 'p', command=programs / 'syscalls')
    with pipe, (tmp_path / 'p').open('wb') as out:
        command = command_of(recorder, pipe, out)
        wait_until(lambda: state(command) == 'T', 'the command is stopped')
        while chunk := pipe.read(1 << 16):
            out.write(chunk)
    assert recorder.wait() == 0
    expect_all(program, PerfData(tmp_path / 'p'), (tmp_path / 'p.words').read_text())


@pytest.mark.parametrize('how', [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_recorder_that_ends(program, programs, spawn, need_tracefs, tmp_path, how):
    """A recorder that is killed leaves a running command and no process; one that is asked to end ends the command."""
    calls = CALLS if how == signal.SIGKILL else 2000000000
    recorder, pipe = start(program, spawn, tmp_path / 'p', calls=calls, command=programs / 'syscalls')
    command = command_of(recorder, pipe)
    watchdog = children(recorder.pid)['millrace-guard']
    wait_until(lambda: state(command) == 'T', 'the command is stopped')
    recorder.send_signal(how)
    if how == signal.SIGKILL:
        recorder.wait()
        said = tmp_path / 'p.words'
        wait_until(lambda: said.read_text().count(f' {CALLS}\n') == 2, 'the command goes on to its end')
    else:
        with pipe:
            while pipe.read(1 << 16):
                pass
        assert recorder.wait() == -signal.SIGTERM  # what ended the command
    for pid in (command, watchdog):
        wait_until(lambda: not pathlib.Path(f'/proc/{pid}').exists(), f'{pid} has ended')
    pipe.close()


def test_watchdog_that_ends(millrace, program, programs, spawn, need_tracefs, tmp_path):
    """Without its watchdog the recorder stops no task: then it is as without the option."""
    recorder, pipe = start(program, spawn, tmp_path / 'p', command=programs / 'syscalls')
    said = tmp_path / 'p.words'
    with pipe, (tmp_path / 'p').open('wb') as out:
        command_of(recorder, pipe, out)
        os.kill(children(recorder.pid)['millrace-guard'], signal.SIGKILL)
        wait_until(lambda: said.read_text().count(f' {CALLS}\n') == 2, 'the command ends')
        while chunk := pipe.read(1 << 16):
            out.write(chunk)
    assert recorder.wait() == 0
    check_law(millrace, tmp_path / 'p', 'getppid', 2 * CALLS)
    assert 'did not stop them' in said.read_text()


def test_other_tasks(program, programs, spawn, need_tracefs, tmp_path):
    """-p: the process that was named, which goes on when the recording ends."""
    target = spawn([programs / 'syscalls', '-t', '2', '-n', '2000000000'], stdout=subprocess.DEVNULL)
    ours, theirs = os.pipe()
    recorder = spawn([program, 'record', '--on-pressure=freeze', '--buffer-memory=4M', '-o', '-', *EVENTS,
                      '-p', target.pid],
                     stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    with os.fdopen(ours, 'rb', buffering=0) as pipe:
        read_until(lambda: state(target.pid) == 'T', 'the target is stopped', pipe)
        recorder.send_signal(signal.SIGINT)
        while pipe.read(1 << 16):
            pass
    recorder.wait()
    wait_until(lambda: state(target.pid) != 'T', 'the target goes on')


def record_slowly(program, spawn, fuse_fs, programs, seconds, calls, *options):
    """Into a file system whose writes take time. What report --loss says, and how long the command says it took."""
    file = fuse_fs(errno.EIO, 1 << 40, seconds) / 'p.data'
    clock = ('import subprocess, sys, time; start = time.monotonic(); subprocess.run(sys.argv[1:], stdout=2); '
             'print("took", time.monotonic() - start)')
    recorder = spawn([program, 'record', '--on-pressure=freeze', *options, '-o', file, *EVENTS, '--', sys.executable,
                      '-c', clock, programs / 'syscalls', '-t', '2', '-n', str(calls)], stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE, text=True)
    out, err = recorder.communicate()
    assert recorder.returncode == 0, err
    copy = file.parent.parent / 'copy.data'
    copy.write_bytes(file.read_bytes())
    said = subprocess.run([program, 'report', '--loss', '--json', '-i', copy], stdout=subprocess.PIPE, check=True)
    return json.loads(said.stdout), float(re.search(r'took ([0-9.]+)', out)[1]), err


def test_slow_disk(program, programs, spawn, need_tracefs, fuse_fs):
    loss, took, said = record_slowly(program, spawn, fuse_fs, programs, 0.02, CALLS, '--buffer-memory=4M')
    rows = [row for row in loss['events'] if 'getppid' in row['event']]
    assert sum(row['captured'] for row in rows) == 2 * CALLS and loss['lost'] == 0, said
    assert loss['freezes'] > 0 and 0 < loss['frozen_ns'] / 2e9 < took, (loss['frozen_ns'], took)
    assert loss['lost_time_ns'] == 0 and not loss['gaps'] and loss['covered_percent'] == 100


@pytest.mark.lab
def test_ten_million_through_one_page(program, programs, spawn, need_tracefs, fuse_fs):
    loss, took, said = record_slowly(program, spawn, fuse_fs, programs, 0.003, 5000000, '-m', '1')
    rows = [row for row in loss['events'] if 'getppid' in row['event']]
    assert sum(row['captured'] for row in rows) == 10000000 and loss['lost'] == 0, said
    assert loss['freezes'] > 0 and loss['frozen_ns'] / 2e9 < took
    print(took, loss['frozen_ns'] / 1e9, loss['freezes'])


@pytest.mark.parametrize('options', [['-a'], ['-u', 'root', 'true'], ['--flight=1s', 'true'], ['-C', '0']])
def test_whom_not(millrace, need_root, options):
    assert 'freeze' in millrace('record', '--on-pressure=freeze', *options, status=129).err


def test_words(millrace):
    assert 'neither drop nor trim nor freeze' in millrace('record', '--on-pressure=wait', 'true', status=129).err
