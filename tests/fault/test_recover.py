# SPDX-License-Identifier: MIT
"""Recorders that are killed leave files that recover makes whole: every record that was written, none twice."""
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from perfdata import PerfData, SAMPLE  # noqa: E402

MODES = {
    'serial': [], 'mmap': ['--writer=mmap'], 'aio': ['--aio'], 'aio4': ['--writer=aio,blocks=4'],
    'small': ['-m', '4'], 'sync': ['--sync=0.05'], 'directory': ['--threads'],
    'zstd': ['-z'], 'zstd-directory': ['-z', '--threads'],
}
PERF_MODES = {'serial': [], 'zstd': ['-z'], 'aio': ['--aio'], 'directory': ['--threads']}
WORK = ['-e', 'dummy,raw_syscalls:sys_enter', '--']
FOR_EVER = '1000000000'


def has_header(path):
    """Of a recorder that got as far as its first record. What it writes may become a directory at any moment."""
    for main in (path / 'data', path):
        try:
            with main.open('rb') as file:
                start = file.read(105)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            continue
        return len(start) == 105 and start.startswith(b'PERFILE2')
    return False


def size_of(path):
    """Bytes that were written, whatever was allocated ahead: of a file, as far as its header tells of them."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.glob('data.*'))
    with path.open('rb') as file:
        return struct.unpack_from('<Q', file.read(104), 48)[0]


def kill_when(process, path, enough):
    """SIGKILL as soon as so much is in the file, or half a minute is over."""
    until = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < until:
        if has_header(path) and (not enough or size_of(path) >= enough):
            break
        time.sleep(0.002)
    process.kill()
    process.wait()


def end_workload(process):
    """What the recorder ran, which goes on: all of its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def samples_in(path):
    """Of all whole records of a file that may have no end; for a data directory of all its files."""
    if path.is_dir():
        return sum(count(file.read_bytes(), 0) for file in path.glob('data.*'))
    data = path.read_bytes()
    return count(data, struct.unpack_from('<Q', data, 40)[0])


def count(data, at):
    nr = 0
    while at + 8 <= len(data):
        kind, _, size = struct.unpack_from('<I2H', data, at)
        if size < 8 or at + size > len(data) or not kind or kind > 86:
            break
        nr += kind == SAMPLE
        at += size
    return nr


def check_recovered(millrace, perf, path, packed=False):
    before = samples_in(path)
    done = millrace('recover', path)
    nr = int(re.search(r'recovered (\d+) samples', done.err).group(1))
    # The last may be torn where nothing was written behind it.
    assert packed or before - 1 <= nr <= before, done
    stats = perf('report', '--stats', '-i', path).out
    found = re.search(r'SAMPLE events: +(\d+)', stats)
    assert (int(found.group(1)) if found else 0) == nr, stats
    assert millrace('recover', path).err.endswith('is whole: nothing to recover\n')
    if path.is_file() and not packed:
        times = [(s.time, s.tid, s.raw) for s in PerfData(path).samples()]
        assert len(set(times)) == len(times) == nr


@pytest.mark.parametrize('mode', MODES)
def test_killed(millrace, program, programs, perf, spawn, need_tracefs, tmp_path, mode):
    for enough in (0, random.randrange(1 << 17, 1 << 20)):
        path = tmp_path / f'p{enough}'
        process = spawn([program, 'record', *MODES[mode], '-o', path, *WORK, programs / 'syscalls', '-n', FOR_EVER])
        kill_when(process, path, enough)
        end_workload(process)
        check_recovered(millrace, perf, path, 'zstd' in mode)


def test_one_tracepoint_twice(millrace, programs, perf, need_tracefs, tmp_path):
    """Both events of it get its name back, and its format is in the file."""
    whole, out = tmp_path / 'whole', tmp_path / 'out'
    millrace('record', '-o', whole, '-e', 'syscalls:sys_enter_getppid,syscalls:sys_enter_getppid', '--',
             programs / 'syscalls', '-t', '1', '-n', '100')
    data = bytearray(whole.read_bytes())
    data[72:104] = bytes(32)  # no features: the recorder did not get to its end
    whole.write_bytes(data)
    millrace('recover', '-o', out, whole)
    lines = perf('script', '-F', 'event,trace', '-i', out).out.splitlines()
    assert len(lines) == 200 and {line.split()[0] for line in lines} == {'syscalls:sys_enter_getppid:'}


def test_killed_at_the_start(millrace, program, programs, spawn, tmp_path):
    """Before anything was written there is nothing to recover, and that is said."""
    for _ in range(4):
        path = tmp_path / 'p'
        process = spawn([program, 'record', '-o', path, '-e', 'cpu-clock', '--', programs / 'spin'])
        time.sleep(random.random() * 0.05)
        process.kill()
        process.wait()
        end_workload(process)
        if path.exists():
            done = millrace('recover', path, status=None)
            assert done.status in (0, 255) and done.err


def test_readable_without_recover(program, programs, perf, spawn, tmp_path):
    """The header of a file tells of what was committed, also while the recording goes on."""
    path = tmp_path / 'p'
    process = spawn([program, 'record', '-F', '2000', '-m', '8K', '-o', path, '-e', 'cpu-clock',
                     '--', programs / 'spin', '-m', '60000'])
    until = time.monotonic() + 40
    size = 0
    while size < 20000 and time.monotonic() < until:
        time.sleep(0.01)
        data = path.read_bytes() if path.exists() else b''
        size = struct.unpack_from('<Q', data, 48)[0] if len(data) > 104 else 0
    process.kill()
    process.wait()
    end_workload(process)
    assert size >= 20000
    assert len(perf('script', '-i', path).out.splitlines()) == len(list(PerfData(path).samples())) > 100


@pytest.mark.parametrize('mode', PERF_MODES)
def test_killed_perf(millrace, programs, perf, spawn, need_tracefs, tmp_path, mode):
    path = tmp_path / 'p'
    process = spawn([shutil.which(os.environ.get('PERF', 'perf')), 'record', *PERF_MODES[mode], '-o', path, *WORK,
                     programs / 'syscalls', '-n', FOR_EVER], stderr=-3)
    until = time.monotonic() + 30
    files = lambda: [path] if path.is_file() else list(path.glob('data.*'))  # noqa: E731
    while sum(file.stat().st_size for file in files()) < 1 << 20 and time.monotonic() < until:
        time.sleep(0.01)
    process.kill()
    process.wait()
    end_workload(process)
    assert perf('script', '-i', path, status=None).out == ''
    done = millrace('recover', path)
    nr = int(re.search(r'recovered (\d+) samples', done.err).group(1))
    assert (nr == samples_in(path) or mode == 'zstd') and nr > 1000
    assert int(re.search(r'SAMPLE events: +(\d+)', perf('report', '--stats', '-i', path).out).group(1)) == nr


def test_cut(millrace, programs, perf, need_tracefs, tmp_path):
    """A file that lost its end, wherever that was."""
    whole = tmp_path / 'whole'
    millrace('record', '-o', whole, *WORK, programs / 'syscalls', '-t', '1', '-n', '500')
    data = whole.read_bytes()
    start, size = struct.unpack_from('<2Q', data, 40)
    for cut in sorted(random.sample(range(start, start + size), 6)):
        path, out = tmp_path / 'cut', tmp_path / 'out'
        path.write_bytes(data[:cut])
        done = millrace('recover', '-o', out, path)
        assert path.read_bytes() == data[:cut]
        recovered = PerfData(out)
        records = list(recovered.records())
        assert records[-1].offset < cut
        # Of a file cut in its first record the only one is a mark, which recover puts there.
        end = start if [record.type for record in records] == [68] else recovered.end
        assert f'{cut - end} bytes behind the last whole record' in done.err
        assert not perf('script', '-i', out).err
    # Before its first record: perf wants at least one.
    whole.write_bytes(data[:48] + bytes(8) + data[56:start])
    assert 'recovered 0 samples' in millrace('recover', whole).err
    assert perf('script', '-i', whole).out == millrace('script', '-i', whole).out == ''
    whole.write_bytes(data[:start - 1])
    assert 'no record is left' in millrace('recover', whole, status=255).err
    whole.write_bytes(b'not a recording')
    millrace('recover', whole, status=255)


@pytest.mark.parametrize('byte', ['size of the record', 'in the frame'])
@pytest.mark.parametrize('layout', ['file', 'directory'])
def test_flipped_bit(millrace, programs, perf, need_tracefs, tmp_path, layout, byte):
    """The place and what is missing are told, nothing is cut off in place, and -o keeps all the rest."""
    whole, out = tmp_path / 'whole', tmp_path / 'out'
    millrace('record', '-z', *(['--threads'] if layout == 'directory' else []), '-o', whole, *WORK,
             'taskset', '-c', str(min(os.sched_getaffinity(0))), programs / 'syscalls', '-t', '1', '-n', '120000')
    file = max(whole.glob('data.*'), key=lambda file: file.stat().st_size) if layout == 'directory' else whole
    data = bytearray(file.read_bytes())
    at = 0 if layout == 'directory' else struct.unpack_from('<Q', data, 40)[0]
    extents = []  # where each begins and ends
    while at + 8 <= len(data):
        kind, _, size = struct.unpack_from('<I2H', data, at)
        if kind > 86 or size < 8:
            break
        if kind == 81 and data[at + 24:at + 28] == b'\x28\xb5\x2f\xfd':  # behind the hash
            extents.append([at, at])
        at += size
        if kind == 81:
            extents[-1][1] = at
    assert len(extents) > 2
    at, end = extents[1]
    data[at + 7 if byte == 'size of the record' else (at + end) // 2] ^= 0x10
    samples = len(millrace('script', '-i', whole).out.splitlines())
    file.write_bytes(data)
    done = millrace('recover', whole, status=255)
    found = re.search(rf'{file}: offset {at:#x}: (\d+) bytes are damaged, which held (?:\d+ bytes of records, )?'
                      r'(\d+) samples\n', done.err)
    assert found and int(found.group(1)) == end - at, done.err
    assert f'{whole} is left as it is: -o FILE ' in done.err and file.read_bytes() == data
    assert 'is whole without ' in millrace('recover', '-o', out, whole, status=255).err
    assert millrace('recover', out).err == f'millrace: {out} is whole: nothing to recover\n'
    loss = millrace('report', '--loss', '-i', out).out
    assert f'# Not counted: {end - at} bytes of the file that were damaged' in loss and 'at most' in loss
    left = millrace('script', '-i', out).out
    lost = int(found.group(2))
    assert len(left.splitlines()) == samples - lost and 0 < lost < samples
    assert perf('script', '-i', out).out.splitlines()[-1].split()[:2] == left.splitlines()[-1].split()[:2]
    assert millrace('script', '-i', whole, status=255).out == left


def test_bad_disk(millrace, programs, perf, need_tracefs, fuse_fs, tmp_path):
    """Nothing is cut off in place, for the disk may answer later; -o takes what can be read."""
    whole, out = tmp_path / 'whole', tmp_path / 'out'
    millrace('record', '-o', whole, *WORK, programs / 'syscalls', '-t', '1', '-n', '2000')
    data = whole.read_bytes()
    start, size = struct.unpack_from('<2Q', data, 40)
    bad = start + size // 2
    first = bad - bad % os.sysconf('SC_PAGE_SIZE')
    disk = fuse_fs(whole, bad, bad + 1, 'rw', program='unreadable_fs.py') / 'file'
    done = millrace('recover', disk, status=255)
    assert 'cannot be read to its end, and is left as it is: Input/output error\n' in done.err
    assert 'with -o FILE' in done.err
    done = millrace('recover', '-o', out, disk, status=255)
    assert (f'{disk} cannot be read from byte {first} on: Input/output error; {len(data) - first} bytes are missing in '
            'the copy\n') in done.err
    end = PerfData(out).end
    assert f'{first - end} bytes behind the last whole record' in done.err
    assert start < end <= first and out.read_bytes()[start:end] == data[start:end]
    assert count(data[:end], start) == count(data[:first], start) > 100
    assert not perf('script', '-i', out).err


def test_bad_disk_below_a_directory(millrace, program, run, programs, need_tracefs, fuse_fs, tmp_path):
    """Of the other files all is kept."""
    whole, out = tmp_path / 'whole', tmp_path / 'out'
    millrace('record', '--threads', '-o', whole, *WORK, programs / 'syscalls', '-t', '2', '-n', '2000')
    part = max(whole.glob('data.*'), key=lambda file: file.stat().st_size)
    bad = part.stat().st_size // 2
    first = bad - bad % os.sysconf('SC_PAGE_SIZE')
    wanted = samples_in(whole) - count(part.read_bytes(), 0) + count(part.read_bytes()[:first], 0)
    disk = fuse_fs(part, bad, bad + 1, program='unreadable_fs.py') / 'file'
    done = run(['unshare', '-m', 'sh', '-c', 'mount --bind "$0" "$1" && shift && exec "$@"', disk, part,
                program, 'recover', '-o', out, whole], status=255)
    assert f'{part} cannot be read from byte {first} on: ' in done.err
    assert samples_in(out) == wanted > 100
    assert millrace('recover', out).err.endswith('is whole: nothing to recover\n')


@pytest.mark.lab
@pytest.mark.parametrize('mode', MODES)
def test_killed_at_any_moment(millrace, program, programs, perf, spawn, need_tracefs, tmp_path, mode):
    for run in range(25):
        path = tmp_path / f'p{run}'
        process = spawn([program, 'record', *MODES[mode], '-o', path, *WORK, programs / 'syscalls', '-n', '300000'])
        kill_when(process, path, random.choice([0, random.randrange(1 << 22)]))
        end_workload(process)
        if 'is whole' not in millrace('recover', '-o', tmp_path / 'copy', path).err:
            check_recovered(millrace, perf, path, 'zstd' in mode)
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize('layout', ['file', 'directory', 'fifo'])
def test_what_is_no_recording_is_not_copied(millrace, tmp_path, layout):
    """It is named itself, not the copy; and nothing is in the place of the copy."""
    junk = tmp_path / 'junk'
    if layout == 'fifo':
        os.mkfifo(junk)
    else:
        if layout == 'directory':
            junk.mkdir()
        (junk / 'data' if layout == 'directory' else junk).write_bytes(b'text' * 1000)
    done = millrace('recover', '-o', tmp_path / 'copy', junk, status=255)
    assert done.err.startswith(f'millrace: {junk}') and len(done.err.splitlines()) == 1, done.err
    assert not (tmp_path / 'copy').exists()


@pytest.mark.parametrize('layout', ['file', 'directory'])
def test_copy_that_cannot_be_finished(run, program, millrace, programs, need_tracefs, tmp_path, layout):
    """No other file may get longer than the recording, and there is no room for features: nothing is in its place."""
    whole, out = tmp_path / 'whole', tmp_path / 'out'
    millrace('record', *(['--threads'] if layout == 'directory' else []), '-o', whole, *WORK, programs / 'syscalls',
             '-t', '1', '-n', '1')
    file = whole / 'data' if layout == 'directory' else whole
    start, size = struct.unpack_from('<2Q', file.read_bytes(), 40)
    os.truncate(file, start + size)
    longest = max(path.stat().st_size for path in [file, *file.parent.glob('data.*')])
    out.write_bytes(b'of an earlier day')
    done = run(['prlimit', f'--fsize={longest}', program, 'recover', '-o', out, whole], status=255)
    assert re.search(f'{out}(/data)?: cannot finish the file', done.err), done.err
    assert out.read_bytes() == b'of an earlier day'
    assert sorted(path.name for path in tmp_path.iterdir()) == ['out', 'whole']
    millrace('recover', '-o', out, whole)
    assert len(list(PerfData(out / 'data' if layout == 'directory' else out).records())) > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ['out', 'out.old', 'whole']


def test_recording_is_named_with_or_without_an_option(millrace, tmp_path):
    path = tmp_path / 'data'
    millrace('record', '-q', '-e', 'dummy', '-o', path, '--', 'true')
    for words in [path], ['-i', path], [f'--input={path}', '-o', tmp_path / 'copy']:
        assert millrace('recover', *words).err.endswith('is whole: nothing to recover\n')
    for words in [], ['-i', path, path]:
        assert millrace('recover', *words, status=129).err.startswith('millrace: recover: give ')
