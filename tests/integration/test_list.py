# SPDX-License-Identifier: MIT
"""millrace list: what this machine can count, as perf lists it."""
import json
import re

import pytest

LINE = re.compile(r'^  (\S.*?) +\[(.+)\]$')


def listed(text):
    """{name, or "name OR other": kind}"""
    return dict(match.groups() for match in map(LINE.match, text.splitlines()) if match)


@pytest.mark.parametrize('words', [['hw'], ['sw'], ['cache'], ['pmu'], ['tracepoint'], ['sched:*'], ['clock'],
                                   ['fault', 'sw'], ['sched:sched_sw?tch', 'cs']])
def test_as_perf(millrace, perf, need_tracefs, words):
    ours = listed(millrace('list', *words, status=None).out)
    theirs = {}
    for word in words:
        theirs.update(listed(perf('list', word, status=None).out))
    kinds = ('Hardware event', 'Software event', 'Hardware cache event', 'Kernel PMU event', 'Tracepoint event')
    ours = {name: kind for name, kind in ours.items() if kind in kinds}
    assert ours == {name: kind for name, kind in theirs.items() if kind in kinds}


def test_all_of_it_is_accepted(millrace, need_tracefs, tmp_path):
    """Every name is one that record takes; those of the software are recorded."""
    names = [name.split(' OR ') for name in listed(millrace('list', 'sw').out)]
    done = millrace('record', '-q', '-o', tmp_path / 'x.data', '-e', ','.join(sum(names, [])), '--', 'true')
    assert done.err == ''
    everything = listed(millrace('list').out)
    assert {'rNNN', 'mem:ADDRESS[/LENGTH][:rwx]'} <= everything.keys()
    assert len(everything) > 1000


def test_json(millrace, need_tracefs):
    events = json.loads(millrace('list', '--json').out)
    assert {'name': 'context-switches', 'aliases': ['cs'], 'kind': 'sw'} in events
    assert {'name': 'sched:sched_switch', 'aliases': [], 'kind': 'tracepoint'} in events
    assert len({event['name'] for event in events}) == len(events)
    assert json.loads(millrace('list', '--json', 'no*such', status=1).out) == []


def test_breakpoints_are_a_kind(millrace):
    """Not a part of names, such as bpf-output."""
    assert listed(millrace('list', 'bp').out) == {'mem:ADDRESS[/LENGTH][:rwx]': 'Hardware breakpoint'}


def test_nothing_found(millrace):
    done = millrace('list', 'nosuchevent', status=1)
    assert done.out == '' and done.err.count('\n') == 1 and 'nosuchevent' in done.err
