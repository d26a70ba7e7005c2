# SPDX-License-Identifier: MIT
"""An output that takes nothing for a while: memory before the writer bridges it; without, every loss is counted."""
import json
import os
import pathlib
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from perfdata import PerfData  # noqa: E402

MADE = 2 * 100000


def record_stalled(program, programs, spawn, path, *options):
    """Nothing is read of the pipe before the work is done and the recorder can only wait. Returns what was recorded."""
    ours, theirs = os.pipe()
    words = path.with_suffix('.words')  # with the recording on standard output the work talks there
    with words.open('wb') as said:
        process = spawn([program, 'record', *options, '-o', '-', '-e', 'dummy,syscalls:sys_enter_getppid', '--',
                         programs / 'syscalls', '-t', '2', '-n', '100000'], stdout=theirs, stderr=said)
    os.close(theirs)
    with open(ours, 'rb') as pipe, path.open('wb') as out:
        while words.read_text().count(' 100000\n') < 2 and process.poll() is None:
            time.sleep(0.01)
        while chunk := pipe.read(1 << 16):
            out.write(chunk)
    assert process.wait() == 0
    return PerfData(path)


@pytest.mark.parametrize('options', [['--buffer-memory=128M'], ['--buffer-memory=1M'], [], ['-z', '--buffer-memory=128M']],
                         ids=['memory', 'little', 'none', 'zstd'])
def test_stalled(program, millrace, programs, spawn, need_tracefs, tmp_path, options):
    data = record_stalled(program, programs, spawn, tmp_path / 'p', *options)
    loss = json.loads(millrace('report', '--loss', '--json', '-i', tmp_path / 'p').out)
    rows = [row for row in loss['events'] if 'getppid' in row['event']]
    captured, lost = sum(row['captured'] for row in rows), sum(row['lost'] for row in rows)
    assert captured + lost == MADE and lost == data.lost_samples(data.attrs[1])
    # How fast it drains and compresses is nothing that a sanitizer leaves alone.
    if 'asan' not in str(program) and 'tsan' not in str(program):
        assert bool(lost) == (options in ([], ['--buffer-memory=1M'])), loss


def test_sizes(millrace):
    for size in ('0', '1K', 'much', '2000G'):
        assert 'size from 1M' in millrace('record', '--buffer-memory', size, 'true', status=129).err


def test_every_writer(millrace, programs, need_tracefs, tmp_path):
    for options in (['--writer=mmap'], ['--aio'], ['--writer=uring'], ['--writer=direct'], ['--threads']):
        file = tmp_path / 'p'
        done = millrace('record', '--buffer-memory=4M', *options, '-o', file, '-e', 'dummy,syscalls:sys_enter_getppid', '--',
                        programs / 'syscalls', '-t', '2', '-n', '20000')
        assert 'captured 40000 samples' in done.err or 'lost 0' not in done.err, done
