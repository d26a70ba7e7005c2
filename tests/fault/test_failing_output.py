# SPDX-License-Identifier: MIT
"""Outputs of commands that read: where one cannot be written there is one line with its name, and no part is left."""
import errno
import os
import resource
import signal
import subprocess

import pytest

import perf_file

FORMATS = ['folded', 'speedscope', 'firefox', 'pprof', 'perfetto', 'otlp', 'sqlite']
COMMANDS = {
    **{name: ['export', f'--format={name}', '-o'] for name in FORMATS},
    'flame': ['flame', '-o'],
    'html': ['report', '--html'],
    'merge': ['merge', '-o'],
    'unwind': ['unwind', '-o'],
}
LIMIT_BYTES = 100


@pytest.fixture(scope='module')
def recording(millrace_once, programs, tmp_path_factory):
    file = tmp_path_factory.mktemp('failing') / 'dwarf.data'
    millrace_once('record', '-e', 'cpu-clock:u', '-c', '5000000', '--call-graph', 'dwarf', '-o', file, '--',
                  programs / 'deep', '-d', '30', '-m', '300')
    return file


@pytest.fixture(scope='module')
def millrace_once(program, run):
    return lambda *args: run([program, *args])


@pytest.fixture
def write(program, run, recording):
    """write(command, output, before=[]) -> Done of that command on the recording."""
    def start(command, output, before=()):
        *words, option = COMMANDS[command]
        where = [f'{option}={output}'] if option == '--html' else [option, output]
        source = [recording] if command == 'merge' else ['-i', recording]
        return run([*before, program, *words, *where, *source], status=None)

    return start


def check(done, path, error):
    """It failed; one line says why, and none says that something was written."""
    lines = done.err.splitlines()
    assert done.status > 0, done
    assert len([line for line in lines if str(path) in line]) == 1, done
    line = next(line for line in lines if str(path) in line)
    assert line.startswith('millrace: ') and error in line, done
    assert not done.out and len(lines) == 1, done


@pytest.mark.parametrize('command', COMMANDS)
def test_full_disk(write, tmpfs, command):
    room = tmpfs('4k')
    (room / 'filler').write_bytes(b'x' * 4096)
    check(write(command, room / 'out'), room / 'out', os.strerror(errno.ENOSPC))
    assert os.listdir(room) == ['filler']


@pytest.mark.parametrize('command', COMMANDS)
def test_disk_that_becomes_full(write, tmpfs, command):
    """Most formats have more than a page; for the others a page is enough, and that is right, too."""
    room = tmpfs('4k')
    done = write(command, room / 'out')
    if done.status == 0:
        assert (room / 'out').stat().st_size <= 4096
    else:
        check(done, room / 'out', os.strerror(errno.ENOSPC))
        assert not os.listdir(room)


@pytest.mark.parametrize('command', COMMANDS)
def test_full_device(write, command):
    error = 'needs the name of a regular file' if command == 'sqlite' else os.strerror(errno.ENOSPC)
    check(write(command, '/dev/full'), '/dev/full', error)
    assert os.path.exists('/dev/full')


@pytest.mark.parametrize('name', [name for name in FORMATS if name != 'sqlite'])
def test_full_device_before_the_end(program, run, tmp_path, name):
    """Of many stacks a part is written before all are known."""
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4, bits=1 << 18)
    records = b''.join(perf_file.sample(2, 0x1000 + i, 7 << 32 | 7, 10**9 + i) for i in range(60000))
    (tmp_path / 'many').write_bytes(perf_file.build([attr], {}, records=records + perf_file.FINISHED_ROUND))
    done = run([program, 'export', f'--format={name}', '-i', tmp_path / 'many', '-o', '/dev/full'], status=None)
    check(done, '/dev/full', os.strerror(errno.ENOSPC))


@pytest.mark.parametrize('command', COMMANDS)
def test_file_that_may_not_grow(write, tmp_path, command):
    before = ['prlimit', f'--fsize={LIMIT_BYTES}']
    check(write(command, tmp_path / 'out', before), tmp_path / 'out', os.strerror(errno.EFBIG))
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize('command', COMMANDS)
def test_directory(write, tmp_path, command):
    (tmp_path / 'out').mkdir()
    check(write(command, tmp_path / 'out'), tmp_path / 'out', 'irectory')
    assert os.listdir(tmp_path) == ['out'] and not os.listdir(tmp_path / 'out')


@pytest.mark.parametrize('command', COMMANDS)
def test_missing_directory(write, tmp_path, command):
    check(write(command, tmp_path / 'none' / 'out'), tmp_path / 'none' / 'out', 'does not exist')
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize('kind', ['fifo', 'descriptor', 'device'])
def test_no_database_where_no_file_can_be(program, run, recording, tmp_path, kind):
    path = {'fifo': tmp_path / 'fifo', 'descriptor': '/dev/stdout', 'device': '/dev/null'}[kind]
    if kind == 'fifo':
        os.mkfifo(path)
    done = run([program, 'export', '--format=sqlite', '-i', recording, '-o', path], status=None)
    check(done, path, 'needs the name of a regular file')


def test_descriptor_of_a_file(program, recording, tmp_path):
    """/dev/stdout of a shell that redirected it."""
    named, redirected = tmp_path / 'named', tmp_path / 'redirected'
    with open(redirected, 'wb') as out:
        for path in (named, '/dev/stdout'):
            subprocess.run([program, 'export', '--format=folded', '-i', recording, '-o', path], stdout=out,
                           stderr=subprocess.DEVNULL, check=True)
    assert named.read_bytes() == redirected.read_bytes() != b''


@pytest.mark.parametrize('where', ['full', 'limit'])
def test_query(program, recording, tmp_path, where):
    limit = None if where == 'full' else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))
    with open('/dev/full' if where == 'full' else tmp_path / 'out', 'wb') as out:
        done = subprocess.run([program, 'query', '-i', recording, 'SELECT * FROM stacks, symbols'], stdout=out,
                              stderr=subprocess.PIPE, text=True, preexec_fn=limit, check=False)
    error = os.strerror(errno.ENOSPC if where == 'full' else errno.EFBIG)
    assert done.returncode > 0 and done.stderr == f'millrace: standard output: {error}\n', done


@pytest.mark.parametrize('words', [
    'report --stdio', 'report --header-only', 'report --json', 'report -D', 'report --stats', 'script', 'script --json',
    'script --folded', 'list', 'list --json', 'doctor', 'doctor --json', '--help', 'diff {0} {0}',
    'diff --json {0} {0}'])
def test_texts(program, recording, words):
    """Each error of standard output is said once, whatever is said beside it."""
    command, *options = words.format(recording).split()
    given = ['-i', recording] if command in ('report', 'script') else []
    with open('/dev/full', 'wb') as full:
        done = subprocess.run([program, command, *given, *options], stdout=full, stderr=subprocess.PIPE, text=True,
                              check=False)
    said = [line for line in done.stderr.splitlines() if 'standard output' in line]
    assert said == [f'millrace: standard output: {os.strerror(errno.ENOSPC)}'] and done.returncode, done


def test_programs_that_are_recorded_have_the_signal(program, run, tmp_path):
    """What millrace starts is ended by a file that may not grow, as without it."""
    script = f'ulimit -f 1; head -c 4000 /dev/zero >{tmp_path / "grows"}; echo ended with $? >&2'
    done = run([program, 'record', '-e', 'dummy:u', '-o', tmp_path / 'data', '--', 'sh', '-c', script])
    assert f'ended with {128 + signal.SIGXFSZ}' in done.err, done
