# SPDX-License-Identifier: MIT
"""What the tests of the command line share. Run them with: pytest-3 tests/integration

MILLRACE   the program (default: build/millrace); helper programs are found beside it, in tests/programs
PERF       the perf to compare with (default: perf of the PATH)
"""
import contextlib
import fcntl
import math
import os
import pathlib
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MILLRACE = pathlib.Path(os.environ.get('MILLRACE', ROOT / 'build' / 'millrace')).absolute()
KALLSYMS_COPY = MILLRACE.parent / 'tests' / 'programs' / 'kallsyms_copy.so'
HIDE_PLT = KALLSYMS_COPY.with_name('hide_plt.so')
READERS = ('report', 'script', 'diff')
TRACEFS = pathlib.Path('/sys/kernel/tracing')
# Samples of all CPUs whose text is compared with perf's: of the kernel alone. Programs of others may be replaced or be
# in another mount namespace, and perf then prints names of other files; what runs in user space is compared in
# recordings of own processes.
ALL_CPUS = ['-a', '--kernel-callchains', '-e', 'cpu-clock:k']
TIMEOUT = 120  # seconds; sanitizers and other load make programs slow

# The configuration and the language of the user who runs the tests must not change what the programs do.
os.environ['MILLRACE_CONFIG'] = os.devnull
os.environ['LC_ALL'] = 'C'
os.environ.pop('LANGUAGE', None)
# Readers keep what they have looked up below HOME, which is a directory of the tests.
os.environ.pop('XDG_CACHE_HOME', None)

# A shell that starts the tests in the background, or nohup(1), has these ignored, and programs inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Held alone by tests that change kernel.perf_event_paranoid, together by those that rely on what it says.
SYSCTL_LOCK = os.path.join(tempfile.gettempdir(), 'millrace-sysctl.lock')

# Held alone while a thread has a name with a newline or an escape, which perf prints as it is; together while what runs
# on all CPUs is recorded for a comparison with its text.
NAMES_LOCK = os.path.join(tempfile.gettempdir(), 'millrace-names.lock')


def sanitized():
    """
    Whether the program is built with ASan or TSan: it makes calls of its own, is slow, and no library can be loaded
    before that of the sanitizer.
    """
    return bool(MILLRACE.exists() and re.search(rb'__[at]san_init', MILLRACE.read_bytes()))


def needs_libpfm_without_sys():
    """On Debian 13 libpfm allocates -16 bytes where there is no /sys, which only a sanitizer minds."""
    script = 'umount -R -l /sys; exec "$0" doctor'
    done = sanitized() and subprocess.run(['unshare', '-m', 'sh', '-c', script, MILLRACE], stdout=subprocess.DEVNULL,
                                          stderr=subprocess.PIPE, check=False)
    if done and b'libpfm' in done.stderr and b'allocation-size-too-big' in done.stderr:
        pytest.skip('libpfm and a sanitizer need /sys')


@contextlib.contextmanager
def names_lock(operation):
    with open(NAMES_LOCK, 'w') as lock:
        fcntl.flock(lock, operation)
        yield


def hostile_names():
    """A context in which a test may give threads names with control characters."""
    return names_lock(fcntl.LOCK_EX)


def plain_names():
    """A context in which no thread of another test has such a name."""
    return names_lock(fcntl.LOCK_SH)


def wait_until(condition, what):
    """Waits for something that another process does, and returns it; how long that takes is no matter."""
    limit = time.monotonic() + TIMEOUT
    while not (found := condition()):
        if time.monotonic() > limit:
            pytest.fail(f'not after {TIMEOUT} s: {what}')
        time.sleep(0.01)
    return found


def threads_of(pid, number):
    """The threads of a process, as soon as there are so many of them."""
    def threads():
        found = {int(tid) for tid in os.listdir(f'/proc/{pid}/task')}
        return found if len(found) >= number else None
    return wait_until(threads, f'{number} threads of {pid}')


def each_thread(pid, read):
    """What read(tid) returns for each thread of a process, but for those that end first: some only open a file."""
    found = []
    for tid in os.listdir(f'/proc/{pid}/task'):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.append(read(tid))
    return found


def stat_of(pid):
    """What /proc/PID/stat says behind the name: the state first, then the parent; see proc(5)."""
    return pathlib.Path(f'/proc/{pid}/stat').read_text(errors='replace').rpartition(')')[2].split()


def cpu_seconds(pid):
    """CPU time that a process has had: utime and stime."""
    user, kernel = stat_of(pid)[11:13]
    return (int(user) + int(kernel)) / os.sysconf('SC_CLK_TCK')


def while_it_runs(pid, seconds):
    """A command for a recording beside a process: it ends when that has had so much CPU time since."""
    script = ('ticks() { read -r line </proc/$0/stat; set -- ${line##*) }; echo $((${12} + ${13})); }\n'
              'end=$(($(ticks) + $1)); while [ $(ticks) -lt $end ]; do sleep 0.02; done')
    return ['sh', '-ec', script, pid, math.ceil(seconds * os.sysconf('SC_CLK_TCK'))]


def child_of(process):
    """The only child of a process."""
    found = []
    for path in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            if int(stat_of(path.name)[1]) == process.pid:
                found.append(int(path.name))
        except (OSError, IndexError):  # it has ended
            pass
    assert len(found) == 1, found
    return found[0]


def children(pid):
    """{name: pid} of the processes that one of several threads, the first, has started."""
    text = pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text()
    return {pathlib.Path(f'/proc/{child}/comm').read_text().strip(): int(child) for child in text.split()}


def read_until(condition, what, pipe, out=None):
    """
    wait_until() that reads the pipe, which else is full before the recording begins: the size of the initial state
    is not known.
    """
    def look():
        try:
            chunk = os.read(pipe.fileno(), 1 << 16)
            if out:
                out.write(chunk)
        except BlockingIOError:
            pass
        return condition()

    os.set_blocking(pipe.fileno(), False)
    found = wait_until(look, what)
    os.set_blocking(pipe.fileno(), True)
    return found


class Done:
    """A process that has ended: status (negative: the signal), out and err (text, or bytes with binary=True)."""

    def __init__(self, args, status, out, err):
        self.args, self.status, self.out, self.err = args, status, out, err

    def __repr__(self):
        out, err = shortened(self.out), shortened(self.err)
        return f'$ {" ".join(map(str, self.args))}\nstatus {self.status}\n--- out\n{out}\n--- err\n{err}'


def shortened(text, half=4000):
    """Of a long text its beginning and end: recordings as text have hundreds of megabytes."""
    if not text or len(text) <= 2 * half:
        return text
    return f'{text[:half]}\n[... {len(text) - 2 * half} characters or bytes left out ...]\n{text[-half:]}'


def end_group(process):
    """Ends a process and all that it started in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run_command(args, timeout=TIMEOUT, status=0, binary=False, input=None, env=None, cwd=None):
    """Runs a command to its end; fails when it takes longer or ends otherwise (status=None: any status is fine)."""
    args = [str(arg) for arg in args]
    process = subprocess.Popen(args, stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, start_new_session=True,
                               env={**os.environ, 'LC_ALL': 'C', **(env or {})})
    try:
        out, err = process.communicate(input, timeout)
    except subprocess.TimeoutExpired:
        end_group(process)
        out, err = process.communicate()
        pytest.fail(f'not done after {timeout} s: {Done(args, None, out, err)}')
    finally:
        end_group(process)
    if not binary:
        out, err = out.decode(errors='replace'), err.decode(errors='replace')
    done = Done(args, process.returncode, out, err)
    marks = (b'Sanitizer', b'runtime error:') if binary else ('Sanitizer', 'runtime error:')
    if any(mark in err for mark in marks):
        pytest.fail(f'a sanitizer spoke: {done}')
    if status is not None and done.status != status:
        pytest.fail(f'status {done.status}, not {status}: {done}')
    return done


def peak_memory(args):
    """
    The most memory that a command has, in KiB. A small process starts it: ru_maxrss begins with what the process had
    that called exec(2), which here are the tests (exec_mmap() in the kernel's fs/exec.c).
    """
    script = ('import os, subprocess, sys; child = subprocess.Popen(sys.argv[1:])\n'
              '_, status, used = os.wait4(child.pid, 0)\n'
              'print(used.ru_maxrss); sys.exit(os.waitstatus_to_exitcode(status))')
    return int(run_command([sys.executable, '-c', script, *args]).out.splitlines()[-1])


def kernel_build_id():
    """As text; of the note of that type in /sys/kernel/notes. '': there is none."""
    notes, at = pathlib.Path('/sys/kernel/notes').read_bytes(), 0
    while at + 12 <= len(notes):
        name_bytes, bytes_, kind = struct.unpack_from('<3I', notes, at)
        start = at + 12 + (name_bytes + 3) // 4 * 4
        if kind == 3 and notes[at + 12:at + 15] == b'GNU':
            return notes[start:start + bytes_].hex()
        at = start + (bytes_ + 3) // 4 * 4
    return ''


@pytest.fixture(scope='session', autouse=True)
def kernel_symbols(tmp_path_factory):
    """
    Neither the caches of perf (~/.debug) nor its configuration (~/.perfconfig) are those of the user, who may have no
    home. In ~/.debug is a copy of /proc/kallsyms, which the kernel formats for each reader, for 50 ms: millrace takes
    it; perf is to be given this environment. Half of the lines are not in it: they name the padding before each
    function, where nothing runs, and what follows a call that does not return, whose function perf names without them.
    """
    home = tmp_path_factory.mktemp('home')
    os.environ['HOME'] = str(home)
    with open('/proc/kallsyms', 'rb') as symbols:
        lines = [line for line in symbols if b' __pfx_' not in line]
    build_id = kernel_build_id() or 'none'
    copy = home / '.debug' / '[kernel.kallsyms]' / build_id / 'kallsyms'
    link = home / '.debug' / '.build-id' / build_id[:2] / build_id[2:]  # without it recorders would put theirs there
    if not lines or not int(lines[0].split()[0], 16) and not int(lines[-1].split()[0], 16):
        return {}  # not for this user
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b''.join(lines))
    link.parent.mkdir(parents=True)
    link.symlink_to(f'../../[kernel.kallsyms]/{build_id}')
    return {'LD_PRELOAD': str(KALLSYMS_COPY), 'KALLSYMS_COPY': str(copy)}


@pytest.fixture(scope='session')
def program():
    """The path of millrace."""
    assert MILLRACE.exists(), f'{MILLRACE} is not there: run make, or set MILLRACE'
    return MILLRACE


@pytest.fixture(scope='session')
def run():
    """run(args, timeout=, status=, binary=, input=, env=, cwd=) -> Done. See run_command()."""
    return run_command


hidden_plt = {}  # the environment of READERS, see hide_plt.c


@pytest.fixture(autouse=True)
def names_of_the_plt(request, monkeypatch):
    """
    Of what is compared with perf millrace names no entries of the PLT either. ASan insists on being the first library,
    which only matters for one that replaces what it replaces.
    """
    if 'perf' not in request.fixturenames:
        return
    options = [os.environ.get('ASAN_OPTIONS'), 'verify_asan_link_order=0']
    monkeypatch.setitem(hidden_plt, 'LD_PRELOAD', str(HIDE_PLT))
    monkeypatch.setenv('ASAN_OPTIONS', ':'.join(filter(None, options)))


@pytest.fixture(scope='session')
def millrace(program):
    """millrace('record', '-o', file, '--', 'true') -> Done. Keywords as for run."""
    def run_millrace(*args, env=None, **keywords):
        more = hidden_plt if args and args[0] in READERS else {}
        return run_command([program, *args], env={**more, **(env or {})}, **keywords)
    return run_millrace


@pytest.fixture
def own_user(need_root):
    """
    (uid, directory) of a user that has no other processes: those of one user have one account of locked memory, and of
    how many there may be.
    """
    uid = 100_000 + os.getpid()
    with tempfile.TemporaryDirectory() as place:  # other users cannot enter pytest's own
        os.chown(place, uid, uid)
        yield uid, pathlib.Path(place)


@pytest.fixture
def spawn():
    """spawn(args, **Popen keywords) -> Popen of a session of its own, ended with all its children after the test."""
    started = []

    def start(args, **keywords):
        process = subprocess.Popen([str(arg) for arg in args], start_new_session=True, **keywords)
        started.append(process)
        return process

    yield start
    for process in started:
        end_group(process)


@pytest.fixture
def recorder(program, spawn):
    """recorder(args, **Popen keywords) -> Popen of a recording that goes on: its command runs, its events are
    enabled."""
    def start(args, **keywords):
        commands, answers = os.pipe(), os.pipe()
        theirs = commands[0], answers[1]
        process = spawn([program, 'record', f'--control=fd:{theirs[0]},{theirs[1]}', *args], pass_fds=theirs,
                        stderr=subprocess.PIPE, text=True, **keywords)
        for fd in theirs:
            os.close(fd)
        os.write(commands[1], b'ping\n')
        ready, _, _ = select.select([answers[0]], [], [], TIMEOUT)
        answer = os.read(answers[0], 16) if ready else b'nothing'
        os.close(commands[1])
        os.close(answers[0])
        assert answer == b'ack\n', answer
        return process

    return start


@pytest.fixture
def steady_sysctl():
    """No test changes kernel.perf_event_paranoid until the end of this one."""
    with open(SYSCTL_LOCK, 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


@pytest.fixture(scope='session')
def programs():
    """The directory of the programs of tests/programs: spin, jit, syscalls, forkstorm, taskstorm."""
    path = MILLRACE.parent / 'tests' / 'programs'
    assert path.is_dir(), f'{path} is not there: run make'
    return path


@pytest.fixture(scope='session')
def perf(kernel_symbols):
    """perf('report', '-i', file) -> Done. Keywords as for run."""
    path = shutil.which(os.environ.get('PERF', 'perf'))
    if not path:
        pytest.skip('perf is not installed (Debian: linux-perf)')
    # The configuration of the user must not change what perf does; nor may it ask the network.
    # It reads the symbols of the kernel several times.
    environment = {'PERF_CONFIG': '/dev/null', 'PERF_PAGER': 'cat', 'DEBUGINFOD_URLS': '', **kernel_symbols}
    # The names of the kernel's functions take perf tens of MB each time: in large pages it needs a quarter of its CPU
    # time less. Not where it starts a program, which has the same environment.
    of_readers = {'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=1:glibc.malloc.top_pad=33554432',
                  'LD_PRELOAD': ':'.join([str(HIDE_PLT), kernel_symbols.get('LD_PRELOAD', '')])}

    def run_perf(command, *args, env=None, **keywords):
        more = of_readers if command in READERS else {}
        return run_command([path, command, *args], env={**environment, **more, **(env or {})}, **keywords)
    return run_perf


@pytest.fixture(scope='session')
def need_root():
    if os.geteuid() != 0:
        pytest.skip('needs root')


@pytest.fixture(scope='session')
def need_tracefs(need_root):
    """/sys/kernel/tracing, mounted when it can be."""
    if not (TRACEFS / 'events').is_dir():
        done = subprocess.run(['mount', '-t', 'tracefs', 'tracefs', str(TRACEFS)], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            pytest.skip(f'needs tracefs, which cannot be mounted: {done.stderr.strip()}')
    return TRACEFS


@pytest.fixture
def tmpfs(need_root, tmp_path):
    """tmpfs('256k') -> a mounted tmpfs of that size, unmounted after the test: for full disks."""
    mounted = []

    def mount(size):
        path = tmp_path / f'tmpfs{len(mounted)}'
        path.mkdir()
        done = subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', str(path)],
                              stderr=subprocess.PIPE, text=True)
        if done.returncode:
            pytest.skip(f'needs to mount a tmpfs: {done.stderr.strip()}')
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(['umount', '-l', str(path)], check=False)


@pytest.fixture
def fuse_fs(need_root, tmp_path):
    """
    fuse_fs(errno, bytes, seconds, ...) -> a directory with failing_fs.py below it, or another program of tests/fault,
    unmounted after the test.
    """
    mounted = []

    def mount(*args, program='failing_fs.py'):
        if not os.path.exists('/dev/fuse'):
            pytest.skip('needs /dev/fuse')
        if subprocess.run(['/usr/bin/python3', '-c', 'import fusepy'], stderr=subprocess.DEVNULL).returncode:
            pytest.skip('needs python3-fusepy')
        path = tmp_path / f'fuse{len(mounted)}'
        path.mkdir()
        server = subprocess.Popen(['/usr/bin/python3', ROOT / 'tests' / 'fault' / program, path,
                                   *map(str, args)],
                                  stderr=subprocess.DEVNULL)
        mounted.append((path, server))
        limit = time.monotonic() + TIMEOUT
        while not os.path.ismount(path):
            if server.poll() is not None or time.monotonic() > limit:
                pytest.skip('FUSE file systems cannot be mounted here')
            time.sleep(0.05)
        return path

    yield mount
    for path, server in mounted:
        subprocess.run(['umount', '-l', path], check=False)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()


def skip_texts_of_other_perf(items):
    """
    perf 6.1 is what texts and attrs are compared with. Later ones have wider columns and other bits of dummy events.
    They are compared when PERF names one.
    """
    if os.environ.get('PERF') or not shutil.which('perf'):
        return
    version = subprocess.run(['perf', '--version'], stdout=subprocess.PIPE, text=True, check=False).stdout
    if not (found := re.search(r'version (\d+\.\d+)', version)) or found[1] == '6.1':
        return
    other = pytest.mark.skip(reason=f'compares with the text of perf 6.1; here is {found[1]}')
    for item in items:
        if item.get_closest_marker('text_of_perf') or \
                (item.path.parent.name == 'parity' and item.path.name != 'test_readers.py'):
            item.add_marker(other)


def pytest_collection_modifyitems(config, items):
    """Lab tests run only when they are asked for by name: -m lab."""
    skip_texts_of_other_perf(items)
    if 'lab' in config.option.markexpr:
        return
    kept = [item for item in items if not item.get_closest_marker('lab')]
    if len(kept) != len(items):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker('lab')])
        items[:] = kept
