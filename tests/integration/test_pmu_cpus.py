# SPDX-License-Identifier: MIT
"""A PMU that counts on some CPUs only, as on processors with two kinds of cores: its events are opened there."""
import os
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from perfdata import PerfData  # noqa: E402

EXCLUDE_GUEST = 1 << 20  # of the bits of an attr: <linux/perf_event.h>
LOST = 1 << 4  # of a read_format
MSR = '/sys/bus/event_source/devices/msr'
CPUS = sorted(os.sched_getaffinity(0))


@pytest.fixture(name='opened')
def fixture_opened(need_root, run, program, tmp_path):
    """On which CPUs events are opened, where the kernel's PMU msr is called `core` and has these CPUs:
    of core's events, of others, and what was said."""
    if not os.path.exists(MSR):
        pytest.skip('no PMU that takes an event on each CPU')
    if len(CPUS) < 2:
        pytest.skip('one CPU')
    pmu = tmp_path / 'devices' / 'core'
    (pmu / 'format').mkdir(parents=True)
    (pmu / 'format' / 'event').write_text('config:0-63\n')
    with open(f'{MSR}/type', encoding='ascii') as file:
        number = file.read()
    (pmu / 'type').write_text(number)

    def opened(cpus, *args, file='cpus', status=0):
        (pmu / file).write_text(cpus)
        script = 'mount --bind "$0" /sys/bus/event_source/devices && exec "$@"'
        done = run(['unshare', '-m', 'sh', '-c', script, tmp_path / 'devices', 'strace', '-f', '-e',
                    'trace=perf_event_open', '-e', 'signal=none', '-o', tmp_path / 'calls', program, 'record', '-n',
                    '-o', tmp_path / 'data', *args, '--', 'true'], status=status)
        text = (tmp_path / 'calls').read_text()
        calls = re.findall(r'perf_event_open\(\{type=([^,]+),.*\}, -?\d+, (-?\d+), -1, [\w|]+\) = \d+$', text, re.M)
        core = sorted({int(cpu) for kind, cpu in calls if not kind.startswith('PERF_TYPE_SOFTWARE')})
        rest = sorted({int(cpu) for kind, cpu in calls if kind.startswith('PERF_TYPE_SOFTWARE') and int(cpu) >= 0})
        return core, rest, done.err
    return opened


@pytest.mark.parametrize('file', ['cpus', 'cpumask'])
@pytest.mark.parametrize('args', [['-a'], ['-a', '--side-channel=off'], [], ['--side-channel=off']])
def test_events_are_opened_on_the_cpus_of_their_pmu(opened, file, args):
    """Task events come from all CPUs all the same."""
    core, rest, _ = opened(f'{CPUS[1]}\n', '-e', 'core/event=0/', *args, file=file)
    assert core == [CPUS[1]] and rest[:2] == CPUS[:2]


def test_of_a_group_all_members_are(opened):
    core, _, said = opened(f'{CPUS[1]}\n', '-a', '-e', '{cpu-clock,core/event=0/}')
    assert core == []  # as a member it has a leader's fd
    assert f'millrace: cpu-clock: counted on CPUs {CPUS[1]} only, as core/event=0/ of its group is\n' in said
    core, _, said = opened(f'{CPUS[1]}\n', '-a', '-e', '{core/event=0/,cpu-clock}')
    assert core == [CPUS[1]] and said.count('of its group') == 1
    for words in ['-C', str(CPUS[1]), '-e', '{core/event=0/,cpu-clock}'], ['-a', '-e', '{core/event=0/,core/event=0/}']:
        assert 'of its group' not in opened(f'{CPUS[1]}\n', *words)[2]


def test_a_group_that_falls_apart_is_on_the_cpus_of_each_member(opened, tmp_path):
    """One that reads values cannot have a leader of another kind: as when counters do not suffice."""
    core, _, said = opened(f'{CPUS[1]}\n', '-e', '{cpu-clock:S,core/event=0/}:W')
    assert core == [CPUS[1]]
    assert 'cpu-clock:S: the events of its group are counted one by one, each on all CPUs of its PMU: ' in said
    file = PerfData(tmp_path / 'data')
    assert [len(attr.ids) for attr in file.attrs[:2]] == [os.sysconf('SC_NPROCESSORS_ONLN'), 1]


def test_a_group_that_falls_apart_costs_no_features(opened, tmp_path):
    """Its PMU takes no exclude_guest, so that the member cannot be opened alone either, at first."""
    def count_lost(events):
        opened(f'{CPUS[1]}\n', '-e', events)
        return [bool(attr.read_format & LOST) for attr in PerfData(tmp_path / 'data').attrs[:3]]
    assert count_lost('{cpu-clock:S,core/event=0/}:W,faults') == count_lost('cpu-clock,core/event=0/,faults')


def test_no_cpu_is_an_error_that_says_so(opened):
    core, rest, said = opened(f'{CPUS[1]}\n', '-C', str(CPUS[0]), '-e', 'core/event=0/', status=255)
    assert (core, rest) == ([], [])
    assert said == (f'millrace: event core/event=0/: its PMU counts on CPUs {CPUS[1]}, none of which is recorded, of '
                    f'{CPUS[0]}\n')
    core, _, _ = opened(f'{CPUS[1]}\n', '-C', f'{CPUS[0]},{CPUS[1]}', '-e', 'core/event=0/')
    assert core == [CPUS[1]]


def test_what_one_pmu_refuses_is_not_taken_from_others(need_root, millrace, tmp_path):
    """msr takes no exclude_guest: the kernel counts lost records all the same."""
    if not os.path.exists(MSR):
        pytest.skip('no PMU that refuses exclude_guest')

    def said(*events):
        return millrace('record', '-v', '-a', '-o', tmp_path / 'data', *events, '--', 'true').err
    if 'lacks' in said('-e', 'cpu-clock'):
        pytest.skip('a kernel that lacks something')
    text = said('-e', '{cpu-clock,msr/tsc/}:S')
    assert [line for line in text.splitlines() if 'lacks' in line or 'exclude' in line] == [
        'millrace: msr/tsc/: its PMU takes no exclude_guest or exclude_host: recording without']
    assert 'does not count what it drops' not in text


def test_events_behind_one_that_cannot_leave_out_guests_do(need_root, millrace, tmp_path):
    if not os.path.exists(MSR):
        pytest.skip('no PMU that refuses exclude_guest')
    millrace('record', '-n', '-a', '-o', tmp_path / 'data', '-e', 'cpu-clock,msr/tsc/,task-clock,page-faults', '--',
             'true')
    attrs = PerfData(tmp_path / 'data').attrs
    without_guests = [bool(attr.bits & EXCLUDE_GUEST) for attr in attrs[:4]]
    assert without_guests == [True, False, True, True]
