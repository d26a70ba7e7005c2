# SPDX-License-Identifier: MIT
"""How large rings are that were given no size, and when their readers are woken."""
import os
import pathlib
import re
import subprocess

import pytest

from conftest import MILLRACE, sanitized

# What a user may lock is one sum for all of the user's processes.
pytestmark = pytest.mark.alone

SET_OUTPUT = 0x2405
SIZES = r'rings of (\d+) KiB, wake-up at (\d+) KiB'
MLOCK_KB = pathlib.Path('/proc/sys/kernel/perf_event_mlock_kb')


def sizes_of(err):
    return tuple(map(int, re.search(SIZES, err).groups()))


@pytest.fixture(name='usual')
def fixture_usual(need_root):
    """A machine of which we know what is right."""
    memory = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGESIZE')
    if memory < 2 << 30 or os.cpu_count() > 8 or int(MLOCK_KB.read_text()) > 600:
        pytest.skip('not on such a machine')


def test_rings_are_large(usual, millrace, tmp_path):
    """And who drains is woken as early as by small ones."""
    def record(*options):
        return sizes_of(millrace('record', '-v', '-a', *options, '-e', 'cpu-clock', '-o', tmp_path / 'p.data',
                                 '--', 'true').err)

    assert record() == (4096, 1024)
    assert record('--threads', '--single-file') == (4096, 256)
    assert record('--max-memory=3M')[0] <= 1024
    assert record('-m', '64K') == (64, 32)


@pytest.mark.parametrize('locked, least', [(0, 256), (2 << 20, 512), (os.cpu_count() * 4 << 20, 4096)])
def test_an_ordinary_user_has_what_may_be_locked(usual, own_user, locked, least):
    """All of it from the start, in rings of one size."""
    if int(pathlib.Path('/proc/sys/kernel/perf_event_paranoid').read_text()) < 0:
        pytest.skip('everybody may lock any memory')
    uid, place = own_user
    rights = '+perfmon,+sys_admin,+sys_nice'  # to record everything, as root
    done = subprocess.run(['setpriv', f'--reuid={uid}', f'--regid={uid}', '--clear-groups', f'--inh-caps={rights}',
                           f'--ambient-caps={rights}', '--bounding-set=-ipc_lock', 'prlimit',
                           f'--memlock={locked}:{locked}', MILLRACE, 'record', '-v', '-a', '-e', 'cpu-clock', '-o',
                           place / 'p.data', '--', 'true'], stderr=subprocess.PIPE, text=True, check=True)
    ring, wakeup = sizes_of(done.stderr)
    allowed = os.cpu_count() * int(MLOCK_KB.read_text()) * 1024 + locked
    assert ring >= least and wakeup == (min(ring // 4, 1024) if ring + 4 > int(MLOCK_KB.read_text()) else ring // 2)
    assert os.cpu_count() * (ring + 4) * 1024 <= allowed
    assert ring == 4096 or os.cpu_count() * (2 * ring + 4 + 132) * 1024 > allowed


def test_no_large_rings_without_carriers(millrace, programs, need_root, tmp_path):
    """A ring of an event wakes its reader at a half, when much of a large one has left the cache."""
    if sanitized():
        pytest.skip('a sanitizer wants to be loaded first')
    env = {**os.environ, 'LD_PRELOAD': str(programs / 'refuse.so'), 'REFUSE_IOCTL': str(SET_OUTPUT),
           'REFUSE_AFTER': '0'}
    done = subprocess.run([MILLRACE, 'record', '-v', '-e', 'cpu-clock', '-o', tmp_path / 'p.data', '--', 'true'],
                          env=env, stderr=subprocess.PIPE, text=True, check=True)
    ring, wakeup = sizes_of(done.stderr)
    assert wakeup * 2 == ring and (ring + 4 <= int(MLOCK_KB.read_text())), done.stderr
