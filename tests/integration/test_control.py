# SPDX-License-Identifier: MIT
"""-D and --control, driven as perf-record(1) describes it: by fds and by FIFOs, by clients good and bad."""
import json
import os
import pathlib
import select
import socket
import struct
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from off_cpu import BEGAN_EARLIER, GOES_ON, UNKNOWN, waits_of  # noqa: E402
from perfdata import COMM, PerfData  # noqa: E402

PATIENCE = 60  # seconds


class Client:
    """The other side: writes commands, reads what comes back, and gives up in the end."""

    def __init__(self, ctl, ack):
        self.ctl, self.ack, self.rest = ctl, ack, b''

    def send(self, data):
        os.write(self.ctl, data)

    def line(self):
        while b'\n' not in self.rest:
            ready, _, _ = select.select([self.ack], [], [], PATIENCE)
            assert ready, f'no answer; so far: {self.rest}'
            piece = os.read(self.ack, 4096)
            assert piece, f'the other side has ended; so far: {self.rest}'
            self.rest += piece
        line, _, self.rest = self.rest.partition(b'\n')
        return line.decode()

    def ask(self, text):
        self.send(text.encode() + b'\n')
        return self.line()


class Recording:
    def __init__(self, process, client, file):
        self.process, self.client, self.file = process, client, file

    def end(self):
        _, err = self.process.communicate(timeout=PATIENCE)
        return err.decode(errors='replace')


@pytest.fixture(params=['fd', 'fifo', 'socket'])
def way(request):
    return request.param


@pytest.fixture
def control(program, spawn, tmp_path):
    """control(way, *options) -> Recording of a `sleep`, with a client on its --control."""
    fds = []

    def start(how, *options, command=('sleep', '1000')):
        file = tmp_path / 'p.data'
        if how == 'fifo':
            for name in ('ctl', 'ack'):
                os.mkfifo(tmp_path / name)
                fds.append(os.open(tmp_path / name, os.O_RDWR))
            where, theirs, client = f'fifo:{tmp_path}/ctl,{tmp_path}/ack', [], Client(*fds)
        elif how == 'socket':
            near, far = socket.socketpair()
            near, far = near.detach(), far.detach()
            fds.extend([near, far])
            where, theirs, client = f'fd:{far},{far}', [far], Client(near, near)
        else:
            ctl, ack = os.pipe(), os.pipe()
            fds.extend([ctl[1], ack[0]])
            where, theirs, client = f'fd:{ctl[0]},{ack[1]}', [ctl[0], ack[1]], Client(ctl[1], ack[0])
        process = spawn([program, 'record', '-o', file, f'--control={where}', *options, '--', *command],
                        pass_fds=theirs, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        if how == 'fd':
            for fd in theirs:
                os.close(fd)
        return Recording(process, client, file)

    yield start
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            pass


def test_as_perf_documents(control, way):
    recording = control(way, '-D', '-1', '-e', 'cpu-clock,cpu-clock/name=other/')
    ask = recording.client.ask
    assert ask('ping') == 'ack'
    for command in ('enable', 'disable', 'enable other', 'disable other', 'evlist', 'evlist -v', 'evlist -g',
                    'evlist -F'):
        assert ask(command) == 'ack', command
    assert ask('bogus').startswith('error: ') and ask('enable nothing').startswith('error: ')
    assert ask('disable dummy:u').startswith('error: cannot be disabled')  # what tasks do is always told
    assert ask('stop') == 'ack'
    err = recording.end()
    for line in ('events enabled', 'events disabled', 'event other enabled', 'event other disabled',
                 'cpu-clock: sample_freq=4000', 'cpu-clock: type: 1, size: ', 'unknown command: "bogus"'):
        assert 'millrace: ' + line in err or line in err, line
    PerfData(recording.file)


def test_events_flow_only_while_enabled(control, programs, need_tracefs, tmp_path):
    """A load that makes 1000 calls each time when it is told to go on."""
    pipes = {}
    for name in ('go', 'done'):
        os.mkfifo(tmp_path / name)
        pipes[name] = os.open(tmp_path / name, os.O_RDWR)
    script = f'for i in 1 2 3; do read line; {programs}/syscalls -t 1 -n 1000 >&2; echo done; done'
    names = ['syscalls:sys_enter_getppid', 'syscalls:sys_enter_getpriority']
    recording = control('fd', '-D', '-1', '-e', ','.join(names),
                        command=['sh', '-c', f'exec <{tmp_path}/go >{tmp_path}/done; {script}'])

    def run_load():
        os.write(pipes['go'], b'go\n')
        ready, _, _ = select.select([pipes['done']], [], [], PATIENCE)
        assert ready and os.read(pipes['done'], 16) == b'done\n'

    run_load()
    assert recording.client.ask(f'enable {names[0]}') == 'ack'
    run_load()
    assert recording.client.ask('disable') == 'ack'
    run_load()
    recording.end()
    data = PerfData(recording.file)
    counts = [sum(data.by_id[sample.id] == attr for sample in data.samples()) for attr in data.attrs[:2]]
    assert counts == [1000, 0]
    for fd in pipes.values():
        os.close(fd)


def test_off_cpu_only_while_enabled(control, spawn, need_tracefs, tmp_path):
    """A task that sleeps all the time was off the CPU for as long as the events were on."""
    sleeper = spawn(['sleep', '60'])
    recording = control('fd', '-D', '-1', '-e', 'dummy', '--off-cpu', '-p', sleeper.pid)
    least = most = 0
    for _ in range(3):
        asked = time.monotonic_ns()
        assert recording.client.ask('enable') == 'ack'
        on = time.monotonic_ns()
        time.sleep(0.2)
        least += time.monotonic_ns() - on
        assert recording.client.ask('disable') == 'ack'
        most += time.monotonic_ns() - asked
        time.sleep(0.2)
    assert recording.client.ask('stop') == 'ack'
    recording.end()
    waits = waits_of(recording.file)
    assert len(waits) == 3 and {wait.tid for wait in waits} == {sleeper.pid}
    assert all(wait.flags & (BEGAN_EARLIER | GOES_ON | UNKNOWN) == BEGAN_EARLIER | GOES_ON for wait in waits)
    assert least <= sum(wait.ns for wait in waits) <= most


def test_wall_time_while_disabled(control, millrace, need_tracefs):
    """Of a task that never sleeps no wait tells when that was, unless it is preempted then: it is in no row."""
    recording = control('fd', '-D', '-1', '-e', 'cpu-clock', '-F', '999', '--off-cpu',
                        command=['nice', '-n', '-15', 'sh', '-c', 'while :; do :; done'])
    most = 0
    for _ in range(5):
        asked = time.monotonic_ns()
        assert recording.client.ask('enable') == 'ack'
        time.sleep(0.05)
        assert recording.client.ask('disable') == 'ack'
        most += time.monotonic_ns() - asked
        time.sleep(0.05)
    assert recording.client.ask('stop') == 'ack'
    recording.end()
    events = json.loads(millrace('report', '-i', recording.file, '--json', '--wall', '-s', 'tid').out)['events']
    ((row,),) = [event['entries'] for event in events if event['entries']]
    assert row['on_cpu'] and row['period'] <= most
    assert json.loads(millrace('report', '--loss', '--json', '-i', recording.file).out)['lost'] == 0


def test_garbage_and_partial_lines(control, way):
    recording = control(way, '-e', 'cpu-clock')
    client = recording.client
    client.send(b'\0\0\n\n\0')
    client.send(b'pi')
    client.send(b'ng\n')
    assert client.line() == 'ack'
    client.send(bytes(range(1, 10)) + b'\xff\xfe\n')
    assert client.line().startswith('error: unknown command: ')
    for _ in range(64):  # 64 KiB without an end
        client.send(b'x' * 1024)
    client.send(b'\nping\0')
    assert [client.line() for _ in range(2)] == ['error: line too long', 'ack']
    client.send(b'pingpong\nping \n enable\n')
    assert [client.line().split(':')[0] for _ in range(3)] == ['error', 'ack', 'error']
    client.send(b'nonsense\n' * 50)
    for _ in range(50):
        assert client.line().startswith('error: ')
    assert client.ask('stop') == 'ack'
    err = recording.end()
    assert err.count('unknown command') < 40 and '\xff' not in err and '\1' not in err


def test_acknowledgements_that_are_not_read(control, way):
    """They fill what the kernel keeps, and are dropped then: the recording goes on, and stops when told."""
    recording = control(way, '-e', 'cpu-clock')
    for _ in range(3000):
        recording.client.send(b'ping\n' * 100)
    recording.client.send(b'stop\n')
    assert 'captured' in recording.end()


def test_a_client_that_vanishes(control, way):
    recording = control(way, '-e', 'cpu-clock', command=['sleep', '0.5'])
    assert recording.client.ask('ping') == 'ack'
    recording.client.send(b'disab')
    os.close(recording.client.ctl)
    assert 'captured' in recording.end()
    assert recording.process.returncode == 0


def test_many_clients_of_a_fifo(control):
    recording = control('fifo', '-e', 'cpu-clock')
    for _ in range(20):
        with open(recording.file.parent / 'ctl', 'wb') as fifo:
            fifo.write(b'ping\n')
        assert recording.client.line() == 'ack'
    assert recording.client.ask('stop') == 'ack'
    recording.end()


@pytest.mark.parametrize('where, why', [('fd:', 'neither'), ('fd:1,2,3', 'neither'), ('pipe:3', 'neither'),
                                        ('fd:777', '777'), ('fifo:/nowhere/ctl', '/nowhere/ctl')])
def test_what_cannot_be(millrace, tmp_path, where, why):
    done = millrace('record', f'--control={where}', '-e', 'cpu-clock', '-o', tmp_path / 'p.data', '--', 'true',
                    status=None)
    assert done.status in (129, 255) and why in done.err


@pytest.mark.parametrize('delay', ['x', '10-', '20-10', '10-20,15-30', '-2'])
def test_times_that_cannot_be(millrace, delay):
    assert f'"{delay}"' in millrace('record', f'--delay={delay}', '--', 'true', status=129).err


def test_ranges_of_time(millrace, programs, tmp_path):
    """Between the ranges nothing is recorded."""
    file = tmp_path / 'p.data'
    millrace('record', '-D', '0-400,1600-2000', '-e', 'cpu-clock', '-o', file, '--', programs / 'spin', '-t', '1',
             '-m', '2100')
    times = sorted(sample.time for sample in PerfData(file).samples())
    assert max(after - before for before, after in zip(times, times[1:])) > 500e6


def test_maps_of_running_tasks_come_before_the_delay_is_over(millrace, spawn, tmp_path):
    """With -p no exec turns on the event that carries maps and names: we do, before the others are on."""
    target = spawn(['sh', '-c', 'read line; exec true'], stdin=subprocess.PIPE)
    file = tmp_path / 'p.data'
    millrace('record', '-D', '-1', '-e', 'cpu-clock', '-p', target.pid, '-o', file, '--', 'sh', '-c',
             f'echo >/proc/{target.pid}/fd/0; exec sleep 1000', status=None)  # ended when the target has
    data = PerfData(file)
    comms = [record.body[8:].split(b'\0')[0] for record in data.records() if record.type == COMM]
    assert b'true' in comms and not any(True for _ in data.samples())
