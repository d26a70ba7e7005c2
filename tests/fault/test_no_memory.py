# SPDX-License-Identifier: MIT
"""
An allocation that fails, at any moment of a recording or a reading, once or from then on: it ends well or says why not.
What a reader then tells with status 0 is what it tells with enough memory.

ALLOCATIONS   how many moments of each are tried (default 16; all of report's, which are few)
"""
import os
import re
import struct

import pytest

from conftest import MILLRACE, sanitized

FAIL_ALLOCATION = MILLRACE.parent / 'tests' / 'programs' / 'fail_allocation.so'
NO_MEMORY = re.compile('out of memory|Cannot allocate memory')
NR = int(os.environ.get('ALLOCATIONS', 16))

pytestmark = pytest.mark.skipif(sanitized(), reason='no library can be loaded before that of a sanitizer')

RECORD = 'record -o out -e cpu-clock:u '
COMMANDS = [RECORD + '-g -- true', RECORD + '--threads -- true', RECORD + '--threads --single-file -z -- true',
            RECORD + '--off-cpu -z --switch-output=1s --call-graph unwind -- true', RECORD + '--flight=2s -- true',
            'report -i RECORDING', 'report -i RECORDING --inline -s sym,srcline --json', 'script -i RECORDING --header',
            'script -i RECORDING --inline -F +srcline', 'report -i RECORDING -D', 'report -i RECORDING --html OUT',
            'flame -i RECORDING -o OUT', 'export -f -i RECORDING --format=sqlite -o OUT',
            'export -i RECORDING --format=folded -o -', 'export -i RECORDING --format=firefox -o OUT',
            'diff RECORDING RECORDING', 'merge -o OUT RECORDING RECORDING', 'recover -o OUT CUT', 'list']


EACH = ['report -i RECORDING']


@pytest.fixture(scope='module')
def recording(run, program, programs, tmp_path_factory):
    path = tmp_path_factory.mktemp('recording') / 'perf.data'
    run([program, 'record', '-q', '-g', '-e', 'cpu-clock:u', '-F', '999', '-o', path, '--', programs / 'spin', '-m',
         '50'])
    path.with_name('cut').write_bytes(path.read_bytes()[:-3000])
    return path


@pytest.mark.parametrize('command', COMMANDS)
def test_says_so(run, program, recording, tmp_path, command):
    out = tmp_path / 'out'
    names = {'RECORDING': recording, 'CUT': recording.with_name('cut'), 'OUT': out}
    words = [names.get(word, word) for word in command.split()]

    def allocate(first, count, status=None):
        env = {'LD_PRELOAD': str(FAIL_ALLOCATION), 'FAIL_ALLOCATION': f'{first},{count}'}
        if out in words:
            out.unlink(missing_ok=True)
        return run([program, *words], status=status, cwd=tmp_path, env=env)

    def output_of(done):
        return done.out, out.read_bytes() if out in words else b''

    enough = allocate(0, 0, status=0)
    total, wanted = int(re.search(r'^allocations: (\d+)$', enough.err, re.M)[1]), output_of(enough)
    assert total > 20
    step = 1 if command in EACH else max(1, total // NR)
    for first in range(step // 2, total, step):
        for count in 1, 1 << 40:
            done = allocate(first, count)
            said = re.search('^millrace: ', done.err, re.M)
            assert done.status in (0, 255) or done.status == 129 and NO_MEMORY.search(done.err), (first, count, done)
            # What writes a recording adds when, by which command and on which machine it did.
            assert done.status or said or words[0] == 'record' or output_of(done) == wanted, (first, count, done)
            assert said or done.status == 0 and words[0] != 'record', (first, count, done)


def test_recover_cuts_off_nothing_else(run, program, recording, tmp_path):
    """In its place: all whole records stay, wherever the memory ends."""
    cut, path = recording.with_name('cut').read_bytes(), tmp_path / 'perf.data'

    def recover(first, count):
        path.write_bytes(cut)
        env = {'LD_PRELOAD': str(FAIL_ALLOCATION), 'FAIL_ALLOCATION': f'{first},{count}'}
        done = run([program, 'recover', path], status=None, env=env)
        return done.err, path.read_bytes()

    said, whole = recover(0, 0)
    start, size = struct.unpack_from('<2Q', whole, 40)
    total = int(re.search(r'^allocations: (\d+)$', said, re.M)[1])
    assert total > 20 and size > 1000
    for first in range(min(total, 20 * NR)):
        said, found = recover(first, 1)
        assert found[start:start + size] == whole[start:start + size], (first, said)
