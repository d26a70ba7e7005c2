# SPDX-License-Identifier: MIT
"""The command line as a whole: help, version, completion words, exit statuses, unknown words."""
import pathlib
import re
import shutil
import subprocess

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


@pytest.mark.parametrize('command', ['report', 'script', 'flame'])
def test_nothing_was_recorded(millrace, tmp_path, command):
    one_line(millrace(command, status=255, cwd=tmp_path), 'perf.data: No such file or directory: record first',
             'with -i')
    assert 'record first' not in millrace(command, '-i', 'nosuch', status=255, cwd=tmp_path).err
    one_line(millrace(command, '-i', '', status=USAGE, cwd=tmp_path), 'option -i: the name is empty')
