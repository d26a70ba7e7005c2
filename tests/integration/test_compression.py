# SPDX-License-Identifier: MIT
"""record -z on the real kernel, in every way of writing: the same records, in perf and in millrace."""
import itertools
import os
import pathlib
import re
import struct
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import perf_file  # noqa: E402
from conftest import threads_of  # noqa: E402
from law import check_law  # noqa: E402
from perfdata import PerfData, sections_of  # noqa: E402
from test_exactly_once import COUNTED, no_duplicates  # noqa: E402

MODES = ['--writer=serial', '--writer=mmap', '--writer=aio', '--writer=direct', '--threads', '--threads=core',
         '--threads --single-file', '--threads --single-file --writer=aio,blocks=4']


# Each way of writing with one of two levels: the level changes what workers do, and nothing of the way.
@pytest.mark.parametrize('mode, level', [(mode, ['-z', '-z9'][nr % 2]) for nr, mode in enumerate(MODES)])
def test_every_record_once(millrace, perf, programs, need_tracefs, tmp_path, mode, level):
    packed, plain = tmp_path / 'z.data', tmp_path / 'plain.data'
    made = 2 * 30000
    done = millrace('record', *mode.split(), level, '-o', packed, '-e', COUNTED, '--', programs / 'syscalls', '-t', '2',
                    '-n', '30000')
    assert ', ratio ' in done.err
    millrace('merge', packed, '-o', plain)
    data = PerfData(plain)
    samples = list(data.samples())
    assert len(samples) + check_law(millrace, packed, 'getppid', made) == made, done.err
    assert f'captured {len(samples)} samples' in done.err
    no_duplicates(samples)
    fields = ('script', '-F', 'tid,cpu,time,event', '-i')
    seen = [perf(*fields, file).out.splitlines() for file in (packed, plain)]
    assert len(seen[0]) == len(samples)
    assert sorted(seen[0]) == sorted(seen[1])
    texts = [millrace('script', '-i', file).out.splitlines() for file in (packed, plain)]
    tails = [sorted(line.split(maxsplit=1)[1] for line in text) for text in texts]
    assert tails[0] == tails[1]


def test_pipe(millrace, perf, programs, need_tracefs, tmp_path):
    file = tmp_path / 'pipe.data'
    done = millrace('record', '-z', '-o', '-', '-e', COUNTED, '--', programs / 'syscalls', '-t', '2', '-n', '5000',
                    binary=True)
    file.write_bytes(done.out)
    assert done.out.count(b'\x28\xb5\x2f\xfd') >= 1
    streamed = millrace('script', '-i', '-', input=done.out, binary=True).out
    assert len(streamed.splitlines()) == 10000
    assert millrace('script', '-i', file, binary=True).out == streamed
    fields = ('script', '-F', 'tid,time,event', '-i', file)
    assert sorted(perf(*fields).out.split()) == sorted(millrace(*fields).out.split())


def test_header_describes_compression(millrace, perf, programs, tmp_path):
    file = tmp_path / 'z.data'
    millrace('record', '-z3', '-o', file, '-e', 'cpu-clock', '--', programs / 'syscalls', '-t', '1', '-n', '100000')
    assert 'compressed : Zstd, level = 3, ratio = ' in perf('report', '--header-only', '-i', file).out
    assert 'ompressed' in millrace('report', '--header-only', '-i', file).out


def test_wrong_levels(millrace, tmp_path):
    for level in ('23', 'x', '-1'):
        millrace('record', f'--compression-level={level}', '-o', tmp_path / 'x', '--', 'true', status=129)


def by_time(lines):
    """[[lines of one time, sorted], ...] in their order; each is [tid, time]."""
    return [sorted(group) for _, group in itertools.groupby(lines, lambda line: line[1])]


@pytest.mark.parametrize('packing', [['-z'], []], ids=['z', 'plain'])
def test_time_leaves_out_the_same_as_perf(millrace, perf, programs, need_tracefs, tmp_path, packing):
    for mode in ('--writer=serial', '--threads'):
        file = tmp_path / mode
        millrace('record', *packing, mode, '-m', '64', '-o', file, '-e', 'raw_syscalls:sys_enter',
                 '--', programs / 'syscalls', '-t', '2', '-n', '20000')
        times = sorted(float(line.split()[3].rstrip(':')) for line in millrace('script', '-i', file).out.splitlines())
        fifth = len(times) // 5
        # Where nothing ran, or the ring was full, a part of the time has no samples: the parts are those of a sample.
        percent = 100 * (times[2 * fifth] - times[0]) / (times[-1] - times[0])
        at = [f'{times[fifth * number]:.6f}' for number in range(5)]
        tenth = 1 + int(percent / 10)
        tenths = sorted((tenth, tenth - 1 if tenth > 1 else tenth + 1))
        for wanted in (f'{at[1]},{at[2]}', f'{at[4]},', f',{at[1]}', f'{at[0]},{at[1]} {at[3]},',
                       f'{max(0, percent - 1):.3f}%-{percent + 1:.3f}%', f'10%/{tenth}',
                       ','.join(f'10%/{number}' for number in tenths)):
            ours = millrace('script', '-i', file, '--time', wanted).out.splitlines()
            theirs = perf('script', '-i', file, '--time', wanted, '-F', 'tid').out.splitlines()
            assert 0 < len(ours) < len(times)
            assert len(ours) == len(theirs), wanted
        # Since the first sample, of the recording's own header.
        since = f'0,{times[fifth] - times[0]:.6f}'
        script = ('script', '-i', file, '--reltime', '--time', since, '-F', 'tid,time')
        # perf 6.12 has other spaces behind a time. pytest would be without end at comparing so many lines.
        ours, theirs = ([line.split() for line in tool(*script).out.splitlines()] for tool in (millrace, perf))
        if mode == '--threads':  # of the same time of two files of a directory either may come first
            ours, theirs = by_time(ours), by_time(theirs)
        same = ours == theirs
        assert ours and same
    for wrong in ('5,4', '1', '1,2,3', '1,2 3', '1%,', '1%/0', '1%-1%'):
        millrace('script', '-i', file, '--time', wrong, status=255)


def index_of(data):
    """(part, offset, bytes, first, last) of each extent, in the private section 132."""
    at, size = sections_of(data)[132]
    nr, end, found = struct.unpack_from('<I', data, at + 4)[0], at + size, []
    at += 8
    for _ in range(nr):
        offset, packed, _, first, last, _, _, _, part, counts = struct.unpack_from('<6Q4I', data, at)
        found.append((part, offset, packed, first, last))
        at += 64 + 8 * counts
    assert at == end
    return found


def spoil_others(file, millrace):
    """Takes a slice of the middle, and spoils all that the index says is not of it. The slice, as it was."""
    directory = file.is_dir()
    index = index_of((file / 'data' if directory else file).read_bytes())
    lines = millrace('script', '-i', file).out.splitlines()
    times = sorted(float(line.split()[3].rstrip(':')) for line in lines)
    first, last = times[len(times) * 8 // 20], times[len(times) * 9 // 20]
    wanted = f'{first:.6f},{last:.6f}'
    whole = millrace('script', '-i', file, '--time', wanted).out
    assert 0 < len(whole.splitlines()) < len(lines)
    spoiled = 0
    for part, offset, size, _, _ in [row for row in index if row[3] > (last + 1e-3) * 1e9]:
        name = file / f'data.{part - 1}' if part else file / 'data' if directory else file
        with name.open('r+b') as out:
            out.seek(offset)
            out.write(b'\xff' * size)
        spoiled += size
    assert spoiled > 1 << 20
    return wanted, whole


@pytest.mark.parametrize('mode', [['--writer=serial'], ['--threads'], ['--threads', '--single-file'],
                                  ['-z', '--threads']],
                         ids=' '.join)
def test_time_does_not_read_the_rest(millrace, programs, need_tracefs, tmp_path, mode):
    file = tmp_path / 'x'
    millrace('record', *mode, '-m', '256', '-o', file, '-e', 'raw_syscalls:sys_enter', '--', programs / 'syscalls',
             '-t', '2', '-n', '300000' if '-z' in mode else '100000')
    wanted, whole = spoil_others(file, millrace)
    assert millrace('script', '-i', file, '--time', wanted).out == whole
    millrace('script', '-i', file, status=255)


@pytest.mark.parametrize('mode', [['-B'], ['-B', '--threads'], ['-z'], ['-z', '--threads']], ids=' '.join)
def test_recover_makes_the_index_anew(millrace, perf, programs, need_tracefs, tmp_path, mode):
    file, new = tmp_path / 'x', tmp_path / 'new'
    millrace('record', *mode, '-o', file, '-e', 'raw_syscalls:sys_enter', '--', programs / 'syscalls', '-t', '2',
             '-n', '100000')
    main = file / 'data' if file.is_dir() else file
    before = sections_of(main.read_bytes())
    assert (132 in before) == ('-z' in mode)
    done = millrace('recover', '--index', '-o', new, file)
    assert 'its index has' in done.err
    data = (new / 'data' if new.is_dir() else new).read_bytes()
    after = sections_of(data)
    assert set(after) == set(before) | {132}
    for bit in set(before) - {132}:
        (a, size), (b, _) = before[bit], after[bit]
        assert main.read_bytes()[a:a + size] == data[b:b + size]
    if '-z' in mode:
        old = {row[:2]: row for row in index_of(main.read_bytes())}
        found = {row[:2]: row for row in index_of(data)}
        assert all(found[place][2:] == row[2:] for place, row in old.items())
    assert millrace('script', '-i', new).out == millrace('script', '-i', file).out
    fields = ('-F', 'tid,time')
    assert perf('script', '-i', new, *fields).out == perf('script', '-i', file, *fields).out


def test_recover_makes_no_index_of_other_files(millrace, programs, need_tracefs, tmp_path):
    """Readers read them, but what is skipped in data.0 is not at those places."""
    file = tmp_path / 'x'
    millrace('record', '-B', '--threads', '-m', '256', '-o', file, '-e', 'raw_syscalls:sys_enter', '--',
             programs / 'syscalls', '-t', '2', '-n', '100000')
    largest = max(file.glob('data.*'), key=lambda path: path.stat().st_size)
    data, at = largest.read_bytes(), 0
    while at < len(data) // 2:
        at += struct.unpack_from('<H', data, at + 6)[0]
    largest.unlink()
    (file / 'data.0.bak').write_bytes(data[:at])
    (file / 'data.0').write_bytes(data[at:])
    lines = millrace('script', '-i', file, '-F', 'time').out.split()
    second_half = ('script', '-i', file, '--time', f'{lines[len(lines) // 2].rstrip(":")},')
    whole = millrace(*second_half).out
    assert whole.count('\n') > 10000
    millrace('recover', '--index', file)
    assert millrace(*second_half).out == whole
    numbers = {int(path.suffix[1:]) + 1 for path in file.glob('data.*') if path.suffix != '.bak'}
    assert {row[0] for row in index_of((file / 'data').read_bytes())} <= {0} | numbers


def test_recover_makes_an_index_for_perf(millrace, perf, programs, need_tracefs, tmp_path):
    file = tmp_path / 'x'
    perf('record', '-B', '-m', '4M', '-o', file, '-e', 'raw_syscalls:sys_enter', '--', programs / 'syscalls', '-t', '2',
         '-n', '300000')
    millrace('recover', '--index', file)
    wanted, whole = spoil_others(file, millrace)
    assert millrace('script', '-i', file, '--time', wanted).out == whole


def extents_of(data):
    """Offsets of COMPRESSED records that start with the hash of a frame."""
    at, found = 0, []
    while (at := data.find(b'\x5d\x2a\x4d\x18\x08\0\0\0', at + 1)) >= 0:
        if data[at - 8:at - 2] == b'\x51\0\0\0\0\0':
            found.append(at - 8)
    return found


def test_damage_costs_one_extent(millrace, programs, need_tracefs, tmp_path):
    file, damaged = tmp_path / 'z.data', tmp_path / 'damaged.data'
    millrace('record', '-z', '-B', '-m', '256', '-o', file, '-e', 'raw_syscalls:sys_enter', '--', programs / 'syscalls',
             '-t', '1', '-n', '100000')
    whole = len(millrace('script', '-i', file).out.splitlines())
    data = file.read_bytes()
    extents = extents_of(data)
    assert len(extents) >= 4
    for offset in (extents[1] + 100, extents[2] + 6):
        broken = bytearray(data)
        broken[offset] ^= 0x55
        damaged.write_bytes(broken)
        done = millrace('script', '-i', damaged, status=255)
        left = len(done.out.splitlines())
        assert 'missing' in done.err and 'offset 0x' in done.err
        assert whole * (len(extents) - 3) // len(extents) < left < whole


def test_many_damaged_places(millrace, tmp_path):
    """Each could hide an extent. The first 100 are told, each in a line of its own, and that there are more."""
    file = tmp_path / 'many.data'
    hidden = struct.pack('<IHH', 73, 0, 24) + bytes.fromhex('28b52ffd200109000078') + bytes(6)
    for nr, lines, more in ((100, 100, 0), (101, 100, 1), (3000, 100, 1)):
        file.write_bytes(perf_file.build([perf_file.attr(type=1, sample_period=1, sample_type=1 | 2)], {},
                                         records=hidden * nr))
        done = millrace('script', '-i', file, status=255)
        assert done.err.count('a compressed record is damaged') == lines, done.err
        assert done.err.count('records are missing in more than 100 places') == more, done.err


# Where other programs have the CPUs, perf may read nothing while the program runs. Here and below each ring has room
# for all samples, 120 bytes each.
def test_reads_what_perf_compresses(millrace, perf, programs, need_tracefs, tmp_path):
    file = tmp_path / 'perf.data'
    for how in ([], ['--threads']):
        perf('record', '-z', '-m', '8M', *how, '-o', file, '-e', 'raw_syscalls:sys_enter', '--', programs / 'syscalls',
             '-t', '2', '-n', '20000')
        ours = millrace('script', '-i', file).out.splitlines()
        theirs = perf('script', '-i', file, '-F', 'tid').out.splitlines()
        assert len(ours) == len(theirs) > 10000


def as_compressed2(record):
    """What newer perf writes instead of a COMPRESSED record: u64 data_size, the data, zeros up to a multiple of 8."""
    data, most, out = record[8:], 65528 - 16, b''
    for at in range(0, len(data), most):
        part = data[at:at + most]
        padded = part + bytes(-len(part) % 8)
        out += struct.pack('<IHHQ', 83, 0, 16 + len(padded), len(part)) + padded
    return out


MOST_IN_CHUNK = 65536 - 16 - 1  # data of a record, as perf 6.16 cuts them
STALE = 0x5a5a5a5a5a5a  # what data_size of all records but the first is in a chunk of several


def as_chunk(data):
    """What perf 6.16 writes when a ring's compressed bytes take several records: sizes of one, cut to 16 bits."""
    parts = [data[at:at + MOST_IN_CHUNK] for at in range(0, len(data), MOST_IN_CHUNK)]
    whole = sum(16 + len(part) for part in parts)
    sizes = [((whole + 7) // 8 * 8 % 65536, whole - 16)] + [(16 + len(part), STALE) for part in parts[1:]]
    return b''.join(struct.pack('<IHHQ', 83, 0, *size) + part for size, part in zip(sizes, parts))


def in_chunks(records, bytes_of_chunk):
    """COMPRESSED records become chunks of so many bytes, the last one of what is left. Marks of rounds go."""
    at, out, nr, data = 0, b'', 0, b''
    while at < len(records):
        kind, _, size = struct.unpack_from('<IHH', records, at)
        if kind == 81:
            data += records[at + 8:at + size]
        elif kind != 68:
            out += records[at:at + size]
        at += size
    for at in range(0, len(data), bytes_of_chunk):
        part = data[at:at + bytes_of_chunk]
        several = (16 + len(part) + 7) // 8 * 8 > 65535
        out += as_chunk(part) if several else as_compressed2(bytes(8) + part)
        nr += several
    assert nr > 1
    return out


def converted(records):
    at, out, nr = 0, b'', 0
    while at < len(records):
        kind, _, size = struct.unpack_from('<IHH', records, at)
        record = records[at:at + size]
        nr += kind == 81
        out += as_compressed2(record) if kind == 81 else record
        at += size
    assert nr
    return out


def file_with_compressed2(data, convert=converted):
    """The same file with type 83 instead of 81; what stands behind the records moves."""
    head, (start, size) = bytearray(data), struct.unpack_from('<QQ', data, 0x28)
    records, tail = convert(data[start:start + size]), bytearray(data[start + size:])
    moved = len(records) - size
    nr = sum(bin(word).count('1') for word in struct.unpack_from('<4Q', data, 0x48))
    for i in range(nr):
        offset, length = struct.unpack_from('<QQ', tail, 16 * i)
        struct.pack_into('<QQ', tail, 16 * i, offset + moved, length)
    struct.pack_into('<Q', head, 0x30, len(records))
    return bytes(head[:start]) + records + bytes(tail)


# What is compressed at once, a ring at most, needs one record: two threads on two CPUs have less than 30 kB each.
@pytest.mark.parametrize('who', ['perf', 'millrace'])
def test_reads_compressed2(millrace, perf, programs, need_tracefs, tmp_path, who):
    old, new = tmp_path / 'old.data', tmp_path / 'new.data'
    command = {'perf': perf, 'millrace': millrace}[who]
    command('record', '-z', '-m', '2M', '-o', old, '-e', 'raw_syscalls:sys_enter', '--', programs / 'syscalls',
            '-t', '2', '-n', '5500', '-c', '1')
    new.write_bytes(file_with_compressed2(old.read_bytes()))
    expected = millrace('script', '-i', old).out
    assert len(expected.splitlines()) > 10000
    assert millrace('script', '-i', new).out == expected
    stats = millrace('report', '--stats', '-i', new).out
    counts = [sorted(line.split() for line in text.replace('COMPRESSED2', 'COMPRESSED').splitlines())
              for text in (stats, millrace('report', '--stats', '-i', old).out)]
    assert counts[0] == counts[1]
    if who == 'perf':
        theirs, ours = (tool('report', '--stats', '-i', old).out for tool in (perf, millrace))
        assert re.search('COMPRESSED events: .*', theirs)[0] == re.search('COMPRESSED events: .*', ours)[0]


@pytest.fixture(scope='module')
def large_chunks(perf, programs, need_tracefs, tmp_path_factory):
    """Of perf, with much more than 64 KiB compressed."""
    file = tmp_path_factory.mktemp('chunks') / 'perf.data'
    perf('record', '-z1', '-m', '8M', '-o', file, '-e', 'raw_syscalls:sys_enter', '--', programs / 'syscalls',
         '-t', '2', '-n', '30000')
    return file.read_bytes()


# Beside the largest record, beside 64 KiB, and of several records.
@pytest.mark.parametrize('bytes_of_chunk', [65513, 65519, 65520, 65528, 65544, 150000])
def test_reads_chunks_of_compressed2(millrace, large_chunks, tmp_path, bytes_of_chunk):
    """perf 6.16 and later writes wrong sizes where a ring's bytes do not fit into one record."""
    old, new = tmp_path / 'old.data', tmp_path / 'new.data'
    old.write_bytes(large_chunks)
    new.write_bytes(file_with_compressed2(large_chunks, lambda records: in_chunks(records, bytes_of_chunk)))
    expected = millrace('script', '-i', old).out
    assert len(expected.splitlines()) > 10000
    assert millrace('script', '-i', new).out == expected


def test_reads_compressed2_from_a_pipe(millrace, perf, programs, need_tracefs):
    old = perf('record', '-z', '-m', '8M', '-o', '-', '-e', 'raw_syscalls:sys_enter', '--', programs / 'syscalls',
               '-t', '1', '-n', '60000', binary=True).out
    expected = millrace('script', '-i', '-', input=old, binary=True).out
    assert len(expected.splitlines()) > 10000
    for convert in converted, lambda records: in_chunks(records, 70000):
        new = with_tracing_data(old, convert)
        assert millrace('script', '-i', '-', input=new, binary=True).out == expected


def with_tracing_data(pipe, convert):
    """Records of a pipe, of which TRACING_DATA has bytes behind it."""
    at = 16
    while at < len(pipe):
        kind, _, size = struct.unpack_from('<IHH', pipe, at)
        at += size
        if kind == 66:
            at += (struct.unpack_from('<I', pipe, at - size + 8)[0] + 7) // 8 * 8
            break
    return pipe[:at] + convert(pipe[at:])


def test_readers_have_as_many_threads_for_many_files(millrace, program, programs, spawn, need_root, tmp_path):
    directory = tmp_path / 'd.data'
    target = spawn([programs / 'spin', '-t', '20', '-m', '60000'])
    threads_of(target.pid, 21)
    millrace('record', '--threads', '--per-thread', '-z', '-e', 'cpu-clock', '-g', '-p', target.pid, '-o', directory,
             '--', 'sleep', '1')
    assert len(list(directory.glob('data.*'))) > 20
    reader = spawn([program, 'script', '-i', directory], stdout=subprocess.PIPE)
    reader.stdout.read(1)  # it has read of each file by now, and cannot write all that it has to say
    # One finds the records; others, one for each CPU, decompress, and as many make lines, the main thread among them.
    # ThreadSanitizer has one.
    assert len(os.listdir(f'/proc/{reader.pid}/task')) <= 2 + 2 * os.cpu_count()
