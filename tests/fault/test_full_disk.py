# SPDX-License-Identifier: MIT
"""A disk that is full: the recording ends by itself, once, and what is in the file can be read."""
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from perfdata import PerfData  # noqa: E402


@pytest.mark.parametrize('event', ['raw_syscalls:sys_enter', 'cpu-clock'])
def test_full_disk(millrace, perf, programs, need_tracefs, tmpfs, event):
    file = tmpfs('1m') / 'p.data'
    command = [programs / 'syscalls', '-t', '2', '-n', '2000000000'] if event != 'cpu-clock' else \
        [programs / 'spin', '-t', '4', '-m', '3600000']
    done = millrace('record', '-e', event, '-F' if event == 'cpu-clock' else '-c',
                    '20000' if event == 'cpu-clock' else '1', '-g', '-o', file, '--', *command, status=255)
    errors = [line for line in done.err.splitlines() if 'No space left' in line]
    assert len(errors) == 1 and str(file) in errors[0] and 'offset' in errors[0], done.err
    data = PerfData(file)
    samples = len(list(data.samples()))
    assert samples > 100
    script = perf('script', '-i', file, '-F', 'tid')
    assert len(script.out.split()) == samples


@pytest.mark.parametrize('size, fields', [('1m', 'NR 110 ('), ('64k', '')], ids=['full', 'too_small_for_tracing_data'])
@pytest.mark.parametrize('pack', [[], ['-z']], ids=['plain', 'z'])
def test_full_disk_of_a_directory(millrace, programs, need_tracefs, tmpfs, size, fields, pack):
    """Its main file says that there are others, and what is in them counts."""
    file = tmpfs(size) / 'p.data'
    done = millrace('record', '--threads', *pack, '-e', 'raw_syscalls:sys_enter', '-o', file, '--',
                    programs / 'syscalls', '-t', '2', '-n', '2000000000', status=255)
    assert sum('No space left' in line for line in done.err.splitlines()) == 1, done.err
    captured = int(re.search(r'captured (\d+) samples', done.err)[1])
    assert captured > 100 or pack
    done = millrace('script', '-F', 'event,trace', '-i', file)
    assert done.err == '' and done.out.count('raw_syscalls:sys_enter:') == captured
    assert fields in done.out


@pytest.fixture
def quota(need_root, tmp_path):
    """A directory of btrfs that may have 8 MB: where a full quota allows no more, a file cannot even be cut."""
    if not shutil.which('mkfs.btrfs'):
        pytest.skip('needs mkfs.btrfs (btrfs-progs)')
    image, mounted = tmp_path / 'image', tmp_path / 'mounted'
    mounted.mkdir()
    with open(image, 'wb') as file:
        file.truncate(256 << 20)
    subprocess.run(['mkfs.btrfs', '-q', image], check=True)
    done = subprocess.run(['mount', '-o', 'loop', image, mounted], stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        pytest.skip(f'needs to mount btrfs: {done.stderr.strip()}')
    try:
        for words in (['subvolume', 'create', mounted / 'limited'], ['quota', 'enable', mounted],
                      ['qgroup', 'limit', '8M', mounted / 'limited']):
            subprocess.run(['btrfs', *words], stdout=subprocess.DEVNULL, check=True)
        yield mounted / 'limited'
    finally:
        subprocess.run(['umount', '-l', mounted], check=False)


def check_records_behind_which_is_no_room(millrace, programs, file, options):
    """All samples that were captured are there, and it is said that others could not be written. Returns the text."""
    done = millrace('record', *options, '-c', '1', '-m', '4M', '-e', 'raw_syscalls:sys_enter', '-o', file, '--',
                    programs / 'syscalls', '-t', '2', '-n', '2000000000', status=255)
    captured = int(re.search(r'captured (\d+) samples', done.err)[1])
    unwritten = re.search(r'(\d+) bytes of records could not be written', done.err)[1]
    lost = int(re.search(r'; lost (\d+)', done.err)[1])
    read = millrace('script', '-F', 'event', '-i', file)
    in_file = re.fullmatch(r'(?:millrace: this recording lost (\d+) records? in \d+ places?\n)?', read.err)
    assert in_file and int(in_file[1] or 0) <= lost, (done.err, read.err)
    assert len(read.out.splitlines()) == captured > 1000, done.err
    assert f'Not counted: {unwritten} bytes of records' in millrace('report', '--loss', '-i', file).out
    return done.err


MODES = [[], ['--mmap-output'], ['-z'], ['--threads'], ['--threads', '-z']]
# To fill as much by compressed samples, and to read them, takes ten times as long, with sanitizers most of all.
LESS_ROOM = 5 << 20


@pytest.mark.parametrize('options', MODES, ids=['file', 'mmap', 'z', 'directory', 'directory_z'])
def test_full_quota(millrace, programs, need_tracefs, quota, options):
    (quota / 'others').write_bytes(bytes(LESS_ROOM if '-z' in options else 0))
    said = check_records_behind_which_is_no_room(millrace, programs, quota / 'p.data', options)
    line = next(line for line in said.splitlines() if 'quota exceeded' in line)
    assert line.endswith('; make room, or record into another place (-o), or less (-z)'), said


@pytest.mark.parametrize('options', MODES, ids=['file', 'mmap', 'z', 'directory', 'directory_z'])
def test_what_is_missing_is_said_on_a_full_disk(millrace, programs, need_tracefs, tmpfs, options):
    """In a directory, too, and no samples are given up for it, of which such a disk has room for many."""
    file = tmpfs('8m') / 'p.data'
    file.with_name('others').write_bytes(bytes(LESS_ROOM if '-z' in options else 0))
    said = check_records_behind_which_is_no_room(millrace, programs, file, options)
    assert ' at the end of the file w' not in said


def test_as_few_samples_as_needed_make_room(millrace, programs, need_tracefs, tmpfs):
    """The formats of so many events, 0.4 MB, have no room on a full disk."""
    file = tmpfs('16m') / 'p.data'
    done = millrace('record', '-c', '1', '-m', '1M', '-e', 'syscalls:sys_enter_*', '-o', file, '--',
                    programs / 'syscalls', '-t', '2', '-n', '2000000000', status=255)
    captured = int(re.search(r'captured (\d+) samples', done.err)[1])
    removed = int(re.search(r'(\d+) samples? at the end of the file w\w+ removed', done.err)[1])
    assert 0 < removed < captured / 12, done.err
    assert millrace('script', '-F', 'event', '-i', file).out.count('syscalls:sys_enter_') == captured


@pytest.mark.parametrize('kind', [[], ['--threads']], ids=['file', 'directory'])
def test_recover_into_a_full_disk(millrace, need_root, tmpfs, tmp_path, kind):
    """What had the name keeps it, and no part of a copy is left."""
    main = 'data' if kind else ''
    source, target = tmp_path / 'p.data', tmpfs('256k') / 'p.data'
    millrace('record', *kind, '-e', 'cpu-clock', '-o', source, '--', 'true')
    with open(source / main, 'ab') as file:
        file.write(bytes(256 * 1024))
    earlier = {target: b'earlier', target.with_name('p.data.old'): b'older'}
    for path, text in earlier.items():
        if kind:
            path.mkdir()
        (path / main).write_bytes(text)
    done = millrace('recover', '-o', target, source, status=255)
    assert 'No space left' in done.err
    assert {path: (path / main).read_bytes() for path in target.parent.iterdir()} == earlier


def test_disk_without_room_for_anything(millrace, need_root, tmpfs):
    room = tmpfs('4k')
    (room / 'filler').write_bytes(b'x' * 4096)
    done = millrace('record', '-e', 'cpu-clock', '-o', room / 'p.data', '--', 'true', status=255)
    assert sum('No space left' in line for line in done.err.splitlines()) == 1, done.err


@pytest.mark.parametrize('free', [0, 1, 2])
def test_disk_without_room_for_the_files_of_a_directory(millrace, need_root, tmpfs, tmp_path, free):
    """The earlier recording keeps its name, and nothing is left that would stop the next one."""
    def record(file, **how):
        return millrace('record', '--threads', '-e', 'cpu-clock', '-o', file, '--', 'true', **how)

    record(tmp_path / 'p.data')
    names = sorted(file.name for file in (tmp_path / 'p.data').iterdir())
    room = tmpfs(f'10m,nr_inodes={2 + len(names) + free}')
    shutil.copytree(tmp_path / 'p.data', room / 'p.data')
    done = record(room / 'p.data', status=255)
    assert sum('No space left' in line for line in done.err.splitlines()) == 1, done.err
    assert [file.name for file in room.iterdir()] == ['p.data']
    assert sorted(file.name for file in (room / 'p.data').iterdir()) == names
