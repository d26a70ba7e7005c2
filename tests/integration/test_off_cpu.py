# SPDX-License-Identifier: MIT
"""`record --off-cpu`: how long each task was off the CPU and why, beside what the kernel's own accounting says."""
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import statistics
import struct
import sys
import tempfile
import time
from collections import defaultdict

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import perf_file  # noqa: E402
from conftest import wait_until  # noqa: E402
from off_cpu import (BEGAN_EARLIER, NO_STATE, GOES_ON, INTERRUPT, NO_WAKE_UP, SOFTWARE, STARTING,  # noqa: E402
                     SUM, UNKNOWN, Switches, between, by_tid, made_fork, made_ledger, made_recording, made_sample,
                     made_sum, made_wait, waits_of)
from perfdata import SAMPLE, PerfData  # noqa: E402

USAGE = 129
WAIT_NS = 30000  # what recording adds to one time: it takes the sample, and switches events
SAME_NS = 100000  # between two samples of one tracepoint, where the one copies a call chain
PREEMPTED, SLEEPING = 0, 1
CPU_CLOCK = 0

pytestmark = pytest.mark.usefixtures('need_tracefs')


def stolen_ns():
    """What a hypervisor took from all CPUs so far: neither the CPU clock of a thread nor a switch has it."""
    return int(pathlib.Path('/proc/stat').read_text().split()[8]) * 10 ** 9 // os.sysconf('SC_CLK_TCK')


@pytest.fixture(autouse=True)
def stolen_before():
    Thread.stolen_before_ns = stolen_ns()


class Thread:
    """What a thread of tests/programs/waits.c says of itself."""
    stolen_before_ns = 0  # when the test began

    def __init__(self, line):
        tid, self.kind, *numbers = line.split()
        self.tid = int(tid)
        self.wall_ns, self.cpu_ns, self.ready_ns, self.from_ns, self.to_ns, self.nr_switches = map(int, numbers)


def threads_of(text):
    return [Thread(line) for line in text.splitlines() if re.fullmatch(r'\d+ \w+( \d+){6}', line)]


@pytest.fixture
def record(millrace, programs, tmp_path):
    """record(kind, nr, *options) -> threads, waits by tid: of our program, in one file."""
    def start(kind, nr, *options, milliseconds=300, more=(), **keywords):
        path = tmp_path / 'perf.data'
        done = millrace('record', '-e', 'dummy', '--off-cpu', *MONOTONIC, '-o', path, *options,
                        '--', programs / 'waits', kind, nr, milliseconds, *more, **keywords)
        return threads_of(done.out), by_tid(waits_of(path))
    return start


def near(value, expected, nr_waits, share=0.03):
    return abs(value - expected) <= max(share * expected, 100000) + nr_waits * WAIT_NS


MONOTONIC = ['-k', 'CLOCK_MONOTONIC']  # that of the threads


def time_off(thread, waits):
    """That they were off the CPU while they looked at their clocks; sums are of any time."""
    return sum(wait.ns if wait.flags & SUM else
               max(0, min(wait.end_ns, thread.to_ns) - max(wait.left_ns, thread.from_ns)) for wait in waits)


def is_rest(off, thread, nr_waits):
    """Is that the time of a thread, but for what it was on the CPU and what the CPU was stolen?"""
    rest = thread.wall_ns - thread.cpu_ns
    stolen = min(max(rest - off, 0), stolen_ns() - thread.stolen_before_ns)
    return near(off + stolen, rest, nr_waits)


def check_times(thread, waits):
    """On and off the CPU are all of a thread's time, by its clocks."""
    waits = [wait for wait in waits if not wait.flags & STARTING]
    off, nr = time_off(thread, waits), sum(wait.times for wait in waits)
    assert not any(wait.flags & (UNKNOWN | BEGAN_EARLIER | GOES_ON) for wait in waits)
    assert is_rest(off, thread, nr), (thread.kind, thread.wall_ns, thread.cpu_ns, off, nr)
    assert all(wait.ready_ns <= wait.ns and (wait.nr_frames or wait.flags & SUM) for wait in waits)


KINDS = [('sleep', 3), ('futex', 3), ('pipe', 2), ('spin', 4), ('lock', 3)]


@pytest.mark.parametrize('kind, nr', KINDS)
def test_who_ended_a_wait(record, kind, nr):
    threads, waits = record(kind, nr)
    assert len(threads) == nr
    for thread in threads:
        check_times(thread, waits[thread.tid])
    mine = [wait for thread in threads for wait in waits[thread.tid] if not wait.flags & (STARTING | SUM)]
    assert {wait.state for wait in mine} <= {PREEMPTED, SLEEPING, 2}
    if kind == 'sleep':  # a timer woke it, which no task is to be blamed for
        slept = [wait for wait in mine if wait.ns > 10e6 and wait.state == SLEEPING]
        assert len(slept) > 40 and all(wait.waker == (0, 0) for wait in slept)
        # Of a wake-up on an idle CPU there may be no event (Linux 6.18): then nothing is said of it.
        assert all(bool(wait.flags & INTERRUPT) != bool(wait.flags & NO_WAKE_UP) for wait in slept)
    if kind == 'pipe':
        tids = {thread.tid for thread in threads}
        wakers = [wait.waker[1] for wait in mine if wait.state == SLEEPING and not wait.flags & INTERRUPT]
        assert len(wakers) > 100 and set(wakers) <= tids | {wait.waker[0] for wait in mine}
    if kind == 'spin':
        assert sum(wait.ns for wait in mine if wait.state == PREEMPTED) > 0.9 * sum(wait.ns for wait in mine)
    assert any(wait.flags & STARTING for thread in threads for wait in waits[thread.tid])


def check_switches(switches, tid, waits, has_all_wake_ups):
    """
    Each time off the CPU, beside what other events of the same recording tell of the same switches. They are taken in
    one place of the kernel, one after the other and with interrupts off, so that times which must be the same are so
    but for the copying of records, and no load of the machine changes that.
    """
    outs, ins = switches.outs[tid], switches.ins[tid]
    # A thread that has ended may be preempted once more: these records have no number of it any more.
    waits = sorted((wait for wait in waits if not wait.flags & STARTING and wait.left_ns < outs[-1]),
                   key=lambda wait: wait.end_ns)
    ins = [time for time in ins if time > outs[0]]
    assert len(waits) == len(ins) and all(out < back for out, back in zip(outs, ins))
    apart = {'left': [], 'came': [], 'woken': []}
    for wait, before, out, back in zip(waits, [0] + ins, outs, ins):
        (left,) = between(switches.left[tid], before, out)
        came = between(switches.came[tid], out, back)
        followed = between(switches.followed[tid], out, back)
        assert before <= wait.left_ns <= out
        assert out <= wait.end_ns < back if came else wait.end_ns == (followed or [back])[-1]
        apart['left'].append(abs(wait.left_ns - left))
        if came:
            apart['came'].append(abs(wait.end_ns - came[-1]))
        if wait.state == PREEMPTED:
            assert wait.ready_ns == wait.ns
        elif has_all_wake_ups and not wait.flags & NO_WAKE_UP:
            woken = between(switches.woken[tid], before, back)
            apart['woken'].append(min(abs(wait.end_ns - wait.ready_ns - max(time, wait.left_ns)) for time in woken))
        elif has_all_wake_ups:
            assert not between(switches.woken[tid], out, wait.end_ns)
    assert apart['left'] and all(not some or statistics.median(some) < SAME_NS for some in apart.values()), apart


@pytest.mark.parametrize('options', [['-a'], []], ids=['all', 'named'])
@pytest.mark.parametrize('kind, nr', KINDS + [('read', 1)])
def test_times_are_exact(record, tmp_path, kind, nr, options):
    """Every wait of every thread begins and ends with the switches, and is runnable from its sched_waking on."""
    with tempfile.NamedTemporaryFile(dir='/var/tmp') as file:
        file.write(os.urandom(1 << 20))
        file.flush()
        threads, waits = record(kind, nr, '--off-cpu=0', '--switch-events', '-e', 'sched:sched_switch',
                                '-e', 'sched:sched_waking', *options, more=[file.name], status=None)
    if kind == 'read' and not threads:
        pytest.skip('no O_DIRECT in /var/tmp')
    switches = Switches(tmp_path / 'perf.data')
    assert len(threads) == nr
    for thread in threads:
        if not thread.nr_switches and kind in ('pipe', 'spin'):  # it began too late to be off the CPU at all
            continue
        check_switches(switches, thread.tid, waits[thread.tid], has_all_wake_ups=bool(options))


def test_page_faults_from_a_slow_file_system(record, fuse_fs):
    """Each page takes 5 ms, which is a wait of its own."""
    directory = fuse_fs(50 * 4096, 0.005, program='slow_fs.py')
    (thread,), waits = record('fault', 1, '-a', milliseconds=5000, more=[directory / 'file'])
    check_times(thread, waits[thread.tid])
    assert sum(wait.ns >= 5000000 and wait.state != PREEMPTED for wait in waits[thread.tid]) >= 50


def test_one_thread_of_a_process(recorder, spawn, programs, tmp_path):
    """-t: its waits, from the first to the last moment, and those of no other thread."""
    path = tmp_path / 'perf.data'
    process = spawn([programs / 'waits', 'sleep', '3', '10000'], stdout=-1)
    tasks = pathlib.Path(f'/proc/{process.pid}/task')
    while len(tids := sorted(map(int, os.listdir(tasks)))) < 4:
        time.sleep(0.01)
    started = time.monotonic_ns()
    recording = recorder(['-e', 'dummy', '--off-cpu', '-o', path, '-t', tids[2]])
    time.sleep(0.5)
    recording.send_signal(signal.SIGINT)
    recording.wait()
    elapsed = time.monotonic_ns() - started
    waits = waits_of(path)
    assert {wait.tid for wait in waits} == {tids[2]} and not any(wait.flags & UNKNOWN for wait in waits)
    assert 0.4e9 <= sum(wait.ns for wait in waits) <= elapsed


def test_a_command_beside_a_process(millrace, spawn, programs, tmp_path):
    """It says how long the recording lasts, and is none of its tasks, although these leave the CPU to it."""
    path, waits = tmp_path / 'perf.data', ['taskset', '-c', '0', programs / 'waits', 'spin', '1']
    process = spawn([*waits, '10000'], stdout=-1)
    while len(os.listdir(f'/proc/{process.pid}/task')) < 2:
        time.sleep(0.01)
    millrace('record', '-e', 'dummy', '--off-cpu', '-o', path, '-p', process.pid, '--', *waits, '300')
    assert {wait.pid for wait in waits_of(path)} == {process.pid}


MODES = {
    'all': ['-a'], 'fp': ['-g'], 'dwarf': ['--call-graph', 'dwarf,4096'], 'unwind': ['--call-graph', 'unwind'],
    'per-thread': ['--per-thread'], 'with-cpu': ['-F', '999', '-e', 'cpu-clock'], 'wakers': ['--off-cpu-wakers'],
    'switch-events': ['--switch-events'], 'all-switch-events': ['-a', '--switch-events'],
    'no-side': ['--no-side-channel'],
}


@pytest.mark.parametrize('mode', MODES)
def test_modes(record, mode):
    """The same times whatever else is recorded, and every sample with its chain."""
    threads, waits = record('sleep', 1, *MODES[mode]) if mode == 'per-thread' else record('futex', 2, *MODES[mode])
    if mode == 'per-thread':  # of the first thread only
        return
    for thread in threads:
        check_times(thread, waits[thread.tid])


def test_short_times_are_added_up(record):
    """MIN_TIME changes what is written, not the sums."""
    threads, waits = record('pipe', 2, '--off-cpu=1ms')
    for thread in threads:
        mine = [wait for wait in waits[thread.tid] if not wait.flags & STARTING]
        assert all(wait.ns >= 1000000 for wait in mine if not wait.flags & SUM)
        sums = [wait for wait in mine if wait.flags & SUM]
        assert sums and sum(wait.times for wait in sums) > 100
        check_times(thread, mine)


def test_still_waiting_at_the_end(recorder, spawn, programs, tmp_path):
    """Tasks that were there before, and sleep before and after: all of the time of the recording."""
    path = tmp_path / 'perf.data'
    process = spawn(['sleep', '60'])
    started = time.monotonic_ns()
    recording = recorder(['-e', 'dummy', '--off-cpu', '-o', path, '-p', process.pid])
    time.sleep(0.5)
    recording.send_signal(signal.SIGINT)
    recording.wait()
    elapsed = time.monotonic_ns() - started
    (wait,) = waits_of(path)
    assert wait.tid == process.pid and wait.flags & (GOES_ON | BEGAN_EARLIER) == GOES_ON | BEGAN_EARLIER
    assert wait.state == 1 and not wait.flags & NO_STATE  # TASK_INTERRUPTIBLE
    assert 0.5e9 <= wait.ns <= elapsed


def test_killed_while_blocked(record, millrace, tmp_path):
    path = tmp_path / 'perf.data'
    millrace('record', '-e', 'dummy', '--off-cpu', '-o', path,
             '--', 'sh', '-c', 'sleep 60 & sleep 0.3; kill -9 $!; wait')
    longest = [max(waits, key=lambda wait: wait.ns) for waits in by_tid(waits_of(path)).values()]
    assert sum(0.25e9 < wait.ns < 5e9 and wait.state == SLEEPING for wait in longest) >= 2
    assert not any(wait.flags & (UNKNOWN | GOES_ON) for wait in longest)


# Of two threads the first one ends first: by the end of the other the process ends. 60, 93: exit(2) of x86-64, arm64.
TWO_ENDS = """
import ctypes, os, threading, time
def end():
    time.sleep(0.05)
    print(os.getpid(), threading.get_native_id(), os.getppid(), flush=True)
threading.Thread(target=end).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)
"""


def test_woken_by_the_end_of_a_thread(millrace, tmp_path):
    """It has no number any more when it wakes who waits for its process."""
    path, program = tmp_path / 'perf.data', tmp_path / 'ends.py'
    program.write_text(TWO_ENDS)
    done = millrace('record', '-e', 'dummy', '--off-cpu', '-o', path,
                    '--', 'sh', '-c', f'{sys.executable} {program}; true')
    pid, tid, shell = map(int, done.out.split())
    longest = max(by_tid(waits_of(path))[shell], key=lambda wait: wait.ns)
    assert tid != pid and longest.waker == (pid, tid)


def test_no_wait_after_the_end_of_a_process(millrace, tmp_path):
    path = tmp_path / 'perf.data'
    done = millrace('record', '-a', '-e', 'dummy', '--off-cpu=0', '-o', path,
                    '--', 'sh', '-c', 'for i in 1 2 3 4 5; do sh -c "echo \\$\\$"; done; sleep 0.3')
    waits, tids = by_tid(waits_of(path)), [int(line) for line in done.out.split() if line.isdigit()]
    assert len(tids) == 5 and all(waits[tid] for tid in tids)
    assert not [wait for tid in tids for wait in waits[tid] if wait.flags & (GOES_ON | UNKNOWN) == GOES_ON]


@pytest.mark.skipif(os.sysconf('SC_NPROCESSORS_ONLN') < 2, reason='needs two CPUs')
@pytest.mark.parametrize('who', [[], ['-p', str(os.getpid())]], ids=['all', 'process'])
def test_needs_all_cpus(millrace, tmp_path, who):
    online = pathlib.Path('/sys/devices/system/cpu/online').read_text().strip()
    options = ['-e', 'dummy', '--off-cpu', '-o', tmp_path / 'perf.data', *who]
    done = millrace('record', '-C', re.split('[-,]', online)[0], *options, '--', 'true', status=USAGE)
    assert '--off-cpu needs the switches of all CPUs' in done.err and 'leave out -C' in done.err
    assert not (tmp_path / 'perf.data').exists()
    millrace('record', '-C', online, *options, '--', 'true')


@pytest.mark.parametrize('of_all', [[], ['-a']], ids=['command', 'all'])
def test_in_a_process_namespace(run, program, programs, tmp_path, of_all):
    """The numbers of tasks in payloads of tracepoints are others: nothing is made of them."""
    path = tmp_path / 'perf.data'
    within = ['unshare', '-p', '-f', '--mount-proc', program, 'record', '-e', 'dummy']
    done = run([*within, '--off-cpu', *MONOTONIC, '-o', path, *of_all, '--', programs / 'waits', 'pipe', 2, 300])
    assert done.err.count('in a process namespace it is not known who woke a task') == 1
    waits = by_tid(waits_of(path))
    for thread in threads_of(done.out):
        check_times(thread, waits[thread.tid])
        assert not any(wait.waker[1] or wait.flags & INTERRUPT for wait in waits[thread.tid] if not wait.flags & SUM)
        assert any(wait.state == SLEEPING for wait in waits[thread.tid])
    done = run([*within, '--off-cpu', '--off-cpu-wakers', '-o', path, '--', 'true'], status=None)
    assert done.status and '--off-cpu-wakers: in a process namespace' in done.err


def test_end_is_before_the_events_are_disabled(recorder, spawn, programs, tmp_path):
    """From then on no record would tell that a task ran."""
    path, time_path = tmp_path / 'perf.data', tmp_path / 'time'
    process = spawn(['sleep', '60'])
    env = {**os.environ, 'LD_PRELOAD': str(programs / 'disable_time.so'), 'DISABLE_TIME': str(time_path)}
    recording = recorder(['-e', 'dummy', '--off-cpu', *MONOTONIC, '-o', path, '-p', process.pid], env=env)
    recording.send_signal(signal.SIGINT)
    recording.wait()
    (wait,) = waits_of(path)
    assert wait.flags & GOES_ON and wait.end_ns <= int(time_path.read_text())


@pytest.mark.parametrize('options', [[], ['--threads'], ['--threads', '--single-file']],
                         ids=['file', 'directory', 'single-file'])
def test_switch_of_the_output(recorder, millrace, spawn, programs, tmp_path, options):
    """What was before the request is in the former output, and what goes on from one to the next is known."""
    path, plain = tmp_path / 'perf.data', tmp_path / 'plain'
    process = spawn([programs / 'waits', 'futex', '2', '60000'], stdout=-3)
    wait_until(lambda: len(os.listdir(f'/proc/{process.pid}/task')) == 3, 'the threads')
    recording = recorder(['-e', 'dummy', '--off-cpu=0', *MONOTONIC, '--switch-output', *options, '-o', path,
                          '-p', process.pid])
    requests = []
    for nr in (1, 2, 3):
        time.sleep(0.2)
        requests.append(time.monotonic_ns())
        recording.send_signal(signal.SIGUSR2)
        wait_until(lambda: len(list(tmp_path.glob('perf.data.*[0-9]'))) == nr, 'an output')
    recording.send_signal(signal.SIGINT)
    recording.wait()
    waits = []
    for output in sorted(tmp_path.glob('perf.data.*')):
        millrace('merge', '-f', '-o', plain, output)
        waits.append(waits_of(plain))
    assert len(waits) == 4 and all(waits) and not any(wait.flags & UNKNOWN for of in waits for wait in of)
    for requested_ns, later in zip(requests, waits[1:]):
        assert all(wait.end_ns >= requested_ns for wait in later)


def test_lost_records_make_no_waits(millrace, programs, tmp_path):
    """Rings that are too small: nothing is invented. What is known and what is not are all of the time."""
    path = tmp_path / 'perf.data'
    done = millrace('record', '-e', 'dummy', '--off-cpu', '-m', '1', '--no-side-channel', '-o', path,
                    '--buffer-memory=16M', '--call-graph', 'dwarf,32768', '--', programs / 'waits', 'pipe', 2, 500)
    data = PerfData(path)
    waits = by_tid(waits_of(path))
    assert data.lost_samples() and '"lost": 0' not in millrace('report', '--loss', '--json', '-i', path).out
    unknown = [wait for found in waits.values() for wait in found if wait.flags & UNKNOWN]
    assert unknown and all(wait.period == 0 for wait in unknown)
    for thread in threads_of(done.out):
        mine = [wait for wait in waits[thread.tid] if not wait.flags & STARTING]
        known = sum(wait.ns for wait in mine if not wait.flags & UNKNOWN)
        everything = sum(wait.ns for wait in mine)
        off = thread.wall_ns - thread.cpu_ns
        assert known <= off + len(mine) * WAIT_NS + 0.01 * off
        assert everything >= 0.97 * off - len(mine) * WAIT_NS and everything <= 1.02 * thread.wall_ns


def test_perf_reads_it(perf, record, millrace, tmp_path):
    """perf's sums are ours, with time as period, by thread and by caller."""
    threads, waits = record('sleep', 2)
    path = tmp_path / 'perf.data'
    text = perf('report', '-i', path, '--stdio', '--no-children', '-g', 'none', '-F', 'sample,period,pid').out
    for thread in threads:
        (row,) = re.findall(rf'^\s*(\d+)\s+(\d+)\s+{thread.tid}:', text, re.M)
        mine = waits[thread.tid]
        assert (int(row[0]), int(row[1])) == (len(mine), sum(wait.period for wait in mine))
    assert 'clock_nanosleep' in perf('report', '-i', path, '--stdio', '--children', '-g', 'none', '-s', 'sym').out
    assert ' offcpu-time: ' in perf('script', '-i', path).out


def test_timehist_agrees(perf, record, programs, spawn, tmp_path):
    """The switches themselves beside it: what perf sched makes of them are the same times."""
    # No CPU is idle: of one that is, Linux 6.18 leaves out switches, and perf then has no times of a thread at all.
    spawn([programs / 'spin', '-t', os.cpu_count(), '-m', '60000'], stdout=-3)
    threads, waits = record('sleep', 2, '-a', '-e', 'sched:sched_switch', '-e', 'sched:sched_waking')
    text = perf('sched', 'timehist', '--state', '-i', tmp_path / 'perf.data').out
    for thread in threads:
        rows = re.findall(rf'^\s*\d+\.\d+ \[\d+\]\s+\S*\[{thread.tid}(?:/\d+)?\]\s+([\d.]+)\s+([\d.]+)',
                          text, re.M)
        mine = [wait for wait in waits[thread.tid] if not wait.flags & STARTING]
        assert len(rows) > 20
        # Of the first one perf does not know when it began; and Linux 6.18 leaves out some switches of idle CPUs
        pairs = list(zip(rows[1:], mine))
        equal = sum(abs(float(off) - wait.ns / 1e6) < 0.02 and abs(float(ready) - wait.ready_ns / 1e6) < 0.05
                    for (off, ready), wait in pairs)
        assert equal >= 8, pairs


@pytest.fixture
def ordinary(program, programs):
    """A user without rights, and a directory of theirs with our programs in it."""
    user = pwd.getpwuid(65534)
    # Not below pytest's own directory, which each pytest that starts closes to other users.
    with tempfile.TemporaryDirectory(prefix='ordinary-') as name:
        directory = pathlib.Path(name)
        for each in (programs / 'waits', program):
            shutil.copy(each, directory)
        os.chown(directory, user.pw_uid, user.pw_gid)
        yield directory, {'user': user.pw_uid, 'group': user.pw_gid, 'extra_groups': []}


@pytest.mark.parametrize('paranoid', [1, 2])
def test_ordinary_user(program, ordinary, paranoid, spawn, steady_sysctl):
    """Own processes: times, and whether it waited or was preempted; call chains where the kernel may be sampled."""
    sysctl = pathlib.Path('/proc/sys/kernel/perf_event_paranoid')
    if int(sysctl.read_text()) != paranoid:
        pytest.skip(f'kernel.perf_event_paranoid is {sysctl.read_text().strip()}')
    directory, who = ordinary
    process = spawn([directory / program.name, 'record', '-e', 'dummy', '--off-cpu', '-o', directory / 'perf.data',
                     '--', directory / 'waits', 'sleep', 2, 900], cwd=directory, stdout=-1, stderr=-1, text=True, **who)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    waits = by_tid(waits_of(directory / 'perf.data'))
    threads = threads_of(out)
    assert len(threads) == 2 and ('without call chains' in err) == (paranoid == 2)
    assert ('without task states and wake-ups' in err) == (paranoid == 1)
    for thread in threads:
        mine = [wait for wait in waits[thread.tid] if not wait.flags & STARTING]
        off = sum(wait.ns for wait in mine)
        assert is_rest(off, thread, len(mine))
        blocked = [wait for wait in mine if wait.flags & NO_STATE]
        assert len(blocked) >= 20 and all(wait.flags & NO_WAKE_UP for wait in blocked)
        assert all(bool(wait.nr_frames) == (paranoid == 1) for wait in mine if not wait.flags & SUM)


def test_without_tracefs(program, run, tmp_path):
    """As in a container: what is missing then, and what would help, is told. Root is no help."""
    def record(*options, status=0):
        words = [program, 'record', '-e', 'dummy', '--off-cpu', *options, '-o', tmp_path / 'perf.data', '--', 'sleep',
                 '0.01']
        return run(['unshare', '-m', 'sh', '-c', 'umount -l /sys && exec "$@"', 'sh', *words], status=status).err

    (note,) = [line for line in record().splitlines() if '--off-cpu' in line]
    assert 'without task states and wake-ups' in note and 'is /sys mounted' in note
    assert waits_of(tmp_path / 'perf.data')
    refused = record('--off-cpu-wakers', status=255)
    assert 'sched_waking' in refused and 'is /sys mounted' in refused and 'run as root' not in refused


LEAVES_A_FULL_RING = """
import os, signal, time
first, second = sorted(os.sched_getaffinity(0))[:2]
start = before = time.monotonic_ns()
longest = 0
def nap(seconds):
    global before, longest
    time.sleep(seconds)
    now = time.monotonic_ns()
    longest, before = max(longest, now - before), now
os.sched_setaffinity(0, [first])
nap(0.001)
os.kill(os.getppid(), signal.SIGSTOP)
for _ in range(2500):
    nap(2e-5)
os.sched_setaffinity(0, [second])
nap(0.001)
nap(0.001)
os.kill(os.getppid(), signal.SIGCONT)
for _ in range(250):
    nap(0.005)
print(start, before, longest)
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason='needs two CPUs')
def test_lost_by_a_cpu_that_is_quiet_then(program, ordinary, spawn):
    """No record there tells of the loss, and the task runs elsewhere: it does not seem to wait until then."""
    directory, who = ordinary
    process = spawn([directory / program.name, 'record', '-e', 'dummy', '--off-cpu', '-m', '1', '-k', 'mono',
                     '-o', directory / 'perf.data', '--', '/usr/bin/python3', '-c', LEAVES_A_FULL_RING],
                    cwd=directory, stdout=-1, stderr=-1, text=True, **who)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and 'lost' in err, err
    start, end, longest = map(int, out.split())
    waits = [wait for wait in waits_of(directory / 'perf.data') if start <= wait.left_ns and wait.end_ns <= end]
    known = [wait for wait in waits if not wait.flags & UNKNOWN]
    assert len(known) < len(waits)
    assert all(wait.ns <= longest for wait in known)


ENDS_WHILE_RINGS_ARE_FULL = """
import os, signal, threading, time
def work():
    for _ in range(1000):
        time.sleep(2e-5)
os.kill(os.getppid(), signal.SIGSTOP)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
while len(os.listdir('/proc/self/task')) > 1:
    time.sleep(0.001)
print(time.monotonic_ns(), *(thread.native_id for thread in threads))
os.kill(os.getppid(), signal.SIGCONT)
time.sleep(0.3)
"""


TIMES_BEHIND_FULL_RINGS = """
import os, signal, threading, time
go = threading.Event()
def work(nr):
    go.wait()
    for _ in range(100):
        time.sleep(2e-5)
    from_ns, cpu_ns = time.monotonic_ns(), time.thread_time_ns()
    os.sched_setaffinity(0, [cpus[nr % len(cpus)]])
    for _ in range(500):
        time.sleep(1e-4)
    cpu_ns = time.thread_time_ns() - cpu_ns
    lines.append(f'{threading.get_native_id()} {from_ns} {time.monotonic_ns()} {cpu_ns}')
lines, cpus = [], sorted(os.sched_getaffinity(0))
threads = [threading.Thread(target=work, args=[nr]) for nr in range(4)]
for thread in threads:
    thread.start()
time.sleep(0.1)
os.kill(os.getppid(), signal.SIGSTOP)
go.set()
for thread in threads:
    thread.join()
while len(os.listdir('/proc/self/task')) > 1:
    time.sleep(0.001)
os.kill(os.getppid(), signal.SIGCONT)
time.sleep(0.3)
print(*lines, sep='\\n')
"""


@pytest.mark.parametrize('who', ['user', 'named', 'all'])
def test_lost_before_the_end_of_a_thread(program, ordinary, spawn, who):
    """That some of them ran again was lost: from their ends on there is no time of them that is not known."""
    directory, user = ordinary
    process = spawn([directory / program.name, 'record', '-e', 'dummy', '--off-cpu', '-m', '1', '-k', 'mono',
                     '-o', directory / 'perf.data', *(['-a'] if who == 'all' else []),
                     '--', '/usr/bin/python3', '-c', ENDS_WHILE_RINGS_ARE_FULL],
                    cwd=directory, stdout=-1, stderr=-1, text=True, **(user if who == 'user' else {}))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and 'lost' in err, err
    end, *tids = map(int, out.split())
    unknown = [wait for wait in waits_of(directory / 'perf.data') if wait.tid in tids and wait.flags & UNKNOWN]
    assert unknown and all(wait.end_ns <= end for wait in unknown)


@pytest.mark.parametrize('options', [[], ['--no-side-channel']], ids=['switches', 'exits-too'])
@pytest.mark.parametrize('who', ['user', 'named', 'all'])
def test_all_time_of_threads_that_end_behind_full_rings(program, ordinary, spawn, who, options):
    """Known or unknown, all that they were off the CPU is there, and no more is known than that."""
    directory, user = ordinary
    process = spawn([directory / program.name, 'record', '-e', 'dummy', '--off-cpu', '-m', '1', '-k', 'mono', *options,
                     '-o', directory / 'perf.data', *(['-a'] if who == 'all' else []),
                     '--', '/usr/bin/python3', '-c', TIMES_BEHIND_FULL_RINGS],
                    cwd=directory, stdout=-1, stderr=-1, text=True, **(user if who == 'user' else {}))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and 'lost' in err, err
    waits = by_tid(waits_of(directory / 'perf.data'))
    for tid, from_ns, to_ns, cpu_ns in (map(int, line.split()) for line in out.splitlines()):
        mine = [wait for wait in waits[tid] if wait.flags & (STARTING | UNKNOWN) != STARTING]
        known, unknown = (sum(max(0, min(wait.end_ns, to_ns) - max(wait.left_ns, from_ns)) for wait in mine
                              if bool(wait.flags & UNKNOWN) == lost) for lost in (False, True))
        off = to_ns - from_ns - cpu_ns
        nr = len(mine)
        assert known <= off + nr * WAIT_NS + 0.01 * off, (known, unknown, off)
        assert 0.97 * off - nr * WAIT_NS <= known + unknown <= 1.001 * (to_ns - from_ns), (known, unknown, off)


def check_direct_switches(path, tids):
    """How many there were from one thread to the other."""
    switches, waits, direct = Switches(path), by_tid(waits_of(path)), 0
    for tid, other in (tids, tids[::-1]):
        # The thread that starts both may be the one before, too.
        outs = {time for task, times in switches.outs.items() if task != tid for time in times}
        for wait in waits[tid]:
            if wait.end_ns in switches.ins[tid]:
                continue
            after = between(switches.ins[tid], wait.end_ns, wait.end_ns + 2000)
            assert wait.end_ns in outs and after, (wait, tids)
            direct += bool(after) and wait.end_ns in switches.outs[other]
    return direct


@pytest.mark.parametrize('options', [[], ['-z', '--threads'], ['--overwrite'], ['--switch-output=500K']])
def test_names_of_wakers_that_are_not_recorded(millrace, spawn, tmp_path, options):
    """Of a process that is no target: its name, and what its addresses are, once in each file."""
    path, cpu = tmp_path / 'perf.data', str(min(os.sched_getaffinity(0)))
    three_files = ['sh', '-c', f'until [ $(ls {path}* | wc -l) -ge 3 ]; do sleep 0.05; done']
    switches = options == ['--switch-output=500K']
    # On one CPU: of a wake-up on an idle one there may be no event.
    yes = spawn(['taskset', '-c', cpu, 'yes'], stdout=-1)
    cat = spawn(['taskset', '-c', cpu, 'cat'], stdin=yes.stdout, stdout=-3)
    wait_until(lambda: pathlib.Path(f'/proc/{cat.pid}/comm').read_text() == 'cat\n', 'the reader')
    wait_until(lambda: pathlib.Path(f'/proc/{yes.pid}/comm').read_text() == 'yes\n', 'the writer')
    millrace('record', '-e', 'dummy', '-g', '--off-cpu=0', '--off-cpu-wakers', *options, '-p', cat.pid, '-o', path,
             '--', *(three_files if switches else ['sleep', '0.3']))
    paths = sorted(tmp_path.glob('perf.data*'))
    for each in paths[:-1] if switches else paths:  # of the last one there may be no more than the header
        check_waker(millrace, each, yes.pid)


def check_waker(millrace, path, pid):
    events = json.loads(millrace('report', '-i', path, '--json', '-s', 'waker').out)['events']
    wakers = [row['waker'] for event in events for row in event['entries'] if str(row['waker']).endswith(f':{pid}')]
    assert wakers == [f'yes:{pid}']
    text = millrace('script', '-i', path, '-F', 'event,wait,ip,sym,dso').out
    chains = re.findall(rf'waker={pid}/{pid}\n(?:\t.*\n)*    woken in:\n((?:\t.*\n)+)', text)
    assert chains and all('libc.so.6' in chain for chain in chains)
    assert millrace('report', '-D', '-i', path).out.count(f'PERF_RECORD_COMM: yes:{pid}/') == 1


def test_direct_switches_of_an_ordinary_user(program, ordinary, spawn, steady_sysctl):
    """From one own task to another: a wait ends when the other leaves the CPU, not when the kernel is done with it."""
    directory, who = ordinary
    path, direct = directory / 'perf.data', 0
    for _ in range(10):  # beside other load they get little of the CPU, and others run between them
        process = spawn([directory / program.name, 'record', '-e', 'dummy', '--off-cpu=0', '--switch-events',
                         '-o', path, '--', 'taskset', '-c', '0', directory / 'waits', 'pipe', 2, 100],
                        cwd=directory, stdout=-1, stderr=-1, text=True, **who)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        direct += check_direct_switches(path, [thread.tid for thread in threads_of(out)])
        if direct > 100:
            return
    pytest.fail(f'{direct} direct switches')


def cpu_clock_times(path):
    """By tid: when each was sampled on a CPU."""
    data, times = PerfData(path), defaultdict(list)
    for record in data.records():
        if record.type == SAMPLE:
            attr = data.by_id[struct.unpack_from('<Q', record.body)[0]]
            if (attr.type, attr.config) == (SOFTWARE, CPU_CLOCK):
                sample = data.sample(record, attr)
                times[sample.tid].append(sample.time)
    return times


def check_columns_of_wall(millrace, path, tids):
    """What is on and off the CPU beside each row, of what it called as well; the parts are the whole."""
    text = millrace('report', '--stdio', '-i', path, '--wall', '-g', 'none', '-s', 'tid,symbol').out
    assert re.search(r'# Children +Self +on CPU +blocked +runnable +Pid:Command +Symbol', text)
    rows = re.findall(r'^ +([\d.]+)% +[\d.]+% +([\d.]+)% +([\d.]+)% +([\d.]+)% +(\d+):\S+ +\[\.\] (\S+)', text, re.M)
    for tid in tids:
        (row,) = [row for row in rows if int(row[4]) == tid and row[5] == 'start_thread']
        whole, on, blocked, runnable = map(float, row[:4])
        assert abs(on + blocked + runnable - whole) < 0.03 and blocked > 0
    text = millrace('report', '--stdio', '-i', path, '--wall', '-g', 'none', '-F', 'off_cpu,on_cpu,tid').out
    rows = [float(row) for row in re.findall(r'^ +([\d.]+)% +[\d.]+% +\d+:', text, re.M)]
    assert rows and rows == sorted(rows, reverse=True)


def time_in_rows(waits, samples_ns):
    """All of a thread's time from its fork on, but what it ran after the last of its samples on the CPU."""
    waits = sorted(waits, key=lambda wait: wait.end_ns)
    last = max(samples_ns, default=0)
    unsampled = sum(max(0, after.left_ns - max(before.end_ns, last)) for before, after in zip(waits, waits[1:]))
    return max(waits[-1].end_ns, last) - waits[0].left_ns - unsampled


def test_report_by_state_and_wall(record, millrace, tmp_path):
    """Each time counts in the part before and the part after the wake-up; and on and off the CPU are all of it."""
    threads, waits = record('lock', 3, '-e', 'cpu-clock', '-F', '999', '--off-cpu=0')
    path = tmp_path / 'perf.data'
    tids = {thread.tid for thread in threads}
    table = json.loads(millrace('report', '-i', path, '--json', '-s', 'tid,state').out)
    (event,) = [event for event in table['events'] if event['event'] == 'offcpu-time']
    rows = [row for row in event['entries'] if row['tid'] in tids]
    mine = [wait for tid in tids for wait in waits[tid]]
    ready = sum(wait.ready_ns for wait in mine)
    assert sum(row['period'] for row in rows) == sum(wait.period for wait in mine)
    assert sum(row['period'] for row in rows if row['state'] in ('runnable', 'preempted', 'starting')) == ready
    table = json.loads(millrace('report', '-i', path, '--json', '--wall', '-s', 'tid').out)
    (event,) = [event for event in table['events'] if event['entries']]
    samples = cpu_clock_times(path)
    for row in event['entries']:
        if row['tid'] not in tids:
            continue
        mine = waits[row['tid']]
        assert row['period'] == row['on_cpu'] + row['off_cpu_blocked'] + row['off_cpu_runnable']
        assert row['period'] == time_in_rows(mine, samples[row['tid']])
        assert row['off_cpu_runnable'] == sum(wait.ready_ns for wait in mine)
        assert row['off_cpu_blocked'] == sum(wait.ns - wait.ready_ns for wait in mine)
    assert tids <= {row['tid'] for row in event['entries']}
    check_columns_of_wall(millrace, path, tids)
    done = millrace('report', '-i', path, '-F', 'off_cpu,symbol', status=None)
    assert done.status and '--wall' in done.err and len(done.err.splitlines()) == 1
    done = millrace('report', '-i', path, '--wall', '--mem-mode', status=None)
    assert done.status and '--wall' in done.err
    millrace('record', '-e', 'cpu-clock', '-o', path, '--', 'true')
    done = millrace('report', '-i', path, '--wall', status=None)
    assert done.status and '--off-cpu' in done.err and len(done.err.splitlines()) == 1


def test_wall_time_through_a_pipe(millrace, tmp_path):
    """Its events come with its records."""
    path = tmp_path / 'perf.data'

    def record(*options):
        path.write_bytes(millrace('record', '-q', '-e', 'cpu-clock', *options, '-o', '-', '--', 'sleep', '0.1',
                                  binary=True).out)

    record('--off-cpu=0')
    waited = sum(wait.ns for wait in waits_of(path))
    for given in ({'path': path}, {'path': '-', 'input': path.read_bytes()}):
        done = millrace('report', '--json', '--wall', '-s', 'tid', '-i', given.pop('path'), binary=True, **given)
        rows = [row for event in json.loads(done.out)['events'] for row in event['entries']]
        assert sum(row['off_cpu_blocked'] + row['off_cpu_runnable'] for row in rows) == waited > 0
        assert sum(row['period'] - row['on_cpu'] for row in rows) == waited
    record()
    done = millrace('report', '-i', path, '--wall', status=None)
    assert done.status and '--off-cpu' in done.err and len(done.err.splitlines()) == 1


def test_wall_time_with_filters(millrace, tmp_path):
    """What a thread did on a CPU that is left out is no time on the others."""
    path, ms = tmp_path / 'perf.data', 10**6
    made_recording(path, made_sample(7, 1000 * ms, 0, ms), made_wait(7, 2000 * ms, 1, 900 * ms),
                   made_sample(7, 3000 * ms, 1, ms), made_sample(7, 4000 * ms, 0, ms))

    def times(*args):
        table = json.loads(millrace('report', '-i', path, '--json', '--wall', '-s', 'tid', *args).out)
        ((row,),) = [event['entries'] for event in table['events'] if event['entries']]
        return row['on_cpu'] // ms, row['off_cpu_blocked'] // ms

    assert times() == (1 + 100 + 1000 + 1000, 900)
    assert times('-C', '0') == (1 + 1000, 0)
    assert times('-C', '1') == (100 + 1000, 900)
    assert times('--time', '0.5,2.5') == (1 + 100 + 500, 900)
    assert times('--time', ' 0.5,2.5 ') == (1 + 100 + 500, 900)
    assert times('--time', '1.05,1.6') == (0, 500)  # what it did before its first record there is not known
    assert times('--time', '1.2,1.6') == (0, 400)  # no sample is in that time
    assert times('--time', '1.6,3.5') == (1000 + 500, 400)
    assert times('--time', '2.5,3.5', '-C', '0') == (500, 0)
    for words in (['--time', '0.5,1.5 2.5,5'], ['--switch-on', 'cpu-clock'], ['--switch-off', 'cpu-clock']):
        done = millrace('report', '-i', path, '--wall', *words, status=USAGE)
        assert '--wall' in done.err and len(done.err.splitlines()) == 1 and not done.out
        millrace('report', '-i', path, *words)


def test_wall_time_of_a_number_used_again(millrace, tmp_path):
    """Between the one thread and the other there is no time on the CPU."""
    path, ms = tmp_path / 'perf.data', 10**6
    made_recording(path, made_sample(7, 1000 * ms, 0, ms), made_wait(7, 2000 * ms, 0, 900 * ms),
                   made_fork(7, 5000 * ms, 0), made_wait(7, 6000 * ms, 0, 1000 * ms, 1000 * ms),
                   made_sample(7, 6100 * ms, 0, ms))
    done = millrace('report', '-i', path, '--json', '--wall', '-s', 'tid')
    rows = [row for event in json.loads(done.out)['events'] for row in event['entries']]
    assert sum(row['on_cpu'] for row in rows) == (1 + 100) * ms
    assert [sum(row[key] for row in rows) for key in ('off_cpu_blocked', 'off_cpu_runnable')] == [900 * ms, 1000 * ms]
    assert '--wall: 100.000 ms on the CPU are in no row' in done.err


def test_wall_time_with_sums_of_short_waits(millrace, tmp_path):
    """They come when the times were taken for such on the CPU already, by samples or in front of a longer wait."""
    path, ms = tmp_path / 'perf.data', 10**6
    made_recording(path, made_sample(7, 1000 * ms, 0, ms), made_sample(7, 1100 * ms, 0, ms),
                   made_sum(7, 1110 * ms, 0, 60 * ms, 90), made_wait(7, 1190 * ms, 0, 40 * ms),
                   made_sample(7, 1200 * ms, 0, ms), made_sample(7, 1300 * ms, 0, ms),
                   made_wait(7, 1400 * ms, 0, 20 * ms), made_sum(7, 1410 * ms, 0, 70 * ms, 90),
                   made_sample(7, 1500 * ms, 0, ms))
    events = json.loads(millrace('report', '-i', path, '--json', '--wall', '-s', 'tid').out)['events']
    (row,) = [row for event in events for row in event['entries']]
    assert (row['off_cpu_blocked'], row['period']) == (190 * ms, 501 * ms)


def test_wall_time_with_events_off(millrace, tmp_path):
    """What threads did while the events were disabled (--control) is not known, and not on the CPU."""
    path, ms = tmp_path / 'perf.data', 10**6
    made_recording(path, made_sample(7, 1000 * ms, 0, ms), made_sample(7, 1100 * ms, 0, ms),
                   made_wait(8, 1100 * ms, 1, 100 * ms, 0, GOES_ON),
                   made_sample(7, 1401 * ms, 0, ms), made_wait(8, 1450 * ms, 1, 50 * ms, 0, BEGAN_EARLIER),
                   made_sample(8, 1460 * ms, 1, ms), made_sample(7, 1500 * ms, 0, ms),
                   made_wait(8, 1500 * ms, 1, 40 * ms, 0, GOES_ON),
                   made_sample(7, 1601 * ms, 0, ms), made_sample(7, 1700 * ms, 0, ms),
                   made_wait(9, 1700 * ms, 1, 100 * ms, 0, BEGAN_EARLIER | GOES_ON),
                   made_sample(7, 1801 * ms, 0, ms), made_wait(8, 1850 * ms, 1, 50 * ms, 0, BEGAN_EARLIER),
                   made_sample(8, 1860 * ms, 1, ms), made_sample(7, 1900 * ms, 0, ms))
    done = millrace('report', '-i', path, '--json', '--wall', '-s', 'tid')
    rows = [row for event in json.loads(done.out)['events'] for row in event['entries']]
    assert {row['tid']: (row['on_cpu'], row['off_cpu_blocked']) for row in rows} == \
        {7: (401 * ms, 0), 8: (20 * ms, 240 * ms), 9: (0, 100 * ms)}
    assert 'no row' not in done.err


def test_wall_time_of_a_thread_that_ran_with_events_off(millrace, tmp_path):
    """No wait tells when the events were disabled: the ledger does, whose entries may come in any order, or overlap."""
    path, ms = tmp_path / 'perf.data', 10**6
    samples = [made_sample(7, at * ms, 0, ms) for at in (1000, 1100, 1401, 1500, 2001, 2100)]
    off = [(1500 * ms, 2000 * ms), (1200 * ms, 1400 * ms), (1100 * ms, 1300 * ms)]
    for ledger, on_ns in ((made_ledger(*off), 301 * ms), (made_ledger(), 1101 * ms), (None, 1101 * ms)):
        made_recording(path, *samples, ledger=ledger)
        events = json.loads(millrace('report', '-i', path, '--json', '--wall', '-s', 'tid').out)['events']
        ((row,),) = [event['entries'] for event in events if event['entries']]
        assert (row['on_cpu'], row['period']) == (on_ns, on_ns)


def test_wall_time_of_a_sample_before_the_start(millrace, tmp_path):
    """Events that sample the CPU are enabled first, and only then it is known who waits."""
    path, ms = tmp_path / 'perf.data', 10**6
    made_recording(path, made_sample(7, 1000 * ms, 0, ms), made_wait(7, 1120 * ms, 0, 115 * ms, 0, BEGAN_EARLIER),
                   made_sample(7, 1122 * ms, 0, ms))
    events = json.loads(millrace('report', '-i', path, '--json', '--wall', '-s', 'tid').out)['events']
    ((row,),) = [event['entries'] for event in events if event['entries']]
    assert (row['on_cpu'], row['off_cpu_blocked']) == (3 * ms, 115 * ms)


def test_wall_time_of_overwritten_rings(millrace, tmp_path):
    """Samples of the CPU that are older than the times off it tell nothing of what came behind them."""
    path, ms = tmp_path / 'perf.data', 10**6
    records = [made_sample(7, 1000 * ms, 0, ms), made_sample(8, 1100 * ms, 0, ms),
               made_wait(7, 2100 * ms, 1, 100 * ms, 0, BEGAN_EARLIER), made_sample(7, 2110 * ms, 1, ms),
               made_wait(8, 2160 * ms, 0, 10 * ms), made_sample(8, 2200 * ms, 0, ms)]
    made_recording(path, *records, ledger=made_ledger((900 * ms, 2000 * ms), cause=11), overwrites=True)
    done = millrace('report', '-i', path, '--json', '--wall', '-s', 'tid')
    (event,) = [event for event in json.loads(done.out)['events'] if event['entries']]
    assert {row['tid']: (row['on_cpu'], row['off_cpu_blocked'], row['samples']) for row in event['entries']} == \
        {7: (10 * ms, 100 * ms, 2), 8: (190 * ms, 10 * ms, 2)}
    for ledger in (made_ledger((900 * ms, 2000 * ms)), None):  # a pipe has none
        made_recording(path, *records, ledger=ledger, overwrites=True)
        done = millrace('report', '-i', path, '--wall', status=None)
        assert done.status and 'overwritten' in done.err and len(done.err.splitlines()) == 1


def test_wall_time_of_a_window(millrace, programs, tmp_path, need_root):
    """No thread has more of it than the rings held, also one with older samples on a CPU that became quiet."""
    path, cpus = tmp_path / 'perf.data', sorted(os.sched_getaffinity(0))
    count = 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done'
    done = millrace('record', '-e', 'cpu-clock', '-F', 999, '--off-cpu=0', '--overwrite', '-a', '-m', '128K',
                    '-o', path, '--', 'sh', '-c', f'taskset -c {cpus[-1]} "$0" pipe 2 700 & taskset -p -c {cpus[0]} $$;'
                    f'{count}; sleep 0.6; {count}; wait', programs / 'waits')
    (window_ms,) = re.findall(r'held the waits of the last ([\d.]+) ms', done.err)
    events = json.loads(millrace('report', '-i', path, '--json', '--wall', '-s', 'tid').out)['events']
    rows = [row for event in events for row in event['entries']]
    assert rows and all(row['period'] < float(window_ms) * 1e6 + 1e3 for row in rows), (window_ms, rows)


def test_wall_time_that_is_unknown(millrace, tmp_path):
    """What a thread did may not be known for a time in which samples tell that it ran: it counts once."""
    path, ms = tmp_path / 'perf.data', 10**6
    unknown = struct.pack('<2IQ', 12, UNKNOWN, 300 * ms)
    made_recording(path, made_sample(7, 1000 * ms, 0, ms), made_sample(7, 1100 * ms, 0, ms),
                   made_sample(7, 1300 * ms, 0, ms),
                   perf_file.sample(2, 6, 0x1000, 7 << 32 | 7, 1500 * ms, 0, 0, *struct.unpack('<2Q', unknown)),
                   made_sample(7, 1600 * ms, 0, ms))
    events = json.loads(millrace('report', '-i', path, '--json', '--wall', '-s', 'tid').out)['events']
    ((row,),) = [event['entries'] for event in events if event['entries']]
    assert (row['on_cpu'], row['period']) == (401 * ms, 601 * ms)


def test_names_of_wall_time(millrace, tmp_path):
    """All outputs say what is counted, and what is not known."""
    path, ms = tmp_path / 'perf.data', 10**6
    unknown = struct.unpack('<2Q', struct.pack('<2IQ', 12, UNKNOWN, 300 * ms))
    made_recording(path, made_sample(7, 1000 * ms, 0, ms), made_wait(7, 1100 * ms, 0, 50 * ms),
                   perf_file.sample(2, 6, 0, 7 << 32 | 7, 1500 * ms, 0, 0, *unknown), made_sample(7, 1600 * ms, 0, ms))
    for words in ([], ['-s', 'sym'], ['-s', 'tid,dso,sym']):
        text = millrace('report', '--stdio', '-i', path, '--wall', *words).out
        assert "of event 'wall-clock time'" in text
        assert re.search(r' \[\.\] \[unknown: records were lost\]', text) and ' 0000000000' not in text
        events = json.loads(millrace('report', '-i', path, '--json', '--wall', *words).out)['events']
        (event,) = [event for event in events if event['entries']]
        assert event['event'] == 'wall-clock time'
        (lost,) = [row for row in event['entries'] if row['sym'] == '[unknown: records were lost]']
        assert (lost['period'], lost['on_cpu'], lost['off_cpu_blocked']) == (300 * ms, 0, 0)
    for words in (['-s', 'parallelism'], ['--parallelism', '1'], ['--latency']):
        done = millrace('report', '-i', path, '--wall', *words, status=USAGE)
        assert 'parallelism' in done.err and len(done.err.splitlines()) == 1 and not done.out


def test_names_of_waits_without_a_place(millrace, tmp_path):
    """Each says what it is, not address 0, whatever the sample before it was."""
    path, names = tmp_path / 'perf.data', {
        STARTING: '[starting: it has not run yet]', SUM: '[several short times]', GOES_ON: None,
        UNKNOWN: '[unknown: records were lost]', UNKNOWN | STARTING: '[unknown: records were lost]'}
    waits = [perf_file.sample(2, 6, 0, 7 << 32 | 7, 1000 + at, 0, 10, 20 | flags << 32, 0, 1, 0)
             for at, flags in enumerate([*names, *names])]
    made_recording(path, made_sample(7, 900, 0, 500), *waits, made_wait(7, 3000, 0, 900))
    rows = json.loads(millrace('report', '-i', path, '--json', '-s', 'sym').out)['events'][-1]['entries']
    shown = [(row['sym'], row.get('address'), row['samples']) for row in rows]
    assert sorted(shown, key=str) == sorted([
        ('[starting: it has not run yet]', None, 2), ('[several short times]', None, 2), (None, '0', 2),
        ('[unknown: records were lost]', None, 4), (None, '0x1000', 1)], key=str)
    text = millrace('report', '-i', path, '--stdio', '-s', 'sym').out
    assert all(f'[.] {name}' in text for name in names.values() if name)


def test_a_wait_is_one_sample(millrace, tmp_path):
    """Of rows of states it is a sample of that before it could run; from then on only the time counts."""
    path = tmp_path / 'perf.data'
    made_recording(path, made_sample(7, 1000, 0, 500), made_wait(7, 3000, 0, 900, 400), made_wait(7, 5000, 0, 900))

    def rows(*args):
        table = json.loads(millrace('report', '-i', path, '--json', *args).out)
        event = table['events'][-1]
        return event['samples'], [(row['samples'], row['period']) for row in event['entries']]

    assert rows('-s', 'waker') == (2, [(2, 1800)]) == rows('-s', 'tid')
    assert rows('-s', 'state') == (2, [(2, 1400), (0, 400)])
    whole = json.loads(millrace('report', '-i', path, '--json', '--wall', '-s', 'tid').out)
    (event,) = [event for event in whole['events'] if event['entries']]
    ((row,),) = [event['entries']]
    assert event['samples'] == row['samples'] == 3 and row['off_cpu_runnable'] == 400 and row['off_cpu_blocked'] == 1400


def test_a_page_of_plain_samples_only(millrace, tmp_path):
    """Where a sample counts in more than one row, or otherwise, its page would have parts without it."""
    path, page = tmp_path / 'perf.data', tmp_path / 'page.html'
    made_recording(path, made_sample(7, 10**9, 0, 1000), made_wait(7, 2 * 10**9, 0, 1000))
    for words in (['--wall'], ['-s', 'tid,state'], ['-s', 'waker']):
        done = millrace('report', '-i', path, '--html', page, *words, status=USAGE)
        assert '--html' in done.err and len(done.err.splitlines()) == 1
        assert not page.exists()
        millrace('report', '-i', path, *words)
    millrace('report', '-i', path, '--html', page, '-s', 'tid')
    page.unlink()
    for more, words in ((1 << 11, ['-b']), (1 << 15, ['--mem-mode'])):  # branches; accesses
        path.write_bytes(perf_file.build([perf_file.attr(type=1, sample_period=1, sample_type=7 | more)], {}))
        millrace('report', '-i', path, *words)
        assert '--html' in millrace('report', '-i', path, '--html', page, *words, status=USAGE).err
        assert not page.exists()
        millrace('report', '-i', path, '--html', page)
        page.unlink()


@pytest.mark.parametrize('options', [[], ['--no-call-graph'], ['-g', '--call-graph', 'no'], ['--no-call-graph', '-g']])
def test_call_chains_unless_they_are_declined(millrace, tmp_path, options):
    """The last of the options counts."""
    millrace('record', '-e', 'dummy', '--off-cpu', *options, '-o', tmp_path / 'perf.data', '--', 'sleep', '0.01')
    header = millrace('report', '--header-only', '-i', tmp_path / 'perf.data').out
    types = re.search('event : name = offcpu-time.*sample_type = ([A-Z|]+)', header)[1].split('|')
    assert ('CALLCHAIN' in types) == (not options or options[-1] == '-g')
    assert 'waited=' in millrace('script', '-F', 'event,wait', '-i', tmp_path / 'perf.data').out


def test_script_fields(record, millrace, tmp_path):
    threads, waits = record('pipe', 2)
    text = millrace('script', '-i', tmp_path / 'perf.data', '-F', 'tid,event,state,wait').out
    lines = re.findall(r'^ *(\d+) offcpu-time: +(\S+) waited=(\d+) runnable=(\d+)(?: times=\d+)?(?: waker=(\S+))?',
                       text, re.M)
    assert len(lines) == sum(map(len, waits.values()))
    for thread in threads:
        mine = [(int(waited) + int(ready), int(ready)) for tid, _, waited, ready, _ in lines if int(tid) == thread.tid]
        assert sorted(mine) == sorted((wait.ns, wait.ready_ns) for wait in waits[thread.tid])
    assert {state for _, state, *_ in lines} <= {'S', 'R+', 'R', 'D', '?'}
    assert any('/' in waker for *_, waker in lines)


# state and flags, what its payload says is runnable, and the rest: what script prints and what its JSON says.
WAITS_OF_A_FILE = {
    'woken': (SLEEPING, 40, struct.pack('<2I', 8, 9), 'waited=60 runnable=40 waker=8/9', ['S', 60, 40, 9, []]),
    'interrupt': (SLEEPING | INTERRUPT, 40, b'', 'waited=60 runnable=40 waker=interrupt',
                  ['S', 60, 40, None, ['interrupt']]),
    'no-wake-up': (SLEEPING | NO_WAKE_UP | GOES_ON, 0, b'', 'waited=100 runnable=0 goes-on no-wake-up',
                   ['S', 100, None, None, ['goes-on', 'no-wake-up']]),
    'unknown': (UNKNOWN | NO_WAKE_UP, 100, b'', 'waited=100 runnable=0 unknown no-wake-up',
                [None, None, None, None, ['unknown', 'no-wake-up']]),
}
REPORTED_WAITS = {
    'woken': {('sleeping', ':9:9'), ('runnable', ':9:9')},
    'interrupt': {('sleeping', 'interrupt'), ('runnable', 'interrupt')},
    'no-wake-up': {('sleeping', None)},
    'unknown': {(None, None)},
}


@pytest.mark.parametrize('name', WAITS_OF_A_FILE)
def test_script_says_what_is_not_known(millrace, tmp_path, name):
    state, ready, more, text, values = WAITS_OF_A_FILE[name]
    path, raw = tmp_path / 'perf.data', struct.pack('<IQ', state, ready) + more
    record = struct.pack('<3Q', 7 << 32 | 7, 1000, 0 if state & UNKNOWN else 100) + struct.pack('<I', len(raw)) + raw
    attr = perf_file.attr(type=SOFTWARE, config=3, sample_period=1, sample_type=2 | 4 | 256 | 1024, bits=1 << 18)
    path.write_bytes(perf_file.build([attr], {12: perf_file.event_desc(('offcpu-time', attr, [1]))}, [[1]],
                                     struct.pack('<IHH', SAMPLE, 2, 8 + len(record)) + record +
                                     perf_file.FINISHED_ROUND))
    assert millrace('script', '-i', path, '-F', 'wait').out.split() == text.split()
    found = json.loads(millrace('script', '-i', path, '--json', '-F', 'wait').out)
    assert [found[key] for key in ('state', 'waited', 'runnable', 'waker', 'flags')] == values
    event, = json.loads(millrace('report', '-i', path, '--json', '-s', 'state,waker').out)['events']
    assert {(row['state'], row['waker']) for row in event['entries']} == REPORTED_WAITS[name]


def test_switched_output_and_flight(millrace, recorder, programs, tmp_path):
    """Times go on from one file to the next."""
    path = tmp_path / 'switched.data'
    done = millrace('record', '-e', 'dummy', '--off-cpu', *MONOTONIC, '--switch-output=1s', '-o', path,
                    '--', programs / 'waits', 'sleep', 2, 2200)
    files = sorted(tmp_path.glob('switched.data.*'))
    assert len(files) >= 2
    waits = by_tid([wait for file in files for wait in waits_of(file)])
    for thread in threads_of(done.out):
        check_times(thread, waits[thread.tid])
    path = tmp_path / 'flight.data'
    recording = recorder(['-e', 'dummy', '--off-cpu', '--flight=5s', '-o', path,
                          '--', programs / 'waits', 'sleep', 1, 1500])
    time.sleep(1)
    recording.send_signal(signal.SIGUSR2)
    recording.wait()
    (file,) = tmp_path.glob('flight.data.*')
    plain = tmp_path / 'plain.data'
    millrace('merge', '-o', plain, file)
    assert sum(wait.ns > 9e6 for wait in waits_of(plain)) > 40


@pytest.mark.parametrize('options', [[], ['-a'], ['--call-graph', 'unwind'], ['--no-side-channel', '--switch-events']],
                         ids=['named', 'all', 'unwind', 'one-channel'])
def test_overwritten_rings(record, options):
    """
    The waits of the time of which the rings of all CPUs still hold everything, and no others.

    The kernel counts the whole switch to a thread, with the sample of the one before, as its time on the CPU: that is
    35 us a wait, or twice as much beside other load, and then too much to compare times. Nor does a thread's time have
    what a hypervisor takes from it between two waits. So one recording of four has times as near as that, while waits
    and their order are right in each.

    Wake-ups of all tasks of the machine are in these rings. Other load that wakes tasks 100,000 times in a second fills
    1 MiB in 50 ms, and the rings then hold the last moments of the threads alone. The file says so: no wait is the
    first of a thread.
    """
    for _ in range(4):
        threads, waits = record('futex', 2, '--overwrite', '-m', '1M' if options else '16M', '--off-cpu=0', *options,
                                milliseconds=200)
        mine = {thread: sorted((wait for wait in waits[thread.tid] if wait.end_ns > thread.from_ns and
                                wait.left_ns < thread.to_ns), key=lambda wait: wait.end_ns) for thread in threads}
        for thread, of in mine.items():
            between_them = [after.left_ns - before.end_ns for before, after in zip(of, of[1:])]
            assert not any(wait.flags & UNKNOWN for wait in of) and all(ns >= 0 for ns in between_them)
            assert len(of) <= thread.nr_switches + 2
        began = all(any(wait.flags & STARTING for wait in waits[thread.tid]) for thread in threads)
        if not options and began:  # they hold all of it
            assert all(len(of) >= thread.nr_switches - 2 for thread, of in mine.items())
        if (began or options) and all(times_are_near(thread, of, whole=not options) for thread, of in mine.items()):
            return
    pytest.fail(f'{[(vars(thread), time_off(thread, of), len(of)) for thread, of in mine.items()]}')


def times_are_near(thread, waits, whole):
    """Of a recording that may not have the whole time of the thread."""
    off = time_off(thread, waits)
    between_them = sum(after.left_ns - before.end_ns for before, after in zip(waits, waits[1:]))
    return (between_them <= thread.cpu_ns + 100000 + len(waits) * WAIT_NS and
            off <= thread.wall_ns - thread.cpu_ns + 100000 + len(waits) * WAIT_NS and
            (not whole or near(off, thread.wall_ns - thread.cpu_ns, len(waits))))


def test_snapshots_of_overwritten_rings(millrace, spawn, programs, tmp_path):
    """Of each what its rings held; of tasks that slept all the time as well."""
    sleeper = spawn(['sleep', '60'])
    process = spawn([programs / 'waits', 'futex', '2', '10000'], stdout=-1)
    while len(tids := os.listdir(f'/proc/{process.pid}/task')) < 3:
        time.sleep(0.01)
    path = tmp_path / 'perf.data'
    millrace('record', '-e', 'dummy', '--overwrite', '-m', '1M', '--off-cpu=0', '--switch-output=1s', '-o', path,
             '-p', f'{process.pid},{sleeper.pid}', '--', 'sleep', '1.3')
    files = sorted(tmp_path.glob('perf.data.*'))
    assert len(files) >= 2
    ends = defaultdict(int)
    for file in files:
        waits = by_tid(waits_of(file))
        (slept,) = waits[sleeper.pid]
        assert slept.flags & (BEGAN_EARLIER | GOES_ON) == BEGAN_EARLIER | GOES_ON and slept.pid == sleeper.pid
        for tid in map(int, tids):
            for wait in sorted(waits[tid], key=lambda wait: wait.end_ns):
                assert wait.left_ns >= ends[tid] and not wait.flags & UNKNOWN
                assert slept.left_ns <= wait.left_ns and wait.end_ns <= slept.end_ns
                ends[tid] = wait.end_ns
    assert all(ends[int(tid)] for tid in tids if int(tid) != process.pid)


def test_snapshots_of_rings_that_hold_milliseconds(millrace, spawn, programs, tmp_path):
    """What comes while a snapshot is made leaves some of what was before."""
    process = spawn([programs / 'waits', 'futex', '2', '10000'], stdout=-1)
    path = tmp_path / 'perf.data'
    millrace('record', '-e', 'dummy', '--overwrite', '-m', '16K', '--off-cpu=0', '--switch-output', '-o', path,
             '-p', process.pid, '--', 'sh', '-c', 'for i in 1 2 3 4 5 6; do sleep 0.1; kill -USR2 $PPID; done')
    snapshots = sorted(tmp_path.glob('perf.data.*'))[:-1]
    assert any(not wait.flags & GOES_ON for file in snapshots for wait in waits_of(file)), snapshots


def test_overwritten_rings_say_how_long_they_held(millrace, spawn, programs, tmp_path):
    """No wait is of a time before that; and nothing is said where they held everything."""
    process = spawn([programs / 'waits', 'futex', '2', '60000'], stdout=-1)
    path = tmp_path / 'perf.data'
    options = ['record', '-e', 'dummy', '--overwrite', '--off-cpu=0', '-o', path, '-p', process.pid]
    done = millrace(*options, '-m', '16K', '--', 'sleep', '1')
    (held,) = re.findall(r'--off-cpu: the overwritten rings held the waits of the last ([\d.]+) ms', done.err)
    waits = waits_of(path)
    assert float(held) < 1000
    assert max(wait.end_ns for wait in waits) - min(wait.left_ns for wait in waits) <= float(held) * 1e6 + 1000
    assert 'overwritten rings' not in millrace(*options, '-m', '16M', '--', 'true').err
    done = millrace('record', '-e', 'cpu-clock/overwrite/', '-c', '20000', '-m', '8K', '--off-cpu', '-o', path,
                    '--', programs / 'waits', 'spin', '1', '100')  # these waits are in other rings
    assert 'overwritten rings' not in done.err and waits_of(path)


@pytest.mark.parametrize('option', ['-t', '-p'])
def test_wake_ups_of_others_take_no_room(option, millrace, spawn, programs, tmp_path):
    """Where only these tasks can be recorded: others are woken so often that the rings would hold 0.3 s."""
    spawn([programs / 'waits', 'pipe', '2', '60000'], stdout=-1)
    process = spawn([programs / 'waits', 'futex', '2', '60000'], stdout=-1)
    tasks = pathlib.Path(f'/proc/{process.pid}/task')
    wait_until(lambda: len(os.listdir(tasks)) == 3, 'its threads')
    tids = sorted(int(tid) for tid in os.listdir(tasks) if int(tid) != process.pid)
    path = tmp_path / 'perf.data'
    done = millrace('record', '-e', 'dummy', '--overwrite', '-m', '1M', '--off-cpu=0', '-o', path,
                    *(['-t', tids[0]] if option == '-t' else ['-i', '-p', process.pid]), '--', 'sleep', '1')
    waits = by_tid(waits_of(path))
    assert set(waits) == ({tids[0]} if option == '-t' else {process.pid, *tids})
    assert 'overwritten rings' not in done.err and sum(wait.ns for wait in waits[tids[0]]) > 0.8e9
    woken = [wait for wait in waits[tids[0]] if wait.waker == (process.pid, tids[1])]
    assert len(woken) > len(waits[tids[0]]) / 4 and all(wait.ready_ns < wait.ns for wait in woken)


def test_events_on_and_off(millrace, programs, tmp_path):
    """Only what was while the events were on, and all of that."""
    path = tmp_path / 'perf.data'
    done = millrace('record', '-e', 'dummy', '--off-cpu', '-D', '100-1000,2500-3000', '-o', path,
                    '--', programs / 'waits', 'sleep', 1, 6000)
    (thread,) = threads_of(done.out)
    waits = sorted((wait for wait in waits_of(path) if wait.tid == thread.tid), key=lambda wait: wait.left_ns)
    # However late the recorder is: one part of the time has no wait, and it sleeps all the time.
    (gap,) = [next_.left_ns - wait.end_ns for wait, next_ in zip(waits, waits[1:])
              if next_.left_ns - wait.end_ns > 50e6]
    assert sum(wait.ns for wait in waits) > 0.3e9 and sum(wait.ns for wait in waits) + gap < thread.wall_ns
    assert sum(bool(wait.flags & BEGAN_EARLIER) for wait in waits) <= 2 and not any(
        wait.flags & UNKNOWN for wait in waits)


def test_threads_that_end_while_events_are_off(millrace, programs, tmp_path):
    """Events are disabled one by one: what the last ones tell is no wait for the time when they are on again."""
    path = tmp_path / 'perf.data'
    env = {'LD_PRELOAD': str(programs / 'disable_time.so'), 'DISABLE_SLOWLY': '1'}
    done = millrace('record', '-e', 'dummy', '--off-cpu', *MONOTONIC, '-D', '100-300,2500-3000', '-o', path, '--',
                    'sh', '-c', f'{programs}/waits sleep 4 500; sleep 5', env=env)
    waits = by_tid(waits_of(path))
    threads = threads_of(done.out)
    assert len(threads) == 4
    for thread in threads:
        assert waits[thread.tid] and all(wait.end_ns < thread.to_ns for wait in waits[thread.tid])


def test_first_attr_has_context_switch(millrace, tmp_path):
    """Where there are PERF_RECORD_SWITCH: samply looks at the first attr alone."""
    context_switch = 1 << 26  # <linux/perf_event.h>, struct perf_event_attr
    path = tmp_path / 'perf.data'
    for options, there in (([], False), (['--switch-events'], True), (['--switch-events', '-a'], True)):
        millrace('record', '-e', 'cpu-clock', '--off-cpu', *options, '-o', path, '--', 'sleep', '0.02')
        data = PerfData(path)
        assert bool(data.attrs[0].bits & context_switch) == there
        assert any(record.type in (14, 15) for record in data.records()) == there
    millrace('record', '-e', 'cpu-clock', '--switch-events', '-a', '-o', path, '--', 'true')
    assert PerfData(path).attrs[0].bits & context_switch


def test_killed_recorder(recorder, millrace, programs, tmp_path):
    """Its file has no names of events yet, and is read all the same."""
    path = tmp_path / 'perf.data'
    recording = recorder(['-e', 'cpu-clock', '--off-cpu', '-o', path, '--', programs / 'waits', 'sleep', 1, 5000])
    time.sleep(4)
    recording.kill()
    recording.wait()
    assert len(re.findall(r' S waited=\d+', millrace('script', '-i', path, '-F', 'event,state,wait').out)) > 50
    assert 'sleeping' in millrace('report', '--stdio', '-i', path, '-s', 'state').out


def test_words(millrace):
    for words in (['--off-cpu=soon'], ['--off-cpu=-1'], ['--off-cpu-wakers'], ['--off-cpu', '--no-timestamp']):
        done = millrace('record', *words, '-o', '/dev/null', '--', 'true', status=None)
        assert done.status and 'off-cpu' in done.err and len(done.err.splitlines()) == 1


def test_target_that_has_ended(millrace, spawn, tmp_path):
    """A process that its parent has not waited for, of which a wake-up event is open, as it is of all tasks."""
    process = spawn(['true'])
    wait_until(lambda: pathlib.Path(f'/proc/{process.pid}/stat').read_text().split()[2] == 'Z', 'the end of true')
    for option in ('-p', '-t'):
        done = millrace('record', '-e', 'dummy', '--off-cpu', '-o', tmp_path / 'perf.data', option, process.pid, '--',
                        'true', status=255)
        assert 'the target ended before the recording began' in done.err


def test_clock_that_tracepoints_do_not_have(millrace, tmp_path):
    done = millrace('record', '-e', 'dummy', '--off-cpu', '-k', 'realtime', '-o', tmp_path / 'perf.data', '--', 'true',
                    status=255)
    assert '(--off-cpu), a tracepoint' in done.err and 'not this one for tracepoints' in done.err
    assert '-k monotonic' in done.err


@pytest.mark.parametrize('ranges, nr_ranges', [('1000-1500', 1), ('1000-1500,2000-2500', 2)])
def test_children_that_sleep_all_the_time(ranges, nr_ranges, millrace, tmp_path):
    """The command and its children were there before the events began, and no switch tells of them."""
    path = tmp_path / 'perf.data'
    millrace('record', '-e', 'dummy', '--off-cpu', '-D', ranges, *MONOTONIC, '-o', path, '--', 'sh', '-c',
             'sleep 6 & sleep 6 & sleep 6; true')
    waits = defaultdict(list)
    for wait in waits_of(path):
        if wait.flags & BEGAN_EARLIER and wait.flags & GOES_ON:
            waits[wait.tid].append(wait)
    assert len(waits) == 4 and all(len(of_task) == nr_ranges for of_task in waits.values())
    assert all(wait.state == SLEEPING for of_task in waits.values() for wait in of_task)
    for same_range in zip(*waits.values()):
        assert len({wait.ns for wait in same_range}) == 1 and same_range[0].ns > 3 * 10 ** 8


# Two ranges of 50 ms in which its children sleep all the time; of these the recording has those it starts after `ping`.
SLEEPS_THROUGH_RANGES = """
import os, subprocess, sys, threading, time
before = subprocess.Popen(['sleep', '60'])
control, answers = open(sys.argv[1], 'w'), open(sys.argv[2])
def tell(word):
    control.write(word + '\\n'); control.flush()
    assert answers.readline().rstrip('\\n\\0') == 'ack'
tell('ping')
children = [subprocess.Popen(words) for words in (['sleep', '60'], ['sh', '-c', 'sleep 60; true'])]
done = threading.Event()
thread = threading.Thread(target=done.wait); thread.start()
def state(tid):
    return open(f'/proc/{tid}/stat').read().rsplit(')', 1)[1].split()[0]
while not (below := open(f'/proc/{children[1].pid}/task/{children[1].pid}/children').read().split()):
    time.sleep(0.001)
tids = [thread.native_id, *(child.pid for child in children), int(below[0])]
while open(f'/proc/{below[0]}/comm').read() != 'sleep\\n' or any(state(tid) != 'S' for tid in tids):
    time.sleep(0.001)
longest = []
for _ in range(2):
    start = time.monotonic_ns()
    tell('enable')
    time.sleep(0.05)
    tell('disable')
    longest.append(time.monotonic_ns() - start)
print(before.pid, *tids); print(*longest)
done.set()
os.kill(int(below[0]), 9)
before.kill(); children[0].kill()
"""


@pytest.mark.parametrize('target', ['command', 'process'])
@pytest.mark.parametrize('user', ['root', 'ordinary'])
def test_children_that_sleep_through_short_ranges(target, user, program, ordinary, spawn):
    """Also if the records of their forks are not drained by then; not those that are not recorded."""
    directory, who = ordinary
    who = who if user == 'ordinary' else {}
    fifos = [directory / name for name in ('control', 'answers')]
    for fifo in fifos:
        os.mkfifo(fifo)
        fifo.chmod(0o666)
    path, script = directory / 'perf.data', ['/usr/bin/python3', '-c', SLEEPS_THROUGH_RANGES, *fifos]
    record = [directory / program.name, 'record', '-e', 'dummy', '--off-cpu', *MONOTONIC, '-D', '-1', '-o', path,
              f'--control=fifo:{fifos[0]},{fifos[1]}']
    if target == 'command':
        process = spawn([*record, '--', *script], cwd=directory, stdout=-1, text=True, **who)
    else:
        process = spawn(script, cwd=directory, stdout=-1, text=True, **who)
        wait_until(pathlib.Path(f'/proc/{process.pid}/task/{process.pid}/children').read_text, 'a child of the process')
        recording = spawn([*record, '-p', process.pid], cwd=directory, **who)
    out, _ = process.communicate(timeout=60)
    assert not process.returncode and not (target == 'process' and recording.wait(timeout=60))
    (before, *tids), longest = (list(map(int, line.split())) for line in out.splitlines())
    waits = {tid: [wait for wait in of_task if wait.flags & BEGAN_EARLIER and wait.flags & GOES_ON]
             for tid, of_task in by_tid(waits_of(path)).items()}
    assert (before in waits) == (target == 'command')
    for tid in tids:
        assert [wait.ns for wait in waits[tid]] == [wait.ns for wait in waits[tids[0]]]
        assert len(waits[tid]) == 2 and all(wait.state == SLEEPING for wait in waits[tid])
    assert all(40e6 < wait.ns < most for wait, most in zip(waits[tids[0]], longest))


def test_stacks_of_tasks_that_wait_are_bounded(millrace, perf, tmp_path):
    """Each of many tasks that wait has a copy of its stack: those for which there is no memory are counted."""
    sleepers = 'import threading, time\nfor _ in range(400): threading.Thread(target=time.sleep, args=(1,)).start()'

    def nr_without_user_part(*options):
        path = tmp_path / 'perf.data'
        done = millrace('record', '-e', 'dummy', '--off-cpu', '-o', path, '--call-graph', 'dwarf,32768', *options, '--',
                        sys.executable, '-c', sleepers)
        said = re.search(r'--off-cpu: (\d+) of (\d+) waits have no user part of their call chain', done.err)
        assert not said or int(said[1]) < int(said[2])
        chains = [chain.split('\n')[1:] for chain in perf('script', '-i', path, '-F', 'event,ip').out.split('\n\n')]
        ips = [[int(line.split()[0], 16) for line in chain if line.strip()] for chain in chains]
        return int(said[1]) if said else 0, sum(bool(chain) and all(ip >> 63 for ip in chain) for chain in ips)

    nr_said, nr_kernel = nr_without_user_part('--buffer-memory=1M')
    assert 0 < nr_said and 0 < nr_kernel
    nr_said, nr_kernel_then = nr_without_user_part('--buffer-memory=64M')
    assert not nr_said and nr_kernel_then < nr_kernel
