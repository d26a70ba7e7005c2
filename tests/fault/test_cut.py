# SPDX-License-Identifier: MIT
"""Files that lost their end, at many places: what is there is read, one line tells where it ends, and recover makes it
whole."""
import re
import struct

import pytest

from conftest import sanitized

STEP = 16381 if not sanitized() else 131071  # primes: the cuts are in all parts of records
DATA_ERROR = 255

RECORDINGS = {  # who records, with which options; what the program is told
    'plain': ('millrace', ['-e', 'raw_syscalls:*'], ['-t', '2', '-n', '600']),
    'compressed': ('millrace', ['-z', '-e', 'raw_syscalls:*'], ['-t', '2', '-n', '6000']),
    'stacks': ('millrace', ['-e', 'raw_syscalls:sys_enter', '--call-graph', 'dwarf'], ['-t', '1', '-n', '20']),
    'perf': ('perf', ['-m', '4M', '-e', 'raw_syscalls:*'], ['-t', '2', '-n', '600']),
    'perf-compressed': ('perf', ['-m', '4M', '-z', '-e', 'raw_syscalls:*'], ['-t', '2', '-n', '6000']),
}
if sanitized():  # what reads those of perf reads ours, too
    RECORDINGS = {name: recording for name, recording in RECORDINGS.items() if recording[0] == 'millrace'}


@pytest.fixture(name='whole', params=RECORDINGS)
def fixture_whole(request, need_tracefs, programs, tmp_path):
    recorder, options, work = RECORDINGS[request.param]
    path = tmp_path / 'whole'
    request.getfixturevalue(recorder)('record', '-o', path, *options, '--', programs / 'syscalls', *work)
    return path.read_bytes()


def read_cut(millrace, path):
    """How many samples are there; and that the end of the file is not taken for that of the recording."""
    done = millrace('script', '-F', 'tid', '-i', path, status=DATA_ERROR)
    reported = [line for line in done.err.splitlines() if not line.startswith('millrace: this recording lost ')]
    assert len(reported) == 1 and re.match(r'millrace: \S+: offset 0x[0-9a-f]+: ', reported[0]), done
    return len(done.out.splitlines())


def check_recover(millrace, perf, path, nr):
    out = path.with_name('recovered')
    assert f'recovered {nr} sample{"s" * (nr != 1)}, ' in millrace('recover', '-o', out, path).err
    assert len(perf('script', '-F', 'tid', '-i', out).out.splitlines()) == nr
    assert len(millrace('script', '-F', 'tid', '-i', out).out.splitlines()) == nr


def test_each_cut(millrace, perf, whole, tmp_path):
    """Behind the end of the records, too: what would tell about them is missing then."""
    start, size = struct.unpack_from('<2Q', whole, 40)
    path, before = tmp_path / 'cut', 0
    private = whole.find(b'MILLRACE', start + size)  # the private sections
    inside = {private, private + 8, private + 32, private + 100} if private > 0 else set()
    cuts = sorted({*inside, *range(STEP, len(whole), STEP), start + size - 1, start + size,
                   (start + size + len(whole)) // 2, len(whole) - 1})
    for turn, cut in enumerate(cuts):
        path.write_bytes(whole[:cut])
        nr = read_cut(millrace, path)
        assert nr >= before
        before = nr
        if turn % 4 == 0 or cut >= start + size - 1:
            millrace('report', '-i', path, status=DATA_ERROR)
            check_recover(millrace, perf, path, nr)
    path.write_bytes(whole)
    assert len(millrace('script', '-F', 'tid', '-i', path).out.splitlines()) == before


def test_cut_before_its_records(millrace, whole, tmp_path):
    """Header, or what tells of the events, is not there: nothing can be read."""
    start, _ = struct.unpack_from('<2Q', whole, 40)
    path = tmp_path / 'cut'
    for cut in range(1, start, 173 if not sanitized() else 331):
        path.write_bytes(whole[:cut])
        for command in ['script', '-i', path], ['report', '-i', path], ['recover', '-o', tmp_path / 'out', path]:
            done = millrace(*command, status=DATA_ERROR)
            assert not done.out and len(done.err.splitlines()) == 1 and str(tmp_path) in done.err, done
