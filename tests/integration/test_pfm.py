# SPDX-License-Identifier: MIT
"""Events by the names of libpfm4. Without a PMU those of its "perf" table are all that can be opened."""
import os

import pytest

from perfdata import PerfData

USAGE = 129
DEBUGFS = 'mount -t debugfs none /sys/kernel/debug'
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


@pytest.mark.parametrize('modifier, reported', [('period=77777', '{ sample_period, sample_freq }: 77777,'),
                                            ('freq=333', '{ sample_period, sample_freq }: 333,')])
def test_modifiers_of_perf_events(record, perf, tmp_path, modifier, reported):
    """The kernel's test-record-pfm-period has cycles:period=77777."""
    (what, _attr), = record('--pfm-events', f'perf::PERF_COUNT_SW_TASK_CLOCK:u:{modifier}')
    text = perf('evlist', '-v', '-i', tmp_path / 'perf.data').out
    assert what == TASK_CLOCK and reported in text and (' freq: 1' in text) == modifier.startswith('freq')


def test_in_e(record, perf, tmp_path):
    """Words that only libpfm4 knows; modifiers and terms are those of -e."""
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


@pytest.mark.parametrize('text, why', [
    ('sched:sched_swich', "column 1 of 'sched:sched_swich': no tracepoint is called 'sched:sched_swich'; did you mean "
                          "sched:sched_switch?"),
    ('sched:sched_switch:x', "column 20 of 'sched:sched_switch:x': unknown modifier 'x'"),
    ('PERF_COUNT_SW_TASK_CLOCK,block:foo', "no tracepoint is called 'block:foo'"),
    ('block:foo', "no tracepoint is called 'block:foo'"),
])
@pytest.mark.parametrize('mount', ['true', DEBUGFS])
def test_systems_of_tracepoints_are_no_events(need_tracefs, run, program, mount, text, why):
    """Where debugfs is mounted libpfm4's generic table has an event for each system of tracepoints."""
    done = run(['unshare', '-m', 'sh', '-c', f'{mount}; exec "$@"', 'sh', program, 'record', '-e', text, '--', 'true'],
               status=None)
    if 'mount:' in done.err and not os.path.ismount('/sys/kernel/debug'):
        pytest.skip(f'cannot mount debugfs: {done.err.strip()}')
    assert done.status == USAGE and why in done.err.splitlines()[-1], done


def test_environment_of_the_command(record, millrace, tmp_path):
    """What the library is told by its environment is not for the command."""
    for own in None, 'snb':
        env = {'LIBPFM_DISABLED_PMUS': own} if own else {}
        command = ['sh', '-c', 'echo "[${LIBPFM_DISABLED_PMUS-none}]"']
        done = millrace('record', '-e', 'PERF_COUNT_SW_TASK_CLOCK', '-o', tmp_path / 'data', '--', *command, env=env)
        assert done.out == f'[{own or "none"}]\n'
