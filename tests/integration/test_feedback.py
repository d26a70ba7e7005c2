# SPDX-License-Identifier: MIT
"""A recording of all system calls holds few of the recorder's own."""
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import sanitized  # noqa: E402
from perfdata import PerfData  # noqa: E402

pytestmark = pytest.mark.alone


@pytest.mark.parametrize('writer, percent', [('serial', 1), ('mmap', 0.1), ('aio', 1)])
def test_own_events(program, need_tracefs, spawn, tmp_path, writer, percent):
    if sanitized():
        pytest.skip('a rate of calls, and sanitizers make calls of their own')
    for _ in range(2):
        spawn(['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=1'], stderr=subprocess.DEVNULL)
    # Other work on the machine takes events from the load, and none from the recorder: the best of three runs counts.
    shares = []
    while len(shares) < 3 and not any(share < percent for share in shares):
        file = tmp_path / f'{len(shares)}.data'
        recorder = spawn([program, 'record', '-q', '-B', f'--writer={writer}', '-o', file, '-a', '-e', 'raw_syscalls:*',
                          '--', 'sleep', '0.15'])
        assert recorder.wait(60) == 0
        pids = [sample.pid for sample in PerfData(file).samples()]
        assert len(pids) > 20000
        shares.append(100 * pids.count(recorder.pid) / len(pids))
    assert min(shares) < percent, f'{shares} % of the events are its own'
