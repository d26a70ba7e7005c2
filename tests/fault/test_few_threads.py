# SPDX-License-Identifier: MIT
"""A recorder that may start a few threads and processes only (ulimit -u) records all the same, or says why not."""
import os
import pathlib
import re
import tempfile

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='needs root, to become another user')

# A sanitizer that looks for leaks starts a process for it, and fails.
WITHOUT_LEAKS = {'ASAN_OPTIONS': f'{os.environ.get("ASAN_OPTIONS", "")}:detect_leaks=0'}

MODES = ['', '-z', '--threads', '--overwrite', '--call-graph unwind', '--off-cpu', '--aio', '--switch-output=1s',
         '--flight=2s', '--no-buildid']


@pytest.fixture
def user():
    """(uid, directory) of a user whose processes are those of one test."""
    uid = 100_000 + os.getpid()
    with tempfile.TemporaryDirectory() as place:  # other users cannot enter pytest's own
        os.chown(place, uid, uid)
        yield uid, pathlib.Path(place)


@pytest.mark.parametrize('mode', MODES)
def test_recorder(run, program, user, mode):
    uid, place = user
    recorded = 0
    for nr in range(1, 13):
        done = run(['setpriv', f'--reuid={uid}', f'--regid={uid}', '--clear-groups', 'prlimit', f'--nproc={nr}',
                    program, 'record', '-o', place / 'perf.data', '-e', 'cpu-clock:u', *mode.split(), '--', 'true'],
                   status=None, cwd=place, env=WITHOUT_LEAKS)
        assert done.status in (0, 255), done
        lines = [line for line in done.err.splitlines() if 'no more threads or processes may be started' in line]
        assert len(lines) == (done.status == 255), done
        assert not re.search(r'\bnan\b', done.err), done
        recorded += done.status == 0
    assert recorded, 'at most 12 are needed'
