# SPDX-License-Identifier: MIT
"""
The kernels of Debian's releases on machines of 2 CPUs, of both architectures: what `make static` built finds there,
records, counts and reads. Prints the rows of bench/results/kernels.md.
Run with: make check-kernels
"""
import json
import os
import re
import subprocess

import pytest

from conftest import ROOT

LAB = os.environ.get('LAB') or ROOT / 'tools' / 'lab'
pytestmark = pytest.mark.lab

BUILDS = {'amd64': ROOT / 'build-static', 'arm64': ROOT / 'build-static-arm64'}
RELEASES = {'bullseye': '5.10.', 'bookworm': '6.1.', 'trixie': '6.12.', 'trixie-backports': ''}
RECORDINGS = {
    'stacks': '-a -g -- sleep 1',
    'unwound': '-a -e cpu-clock --call-graph unwind --all-cgroups --namespaces -z -- sleep 1',
    'waits': "-a -e sched:sched_switch --off-cpu -- sh -c 'for i in $(seq 50); do sleep 0.02; done'",
}
SCRIPT = r'''
mount -t securityfs none /sys/kernel/security
mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup
uname -m >machine; uname -r >version; cat /sys/kernel/security/lsm >lsm
ls /sys/bus/event_source/devices >pmus
millrace doctor --json >doctor
millrace selftest --quick >selftest 2>&1; echo $? >selftest.status
record() {
	name=$1; shift
	millrace record -o $name.data "$@" 2>$name.err; echo $? >$name.status
	millrace report --stats -i $name.data >$name.stats 2>&1
	millrace report --stdio -i $name.data >$name.report 2>$name.report.err
}
mkfifo stays-empty
millrace script -i - <stays-empty >/dev/null 2>&1 & reader=$!
exec 3>stays-empty
for try in $(seq 100); do grep -q 'Seccomp:.*2' /proc/$reader/status && break; sleep 0.1; done
cat /proc/$reader/status >reader
exec 3>&-; wait; rm stays-empty
'''


@pytest.fixture(name='seen', scope='module', params=[(release, arch) for arch in BUILDS for release in RELEASES],
                ids='-'.join)
def fixture_seen(request, tmp_path_factory):
    """seen(NAME): the text that was left there."""
    release, arch = request.param
    program = BUILDS[arch] / 'millrace'
    if not program.exists():
        pytest.skip('make static was not run for this architecture')
    out = tmp_path_factory.mktemp('kernel')
    script = [SCRIPT, *(f'record {name} {options}' for name, options in RECORDINGS.items()), 'echo >ended']
    done = subprocess.run([LAB, 'run', '--arch', arch, '--release', release, '--cpus', '2', '--mem', '2048',
                           '--timeout', '900', '--add', f'{program}:/bin/millrace', '--out', out, '\n'.join(script)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800, check=False)
    assert (out / 'ended').exists(), done.stdout

    def text(name):
        return (out / name).read_text()
    text.release, text.arch = release, arch
    return text


def counts(seen, name):
    """Captured, lost."""
    said = re.search(r'captured (\d+) samples.*; lost (\d+)', seen(f'{name}.err'))
    assert said, seen(f'{name}.err')
    return int(said[1]), int(said[2])


def test_the_machine_is_what_was_asked_for(seen):
    assert seen('version').startswith(RELEASES[seen.release])
    assert seen('machine') == {'amd64': 'x86_64\n', 'arm64': 'aarch64\n'}[seen.arch]


def test_selftest(seen):
    assert seen('selftest.status') == '0\n', seen('selftest')
    assert len(re.findall(r'^.*\b(?:all|accounted)$', seen('selftest'), re.M)) == 8, seen('selftest')


@pytest.mark.parametrize('name', RECORDINGS)
def test_what_is_recorded_is_read(seen, name):
    assert seen(f'{name}.status') == '0\n', seen(f'{name}.err')
    captured, _ = counts(seen, name)
    assert captured > 20
    assert re.search(rf'^ +SAMPLE events: +{captured}\b', seen(f'{name}.stats'), re.M), seen(f'{name}.stats')
    assert re.search(r'^ +\d+\.\d+%', seen(f'{name}.report'), re.M), seen(f'{name}.report.err')


def test_doctor_finds_no_obstacle_but_missing_hardware(seen):
    """As root, where everything is mounted."""
    obstacles = [finding for finding in json.loads(seen('doctor')) if finding['state'] == 'no']
    assert [finding for finding in obstacles if not re.search('PMU|Intel LBR', finding['text'])] == []


def test_readers_are_in_their_sandbox(seen):
    assert re.search(r'^Seccomp:\t2$', seen('reader'), re.M) and re.search(r'^NoNewPrivs:\t1$', seen('reader'), re.M)


def test_row(seen, capsys):
    """For bench/results/kernels.md."""
    found = [counts(seen, name) for name in RECORDINGS]
    hardware = {'armv8_pmuv3': 'armv8_pmuv3', 'armv8_pmuv3_0': 'armv8_pmuv3', 'cpu': 'cpu'}
    pmus = [name for pmu, name in hardware.items() if pmu in seen('pmus').split()]
    with capsys.disabled():
        print(f'\n| {seen("version").strip()} | {seen("machine").strip()} |'
              f' {len(re.findall(r"(?:all|accounted)$", seen("selftest"), re.M))} of 8 |'
              f' {", ".join(str(captured) for captured, _ in found)}; {", ".join(str(lost) for _, lost in found)} |'
              f' {pmus[0] if pmus else "none"} | seccomp{", landlock" * ("landlock" in seen("lsm"))} |')
