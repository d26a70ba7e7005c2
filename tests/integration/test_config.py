# SPDX-License-Identifier: MIT
"""The configuration file: where it is, what it sets, what the command line overrides, what is wrong with it."""
import os
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import ROOT  # noqa: E402
from perfdata import CALLCHAIN, PerfData  # noqa: E402
from test_cli import COMMANDS, words  # noqa: E402

USAGE = 129
STACK_USER = 1 << 13  # of sample_type: perf_event_open(2)
BUILD_IDS = 1 << 2  # HEADER_BUILD_ID


@pytest.fixture
def record(millrace, tmp_path):
    """record(configuration, *options) -> Done of a short recording into tmp_path/p.data."""
    def run(text, *options, env=None, **keywords):
        config = tmp_path / 'config'
        config.write_text(text)
        return millrace('record', *options, '-o', tmp_path / 'p.data', '--', 'true',
                        env={'MILLRACE_CONFIG': str(config), **(env or {})}, **keywords)
    return run


@pytest.fixture
def data(tmp_path):
    return lambda: PerfData(tmp_path / 'p.data')


def writer(done):
    return re.search(r'writer (\w+)', done.err).group(1)


def test_sets_the_writer(record):
    assert writer(record('[record]\nverbose\nwriter = mmap')) == 'mmap'
    assert writer(record('[Record]\nVerbose = on\nAIO = 2')) == 'aio'
    assert writer(record('[record]\nverbose\naio = true\naio = false\nwriter = serial')) == 'serial'


def test_command_line_wins(record):
    assert writer(record('[record]\nverbose\nwriter = mmap', '--writer=serial')) == 'serial'
    assert writer(record('[record]\nverbose\naio = 4', '--mmap-output')) == 'mmap'
    assert record('[record]\nverbose = 2', '-q').err == ''


def test_sampling(record, data):
    record('[record]\nfreq = 77\ncall-graph = dwarf,4096')
    attr = data().attrs[0]
    assert attr.period == 77 and attr.sample_type & CALLCHAIN and attr.sample_type & STACK_USER
    record('[record]\nfreq = 77\ncall-graph = dwarf', '-c', '1000', '--no-call-graph')
    attr = data().attrs[0]
    assert attr.period == 1000 and not attr.sample_type & (CALLCHAIN | STACK_USER)
    record('[record]\ncall-graph = dwarf', '-g')
    attr = data().attrs[0]
    assert attr.sample_type & STACK_USER


def test_events_are_replaced(record, data):
    def types(*options):
        record('[record]\nevent = task-clock,page-faults', *options)
        events = [(attr.type, attr.config) for attr in data().attrs]
        assert events.pop() == (1, 9)  # of the side channel
        return events

    assert types() == [(1, 1), (1, 2)]
    assert types('-e', 'context-switches') == [(1, 3)]


def test_event_list_is_checked(record):
    done = record('[record]\n\nevent = no-such-event-at-all', status=USAGE)
    assert re.fullmatch(r'millrace: \S+/config:3: record\.event: .*no-such-event-at-all.*\n', done.err)


def test_wrong(record, tmp_path):
    for text, line, words in [('[record]\naio = 1000', 2, 'record.aio: "1000" is no number of blocks'),
                              ('[record]\n\n\nfreq', 4, 'record.freq: a value is missing'),
                              ('[record]\npid = 1', 2, 'record.pid: a configuration file cannot set it'),
                              ('[record]\nall-cpus', 2, 'record.all-cpus: a configuration file cannot set it'),
                              ('[record]\nquiet = perhaps', 2, 'record.quiet: "perhaps" is neither'),
                              ('[record\nquiet', 1, '"]" is missing')]:
        done = record(text, status=USAGE)
        assert done.err.count('\n') == 1
        assert done.err.startswith(f'millrace: {tmp_path}/config:{line}: {words}'), done
        assert not (tmp_path / 'p.data').exists()


def refused_keys(millrace, config, command):
    """The keys of a command that a file cannot set. Its last line is wrong, so that the command never runs."""
    keys = [word[2:] for word in words(command) if word.startswith('--') and word != '--help']
    refused = set()
    while keys:
        config.write_text(f'[{command}]\n' + ''.join(f'{key} = 1\n' for key in keys) + '[wrong\n')
        line, why = re.fullmatch(r'millrace: [^:]+:(\d+): (.+)\n', millrace(
            command, env={'MILLRACE_CONFIG': str(config)}, status=USAGE).err).groups()
        if int(line) == len(keys) + 2:
            break
        assert 'a configuration file cannot set it' in why
        refused.add(f'{command}.{keys.pop(int(line) - 2)}')
    return refused


def test_the_page_lists_what_cannot_be_set(millrace, tmp_path):
    page = (ROOT / 'man' / 'millrace-config.5').read_text()
    listed = re.findall(r'^\.It Cm (.+)$', page.split('.Ss What a file cannot set\n')[1].split('\n.Ss ')[0], re.M)
    found = [refused_keys(millrace, tmp_path / 'config', command) for command in COMMANDS if command != 'doctor']
    assert sorted(key for line in listed for key in line.split(' , ')) == sorted(set().union(*found))


def test_names_with_capital_letters(millrace, tmp_path):
    config = tmp_path / 'config'
    config.write_text('[script]\nLatency = perhaps\n')
    done = millrace('script', env={'MILLRACE_CONFIG': str(config)}, status=USAGE)
    assert 'script.latency: "perhaps" is neither true nor false' in done.err


@pytest.mark.parametrize('key', ['all-cpus', 'cpu', 'pid', 'tid', 'uid', 'cgroup', 'filter'])
def test_whom_top_records_is_no_default(millrace, tmp_path, key):
    config = tmp_path / 'config'
    config.write_text(f'[top]\n{key} = 1\n')
    done = millrace('top', env={'MILLRACE_CONFIG': str(config)}, status=USAGE)
    assert done.err.startswith(f'millrace: {config}:2: top.{key}: a configuration file cannot set it')


def test_unknown_is_noted(record, tmp_path):
    text = '[record]\nfrequ = 9\n[colors]\ntop = red\nhot = blue\n[report]\nnonsense = 1\n'
    notes = [line for line in record(text).err.splitlines() if f'{tmp_path}/config' in line]
    assert notes == [f'millrace: {tmp_path}/config:2: record.frequ is unknown and ignored; did you mean freq?',
                     f'millrace: {tmp_path}/config:4: [colors] is unknown and ignored']
    assert record(text, '-q').err == ''


def test_perf_names(record, data, tmp_path):
    for value, there in ('skip', False), ('no-cache', True):
        done = record(f'[record]\nbuild-id = {value}', '-F', 'max')
        assert 'ignored' not in done.err and bool(data().features & BUILD_IDS) == there
    notes = record('[call-graph]\nrecord-mode = fp\ndump-size = 8192\nprint-typo = x\n').err.splitlines()
    notes = [line for line in notes if 'ignored' in line]
    assert notes == [f'millrace: {tmp_path}/config:3: call-graph.dump-size is unknown and ignored; '
                     'did you mean record-mode = dwarf,SIZE?',
                     f'millrace: {tmp_path}/config:4: call-graph.print-typo is unknown and ignored']
    assert 'record.build-id is unknown' in record('[record]\nbuild-id = cache').err


def test_places(millrace, tmp_path):
    def said(**env):
        return millrace('record', '-o', tmp_path / 'p.data', '--', 'true', status=USAGE, env=env).err

    for place in '.config/millrace', 'xdg/millrace':
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / 'config').write_text('[record]\naio = x')
    (tmp_path / 'named').write_text('[record]\naio = x')
    home = {'HOME': str(tmp_path), 'MILLRACE_CONFIG': '', 'XDG_CONFIG_HOME': ''}
    xdg = {**home, 'XDG_CONFIG_HOME': str(tmp_path / 'xdg')}
    named = {**xdg, 'MILLRACE_CONFIG': str(tmp_path / 'named')}
    assert said(**home).startswith(f'millrace: {tmp_path}/.config/millrace/config:2: ')
    assert said(**xdg).startswith(f'millrace: {tmp_path}/xdg/millrace/config:2: ')
    assert said(**named).startswith(f'millrace: {tmp_path}/named:2: ')
    done = said(**{**xdg, 'MILLRACE_CONFIG': str(tmp_path / 'missing')})
    assert done == f'millrace: configuration file {tmp_path}/missing: No such file or directory\n'
    assert said(**{**xdg, 'MILLRACE_CONFIG': str(tmp_path)}).endswith(': Is a directory\n')
    (tmp_path / '.config/millrace/config').unlink()
    assert 'captured' in millrace('record', '-o', tmp_path / 'p.data', '--', 'true', env=home).err


def test_the_owner_is_that_of_the_file_that_is_read(program, run, tmp_path):
    """Another user, whose home directory it may be, can put another file there at any time."""
    config, log = tmp_path / '.config/millrace/config', tmp_path / 'calls'
    config.parent.mkdir(parents=True)
    config.write_text('[record]\naio = x')
    env = {**os.environ, 'HOME': str(tmp_path), 'MILLRACE_CONFIG': '', 'XDG_CONFIG_HOME': ''}
    done = run(['strace', '-e', 'trace=%file', '-o', log, program, 'record', '--', 'true'],
               env=env, status=USAGE)
    assert done.err.startswith(f'millrace: {config}:2: ')
    calls = [line for line in log.read_text().splitlines() if f'"{config}"' in line]
    assert len(calls) == 1 and calls[0].startswith('open')


def test_reports_take_it_too(record, millrace, tmp_path):
    record('[record]\n')
    file = tmp_path / 'p.data'
    config = tmp_path / 'config'
    for command in 'report', 'script':
        config.write_text(f'[{command}]\nheader-only\ninput = {file}\n[record]\nfreq = 1\n')
        plain = millrace(command, '--header-only', '-i', file).out
        assert plain and millrace(command, env={'MILLRACE_CONFIG': str(config)}, cwd='/').out == plain
        config.write_text(f'[{command}]\ninput =\n = 3\n')
        assert f'{config}:3: ' in millrace(command, env={'MILLRACE_CONFIG': str(config)}, status=USAGE).err


@pytest.mark.parametrize('command, key, text, said', [
    ('report', 'cpu', '0-', 'is no list of CPUs'),
    ('script', 'pid', '1,,2', 'is no list of process numbers'),
    ('diff', 'tid', 'x', 'is no list of thread numbers'),
    ('export', 'cpu', 'x', 'is no list of CPUs'),
])
def test_errors_name_the_line_of_a_wrong_list(millrace, tmp_path, command, key, text, said):
    config = tmp_path / 'config'
    config.write_text(f'[{command}]\n{key} = {text}\n')
    done = millrace(command, env={'MILLRACE_CONFIG': str(config)}, cwd=tmp_path, status=USAGE)
    assert done.err == f'millrace: {config}:2: {command}.{key}: "{text}" {said}\n'


@pytest.mark.parametrize('spec', ['bogus', '99999/0', '0/0:0/0'])
def test_wrong_threads_name_their_line(record, tmp_path, spec):
    """They are looked at when the CPUs are known."""
    text = f'[record]\n\nthreads = {spec}'
    err = record(text, status=255).err
    assert err.startswith(f'millrace: {tmp_path}/config:3: record.threads: ') and err.count('\n') == 1, err
    assert 'config' not in record(text, f'--threads={spec}', status=255).err
    record(text, '--no-threads')


def test_help_needs_no_configuration(record):
    assert record('[record\n', '--help').out.startswith('Usage:')


def test_example_of_the_manual(millrace, tmp_path):
    page = (ROOT / 'man' / 'millrace-config.5').read_text()
    example = re.search(r'\.Bd -literal.*?\n(.*?)\.Ed', page, re.S).group(1)
    config = tmp_path / 'config'
    config.write_text(example)
    env = {'MILLRACE_CONFIG': str(config)}
    done = millrace('record', '-e', 'cpu-clock', '-v', '-o', tmp_path / 'p.data', '--', 'true', env=env)
    assert 'ignored' not in done.err and writer(done) == 'aio'
    assert millrace('report', '-i', tmp_path / 'p.data', env=env).err == ''
