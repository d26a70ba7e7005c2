# SPDX-License-Identifier: MIT
"""Names of threads, files and functions are chosen by others: printed, they control no terminal and forge no line."""
import json
import os
import pathlib
import re
import stat
import struct
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import browser  # noqa: E402
import perf_file  # noqa: E402
from conftest import hostile_names  # noqa: E402

COMM = b'\n  99.99%  root'       # what the kernel keeps of a name: 15 bytes
LIBRARY = b'lib\x1b[2J\xff.so'
EXECUTED = b'ex\x1b]0;P\x07\n\xe2\x80\xaeec'
FUNCTION = b'sp;\x1b\n\xc2\x9b\xffabc'  # takes the place of spin_thread

# Bears the name, maps the library, takes CPU time, becomes the other program.
LAUNCHER = '''
import ctypes, mmap, os, sys, time
comm, library, executed = map(os.fsencode, sys.argv[1:])
ctypes.CDLL(None).prctl(15, comm)  # PR_SET_NAME
with open(library, 'rb') as file:
    mapped = mmap.mmap(file.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
end = time.process_time() + 0.2
while time.process_time() < end:
    pass
os.execv(executed, [executed, b'-t', b'1', b'-m', b'200'])
'''


def test_a_column_of_names_that_is_wider_than_a_write(millrace, tmp_path):
    """The name of an event is as long as its recorder likes, and the next lines have those of others all the same."""
    names, data = ('a', 'b' * ((1 << 18) + 6)), tmp_path / 'perf.data'
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 << 16 | 1 | 2 | 4, bits=1 << 18)
    described = perf_file.event_desc(*((name, attr, [i]) for i, name in enumerate(names, 1)))
    records = b''.join(perf_file.sample(2, event, 4096, 7 << 32 | 7, 1000) for event in (1, 1, 1, 2))
    data.write_bytes(perf_file.build([attr, attr], {12: described}, ids=[[1], [2]],
                                     records=records + perf_file.FINISHED_ROUND))
    lines = millrace('script', '-i', data, '-F', 'comm,tid,time,event').out.splitlines()
    columns = [line.rsplit(':', 2)[1] for line in lines]
    assert columns == [' ' * len(names[1]) + 'a'] * 3 + [' ' + names[1]]


def test_names_before_a_shorter_one(millrace, tmp_path):
    """As threads that name themselves after each of their tasks: what differs at the end is not cut off."""
    names = ['renamed-often-1', 'renamed-often-2', 'ab']
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4, bits=1 << 9 | 1 << 18)  # comm, sample_id_all
    records = b''
    for time, name in enumerate(names, 1):
        body = struct.pack('<2I', 7, 7) + name.encode().ljust(16, b'\0') + struct.pack('<2IQ', 7, 7, 10 * time)
        records += struct.pack('<IHH', 3, 0, 8 + len(body)) + body
        records += perf_file.sample(2, 4096, 7 << 32 | 7, 10 * time + 1)
    (tmp_path / 'data').write_bytes(perf_file.build([attr], {}, records=records + perf_file.FINISHED_ROUND))
    out = millrace('report', '-i', tmp_path / 'data', '-s', 'comm').out
    assert sorted(re.findall(r'^ +33\.33% +(\S+) *$', out, re.M)) == sorted(names), out


@pytest.fixture(scope='module')
def recording(millrace, programs, tmp_path_factory):
    """recording(option, ...) -> a file of what bears such names."""
    home = tmp_path_factory.mktemp('hostile')
    library, executed = (os.fsencode(home) + b'/' + name for name in (LIBRARY, EXECUTED))
    code = (programs / 'spin').read_bytes()
    assert len(FUNCTION) == len(b'spin_thread') and b'\0spin_thread\0' in code
    note = b'\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0'  # of a build-id; by the program's own, symbols come from ~/.debug
    at = code.find(note) + len(note)
    assert at >= len(note)
    code = code[:at] + os.urandom(20) + code[at + 20:]
    for path in library, executed:
        with open(path, 'wb') as file:
            file.write(code.replace(b'\0spin_thread\0', b'\0' + FUNCTION + b'\0'))
            os.fchmod(file.fileno(), stat.S_IRWXU)

    def make(*options):
        data = home / f'{len(list(home.iterdir()))}.data'
        with hostile_names():
            millrace('record', '-q', '-o', data, *options, '--', sys.executable, '-c', LAUNCHER, os.fsdecode(COMM),
                     os.fsdecode(library), os.fsdecode(executed))
        return data
    return make


@pytest.fixture(scope='module')
def clocked(recording):
    return recording('-e', 'cpu-clock', '-F', '2000', '-g')


def check_text(text):
    """Bytes that a terminal prints as they are."""
    characters = text.decode()  # UTF-8, all of it
    bad = re.findall('[^\n\t -~\u00a0-\uffff\U00010000-\U0010ffff]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]',
                     characters)
    assert not bad, bad
    return characters


PRINTED = [
    ['report'], ['report', '-g', 'caller'], ['report', '-g', 'folded'], ['report', '-t', ','],
    ['report', '-w', '5,5,6,7,8'], ['report', '-s', 'pid,comm,dso,sym'], ['report', '-s', 'srcline,srcfile'],
    ['report', '--header', '-I'], ['report', '--stats'], ['report', '--tasks'], ['report', '--mmaps'],
    ['report', '--loss'], ['report', '-D'], ['script'], ['script', '-G', '-F', '+srcline'],
    ['script', '--show-task-events', '--show-mmap-events'], ['script', '--folded'], ['script', '--json'],
    ['report', '--json'], ['flame', '-o', '-'],
]


@pytest.mark.parametrize('args', PRINTED, ids=' '.join)
def test_nothing_controls_the_terminal(millrace, clocked, args):
    done = millrace(*args, '-i', clocked, binary=True)
    assert done.out
    check_text(done.out)
    check_text(done.err)


@pytest.mark.parametrize('args, said', [
    (['report'], r'\\n  99\.99%  root .*'),
    (['report'], r'\[\.\] sp;\\x1b\\n\\u\{9b\}\\xffabc$'),
    (['report', '--tasks'], r'\|\s*ex\\x1b]0;P\\x07\\n\\u\{202e\}ec$'),
    (['report', '--mmaps'], r'/lib\\x1b\[2J\\xff\.so$'),
    (['report', '-D'], r'PERF_RECORD_MMAP2 .*/ex\\x1b]0;P\\x07\\n\\u\{202e\}ec$'),
    (['report', '-D'], r' \.\.\. thread: \\n  99\.99%  root:\d+$'),
    (['report', '--header'], r'^# cmdline : .*lib\\x1b\[2J\\xff\.so'),
    (['script'], r'^\\n  99\.99%  root +\d+ +\d'),
    (['script'], r'^\t +[0-9a-f]+ sp;\\x1b\\n\\u\{9b\}\\xffabc\+0x[0-9a-f]+ \(/.*/ex\\x1b]0;P\\x07\\n\\u\{202e\}ec\)$'),
    (['script', '--show-task-events'], r'PERF_RECORD_COMM: \\n  99\.99%  root:\d+/\d+$'),
    (['script', '--folded'], r'^[^;]*;(.*;)?sp:\\x1b\\n\\u\{9b\}\\xffabc;'),
])
def test_names_are_legible(millrace, clocked, args, said):
    assert re.search(said, check_text(millrace(*args, '-i', clocked, binary=True).out), re.MULTILINE)


def test_rows_are_not_forged(millrace, clocked):
    rows = [line for line in millrace('report', '-g', 'none', '-i', clocked).out.splitlines() if line
            and line[0] != '#']
    assert rows
    assert all(re.match(r' +\d+\.\d\d% +\d+\.\d\d%  \S', row) for row in rows), rows
    assert not any(re.match(r' *99\.99%  root', row) for row in rows)
    for line in millrace('script', '--folded', '-i', clocked).out.splitlines():
        assert re.fullmatch(r'(spin|\\n  99|python|ex\\x1b|perf|millrace).* \d+', line), line


def test_columns_are_as_wide_as_what_is_printed(millrace, clocked):
    rows = [line for line in millrace('report', '-g', 'none', '-s', 'comm,dso,sym', '-i', clocked,
                                      '-q').out.splitlines() if line]
    assert {re.search(r'\[[.k]\] ', row).start() for row in rows} == {re.search(r'\[[.k]\] ', rows[0]).start()}


@pytest.mark.parametrize('args', [['script', '--json'], ['report', '--json'], ['report', '--loss', '--json']],
                         ids=' '.join)
def test_json_is_valid(millrace, clocked, args):
    out = millrace(*args, '-i', clocked, binary=True).out.decode()
    parsed = [json.loads(line) for line in out.splitlines()] if args[0] == 'script' else json.loads(out)
    if args == ['script', '--json']:
        assert any(sample['comm'] == COMM.decode() for sample in parsed)
        assert any(frame.get('sym') == 'sp;\x1b\n\x9b\ufffdabc' for sample in parsed for frame in sample['callchain'])


def test_page_is_valid(millrace, clocked, tmp_path):
    millrace('flame', '-o', tmp_path / 'page.html', '-i', clocked)
    assert 'sp;\x1b\n\x9b\ufffdabc' in browser.content(tmp_path / 'page.html')['texts']


def test_fields_of_tracepoints(millrace, recording, need_tracefs):
    data = recording('-e', 'sched:sched_process_exec,sched:sched_process_exit')
    out = check_text(millrace('script', '-i', data, binary=True).out)
    assert re.search(r'sched:sched_process_exec: filename=/.*/ex\\x1b]0;P\\x07\\n\\u\{202e\}ec pid=\d+ old_pid=\d+$',
                     out, re.MULTILINE)
    for sample in millrace('script', '--json', '-i', data).out.splitlines():
        json.loads(sample)
    check_text(millrace('report', '-s', 'trace', '-i', data, binary=True).out)


@pytest.mark.parametrize('args', [
    ['report', '-i', 'no\x1b[2J\nmillrace: all is well\udcff'],
    ['report', '--opt\x1b[2J\nion'],
    ['record', '-e', 'ev\x1b[2J\nent', '--', 'true'],
    ['record', '-o', '/dev/null/a\x1b\nb', '--', 'true'],
    ['record', '--', './no\x1b[2J\nprogram'],
    ['list', 'no\x1b[2J'],
])
def test_messages(millrace, tmp_path, args):
    done = millrace(*args, status=None, binary=True, cwd=tmp_path)
    assert done.err and done.status
    said = check_text(done.err)
    assert all(line.startswith('millrace: ') for line in said.splitlines())
    assert 'millrace: all is well' not in said.splitlines()


@pytest.mark.text_of_perf
def test_raw_text_is_that_of_perf(millrace, perf, clocked):
    fields = ['-F', 'comm,tid,time,ip,sym,dso', '-i', clocked]
    raw = millrace('script', '--raw-text', *fields, binary=True).out
    assert COMM in raw and FUNCTION in raw and EXECUTED in raw
    assert raw == perf('script', *fields, binary=True).out
    assert FUNCTION in millrace('report', '--raw-text', '-i', clocked, binary=True).out
    check_text(millrace('script', '--raw-text', '--folded', '-i', clocked, binary=True).out)


# What a CPU_MAP record has behind its header, and what the dump says of it.
CPU_MAPS = {
    'numbers': (struct.pack('<5H', 0, 3, 0, 1, 3), '0-1,3'),
    'any, and numbers': (struct.pack('<5H', 0, 3, 0xffff, 1, 2), '-1,1-2'),
    'any': (struct.pack('<3H', 0, 1, 0xffff), '-1'),
    'a mask of 32 bits': (struct.pack('<3H2I', 1, 2, 4, 5, 1), '0,2,32'),
    'a mask of 64 bits': (struct.pack('<3HIQ', 1, 1, 8, 0, 1 << 63 | 1), '0,63'),
    'a mask of 16 bytes a word': (struct.pack('<3HI2Q', 1, 1, 16, 0, 1, 1), ' (cut short)'),
    'a mask of no byte a word': (struct.pack('<3H2I', 1, 2, 0, 5, 1), ' (cut short)'),
    'a range': (struct.pack('<H2B2H', 2, 0, 0, 1, 5), '1-5'),
    'any, and a range': (struct.pack('<H2B2H', 2, 1, 0, 1, 5), '-1,1-5'),
}


@pytest.mark.parametrize('name', CPU_MAPS)
def test_cpu_map_in_the_dump(millrace, tmp_path, name):
    body, said = CPU_MAPS[name]
    body = body.ljust((len(body) + 7) // 8 * 8, b'\0')
    records = struct.pack('<IHH', 74, 0, 8 + len(body)) + body + perf_file.FINISHED_ROUND
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4, bits=1 << 18)
    path = tmp_path / 'perf.data'
    path.write_bytes(perf_file.build([attr], {}, records=records))
    text = millrace('report', '-D', '-i', path).out
    cpus, end = re.search(r'PERF_RECORD_CPU_MAP: (.*)\n: unhandled!\n( \(cut short\))?', text).groups()
    assert (cpus or end) == said
    assert not (cpus and end)
