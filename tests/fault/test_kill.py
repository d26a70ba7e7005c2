# SPDX-License-Identifier: MIT
"""
SIGKILL at random moments of recordings in all modes: every file that is left is whole or can be made whole, nothing is in it
twice, nothing is missing in between, and nothing else is left behind. SEED=N repeats a run, KILLS=N says how many.
"""
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import wait_until  # noqa: E402
from law import loss_of, main_file  # noqa: E402

WRITERS = ['serial', 'mmap', 'aio', 'uring', 'direct']
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


def numbers_in(millrace, perf, path):
    """(thread, number) of all calls of a recording; perf reads as many samples."""
    lines = millrace('script', '-F', 'tid,trace', '-i', path).out.splitlines()
    assert len(perf('script', '-F', 'tid', '-i', path).out.splitlines()) == len(lines)
    found = (re.match(r' *(\d+) +NR 110 \((\w+),', line) for line in lines)
    return [(int(match[1]), int(match[2], 16)) for match in found if match]


def check_run(numbers, lost):
    """Nothing twice, and between the first and the last of each thread nothing is missing but what is known to be lost."""
    assert len(set(numbers)) == len(numbers), 'twice'
    threads = {}
    for tid, number in numbers:
        threads.setdefault(tid, []).append(number)
    missing = sum(max(of) - min(of) + 1 - len(of) for of in threads.values())
    assert missing <= lost, f'{missing} missing, {lost} known to be lost'


def check_file(millrace, perf, path):
    """Whole, or made whole. Returns the numbers and the losses, or None where the recorder had not got to its first record."""
    before = committed(path)
    done = millrace('recover', path, status=None)
    if done.status:
        assert not before and ('no record is left' in done.err or before is None), done
        return None
    assert before is None or committed(path) >= before or path.is_dir()
    return numbers_in(millrace, perf, path), loss_of(millrace, path)['lost']


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
    path, calls = directory / 'p', rng.choice([20000, 50000, 10**9])
    words = [program, 'record', *options, '-o', '-' if output == 'pipe' else path, '-e', 'dummy,raw_syscalls:sys_enter', '--',
             programs / 'syscalls', '-t', '2', '-n', calls]
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
    wait_until(lambda: all(name != 'millrace' and state != 'T' for _, name, state in processes_of(directory)), 'nothing is left')
    for pid, *_ in processes_of(directory):
        os.kill(pid, signal.SIGKILL)
    return check_rest(millrace, perf, directory, output)


def check_rest(millrace, perf, directory, output):
    files = sorted(directory.iterdir(), key=lambda path: (path.name == 'p', path.name))
    assert all(re.fullmatch(r'p(\.\d+(\.part)?)?', path.name) for path in files), files
    assert all(not path.name.endswith('.part') for path in files) or output in ('rotation', 'flight')
    numbers, lost, found = [], 0, 'nothing'
    for path in files:
        if output == 'pipe':
            whole = path.stat().st_size > 4096 and (numbers_in(millrace, perf, path), loss_of(millrace, path)['lost'])
        else:
            whole = check_file(millrace, perf, path)
        if not whole:
            continue
        found = f'{len(files)} files'
        if output == 'flight':
            check_run(*whole)
        else:
            numbers += whole[0]
            lost += whole[1]
    check_run(numbers, lost)
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
    kill_many(millrace, program, programs, perf, spawn, tmp_path, 12)


@pytest.mark.lab
def test_kill_200(millrace, program, programs, perf, spawn, need_tracefs, tmp_path):
    kill_many(millrace, program, programs, perf, spawn, tmp_path, 200)
