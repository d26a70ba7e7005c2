# SPDX-License-Identifier: MIT
"""What a report says does not depend on how many CPUs there are to read with."""
import os
import struct

import pytest

WORK = '{0}/syscalls -t 2 -n 15000 >/dev/null; {0}/forkstorm -n 40 >/dev/null; {0}/syscalls -t 1 -n 10000 >/dev/null; ' \
       'ls -lR /usr/share/doc | wc -l'

RECORDINGS = {
    'syscalls': ['-e', 'raw_syscalls:*'],
    'compressed': ['-z', '-e', 'raw_syscalls:*'],
    'directory': ['--threads', '-a', '-e', 'raw_syscalls:*,sched:sched_switch'],
    'chains': ['-g', '-F', '20000', '-e', 'cpu-clock'],
    'events': ['-g', '-e', 'raw_syscalls:sys_enter,page-faults,cpu-clock'],
    'group': ['-e', '{cpu-clock,raw_syscalls:sys_enter}:S'],
    'stacks': ['--call-graph', 'dwarf,1024', '-F', '2000', '-e', 'cpu-clock'],
}

REPORTS = [
    ['--sort', 'comm,dso,sym', '--stdio'],
    ['-n', '-s', 'pid,cpu,sym'],
    ['--no-children'],
    ['--time', '10%-70%', '-n'],
    ['-C', '0', '-n', '--comms', 'syscalls,ls'],
    ['-s', 'time,comm', '--time-quantum', '50ms'],
    ['--json'],
]


@pytest.fixture(scope='module')
def one_cpu():
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        pytest.skip('needs two CPUs')
    return ['taskset', '-c', str(min(cpus))]


def said(done):
    return done.status, done.out, done.err


def record(millrace, programs, file, options):
    millrace('record', '--sample-cpu', '-o', file, *options, '--', 'sh', '-c', WORK.format(programs))


@pytest.mark.parametrize('name', RECORDINGS)
def test_the_same_report(millrace, run, program, programs, one_cpu, need_tracefs, tmp_path, name):
    file = tmp_path / 'p.data'
    record(millrace, programs, file, RECORDINGS[name])
    for options in REPORTS:
        report = [program, 'report', '-i', file, *options]
        assert said(run(report)) == said(run([*one_cpu, *report])), options


@pytest.mark.parametrize('name', ['syscalls', 'compressed'])
@pytest.mark.parametrize('damage', ['cut', 'overwritten'])
def test_the_same_of_a_damaged_file(millrace, run, program, programs, one_cpu, need_tracefs, tmp_path, name, damage):
    file = tmp_path / 'p.data'
    record(millrace, programs, file, RECORDINGS[name])
    whole = bytearray(file.read_bytes())
    for tenth in 3, 6, 9:
        start, size = struct.unpack_from('<QQ', whole, 40)  # of the data; see perf.data-file-format.txt
        at = start + size * tenth // 10 & ~7
        file.write_bytes(whole[:at] if damage == 'cut' else whole[:at] + b'\xff' * 256 + whole[at + 256:])
        report = [program, 'report', '-i', file, *REPORTS[0]]
        all_cpus = run(report, status=None)
        assert said(all_cpus) == said(run([*one_cpu, *report], status=None)), at
        assert all_cpus.status and 'offset' in all_cpus.err
