# SPDX-License-Identifier: MIT
"""--on-pressure=trim: stacks are cut short, marked and counted, where samples would be lost; nothing else is
touched."""
import errno
import json
import subprocess
import sys

import pytest

from conftest import sanitized

pytestmark = pytest.mark.alone

CALLS = 8000  # 8 KiB of stack each: several times the memory, but not when they are cut
# Between the calls there is time to drain one.
WORK = 'import os\nfor i in range(%d):\n    os.getppid()\n    sum(range(1500))\n' % CALLS


def record(program, fuse_fs, policy):
    """Into a file system that takes at most 6 MB/s. Returns a copy of the file, messages and report --loss."""
    file = fuse_fs(errno.EIO, 1 << 40, 0.02) / 'p.data'
    recorder = subprocess.run([program, 'record', f'--on-pressure={policy}', '--buffer-memory=16M', '-m', '16M',
                               '-o', file, '-e', 'syscalls:sys_enter_getppid', '--call-graph', 'dwarf',
                               '--', sys.executable, '-c', WORK],
                              stderr=subprocess.PIPE, text=True)
    assert recorder.returncode == 0, recorder.stderr
    copy = file.parent.parent / f'{policy}.data'
    copy.write_bytes(file.read_bytes())
    said = subprocess.run([program, 'report', '--loss', '--json', '-i', copy], stdout=subprocess.PIPE, check=True)
    return copy, recorder.stderr, json.loads(said.stdout)


def test_samples_for_stacks(program, millrace, perf, need_tracefs, fuse_fs):
    _, _, dropped = record(program, fuse_fs, 'drop')
    file, said, trimmed = record(program, fuse_fs, 'trim')
    for loss in (dropped, trimmed):
        assert loss['captured'] + loss['lost'] == CALLS and loss['lost'] == loss['lost_in_ledger'], loss
    assert dropped['trimmed'] == 0 and 0 < trimmed['trimmed'] <= trimmed['captured']
    assert sum(row['trimmed'] for row in trimmed['events']) == trimmed['trimmed']
    assert f'cut the stacks of {trimmed["trimmed"]} samples short' in said
    assert 'Cut short: the stacks of ' in millrace('report', '--loss', '-i', file).out
    # Whether who drains gets the CPU in time is another matter: some may be lost however much memory there is. And a
    # slow machine may not make more than the file system takes.
    if not sanitized() and dropped['lost'] > CALLS / 10:
        assert 4 * trimmed['lost'] < dropped['lost'], (dropped, trimmed)
    if not trimmed['lost']:
        assert trimmed['lost_time_ns'] == 0 and trimmed['covered_percent'] == 100 and not trimmed['gaps']
    # perf reads every sample, and unwinds what is there.
    text = perf('script', '-F', 'comm,event,ip,sym', '-i', file).out
    assert text.count('sys_enter_getppid') == trimmed['captured']


def test_nothing_is_cut_while_there_is_room(millrace, need_tracefs, programs, tmp_path):
    file = tmp_path / 'p.data'
    done = millrace('record', '--on-pressure=trim', '-m', '8M', '-o', file, '-e', 'syscalls:sys_enter_getppid',
                    '--call-graph', 'dwarf', '--', programs / 'syscalls', '-n', '500')
    loss = json.loads(millrace('report', '--loss', '--json', '-i', file).out)
    assert loss['captured'] + loss['lost'] == 500 and loss['trimmed'] == 0 and 'cut the stacks' not in done.err
