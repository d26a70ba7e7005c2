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


def test_a_seccomp_filter_is_named(findings, run, program, programs):
    """As containers have one; whatever else is missing there."""
    def without_perf_event_open(*args, **keywords):
        return run([programs / 'refuse_perf', program, *args], **keywords)

    found = {finding['name']: finding for finding in
             json.loads(without_perf_event_open('doctor', '--json', status=1).out)}
    assert found['seccomp']['state'] == 'no' and '--security-opt seccomp=' in found['seccomp']['text']
    for name in ('own processes, user space', 'everything (-a)', 'rings of the usual size', 'uprobes'):
        assert '--security-opt seccomp=' in found[name]['text'] and 'sysctl' not in found[name]['text'], found[name]
    assert 'refuses' not in findings['seccomp']['text']
    refused = without_perf_event_open('record', '-o', '/dev/null', '-e', 'cpu-clock', '--', 'true', status=255)
    assert 'event cpu-clock: a seccomp filter refuses perf_event_open(2): ' in refused.err


def test_rights_of_a_user_namespace_do_not_count(need_root, paranoid, run, program):
    paranoid(2)
    if run(['unshare', '-Ur', 'true'], status=None).status:
        pytest.skip('no user namespaces')
    done = run(['unshare', '-Ur', program, 'doctor', '--json'], status=None)
    found = {finding['name']: finding for finding in json.loads(done.out)}
    assert found['CAP_PERFMON']['state'] == 'no' and 'only in this user namespace' in found['CAP_PERFMON']['text']
    assert found['everything (-a)']['state'] == 'no'
    assert 'a user namespace' in found['container']['text']


def test_no_cgroups(need_root, run, program):
    script = 'umount -R -l /sys/fs/cgroup 2>/dev/null; exec "$0" doctor --json'
    done = run(['unshare', '-m', 'sh', '-c', script, program], status=None)
    found = {finding['name']: finding for finding in json.loads(done.out)}
    assert found['cgroups (-G, --all-cgroups)']['state'] == 'no'


def test_usage(millrace):
    assert millrace('doctor', '--nonsense', status=129).err.startswith('millrace: ')
    assert millrace('doctor', 'me', status=129).err == 'millrace: doctor takes no argument, but got "me"\n'
    assert os.path.basename(millrace('doctor', '--help').out.split()[1]) == 'millrace'
