# SPDX-License-Identifier: MIT
"""What is done while recording about memory that fills and CPU time that is bounded, and that it is told and loses
nothing unseen."""
import json
import os
import re
import signal
import sys
import time

import pytest

from conftest import MILLRACE, wait_until
from perfdata import PerfData

pytestmark = pytest.mark.alone

# The second event has lost nothing but samples.
COUNTED = 'dummy,syscalls:sys_enter_getppid'

# Makes calls until the file `enough` exists, and ends when `go` does: no other program calls getppid(2).
LOAD = '''
import pathlib, subprocess, sys, time

syscalls, counts, enough, go = sys.argv[1:]
with open(counts, "w") as out:
    while not pathlib.Path(enough).exists():
        subprocess.run([syscalls, "-t", "2", "-n", "10000"], stdout=out, check=True)
    subprocess.run([syscalls, "-t", "2", "-n", "10000"], stdout=out, check=True)
while not pathlib.Path(go).exists():
    time.sleep(0.01)
'''


def stopped_for_a_while(process, err, said):
    """Who sleeps now and then finds its rings full, whatever else the machine does."""
    assert process.poll() is None, err.read_text()
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(0.02)
    os.kill(process.pid, signal.SIGCONT)
    return re.search(said, err.read_text())


def check(files, made, err):
    data = [PerfData(file) for file in files]
    samples = [sample for one in data for sample in one.samples()]
    assert len(samples) + sum(one.lost_samples(one.attrs[1]) for one in data) == made, err
    assert len({(sample.tid, sample.cpu, sample.time, sample.raw) for sample in samples}) == len(samples)


@pytest.fixture
def steer(programs, need_tracefs, tmp_path, spawn):
    """steer(options, said, then='') -> (stderr, calls made): records LOAD until millrace has said so, and then that."""
    def record(options, said, then='', late=False):
        counts, enough, go, err = (tmp_path / name for name in ('counts', 'enough', 'go', 'err'))
        # Without this right no thread is real-time.
        ordinary = ['setpriv', '--bounding-set=-sys_nice'] if late and os.geteuid() == 0 else []
        with open(err, 'wb') as stderr:
            process = spawn([*ordinary, MILLRACE, 'record', '-v', '-e', COUNTED, *options, '--', sys.executable,
                             '-c', LOAD, programs / 'syscalls', counts, enough, go], stderr=stderr)
        wait_until(lambda: counts.exists() or process.poll() is not None, 'the load has begun')
        for pattern, done, stop in ((said, enough, late), (then, go, False)):
            wait_until(lambda: stopped_for_a_while(process, err, pattern) if stop else
                       re.search(pattern, err.read_text()) or process.poll() is not None, pattern)
            done.touch()
        assert process.wait(60) == 0, err.read_text()
        assert 'Sanitizer' not in err.read_text(), err.read_text()
        return err.read_text(), sum(int(line.split()[1]) for line in counts.read_text().splitlines())

    return record


def loss_of(millrace, file):
    return json.loads(millrace('report', '--loss', '--json', '-i', file).out)


def actions_of(loss, kind):
    return [(action['from'], action['to']) for action in loss['actions'] if action['kind'] == kind]


def test_level_falls_while_records_wait_and_rises_again(steer, millrace, tmp_path):
    file, plain = tmp_path / 'p.data', tmp_path / 'plain.data'
    err, made = steer(['-z22', '--buffer-memory=8M', '-o', file], 'records wait in memory to be compressed',
                      'there is CPU time for it again')
    loss = loss_of(millrace, file)
    levels = actions_of(loss, 'level changed')
    assert levels[0][0] == 22 and levels[0][1] <= 9
    assert any(after > before for before, after in levels)
    assert all(left[1] == right[0] for left, right in zip(levels, levels[1:]))
    assert loss['captured'] + loss['lost'] == made and loss['lost'] == loss['lost_in_ledger']
    assert 'level = 22' in millrace('report', '--header-only', '-i', file).out
    assert re.search('level changed from 22 to [0139]\n', millrace('report', '--loss', '-i', file).out)
    millrace('merge', file, '-o', plain)
    check([plain], made, err)


@pytest.mark.parametrize('options', [['-m', '8K'], ['-m', '8K', '--threads'], ['-m', '8K', '--writer=aio,blocks=4'],
                                     ['-m', '8K', '-z', '--threads', '--single-file']])
def test_rings_that_are_nearly_full_are_visited_sooner(steer, millrace, tmp_path, options):
    file, plain = tmp_path / 'p.data', tmp_path / 'plain.data'
    err, made = steer([*options, '-o', file], 'rings are visited every ms, before',
                      'rings are visited when they wake the recorder', late=True)
    loss = loss_of(millrace, file)
    fast_polls = actions_of(loss, 'fast poll')
    assert fast_polls[0] == (0, 1000000) and (1000000, 0) in fast_polls
    assert loss['captured'] + loss['lost'] == made and loss['lost'] == loss['lost_in_ledger']
    assert 'fast poll from 0 to 1 ms\n' in millrace('report', '--loss', '-i', file).out
    millrace('merge', file, '-o', plain)
    check([plain], made, err)


WAYS = {
    'serial': [],
    'zstd': ['-z19'],
    'memory': ['--buffer-memory=4M'],
    'threads': ['--threads'],
    'single file': ['--threads', '--single-file', '-z9'],
    'direct': ['--writer=direct'],
}


@pytest.mark.parametrize('way', WAYS)
def test_what_is_given_up_for_cpu_time_is_counted(steer, millrace, tmp_path, way):
    """One that cannot be kept by anything else."""
    file = tmp_path / 'p.data'
    err, made = steer(['--max-cpu=0.1', '-m', '8K', *WAYS[way], '-o', file], 'rings are visited every [0-9]+ ms')
    loss = loss_of(millrace, file)
    assert loss['captured'] + loss['lost'] == made and loss['lost'] == loss['lost_in_ledger'], err
    assert actions_of(loss, 'poll interval')[0][0] == 0
    level = int((re.findall(r'-z(\d+)', ' '.join(WAYS[way])) or ['0'])[0])
    levels = actions_of(loss, 'level changed')
    assert not level and not levels or levels[0] == (level, 1) and (1, 0) in levels
    dropped = int(re.search(r'--max-cpu=0.1: used .* by which (\d+) were lost', err).group(1))
    assert 0 < dropped <= loss['lost']
    assert 'CPU limit' in {gap['cause'] for gap in loss['gaps']}
    assert loss['cost']['bounded cpu ns'] <= loss['cost']['all cpu ns']
    assert re.search(r'poll interval from 0 to \d+ ms\n', millrace('report', '--loss', '-i', file).out)


def test_files_are_switched_under_a_limit(steer, tmp_path):
    err, made = steer(['--max-cpu=0.1', '-m', '8K', '--switch-output=1s', '-o', tmp_path / 'p.data'],
                      'rings are visited every [0-9]+ ms')
    check(sorted(tmp_path.glob('p.data.2*')), made, err)


def test_cpu_time_is_bounded(programs, millrace, need_tracefs, tmp_path):
    """At level 19 two CPUs would be busy all the time."""
    file = tmp_path / 'p.data'
    end = f'import subprocess, sys, time\nend = time.time() + 3\nwhile time.time() < end:\n' \
          f'    subprocess.run([{str(programs / "syscalls")!r}, "-t", "2", "-n", "10000"], stdout=subprocess.DEVNULL)'
    millrace('record', '-z19', '--max-cpu=20%', '-e', COUNTED, '-o', file, '--', sys.executable, '-c', end)
    cost = loss_of(millrace, file)['cost']
    assert cost['cpu bound percent'] == 20
    assert 0 < cost['bounded cpu ns'] < 0.8 * cost['bounded time ns']


def sleeps_of_main(process):
    """How often its main thread has gone to sleep."""
    with open(f'/proc/{process.pid}/task/{process.pid}/status') as status:
        return int(re.search(r'^voluntary_ctxt_switches:\s+(\d+)', status.read(), re.M).group(1))


@pytest.mark.parametrize('options', [[], ['-z9'], ['-z9', '--max-cpu=50']])
def test_a_quiet_recording_wakes_no_thread(spawn, need_tracefs, tmp_path, options):
    process = spawn([MILLRACE, 'record', '-e', COUNTED, *options, '-o', tmp_path / 'p.data', '--', 'sleep', '60'],
                    stderr=tmp_path.joinpath('err').open('wb'))

    def quiet():
        before = sleeps_of_main(process)
        time.sleep(0.5)
        return before > 0 and sleeps_of_main(process) == before and process.poll() is None

    wait_until(quiet, 'half a second in which the main thread sleeps')


@pytest.mark.parametrize('value', ['0', '-5', 'much', '20x', '1e9', 'nan'])
def test_no_percentage(millrace, value):
    done = millrace('record', f'--max-cpu={value}', '--', 'true', status=129)
    assert f'"{value}" is no percentage of one CPU' in done.err


def test_one_of_two_promises(millrace):
    done = millrace('record', '--max-cpu=20', '--on-pressure=freeze', '--', 'true', status=129)
    assert 'exclude each other' in done.err and done.err.count('\n') == 1
