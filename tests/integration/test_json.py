# SPDX-License-Identifier: MIT
"""What `report --json` and `diff --json` say of what a recording does not have."""
import json

import perf_file
import pytest


def made(path, sample_type, *words):
    """A recording of one sample."""
    attr = perf_file.attr(type=1, sample_period=1, sample_type=sample_type)
    path.write_bytes(perf_file.build([attr], {}, records=perf_file.sample(2, *words)))
    return path


def rows_of(millrace, *words):
    return json.loads(millrace(*words).out)['events'][0]['entries']


def test_json_says_null_of_what_is_not_recorded(millrace, tmp_path):
    path = made(tmp_path / 'plain', 1 | 2 | 4, 4096, 7 << 32 | 7, 1000)
    keys = 'cpu,socket,cgroup,cgroup_id,weight,local_weight,ins_lat,code_page_size,transaction,host,waker'
    row, = rows_of(millrace, 'report', '--json', '-s', keys, '-i', path)
    assert {name for name in row if row[name] is None} == set(row) - {'period', 'samples'} and len(row) == 14
    row, = rows_of(millrace, 'diff', '--json', '-s', 'cpu,tid', path, path)
    assert row['cpu'] is None and row['tid'] == 7
    path = made(tmp_path / 'cpu', 1 | 2 | 4 | 1 << 7 | 1 << 14, 4096, 7 << 32 | 7, 1000, 0, 0)
    row, = rows_of(millrace, 'report', '--json', '-s', 'cpu,weight', '-i', path)
    assert (row['cpu'], row['weight']) == (0, 0)


@pytest.mark.parametrize('source,wanted', [
    (1 | 1 << 5 | 1 << 19 | 1 << 24 | 1 << 26 | 1 << 40, [None] * 5),
    (2 | 0xa << 5 | 4 << 19 | 2 << 24 | 0xa << 26 | 2 << 40, ['L1 hit', 'Hit', 'L1 hit', 'Yes', 'Data']),
], ids=['unknown', 'known'])
def test_json_of_accesses(millrace, tmp_path, source, wanted):
    """What the processor does not say is null, and words have no blanks around them."""
    path = made(tmp_path / 'memory', 1 | 2 | 4 | 8 | 1 << 14 | 1 << 15, 4096, 7 << 32 | 7, 1000, 8192, 5, source)
    row, = rows_of(millrace, 'report', '--json', '--mem-mode', '-s', 'mem,snoop,tlb,locked,blocked', '-i', path)
    assert [row[name] for name in ('mem', 'snoop', 'tlb', 'locked', 'blocked')] == wanted


@pytest.mark.parametrize('option', ['--stats', '--header-only', '--tasks', '--mmaps', '-D'])
def test_json_of_what_is_text_only(millrace, tmp_path, option):
    path = made(tmp_path / 'plain', 1 | 2 | 4, 4096, 7 << 32 | 7, 1000)
    done = millrace('report', '--json', option, '-i', path, status=129)
    assert not done.out and done.err.count('\n') == 1 and 'leave out' in done.err
    assert millrace('report', option, '-i', path).out


@pytest.mark.parametrize('event,mode,wanted', [((1, 0), [], 'ns'), ((1, 1), [], 'ns'), ((1, 2), [], 'count'),
                                               ((0, 0), [], 'count'), ((1, 0), ['--mem-mode'], None)])
def test_json_has_units(millrace, tmp_path, event, mode, wanted):
    attr = perf_file.attr(type=event[0], config=event[1], sample_period=1, sample_type=1 | 2 | 4 | 8 | 1 << 15)
    path = tmp_path / 'perf.data'
    path.write_bytes(perf_file.build([attr], {}, records=perf_file.sample(2, 4096, 7 << 32 | 7, 1000, 8192, 1)))
    shown, = json.loads(millrace('report', '--json', *mode, '-i', path).out)['events']
    assert shown['unit'] == wanted
    if not mode:
        compared, = json.loads(millrace('diff', '--json', path, path).out)['events']
        assert compared['unit'] == wanted
