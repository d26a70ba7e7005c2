# SPDX-License-Identifier: MIT
"""`report --latency`: samples weighed by how many tasks ran, beside what the switches say, counted here once more."""
import json
import os
import re
from collections import defaultdict

import pytest

from off_cpu import made_exit, made_recording, made_sample, made_switch, made_wait

USAGE = 129


@pytest.fixture(scope='module')
def data(need_root, millrace, programs, tmp_path_factory):
    path = tmp_path_factory.mktemp('latency') / 'perf.data'
    for _ in range(10):  # until two tasks had CPUs at once, which a busy machine may not give them
        millrace('record', '--latency', '-e', 'cpu-clock', '-F', '2000', '-g', '-o', path,
                 '--', programs / 'waits', 'spin', 8, 400)
        if os.cpu_count() == 1 or 2 in counted(millrace, path)[1]:
            break
    return path


def counted(millrace, data):
    """What script shows: periods and samples by how many tasks ran."""
    text = millrace('script', '-i', data, '--show-switch-events', '--show-task-events',
                    '-F', 'comm,tid,time,event,period', '-G').out
    running, periods, samples = set(), defaultdict(int), defaultdict(int)
    for line in text.splitlines():
        switch = re.match(r'.* (\d+) +[\d.]+: PERF_RECORD_SWITCH (IN|OUT)', line)
        if switch:
            tid = int(switch.group(1))
            running.add(tid) if switch.group(2) == 'IN' else running.discard(tid)
            continue
        ended = re.search(r'PERF_RECORD_EXIT\(\d+:(\d+)\)', line)
        if ended:  # it has no switch out
            running.discard(int(ended.group(1)))
        sample = re.match(r'.* (\d+) +[\d.]+: +(\d+) cpu-clock', line)
        if not sample:
            continue
        running.add(int(sample.group(1)))
        level = min(len(running), os.cpu_count())
        periods[level] += int(sample.group(2))
        samples[level] += 1
    return periods, samples


def entries(millrace, data, *options):
    (event,) = json.loads(millrace('report', '--json', '-i', data, *options).out)['events']
    return event, event['entries']


def test_by_parallelism(millrace, data):
    periods, samples = counted(millrace, data)
    event, rows = entries(millrace, data, '-s', 'parallelism')
    assert {row['parallelism']: row['samples'] for row in rows} == samples and 1 in samples
    assert {row['parallelism']: row['period'] for row in rows} == periods
    assert all(0 <= row['period'] / row['parallelism'] - row['latency'] < 1 for row in rows)
    assert event['latency'] == sum(row['latency'] for row in rows)
    if os.cpu_count() > 1:
        assert samples[2] > 0


def test_latency_weighs_all(millrace, data):
    """Rows, callers and graphs: in all of them a sample that ran beside another is half of one that ran alone."""
    _, rows = entries(millrace, data, '-s', 'parallelism')
    latency, period = (sum(row[what] for row in rows) for what in ('latency', 'period'))
    event, rows = entries(millrace, data, '--latency', '-s', 'sym')
    assert (event['latency'], event['period']) == (latency, period)
    assert sum(row['latency'] for row in rows) == latency and sum(row['period'] for row in rows) == period
    assert max(row['children_latency'] for row in rows) > 0.5 * latency
    text = millrace('report', '--stdio', '--latency', '--no-children', '-g', 'none', '-i', data, '-s', 'comm').out
    assert re.search(r'^# +Latency +Overhead +Command', text, re.M)
    assert re.search(r'^ +[\d.]+% +[\d.]+% +spin', text, re.M)
    text = millrace('report', '--stdio', '-g', 'none', '-i', data, '-F', 'latency,overhead,parallelism').out
    assert re.search(r'^# +Latency +Overhead +Parallelism', text, re.M)


def test_one_parallelism_alone(millrace, data):
    _, samples = counted(millrace, data)
    for level in samples:
        event, _ = entries(millrace, data, '--parallelism', level)
        assert event['samples'] == samples[level]
    event, _ = entries(millrace, data, '--parallelism', '1-64')
    assert event['samples'] == sum(samples.values())


def test_waits_do_not_run(millrace, tmp_path):
    """A sample of a time off the CPU is no sample of a task that runs."""
    path = tmp_path / 'perf.data'
    made_recording(path, made_wait(8, 10**9, 0, 10**6), made_sample(7, 2 * 10**9, 0, 1000))
    events = json.loads(millrace('report', '--json', '-i', path, '-s', 'tid,parallelism').out)['events']
    rows = [row for event in events for row in event['entries']]
    assert [(row['tid'], row['parallelism'], row['latency']) for row in rows] == [(7, 1, 1000)]


@pytest.mark.parametrize('number', [7, -1], ids=['zombie', 'reaped'])
def test_tasks_that_leave_after_their_end(millrace, tmp_path, number):
    """With -a PERF_RECORD_EXIT comes before samples and switches of the task; then it may have no number."""
    path = tmp_path / 'perf.data'
    made_recording(path, made_switch(7, 1000, 0, False), made_exit(7, 2000, 0), made_sample(7, 3000, 0, 10),
                   made_switch(7, 4000, 0, True), made_sample(9, 4500, 0, 10), made_switch(9, 5000, 0, True),
                   made_switch(7, 6000, 1, False), made_sample(9, 6500, 0, 10), made_switch(number, 7000, 1, True),
                   made_switch(8, 8000, 1, False), made_switch(9, 8500, 0, True), made_sample(8, 9000, 1, 10))
    events = json.loads(millrace('report', '--json', '-i', path, '-s', 'tid,parallelism').out)['events']
    rows = [row for event in events for row in event['entries']]
    assert sorted((row['tid'], row['parallelism'], row['samples']) for row in rows) == \
        [(7, 1, 1), (8, 1, 1), (9, 1, 1), (9, 2, 1)]


def test_needs_switches(millrace, tmp_path):
    path = tmp_path / 'perf.data'
    millrace('record', '-e', 'cpu-clock', '-o', path, '--', 'true')
    for options in (['--latency'], ['-s', 'parallelism'], ['-F', 'latency,sym'], ['--parallelism', '2']):
        done = millrace('report', '-i', path, *options, status=None)
        assert done.status and 'record --latency' in done.err and len(done.err.splitlines()) == 1
    for options in (['--latency', '-a'], ['--latency', '-C', '0']):
        done = millrace('record', *options, '-o', path, '--', 'true', status=None)
        assert done.status == USAGE and '--latency' in done.err
    millrace('record', '--latency', '--off-cpu', '-e', 'cpu-clock', '-o', path, '--', 'sleep', '0.1')
    done = millrace('report', '-i', path, '--latency', '--wall', status=None)
    assert done.status and '--wall' in done.err
    events = json.loads(millrace('report', '-i', path, '--latency', '--json').out)['events']
    assert [event['event'] for event in events if event['entries']] in ([], ['cpu-clock'])
