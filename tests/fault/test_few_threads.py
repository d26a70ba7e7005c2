# SPDX-License-Identifier: MIT
"""A recorder that may start a few threads and processes only (ulimit -u) records all the same, or says why not."""
import os
import re

import pytest

# A sanitizer that looks for leaks starts a process for it, and fails.
WITHOUT_LEAKS = {'ASAN_OPTIONS': f'{os.environ.get("ASAN_OPTIONS", "")}:detect_leaks=0'}

MODES = ['', '-z', '--threads', '--overwrite', '--call-graph unwind', '--off-cpu', '--aio', '--switch-output=1s',
         '--flight=2s', '--no-buildid']


@pytest.mark.parametrize('mode', MODES)
def test_recorder(run, program, own_user, mode):
    """What does not begin leaves all files as they were: an earlier recording keeps its name."""
    uid, place = own_user
    recorded = 0
    for nr in [64, *range(1, 13)]:
        before = {path.name: path.stat().st_ino for path in place.iterdir()}
        done = run(['setpriv', f'--reuid={uid}', f'--regid={uid}', '--clear-groups', 'prlimit', f'--nproc={nr}',
                    program, 'record', '-o', place / 'perf.data', '-e', 'cpu-clock:u', *mode.split(), '--', 'true'],
                   status=None, cwd=place, env=WITHOUT_LEAKS)
        assert done.status in (0, 255), done
        lines = [line for line in done.err.splitlines() if 'no more threads or processes may be started' in line]
        assert len(lines) == (done.status == 255), done
        assert not re.search(r'\bnan\b', done.err), done
        recorded += done.status == 0 and nr < 64
        if done.status:
            assert {path.name: path.stat().st_ino for path in place.iterdir()} == before, done
    assert recorded, 'at most 12 are needed'
