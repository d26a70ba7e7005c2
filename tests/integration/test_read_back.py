# SPDX-License-Identifier: MIT
"""Build-ids are collected while records are written: no recording is read back for them."""
import os
import pathlib
import subprocess

import pytest

MODES = ['', '--buffer-memory=64M', '--buffer-memory=64M --writer=direct', '-z', '--threads', '--threads -z',
         '--threads --single-file', '--threads --single-file -z', '--switch-output=4M',
         '--switch-output=4M --buffer-memory=64M', '-z --switch-output=300K']


def bytes_read(process):
    """By a process that has ended and was not waited for."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        with open(f'/proc/{process.pid}/io') as lines:
            return dict(line.split(': ') for line in lines)['rchar']
    except (FileNotFoundError, PermissionError):
        pytest.skip('this kernel does not count what is read')


def objects(perf, files):
    return {line.split(maxsplit=1)[1] for file in files for line in perf('buildid-list', '-i', file).out.splitlines()}


def bpf_symbols():
    """Bytes of /proc/kallsyms, which is read for each file of a recording while BPF programs are loaded."""
    text = pathlib.Path('/proc/kallsyms').read_bytes()
    return len(text) if b'\t[bpf]' in text else 0


def record(program, events, mode, out, calls):
    """How much the recorder has read."""
    out.parent.mkdir()
    with subprocess.Popen([program, 'record', '-q', *mode.split(), '-o', out, *events, '-n', str(calls)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        said = process.stderr.read()
        read = int(bytes_read(process))
    assert process.returncode == 0, said
    return read


@pytest.mark.parametrize('mode', MODES)
def test_not_read_back(program, perf, programs, need_tracefs, need_root, tmp_path, mode):
    events = ['-g', '-e', 'raw_syscalls:sys_enter', '--', programs / 'syscalls', '-t', '2']
    little, much = tmp_path / 'little' / 'data', tmp_path / 'much' / 'data'
    read = record(program, events, '', little, 100)
    more = record(program, events, mode, much, 50000) - read
    files = [much] if much.exists() else sorted(much.parent.iterdir())
    more -= bpf_symbols() * (len(files) - 1)
    assert more < sum(path.stat().st_size for path in much.parent.rglob('data*') if path.is_file()) / 4
    assert objects(perf, files) == objects(perf, [little])
