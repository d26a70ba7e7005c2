# SPDX-License-Identifier: MIT
"""What tasks do has rings of its own: it survives when samples do not."""
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import while_it_runs  # noqa: E402
from law import check_law  # noqa: E402
from perfdata import COMM, EXIT, FORK, IDENTIFIER, LOST, LOST_SAMPLES, MMAP2, PerfData, SAMPLE  # noqa: E402

PROCESSES, CHILDREN = 2, 60
MADE = PROCESSES * CHILDREN  # children that execute a program
EXEC = 0x2000  # misc of a COMM


def overflow(spawn, programs, recorder, *options):
    """
    Hundreds of thousands of events into rings of a page, while programs come and go, and a recorder that does not get
    the CPU again and again. Its standard error.
    """
    load = (f'{programs}/syscalls -t 2 -n 100000 > /dev/null & '
            f'{programs}/forkstorm -p {PROCESSES} -n {CHILDREN} -x 1; wait')
    process = spawn([*recorder, 'record', '-m', '1', '-e', 'raw_syscalls:*', *options, '--', 'sh', '-c', load],
                    stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    limit = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < limit:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.01)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.02)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 0, err
    return err


def count_tasks(file):
    """By process: how many FORK, COMM of an exec, MMAP2 and EXIT records, for those that were forked and executed."""
    counts = {}
    for record in PerfData(file).records():
        kind = {FORK: 'fork', COMM: 'comm', MMAP2: 'mmap', EXIT: 'exit'}.get(record.type)
        if kind is None or (kind == 'comm' and not record.misc & EXEC):
            continue
        pid = struct.unpack_from('<I', record.body)[0]
        of = counts.setdefault(pid, dict(fork=0, comm=0, mmap=0, exit=0))
        of[kind] += 1
    return counts


def whole(counts):
    """Those of which nothing is missing: forked, named by an exec, mapped (program, loader, vdso, libc …), ended."""
    return [of for of in counts.values() if of['fork'] and of['comm'] and of['mmap'] >= 4 and of['exit']]


@pytest.mark.parametrize('how', [[], ['--threads'], ['-a']], ids=['command', 'threads', 'all CPUs'])
def test_no_task_is_missing_while_samples_overflow(program, spawn, programs, need_tracefs, tmp_path, how):
    file = tmp_path / 'p.data'
    err = overflow(spawn, programs, [program], *how, '-o', file)
    files = sorted(file.glob('data.*')) if file.is_dir() else []
    data = PerfData(file / 'data' if files else file)
    lost = sum(struct.unpack_from('<Q', record.body)[0] for record in data.records() if record.type == LOST_SAMPLES)
    assert lost > 1000, err
    assert data.attrs[-1].config == 9 and data.lost_samples(data.attrs[-1]) == 0, err
    counts = {}
    for part in files or [file]:
        for pid, of in count_part(data, part).items() if files else count_tasks(part).items():
            into = counts.setdefault(pid, dict(fork=0, comm=0, mmap=0, exit=0))
            for kind, number in of.items():
                into[kind] += number
    assert len(whole(counts)) >= MADE, err


def count_part(main, path):
    part = object.__new__(PerfData)
    part.bytes = path.read_bytes()
    part.start, part.end, part.attrs = 0, len(part.bytes), main.attrs
    counts = {}
    for record in part.records():
        kind = {FORK: 'fork', COMM: 'comm', MMAP2: 'mmap', EXIT: 'exit'}.get(record.type)
        if kind and (kind != 'comm' or record.misc & EXEC):
            of = counts.setdefault(struct.unpack_from('<I', record.body)[0], dict(fork=0, comm=0, mmap=0, exit=0))
            of[kind] += 1
    return counts


@pytest.mark.alone
def test_perf_loses_them_and_so_does_a_shared_ring(perf, program, spawn, programs, need_tracefs, tmp_path):
    """The same load: what the side channel is for."""
    for name, recorder, options in (('perf', [shutil.which('perf')], []),
                                    ('shared', [program], ['--side-channel=off'])):
        file = tmp_path / f'{name}.data'
        overflow(spawn, programs, recorder, *options, '-o', file)
        assert any(r.type in (LOST, LOST_SAMPLES) for r in PerfData(file).records())
        assert len(whole(count_tasks(file))) < MADE, f'{name}: nothing was missing'


CRC = 'import zlib, time; b = bytes(1 << 16); end = time.monotonic() + 0.3\nwhile time.monotonic() < end: zlib.crc32(b)'


def test_what_died_before_the_snapshot_is_resolved(millrace, perf, need_root, tmp_path):
    """A process that mapped a library, called into it and ended; perf's snapshot has forgotten its maps."""
    load = ['sh', '-c', f"python3 -c '{CRC}'; sleep 0.2; true"]

    def lines_of(record, file):
        record('record', '--overwrite', '-m', '1', '-e', 'cpu-clock:u', '-F', '2000', '-o', file, '--', *load)
        lines = perf('script', '-i', file, '-F', 'comm,ip,sym,dso').out.splitlines()
        assert lines
        return lines, sum('([unknown])' in line for line in lines)

    lines, unknown = lines_of(millrace, tmp_path / 'millrace.data')
    assert any('libz' in line or 'crc32' in line for line in lines) and not unknown, lines
    # What perf forgets depends on how much the maps of the shell and of python push out: not the same in each run.
    forgot = any(lines_of(perf, tmp_path / f'perf{run}.data')[1] for run in range(8))
    assert forgot, 'perf knows them now: another test is needed'


def test_the_exact_law_of_losses_holds_for_the_first_event(millrace, programs, need_tracefs, tmp_path):
    """No record about tasks is counted with the event that samples."""
    file, made = tmp_path / 'p.data', 2 * 100000
    done = millrace('record', '-m', '1', '-e', 'syscalls:sys_enter_getppid', '-o', file, '--',
                    programs / 'syscalls', '-t', '2', '-n', made // 2)
    data = PerfData(file)
    assert data.attrs[0].sample_type & IDENTIFIER
    samples = sum(record.type == SAMPLE for record in data.records())
    assert samples + check_law(millrace, file, 'getppid', made, attr=0) == made, done.err


def test_a_file_shows_no_section_for_the_dummy(millrace, perf, programs, tmp_path):
    file = tmp_path / 'p.data'
    millrace('record', '-e', 'cpu-clock:u', '-o', file, '--', programs / 'spin', '-m', '100')
    assert re.findall(r'dummy', perf('evlist', '-i', file).out)
    for report in (perf('report', '--stdio', '-i', file), millrace('report', '-i', file)):
        assert 'dummy' not in report.out and 'spin' in report.out
        assert 'rror' not in report.err
    assert 'dummy' not in perf('script', '-i', file).out


@pytest.fixture
def task_storm(spawn, programs):
    """Hundreds of processes, of which /proc tells, and one that maps and unmaps executable memory all the time."""
    storm = spawn([programs / 'taskstorm', '-p', '400'], stdout=subprocess.PIPE, text=True)
    assert storm.stdout.readline() == 'ready\n'
    return storm


@pytest.mark.alone
@pytest.mark.parametrize('how', [[], ['-z'], ['--threads', '--single-file'], ['--switch-output=64M']], ids=' '.join)
def test_no_task_event_is_lost_while_proc_is_read(millrace, task_storm, need_root, need_tracefs, tmp_path, how):
    for run in range(3):
        done = millrace('record', *how, '-a', '-e', 'sched:sched_process_exec', '-o', tmp_path / f'p{run}.data',
                        '--', 'true')
        assert re.search('; lost 0$', done.err, re.MULTILINE), done.err


@pytest.mark.alone
@pytest.mark.parametrize('how', [[], ['--threads', '--single-file']], ids=' '.join)
def test_no_task_event_is_lost_while_threads_wait_for_their_cpus(millrace, task_storm, programs, need_root,
                                                                 need_tracefs, tmp_path, how):
    """The rings, which have room for some milliseconds of such a load, are never without a thread that is ready."""
    done = millrace('record', *how, '-a', '-e', 'sched:sched_process_exec', '-o',
                    tmp_path / 'p.data', '--', 'true', env={'LD_PRELOAD': str(programs / 'slow_threads.so')})
    assert re.search('; lost 0$', done.err, re.MULTILINE), done.err


def test_task_events_from_the_start_are_in_the_file(millrace, task_storm, need_root, need_tracefs, tmp_path):
    """What the kernel told while /proc was read stands behind it, in the order of time of each CPU."""
    millrace('record', '-a', '-e', 'sched:sched_process_exec', '-o', tmp_path / 'p.data', '--',
             *while_it_runs(task_storm.pid, 0.1))
    data, times = PerfData(tmp_path / 'p.data'), {}
    for record in data.records():
        if record.type == MMAP2 and struct.unpack_from('<I', record.body)[0] == task_storm.pid:
            time_ns, cpu = struct.unpack_from('<QI', record.body, len(record.body) - 24)
            times.setdefault(cpu, []).append(time_ns)
    made = [time_ns for of in times.values() for time_ns in of if time_ns]
    assert len(made) > 100
    for of in times.values():
        assert of == sorted(of)


@pytest.mark.alone
def test_renamed_threads(millrace, programs, need_root, tmp_path):
    file = tmp_path / 'p.data'
    millrace('record', '-a', '-e', 'cpu-clock', '-F', '10', '-o', file, '--', programs / 'taskstorm', '-t', '2000',
             '-n', '5')
    data = PerfData(file)
    renamed = sum(record.type == COMM and record.body[8:9] == b'n' for record in data.records())
    assert renamed >= 10000 and data.lost_samples() == 0


def test_lost_task_events_are_counted_apart(millrace, task_storm, need_root, need_tracefs, tmp_path):
    """With rings of a page: the event that carries them is not named, and the advice is an option that makes them
    larger."""
    file = tmp_path / 'p.data'
    for _ in range(20):
        done = millrace('record', '-a', '-e', 'sched:sched_process_exec', '--side-channel=1', '-o', file, '--', 'sleep',
                        '0.1')
        if lost := PerfData(file).lost_samples():
            break
    assert f'; lost 0; lost {lost} task event{"s" * (lost != 1)} (mmap, comm, fork, exit)\n' in done.err
    assert 'dummy' not in done.err
    assert re.search(r'lost \d+ task events? on CPU \d+: ring full \(4 KiB\)\n', done.err)
    assert re.search(r'larger rings for them, --side-channel=\d+[KM]\n', done.err) and 'covered' not in done.err
    text = millrace('report', '--loss', '-i', file).out
    assert f'# Lost task events (mmap, comm, fork, exit): {lost}\n' in text and '; lost: 0 (0.00 %)' in text
    assert 'covered: 100.0000 %' in text
    assert millrace('record', '--side-channel=many', 'true', status=129).err


def test_lost_task_events_of_each_file_are_counted_apart(millrace, task_storm, need_root, need_tracefs, tmp_path):
    for _ in range(20):
        done = millrace('record', '-a', '-e', 'sched:sched_process_exec', '--side-channel=1', '--switch-output=1s',
                        '-o', tmp_path / 'p.data', '--', 'sleep', '1.2')
        lines = [line for line in done.err.splitlines() if 'wrote ' in line and 'task event' in line]
        if lines:
            break
    pattern = r'.* MB; lost 0; lost [1-9]\d* task events? \(mmap, comm, fork, exit\)'
    assert lines and all(re.fullmatch(pattern, line) for line in lines), done.err


def test_size_of_side_rings(millrace, need_root, tmp_path):
    millrace('record', '-e', 'cpu-clock', '--side-channel=2M', '-m', '4', '-o', tmp_path / 'p.data', '--', 'true')
    millrace('record', '-e', 'cpu-clock', '--side-channel=on', '-o', tmp_path / 'p.data', '--', 'true')
