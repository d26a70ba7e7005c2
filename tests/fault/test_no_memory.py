# SPDX-License-Identifier: MIT
"""
An allocation that fails, at any moment of a recording or a reading, once or from then on: it ends well or says why not.

ALLOCATIONS   how many moments of each are tried (default 16)
"""
import os
import re

import pytest

from conftest import MILLRACE, sanitized

FAIL_ALLOCATION = MILLRACE.parent / 'tests' / 'programs' / 'fail_allocation.so'
NR = int(os.environ.get('ALLOCATIONS', 16))

pytestmark = pytest.mark.skipif(sanitized(), reason='no library can be loaded before that of a sanitizer')

RECORD = 'record -o out -e cpu-clock:u '
COMMANDS = [RECORD + '-g -- true', RECORD + '--threads -- true', RECORD + '--threads --single-file -z -- true',
            RECORD + '--off-cpu -z --switch-output=1s --call-graph unwind -- true', RECORD + '--flight=2s -- true',
            'report -i RECORDING', 'script -i RECORDING', 'flame -i RECORDING -o page.html',
            'export -f -i RECORDING --format=sqlite -o x.db', 'recover -o recovered CUT']


@pytest.fixture(scope='module')
def recording(run, program, programs, tmp_path_factory):
    path = tmp_path_factory.mktemp('recording') / 'perf.data'
    run([program, 'record', '-q', '-g', '-e', 'cpu-clock:u', '-F', '999', '-o', path, '--', programs / 'spin', '-m',
         '50'])
    path.with_name('cut').write_bytes(path.read_bytes()[:-3000])
    return path


@pytest.mark.parametrize('command', COMMANDS)
def test_says_so(run, program, recording, tmp_path, command):
    names = {'RECORDING': recording, 'CUT': recording.with_name('cut')}
    words = [names.get(word, word) for word in command.split()]

    def allocate(first, count, status=None):
        env = {'LD_PRELOAD': str(FAIL_ALLOCATION), 'FAIL_ALLOCATION': f'{first},{count}'}
        return run([program, *words], status=status, cwd=tmp_path, env=env)

    total = int(re.search(r'^allocations: (\d+)$', allocate(0, 0, status=0).err, re.M)[1])
    assert total > 20
    for first in range(total // NR // 2, total, max(1, total // NR)):
        for count in 1, 1 << 40:
            done = allocate(first, count)
            assert done.status in (0, 255), (first, count, done)
            assert done.status == 0 or re.search('^millrace: ', done.err, re.M), (first, count, done)
