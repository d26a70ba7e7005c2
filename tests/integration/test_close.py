# SPDX-License-Identifier: MIT
"""Who closes the events: with many tracepoints a process of its own, for which the end of the recorder does not
wait."""
import fcntl
import os
import pathlib
import signal
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import children, stat_of, wait_until  # noqa: E402

MANY = 'syscalls:sys_enter_f*'  # some 30 of them
CLOSER = 'millrace-close'

pytestmark = pytest.mark.usefixtures('need_tracefs')


def has_ended(pid):
    try:
        return stat_of(pid)[0] in 'ZX'
    except OSError:
        return True


def fds_of(pid):
    """Of a process that may close them at the same time."""
    found = []
    for path in pathlib.Path(f'/proc/{pid}/fd').iterdir():
        try:
            found.append(os.readlink(path))
        except FileNotFoundError:
            pass
    return found


@pytest.mark.parametrize('end', [signal.SIGINT, signal.SIGKILL], ids=['interrupted', 'killed'])
def test_a_recorder_ends_before_its_events_are_closed(recorder, millrace, tmp_path, end):
    file = tmp_path / 'perf.data'
    process = recorder(['-a', '-e', MANY, '-o', file])
    closer = children(process.pid)[CLOSER]
    assert int(stat_of(closer)[3]) == closer  # a session of its own: no signal of a terminal or to the group ends it
    assert os.readlink(f'/proc/{closer}/cwd') == '/'
    os.kill(closer, signal.SIGSTOP)
    try:
        process.send_signal(end)
        assert process.wait() == -end
        assert 'anon_inode:[perf_event]' in fds_of(closer)
        if end == signal.SIGINT:
            assert millrace('report', '--header-only', '-i', file).out
    finally:
        os.kill(closer, signal.SIGCONT)
    wait_until(lambda: has_ended(closer), 'the events are closed')
    if end == signal.SIGKILL:
        millrace('recover', file)
        millrace('script', '-i', file)


def events_of(pid):
    return fds_of(pid).count('anon_inode:[perf_event]')


def test_closers_pause_while_others_open_events(recorder, millrace, tmp_path):
    """Each close holds a mutex of the kernel for 20 ms that opening needs, too."""
    process = recorder(['-a', '-e', MANY, '-o', tmp_path / 'perf.data'])
    closer = children(process.pid)[CLOSER]
    events = pathlib.Path('/sys/kernel/tracing/events')
    lock = os.open(events, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)  # as a recorder does that opens tracepoints
        process.send_signal(signal.SIGINT)
        process.wait()
        wait_until(lambda: str(events) in fds_of(closer), 'the closer has begun')
        before = events_of(closer)
        time.sleep(0.5)
        assert events_of(closer) >= before - 1  # one may have been under way
        assert before >= 30
    finally:
        os.close(lock)
    wait_until(lambda: has_ended(closer), 'the events are closed')


def test_a_recorder_holds_the_lock_while_it_opens_events(program, run, tmp_path):
    calls = tmp_path / 'calls'
    # Looking for leaks takes ptrace(2), as strace does.
    without_leaks = {'ASAN_OPTIONS': f'{os.environ.get("ASAN_OPTIONS", "")}:detect_leaks=0'}
    run(['strace', '-f', '-e', 'trace=flock,perf_event_open,close', '-o', calls, program, 'record', '-a', '-o',
         tmp_path / 'perf.data', '-e', 'raw_syscalls:*', '--', 'true'], env=without_leaks)
    lines = calls.read_text().splitlines()
    tracepoints = [i for i, line in enumerate(lines) if 'perf_event_open({type=PERF_TYPE_TRACEPOINT' in line]
    locked = next(i for i, line in enumerate(lines) if 'flock(' in line and 'LOCK_SH' in line)
    fd = lines[locked].split('flock(')[1].split(',')[0]
    released = next(i for i, line in enumerate(lines) if i > locked and f'close({fd})' in line)
    assert locked < tracepoints[0] and tracepoints[-1] < released


@pytest.mark.parametrize('args', [['-e', MANY, '--wait-close'], ['-e', 'raw_syscalls:*']], ids=['--wait-close', 'few'])
def test_a_recorder_closes_its_events_itself(recorder, tmp_path, args):
    process = recorder(['-a', *args, '-o', tmp_path / 'perf.data'])
    assert CLOSER not in children(process.pid)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == -signal.SIGINT
