# SPDX-License-Identifier: MIT
"""Who closes the events: with many tracepoints a process of its own, for which the end of the recorder does not
wait."""
import os
import pathlib
import signal
import sys

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
    return [os.readlink(path) for path in pathlib.Path(f'/proc/{pid}/fd').iterdir()]


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


@pytest.mark.parametrize('args', [['-e', MANY, '--wait-close'], ['-e', 'raw_syscalls:*']], ids=['--wait-close', 'few'])
def test_a_recorder_closes_its_events_itself(recorder, tmp_path, args):
    process = recorder(['-a', *args, '-o', tmp_path / 'perf.data'])
    assert CLOSER not in children(process.pid)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == -signal.SIGINT
