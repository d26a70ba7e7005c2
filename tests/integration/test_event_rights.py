# SPDX-License-Identifier: MIT
"""What a user without privileges may record, and what the refusals say."""
import fcntl
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile

import pytest

from conftest import SYSCTL_LOCK, needs_libpfm_without_sys, sanitized

PARANOID = pathlib.Path('/proc/sys/kernel/perf_event_paranoid')
ORDINARY = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups']
UNPRIVILEGED = [*ORDINARY, '--inh-caps=-all']
ONLY_PERFMON = [*ORDINARY, '--inh-caps=-all,+perfmon', '--ambient-caps=+perfmon']
USER_ONLY = 'forbids to watch the kernel: sampling user space only'


@pytest.fixture(name='paranoid')
def fixture_paranoid(need_root):
    """paranoid(2) sets kernel.perf_event_paranoid, until the end of the test."""
    lock = open(SYSCTL_LOCK, 'w')  # the sysctl is everybody's
    fcntl.flock(lock, fcntl.LOCK_EX)
    before = PARANOID.read_text()

    def set_to(level):
        try:
            PARANOID.write_text(f'{level}\n')
        except OSError as error:
            pytest.skip(f'cannot set {PARANOID}: {error}')

    yield set_to
    try:
        PARANOID.write_text(before)
    except OSError:
        pass
    lock.close()


@pytest.fixture(name='record_unprivileged')
def fixture_record_unprivileged(need_root, program, run):
    """record_unprivileged('-e', 'cs', '--', 'true') -> Done of a millrace of uid 65534, in its directory."""
    with tempfile.TemporaryDirectory() as path:
        directory = pathlib.Path(path)
        directory.chmod(0o777)
        copy = directory / 'millrace'
        shutil.copy(program, copy)
        copy.chmod(0o755)

        def record(*args, rights=UNPRIVILEGED, **keywords):
            return run([*rights, copy, 'record', '-o', directory / 'data', *args], **keywords)

        # A command of that user, whose last two arguments are the program and the directory.
        record.run = lambda command, **keywords: run([*UNPRIVILEGED, *command, copy, directory], **keywords)
        yield record


def test_kernel_is_left_out(paranoid, record_unprivileged):
    paranoid(2)
    assert f'cs: kernel.perf_event_paranoid {USER_ONLY}' in record_unprivileged('-e', 'cs', '--', 'true').err
    assert 'forbids' not in record_unprivileged('-e', 'cs:u', '--', 'true').err
    paranoid(1)
    assert 'forbids' not in record_unprivileged('-e', 'cs', '--', 'true').err


@pytest.mark.parametrize('level, args, enough', [
    (2, ['-e', 'cs:k'], 1),
    (2, ['-e', 'cs', '-a'], 0),
    (1, ['-e', 'cs', '-a'], 0),
])
def test_refusal_names_the_sysctl(paranoid, record_unprivileged, level, args, enough):
    paranoid(level)
    err = record_unprivileged(*args, '--', 'true', status=255).err
    assert f'event {args[1]}: not permitted: kernel.perf_event_paranoid is {level}' in err
    assert f'sysctl kernel.perf_event_paranoid={enough}' in err
    assert 'CAP_PERFMON' in err
    assert len(err.splitlines()) == 1


def test_cap_perfmon_is_enough(paranoid, record_unprivileged):
    """With no other right: everything, the kernel too, with call graphs, at the level of most systems."""
    paranoid(2)
    for args in (['-a'], ['-a', '-g'], ['-a', '-z', '--threads'], ['-a', '--call-graph', 'unwind']):
        done = record_unprivileged(*args, '-e', 'cpu-clock', '--', 'sleep', '0.1', rights=ONLY_PERFMON)
        assert 'captured' in done.err and 'user space only' not in done.err, done
    assert 'not permitted' in record_unprivileged('-a', '-e', 'cpu-clock', '--', 'true', status=255).err


def test_foreign_process(paranoid, record_unprivileged):
    paranoid(1)
    err = record_unprivileged('-e', 'cs', '-p', '1', status=255).err
    assert 'event cs: process 1 may not be watched' in err


@pytest.mark.parametrize('mode, why', [(0o4755, 'is set-user-ID'), (0o2755, 'is set-group-ID'),
                                       (0o711, 'may not be read'), (0o755, None)])
def test_programs_with_other_rights(paranoid, record_unprivileged, programs, mode, why):
    """Linux ends the events of a task that runs one: the kernel counts nothing as lost."""
    paranoid(2)
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory).chmod(0o755)
        if os.statvfs(directory).f_flag & os.ST_NOSUID:
            pytest.skip(f'{directory} is mounted with nosuid')
        copy = shutil.copy(programs / 'spin', directory)
        pathlib.Path(copy).chmod(mode)
        err = record_unprivileged('-e', 'cpu-clock:u', '--', copy, '-t', '1', '-m', '100').err
    said = (f'no samples: {copy} {why}, and Linux ends the events of a task that runs such a program: record as root, '
            'or all CPUs (-a)')
    assert said in err if why else 'no samples' not in err, err
    assert ('captured 0 samples' in err) == bool(why), err


def test_probes_take_a_right(paranoid, record_unprivileged):
    if not os.path.exists('/sys/bus/event_source/devices/uprobe'):
        pytest.skip('this kernel has no uprobes')
    paranoid(1)
    err = record_unprivileged('-e', 'uprobe/config=0/', '--', 'true', status=255).err
    assert ('event uprobe/config=0/: not permitted: uprobes and kprobes take CAP_SYS_ADMIN, '
            'on some kernels CAP_PERFMON (run as root)') in err


@pytest.mark.parametrize('event', ['mem:0x10/16', 'mem:0x11/8', 'mem:0x10:rwx'])
def test_breakpoints_that_the_cpu_has_not(millrace, tmp_path, event):
    def record(event, **keywords):
        return millrace('record', '-o', tmp_path / 'data', '-e', event + ':u', '--', 'true', **keywords)
    if record('mem:0x10/8:w', status=None).status:
        pytest.skip('no breakpoints here')
    err = record(event, status=255).err
    assert f'event {event}:u: the CPU has no such breakpoint: 1, 2, 4 or 8 bytes at a multiple of that' in err


def test_tracepoints_of_own_tasks(paranoid, need_tracefs, program, run, tmp_path):
    """Root, in a user namespace, still owns tracefs and has no rights else."""
    within = ['unshare', '-Ur']
    if run([*within, 'ls', need_tracefs / 'events'], status=None).status:
        pytest.skip('no user namespaces')
    record = [*within, program, 'record', '-o', tmp_path / 'data', '-e', 'sched:sched_switch', '--', 'true']
    paranoid(1)
    err = run(record, status=255).err
    assert 'sched:sched_switch: not permitted: kernel.perf_event_paranoid is 1' in err
    assert 'sysctl kernel.perf_event_paranoid=-1' in err
    paranoid(-1)
    assert 'captured' in run(record).err


def test_unreadable_tracefs(paranoid, need_tracefs, record_unprivileged):
    """Both obstacles at once: the modes of tracefs, whose files are for their group only, and the sysctl."""
    if need_tracefs.stat().st_mode & 0o5:
        pytest.skip('everybody may read this tracefs')
    paranoid(2)
    err = record_unprivileged('-e', 'sched:sched_switch', '--', 'true', status=129).err
    assert 'tracepoint sched:sched_switch: no permission' in err
    assert 'mount -o remount,mode=750,gid=' in err
    assert f'{need_tracefs}; sysctl kernel.perf_event_paranoid=-1' in err
    paranoid(-1)
    assert 'sysctl' not in record_unprivileged('-e', 'sched:sched_switch', '--', 'true', status=129).err


def test_tracefs_is_mounted(need_tracefs, program, run, tmp_path):
    """In a mount namespace of its own: by us when we may, with advice when we may not."""
    script = '''
        umount -l /sys/kernel/tracing; umount -l /sys/kernel/debug/tracing; umount -l /sys/kernel/debug
        exec "$@"
    '''
    without = ['unshare', '-m', 'sh', '-c', script + '2>&1', 'sh']
    record = [program, 'record', '-o', tmp_path / 'data', '-e', 'sched:sched_switch', '--', 'true']
    run([*without, *record])
    refused = run([*without, 'setpriv', '--bounding-set', '-sys_admin', *record], status=129)
    assert 'tracefs is not mounted' in refused.out + refused.err
    assert 'mount -t tracefs nodev /sys/kernel/tracing' in refused.out + refused.err


ALL_LEVELS = [2, 1, 0, -1]


@pytest.mark.parametrize('level', ALL_LEVELS)
def test_each_level_gives_what_it_allows(paranoid, record_unprivileged, level):
    paranoid(level)
    done = record_unprivileged('-e', 'cpu-clock', '--', 'true')
    assert ('user space only' in done.err) == (level > 1) and 'captured' in done.err
    assert record_unprivileged('-e', 'cpu-clock:u', '-g', '--', 'true').err.startswith('millrace: captured')
    everything = record_unprivileged('-e', 'cpu-clock', '-a', '--', 'true', status=255 if level > 0 else 0)
    assert ('not permitted' in everything.err) == (level > 0)
    kernel = record_unprivileged('-e', 'cpu-clock', '--all-kernel', '--', 'true', status=255 if level > 1 else 0)
    assert ('not permitted' in kernel.err) == (level > 1)


def test_root_is_given_everything_at_any_level(paranoid, program, run, tmp_path):
    for level in ALL_LEVELS:
        paranoid(level)
        err = run([program, 'record', '-o', tmp_path / 'data', '-a', '-e', 'cpu-clock', '--', 'true']).err
        # Beside it nothing but what the work of others on this machine gives rise to.
        assert len(re.findall('^millrace: captured', err, re.M)) == 1, err
        expected = re.compile(r'millrace: (captured|copied|\d+ objects? (was|were) removed|  )|jit-')
        assert not [line for line in err.splitlines() if not expected.search(line)], err


@pytest.mark.parametrize('option', ['--namespaces', '--phys-data'])
def test_what_only_root_gets_is_named(paranoid, record_unprivileged, option):
    paranoid(2)
    err = record_unprivileged('-e', 'cpu-clock:u', option, '--', 'true', status=255).err
    assert 'only CAP_PERFMON (root) gives' in err and f'leave out {option}' in err


def test_smaller_rings_rather_than_none(paranoid, record_unprivileged, programs):
    """The first recording takes most of the memory that a user may lock, and starts the second, which gets the rest."""
    paranoid(0)
    for size, message in (('512K', None), ('64M', 'would fit')):
        done = record_unprivileged('-m', size, '-e', 'cpu-clock:u', '--', 'true', status=255 if message else 0)
        assert (message or 'captured') in done.err
    inner = ['sh', '-c', 'ulimit -l 0; exec "$0" record -m 256K -a -e cpu-clock -o "$1/a" -- '
                         '"$0" record -a -e cpu-clock -o "$1/b" -- true']
    done = record_unprivileged.run(inner)
    assert 'no more locked memory is allowed (kernel.perf_event_mlock_kb, ulimit -l)' in done.err
    assert done.err.count('captured') == 2


def test_small_rings_lose_nothing(paranoid, record_unprivileged):
    """Who may lock no more than everybody gets the usual rings, and no word about it."""
    paranoid(0)
    done = record_unprivileged.run(['sh', '-c', 'ulimit -l 0; exec "$0" record -v -e cpu-clock:u -o "$1/data" -- true'])
    ring, wakeup = map(int, re.search(r'rings of (\d+) KiB, wake-up at (\d+) KiB', done.err).groups())
    assert wakeup * 2 == ring
    assert ring + 4 <= int(pathlib.Path('/proc/sys/kernel/perf_event_mlock_kb').read_text())


def test_in_a_user_namespace(paranoid, record_unprivileged):
    """Root there is uid 65534 here."""
    paranoid(2)
    probe = record_unprivileged.run(['unshare', '-Ur', 'true'], status=None)
    if probe.status:
        pytest.skip(f'no user namespaces: {probe.err.strip()}')
    within = ['unshare', '-Ur', 'sh', '-c']
    assert USER_ONLY in record_unprivileged.run([*within, '"$0" record -e cpu-clock -o "$1/data" -- true']).err
    err = record_unprivileged.run([*within, '"$0" record -a -e cpu-clock -o "$1/data" -- true'], status=255).err
    assert 'not permitted: kernel.perf_event_paranoid is 2' in err


def in_a_chroot(run, program, hide, *args, **keywords):
    """Another root with everything of this one, but for what `hide` covers."""
    script = 'mount --rbind / "$0" && cd "$0" && ' + hide + ' && exec chroot "$0" "$@"'
    with tempfile.TemporaryDirectory() as root:
        done = run(['unshare', '-m', '--propagation', 'private', 'sh', '-c', script, root, program, 'record', *args],
                   **keywords)
    return done


def test_in_a_chroot_without_sys(need_root, program, run, tmp_path):
    needs_libpfm_without_sys()
    hide = 'mount -t tmpfs none sys'
    done = in_a_chroot(run, program, hide, '-o', tmp_path / 'data', '-e', 'cpu-clock', '-g', '--', 'true')
    assert done.err.startswith('millrace: captured')
    done = in_a_chroot(run, program, hide, '-o', tmp_path / 'data', '-a', '-e', 'cpu-clock', '--', 'true')
    assert 'millrace: captured' in done.err  # it may say more, of programs of other tests
    done = in_a_chroot(run, program, hide, '-o', tmp_path / 'data', '-e', 'sched:sched_switch', '--', 'true',
                       status=129)
    assert 'tracefs is not mounted and there is no /sys/kernel/tracing: is /sys mounted?' in done.err


def test_in_a_chroot_without_kallsyms(need_root, program, run, tmp_path):
    hides = {'mount --bind /dev/null proc/kallsyms': 'shows no addresses (',
             'mount -t proc -o subset=pid none proc': 'does not exist (',
             'umount -l proc': 'not mounted: '}
    if sanitized():
        del hides['umount -l proc']  # sanitizers themselves need /proc
    for hide, why in hides.items():
        done = in_a_chroot(run, program, hide, '-o', tmp_path / 'data', '-e', 'cpu-clock', '--', 'true', status=None)
        if done.status == 1 and 'umount' in done.err:
            pytest.skip('cannot hide /proc')
        assert done.status == 0 and 'captured' in done.err, done
        assert '/proc/kallsyms: ' + why in done.err and 'kernel addresses will have no names' in done.err
        assert ('/proc: not mounted: running tasks will have no names' in done.err) == ('umount' in hide)
        run([program, 'report', '-i', tmp_path / 'data'])


@pytest.mark.parametrize('options', [[], ['--threads']], ids=' '.join)
def test_durable_in_a_chroot_without_proc(need_root, program, run, tmp_path, options):
    """The directory whose names are synced is found without it."""
    if sanitized():
        pytest.skip('sanitizers themselves need /proc')
    done = in_a_chroot(run, program, 'umount -l proc', '--durable', *options, '-o', tmp_path / 'data', '-e',
                       'cpu-clock', '--', 'true', status=None)
    if done.status == 1 and 'umount' in done.err:
        pytest.skip('cannot hide /proc')
    assert done.status == 0 and 'captured' in done.err, done


def test_soft_limit_of_files_is_raised(need_root, run, program, tmp_path):
    """To the hard one, without a word: objects that are mapped are kept open beside events and rings."""
    if 0 <= resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 16384:
        pytest.skip('few files may be open here')
    err = run(['sh', '-c', 'ulimit -Sn 24; exec "$@"', 'sh', program, 'record', '-a', '-e', 'cpu-clock', '-o',
               tmp_path / 'data', '--', 'sh', '-c', 'ls / >/dev/null; sleep 0.3']).err
    assert 'captured' in err and 'limit of open files' not in err, err


@pytest.mark.parametrize('options', [
    [], ['-a'], ['--on-pressure=freeze'], ['-z', '--aio'], ['-a', '--off-cpu'], ['--switch-output=1M', '-g'],
    ['--bundle'], ['--overwrite'], ['--per-thread', '-t', '1'], ['--threads'], ['--threads', '--aio'],
    ['--threads', '--single-file'], ['--threads', '-a', '-C', '0'], ['--threads=package'], ['--threads', '--overwrite'],
    ['-a', *24 * ['-e', 'cpu-clock']], ['--threads', '-a', *24 * ['-e', 'cpu-clock']]],
    ids=lambda options: ' '.join(options[:4]))
def test_needed_file_descriptors_are_enough(need_root, program, programs, spawn, run, tmp_path, options):
    """What the message asks for is what it takes, and not much more; whatever processes and objects there are."""
    for _ in range(6):
        other = spawn([programs / 'jit', '60'], stdout=subprocess.PIPE)
        other.stdout.readline()
        other.send_signal(signal.SIGSTOP)  # its maps are what counts, not its work

    def record(limit, status):
        return run(['sh', '-c', f'ulimit -n {limit}; exec "$@"', 'sh',
                    'setpriv', '--bounding-set', '-sys_resource', '--inh-caps', '-sys_resource',
                    program, 'record', '-o', tmp_path / 'data', *options, '--', 'python3', '-c',
                    'import ctypes, decimal, lzma, ssl; ssl.SSLContext()'], status=status).err
    needed = int(re.search(r'needs (\d+) file descriptors and the limit is 12', record(12, 255))[1])
    of_cpu = 3 + 6 * ('--threads' in ' '.join(options)) + max(options.count('-e') - 1, 2)
    # A file is finished while tasks and objects are looked at for the next one.
    beside = 4 if '--switch-output' in ' '.join(options) else 2 if '--on-pressure=freeze' in options else 0
    assert needed <= 16 + of_cpu * os.cpu_count() + beside
    assert 'captured' in record(needed, 0)


@pytest.mark.parametrize('options', [[], ['-z'], ['--threads'], ['-z', '--threads'], ['--threads', '--aio'],
                                     ['--threads', '--single-file']], ids=' '.join)
def test_needed_file_descriptors_are_enough_for_tracepoints(need_root, need_tracefs, program, run, tmp_path, options):
    """Which are described while the files of a directory are open."""
    def record(limit, status):
        return run(['sh', '-c', f'ulimit -n {limit}; exec "$@"', 'sh',
                    'setpriv', '--bounding-set', '-sys_resource', '--inh-caps', '-sys_resource',
                    program, 'record', '-o', tmp_path / 'data', *options, '-e', 'sched:sched_switch', '--', 'true'],
                   status=status).err
    err = record(re.search(r'needs (\d+) file descriptors and the limit is 12', record(12, 255))[1], 0)
    assert 'captured' in err and 'Too many open files' not in err, err


@pytest.mark.parametrize('options', [
    ['-e', 'cpu-clock'], ['-e', 'cpu-clock', '--overwrite'], ['-e', 'cpu-clock', '--threads'],
    ['-a', '-e', 'sched:sched_switch'], ['-a', '-e', 'cpu-clock', '--tail-synthesize'],
    ['-a', '-g', '-z', '-e', 'cpu-clock']], ids=' '.join)
def test_needed_file_descriptors_are_enough_for_switches(need_root, need_tracefs, program, run, tmp_path, options):
    """Which come faster than files are finished."""
    def record(limit, status):
        return run(['sh', '-c', f'ulimit -n {limit}; exec "$@"', 'sh',
                    'setpriv', '--bounding-set', '-sys_resource', '--inh-caps', '-sys_resource',
                    program, 'record', '--switch-output', '-o', tmp_path / 'data', *options, '--', 'sh', '-c',
                    'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do kill -USR2 $PPID; ls >/dev/null; done'],
                   status=status).err
    err = record(re.search(r'needs (\d+) file descriptors and the limit is 12', record(12, 255))[1], 0)
    assert 'captured' in err and 'Too many open files' not in err, err


def test_what_is_wrong_with_a_cgroup(millrace, need_root, tmp_path):
    """The kernel has one error for both: a directory that is no cgroup that it counts, and no such event."""
    if ' cgroup' not in pathlib.Path('/proc/mounts').read_text():
        pytest.skip('no cgroups are mounted')
    out = ['-o', tmp_path / 'data', '--', 'true']
    millrace('record', '-a', '-e', 'cpu-clock', '-G', '/', *out)
    for event in 'cpu-clock', 'software/config=99/':
        said = millrace('record', '-a', '-e', event, '-G', '..', *out, status=255).err
        assert f'event {event}: -G: ' in said and 'is not in the hierarchy of cgroups' in said
    said = millrace('record', '-a', '-e', 'software/config=99/', '-G', '/', *out, status=255).err
    assert 'no PMU of this machine counts it' in said and '-G' not in said
