# SPDX-License-Identifier: MIT
"""Files of every mode of millrace record are read by perf 6.1, without an error or a warning, and by hotspot."""
import os
import pathlib
import shutil
import subprocess
import time

import pytest

SPIN = ['-t', '2', '-m', '150']
MODES = {
    'command': ['-e', 'cpu-clock', '--', '{spin}'],
    'default event': ['--', '{spin}'],
    'call chains fp': ['-e', 'cpu-clock', '-g', '--', '{spin}'],
    'call chains dwarf': ['-e', 'cpu-clock', '-F', '500', '--call-graph', 'dwarf', '--', '{spin}'],
    'call chains dwarf,1024': ['-e', 'cpu-clock', '--call-graph', 'dwarf,1024', '--', '{spin}'],
    'all CPUs': ['-a', '-e', 'cpu-clock', '--', '{spin}'],
    'all CPUs fp': ['-a', '-g', '-e', 'cpu-clock', '--', '{spin}'],
    'one CPU': ['-C', '0', '-e', 'cpu-clock', '--', '{spin}'],
    'process': ['-p', '{pid}', '-e', 'cpu-clock', '--', 'sleep', '0.2'],
    'thread': ['-t', '{tid}', '-e', 'cpu-clock', '--', 'sleep', '0.2'],
    'per thread': ['--per-thread', '-p', '{pid}', '-e', 'cpu-clock', '--', 'sleep', '0.2'],
    'no inherit': ['-i', '-e', 'cpu-clock', '--', '{spin}'],
    'tracepoint': ['-e', 'sched:sched_switch', '--', '{spin}'],
    'tracepoints by glob': ['-a', '-e', 'sched:*', '--', '{spin}'],
    'raw system calls': ['-m', '4M', '-a', '-e', 'raw_syscalls:*', '--', '{spin}'],
    'several events': ['-e', 'cpu-clock,cs,page-faults', '--', '{spin}'],
    'several kinds': ['-e', 'cpu-clock,sched:sched_switch', '-g', '--', '{spin}'],
    'named by the user': ['-e', 'cpu-clock/period=100000,name=clock/u', '--', '{spin}'],
    'modifiers': ['-e', 'cpu-clock:u,task-clock:k', '--', '{spin}'],
    'period': ['-e', 'cpu-clock', '-c', '100000', '--', '{spin}'],
    'addresses': ['-d', '-e', 'page-faults', '-c', '1', '--', '{spin}'],
    'counts per thread': ['-s', '-e', 'cpu-clock', '--', '{spin}'],
    'delay': ['-D', '50', '-e', 'cpu-clock', '--', '{spin}'],
    'times and periods': ['-T', '-P', '-R', '-e', 'cpu-clock', '--', '{spin}'],
    'no build-ids': ['-B', '-e', 'cpu-clock', '--', '{spin}'],
    'mmap writer': ['--writer=mmap', '-e', 'cpu-clock', '-g', '--', '{spin}'],
    'aio writer': ['--aio=2', '-e', 'cpu-clock', '-g', '--', '{spin}'],
}
PIPES = ['command', 'call chains fp', 'all CPUs', 'tracepoint', 'several events', 'several kinds', 'per thread']


@pytest.fixture
def recorded(millrace, program, programs, spawn, need_tracefs, tmp_path):
    def record(mode, pipe=False):
        args = MODES[mode]
        pid = tid = ''
        if '{pid}' in args or '{tid}' in args:
            pid = str(spawn([programs / 'spin', '-t', '2', '-m', '30000']).pid)
            time.sleep(0.1)
            tid = max(os.listdir(f'/proc/{pid}/task'), key=int)  # the last one spins, the first one waits
        filled = []
        for arg in args:
            filled += [str(programs / 'spin'), *SPIN] if arg == '{spin}' else [arg.replace('{pid}', pid).replace('{tid}', tid)]
        file = tmp_path / 'x.data'
        if pipe:
            with open(file, 'wb') as out:
                subprocess.run([program, 'record', '-q', '-o', '-', *filled], stdout=out, check=True, timeout=60)
            file.chmod(0o600)
        else:
            millrace('record', '-q', '-o', file, *filled)
        return file
    return record


def read_with_perf(perf, file, pipe=False):
    outputs = {}
    commands = [('script',), ('report', '--stdio'), ('evlist', '-v')]
    if not pipe:  # perf report --stats stumbles over the tracing data of perf's own pipes, too
        commands += [('report', '--stats'), ('buildid-list',), ('report', '--header-only')]
    for command in commands:
        done = perf(*command, '-i', file)
        assert not done.err.strip(), done
        outputs[command[0]] = done.out
    return outputs


@pytest.mark.parametrize('mode', MODES)
def test_perf_reads_it(recorded, perf, mode):
    outputs = read_with_perf(perf, recorded(mode))
    assert outputs['evlist'] and (outputs['script'] or mode == 'delay')
    if mode != 'no build-ids' and outputs['script']:
        assert outputs['buildid-list']


@pytest.mark.parametrize('mode', PIPES)
def test_perf_reads_the_pipe(recorded, perf, mode):
    outputs = read_with_perf(perf, recorded(mode, pipe=True), pipe=True)
    assert outputs['script']


@pytest.fixture(scope='session')
def perfparser():
    for path in (pathlib.Path('/usr/lib/x86_64-linux-gnu/libexec/hotspot-perfparser'),
                 pathlib.Path('/usr/lib/libexec/hotspot-perfparser')):
        if path.exists():
            return path
    found = shutil.which('hotspot-perfparser')
    if not found:
        pytest.skip('hotspot-perfparser is not installed (Debian: hotspot)')
    return found


@pytest.mark.parametrize('pipe', [False, True], ids=['file', 'pipe'])
@pytest.mark.parametrize('mode', ['command', 'call chains fp', 'call chains dwarf', 'all CPUs', 'process',
                                  'per thread', 'tracepoint', 'several events', 'several kinds'])
def test_hotspot_accepts_it(recorded, perfparser, run, tmp_path, mode, pipe):
    file, out = recorded(mode, pipe), tmp_path / 'parsed'
    done = run([perfparser, '--input', file, '--output', out], env={'QT_QPA_PLATFORM': 'offscreen'})
    assert out.stat().st_size > 2000 and 'rror' not in done.err, done.err
