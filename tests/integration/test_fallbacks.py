# SPDX-License-Identifier: MIT
"""
Older kernels: tests/programs/refuse.c refuses perf_event_open(2) when one bit of the attr is set, each bit in turn.
What can be left out is left out, and said with -v; what was asked for is refused, by name. It refuses ioctls, too.
"""
import fcntl
import json
import os
import pathlib
import platform
import re
import struct
import sys

import pytest

from conftest import MILLRACE, sanitized

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from perfdata import PerfData  # noqa: E402

pytestmark = [pytest.mark.skipif(platform.machine() != 'x86_64', reason='the shim makes the system call of x86-64'),
              pytest.mark.skipif(os.geteuid() != 0, reason='needs root: events of all kinds')]

SAMPLE_TYPE, READ_FORMAT, BITS = 24, 32, 40

UEVENT = '/sys/devices/system/cpu/cpu1/uevent'
SET_OUTPUT = 0x2405  # PERF_EVENT_IOC_SET_OUTPUT

# Bits that go: what -v says.
DROPPED = {
    'read_format lost': (READ_FORMAT, 1 << 4, '', 'counts of lost records (Linux 6.0)'),
    'weight_struct': (SAMPLE_TYPE, 1 << 24, '-W', 'weights in parts (5.12)'),
    'bpf_event': (BITS, 1 << 30, '', 'records of BPF programs (5.1)'),
    'ksymbol': (BITS, 1 << 29, '', 'records of kernel symbols (5.1)'),
    'mmap2': (BITS, 1 << 23, '', 'MMAP2 and COMM_EXEC (3.16)'),
    'comm_exec': (BITS, 1 << 24, '', 'MMAP2 and COMM_EXEC (3.16)'),
    'exclude_guest': (BITS, 1 << 20, '', 'exclude_guest and exclude_host (3.2)'),
    'exclude_host': (BITS, 1 << 19, ':G', 'exclude_guest and exclude_host (3.2)'),
    'sample_id_all': (BITS, 1 << 18, '', 'sample_id_all (2.6.38)'),
}

# Bits that an option asked for: what the error says.
REFUSED = {
    'code_page_size': (SAMPLE_TYPE, 1 << 23, '--code-page-size'),
    'data_page_size': (SAMPLE_TYPE, 1 << 22, '--data-page-size'),
    'sample cgroup': (SAMPLE_TYPE, 1 << 21, '--all-cgroups'),
    'phys_addr': (SAMPLE_TYPE, 1 << 19, '--phys-data'),
    'regs_intr': (SAMPLE_TYPE, 1 << 18, '-I'),
    'transaction': (SAMPLE_TYPE, 1 << 17, '--transaction'),
    'regs_user': (SAMPLE_TYPE, 1 << 12, '--user-regs'),
    'build_id': (BITS, 1 << 34, '--buildid-mmap'),
    'cgroup': (BITS, 1 << 32, '--all-cgroups'),
    'namespaces': (BITS, 1 << 28, '--namespaces'),
    'context_switch': (BITS, 1 << 26, '--switch-events'),
    'use_clockid': (BITS, 1 << 25, '-k raw'),
    'exclude_callchain_kernel': (BITS, 1 << 21, '-g --user-callchains'),
    'exclude_callchain_user': (BITS, 1 << 22, '-g --kernel-callchains'),
}

REFUSED_FIELDS = {
    'write_backward': (BITS, 1 << 27, '--overwrite', 'leave out overwrite'),
    'identifier': (SAMPLE_TYPE, 1 << 16, '--sample-identifier', 'record one kind of event at a time'),
    'stack_user': (SAMPLE_TYPE, 1 << 13, '--call-graph dwarf', 'use --call-graph fp'),
    'read': (SAMPLE_TYPE, 1 << 4, ':S', 'of inherited events: add -i'),
}

# What every kernel has, or hardware may lack: nothing can be left out, the error is the kernel's.
ALWAYS = {
    'disabled': (BITS, 1 << 0, ''),
    'inherit': (BITS, 1 << 1, ''),
    'pinned': (BITS, 1 << 2, ':D'),
    'exclusive': (BITS, 1 << 3, ':e'),
    'exclude_user': (BITS, 1 << 4, ':k'),
    'exclude_kernel': (BITS, 1 << 5, ':u'),
    'exclude_hv': (BITS, 1 << 6, ':u'),
    'exclude_idle': (BITS, 1 << 7, ':I'),
    'mmap': (BITS, 1 << 8, ''),
    'comm': (BITS, 1 << 9, ''),
    'freq': (BITS, 1 << 10, ''),
    'inherit_stat': (BITS, 1 << 11, '-s'),
    'enable_on_exec': (BITS, 1 << 12, ''),
    'task': (BITS, 1 << 13, ''),
    'precise_ip 1': (BITS, 1 << 15, ':p'),
    'precise_ip 2': (BITS, 1 << 16, ':pp'),
    'mmap_data': (BITS, 1 << 17, '-d'),
    'ip': (SAMPLE_TYPE, 1 << 0, ''),
    'tid': (SAMPLE_TYPE, 1 << 1, ''),
    'time': (SAMPLE_TYPE, 1 << 2, ''),
    'addr': (SAMPLE_TYPE, 1 << 3, '-d'),
    'callchain': (SAMPLE_TYPE, 1 << 5, '-g'),
    'cpu': (SAMPLE_TYPE, 1 << 7, '--sample-cpu'),
    'period': (SAMPLE_TYPE, 1 << 8, ''),
    'raw': (SAMPLE_TYPE, 1 << 10, '-R'),
    'branch_stack': (SAMPLE_TYPE, 1 << 11, '-b'),
    'data_src': (SAMPLE_TYPE, 1 << 15, '-d'),
    'read_format id': (READ_FORMAT, 1 << 2, ''),
}

# No recording here has them: another bit stands for it, or there is no option.
UNUSED = {
    'watermark': (BITS, 1 << 14),
    'aux_output': (BITS, 1 << 31),
    'text_poke': (BITS, 1 << 33),
    'inherit_thread': (BITS, 1 << 35),
    'remove_on_exec': (BITS, 1 << 36),
    'sigtrap': (BITS, 1 << 37),
    'id': (SAMPLE_TYPE, 1 << 6),
    'stream_id': (SAMPLE_TYPE, 1 << 9),
    'weight': (SAMPLE_TYPE, 1 << 14),
    'aux': (SAMPLE_TYPE, 1 << 20),
}


def no_sanitizer():
    if sanitized():
        pytest.skip('the sanitizer must be loaded first')


@pytest.fixture(name='old_kernel')
def fixture_old_kernel(programs, run, tmp_path):
    no_sanitizer()

    def record(offset, mask, options, flags=0, status=0):
        env = {**os.environ, 'LD_PRELOAD': str(programs / 'refuse.so'), 'REFUSE_BYTE': str(offset),
               'REFUSE_MASK': str(mask), 'REFUSE_FLAGS': str(flags)}
        modifiers = options if options.startswith(':') else ''
        return run([MILLRACE, 'record', '-v', '-o', tmp_path / 'x.data', '-e', f'cpu-clock{modifiers}',
                    *([] if modifiers else options.split()), '--', 'true'], env=env, status=status)
    return record


@pytest.mark.parametrize('name', DROPPED)
def test_what_can_be_left_out_is(name, old_kernel, run, tmp_path):
    offset, mask, options, word = DROPPED[name]
    done = old_kernel(offset, mask, options)
    assert f'this kernel lacks {word}: recording without' in done.err
    run([MILLRACE, 'report', '-i', tmp_path / 'x.data'])


def test_losses_that_are_not_counted_may_be_any(old_kernel):
    offset, mask, *_ = DROPPED['read_format lost']
    said = '--fail-on-loss: this kernel does not count what it drops'
    assert said in old_kernel(offset, mask, '--fail-on-loss', status=3).err
    assert said in old_kernel(offset, mask, '--fail-on-loss=99', status=3).err
    assert said not in old_kernel(offset, mask, '--fail-on-loss=100').err
    assert said not in old_kernel(offset, mask, '').err
    assert said not in old_kernel(0, 0, '--fail-on-loss').err


def test_cloexec_is_left_out(old_kernel):
    assert 'this kernel lacks PERF_FLAG_FD_CLOEXEC (3.14): recording without' in old_kernel(0, 0, '', flags=8).err


@pytest.mark.parametrize('name', REFUSED)
def test_what_was_asked_for_is_refused_by_name(name, old_kernel):
    offset, mask, options = REFUSED[name]
    done = old_kernel(offset, mask, options, status=255)
    assert ': this kernel has no ' in done.err and options.split()[-1 if '-g' in options else 0] in done.err


def test_what_no_group_has_to_do_with(millrace, need_tracefs, tmp_path):
    """A clock that tracepoints cannot have, as it is not safe in an NMI."""
    group = '{cpu-clock,syscalls:sys_enter_getppid}'
    done = millrace('record', '-o', tmp_path / 'x.data', '-k', 'realtime', '-e', group, '--', 'true', status=255)
    assert 'event syscalls:sys_enter_getppid: this kernel has no choice of the clock' in done.err, done.err
    assert 'group' not in done.err


@pytest.mark.parametrize('name', REFUSED_FIELDS)
def test_what_to_use_is_said(name, old_kernel):
    offset, mask, options, word = REFUSED_FIELDS[name]
    done = old_kernel(offset, mask, options, status=255)
    assert ': this kernel ' in done.err and word in done.err


@pytest.mark.parametrize('name', ALWAYS)
def test_what_must_be_is_an_error(name, old_kernel):
    offset, mask, options = ALWAYS[name]
    assert 'the kernel refuses its settings' in old_kernel(offset, mask, options, status=255).err


def test_each_bit_has_its_turn():
    rows = [*DROPPED.values(), *REFUSED.values(), *REFUSED_FIELDS.values(), *ALWAYS.values(), *UNUSED.values()]
    bits = {offset: 0 for offset in (SAMPLE_TYPE, READ_FORMAT, BITS)}
    for offset, mask, *_ in rows:
        bits[offset] |= mask
    assert bits == {SAMPLE_TYPE: (1 << 25) - 1, READ_FORMAT: 1 << 4 | 1 << 2, BITS: (1 << 38) - 1}


@pytest.mark.parametrize('name', UNUSED)
def test_what_is_unused_may_be_missing(name, old_kernel):
    assert 'lacks' not in old_kernel(*UNUSED[name], '').err


def test_nothing_is_said_without_need(old_kernel):
    assert 'lacks' not in old_kernel(0, 0, '').err


@pytest.mark.parametrize('granted', [0, 1])
@pytest.mark.parametrize('where', [[], ['-a']], ids=['command', 'all CPUs'])
def test_events_that_cannot_share_an_overwritten_ring(run, programs, need_tracefs, tmp_path, where, granted):
    """Each has its own, wherever the kernel begins to refuse. Each call is in one file, and nothing is lost."""
    no_sanitizer()
    file, rounds, made = tmp_path / 'p.data', 3, 5000
    load = f'{programs}/syscalls -t 2 -n {made} >/dev/null & sleep 0.02; kill -USR2 $PPID; wait;'
    # Bytes for all calls: what is overwritten is neither captured nor lost.
    done = run(['env', f'LD_PRELOAD={programs}/refuse.so', f'REFUSE_IOCTL={SET_OUTPUT}', f'REFUSE_AFTER={granted}',
                MILLRACE, 'record', '--switch-output', *where, '-e', 'syscalls:sys_enter_getppid/overwrite/',
                '-e', 'syscalls:sys_exit_getppid/overwrite/', '-m', '8M', '-o', file, '--', 'sh', '-c', load * rounds])
    assert done.err.count('the kernel refuses to send several events to one overwritten ring') == 1, done.err
    calls, returns = [], []
    for part in sorted(tmp_path.glob('p.data.2*')):
        data = PerfData(part)
        for sample in data.samples():
            kind = calls if sample.id in data.attrs[0].ids else returns
            kind.append((sample.tid, struct.unpack_from('<Q', sample.raw, 8)[0], sample.time))
        loss = json.loads(run([MILLRACE, 'report', '--loss', '--json', '-i', part]).out)
        assert not loss['gaps'] and not loss['lost'] and not data.lost_samples()
    for kind in (calls, returns):
        assert len(set(kind)) == len(kind)
        if not where:  # there may be others, whose calls push ours out of the rings
            assert 2 * made * rounds <= len(kind) <= 2 * made * rounds + 1, done.err  # the shell's own


OFFLINE = {
    'all': '-a -e cpu-clock -F 500',
    'named ring size': '-a -e cpu-clock -F 500 -m 16',
    'filter': '-a -e sched:sched_switch --filter prev_pid!=0',
    'group': '-a -e {cpu-clock,faults} -F 500',
    'values': '-a -e {cpu-clock,faults}:S -F 500',
    'threads': '-a --threads -z --single-file -e cpu-clock -F 500',
    'overwrite': '-a --overwrite -e cpu-clock -F 500',
    'no side rings': '-a --side-channel=off -e cpu-clock,faults -F 500',
    'off-cpu': '-a --off-cpu -e cpu-clock -F 500',
    'other': '-C 0 -e cpu-clock -F 500',
}


@pytest.fixture(name='without_cpu_1')
def fixture_without_cpu_1(programs):
    """What runs a command so that CPU 1 seems to be offline; one at a time, as all recorders hear that it is online."""
    no_sanitizer()
    if os.sysconf('SC_NPROCESSORS_ONLN') < 2:
        pytest.skip('one CPU')
    with open(UEVENT, encoding='ascii') as uevent:
        fcntl.flock(uevent, fcntl.LOCK_EX)
        yield ['env', f'LD_PRELOAD={programs}/refuse.so', 'REFUSE_CPU=1']


@pytest.mark.parametrize('name', OFFLINE)
def test_a_cpu_that_goes_while_events_are_opened(name, run, perf, without_cpu_1, tmp_path):
    """It is left out, as one that goes later."""
    file, command = tmp_path / 'x.data', [MILLRACE, 'record', '-o', tmp_path / 'x.data']
    load = ['--', 'sh', '-c', 'taskset -c 0 sh -c "i=0; while [ \\$i -lt 100000 ]; do i=\\$((i+1)); done"']
    done = run([*without_cpu_1, *command, *OFFLINE[name].split(), *load])
    assert done.err.count('CPU 1 went offline while events were opened: it is not recorded before it comes back\n') == 1
    assert 'CPU 1' not in done.err.replace('CPU 1 went', ''), done.err
    assert done.err.splitlines()[-1].endswith('lost 0') or name == 'threads', done.err
    cpus = set(re.findall(r'\[(\d+)\]', perf('script', '-i', file, '-F', 'comm,cpu,event').out))
    assert cpus == {'000'}, done.err


@pytest.mark.parametrize('options', ['-a', '-a -m 64 -z --threads', '-a --side-channel=off', '-C 0'])
def test_a_cpu_that_comes_back_when_events_are_open(options, run, perf, programs, need_tracefs, without_cpu_1,
                                                    tmp_path):
    """The kernel tells that it is online when asked to (Documentation/ABI/testing/sysfs-uevent)."""
    if not os.access(UEVENT, os.W_OK):
        pytest.skip('/sys is read-only')
    file, said, away, made = tmp_path / 'x.data', tmp_path / 'said', tmp_path / 'away', 3000
    away.touch()
    script = f"""taskset -c 1 {programs}/syscalls -t 1 -n {made} >{tmp_path}/tids; rm {away}; echo online >{UEVENT}
        while ! grep -q 'came online again' {said}; do sleep 0.05; done
        taskset -c 1 {programs}/syscalls -t 1 -n {made} >>{tmp_path}/tids"""
    done = run([*without_cpu_1, f'REFUSE_CPU_WHILE={away}', 'sh', '-c',
                f'exec 2>{said}; exec "$@"', 'sh', MILLRACE, 'record', *options.split(), '-e',
                'syscalls:sys_enter_getppid', '-o', file, '--', 'sh', '-c', script])
    err = said.read_text()
    assert 'CPU 1 went offline while events were opened: it is not recorded before it comes back\n' in err, done.err
    assert 'CPU 1 came online again: it is recorded from now on' in err and 'lost 0\n' in err, err
    calls = perf('script', '-i', file, '-F', 'comm,tid,cpu').out
    found = re.findall(r'^ *(?:syscalls|:-?\d+) +(\d+) +\[001\]', calls, re.M)
    before, tid = (line.split()[0] for line in (tmp_path / 'tids').read_text().splitlines())
    found = [caller for caller in found if caller in (before, tid)]  # other tests run that program, too
    assert found == ([] if options == '-C 0' else [tid] * made), err
    tasks = perf('script', '-i', file, '-F', 'comm,tid,cpu', '--show-task-events').out
    assert re.search(rf'PERF_RECORD_FORK.*:{tid}\)', tasks), tasks[-2000:]


@pytest.mark.parametrize('where', [['-C', '0,1'], ['-a', '-C', '1']])
def test_a_named_cpu_must_be_online(where, run, without_cpu_1, tmp_path):
    done = run([*without_cpu_1, MILLRACE, 'record', *where, '-o',
                tmp_path / 'x.data', '-e', 'cpu-clock', '--', 'true'], status=255)
    assert done.err == 'millrace: event cpu-clock: CPU 1 is offline, or its PMU is gone\n'
