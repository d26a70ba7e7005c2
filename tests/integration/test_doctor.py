# SPDX-License-Identifier: MIT
"""millrace doctor says what millrace record then does."""
import json
import os

import pytest

from test_event_rights import fixture_paranoid, fixture_record_unprivileged  # noqa: F401 (fixtures)


@pytest.fixture(name='findings')
def fixture_findings(millrace):
    done = millrace('doctor', '--json', status=None)
    assert done.status in (0, 1) and done.err == '', done
    return {finding['name']: finding for finding in json.loads(done.out)}


def test_text_and_json_agree(millrace, findings):
    done = millrace('doctor', status=None)
    for finding in findings.values():
        assert f"  {finding['state']:4}  {finding['name']}" in done.out


def test_each_no_has_a_reason(findings):
    assert len(findings) >= 20
    for finding in findings.values():
        assert finding['state'] in ('yes', 'no', 'note')
        assert finding['state'] == 'yes' or finding['text'], finding


@pytest.mark.parametrize('name, args', [
    ('own processes, user space', ['-e', 'cpu-clock:u']),
    ('own processes, in the kernel, too', ['-e', 'cpu-clock:k']),
    ('everything (-a)', ['-e', 'cpu-clock:k', '-a']),
    ('hardware counters', ['-e', 'instructions:u']),
    ('tracepoints of own processes', ['-e', 'sched:sched_switch']),
    ('dwarf', ['-e', 'cpu-clock:u', '--call-graph', 'dwarf']),
    ('lbr', ['-e', 'instructions:u', '--call-graph', 'lbr']),
])
def test_record_does_what_doctor_says(findings, millrace, tmp_path, name, args):
    done = millrace('record', '-o', tmp_path / 'data', *args, '--', 'true', status=None)
    assert (done.status == 0) == (findings[name]['state'] == 'yes'), done


def test_an_ordinary_user_sees_what_to_change(paranoid, record_unprivileged):
    def doctor():
        done = record_unprivileged.run(['sh', '-c', '"$0" doctor --json'])
        return {finding['name']: finding for finding in json.loads(done.out)}

    paranoid(2)
    found = doctor()
    assert found['own processes, user space']['state'] == 'yes'
    assert 'sysctl kernel.perf_event_paranoid=1' in found['own processes, in the kernel, too']['text']
    assert 'sysctl kernel.perf_event_paranoid=0' in found['everything (-a)']['text']
    assert found['CAP_PERFMON']['state'] == 'no'
    paranoid(0)
    assert doctor()['everything (-a)']['state'] == 'yes'


def test_usage(millrace):
    assert millrace('doctor', '--nonsense', status=129).err.startswith('millrace: ')
    assert millrace('doctor', 'me', status=129).err == 'millrace: doctor takes no argument, but got "me"\n'
    assert os.path.basename(millrace('doctor', '--help').out.split()[1]) == 'millrace'
