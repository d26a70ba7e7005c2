# SPDX-License-Identifier: MIT
"""millrace selftest passes here, and fails when something is wrong."""
import json
import os
import platform
import subprocess

import pytest

from conftest import sanitized


def test_quick(millrace, need_root, need_tracefs, tmp_path):
    done = millrace('selftest', '--quick', '--events', '3000', '--json', '-o', tmp_path)
    result = json.loads(done.out)
    assert result['passed'] and result['event'] == 'raw_syscalls:sys_enter'
    assert {'serial', 'mmap'} <= {run['writer'] for run in result['runs']}
    for run in result['runs']:
        assert run['captured'] + run['lost'] == run['generated'] and not run['twice'], run
    assert not list(tmp_path.iterdir())


def test_full_stdout_is_no_failed_recording(program, need_root, need_tracefs, tmp_path, run):
    done = run(['sh', '-c', f'exec {program} selftest --quick --events 10 -o {tmp_path} > /dev/full'], status=255)
    assert 'standard output: No space left' in done.err and not list(tmp_path.iterdir())


def test_kernel_that_does_not_count_losses(program, need_root, need_tracefs, programs, run, tmp_path):
    """Small rings lose some: how many cannot be known, so that they prove nothing."""
    if platform.machine() != 'x86_64' or sanitized():
        pytest.skip('the shim makes the system call of x86-64, and is loaded first')
    env = {**os.environ, 'LD_PRELOAD': str(programs / 'refuse.so'), 'REFUSE_BYTE': '32', 'REFUSE_MASK': '16'}
    done = run([program, 'selftest', '--quick', '--events', '3000', '--json', '-o', tmp_path], env=env)
    result = json.loads(done.out)
    assert result['passed'] and {run['ring'] for run in result['runs']} == {'default'}
    assert all(run['captured'] == run['generated'] for run in result['runs'])
    assert 'recordings with small rings are left out: this kernel does not count what it drops' in done.err


def skip_with_sanitizers():
    if sanitized():
        pytest.skip('pages are touched at addresses that sanitizers keep for themselves')


def test_ordinary_user(program, need_root, steady_sysctl, tmp_path):
    """With page faults, where the kernel lets a user record at all."""
    skip_with_sanitizers()
    if int(open('/proc/sys/kernel/perf_event_paranoid').read()) > 2:
        pytest.skip('perf_event_paranoid forbids it')
    os.chmod(tmp_path, 0o777)
    command = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups', program]
    if subprocess.run([*command, '--version'], capture_output=True).returncode:
        pytest.skip('an ordinary user cannot run the program where it is')
    done = subprocess.run([*command, 'selftest', '--quick', '--events', '2000', '--json', '-o', '/tmp'],
                          capture_output=True, text=True, timeout=120)
    result = json.loads(done.stdout)
    assert result['event'] == 'page-faults:u' and result['passed'] and done.returncode == 0, done


def test_load_of_faults(millrace):
    skip_with_sanitizers()
    assert millrace('selftest', '--load=faults:100').out == ''


def test_words(millrace, tmp_path):
    assert 'no-such' in millrace('selftest', '-o', tmp_path / 'no-such', status=255).err
    millrace('selftest', 'word', status=129)
    millrace('selftest', '--load=nothing:5', status=129)
