# SPDX-License-Identifier: MIT
"""
SIGKILL at random moments of recordings in all modes: every file that is left is whole or can be made whole, nothing is
in it twice, nothing is missing but what was not yet written, and nothing else is left behind. SEED=N repeats a run,
KILLS=N says how many.
"""
import contextlib
import ctypes
import math
import mmap
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import time
import typing

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import sanitized, wait_until  # noqa: E402
from law import loss_of, main_file  # noqa: E402

WRITERS = ['serial', 'mmap', 'aio', 'direct']
LAYOUTS = [[], [], ['--threads'], ['--threads', '--single-file']]
PACKS = [[], [], ['-z'], ['--buffer-memory=8M'], ['--on-pressure=freeze', '--buffer-memory=2M']]
OUTPUTS = ['file', 'file', 'file', 'rotation', 'rotation', 'flight', 'pipe']


def mode_of(rng):
    """Options, and where the output goes."""
    output = rng.choice(OUTPUTS)
    options = [f'--writer={rng.choice(WRITERS)}', *rng.choice(PACKS)] if output != 'pipe' else [*rng.choice(PACKS)]
    layout = rng.choice(LAYOUTS)
    if output == 'flight':
        options += ['--flight=1s,4M']
    elif output == 'rotation':
        options += layout + ['--switch-output=2M' if rng.random() < 0.5 else '--switch-output=signal']
    elif output == 'file' or layout != ['--threads']:
        options += layout
    if rng.random() < 0.2:
        options += ['--sync=0.05']
    return options, output


def processes_of(run):
    """(pid, name, state) of what is left of it: --on-pressure=freeze gives the work a session of its own."""
    left = []
    for path in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            if f'KILL_RUN={run}\0'.encode() in (path / 'environ').read_bytes():
                name, state = re.match(r'\d+ \((.*)\) (\w)', (path / 'stat').read_text(), re.DOTALL).groups()
                left.append((int(path.name), name, state))
        except OSError:  # it has ended
            pass
    return left


def committed(path):
    """Bytes of records that the header tells of; None: there is no header yet."""
    head = main_file(path).read_bytes()[:104] if main_file(path).exists() else b''
    return struct.unpack_from('<Q', head, 48)[0] if len(head) == 104 and head[:8] == b'PERFILE2' else None


class Call(typing.NamedTuple):
    tid: int
    number: int
    cpu: int
    time: int
    file: int  # of those that the recorder wrote one after the other


CALL = re.compile(r'^ *(\d+) +\[(\d+)\] +(\d+)\.(\d{9}): +NR 110 \((\w+),', re.M)


def calls_in(millrace, perf, path, file):
    """All calls of a recording; perf reads as many samples."""
    text = millrace('script', '--ns', '-F', 'tid,cpu,time,trace', '-i', path).out
    assert perf('script', '-F', 'tid', '-i', path).out.count('\n') == text.count('\n')
    return [Call(int(tid), int(number, 16), int(cpu), int(seconds + nanoseconds), file)
            for tid, cpu, seconds, nanoseconds, number in CALL.findall(text)]


def unwritten(ring, torn):
    """When that was what a ring had, of which all is in each file up to some time, and was not yet written: (from,
    to)."""
    return [(max((call.time for call in ring if call.file <= file), default=0),
             min((call.time for call in ring if call.file > file), default=math.inf)) for file in torn]


def missing_between(before, after, unwritten_times):
    """Calls of a thread, but not where they may have been in a ring, and not yet written."""
    if any(begin < after.time and end > before.time for begin, end in unwritten_times):
        return 0
    return after.number - before.number - 1


def check_run(calls, lost, pinned, torn, begins=True):
    """
    Nothing twice, and nothing is missing but what is known to be lost and what was not yet written of the files that
    are torn. What a thread did that keeps to its CPU is in the ring of that, of others it may be in any.
    """
    assert len({(call.tid, call.number) for call in calls}) == len(calls), 'twice'
    rings, threads, missing = {cpu: [] for cpu in os.sched_getaffinity(0)}, {}, 0
    for call in sorted(calls):
        rings[call.cpu].append(call)
        threads.setdefault(call.tid, [call._replace(number=-1, time=0)] if begins else []).append(call)
    times = {cpu: unwritten(ring, torn) for cpu, ring in rings.items()}
    for of in threads.values():
        of_rings = times[of[0].cpu] if pinned else sum(times.values(), [])
        missing += sum(missing_between(*two, of_rings) for two in zip(of, of[1:]))
    assert missing <= lost, f'{missing} missing, {lost} known to be lost'


TRACING_DATA = 66


def cut_part_of_record(millrace, path):
    """
    The last write(2) into a pipe may have been cut short by SIGKILL: then the stream ends in a part of a record. It is
    read all the same, and one line says so; here the part is taken off.
    """
    stream, at = path.read_bytes(), 16
    while at + 8 <= len(stream):
        kind, _misc, size = struct.unpack_from('<IHH', stream, at)
        outside = struct.unpack_from('<I', stream, at + 8)[0] if kind == TRACING_DATA and at + 12 <= len(stream) else 0
        if at + size + outside > len(stream):
            break
        at += size + outside
    if at >= len(stream):
        return
    done = millrace('script', '-F', 'tid', '-i', path, status=255)
    assert done.err.count('\n') == 1 and re.search('offset 0x[0-9a-f]+: .*(cut off|ends)', done.err), done
    path.write_bytes(stream[:at])
    assert millrace('script', '-F', 'tid', '-i', path).out == done.out


def check_file(millrace, perf, path, file):
    """Whole, or made whole. Returns the calls and the losses, or None where the recorder had not got to its first
    record."""
    before = committed(path)
    done = millrace('recover', path, status=None)
    if done.status:
        assert not before and ('no record is left' in done.err or before is None), done
        return None
    assert before is None or committed(path) >= before or path.is_dir()
    return calls_in(millrace, perf, path, file), loss_of(millrace, path)['lost']


def takes(pid, number):
    """Blocked: by a recorder, which takes it from a signalfd(2)."""
    try:
        text = pathlib.Path(f'/proc/{pid}/status').read_text()
    except OSError:
        return False
    return bool(int(re.search(r'SigBlk:\s*(\w+)', text)[1], 16) >> (number - 1) & 1)


def kill_one(millrace, program, programs, perf, spawn, directory, rng):
    """Returns what was found."""
    options, output = mode_of(rng)
    path, calls, pinned = directory / 'p', rng.choice([20000, 50000, 10**9]), rng.random() < 0.7
    words = [program, 'record', *options, '-o', '-' if output == 'pipe' else path, '--sample-cpu',
             '-e', 'dummy,raw_syscalls:sys_enter', '--', programs / 'syscalls', '-t', '2', '-n', calls,
             '-c', int(pinned)]
    moment = rng.random() * 0.5
    print(f'kill after {moment:.6f} s:', *words[1:])
    began = time.monotonic()
    with (directory / 'p').open('wb') if output == 'pipe' else open(os.devnull, 'wb') as out:
        process = spawn(words, stdout=out, stderr=subprocess.DEVNULL, env={**os.environ, 'KILL_RUN': str(directory)})
    while (left := began + moment - time.monotonic()) > 0:
        time.sleep(min(left, rng.random() * 0.1))
        if output in ('rotation', 'flight') and rng.random() < 0.5 and takes(process.pid, signal.SIGUSR2):
            process.send_signal(signal.SIGUSR2)
    process.kill()
    process.wait()
    # Who guards what was stopped lets it go on, and goes.
    wait_until(lambda: all(name != 'millrace' and state != 'T' for _, name, state in processes_of(directory)),
               'nothing is left')
    for pid, *_ in processes_of(directory):
        os.kill(pid, signal.SIGKILL)
    return check_rest(millrace, perf, directory, output, pinned)


def check_rest(millrace, perf, directory, output, pinned):
    # Killed between the making of an output and its name: it is empty, and no output yet.
    for path in directory.glob('.millrace-????????????????'):
        assert not path.stat().st_size
        path.unlink()
    files = sorted(directory.iterdir(), key=lambda path: (path.name == 'p', path.name))
    assert all(re.fullmatch(r'p(\.\d+(\.part)?)?', path.name) for path in files), files
    assert all(not path.name.endswith('.part') for path in files) or output in ('rotation', 'flight')
    calls, lost, found = [], 0, 'nothing'
    torn = [file for file, path in enumerate(files) if path.name.endswith('.part') or path == files[-1]]
    for file, path in enumerate(files):
        if output == 'pipe':
            if path.stat().st_size > 4096:
                cut_part_of_record(millrace, path)
            whole = path.stat().st_size > 4096 and (calls_in(millrace, perf, path, file),
                                                    loss_of(millrace, path)['lost'])
        else:
            whole = check_file(millrace, perf, path, file)
        if not whole:
            continue
        found = f'{len(files)} files'
        if output == 'flight':
            check_run(*whole, pinned, [file] if path.name.endswith('.part') else [], begins=False)
        else:
            calls += whole[0]
            lost += whole[1]
    if output != 'flight':
        check_run(calls, lost, pinned, torn)
    return found


def kill_many(millrace, program, programs, perf, spawn, tmp_path, kills):
    seed = int(os.environ.get('SEED', random.randrange(1 << 32)))
    print(f'SEED={seed}')
    rng, found = random.Random(seed), {}
    for run in range(int(os.environ.get('KILLS', kills))):
        directory = tmp_path / f'{run}'
        directory.mkdir()
        what = kill_one(millrace, program, programs, perf, spawn, directory, rng)
        found[what] = found.get(what, 0) + 1
        subprocess.run(['rm', '-rf', directory], check=True)
    print(found)


def test_kill(millrace, program, programs, perf, spawn, need_tracefs, tmp_path):
    kill_many(millrace, program, programs, perf, spawn, tmp_path, 12 if not sanitized() else 5)


@pytest.mark.lab
def test_kill_200(millrace, program, programs, perf, spawn, need_tracefs, tmp_path):
    kill_many(millrace, program, programs, perf, spawn, tmp_path, 200)


GETPPID = 110  # whose arguments the kernel ignores: x86-64
PROMISED_S = 1.0  # millrace-record(1)
COMMITTED = {
    'serial': ['--writer=serial'],
    'aio': ['--aio=4'],
    'mmap': ['--mmap-output'],
    'direct': ['--writer=direct'],
    'zstd': ['-z'],
    'zstd-slow': ['-z19'],
    'zstd-aio': ['-z', '--aio=4'],
    'zstd-mmap': ['-z', '--mmap-output'],
    'zstd-direct': ['-z', '--writer=direct'],
    'memory': ['--buffer-memory=8M'],
    'threads': ['--threads'],
    'threads-direct': ['--threads', '--writer=direct'],
    'threads-mmap': ['--threads', '--mmap-output'],
    'threads-zstd': ['--threads', '-z'],
    'one-file': ['--threads', '--single-file'],
    'one-file-direct': ['--threads', '--single-file', '--writer=direct'],
    'one-file-zstd': ['--threads', '--single-file', '-z'],
    'switched': ['--switch-output=1s'],
    'switched-direct': ['--switch-output=1s', '--writer=direct'],
    'switched-zstd': ['--switch-output=1s', '-z'],
    'off-cpu': ['--off-cpu', '--call-graph=unwind'],
    'off-cpu-zstd': ['--off-cpu', '--call-graph=unwind', '-z'],
    'threads-off-cpu': ['--threads', '--off-cpu', '--call-graph=unwind', '-z'],
    'one-file-off-cpu': ['--threads', '--single-file', '--off-cpu', '--call-graph=unwind', '-z'],
    'pipe': ['-o', '-'],
    'pipe-zstd': ['-o', '-', '-z'],
}


@contextlib.contextmanager
def load_of(cpus, path):
    """
    A list, filled at its end: how long at most a thread on each CPU waited for the CPU and the storage of a block. The
    recorder has threads on all CPUs, and stores past the page cache with --writer=direct.
    """
    stop, longest = threading.Event(), []

    def watch(cpu):
        os.sched_setaffinity(0, {cpu})
        with mmap.mmap(-1, 4096) as block, open(path, 'wb', opener=direct_if_possible) as file:
            times = [time.monotonic()]
            while not stop.wait(0.01):
                os.pwrite(file.fileno(), block, cpu * 4096)
                times.append(time.monotonic())
        longest.append(max((b - a for a, b in zip(times, times[1:])), default=math.inf))

    threads = [threading.Thread(target=watch, args=[cpu]) for cpu in cpus]
    for thread in threads:
        thread.start()
    try:
        yield longest
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def direct_if_possible(path, flags):
    try:
        return os.open(path, flags | os.O_DIRECT, 0o600)
    except OSError:
        return os.open(path, flags, 0o600)


def call_for(seconds, cpus):
    """Numbered calls of this thread, every 10 ms. Returns when each was made."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    call, times = ctypes.CDLL(None).syscall, []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        times.append(time.monotonic())
        call(GETPPID, ctypes.c_ulong(len(times) - 1), *[ctypes.c_ulong(0)] * 5)  # a record that ends with zeroes
        time.sleep(0.01)
    os.sched_setaffinity(0, before)
    return times


def numbers_in(millrace, path, recover):
    """Of the calls of this thread that can be read."""
    if recover:
        done = millrace('recover', path, status=None)
        if done.status:  # a part that had just begun
            assert 'no record is left' in done.err, done
            return []
    else:
        cut_part_of_record(millrace, path)
    lines = millrace('script', '-F', 'tid,trace', '-i', path).out.splitlines()
    found = (re.match(rf' *{threading.get_native_id()}:? .*NR {GETPPID} \((\w+),', line) for line in lines)
    return [int(match[1], 16) for match in found if match]


def check_committed(millrace, recorder, directory, options, cpus=None, idle=0):
    """Kills a recorder at work. What is older than a second is in what it leaves, once."""
    directory.mkdir(exist_ok=True)
    pipe = '-' in options
    events = ['raw_syscalls:sys_enter', '--filter', f'id=={GETPPID} && common_pid=={threading.get_native_id()}']
    with (directory / 'p').open('wb') if pipe else open(os.devnull, 'wb') as out:
        process = recorder(['-a', '-e', *events, *options, *([] if pipe else ['-o', directory / 'p'])], stdout=out)
        with load_of(os.sched_getaffinity(0), directory.with_name('load')) as longest:
            times = call_for(2.5 + random.random(), cpus or os.sched_getaffinity(0))
            time.sleep(idle)
            killed = time.monotonic()
            process.kill()
        process.wait()
    found = sorted(number for path in sorted(directory.iterdir()) for number in numbers_in(millrace, path, not pipe))
    # The recorder's threads may have waited as long at another moment.
    late = 2 * max(*longest, 0.1)
    wanted = [number for number, made in enumerate(times) if made < killed - PROMISED_S - late]
    newest = killed - times[found[-1]] if found else math.inf
    print(f'{len(found)} of {len(times)} calls, the newest is {newest:.3f} s old; {late:.3f} s for the load of the '
          'machine')
    assert len(wanted) > 20 or late > 0.5, 'too much load to tell'
    assert len(set(found)) == len(found), 'twice'
    missing = sorted(set(wanted) - set(found))
    assert not missing, f'missing: {[f"{number}, {killed - times[number]:.3f} s old" for number in missing]}'


@pytest.mark.parametrize('mode', COMMITTED)
def test_commit(millrace, recorder, need_tracefs, tmp_path, mode):
    """At a rate at which no ring ever wakes its reader, and no block or extent fills."""
    check_committed(millrace, recorder, tmp_path / 'd', COMMITTED[mode])


@pytest.mark.parametrize('mode', ['serial', 'mmap', 'aio', 'direct', 'zstd-direct', 'threads-mmap', 'one-file-zstd',
                                  'switched', 'pipe'])
def test_commit_to_the_last(millrace, recorder, need_tracefs, tmp_path, mode):
    """Nothing pushes the last records out of where they wait."""
    check_committed(millrace, recorder, tmp_path / 'd', COMMITTED[mode], idle=PROMISED_S + 0.5)


@pytest.mark.parametrize('mode', ['serial', 'direct', 'zstd', 'one-file', 'threads-zstd'])
def test_commit_beside_load(millrace, recorder, spawn, programs, need_tracefs, tmp_path, mode):
    """The reader is woken often, by the ring of another CPU."""
    here, *others = sorted(os.sched_getaffinity(0))
    if not others:
        pytest.skip('a ring is busy and another one is not: that takes two CPUs')
    spawn(['taskset', '-c', str(others[-1]), programs / 'spin', '-t', '1', '-m', '60000'], stdout=subprocess.DEVNULL)
    options = [*COMMITTED[mode], '-e', 'cpu-clock:u', '-F', '5000', '-m', '256K']
    check_committed(millrace, recorder, tmp_path / 'd', options, {here})
