# SPDX-License-Identifier: MIT
"""The command line as a whole: help, version, completion words, exit statuses, unknown words."""
import os
import pathlib
import re
import shutil
import struct
import subprocess

import perf_file
import pytest

from conftest import MILLRACE, ROOT

USAGE = 129


def words(*command):
    out = subprocess.run([MILLRACE, '--complete', *command], stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(line.split('\t') for line in out.splitlines())


def command_names():
    return [word for word in words() if not word.startswith('-') and word != 'help']


COMMANDS = command_names() if pathlib.Path(MILLRACE).exists() else []


def one_line(done, *texts):
    assert done.out == ''
    assert done.err.startswith('millrace: ') and done.err.count('\n') == 1, done
    for text in texts:
        assert text in done.err, done


def test_version(millrace):
    version = re.search(r"version: '(.+)'", (ROOT / 'meson.build').read_text()).group(1)
    first, commit, features = millrace('--version').out.splitlines()
    assert first == f'millrace version {version}'
    assert re.fullmatch(r'commit ([0-9a-f]{7,40}(-dirty)?|unknown)', commit)
    assert re.fullmatch(r'features( [+-]\w+)+', features) and 'zstd' in features


def test_help_lists_every_command(millrace):
    for args in ['--help'], ['-h'], ['help']:
        done = millrace(*args)
        assert done.err == ''
        listed = re.findall(r'^  (\w+) +\S', done.out, re.M)
        assert listed == COMMANDS


def test_no_command_is_an_error(millrace):
    done = millrace(status=USAGE)
    assert done.out == '' and 'Usage: millrace COMMAND' in done.err


@pytest.mark.parametrize('command', COMMANDS)
def test_help_of_command(millrace, command):
    done = millrace(command, '--help', env={'COLUMNS': '80'})
    assert done.err == ''
    assert done.out.startswith(f'Usage: millrace {command} ')
    assert all(len(line) <= 80 for line in done.out.splitlines()), 'wider than the terminal'
    for word in words(command):
        assert re.search(rf'(^|[ ,]){re.escape(word)}\b', done.out, re.M), f'{word} is not in --help'
    assert millrace(command, '-h', env={'COLUMNS': '80'}).out == done.out
    assert millrace('help', command, env={'COLUMNS': '80'}).out == done.out
    wide = millrace(command, '--help', env={'COLUMNS': '300'}).out
    assert max(map(len, wide.splitlines())) <= 100


@pytest.mark.parametrize('command', COMMANDS)
def test_unknown_option(millrace, command):
    one_line(millrace(command, '--zzzz', status=USAGE), 'unknown option --zzzz', f'millrace {command} --help')
    names = [word for word, arg in words(command).items() if word.startswith('--') and len(word) > 6]
    for name in names[:5]:
        typed = name[:3] + name[4] + name[3] + name[5:]
        if typed != name:
            one_line(millrace(command, typed, status=USAGE), f'unknown option {typed}; did you mean {name}?')


@pytest.mark.parametrize('command', COMMANDS)
def test_argument_is_missing(millrace, command):
    for word, arg in words(command).items():
        if arg and not arg.startswith('['):
            one_line(millrace(command, word, status=USAGE), f'option {word} needs a value: {word} {arg}')


def test_unknown_command(millrace):
    one_line(millrace('zzzz', status=USAGE), 'unknown command zzzz', "'millrace --help'")
    one_line(millrace('--zzzz', status=USAGE), 'unknown option --zzzz')
    one_line(millrace('help', 'zzzz', status=USAGE), 'unknown command zzzz')
    for command in (command for command in COMMANDS if len(command) > 3 and command[2] != command[3]):
        swapped = command[:2] + command[3] + command[2] + command[4:]
        one_line(millrace(swapped, status=USAGE), f'unknown command {swapped}; did you mean {command}?')


def test_commands_of_perf(millrace):
    one_line(millrace('annotate', status=USAGE), 'annotate is a command of perf alone', "'millrace report'")
    one_line(millrace('evlist', '-i', 'x', status=USAGE), 'evlist', "'millrace report --header-only'")
    one_line(millrace('config', status=USAGE), 'config', 'millrace-config(5)')
    one_line(millrace('stat', 'true', status=USAGE), 'stat', "perf's")
    for line in run_perf_help():
        if line not in COMMANDS:
            one_line(millrace(line, status=USAGE), f'{line} is a command of perf alone: ')


def run_perf_help():
    """The commands that the installed perf lists."""
    if not shutil.which('perf'):
        return []
    text = subprocess.run(['perf', '--help'], capture_output=True, text=True, timeout=60).stdout
    return re.findall(r'^   ([a-z0-9-]+) +[A-Za-z]', text, re.M)


def test_full_stdout_is_an_error(run, program):
    done = run(['sh', '-c', f'exec {program} --help > /dev/full'], status=1)
    one_line(done, 'standard output', 'No space left')


@pytest.mark.parametrize('words', ['doctor', 'doctor --json', 'list sw'])
def test_full_stdout_is_no_answer(run, program, words):
    """1 says that nothing can be recorded, or that there is no such event."""
    done = run(['sh', '-c', f'exec {program} {words} > /dev/full'], status=255)
    one_line(done, 'standard output', 'No space left')


@pytest.mark.parametrize('command', ['report', 'script', 'flame'])
def test_nothing_was_recorded(millrace, tmp_path, command):
    one_line(millrace(command, status=255, cwd=tmp_path), 'perf.data: No such file or directory: record first',
             'with -i')
    assert 'record first' not in millrace(command, '-i', 'nosuch', status=255, cwd=tmp_path).err
    one_line(millrace(command, '-i', '', status=USAGE, cwd=tmp_path), 'option -i: the name is empty')


@pytest.mark.parametrize('length', [100, 400, 500, 600, 1000, 1100, 4000, 5000])
def test_message_about_a_long_path(millrace, length):
    """The reason stands behind it."""
    path = ('d' * 99 + '/') * (length // 100)
    for command in ['report', '-i'], ['script', '-i']:
        done = millrace(*command, path, status=None)
        assert done.status == 255
        one_line(done, 'millrace: ' + path[:200], 'No such file' if length < 4096 else 'File name too long')


def test_messages_about_backslashes(millrace, tmp_path):
    """What is shown of a message has two where it has one."""
    (tmp_path / 'config').write_text('[report]\nsort = \\x\n')
    for done in (millrace('report', '-t', '..', status=USAGE),
                 millrace('report', status=USAGE, env={'MILLRACE_CONFIG': str(tmp_path / 'config')})):
        one_line(done, 'a backslash')
        assert '\\' not in done.err


@pytest.fixture(scope='module')
def damaged(need_root, millrace, programs, tmp_path_factory):
    """A recording that has something that is no record behind the first ones."""
    path = tmp_path_factory.mktemp('damaged') / 'perf.data'
    millrace('record', '-e', 'cpu-clock', '-g', '-o', path, '--', programs / 'spin', '-t', '1', '-m', '200')
    data = bytearray(path.read_bytes())
    at, size = struct.unpack_from('=QQ', data, 40)
    middle = at + size // 2
    while at < middle:
        at += struct.unpack_from('=IHH', data, at)[2]
    struct.pack_into('=IHH', data, at, 9, 2, 3)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize('closed', [[2], [1, 2], [0, 1, 2], [0, 2]], ids=str)
def test_closed_descriptors(damaged, millrace, tmp_path, closed):
    """No file gets the number of standard error, and with it the messages."""
    out, usual = tmp_path / 'out', tmp_path / 'usual'
    options = ['--format=folded', '-i', damaged, '-o']
    assert 'no record' in millrace('export', *options, usual, status=255).err
    for command in ['export', *options, out], ['report', '--stdio', '-i', damaged]:
        done = subprocess.run([MILLRACE, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              preexec_fn=lambda: [os.close(number) for number in closed], check=False)
        assert done.returncode == 255
    assert out.read_bytes() == usual.read_bytes()
    shown = subprocess.run([MILLRACE, '--version'], preexec_fn=lambda: [os.close(number) for number in closed],
                           stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    assert shown.returncode == (1 if 1 in closed else 0)
    done = subprocess.run([MILLRACE, 'record', '-e', 'cpu-clock', '-o', tmp_path / 'data', '--', 'true'],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          preexec_fn=lambda: [os.close(number) for number in closed], check=False)
    assert done.returncode == 0 and millrace('script', '-i', tmp_path / 'data')


def test_one_has_no_plural(millrace, tmp_path):
    """Of a recording of one sample, in which one record was lost, in one place."""
    data, lost = tmp_path / 'data', struct.pack('<IHHQQ', 2, 0, 24, 0, 1)
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4)
    data.write_bytes(perf_file.build([attr], {}, records=perf_file.sample(2, 4096, 7 << 32 | 7, 1000) + lost))
    assert 'this recording lost 1 record in 1 place\n' in millrace('report', '-i', data).err
    assert '1 sample, 1 stack, ' in millrace('export', '--format=folded', '-i', data, '-o', tmp_path / 'out').err
    millrace('flame', '-i', data, '-o', tmp_path / 'page.html')
    assert '"1 sample."' in (tmp_path / 'page.html').read_text()
    data.write_bytes(perf_file.build([attr], {}, records=lost))
    assert ': 1 record, 0.0 MB, of 1 recording\n' in millrace('merge', '-o', tmp_path / 'merged', data).err


LOADED_LATER = {
    'libdw': 'libdw1', 'liblzma': 'liblzma5', 'libncursesw': 'libncursesw6', 'libprotobuf-c': 'libprotobuf-c1',
    'libseccomp': 'libseccomp2', 'libsqlite3': 'libsqlite3-0', 'libtraceevent': 'libtraceevent1', 'libzstd': 'libzstd1',
}


@pytest.mark.skipif(not shutil.which('readelf'), reason='readelf is not installed')
def test_libraries_that_recording_does_without_are_not_loaded_at_the_start():
    """What the packages name instead, as their tools see only what is linked."""
    dynamic = subprocess.run(['readelf', '-d', MILLRACE], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r'NEEDED.*\[(.*?)\.so', dynamic)
    assert 'libelf' in needed or not needed  # static
    assert not set(needed) & {*LOADED_LATER, 'libtinfo', 'libm', 'libcurl', 'libpfm', 'libcapstone'}
    control = (ROOT / 'debian/control').read_text()
    assert all(re.search(rf'^ {package}\b', control, re.M) for package in LOADED_LATER.values())


@pytest.mark.skipif(os.geteuid() != 0, reason='needs root')
@pytest.mark.parametrize('library, command, text', [
    ('libsqlite3.so.0', ['export', '--format=sqlite', '-o', 'out.db'], 'libsqlite3.so.0, which is not installed'),
    ('libprotobuf-c.so.1', ['export', '--format=pprof', '-o', 'out.gz'], 'libprotobuf-c.so.1, which is not installed'),
    ('libtraceevent.so.1', ['script'], 'libtraceevent.so.1, which is not installed'),
    ('libzstd.so.1', ['report'], 'zstd'),
])
def test_a_library_that_is_missing_is_named(tmp_path, library, command, text):
    """It may be missing where the program was copied to."""
    found = subprocess.run(['/sbin/ldconfig', '-p'], capture_output=True, text=True, check=True).stdout
    paths = re.findall(rf'{re.escape(library)} .*=> (\S+)', found)
    if not paths:
        pytest.skip(f'{library} is not installed')
    data = tmp_path / 'perf.data'
    words = ['record', '-q', '-z', '-e', 'sched:sched_process_exit', '-o', data, '--', 'true']
    record = subprocess.run([MILLRACE, *words], capture_output=True, text=True)
    if record.returncode:
        pytest.skip(f'sched:sched_process_exit cannot be recorded: {record.stderr}')
    hide = ' && '.join(f'mount --bind /dev/null {path}' for path in paths)
    hidden = ['unshare', '-m', 'sh', '-c', f'{hide} && exec "$0" "$@"', MILLRACE]
    done = subprocess.run([*hidden, *command, '-i', data], cwd=tmp_path, capture_output=True, text=True)
    assert text in done.stderr and done.stderr.startswith('millrace: '), done


@pytest.mark.skipif(not shutil.which('readelf'), reason='readelf is not installed')
def test_the_processor_is_not_asked_what_it_has_at_each_start():
    """Each question is an exit of a virtual machine: 60 us. The compiler's __builtin_cpu_supports() brings that in."""
    symbols = subprocess.run(['readelf', '-sW', MILLRACE], capture_output=True, text=True, check=True).stdout
    assert '__cpu_indicator_init' not in symbols
