# SPDX-License-Identifier: MIT
"""Groups {a,b}: recorded by either, they say the same in both programs."""
import re

import pytest

from conftest import plain_names
from test_report import assert_same_graphs, assert_same_rows, theirs as theirs_of

BUSY = ['sh', '-c', 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done']
GROUPS = [
    ['-e', '{cpu-clock,cs,faults}:S'],
    ['-e', 'name{cpu-clock,faults}:S', '-e', 'faults'],
    ['-e', '{cpu-clock/period=500000/,task-clock}:Su'],
    ['-e', '{cpu-clock,faults}', '-g'],
    ['-a', '-e', '{cpu-clock:k,sched:sched_process_exec}:S'],  # of the kernel: see ALL_CPUS
]


TABLES = [[], ['--no-group', '--no-children'], ['--group', '-n', '-g', 'none'],
          ['--group-sort-idx', '1', '-s', 'comm,dso'], ['--group-sort-idx', '9', '-s', 'dso,sym'],
          ['-F', 'overhead_children,comm,sample,period']]


def test_group_of_samples(millrace, perf, need_tracefs, tmp_path):
    for number, options in enumerate(GROUPS):
        for record in (millrace, perf) if number < 2 else (millrace,):
            file = tmp_path / f'{number}-{record is perf}.data'
            with plain_names():
                record('record', '-q', '-o', file, *options, '--', *BUSY)
            theirs, ours = perf('script', '-i', file).out, millrace('script', '-i', file).out
            assert theirs and ours == theirs
            for table in TABLES[number % 2::2]:
                assert_same_graphs(millrace('report', '--stdio', *table, '-i', file).out,
                                   theirs_of(perf, *table, '-i', file))


def test_periods_behind_times_that_are_left_out(millrace, perf, tmp_path):
    """The first sample that is shown has what was counted since the one before it, and not since the beginning."""
    for record, *options in (perf,), (millrace,), (millrace, '-z'):
        file = tmp_path / f'{record is perf}{len(options)}.data'
        record('record', '-q', '-o', file, *options, '-e', '{cpu-clock,faults}:S', '--', *BUSY)
        for times in '50%-100%', '10%-30%,60%-80%':
            theirs, ours = (tool('script', '--time', times, '-i', file).out for tool in (perf, millrace))
            assert theirs and ours == theirs
            assert_same_graphs(millrace('report', '--stdio', '-n', '--time', times, '-i', file).out,
                               theirs_of(perf, '-n', '--time', times, '-i', file))
            stats = millrace('report', '--stats', '--time', times, '-i', file).out
            events = [f'{event}:' for event, number in re.findall(r'(\S+) stats:\n +SAMPLE events: +(\d+)', stats)
                      for _ in range(int(number))]
            shown = millrace('script', '-F', 'event', '--time', times, '-i', file).out.split()
            assert events and events == sorted(shown)


@pytest.mark.parametrize('text, groups', [('{cpu-clock,faults}', '{cpu-clock,faults}'),
                                          ('g{cpu-clock,cs,faults}:S', 'g{cpu-clock,cs,faults}'),
                                          ('faults,x{cs,faults}:u', 'x{cs,faults}')])
def test_perf_sees_the_group(millrace, perf, need_root, tmp_path, text, groups):
    file = tmp_path / 'x.data'
    millrace('record', '-q', '-o', file, '-e', text, '--', 'true')
    assert groups in perf('evlist', '-g', '-i', file).out.splitlines()


def test_group_that_does_not_fit(millrace, perf, need_root, tmp_path):
    """A member that reads values cannot follow a leader of another kind: refused, or, when weak, counted apart."""
    file = tmp_path / 'x.data'
    done = millrace('record', '-o', file, '-e', '{cpu-clock:S,faults}', '--', 'true', status=255)
    assert 'faults' in done.err and ':W' in done.err and done.err.count('\n') == 1
    done = millrace('record', '-v', '-o', file, '-e', '{cpu-clock:S,faults}:W', '--', 'true')
    assert 'one by one' in done.err
    assert '{' not in perf('evlist', '-g', '-i', file).out


@pytest.mark.parametrize('options, is_noted', [([], True), (['-i'], False), (['-a'], False)], ids=str)
def test_tasks_that_are_left_out_are_named(millrace, need_root, tmp_path, options, is_noted):
    """perf leaves them out without a word."""
    done = millrace('record', '-o', tmp_path / 'x.data', *options, '-e', '{cpu-clock,faults}:S,cs', '--', 'true')
    assert ('cpu-clock: tasks that the recorded ones start are not recorded' in done.err) == is_noted
    assert done.err.count('\n') == 1 + is_noted


def test_all_events_as_one_group(millrace, perf, need_root, tmp_path):
    file = tmp_path / 'x.data'
    perf('record', '-o', file, '-e', 'cpu-clock,faults,cs', '--', *BUSY)
    for table in ['--group'], ['--group', '--percentage', 'relative', '-c', 'sh', '-s', 'dso']:
        assert_same_graphs(millrace('report', *table, '-i', file).out, theirs_of(perf, *table, '-i', file))


def test_equal_numbers_of_callers(millrace, perf, need_root, need_tracefs, tmp_path):
    """They are in the order of the leader alone, and behind that of what the events themselves have."""
    file = tmp_path / 'x.data'
    perf('record', '-o', file, '-g', '-e', 'cpu-clock,sched:sched_switch', '--', 'ls', '-R', '/usr/include')
    for table in ['-g', 'none'], ['-g', 'none', '--group-sort-idx', '1'], ['-g', 'none', '-s', 'dso,sym']:
        assert_same_rows(millrace('report', '--group', *table, '-i', file).out,
                         theirs_of(perf, '--group', *table, '-i', file))


def test_group_whose_leader_has_no_samples(millrace, need_root, tmp_path):
    file = tmp_path / 'x.data'
    millrace('record', '-o', file, '-e', '{dummy,cpu-clock}', '--', *BUSY)
    table = millrace('report', '-i', file).out
    assert "of events 'anon group { dummy, cpu-clock }'" in table and '   0.00% ' in table
