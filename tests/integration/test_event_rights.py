# SPDX-License-Identifier: MIT
"""What somebody without rights may record, and what the refusals say."""
import pathlib
import shutil
import tempfile

import pytest

PARANOID = pathlib.Path('/proc/sys/kernel/perf_event_paranoid')
NOBODY = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups', '--inh-caps=-all']
USER_ONLY = 'forbids to watch the kernel: sampling user space only'


@pytest.fixture(name='paranoid')
def fixture_paranoid(need_root):
    """paranoid(2) sets kernel.perf_event_paranoid, until the end of the test."""
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


@pytest.fixture(name='record_as_nobody')
def fixture_record_as_nobody(need_root, program, run):
    """record_as_nobody('-e', 'cs', '--', 'true') -> Done of a millrace that nobody runs, in a directory of nobody's."""
    with tempfile.TemporaryDirectory() as path:
        directory = pathlib.Path(path)
        directory.chmod(0o777)
        copy = directory / 'millrace'
        shutil.copy(program, copy)
        copy.chmod(0o755)
        yield lambda *args, **keywords: run([*NOBODY, copy, 'record', '-o', directory / 'data', *args], **keywords)


def test_kernel_is_left_out(paranoid, record_as_nobody):
    paranoid(2)
    assert f'cs: kernel.perf_event_paranoid {USER_ONLY}' in record_as_nobody('-e', 'cs', '--', 'true').err
    assert 'forbids' not in record_as_nobody('-e', 'cs:u', '--', 'true').err
    paranoid(1)
    assert 'forbids' not in record_as_nobody('-e', 'cs', '--', 'true').err


@pytest.mark.parametrize('level, args, enough', [
    (2, ['-e', 'cs:k'], 1),
    (2, ['-e', 'cs', '-a'], 0),
    (1, ['-e', 'cs', '-a'], 0),
])
def test_refusal_names_the_sysctl(paranoid, record_as_nobody, level, args, enough):
    paranoid(level)
    err = record_as_nobody(*args, '--', 'true', status=255).err
    assert f'event {args[1]}: not permitted: kernel.perf_event_paranoid is {level}' in err
    assert f'sysctl kernel.perf_event_paranoid={enough}' in err
    assert 'CAP_PERFMON' in err
    assert len(err.splitlines()) == 1


def test_foreign_process(paranoid, record_as_nobody):
    paranoid(1)
    err = record_as_nobody('-e', 'cs', '-p', '1', status=255).err
    assert 'event cs: process 1 may not be watched' in err


def test_unreadable_tracefs(need_tracefs, record_as_nobody):
    if need_tracefs.stat().st_mode & 0o5:
        pytest.skip('everybody may read this tracefs')
    err = record_as_nobody('-e', 'sched:sched_switch', '--', 'true', status=129).err
    assert 'tracepoint sched:sched_switch: no permission' in err
    assert f'mount -o remount,mode=755 {need_tracefs}' in err


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
