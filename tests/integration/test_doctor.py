# SPDX-License-Identifier: MIT
"""millrace doctor says what millrace record then does."""
import json
import os

import pytest

from conftest import needs_libpfm_without_sys, sanitized
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
    assert found['uprobes']['text'].endswith('take CAP_SYS_ADMIN, on some kernels CAP_PERFMON (run as root)')
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
        assert 'a seccomp filter refuses perf_event_open(2): ' in found[name]['text']
        assert '--security-opt seccomp=' in found[name]['text'] and 'sysctl' not in found[name]['text'], found[name]
    assert 'refuses' not in findings['seccomp']['text']
    shown = without_perf_event_open('doctor', status=1).out
    assert shown.count(found['uprobes']['text']) == 1 and shown.count('  as for: own processes, user space\n') > 5
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
    for name in ('own processes, in the kernel, too', 'everything (-a)', 'uprobes', '/proc/kallsyms'):
        assert '(run as root on the host: ' in found[name]['text'], found[name]


def test_root_without_capabilities_reads_what_it_lacks(need_root, paranoid, run, program):
    """As root of a container that was started without --privileged."""
    paranoid(2)
    done = run(['setpriv', '--bounding-set=-all', '--inh-caps=-all', program, 'doctor', '--json'], status=0)
    found = {finding['name']: finding for finding in json.loads(done.out)}
    assert found['CAP_PERFMON']['state'] == 'no'
    for name in ('own processes, in the kernel, too', 'everything (-a)', 'CAP_PERFMON', 'uprobes', '/proc/kallsyms'):
        assert '--cap-add' in found[name]['text'] and 'run as root' not in found[name]['text'], found[name]


def test_with_perfmon_no_line_asks_for_it_alone(need_root, paranoid, run, program):
    """Of uprobes newer kernels ask for more: a "no" does not name what is there as what is missing."""
    paranoid(2)
    done = run(['setpriv', '--bounding-set=-all,+perfmon', '--inh-caps=-all', program, 'doctor', '--json'], status=0)
    found = {finding['name']: finding for finding in json.loads(done.out)}
    assert found['CAP_PERFMON']['state'] == 'yes' and found['everything (-a)']['state'] == 'yes'
    for finding in found.values():
        assert finding['state'] != 'no' or 'CAP_PERFMON' not in finding['text'] or 'CAP_SYS_ADMIN' in finding['text']


@pytest.fixture(name='findings_after')
def fixture_findings_after(need_root, run, program):
    """What a doctor says in a mount namespace that these commands have changed."""
    def findings_after(script, *prefix):
        script = f'{script}; exec "$@"'
        done = run(['unshare', '-m', 'sh', '-c', script, '-', *prefix, program, 'doctor', '--json'], status=None)
        assert done.err == ''
        return {finding['name']: finding for finding in json.loads(done.out)}
    return findings_after


@pytest.mark.parametrize('level', [3, 4])
def test_a_level_that_this_kernel_does_not_know(findings_after, paranoid, tmp_path, level):
    """Only kernels of Debian and Ubuntu refuse more at 3 and 4 than at 2."""
    paranoid(2)
    (tmp_path / 'level').write_text(f'{level}\n')
    found = findings_after(f'mount --bind {tmp_path}/level /proc/sys/kernel/perf_event_paranoid',
                           'setpriv', '--reuid=65534', '--regid=65534', '--clear-groups')
    assert found['own processes, user space']['state'] == 'yes'
    text = found['kernel.perf_event_paranoid']['text']
    assert text.startswith(f'{level}: without CAP_PERFMON the user space of own processes; on kernels of Debian')
    assert f'kernel.perf_event_paranoid is {level}; ' in found['everything (-a)']['text']


ORDINARY_USER = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']


@pytest.mark.parametrize('level, words', [(1, 'it takes CAP_SYSLOG (run as root)'),
                                          (2, 'not even to root: kernel.kptr_restrict is 2; as root: sysctl ')])
def test_who_sees_kernel_addresses(findings_after, tmp_path, level, words):
    """At kernel.kptr_restrict 2 no right helps."""
    hide = [f'mount --bind {tmp_path}/{name} /proc/{name}' for name in ('sys/kernel/kptr_restrict', 'kallsyms')]
    (tmp_path / 'sys' / 'kernel').mkdir(parents=True)
    (tmp_path / 'sys' / 'kernel' / 'kptr_restrict').write_text(f'{level}\n')
    # Without a right to see them all addresses are 0; a short list is not taken for a good one.
    for nr in 1, 2, 3:
        (tmp_path / 'kallsyms').write_text(f'{0:016x} T _text\n' * nr)
        found = findings_after(' && '.join(hide), *ORDINARY_USER)['/proc/kallsyms']
        assert found['state'] == 'no' and words in found['text'], (nr, found)
        assert ('(run as root)' in found['text']) == (level < 2)
    (tmp_path / 'kallsyms').write_text(f'{0:016x} A first\n{0x1000:016x} A second\n')
    assert findings_after(' && '.join(hide), *ORDINARY_USER)['/proc/kallsyms']['state'] == 'yes'


def test_locked_memory_has_no_limit_for_whom_it_is_not(findings_after, paranoid):
    """perf_mmap() asks for the limit only without CAP_IPC_LOCK, and not at kernel.perf_event_paranoid -1."""
    def text(*prefix):
        return findings_after('ulimit -l 64', *prefix)['locked memory beyond that']['text']

    paranoid(2)
    assert text() == 'as much as there is'
    assert text(*ORDINARY_USER) == '64 KiB; more: ulimit -l, or CAP_IPC_LOCK'
    assert text('unshare', '-Ur').startswith('64 KiB; ')
    paranoid(-1)
    assert text(*ORDINARY_USER) == 'as much as there is'


def test_a_level_that_leaves_out_tracepoints(paranoid, record_unprivileged):
    """Raw data of tracepoints take -1, also of own processes, but for system calls."""
    paranoid(0)
    found = {finding['name']: finding['text'] for finding in
             json.loads(record_unprivileged.run(['sh', '-c', '"$0" doctor --json']).out)}
    assert found['kernel.perf_event_paranoid'] == (
        '0: without CAP_PERFMON everything but tracepoints: of these the system calls of own processes')
    assert found['tracepoints of own processes']


def test_tracefs_whose_files_are_not_readable(findings_after):
    """As after mount -o remount,mode=755 on some kernels."""
    tracing = '/sys/kernel/tracing'
    script = (f'mount -t tmpfs -o mode=755 none {tracing}/events && mkdir -p {tracing}/events/sched/sched_switch && '
              f'echo 1 > {tracing}/events/sched/sched_switch/id && chmod MODE {tracing}/events/sched/sched_switch/id')
    without_rights = ['setpriv', '--bounding-set=-all', '--inh-caps=-all']
    found = findings_after(script.replace('MODE', '0'), *without_rights)
    assert found['tracefs']['state'] == 'no'
    assert found['tracefs']['text'].endswith('/id: Permission denied; as root: mount -o remount,mode=750,gid=0 '
                                             f'{tracing}')
    assert findings_after(script.replace('MODE', '444'), *without_rights)['tracefs']['state'] == 'yes'


def test_what_is_not_mounted_is_named(findings_after):
    found = findings_after('umount -R -l /sys/fs/cgroup 2>/dev/null')
    assert 'mount -t cgroup2 ' in found['cgroups (-G, --all-cgroups)']['text']
    needs_libpfm_without_sys()
    found = findings_after('umount -R -l /sys')
    for name in ('tracefs', 'tracepoints of everything', 'cgroups (-G, --all-cgroups)'):
        assert found[name]['text'].endswith('is /sys mounted?'), found[name]
    assert '/sys' in found['uprobes']['text']


@pytest.mark.skipif(sanitized(), reason='sanitizers need /proc themselves')
def test_a_missing_proc_is_named(findings_after):
    found = findings_after('umount -l /proc')
    for name in ('uprobes', '/proc/kallsyms', 'cgroups (-G, --all-cgroups)'):
        assert found[name]['text'].endswith('is /proc mounted?'), found[name]
    assert 'mount -t proc ' in found['/proc']['text'] and '/proc' in found['kernel.perf_event_paranoid']['text']


def test_nothing_is_mounted(need_root, run, program):
    """Parsing a tracepoint mounts tracefs where it is missing."""
    script = 'umount -l /sys/kernel/tracing; "$0" doctor --json; grep -c "^[^ ]* /sys/kernel/tracing " /proc/mounts'
    done = run(['unshare', '-m', 'sh', '-c', script, program], status=None)
    text, count = done.out.rsplit(']', 1)
    found = {finding['name']: finding for finding in json.loads(text + ']')}
    assert found['tracepoints of everything']['state'] == 'yes' and count.strip() == '0'


def test_usage(millrace):
    assert millrace('doctor', '--nonsense', status=129).err.startswith('millrace: ')
    assert millrace('doctor', 'me', status=129).err == 'millrace: doctor takes no argument, but got "me"\n'
    assert os.path.basename(millrace('doctor', '--help').out.split()[1]) == 'millrace'
