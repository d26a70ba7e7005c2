# SPDX-License-Identifier: MIT
"""`record --off-cpu`: the same waits by every kind of output, of every kind of target, for root and for other users."""
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import threads_of, wait_until  # noqa: E402
from off_cpu import BEGAN_EARLIER, GOES_ON, STARTING, UNKNOWN, by_tid, waits_of  # noqa: E402

UNPRIVILEGED = 65534
SECONDS = 0.4

pytestmark = pytest.mark.usefixtures('need_tracefs', 'steady_sysctl')

MODES = {
    'file': [], 'z': ['-z'], 'single-file': ['--threads', '--single-file'], 'pipe': [],
    'threads': ['--threads', '-z', '--call-graph', 'unwind,4096'],
    'switched': ['--switch-output=1s'], 'flight': ['--flight=5s'], 'overwrite': ['--overwrite'],
}


class User:
    """Root, or one without rights: a directory of theirs with our programs, and two threads that sleep now and then."""

    def __init__(self, uid, directory, programs, program, spawn):
        self.directory, self.uid = pathlib.Path(directory), uid
        self.who = {'user': uid, 'group': pwd.getpwuid(uid).pw_gid, 'extra_groups': []} if uid else {}
        self.rings = ['-m', '64K'] if uid else []  # of other users all together may lock 1 MB or so
        for each in (programs / 'waits', program):
            shutil.copy(each, directory)
        os.chown(directory, uid, pwd.getpwuid(uid).pw_gid)
        self.program, self.waits = self.directory / program.name, self.directory / 'waits'
        self.load = spawn([self.waits, 'sleep', '2', '60000'], stdout=-1, **self.who)
        threads_of(self.load.pid, 3)
        self.tids = sorted(map(int, os.listdir(f'/proc/{self.load.pid}/task')))[1:]

    def targets(self):
        """Options, and the threads that are to be seen; None: those of the command."""
        yield 'process', ['-p', str(self.load.pid)], self.tids
        yield 'thread', ['-t', str(self.tids[1])], self.tids[1:]
        yield 'command', ['--', self.waits, 'sleep', '2', '60000'], None
        if not self.uid:
            yield 'all', ['-a'], self.tids


@pytest.fixture(params=[0, UNPRIVILEGED], ids=['root', 'user'])
def user(request, programs, program, spawn):
    with tempfile.TemporaryDirectory(prefix='ordinary-') as directory:
        yield User(request.param, directory, programs, program, spawn)


def files_of(path):
    """What was written, as plain files."""
    return sorted(snapshots_of(path)) or [path]


def snapshots_of(path):
    return [file for file in path.parent.glob(path.name + '.*') if file.suffix != '.part']


def check_waits(waits, expected, least_ns):
    """They follow each other for so long, and the thread did little else than sleep."""
    # Of a command its threads: what started them waits for them, of which a snapshot does not tell.
    tids = expected or [tid for tid, found in waits.items() if len(found) > 10 and found[0].pid != tid]
    assert tids or not least_ns
    for tid in tids:
        mine = sorted((wait for wait in waits[tid] if not wait.flags & STARTING), key=lambda wait: wait.end_ns)
        assert mine and not any(wait.flags & UNKNOWN for wait in mine)
        assert all(before.end_ns <= after.left_ns for before, after in zip(mine, mine[1:]))
        whole = mine[-1].end_ns - mine[0].left_ns
        assert whole >= least_ns and sum(wait.ns for wait in mine) > 0.9 * whole, (tid, whole, expected)


@pytest.mark.parametrize('mode', MODES)
def test_every_target(mode, user, millrace, recorder):
    """One recorder for each target, all at the same time."""
    recorders = []
    for name, target, expected in user.targets():
        path = user.directory / f'{name}.data'
        output = open(path, 'wb') if mode == 'pipe' else subprocess.DEVNULL
        options = ['-q', '-e', 'dummy', '--off-cpu', *user.rings, *MODES[mode],
                   '-o', '-' if mode == 'pipe' else path, *target]
        process = recorder(options, executable=str(user.program), cwd=user.directory, stdout=output, **user.who)
        recorders.append((path, expected, process))
    time.sleep(1.2 if mode == 'switched' else SECONDS)
    for path, expected, process in recorders:
        if mode == 'flight':
            process.send_signal(signal.SIGUSR2)
            wait_until(lambda: process.poll() is not None or snapshots_of(path), 'a snapshot')
        process.send_signal(signal.SIGINT)
    for path, expected, process in recorders:
        err = process.communicate(timeout=60)[1]
        assert process.returncode in (0, -signal.SIGINT, -signal.SIGTERM), err  # the latter: its command was ended
        waits = []
        for number, file in enumerate(files_of(path)):
            plain = path.parent / f'plain{number}.data'
            if mode == 'pipe':
                plain = file
            else:
                millrace('merge', '-f', '-o', plain, file)
            waits += waits_of(plain)
        # How long a time a ring holds depends on what else runs.
        check_waits(by_tid(waits), expected, 0 if mode == 'overwrite' else SECONDS / 2 * 1e9)


@pytest.mark.parametrize('user', [UNPRIVILEGED], indirect=True)
def test_rings_that_take_all_locked_memory(user, recorder, spawn):
    """Of threads that sleep all the time, too, it is known since when they are recorded."""
    sleeper = spawn(['sleep', '60'], **user.who)
    load = spawn([user.waits, 'sleep', '40', '60000'], stdout=subprocess.PIPE, **user.who)
    threads_of(load.pid, 41)  # each has small rings of its own
    path = user.directory / 'all.data'
    process = recorder(['-q', '-e', 'dummy', '--off-cpu', '-o', path, '-p', f'{load.pid},{sleeper.pid}'],
                       executable=str(user.program), cwd=user.directory, **user.who)
    time.sleep(SECONDS)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == -signal.SIGINT, err
    (slept,) = by_tid(waits_of(path))[sleeper.pid]
    assert slept.flags & (BEGAN_EARLIER | GOES_ON) == BEGAN_EARLIER | GOES_ON and slept.ns >= SECONDS / 2 * 1e9


# Starts a process and a thread when it may, and ends when both have.
STARTS = """
import os, threading
input()
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
thread = threading.Thread(target=str)
thread.start()
thread.join()
print(child, thread.native_id, flush=True)
"""


@pytest.mark.parametrize('options', [['-t'], ['-i', '-p'], ['--per-thread', '-p'], ['--overwrite', '-t'], ['-p']],
                         ids=' '.join)
def test_children_that_are_not_recorded(user, recorder, spawn, options):
    """Of those no switch tells that they run, or their end: they have no waits. With -p alone they are recorded."""
    path = user.directory / 'children.data'
    parent = spawn([sys.executable, '-c', STARTS], stdin=-1, stdout=-1, **user.who)
    process = recorder(['-q', '-e', 'dummy', '--off-cpu', *user.rings, '-o', path, *options, parent.pid],
                       executable=str(user.program), cwd=user.directory, **user.who)
    started = set(map(int, parent.communicate(b'\n')[0].split()))
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 0 and len(started) == 2, err
    expected = {parent.pid} if len(options) > 1 or options == ['-t'] else {parent.pid} | started
    assert {wait.tid for wait in waits_of(path)} == expected


def test_command_whose_children_are_not_recorded(user, spawn):
    """-i"""
    path = user.directory / 'children.data'
    process = spawn([user.program, 'record', '-q', '-i', '-e', 'dummy', '--off-cpu', *user.rings, '-o', path, '--',
                     'sh', '-c', 'echo $$; sleep 0.1; sleep 0.1; :'],
                    cwd=user.directory, stdout=-1, stderr=-1, **user.who)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert {wait.tid for wait in waits_of(path)} == {int(out)}


# One session, as the scheduler gives each a share of its own. Prints which of three is to wait for the others.
STARVED = """
import os
os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
for number in range(2):
    if not os.fork():
        break
else:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    print(os.getpid(), flush=True)
while True:
    pass
"""


@pytest.mark.parametrize('mode', ['file', 'overwrite'])
def test_ready_to_run_all_the_time(mode, user, recorder, spawn):
    """A task that never gets its CPU has no record of its own. How often it got one, schedstat tells at its end."""
    starved = int(spawn([sys.executable, '-c', STARVED], stdout=-1, **user.who).stdout.readline())
    runs = pathlib.Path(f'/proc/{starved}/schedstat')
    # For root the rings have the wake-ups of all tasks of the machine. They have to hold those of all of the recording.
    rings = ['-m', '16M'] if mode == 'overwrite' and not user.uid else user.rings
    options = ['-q', '-e', 'dummy', '--off-cpu', *rings, *MODES[mode], '-p', str(starved)]
    for attempt in range(20):  # it gets a turn every second or two
        before = runs.read_text()
        path = user.directory / f'starved{attempt}.data'
        process = recorder([*options, '-o', path, '--', 'sleep', '0.2'], executable=str(user.program),
                           cwd=user.directory, **user.who)
        err = process.communicate(timeout=60)[1]
        assert process.returncode == 0, err
        if runs.read_text() == before:
            break
    else:
        pytest.fail('it ran in each')
    (file,) = files_of(path)
    waits = waits_of(file)
    assert len(waits) == 1 and waits[0].tid == starved and waits[0].flags == BEGAN_EARLIER | GOES_ON
    assert waits[0].ns >= 0.2e9 and (waits[0].state, waits[0].ready_ns) == (0, waits[0].ns)


# In as many groups as a user of a large directory service may be: /proc/PID/status has 8 KB.
IN_MANY_GROUPS = """
import os, time
os.setgroups(range(1000000000, 1000000600))
print(flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize('user', [0], indirect=True)
def test_task_in_many_groups(user, recorder, spawn):
    """It sleeps all the time, so that only /proc tells of it."""
    sleeper = spawn([sys.executable, '-c', IN_MANY_GROUPS], stdout=-1)
    sleeper.stdout.readline()
    path = user.directory / 'groups.data'
    process = recorder(['-q', '-e', 'dummy', '--off-cpu', '-m', '16M', '--overwrite', '-o', path,
                        '-p', sleeper.pid, '--', 'sleep', '0.2'], executable=str(user.program), cwd=user.directory)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 0, err
    (slept,) = waits_of(path)
    assert slept.tid == sleeper.pid and slept.flags & (BEGAN_EARLIER | GOES_ON) == BEGAN_EARLIER | GOES_ON
