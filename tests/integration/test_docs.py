# SPDX-License-Identifier: MIT
"""The option tables, the man pages and the completion say the same. The tables are what the program says they are."""
import re
import shutil
import subprocess

import pytest

from conftest import MILLRACE, ROOT
from test_cli import COMMANDS, USAGE, words

MAN = ROOT / 'man'
PAGES = sorted(MAN.glob('*.[15]'))


def argument_of(optional, text):
    """The first word of an argument, in brackets when it may be left out: its details are told elsewhere."""
    word = re.search(r'[A-Za-z]+', text).group()
    return f'[{word}]' if optional else word


def options_of_page(text):
    """{'--freq': 'HZ', '-F': 'HZ', ...} from the .It lines of an mdoc page."""
    found = {}
    for line in re.findall(r'^\.It (Fl (?:(?! Ta ).)*)$', text, re.M):  # not a row of a table
        for item in re.split(r' , (?=Fl )', line):
            name, optional, argument = re.match(r'Fl (\S+)( Ns Op)?.*?(?: Ar (.+))?$', item).groups()
            found['-' + name] = argument_of(optional, argument) if argument else ''
    return found


def options_of_table(command):
    return {word: argument_of(arg.startswith('['), arg) if arg else '' for word, arg in words(command).items()}


def test_the_page_parser_sees_all_forms():
    page = ('.It Fl F Ar HZ , Fl -freq Ar HZ\n.It Fl g\n.It Fl -sort Ns Op = Ns Ar KEYS\n.Fl x\n'
            '.It Fl w Ar NAME Ns Op , Ns Ar more\n.It Fl a , Fl -all\n')
    assert options_of_page(page) == {'-F': 'HZ', '--freq': 'HZ', '-g': '', '--sort': '[KEYS]', '-w': 'NAME', '-a': '',
                                     '--all': ''}


@pytest.mark.parametrize('command', COMMANDS)
def test_man_page_has_the_options_of_the_table(command):
    assert options_of_page((MAN / f'millrace-{command}.1').read_text()) == options_of_table(command)


def test_man_page_has_the_commands():
    text = (MAN / 'millrace.1').read_text()
    assert sorted(re.findall(r'^\.It Cm (\w+)$', text, re.M)) == sorted(COMMANDS + ['help'])
    assert set(options_of_page(text)) == {'-h'} | {word for word in words() if word.startswith('--')}


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_man_page_is_clean(run, page):
    if not shutil.which('mandoc'):
        pytest.skip('mandoc is not installed')
    assert run(['mandoc', '-T', 'lint', '-W', 'warning', page]).out == ''
    text = page.read_text()
    assert '\n.Dt ' + page.stem.upper() in text
    for name, section in re.findall(r'^\.Xr (millrace\S*) (\d)', text, re.M):
        assert (MAN / f'{name}.{section}').exists(), f'{page.name} refers to {name}({section})'


def complete(*line):
    """What bash offers for the last word of a line."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _millrace; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(['bash', '--norc', '-c', script, 'bash', str(ROOT / 'completion' / 'millrace'),
                           str(MILLRACE), *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.stderr == ''
    return done.stdout.split()


def test_completion_of_commands():
    assert sorted(complete('')) == sorted(words())
    assert sorted(complete('help', '')) == sorted(COMMANDS + ['help'])
    for command in COMMANDS:
        assert command in complete(command[:3])


@pytest.mark.parametrize('command', COMMANDS)
def test_completion_of_options(command):
    assert sorted(complete(command, '-')) == sorted(words(command))
    for word in words(command):
        assert word in complete(command, word)


@pytest.mark.skipif('record' not in COMMANDS, reason='needs the record command')
def test_completion_of_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'file.data').touch()
    assert complete('record', '-o', 'fi') == ['file.data']
    assert complete('record', '--output', '=', 'fi') == ['file.data']
    assert complete('record', '-F', '') == []
    assert 'true' in complete('record', '-a', 'tru')
    assert 'true' in complete('record', '-F', '99', '--', 'tru')
    assert complete('record', '--', 'true', 'fi') == ['file.data']
    assert complete('report', '-i', 'fi') == complete('merge', 'a', '-o', 'fi') == ['file.data']
    assert complete('diff', 'fi') == complete('diff', 'old', 'fi') == ['file.data']
    assert complete('query', '-i', 'x', 'fi') == ['file.data']


def values(command, word):
    """What --complete offers for the argument of an option."""
    return subprocess.run([MILLRACE, '--complete', command, word], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.split()


@pytest.mark.parametrize('command', COMMANDS)
def test_values_are_taken(millrace, command):
    """The option behind is what is wrong, not the value."""
    for word in (word for word, arg in words(command).items() if word.startswith('--')):
        for value in values(command, word):
            assert 'unknown option --zzzz' in millrace(command, f'{word}={value}', '--zzzz', status=USAGE).err


def test_completion_of_values():
    assert complete('record', '--call-graph', '') == ['fp', 'unwind', 'dwarf', 'lbr', 'no']
    assert complete('record', '--call-graph', '=', 'dw') == ['dwarf']
    assert complete('record', '-k', 'mono') == ['monotonic', 'monotonic_raw']
    assert complete('record', '-j', 'any,u,ca') == ['any,u,call']
    assert complete('report', '-s', 'comm,ds') == ['comm,dso', 'comm,dso_size', 'comm,dso_from', 'comm,dso_to',
                                                   'comm,dso_daddr']
    assert complete('report', '--sort', '=', 'pare') == ['parent'] == complete('top', '-s', 'pare')
    assert set(complete('report', '-F', 'overh')) >= {'overhead', 'overhead_children'}
    assert complete('report', '--call-graph', '=') == values('report', '-g')
    assert complete('script', '-F', 'comm,sym') == ['comm,sym', 'comm,symoff']
    assert 'folded' in complete('export', '--format', '')
    assert complete('record', '-F', '') == complete('report', '--max-stack', '') == []


def complete_in_fish(*line):
    if not shutil.which('fish'):
        pytest.skip('fish is not installed')
    script = ('set -gx PATH (path dirname $argv[1]) $PATH; source $argv[2]; complete -C "$argv[3]"')
    done = subprocess.run(['fish', '--no-config', '-c', script, '--', str(MILLRACE),
                           str(ROOT / 'completion' / 'millrace.fish'),
                           ' '.join(('millrace',) + line)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.stderr == ''
    return [row.split('\t')[0] for row in done.stdout.splitlines()]


def complete_in_zsh(*line):
    """What zsh would offer: its own completers are replaced by such that tell what they are asked for."""
    if not shutil.which('zsh'):
        pytest.skip('zsh is not installed')
    script = ('_files() { print FILES }; _command_names() { print COMMANDS }; _message() { print MESSAGE $* }; '
              '_normal() { print NORMAL $words }; compadd() { shift; print -l -- $* }; compset() { print -- $* }; '
              'file=$1; shift; words=("$@"); CURRENT=$#; source $file')
    done = subprocess.run(['zsh', '-f', '-c', script, 'zsh', str(ROOT / 'completion' / '_millrace'), str(MILLRACE),
                           *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.stderr == ''
    return done.stdout.splitlines()


def test_completion_in_fish(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'file.data').touch()
    assert set(words()) - {'-h', '--help', '--version'} <= set(complete_in_fish(''))
    assert 'file.data' not in complete_in_fish('')
    assert set(complete_in_fish('record', '--call')) == {'--call-graph'}
    assert complete_in_fish('record', '-o', 'fi') == ['file.data']
    assert 'true' in complete_in_fish('record', 'tru')
    assert complete_in_fish('record', '-F', '99', '--', 'true', 'fi') == ['file.data']
    assert set(complete_in_fish('record', '--call-graph', '')) == set(values('record', '--call-graph'))
    assert complete_in_fish('report', '-s', 'comm,pare') == ['comm,parent']
    assert complete_in_fish('diff', 'fi') == complete_in_fish('diff', 'a', 'fi') == ['file.data']


def test_completion_in_zsh():
    assert set(complete_in_zsh('')) == set(words())
    assert set(complete_in_zsh('record', '-')) == set(words('record'))
    assert complete_in_zsh('record', '-o', '') == ['FILES']
    assert complete_in_zsh('record', '-F', '') == ['MESSAGE HZ']
    assert complete_in_zsh('record', '--call-graph', '') == values('record', '--call-graph')
    assert complete_in_zsh('report', '-s', 'comm,') == ['-P *,'] + values('report', '-s')
    assert complete_in_zsh('record', 'tr') == complete_in_zsh('record', '--', 'tr') == ['COMMANDS']
    assert complete_in_zsh('record', '-F', '99', 'ls', 'x') == ['NORMAL ls x']


def options_of_perf(perf):
    """The long names (or letters without one) that perf record -h lists."""
    done = perf('record', '-h', status=None)
    found = re.findall(r'^    (-\w)?(?:, |    )?(?:--([a-z-]+))?', done.out + done.err, re.M)
    return ['--' + name if name else letter for letter, name in found if letter or name]


def states_in_page():
    text = (MAN / 'millrace-record.1').read_text()
    return {name.replace('\\-', '-'): state for name, state in re.findall(r'^\.It Li (\S+) Ta (\w+)', text, re.M)}


@pytest.mark.text_of_perf
@pytest.mark.skipif('record' not in COMMANDS, reason='needs the record command')
def test_every_option_of_perf_has_a_state(perf):
    assert list(states_in_page()) == options_of_perf(perf)


@pytest.mark.skipif('record' not in COMMANDS, reason='needs the record command')
def test_the_states_are_true():
    known = words('record')
    for name, state in states_in_page().items():
        assert state in ('here', 'refused'), name
        assert (name in known) == (state == 'here'), name
        if state == 'refused':
            done = subprocess.run([MILLRACE, 'record',
                                   name + '=x' if name != '--kcore' else name,
                                   '--', 'true'], stderr=subprocess.PIPE, text=True)
            assert done.returncode == 129 and done.stderr.startswith(f'millrace: option {name}: '), done.stderr
            assert len(done.stderr.splitlines()) == 1
