# SPDX-License-Identifier: MIT
"""Events by the names of libpfm4. Without a PMU those of its "perf" table are all that can be opened."""
import pytest

from perfdata import PerfData

USAGE = 129
CLOCK, TASK_CLOCK = (1, 0), (1, 1)  # PERF_TYPE_SOFTWARE and its numbers, <linux/perf_event.h>


@pytest.fixture
def record(millrace, tmp_path):
    path = tmp_path / 'perf.data'

    def record(*options):
        millrace('record', *options, '--side-channel=off', '-o', path, '--', 'true')
        return [((attr.type, attr.config), attr) for attr in PerfData(path).attrs]

    if 'no libpfm4' in millrace('record', '--pfm-events', 'nosuch', '--', 'true', status=None).err:
        pytest.skip('this build has no libpfm4')
    return record


def test_names_and_groups(record, perf, tmp_path):
    found = record('--pfm-events', 'perf::PERF_COUNT_SW_CPU_CLOCK:u,{perf::CPU-CLOCK,perf::TASK-CLOCK}')
    assert [what for what, attr in found] == [CLOCK, CLOCK, TASK_CLOCK]
    assert perf('evlist', '-g', '-i', tmp_path / 'perf.data').out.splitlines() == [
        'perf::PERF_COUNT_SW_CPU_CLOCK:u', '{perf::CPU-CLOCK,perf::TASK-CLOCK}']


def test_in_e(record, perf, tmp_path):
    """Where nobody else knows the word; modifiers and terms are those of -e."""
    found = record('-e', 'PERF_COUNT_SW_TASK_CLOCK:u,PERF_COUNT_SW_CPU_CLOCK')
    assert [what for what, attr in found] == [TASK_CLOCK, CLOCK]
    assert perf('evlist', '-i', tmp_path / 'perf.data').out.splitlines()[0] == 'PERF_COUNT_SW_TASK_CLOCK:u'


@pytest.mark.parametrize('text, column, why', [
    ('nosuch', 1, 'event not found'),
    ('perf::CPU-CLOCK,nosuch', 17, 'event not found'),
    ('{perf::CPU-CLOCK', 17, "expected '}'"),
    ('{}', 2, 'a group without events'),
    ('{perf::CPU-CLOCK,{', 18, 'a group cannot be a member'),
    ('}', 1, 'a group without events'),
    ('', 1, 'expected an event'),
])
def test_errors_name_the_column(record, millrace, text, column, why):
    done = millrace('record', '--pfm-events', text, '--', 'true', status=USAGE)
    assert f'column {column} of' in done.err and why in done.err and done.err.count('\n') == 1
