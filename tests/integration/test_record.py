# SPDX-License-Identifier: MIT
"""millrace record: targets, ends, outputs, exit statuses, and errors."""
import collections
import fcntl
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import TIMEOUT, child_of, cpu_seconds, sanitized, stat_of, threads_of, wait_until  # noqa: E402
import perf_file  # noqa: E402
from perfdata import COMM, FINISHED_INIT, FINISHED_ROUND, MMAP2, PerfData  # noqa: E402


@pytest.fixture
def file(tmp_path):
    return tmp_path / 'p.data'


def tids(data):
    return {sample.tid for sample in data.samples()}


def test_command(millrace, programs, file):
    done = millrace('record', '-e', 'cpu-clock', '-o', file, '--', programs / 'spin', '-t', '2', '-m', '200')
    data = PerfData(file)
    assert len(tids(data)) >= 2
    assert 'captured' in done.err and 'lost 0' in done.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    kinds = [record.type for record in data.records()]
    assert kinds.count(FINISHED_INIT) == 1 and kinds[-1] in (FINISHED_ROUND, 13)


def test_children_are_followed_unless_i_is_given(millrace, programs, file):
    command = ['sh', '-c', f'i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done; {programs}/spin -t 1 -m 100; :']
    millrace('record', '-e', 'cpu-clock', '-o', file, '--', *command)
    with_children = {sample.pid for sample in PerfData(file).samples()}
    millrace('record', '-i', '-e', 'cpu-clock', '-o', file, '--', *command)
    without = {sample.pid for sample in PerfData(file).samples()}
    assert len(with_children) == 2 and len(without) == 1


@pytest.mark.parametrize('how', ['-p', '-t'])
def test_running_task(millrace, programs, spawn, file, how):
    target = spawn([programs / 'spin', '-t', '2', '-m', '30000'])
    threads = threads_of(target.pid, 3)
    chosen = target.pid if how == '-p' else max(threads)
    millrace('record', '-e', 'cpu-clock', how, chosen, '-o', file, '--', 'sleep', '0.5')
    found = tids(PerfData(file))
    assert found == (threads - {target.pid} if how == '-p' else {chosen})


def test_recording_ends_with_its_target(recorder, programs, spawn, file):
    target = spawn([programs / 'spin', '-t', '2', '-m', '100000'])
    threads_of(target.pid, 3)  # those that begin while we attach may be missed
    recording = recorder(['-e', 'cpu-clock', '-p', target.pid, '-o', file])
    before = cpu_seconds(target.pid)
    wait_until(lambda: cpu_seconds(target.pid) > before + 0.1, 'the target gets some CPU time')
    target.kill()
    err = recording.communicate(timeout=TIMEOUT)[1]
    assert recording.returncode == 0 and tids(PerfData(file)), err


def test_per_thread(millrace, programs, spawn, file):
    target = spawn([programs / 'spin', '-t', '2', '-m', '30000'])
    threads_of(target.pid, 3)
    millrace('record', '-e', 'cpu-clock', '--per-thread', '-p', target.pid, '-o', file, '--', 'sleep', '0.3')
    data = PerfData(file)
    assert len(tids(data)) == 2 and len(data.attrs[0].ids) == 3


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason='one CPU')
@pytest.mark.parametrize('option', [[], ['--threads'], ['--switch-events']])
def test_a_task_that_comes_from_another_cpu_has_maps(millrace, file, option):
    here, other = sorted(os.sched_getaffinity(0))[:2]
    move = f'exec taskset -c {here} sh -c "while :; do :; done"'
    millrace('record', '-BN', '-e', 'cpu-clock', '-C', here, '-o', file, *option, '--',
             'timeout', '0.3', 'taskset', '-c', other, 'sh', '-c', move, status=None)
    records = millrace('script', '--show-mmap-events', '--show-switch-events', '-i', file).out.splitlines()
    moved = [line for line in records if f'[{other:03}]' in line]
    assert any('PERF_RECORD_MMAP2' in line and '/taskset' in line for line in moved)
    assert not [line for line in moved if 'SWITCH' in line or 'cpu-clock' in line]


@pytest.mark.parametrize('option', [['-a'], ['-C', '0'], ['-a', '-C', '0']])
def test_system_wide(millrace, need_root, programs, file, option):
    millrace('record', '-e', 'cpu-clock', *option, '-o', file, '--', programs / 'spin', '-t', '2', '-m', '200')
    cpus = {sample.cpu for sample in PerfData(file).samples()}
    assert cpus and (option == ['-a'] or cpus == {0})


def test_pipe(millrace, program, programs, tmp_path):
    saved = tmp_path / 'pipe.data'
    with open(saved, 'wb') as out:
        subprocess.run([program, 'record', '-e', 'cpu-clock', '-o', '-', '--', 'sh', '-c',
                        f'echo to stdout; {programs}/spin -t 1 -m 100'], stdout=out, check=True)
    data = PerfData(saved)
    assert data.pipe and list(data.samples())


def test_pipe_whose_reader_leaves(program, programs):
    done = subprocess.run(f'{program} record -e cpu-clock -F max -o - -- {programs}/spin -t 2 -m 100000 | head -c 100 '
                          '>/dev/null; echo ${PIPESTATUS[0]}', shell=True, executable='/bin/bash', timeout=TIMEOUT,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.stdout.strip() == '255' and 'Broken pipe' in done.stderr


def test_memory_of_a_pause_is_given_back(program, programs, spawn, need_tracefs, tmp_path):
    """What waited while the reader paused takes no memory half a minute later, though the recording goes on."""
    ours, theirs = os.pipe()
    recorder = spawn([program, 'record', '-q', '-e', 'syscalls:sys_enter_getppid', '-o', '-', '--', 'sh', '-c',
                      f'{programs}/syscalls -t 2 -n 500000; exec sleep 300'], stdout=theirs)
    os.close(theirs)

    def resident_mib():
        return int(re.search(r'VmRSS:\s+(\d+)', pathlib.Path(f'/proc/{recorder.pid}/status').read_text())[1]) >> 10

    before = resident_mib()
    wait_until(lambda: resident_mib() > before + 64, 'records wait')
    with open(tmp_path / 'pipe.data', 'wb') as out:
        with spawn(['cat'], stdin=ours, stdout=out):
            os.close(ours)
            wait_until(lambda: resident_mib() < before + 32, 'their memory is given back')
            recorder.send_signal(signal.SIGINT)
    assert recorder.wait() == -signal.SIGTERM
    assert 0 < sum(1 for _ in PerfData(tmp_path / 'pipe.data').samples()) <= 1000001  # one is the shell's


@pytest.mark.parametrize('options', [[], ['--threads'], ['--buffer-memory=8M'], ['-z'], ['-a']], ids=' '.join)
@pytest.mark.parametrize('how', [signal.SIGINT, signal.SIGTERM])
def test_pipe_that_is_not_read(program, spawn, need_tracefs, tmp_path, options, how):
    """It is full before the command begins: a signal ends the recorder, and the command never begins."""
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
    # Tests that run in the background are started with SIGINT ignored.
    recorder = spawn([program, 'record', *options, '-e', 'raw_syscalls:sys_enter', '-o', '-', '--', 'touch',
                      tmp_path / 'begun'],
                     stdout=theirs, preexec_fn=lambda: signal.signal(how, signal.SIG_DFL))
    os.close(theirs)
    wait_until(lambda: any(fcntl.ioctl(ours, termios.FIONREAD, bytes(4))), 'it writes')
    command = child_of(recorder)
    recorder.send_signal(how)
    assert recorder.wait(TIMEOUT) == -how
    wait_until(lambda: not os.path.exists(f'/proc/{command}'), 'the command ends')
    assert not (tmp_path / 'begun').exists()
    os.close(ours)


def test_old_output_is_kept(millrace, file):
    old = file.with_name(file.name + '.old')
    for text in ('first', 'second'):
        file.write_text(text)
        millrace('record', '-e', 'cpu-clock', '-o', file, '--', 'true')
        assert old.read_text() == text
    old.unlink()
    old.mkdir()
    (old / 'data').write_text('x')
    millrace('record', '-e', 'cpu-clock', '-o', file, '--', 'true')
    assert old.is_file()


@pytest.mark.parametrize('name', ['mine', 'mine.old'])
def test_directory_that_is_no_recording_is_left_alone(millrace, tmp_path, name):
    (tmp_path / name / 'deep').mkdir(parents=True)
    (tmp_path / name / 'precious').write_text('x')
    file = tmp_path / 'mine'
    if name != 'mine':
        file.write_text('recorded before')
    done = millrace('record', '-e', 'cpu-clock', '-o', file, '--', 'true', status=255)
    assert f'{tmp_path / name} is a directory and no recording' in done.err
    assert (tmp_path / name / 'precious').read_text() == 'x' and (tmp_path / name / 'deep').is_dir()
    assert name == 'mine' or file.read_text() == 'recorded before'


@pytest.mark.parametrize('old_is_a_directory', [False, True])
def test_recording_that_is_a_directory_is_kept(millrace, file, old_is_a_directory):
    old = file.with_name(file.name + '.old')
    file.mkdir()
    (file / 'data.0').write_text('x')
    if old_is_a_directory:
        old.mkdir()
        (old / 'header').write_text('y')
    else:
        old.write_text('y')
    millrace('record', '-e', 'cpu-clock', '-o', file, '--', 'true')
    assert file.is_file() and os.listdir(old) == ['data.0']


def test_old_output_behind_a_link_is_kept(millrace, tmp_path):
    (tmp_path / 'large').mkdir()
    real, link = tmp_path / 'large' / 'real', tmp_path / 'link'
    real.write_text('recorded before')
    link.symlink_to(real)
    millrace('record', '-e', 'cpu-clock', '-o', link, '--', 'true')
    assert real.with_name('real.old').read_text() == 'recorded before'
    assert link.is_symlink() and PerfData(real).end > 0


@pytest.mark.parametrize('command, status', [(['true'], 0), (['false'], 1), (['sh', '-c', 'exit 7'], 7),
                                             (['sh', '-c', 'kill -KILL $$'], -signal.SIGKILL)])
def test_exit_status_is_the_workloads(millrace, file, command, status):
    millrace('record', '-e', 'cpu-clock', '-o', file, '--', *command, status=status)
    assert PerfData(file).end > 0


def test_core_dump_is_the_commands_alone(program, file):
    def dump():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        pytest.skip('core dumps are limited')
    pid = os.fork()
    if not pid:
        dump()
        os.chdir(file.parent)
        os.execv(program, [str(program), 'record', '-q', '-e', 'cpu-clock', '-o', str(file), '--', 'sh', '-c',
                           'ulimit -c 0; kill -SEGV $$'])
    status = os.waitpid(pid, 0)[1]
    assert os.WTERMSIG(status) == signal.SIGSEGV and not os.WCOREDUMP(status)


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_finish_the_file(recorder, programs, file, number):
    recording = recorder(['-e', 'cpu-clock', '-o', file, '--', programs / 'spin', '-t', '2', '-m', '100000'])
    command = child_of(recording)
    wait_until(lambda: cpu_seconds(command) > 0.1, 'the command gets some CPU time')
    os.kill(recording.pid, number)
    err = recording.communicate(timeout=TIMEOUT)[1]
    assert recording.returncode == -signal.SIGTERM  # what ended the workload
    assert 'captured' in err and list(PerfData(file).samples())


def test_ignored_signals(recorder, need_root, file):
    """SIGHUP as nohup leaves it, SIGCHLD as some daemons do; the command finds both as they were."""
    def ignore():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    recording = recorder(['-a', '-e', 'cpu-clock', '-o', file, '--', '/usr/bin/python3', '-c',
                          'import sys, time; time.sleep(0.5); sys.exit(open("/proc/self/status").read())'],
                         preexec_fn=ignore)
    os.kill(recording.pid, signal.SIGHUP)
    err = recording.communicate(timeout=TIMEOUT)[1]
    assert recording.returncode == 1 and 'captured' in err
    ignored = int(re.search(r'SigIgn:\s*([0-9a-f]+)', err)[1], 16)
    assert ignored >> (signal.SIGCHLD - 1) & 1 and ignored >> (signal.SIGHUP - 1) & 1


def read_until(pipe, words):
    """What comes out of a pipe, as far as it takes to find these words in it."""
    said = ''
    while words not in said:
        ready, _, _ = select.select([pipe], [], [], TIMEOUT)
        piece = os.read(pipe.fileno(), 4096).decode() if ready else ''
        assert piece, f'no "{words}" in: {said}'
        said += piece
    return said


@pytest.mark.parametrize('stop', ['trap "" INT TERM; : >ready', 'kill -STOP $$', 'trap "" INT TERM; kill -STOP $$'])
def test_command_that_does_not_end(recorder, tmp_path, file, stop):
    recording = recorder(['-e', 'cpu-clock', '-o', file, '--', 'sh', '-c', f'{stop}; while :; do sleep 1; done'],
                         cwd=tmp_path)
    command = child_of(recording)
    wait_until(lambda: stat_of(command)[0] == 'T' if 'STOP' in stop else (tmp_path / 'ready').exists(), stop)
    os.kill(recording.pid, signal.SIGINT)
    if 'trap' in stop:
        read_until(recording.stderr, 'another Ctrl-C kills it')
        os.kill(recording.pid, signal.SIGINT)
    err = recording.communicate(timeout=TIMEOUT)[1]
    assert recording.returncode == -(signal.SIGKILL if 'trap' in stop else signal.SIGTERM)
    assert 'captured' in err and PerfData(file).end > 0
    assert 'another Ctrl-C kills it' not in err


def test_command_outlives_its_first_thread(millrace, file):
    """With -i no task is recorded any more, but the command is not ours to end."""
    code = ('import ctypes, os, threading, time\n'
            'def rest():\n time.sleep(1)\n os._exit(5)\n'
            'threading.Thread(target=rest).start()\n'
            'ctypes.CDLL(None).syscall(60, 0)\n')  # exit(2), of this thread
    millrace('record', '-i', '-e', 'cpu-clock', '-o', file, '--', '/usr/bin/python3', '-c', code, status=5)


def test_fifo_without_a_reader(program, spawn, tmp_path):
    fifo = tmp_path / 'fifo'
    os.mkfifo(fifo)
    recorder = spawn([program, 'record', '-e', 'cpu-clock', '-o', fifo, '--', 'touch', tmp_path / 'ran'])
    time.sleep(0.7)
    assert recorder.poll() is None
    os.kill(recorder.pid, signal.SIGINT)
    assert recorder.wait(TIMEOUT) == -signal.SIGINT and not (tmp_path / 'ran').exists()


def test_fifo(program, spawn, tmp_path):
    """The recording goes into the FIFO, and standard output stays the command's."""
    fifo, saved = tmp_path / 'fifo', tmp_path / 'saved'
    os.mkfifo(fifo)
    recorder = spawn([program, 'record', '-e', 'cpu-clock', '-o', fifo, '--', 'echo', 'hello'], stdout=subprocess.PIPE)
    saved.write_bytes(fifo.read_bytes())
    assert recorder.communicate(timeout=TIMEOUT)[0] == b'hello\n' and recorder.returncode == 0
    assert PerfData(saved).pipe


def test_interrupted_system_wide(recorder, need_root, file):
    recording = recorder(['-a', '-e', 'cpu-clock', '-o', file])
    os.kill(recording.pid, signal.SIGINT)
    err = recording.communicate(timeout=TIMEOUT)[1]
    assert recording.returncode == -signal.SIGINT, err
    assert PerfData(file).features & (1 << 12)


@pytest.mark.parametrize('args', [['--writer=null'], ['-o', '/dev/null']])
def test_to_nowhere(millrace, tmp_path, args):
    (tmp_path / 'perf.data').write_text('precious')
    done = millrace('record', *args, '-e', 'cpu-clock', '--', 'true', cwd=tmp_path)
    assert done.err.count('\n') == 1 and 'in /dev/null' in done.err
    assert [path.name for path in tmp_path.iterdir()] == ['perf.data']
    assert (tmp_path / 'perf.data').read_text() == 'precious'


def test_delay(millrace, programs, file):
    millrace('record', '-e', 'cpu-clock', '-F', '1000', '-D', '400', '-o', file, '--', programs / 'spin', '-t', '1',
             '-m', '800')
    # Of 800 ms of CPU time those in the first 400 ms are not seen: fewer than that when others have the CPU, too.
    assert 0 < len(list(PerfData(file).samples())) < 790
    millrace('record', '-e', 'cpu-clock', '-D', '-1', '-o', file, '--', 'true')
    assert not list(PerfData(file).samples())


def test_workload_is_known_by_name(millrace, programs, file):
    millrace('record', '-e', 'cpu-clock', '-o', file, '--', programs / 'spin', '-t', '1', '-m', '50')
    names = [record.body[8:].split(b'\0')[0] for record in PerfData(file).records() if record.type == COMM]
    assert names[0] == b'perf-exec' and b'spin' in names


ERRORS = [
    (['-e', 'cpu-clokc', '--', 'true'], 129, 'cpu-clock'),
    (['-e', 'sched:sched_swich', '--', 'true'], 129, 'sched_switch'),
    (['-F', '0', '--', 'true'], 129, 'frequency'),
    (['-F', '10', '-c', '10', '--', 'true'], 129, 'exclude'),
    (['-m', 'x', '--', 'true'], 129, 'pages'),
    (['--call-graph', 'foo', '--', 'true'], 129, 'dwarf'),
    ([], 129, 'nothing to record'),
    (['-e', 'cpu-clock', '--', './does-not-exist'], 255, './does-not-exist: No such file'),
    (['-e', 'cpu-clock', '--', '/etc/passwd'], 255, 'Permission denied'),
    (['-e', 'cpu-clock', '-p', '999999999', '--', 'true'], 255, 'process 999999999 does not exist'),
    (['-e', 'cpu-clock', '-t', '999999999', '--', 'true'], 255, 'thread 999999999 does not exist'),
    (['-e', 'cpu-clock', '-p', 'x', '--', 'true'], 129, 'list of numbers'),
    (['-e', 'cpu-clock', '-C', '99', '--', 'true'], 255, 'CPU 99 is not online'),
    (['-e', 'cpu-clock', '-o', '/does/not/exist', '--', 'true'], 255, 'directory /does/not does not exist'),
    (['-e', 'cpu-clock', '-o', '', '--', 'true'], 129, 'option -o: the name is empty'),
    (['-e', 'cpu-clock', '-b', '--', 'true'], 255, 'branch stacks (-b, -j) need a hardware event'),
    (['-e', 'cpu-clock', '--call-graph', 'lbr', '--', 'true'], 255, 'use --call-graph fp or dwarf'),
    (['-e', 'cpu-clock', '-o', '/proc/none', '--', 'true'], 255, 'cannot create /proc/none: No such file or directory'),
]


@pytest.mark.parametrize('args, status, words', ERRORS, ids=[' '.join(args) or 'nothing' for args, _, _ in ERRORS])
def test_errors_are_one_line(millrace, need_tracefs, tmp_path, args, status, words):
    (tmp_path / 'perf.data').write_text('precious')
    done = millrace('record', *args, status=status, cwd=tmp_path)
    lines = [line for line in done.err.splitlines() if line.startswith('millrace: ')]
    assert len(lines) == 1 and words in lines[0], done.err
    assert (tmp_path / 'perf.data').read_text() == 'precious'  # whatever failed, it failed before that
    assert not done.out


def test_quiet_and_verbose(millrace, file):
    assert millrace('record', '-q', '-e', 'cpu-clock', '-o', file, '--', 'true').err == ''
    err = millrace('record', '-v', '-e', 'cpu-clock', '-o', file, '--', 'true').err
    assert 'rings of' in err and 'wake-ups' in err


def test_cycles_fall_back_with_one_line(millrace, file):
    if any(os.path.exists(f'/sys/bus/event_source/devices/{pmu}') for pmu in ('cpu', 'cpu_core', 'armv8_pmuv3_0')):
        pytest.skip('this machine has a hardware PMU')
    err = millrace('record', '-o', file, '--', 'true').err
    assert sum('cpu-clock' in line for line in err.splitlines()) == 1
    assert PerfData(file).attrs[0].type == 1


@pytest.fixture
def unprivileged(need_root, steady_sysctl, run, program):
    """unprivileged(args) runs a copy of the program without any privilege, in a directory that anybody may enter."""
    with tempfile.TemporaryDirectory(dir='/tmp') as directory:
        os.chmod(directory, 0o777)
        own = pathlib.Path(shutil.copy(program, directory))
        own.chmod(0o755)
        drop = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups']
        yield lambda *args, **keywords: run([*drop, own, *args], cwd=directory, **keywords)


@pytest.mark.parametrize('args', [['-a', '-e', 'cpu-clock'], ['-e', 'cpu-clock:k']])
def test_no_permission_says_what_would_give_it(unprivileged, args):
    if int(pathlib.Path('/proc/sys/kernel/perf_event_paranoid').read_text()) < 2:
        pytest.skip('kernel.perf_event_paranoid allows it here')
    done = unprivileged('record', *args, '-o', 'x', '--', 'true', status=255)
    lines = done.err.splitlines()
    assert len(lines) == 1 and 'perf_event_paranoid' in lines[0] and 'CAP_PERFMON' in lines[0], done.err


def test_own_program_without_privilege(unprivileged, programs):
    if int(pathlib.Path('/proc/sys/kernel/perf_event_paranoid').read_text()) > 2:
        pytest.skip('kernel.perf_event_paranoid allows nothing here')
    done = unprivileged('record', '-e', 'cpu-clock', '-o', 'x', '--',
                        'sh', '-c', 'i=0; while [ $i -lt 99999 ]; do i=$((i+1)); done')
    assert 'captured' in done.err and 'captured 0' not in done.err


def test_ring_that_the_limits_refuse(unprivileged):
    done = unprivileged('record', '-e', 'cpu-clock', '-m', '64M', '-o', 'x', '--', 'true', status=255)
    assert re.search(r'-m \d+K would fit', done.err), done.err


def test_maps_that_only_claim_a_build_id(millrace, programs, need_root, tmp_path):
    """So the kernel writes them while another recorder wants build-ids: the flag is set, device and inode are in
    place."""
    file = tmp_path / 'x.data'
    millrace('record', '-e', 'cpu-clock:u', '-o', file, '--', programs / 'spin', '-t', '1', '-m', '50')
    report = millrace('report', '-i', file).out
    assert 'spin_left' in report
    data = bytearray(file.read_bytes())
    maps = [record for record in PerfData(file).records() if record.type == MMAP2]
    assert maps
    for record in maps:
        struct.pack_into('<H', data, record.offset + 4, record.misc | 1 << 14)
    file.write_bytes(data)
    assert millrace('report', '-i', file).out == report


def test_maps_that_only_claim_a_build_id_are_shown(millrace, tmp_path):
    """Of a file on a loop device, and of one that has a build-id."""
    file = tmp_path / 'x.data'

    def mmap2(path, file_or_id):
        body = struct.pack('<2I3Q24s2I16s', 7, 7, 0x1000, 0x1000, 0, file_or_id, 5, 2, path)
        return struct.pack('<IHH', MMAP2, 1 << 14 | 2, 8 + len(body)) + body
    records = mmap2(b'/on/loop', struct.pack('<2I2Q', 7, 3, 0x12345, 0)) + \
        mmap2(b'/with/id', bytes([20, 0, 0, 0]) + bytes(range(20)))
    file.write_bytes(perf_file.build([perf_file.attr(type=1, sample_period=1, sample_type=3)], {}, records=records))
    shown = millrace('report', '-D', '-i', file).out
    assert ' 07:03 74565 0]: r-xp /on/loop' in shown, shown
    assert f' <{bytes(range(20)).hex()}>]: r-xp /with/id' in shown, shown


def test_uring_is_refused_by_name(millrace):
    done = millrace('record', '--writer=uring,blocks=4', '--', 'true', status=129)
    assert 'no writer "uring"' in done.err and 'aio,blocks=N' in done.err


def test_interpreter_is_missing(millrace, tmp_path):
    """execve(2) says that the script is missing."""
    script = tmp_path / 'needs-interpreter'
    script.write_text('#! /no/such/interpreter -x\n')
    script.chmod(0o755)
    (tmp_path / 'perf.data').write_text('precious')
    for command, env in ('./needs-interpreter', {}), ('needs-interpreter',
                                                      {'PATH': f'{tmp_path}:{os.environ["PATH"]}'}):
        err = millrace('record', '-e', 'cpu-clock', '--', command, status=255, cwd=tmp_path, env=env).err
        assert '/needs-interpreter: the interpreter of its first line, /no/such/interpreter: No such file' in err
        assert err.count('\n') == 1
    assert (tmp_path / 'perf.data').read_text() == 'precious'


@pytest.mark.parametrize('options', ['', '-a', '-z', '--threads', '--switch-output', '--timestamp-filename', '-D 1'])
def test_command_that_its_exec_refuses(millrace, tmp_path, file, options):
    """Which is told when everything is open, and the events are on."""
    command = tmp_path / 'command'
    shutil.copy('/bin/true', command)
    data = command.read_bytes()
    loader = re.search(rb'/lib[^\0]*/ld[^\0]*', data)
    if not loader:
        pytest.skip('/bin/true names no loader')
    file.write_text('precious')
    file.with_name(file.name + '.old').write_text('kept before')

    def refused():
        before = {path.name: (path.stat().st_ino, path.read_bytes()) for path in tmp_path.iterdir()}
        err = millrace('record', '-B', '-e', 'cpu-clock', '-o', file, *options.split(), '--', command,
                       status=255).err
        assert {path.name: (path.stat().st_ino, path.read_bytes()) for path in tmp_path.iterdir()} == before
        assert err.count('\n') == 1, err
        return err
    with open(command, 'r+b'):
        assert 'Text file busy' in refused()
    command.write_bytes(data.replace(loader[0], b'/no' + loader[0][3:]))
    assert 'the loader that it names' in refused()


@pytest.mark.parametrize('path', [':/bin', '/bin:', '/bin::/usr/bin', ''])
def test_working_directory_in_path(millrace, tmp_path, path):
    """An empty word stands for it, as for execvp(3)."""
    (tmp_path / 'own-program').write_text('#!/bin/sh\necho it runs\n')
    (tmp_path / 'own-program').chmod(0o755)
    done = millrace('record', '-e', 'cpu-clock', '-o', 'p.data', '--', 'own-program', cwd=tmp_path, env={'PATH': path})
    assert done.out == 'it runs\n'


def test_interpreter_is_found_behind(millrace, tmp_path):
    """A later directory of PATH has a program that can be run, as for execvp(3)."""
    (tmp_path / 'true').write_text('#!/no/such/interpreter\n')
    (tmp_path / 'true').chmod(0o755)
    millrace('record', '-e', 'cpu-clock', '-o', tmp_path / 'data', '--', 'true',
             env={'PATH': f'{tmp_path}:{os.environ["PATH"]}'})


def test_tail_synthesize_of_a_command_that_ended(millrace, file):
    done = millrace('record', '--tail-synthesize', '-e', 'cpu-clock', '-o', file, '--', 'true')
    assert done.err.count('\n') == 1 and 'captured' in done.err
    names = [record.body[8:].split(b'\0')[0] for record in PerfData(file).records() if record.type == COMM]
    assert b'true' in names


@pytest.mark.parametrize('name', ['SIGQUIT', 'SIGALRM', 'SIGUSR1'])
def test_other_signals_finish_the_file(recorder, file, name):
    recording = recorder(['-a', '-e', 'cpu-clock', '-o', file])
    os.kill(recording.pid, getattr(signal, name))
    err = recording.communicate(timeout=TIMEOUT)[1]
    assert recording.returncode == -getattr(signal, name) and 'captured' in err, err
    assert PerfData(file).features & (1 << 12)


def test_command_that_goes_on(recorder, file):
    """What is waited for is said, and a snapshot's signal does not kill it, but another SIGINT does."""
    recording = recorder(['-e', 'cpu-clock', '-o', file, '--', 'sh',
                          '-c', 'trap "" INT TERM; while :; do sleep 0.1; done'],
                         stdout=subprocess.DEVNULL)
    command = child_of(recording)

    def ignores():
        status = pathlib.Path(f'/proc/{command}/status').read_text()
        return int(re.search(r'SigIgn:\s*(\w+)', status).group(1), 16) & 1 << signal.SIGTERM - 1
    wait_until(ignores, 'the command ignores SIGTERM')
    os.kill(recording.pid, signal.SIGINT)
    line = recording.stderr.readline()
    assert f'waiting for the command (pid {command})' in line and 'another Ctrl-C kills it' in line
    os.kill(recording.pid, signal.SIGUSR2)
    time.sleep(0.1)
    assert recording.poll() is None
    os.kill(recording.pid, signal.SIGINT)
    err = recording.communicate(timeout=TIMEOUT)[1]
    assert recording.returncode == -signal.SIGKILL and 'captured' in err, err
    assert PerfData(file).features & (1 << 12)


def test_what_drains_stays_in_memory(recorder, need_root, file):
    """Or a thread that drains waits, beside other programs' files, until a busy disk has read its program again."""
    process = recorder(['-a', '-e', 'cpu-clock', '-o', file])
    status = pathlib.Path(f'/proc/{process.pid}/status').read_text()
    locked_kib = int(re.search(r'^VmLck:\s*(\d+) kB', status, re.M).group(1))
    if not locked_kib and resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == 0:
        pytest.skip('no memory may be locked here (ulimit -l)')
    assert locked_kib > 0


@pytest.mark.skipif(not shutil.which('strace'), reason='strace is not installed')
def test_the_start_and_the_end_read_no_file_again(run, program, file, tmp_path):
    """Each costs 5 to 40 us of CPU time, and a recording of a moment is little else."""
    calls = tmp_path / 'calls'
    # Looking for leaks takes ptrace(2), as strace does.
    run(['strace', '-f', '-e', 'trace=openat', '-o', calls, program, 'record', '-g', '-e', 'cpu-clock',
         '-p', str(os.getpid()), '-o', file, '--', 'true'], env={**os.environ, 'ASAN_OPTIONS': 'detect_leaks=0'})
    opened = collections.Counter(re.findall(r'openat\([^"]*"([^"]+)"', calls.read_text()))
    most = {'/proc/cpuinfo': 2, '/proc/self/maps': 1, '/proc/self/mounts': 1,
            '/sys/devices/system/node/node0/meminfo': 1}
    assert not {path: nr for path, nr in opened.items() if nr > most.get(path, nr)}
    missing = re.findall(r'"(/sys/devices/system/cpu/cpu0/cache/[^"]*)".* = -1 ENOENT', calls.read_text())
    assert len(missing) <= 1


@pytest.mark.skipif(sanitized(), reason='sanitizers need larger stacks')
def test_a_small_stack(run, program, tmp_path):
    """`ulimit -s 64`, which threads have as well."""
    path = tmp_path / 'perf.data'
    small = ['prlimit', '--stack=65536', program]
    run([*small, 'record', '-g', '-o', path, '-e', 'cpu-clock', '--', 'true'])
    assert 'cpu-clock' in run([*small, 'report', '--stdio', '-i', path]).out
    run([*small, 'export', '--format', 'perfetto', '-i', path, '-o', tmp_path / 'out'])
