# SPDX-License-Identifier: MIT
"""Overwritten rings: the newest records, whole, and snapshots without a gap."""
import json
import os
import pathlib
import re
import struct
import sys
from collections import Counter

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from perfdata import PerfData, SAMPLE  # noqa: E402

GETPPID = 110  # x86_64
BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / 'bench'


def numbers(file):
    """What the program counted in its calls, by thread, in the order of time."""
    calls = {}
    for sample in sorted(PerfData(file).samples(), key=lambda sample: sample.time):
        number, first = struct.unpack_from('<qQ', sample.raw, 8)
        if number == GETPPID:
            calls.setdefault(sample.tid, []).append(first)
    return list(calls.values())


def nr_since_first(file):
    """Samples from the first of those calls on: others that end the program, and how many of them there are varies."""
    samples = list(PerfData(file).samples())
    times = [sample.time for sample in samples if struct.unpack_from('<q', sample.raw, 8)[0] == GETPPID]
    return sum(sample.time >= min(times) for sample in samples)


def is_run(calls):
    return calls == list(range(calls[0], calls[-1] + 1))


@pytest.mark.parametrize('how', [['--overwrite', '-e', 'raw_syscalls:sys_enter'],
                                 ['-e', 'raw_syscalls:sys_enter/overwrite/'],
                                 ['-e', 'raw_syscalls:sys_enter/overwrite/', '--side-channel=off'],
                                 ['-e', 'raw_syscalls:sys_enter/overwrite/', '-z'],
                                 ['-e', 'raw_syscalls:sys_enter/overwrite/', '--per-thread']],
                         ids=['all', 'one', 'no side channel', 'compressed', 'per thread'])
def test_the_last_calls_stay_and_the_file_does_not_grow(millrace, programs, need_tracefs, tmp_path, how):
    """The test of the proposal of 2015, with a page for each ring."""
    file, sizes, counts = tmp_path / 'p.data', [], []
    for made in (4096, 8192):
        if '--per-thread' in how:
            done = millrace('record', '-m', '1', *how, '-o', file, '--', programs / 'syscalls', '-t', '1', '-n', made)
        else:
            done = millrace('record', '-m', '1', *how, '-o', file, '--', 'taskset', '-c', '0',
                            programs / 'syscalls', '-t', '1', '-n', made)
        if '-z' in how:  # perf's own reader has what is compressed
            continue
        calls = numbers(file)
        samples = sum(1 for record in PerfData(file).records() if record.type == SAMPLE)
        sizes.append(file.stat().st_size)
        assert samples < 4096 // 64 * os.cpu_count(), done.err
        assert bool(calls) == ('--per-thread' not in how), 'that follows no thread that comes later'
        if calls:
            counts.append(nr_since_first(file))
            assert counts[-1] >= len(calls[0]) > 0
            assert is_run(calls[0]) and calls[0][-1] == made - 1
    # What happened on other CPUs, before taskset moved, may fill their pages or not.
    assert max(counts, default=0) - min(counts, default=0) <= 1
    assert not sizes or max(sizes) - min(sizes) < 4096 * os.cpu_count() + 1024


def test_normal_events_beside_overwritten_ones(millrace, perf, programs, need_tracefs, tmp_path):
    """Each keeps its nature: all of the one, the last of the other; nothing is out of order for a reader."""
    file, made = tmp_path / 'p.data', 20000
    millrace('record', '-e', 'syscalls:sys_enter_getppid', '-e', 'raw_syscalls:sys_enter/overwrite/', '-m', '64',
             '-o', file, '--', 'taskset', '-c', '0', programs / 'syscalls', '-t', '1', '-n', made)
    data = PerfData(file)
    by_attr = {}
    for record in data.records():
        if record.type == SAMPLE:
            event = data.by_id[struct.unpack_from('<Q', record.body)[0]]
            by_attr[data.attrs.index(event)] = by_attr.get(data.attrs.index(event), 0) + 1
    assert by_attr[0] + data.lost_samples(data.attrs[0]) == made
    assert 0 < by_attr[1] < made
    done = perf('script', '-i', file)
    assert 'out of order' not in done.err
    assert sum('getppid' in line for line in done.out.splitlines()) >= by_attr[0]


@pytest.mark.parametrize('mode', ['dwarf', 'unwind'])
def test_a_snapshot_without_samples_says_so(mode, millrace, programs, need_tracefs, tmp_path):
    """Few stacks have room in a ring, and the kernel writes on while it is copied."""
    for _ in range(5):
        done = millrace('record', '--switch-output=1s', '--overwrite', '-m', '8', '--call-graph', mode, '-e',
                        'raw_syscalls:sys_enter', '-o', tmp_path / 'p.data', '--', programs / 'syscalls', '-t', '2',
                        '-n', '100000')
        *snapshots, _ = re.findall(r'wrote .*: (\d+) samples, .*; lost 0(.*)', done.err)
        assert all(int(nr) or 'overwritten while copied' in said for nr, said in snapshots), done.err
        nr_emptied = sum(int(nr) for nr in re.findall(r'; nothing of (\d) rings?: overwritten while copied', done.err))
        if nr_emptied:
            break
    else:
        pytest.skip('something was left in every ring')
    assert done.err.count('larger rings (-m), smaller copies of stacks (--call-graph dwarf,SIZE or unwind,SIZE)') == 1
    assert f'  {nr_emptied} overwritten ring' in done.err


def test_a_directory_keeps_them_in_its_main_file(millrace, perf, programs, need_tracefs, tmp_path):
    file = tmp_path / 'd.data'
    millrace('record', '--threads', '-e', 'raw_syscalls:sys_enter/overwrite/', '-m', '1', '-o', file, '--',
             'taskset', '-c', '0', programs / 'syscalls', '-t', '1', '-n', '9999')
    calls = numbers(file / 'data')[0]
    assert is_run(calls) and calls[-1] == 9998
    ours = [line.split() for line in millrace('script', '-i', file).out.splitlines()]
    theirs = [line.split() for line in perf('script', '-i', file).out.splitlines()]
    assert len(ours) == len(theirs) > 10


def snapshots(run, programs, *options):
    done = run([programs / 'snapshots', *options], status=None, timeout=300)
    if done.status == 77:
        pytest.skip(f'needs overwritable tracepoints: {done.err}')
    assert done.status == 0, done
    words = r'(\d+) (snapshots|joined|calls|gaps|wrong ends|torn|lost)'
    return dict((word, int(number)) for number, word in re.findall(words, done.out))


def test_snapshots_follow_each_other_without_a_gap(run, programs, need_tracefs):
    seen = snapshots(run, programs, '-n', '30')
    assert seen['snapshots'] == 30 and seen['calls'] and seen['joined']
    assert seen['gaps'] == seen['wrong ends'] == seen['torn'] == seen['lost'] == 0


def test_snapshots_of_rings_that_overflow_are_runs(run, programs, need_tracefs):
    seen = snapshots(run, programs, '-n', '30', '-m', '1')
    assert seen['gaps'] == seen['wrong ends'] == seen['torn'] == seen['lost'] == 0


def test_a_snapshot_holds_one_moment(millrace, programs, need_tracefs, tmp_path):
    """A thread calls and returns all the time. However long a snapshot takes: each file has the two in turn."""
    file = tmp_path / 'p.data'
    millrace('record', '--switch-output', '--overwrite', '-m', '1M', '-e', 'syscalls:sys_enter_getppid',
             '-e', 'syscalls:sys_exit_getppid', '-o', file, '--', 'sh', '-c',
             f'taskset -c 0 {programs}/syscalls -t 1 -n 1000000000 >/dev/null & sleep 0.1; kill -USR2 $PPID; '
             f'until ls {file}.2*[0-9]; do sleep 0.02; done; kill $!; wait')
    files = [PerfData(part) for part in sorted(tmp_path.glob('p.data.2*'))]
    assert len(files) == 2
    caller, _ = Counter(sample.tid for data in files for sample in data.samples()).most_common(1)[0]
    seen = [[sample.id in data.attrs[0].ids for sample in data.samples() if sample.tid == caller] for data in files]
    assert max(map(len, seen)) > 1000
    for calls in seen:
        assert not [i for i, (one, other) in enumerate(zip(calls, calls[1:])) if one == other]


@pytest.mark.lab
def test_perf_is_blind_at_a_snapshot_and_we_are_not(run, perf, need_root, need_tracefs):
    """The same counted calls: what is missing between two files was made between two snapshots."""
    for _ in range(5):
        seen = json.loads(run([BENCH / 'blind', '--json', '--runs', '1', '--snapshots', '3'], timeout=120).out)
        if max(of['bytes'] for of in seen.values()) > 96 << 20:
            pytest.skip('this machine is so fast that 128 MB may not hold what comes between two snapshots')
        assert seen['millrace']['snapshots'] >= 1 and seen['millrace']['missing'] == 0, seen
        if seen['perf']['missing']:
            return
    pytest.skip('in five runs nothing happened while perf was blind: nothing to compare with')


@pytest.mark.lab
@pytest.mark.parametrize('pages', ['1', '2', '16', '4096'])
def test_a_thousand_snapshots_under_full_load(run, programs, need_tracefs, pages):
    seen = snapshots(run, programs, '-n', '1000', '-m', pages, '-t', '4')
    assert seen['snapshots'] == 1000 and seen['gaps'] == seen['wrong ends'] == seen['torn'] == seen['lost'] == 0
