# SPDX-License-Identifier: MIT
"""Fewer files can be open than the recorded objects need: the limit is raised, and where it cannot be, it is said."""
import resource

import pytest

from conftest import sanitized

COMMANDS = ['script -i RECORDING', 'report -i RECORDING -g --stdio', 'export -i RECORDING --format=folded -o -',
            'export -i RECORDING --format=pprof -o OUT']
# More than the recording, the output and shared libraries need; the last one is enough for all objects.
LIMITS = [*(range(8, 16) if not sanitized() else range(9, 16, 3)), 64]


@pytest.fixture(scope='module')
def recording(run, program, programs, tmp_path_factory):
    path = tmp_path_factory.mktemp('recording') / 'perf.data'
    run([program, 'record', '-q', '--call-graph', 'dwarf', '-e', 'cpu-clock', '-F', '999', '-o', path, '--', 'sh', '-c',
         f'{programs}/spin -m 50; {programs}/syscalls -t 1 -n 300000'])  # the kernel's symbols are a file, too
    return path


@pytest.mark.parametrize('cache', [[], ['--no-line-cache']], ids=['line-cache', 'no-line-cache'])
@pytest.mark.parametrize('command', COMMANDS)
def test_says_so(run, program, recording, tmp_path, command, cache):
    """What was looked up before needs fewer files: then the lowest limit may be enough."""
    out = tmp_path / 'out'
    names = {'RECORDING': recording, 'OUT': out}
    words = [names.get(word, word) for word in command.split()] + cache

    def read(*limit):
        out.unlink(missing_ok=True)
        done = run(['prlimit', *limit, '--', program, *words], status=None)
        return done, (done.out, out.read_bytes() if out.exists() else b'')

    done, wanted = read()
    assert done.status == 0, done.err
    statuses = set()
    for limit in LIMITS:
        done, its = read(f'--nofile={limit}:{resource.getrlimit(resource.RLIMIT_NOFILE)[1]}')
        assert done.status == 0 and its == wanted, done.err
        done, its = read(f'--nofile={limit}')
        statuses.add(done.status)
        assert (done.status == 0 and its == wanted) or (
            done.status == 255 and 'oo many open files' in done.err), (limit, done.status, done.err)
    assert statuses == {0, 255} or (statuses == {0} and not cache)
