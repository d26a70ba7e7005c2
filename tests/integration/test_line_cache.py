# SPDX-License-Identifier: MIT
"""Inlined functions and lines that an earlier report has found: the text is the same, or they are not used."""
import concurrent.futures
import os
import shutil
import struct
import subprocess
import time

import pytest

FUNCTIONS = 300  # each has several addresses: fewer are not kept
COMMANDS = [['report', '--stdio'], ['report', '--stdio', '-g', 'caller,srcline'],
            ['report', '--stdio', '-g', 'caller,address'], ['report', '--stdio', '-s', 'sym,srcline', '-g', 'none'],
            ['script', '-F', '+srcline']]


def source(first_line, name):
    """Functions with others in them: `name` is a word that is as long as any other."""
    lines = ['#include <time.h>', 'static volatile unsigned long n;', *[''] * first_line]
    lines += [f'static inline __attribute__((always_inline)) void {name}_{i}(unsigned k)\n'
              '{\n\tfor (unsigned i = 0; i < 20; i++)\n\t\tn += i * k + '
              f'{i};\n}}\n'
              f'__attribute__((noinline)) static void outer_{i}(unsigned k)\n'
              f'{{\n\t{name}_{i}(k);\n\tn *= 3;\n\t{name}_{i}(k + 1);\n}}' for i in range(FUNCTIONS)]
    calls = '\n'.join(f'\t\touter_{i}({i});' for i in range(FUNCTIONS))
    return '\n'.join(lines) + f'\nint main(void)\n{{\n\twhile (clock() < 700000) {{\n{calls}\n\t}}\n}}\n'


def build(place, first_line, name):
    (place / 'hot.c').write_text(source(first_line, name))
    subprocess.run(['gcc', '-O2', '-g', '-o', 'new', 'hot.c'], cwd=place, check=True)


def record(run, program, place, data='data'):
    """The recorder may make a link to a program, which changes one of its times, and then nothing is kept for 2 s."""
    run([program, 'record', '-q', '--call-graph', 'dwarf,4096', '-e', 'cpu-clock:u', '-F', '4000', '-o', place / data,
         '--', place / 'hot'])
    time.sleep(2.1)


@pytest.fixture(scope='module')
def recorded(run, program, tmp_path_factory):
    place = tmp_path_factory.mktemp('recorded')
    build(place, 0, 'inner')
    os.rename(place / 'new', place / 'hot')
    record(run, program, place)
    return place


@pytest.fixture
def read(millrace, tmp_path):
    """read(place, command, *options, env=): what a reader prints, with a cache of the test's own."""
    def run_reader(place, command, *options, **environ):
        env = {'XDG_CACHE_HOME': str(tmp_path), **environ}
        done = millrace(command[0], '-i', place / 'data', *command[1:], *options, env=env)
        return done.out, done.err
    return run_reader


def cached(tmp_path):
    place = tmp_path / 'millrace' / 'lines'
    return sorted(place.iterdir()) if place.exists() else []


def with_other_names(data):
    """The bytes of a file of the cache, with INNER in place of inner, as if that had been found."""
    def mixed(value, word):
        value = (value ^ word) * 0x9e3779b97f4a7c15 % (1 << 64)
        return value ^ value >> 32
    data = data.replace(b'inner_', b'INNER_')
    checked = data[16:]
    value = len(checked)
    for word, in struct.iter_unpack('<Q', checked):
        value = mixed(value, word)
    return data[:8] + struct.pack('<Q', value) + checked


@pytest.mark.parametrize('command', COMMANDS, ids=lambda command: ' '.join(command))
def test_same_text(read, recorded, tmp_path, command):
    wanted = read(recorded, command, '--no-line-cache')
    assert not (tmp_path / 'millrace').exists() and 'inner_7' in wanted[0]
    assert read(recorded, command) == wanted
    files = cached(tmp_path)
    assert files and all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    largest = max(files, key=lambda file: file.stat().st_size)
    before = largest.stat().st_mtime_ns
    assert read(recorded, command) == wanted
    assert largest.stat().st_mtime_ns == before
    # What is there is what is used.
    largest.write_bytes(with_other_names(largest.read_bytes()))
    other = read(recorded, command)[0]
    assert 'INNER_7' in other and 'inner_7' not in other
    assert sorted(other.replace('INNER_', 'inner_').splitlines()) == sorted(wanted[0].splitlines())
    assert read(recorded, command, '--no-line-cache') == wanted


def test_each_adds_what_it_looks_up(read, recorded, tmp_path):
    wanted = [read(recorded, command, '--no-line-cache') for command in COMMANDS]
    assert [read(recorded, command) for command in COMMANDS] == wanted
    largest = max(cached(tmp_path), key=lambda file: file.stat().st_size)
    before = largest.stat().st_mtime_ns
    assert [read(recorded, command) for command in COMMANDS] == wanted
    assert largest.stat().st_mtime_ns == before


@pytest.mark.parametrize('in_place', [False, True])
def test_a_program_that_was_built_again(run, program, read, tmp_path, in_place):
    command = COMMANDS[1]
    texts = []
    for line, name in (0, 'inner'), (3, 'tuned'), (3, 'tuned'):
        build(tmp_path, line, name)
        if in_place and texts:  # the same inode, mostly of the same size
            shutil.copyfile(tmp_path / 'new', tmp_path / 'hot')
        else:
            os.rename(tmp_path / 'new', tmp_path / 'hot')
        record(run, program, tmp_path)
        wanted = read(tmp_path, command, '--no-line-cache')
        assert read(tmp_path, command) == wanted
        assert read(tmp_path, command) == wanted
        texts.append(wanted[0])
    assert 'inner_7' in texts[0] and 'tuned_7' not in texts[0]
    assert 'tuned_7' in texts[1] and 'inner_7' not in texts[1]
    assert len(cached(tmp_path)) >= 1


def built_with(tmp_path, *options):
    build(tmp_path, 0, 'inner')
    subprocess.run(['gcc', '-O2', '-g', *options, '-o', 'hot', 'hot.c'], cwd=tmp_path, check=True)


def test_what_several_objects_have_in_common(run, program, read, tmp_path):
    """dwz(1) has moved it into another file, which may go or be replaced."""
    if not shutil.which('dwz'):
        pytest.skip('dwz is not installed')
    built_with(tmp_path)
    run(['dwz', '-m', tmp_path / 'common', '-M', tmp_path / 'common', 'hot', 'new'], cwd=tmp_path)
    record(run, program, tmp_path)
    wanted = read(tmp_path, COMMANDS[1], '--no-line-cache')
    assert [read(tmp_path, COMMANDS[1]) for _ in range(2)] == [wanted] * 2 and 'inner_7' in wanted[0]
    assert any(file.stat().st_size > 10000 for file in cached(tmp_path))
    os.rename(tmp_path / 'common', tmp_path / 'gone')
    without = read(tmp_path, COMMANDS[1], '--no-line-cache')
    assert [read(tmp_path, COMMANDS[1]) for _ in range(2)] == [without] * 2 and 'inner_7' not in without[0]
    os.rename(tmp_path / 'gone', tmp_path / 'common')
    assert [read(tmp_path, COMMANDS[1]) for _ in range(2)] == [wanted] * 2


def test_split_debug_information_is_not_kept(run, program, read, tmp_path):
    """It is found in a file today, and may be in another one, or in none, tomorrow."""
    built_with(tmp_path, '-gsplit-dwarf')
    record(run, program, tmp_path)
    for there in True, False:
        for file in [] if there else list(tmp_path.glob('*.dwo')):
            file.unlink()
        wanted = read(tmp_path, COMMANDS[1], '--no-line-cache')
        assert [read(tmp_path, COMMANDS[1]) for _ in range(2)] == [wanted] * 2
        assert ('inner_7' in wanted[0]) == there
    assert all(file.stat().st_size < 10000 for file in cached(tmp_path))


def test_several_at_a_time(read, recorded, tmp_path):
    wanted = read(recorded, COMMANDS[1], '--no-line-cache')
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: read(recorded, COMMANDS[1]), range(8)):
            assert found == wanted
    assert cached(tmp_path) and not [file for file in cached(tmp_path) if file.name.startswith('.new.')]
    assert read(recorded, COMMANDS[1]) == wanted


def test_damaged_files_are_not_used(read, recorded, tmp_path):
    wanted = read(recorded, COMMANDS[1], '--no-line-cache')
    read(recorded, COMMANDS[1])
    for change in (lambda data: data[:len(data) // 2], lambda data: data[:300] + b'\xff' * 100 + data[400:],
                   lambda data: b'', lambda data: bytes(len(data))):
        for file in cached(tmp_path):
            file.write_bytes(change(file.read_bytes()))
        assert read(recorded, COMMANDS[1]) == wanted
        assert all(file.read_bytes()[:7] == b'MRLINES' for file in cached(tmp_path))


def test_without_a_place_nothing_is_said(run, program, read, recorded, tmp_path):
    wanted = read(recorded, COMMANDS[0], '--no-line-cache')
    for place in '/proc', '/nonexistent/cache', '/dev/null', str(recorded / 'data'):
        assert read(recorded, COMMANDS[0], XDG_CACHE_HOME=place) == wanted
    done = run(['env', '-u', 'HOME', '-u', 'XDG_CACHE_HOME', program, *COMMANDS[0], '-i', recorded / 'data'])
    assert (done.out, done.err) == wanted
    (tmp_path / 'millrace').mkdir(mode=0o777)
    (tmp_path / 'millrace').chmod(0o777)
    assert read(recorded, COMMANDS[0]) == wanted
    assert not cached(tmp_path)


def test_a_full_disk(need_root, run, program, recorded, tmp_path):
    reader = f'{program} report --stdio -i {recorded}/data'
    script = (f'mount -t tmpfs -o size=8k,mode=700 none {tmp_path}; export XDG_CACHE_HOME={tmp_path}; {reader}; '
              f'wc -c {tmp_path}/millrace/lines/.new.* {tmp_path}/millrace/lines/* >&2 || :')
    done = run(['unshare', '-m', 'sh', '-ec', script])
    assert done.out == run([*reader.split(), '--no-line-cache']).out
    lines = done.err.splitlines()
    assert "new.*': No such file" in lines[0] and all(int(line.split()[0]) <= 8192 for line in lines[1:]), done.err


def test_the_configuration_turns_it_off(read, recorded, tmp_path):
    (tmp_path / 'config').write_text('[report]\nline-cache = no\n')
    read(recorded, COMMANDS[0], MILLRACE_CONFIG=str(tmp_path / 'config'))
    assert not (tmp_path / 'millrace').exists()
    (tmp_path / 'config').write_text('[report]\nno-line-cache = no\n')
    read(recorded, COMMANDS[0], MILLRACE_CONFIG=str(tmp_path / 'config'))
    assert cached(tmp_path)
