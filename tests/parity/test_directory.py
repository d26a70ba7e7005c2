# SPDX-License-Identifier: MIT
"""Data directories of `perf record --threads` read as perf reads them.

Between the files of a directory nothing says which of two records of the same time comes first: perf takes the one
that it happened to read earlier, millrace that of the first file. So what was recorded at the same time is compared as
a set.
"""
import itertools
import re
import shutil
import struct

import pytest

from conftest import ALL_CPUS, plain_names

WORKLOAD = ['sh', '-c', 'for i in 1 2 3 4; do ls -lR /usr/share/doc/l* | sort | wc -l & done; wait']

CASES = {
    'cpu': ['--threads=cpu', '-m', '4M', '-e', 'raw_syscalls:sys_enter'],  # of all CPUs there may be any number
    'default': ['--threads', *ALL_CPUS, '-g'],
    'core': ['--threads=core', '-a', '-e', 'sched:sched_switch,sched:sched_wakeup'],
    'package': ['--threads=package', '-e', 'cpu-clock', '-g'],
    'numa': ['--threads=numa', '-e', 'dummy', *ALL_CPUS, '-c', '100000', '-d'],
}


@pytest.fixture(scope='module', params=CASES)
def directory(request, need_root, need_tracefs, perf, tmp_path_factory):
    path = tmp_path_factory.mktemp('directory') / 'perf.data'
    with plain_names():
        perf('record', *CASES[request.param], '-o', path, '--', *WORKLOAD)
    assert path.is_dir() and len(list(path.glob('data.*'))) > 1
    return path


def part_with_samples(directory):
    """The largest file beside `data`: on a busy machine the workload may not come to every CPU."""
    return max(directory.glob('data.*'), key=lambda part: part.stat().st_size)


def by_time(blocks, time):
    """[[blocks of one time, sorted], …] in the order of the text."""
    return [sorted(group) for _, group in itertools.groupby(blocks, time)]


def assert_same(ours, theirs):
    assert len(theirs) > 10
    for number, (left, right) in enumerate(zip(ours, theirs)):
        assert left == right, f'number {number}'
    assert len(ours) == len(theirs)


def samples(text):
    """The lines of `script`, a sample with its call chain in one."""
    return re.sub(rb'\n(?=\n|\t)', b'\0', text).replace(b'\0\0', b'').split(b'\n')


def sample_time(block):
    found = re.search(rb' (\d+\.\d+):', block)
    return found[1] if found else block


def test_script(directory, perf, millrace):
    theirs = perf('script', '-i', directory, binary=True).out
    done = millrace('script', '-i', directory, binary=True)
    assert b'out of order' not in done.err
    assert_same(by_time(samples(done.out), sample_time), by_time(samples(theirs), sample_time))


def test_stats(directory, perf, millrace):
    theirs = perf('report', '--stats', '-i', directory).out
    assert 'SAMPLE' in theirs
    assert millrace('report', '--stats', '-i', directory).out == theirs


def dumped(text):
    """(time, block) of each record of a raw dump; what has no time keeps its place in `data`, which comes first."""
    blocks = re.split(rb'\n\n(?=[0-9a-fx]+@)', text[:text.find(b'\n\nAggregated stats')])[1:]
    for block in blocks:
        found = re.search(rb'\n(?:\d+ )?(\d+) 0x[0-9a-f]+ \[0x[0-9a-f]+\]: PERF_RECORD_', block)
        yield int(found[1]) if found else 0, block


def test_raw_dump(directory, perf, millrace):
    """Offsets are those in the file that is named; the thread of a sample may hang on the order of equal times."""
    def records(out):
        plain = [(time, re.sub(rb'\n \.\.\. thread: .*', b'', block).strip()) for time, block in dumped(out)]
        return [sorted(block for _, block in group) if time else [block for _, block in group]
                for time, group in itertools.groupby(plain, lambda record: record[0])]

    theirs = perf('report', '-D', '-i', directory, binary=True).out
    assert f'@{part_with_samples(directory)} ['.encode() in theirs
    assert_same(records(millrace('report', '-D', '-i', directory, binary=True).out), records(theirs))


def test_header(directory, perf, millrace):
    ours = millrace('script', '--header-only', '-i', directory).out
    assert 'directory data version : 1' in ours
    assert ours == perf('script', '--header-only', '-i', directory).out


def totals(text):
    """{(command, object): how many lines} and the counts in front of each table."""
    return re.findall(r'^# (Samples: .*|Event count.*)$', text, re.M)


def test_report(directory, perf, millrace):
    options = ['--stdio', '--no-children', '--sort', 'dso', '-g', 'none', '-i', directory]
    theirs, ours = perf('report', *options).out, millrace('report', *options).out
    assert totals(theirs) and totals(ours) == totals(theirs)

    def rows(text):
        return sorted(line.rstrip() for line in text.splitlines() if '%' in line and not line.startswith('#'))
    assert rows(ours) == rows(theirs)


@pytest.fixture
def changed(directory, tmp_path):
    path = tmp_path / 'changed'
    shutil.copytree(directory, path)
    return path


def test_without_the_feature_the_parts_are_not_read(changed, millrace):
    data = bytearray((changed / 'data').read_bytes())
    word, = struct.unpack_from('<Q', data, 72)
    # Features behind it are found in wrong places now; those that matter here come before.
    struct.pack_into('<Q', data, 72, word & ~(1 << 24))
    (changed / 'data').write_bytes(data)
    done = millrace('report', '--stats', '-i', changed)
    assert ' SAMPLE events' not in done.out
    assert 'are not read' in done.err and done.err.count('\n') == 1


def test_junk_is_reported_and_the_rest_is_read(directory, changed, millrace):
    (changed / 'data.bak').write_bytes(b'left by another program')
    (changed / 'data.empty').touch()
    done = millrace('script', '-i', changed, status=255)
    assert f'{changed}/data.bak: offset 0' in done.err
    assert done.out == millrace('script', '-i', directory).out


def test_truncated_part(directory, changed, millrace):
    part = part_with_samples(changed)
    part.write_bytes(part.read_bytes()[:-4])
    done = millrace('script', '-i', changed, status=255)
    assert f'{part}: offset 0x' in done.err and 'cut off' in done.err
    whole = millrace('script', '-i', directory).out.splitlines()
    lines = done.out.splitlines()
    assert 0 < len(lines) <= len(whole) and set(lines) <= set(whole)


def test_no_parts(changed, millrace):
    for part in changed.glob('data.*'):
        part.unlink()
    done = millrace('script', '-i', changed, status=255)
    assert 'no file data.* beside it' in done.err and not done.out
