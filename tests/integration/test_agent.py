# SPDX-License-Identifier: MIT
"""`millrace agent`: recorded = delivered + dropped + refused + waiting, whatever happens to the store and to itself."""
import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import perfdata  # noqa: E402
from conftest import MILLRACE, ROOT, TRACEFS, cpu_seconds, stat_of, wait_until  # noqa: E402
from test_clickhouse import Store, StoreServer  # noqa: E402


def status(state):
    try:
        return json.loads((state / 'status.json').read_text())
    except FileNotFoundError:
        return None


def stop_all_threads(pid):
    """Sends SIGSTOP, and waits until no thread runs any more."""
    def stands_still():
        try:
            return all(stat_of(f'{pid}/task/{tid}')[0] == 'T' for tid in os.listdir(f'/proc/{pid}/task'))
        except FileNotFoundError:  # a thread has ended
            return False
    os.kill(pid, signal.SIGSTOP)
    wait_until(stands_still, f'{pid} is stopped')


def samples(found):
    """recorded, and what became of it."""
    return found['recorded']['samples'], sum(found[key]['samples'] for key in (
        'delivered', 'dropped', 'refused', 'waiting'))


@pytest.fixture
def agent(need_root, tmp_path):
    """
    agent(WORDS) -> a running agent of pieces of 1 s; stop() ends it and returns its status. On a busy machine the end
    takes long: --stop-time is by default so long that all is delivered.
    """
    class Agent:
        state = tmp_path / 'state'
        processes, environment = [], {}

        def __call__(self, *words):
            with open(tmp_path / 'agent-err', 'w', encoding='utf-8') as err:
                self.process = subprocess.Popen(
                    [MILLRACE, 'agent', f'--state={self.state}', '--every=1s', '--stop-time=50s', *map(str, words)],
                    stderr=err, env={**os.environ, 'HOME': str(tmp_path), **self.environment})
            self.processes.append(self.process)
            return self

        def until(self, condition, what):
            def holds():
                found = status(self.state)
                return found and found['pid'] == self.process.pid and condition(found)
            try:
                wait_until(holds, what)
            except pytest.fail.Exception as failure:
                pytest.fail(f'{failure}; status {status(self.state)}\n{self.err}')

        @property
        def err(self):
            return (tmp_path / 'agent-err').read_text()

        def children(self):
            """
            In the order of their start: the recorder, with triggers that of the last seconds and the commands, and then
            a delivery, if one is under way.
            """
            text = pathlib.Path(f'/proc/{self.process.pid}/task/{self.process.pid}/children').read_text()
            return list(map(int, text.split()))

        @contextlib.contextmanager
        def between_deliveries(self):
            """The agent stands still, and no delivery is under way: of one that has ended it does not know yet."""
            stop_all_threads(self.process.pid)
            wait_until(lambda: all(stat_of(pid)[0] == 'Z' for pid in self.children()[1:]), 'no delivery')
            yield
            self.process.send_signal(signal.SIGCONT)

        def stop(self, with_samples=True):
            if with_samples:  # on a quiet machine there are pieces without a sample
                self.until(lambda found: found['recorded']['samples'], 'samples')
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=120)
            assert self.process.returncode == 0, self.err
            recorded, accounted = samples(status(self.state))
            assert recorded == accounted and (recorded > 0) == with_samples
            return status(self.state)

    made = Agent()
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.kill()
            process.wait()


def reported(millrace, path):
    report = json.loads(millrace('report', '-i', path, '--json', '--no-children', '-g', 'none', '-s', 'comm').out)
    return sum(event['samples'] for event in report['events'])


def test_files_are_recordings(agent, millrace, tmp_path):
    agent(f'--files={tmp_path}/out').until(lambda found: found['delivered']['pieces'] >= 2, 'two pieces')
    found = agent.stop()
    files = sorted((tmp_path / 'out').iterdir())
    assert len(files) == found['delivered']['pieces'] == found['recorded']['pieces']
    assert sum(reported(millrace, path) for path in files) == found['delivered']['samples']
    assert not list((agent.state / 'spool').iterdir()) and not list((agent.state / 'record').iterdir())


def test_files_are_kept_within_a_size(agent, tmp_path):
    out = tmp_path / 'out'
    agent(f'--files={out}', '--format=folded', '--keep-size=1').until(
        lambda found: found['delivered']['pieces'] >= 3, 'three pieces')
    found = agent.stop()
    assert found['delivered']['pieces'] >= 3 and not [path for path in out.iterdir() if path.stat().st_size > 1]


def test_files_of_others_are_kept(agent, tmp_path):
    """What is removed are pieces, and what a delivery that was killed left."""
    out = tmp_path / 'out'
    out.mkdir()
    names = ['millrace-20260101T000000.000Z.data', '.millrace-0123456789abcdef', 'millrace-notes.txt',
             'millrace-20260101-other.txt', '.millrace-notes']
    for name in names:
        (out / name).write_text('x')
        os.utime(out / name, (time.time() - 100000,) * 2)
    (out / '.millrace-fedcba9876543210').write_text('x')  # of one that lives
    agent(f'--files={out}', '--keep-for=1d').until(lambda found: found['delivered']['pieces'], 'a piece')
    agent.stop()
    assert {name for name in names if (out / name).exists()} == set(names[2:])
    assert (out / '.millrace-fedcba9876543210').exists()


def test_a_full_disk_of_files_gets_room(agent, tmpfs):
    """What --keep-for lets go is removed also where no file can be written."""
    out = tmpfs('1m')
    old = out / 'millrace-20260101T000000.000Z.folded'
    old.write_bytes(bytes(900 << 10))
    os.utime(old, (time.time() - 100000,) * 2)
    with pytest.raises(OSError):
        (out / 'other').write_bytes(bytes(1 << 20))
    agent(f'--files={out}', '--format=folded', '--keep-for=1d').until(
        lambda found: found['delivered']['pieces'] >= 1, 'a piece')
    found = agent.stop()
    assert not old.exists() and found['delivered'] == found['recorded']


class Server:
    """The store of test_clickhouse.py, which can go away and come back at the same port."""
    def __init__(self):
        # Bound until the end, without listening: while no server is there the port is refused, and given to no other.
        self.reserved = socket.socket()
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.reserved.bind(('127.0.0.1', 0))
        self.port = self.reserved.getsockname()[1]
        self.rows, self.server = [], None

    def start(self, handler=Store, wrap=None):
        self.server = StoreServer(self.port, handler)
        self.server.rows = self.rows
        self.server.daemon_threads = True
        if wrap:
            self.server.socket = wrap.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={'poll_interval': .05})
        self.thread.start()

    def stop(self):
        if self.server:
            self.server.shutdown()
            self.thread.join()
            self.server.server_close()
            self.server = None


@pytest.fixture
def server(millrace):
    if 'cannot send to servers' in millrace('export', '--to=clickhouse://a', '--format=folded', status=129).err:
        pytest.skip('this build cannot send to servers')
    made = Server()
    yield made
    made.stop()
    made.reserved.close()


def test_a_store_that_goes_and_comes(agent, server):
    server.start()
    agent(f'--to=clickhouse://127.0.0.1:{server.port}', '--service=web').until(
        lambda found: found['delivered']['pieces'] >= 1, 'a piece')
    with agent.between_deliveries():
        server.stop()
    agent.until(lambda found: found['failing_since'] and found['waiting']['pieces'] >= 2, 'pieces that wait')
    server.start()
    agent.until(lambda found: not found['failing_since'], 'deliveries')
    found = agent.stop()
    assert found['delivered'] == found['recorded'] and not found['waiting']['pieces']
    assert sum(row[7] for row in server.rows) == found['delivered']['samples']
    assert agent.err.count('delivery failed') == 1 and 'deliveries work again' in agent.err
    assert not re.search(r'after \d+ ms', agent.err), 'the same reason would be told again'


def test_the_spool_is_bounded_and_outlives_the_agent(agent, server):
    to = f'--to=clickhouse://127.0.0.1:{server.port}'
    agent(to, '--stop-time=1s', '--spool-size=1').until(lambda found: found['dropped']['pieces'] >= 2, 'dropped pieces')
    found = agent.stop()
    assert not found['delivered']['pieces'] and 'the spool is full' in agent.err
    agent(to, '--stop-time=1s').until(lambda found: found['waiting']['pieces'] >= 2, 'pieces that wait')
    waited = agent.stop()['waiting']
    assert waited['pieces'] >= 2
    server.start()
    agent(to).until(lambda found: found['delivered']['pieces'] >= waited['pieces'], 'what waited')
    found = agent.stop()
    assert 'waiting from an earlier run: pieces: ' in agent.err
    assert sum(row[7] for row in server.rows) == found['delivered']['samples'] >= waited['samples']


def test_pieces_larger_than_the_spool_are_delivered(agent, server):
    """Those whose delivery is due: the spool is for times when the store does not take them."""
    server.start()
    agent(f'--to=clickhouse://127.0.0.1:{server.port}', '--spool-size=1').until(
        lambda found: found['delivered']['samples'], 'a piece')
    assert agent.stop()['delivered']['samples'] == sum(row[7] for row in server.rows)


def test_a_file_that_was_removed_from_the_spool(agent, server):
    """It is counted as dropped, and holds up no other."""
    agent(f'--to=clickhouse://127.0.0.1:{server.port}').until(
        lambda found: found['failing_since'] and found['waiting']['pieces'] >= 4, 'pieces that wait')
    with agent.between_deliveries():
        for path in sorted((agent.state / 'spool').iterdir())[:2]:
            path.unlink()
    server.start()
    agent.until(lambda found: found['delivered']['pieces'], 'deliveries')
    found = agent.stop()
    assert found['dropped']['pieces'] == 2 and not found['waiting']['pieces'] and not found['refused']['pieces']
    assert sum(row[7] for row in server.rows) == found['delivered']['samples']
    assert agent.err.count('files of 2 pieces are missing') == 1


def test_the_end_of_the_recorder_is_waited_for_at_rest(agent, server):
    """Also while pieces wait for which no time is left."""
    agent(f'--to=clickhouse://127.0.0.1:{server.port}', '--stop-time=1s').until(
        lambda found: found['waiting']['pieces'] >= 1, 'a piece that waits')
    recorder = agent.children()[0]
    stop_all_threads(recorder)
    agent.process.send_signal(signal.SIGTERM)
    time.sleep(3)  # longer than --stop-time, and shorter than the 10 s more after which the recorder is killed
    before, since = cpu_seconds(agent.process.pid), time.monotonic()
    time.sleep(2)
    used, passed = cpu_seconds(agent.process.pid) - before, time.monotonic() - since
    os.kill(recorder, signal.SIGCONT)
    agent.stop()
    assert used < passed / 10


def test_systemd_ends_the_agent_alone():
    """A SIGTERM to all of its processes would end a delivery that has time left; it ends its recorders itself."""
    lines = (ROOT / 'packaging' / 'millrace-agent.service').read_text().splitlines()
    assert lines.index('[Service]') < lines.index('KillMode=mixed') < lines.index('[Install]')
    # What is left of --stop-time, and of the end of the recorder, before all are killed.
    assert 'TimeoutStopSec=45' in lines


class Waits(http.server.BaseHTTPRequestHandler):
    """Takes a request and never answers; holds[] are those that wait."""
    holds = []

    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        self.holds.append(self.path)
        self.server.go_on.wait()


def test_the_spool_is_bounded_while_a_store_hangs(agent, server):
    """The piece that is under way stays; those behind it make room."""
    server.start(Waits)
    server.server.go_on = threading.Event()
    agent(f'--to=clickhouse://127.0.0.1:{server.port}', '--stop-time=1s', '--spool-size=2M')
    wait_until(lambda: Waits.holds, 'a delivery')
    oldest = min(path.name for path in (agent.state / 'spool').iterdir())
    agent.until(lambda found: found['dropped']['pieces'] >= 2, 'dropped pieces')
    assert len(Waits.holds) == 1 and oldest in os.listdir(agent.state / 'spool')
    found = agent.stop()
    left = sum(path.stat().st_size for path in (agent.state / 'spool').iterdir())
    assert left == found['waiting']['bytes'] <= 2 << 20
    assert 'the spool is full' in agent.err and 'had not answered when the agent ended' in agent.err
    server.server.go_on.set()


class Full(Store):
    """A store without room, as ClickHouse says it (error 243), until `full` is false."""
    full = True

    def answer(self, status, body):
        if self.full:
            status, body = 500, b'Code: 243. DB::Exception: Cannot reserve 1.00 MiB, not enough space\n'
        super().answer(status, body)


def test_a_store_that_is_full(agent, server):
    """Nothing is given up: what it refuses for want of room waits."""
    server.start(Full)
    agent(f'--to=clickhouse://127.0.0.1:{server.port}')
    agent.until(lambda found: found['failing_since'] and found['waiting']['pieces'] >= 3, 'pieces that wait')
    assert 'not enough space' in status(agent.state)['error']
    with agent.between_deliveries():
        Full.full = False
        server.rows.clear()  # the handler had them before it said no
    agent.until(lambda found: not found['failing_since'], 'deliveries')
    found = agent.stop()
    assert found['delivered'] == found['recorded'] and not found['refused']['pieces']
    assert sum(row[7] for row in server.rows) == found['delivered']['samples']


def check_all_arrived(server, found):
    assert found['delivered'] == found['recorded']
    assert sum(row[7] for row in server.rows) == found['delivered']['samples']


class Fails(Store):
    """A store that does what `fault` says, until it is ''."""
    def do_POST(self):
        fault = self.server.fault
        if fault == 'slow':
            time.sleep(.5)
        if fault in ('', 'slow'):
            super().do_POST()
            return
        self.rfile.read(int(self.headers['Content-Length']))
        if fault == 'closes':
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.answer(500 if fault == '500' else 200, b'<html>hello</html>')


@pytest.mark.parametrize('fault, said', [('500', 'HTTP 500'), ('garbage', '"<html>hello</html>"'), ('closes', 'http')])
def test_a_store_at_fault(agent, server, fault, said):
    """One line when it begins, one when it ends, and nothing is lost."""
    server.start(Fails)
    server.server.fault = fault
    agent(f'--to=clickhouse://127.0.0.1:{server.port}')
    agent.until(lambda found: found['failing_since'] and found['waiting']['pieces'] >= 3, 'pieces that wait')
    assert said in status(agent.state)['error']
    server.server.fault = ''
    agent.until(lambda found: not found['failing_since'], 'deliveries')
    found = agent.stop()
    check_all_arrived(server, found)
    assert agent.err.count('delivery failed') == 1 and agent.err.count('deliveries work again') == 1


def test_a_store_that_is_slow(agent, server):
    server.start(Fails)
    server.server.fault = 'slow'
    agent(f'--to=clickhouse://127.0.0.1:{server.port}')
    agent.until(lambda found: found['delivered']['pieces'] and found['waiting']['pieces'] >= 2, 'pieces that wait')
    server.server.fault = ''
    found = agent.stop()
    check_all_arrived(server, found)
    assert 'delivery failed' not in agent.err


def make_certificate(path, name):
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', path / f'{name}.key', '-out',
                    path / name, '-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'],
                   check=True, stderr=subprocess.DEVNULL)


@pytest.mark.skipif(not shutil.which('openssl'), reason='openssl is not installed')
def test_a_certificate_that_is_wrong(agent, server, tmp_path):
    """Nothing goes to such a server, the login least of all; with the right one everything does."""
    for name in 'wrong', 'right':
        make_certificate(tmp_path, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / 'right', tmp_path / 'right.key')
    server.start(wrap=context)
    login, trusted = tmp_path / 'login', tmp_path / 'trusted'
    login.write_text('user=writer\npassword=secret\n')
    login.chmod(0o600)
    shutil.copy(tmp_path / 'wrong', trusted)
    agent(f'--to=clickhouses://127.0.0.1:{server.port}', f'--ca-file={trusted}', f'--credentials={login}')
    agent.until(lambda found: found['failing_since'] and found['waiting']['pieces'] >= 2, 'pieces that wait')
    assert 'certificate' in status(agent.state)['error'] and not server.server.logins
    shutil.copy(tmp_path / 'right', tmp_path / 'new')
    os.rename(tmp_path / 'new', trusted)
    agent.until(lambda found: not found['failing_since'], 'deliveries')
    words = pathlib.Path(f'/proc/{agent.process.pid}/cmdline').read_text()
    found = agent.stop()
    check_all_arrived(server, found)
    assert server.server.logins == {'Basic d3JpdGVyOnNlY3JldA=='} and 'secret' not in words + agent.err
    assert agent.err.count('delivery failed') == 1


@pytest.mark.parametrize('text', ['', None])
def test_credentials_that_are_wrong_for_a_while(agent, server, tmp_path, text):
    """They say nothing about the pieces, which all wait: a file that is emptied, or that is none."""
    server.start()
    login = tmp_path / 'login'
    if text is None:
        login.mkdir(0o700)
    else:
        login.write_text(text)
        login.chmod(0o600)
    # Few pieces: all that wait are delivered within --stop-time, also where each delivery takes many seconds.
    agent(f'--to=clickhouse://127.0.0.1:{server.port}', f'--credentials={login}', '--every=8s')
    # Four tries of the first piece: at once, and after 1, 2 and 4 s.
    agent.until(lambda found: found['refused']['pieces'] or found['waiting']['pieces'] >= 2 and found['error'],
                'pieces that wait')
    assert not status(agent.state)['refused']['pieces']
    assert ('has no line user=NAME' if text is not None else 'is no regular file') in status(agent.state)['error']
    (tmp_path / 'new').write_text('user=writer\npassword=secret\n')
    (tmp_path / 'new').chmod(0o600)
    with agent.between_deliveries():  # no try finds neither
        if text is None:
            login.rmdir()
        os.rename(tmp_path / 'new', login)
    agent.until(lambda found: not found['failing_since'], 'deliveries')
    check_all_arrived(server, agent.stop())
    assert agent.err.count('delivery failed') == 1


FAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1'


@pytest.mark.skipif(not os.path.exists(FAKETIME), reason='needs faketime')
def test_the_clock_jumps(agent, millrace, tmp_path):
    """An hour ahead and two back, as by settimeofday(2): each piece is there once, in the order of the recording."""
    now = tmp_path / 'now'
    now.write_text('+0')
    agent.environment = {'LD_PRELOAD': FAKETIME, 'FAKETIME_TIMESTAMP_FILE': str(now), 'FAKETIME_NO_CACHE': '1',
                         'FAKETIME_DONT_FAKE_MONOTONIC': '1'}
    out = tmp_path / 'out'
    agent(f'--files={out}')

    def apart():
        """Seconds between the times in the names of the first and the last file."""
        names = sorted(path.name for path in out.iterdir())
        times = [time.strptime(name, 'millrace-%Y%m%dT%H%M%S.' + name.partition('.')[2]) for name in names]
        return time.mktime(times[-1]) - time.mktime(times[0])

    pieces = 0
    for jump in '+0', '+1h', '-1h':
        (tmp_path / 'next').write_text(jump)
        os.rename(tmp_path / 'next', now)
        agent.until(lambda found: found['delivered']['pieces'] >= pieces + 2, 'two pieces')
        if jump == '+1h':  # those that were finished before have the earlier time
            wait_until(lambda: apart() > 3000, 'a piece of the other time')
        pieces = status(agent.state)['recorded']['pieces']
    agent.until(lambda found: found['delivered']['pieces'] - found['empty_pieces'] >= 5, 'pieces with samples')
    found = agent.stop()
    files = sorted(out.iterdir())
    assert len(files) == found['recorded']['pieces'] == found['delivered']['pieces']
    assert apart() > 3000
    texts = [millrace('script', '-i', path, '--ns', '-F', 'time').out for path in files]
    first = [float(text.split(':')[0]) for text in texts if text.strip()]  # the last piece may be short
    assert first == sorted(first) and len(first) >= 5
    assert sum(reported(millrace, path) for path in files) == found['delivered']['samples']


def test_the_disk_of_the_spool_is_full(agent, server):
    """The oldest pieces make room for what is recorded, told and counted, and the recorder goes on."""
    agent.state.mkdir()
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=4m', 'none', agent.state], check=True)
    try:
        agent(f'--to=clickhouse://127.0.0.1:{server.port}', '--stop-time=1s', '--freq=1997')
        agent.until(lambda found: found['dropped']['pieces'] >= 3, 'dropped pieces')
        found = agent.stop()
        assert found['waiting']['pieces'] and not found['delivered']['pieces']
        assert 'the spool is full (--spool-size, or its disk): dropped ' in agent.err and \
            ' of the oldest pieces (samples: ' in agent.err
    finally:
        subprocess.run(['umount', '-l', agent.state], check=True)


def stop_with_a_file(recorder, directory):
    """Stops a recorder while the file that it writes has some bytes."""
    def stopped():
        stop_all_threads(recorder)
        files = [path for path in directory.iterdir() if path.suffix == '.part' or path.name == 'perf.data']
        if files and all(path.stat().st_size for path in files):
            return True
        os.kill(recorder, signal.SIGCONT)
        return False
    wait_until(stopped, 'a file that is written')


@pytest.mark.parametrize('who', ['agent', 'recorder', 'both'])
def test_killed(agent, millrace, tmp_path, who):
    """The agent: the recorder ends with it, whole. The recorder: it is started again. Both: it is recovered."""
    words = f'--files={tmp_path}/out',
    agent(*words).until(lambda found: found['delivered']['pieces'] >= 1, 'a piece')
    recorder = agent.children()[0]
    if who == 'both':
        # Not at the moment between one file and the next, which has no byte then.
        stop_with_a_file(recorder, agent.state / 'record')
    if who != 'recorder':
        stop_all_threads(agent.process.pid)
        children = agent.children()
        agent.process.kill()
        agent.process.wait()
    if who == 'both':
        os.kill(recorder, signal.SIGKILL)
    if who == 'recorder':
        os.kill(recorder, signal.SIGKILL)
        agent.until(lambda found: found['recorder_restarts'] == 1 and found['delivered']['pieces'] >= 2, 'a new one')
        agent.stop()
        assert 'the recorder ' in agent.err, agent.err
        return
    # They hold the lock of the directory: of the recorder, and of a delivery that was under way.
    wait_until(lambda: not any(pathlib.Path(f'/proc/{child}').exists() for child in children), 'their end')
    agent(*words).until(lambda found: found['delivered']['pieces'] >= 2, 'pieces')
    agent.stop()
    # Within a second of its start it may have stored nothing yet.
    assert 'cannot' not in agent.err or 'no record is left' in agent.err
    assert sum(reported(millrace, path) for path in (tmp_path / 'out').iterdir())


@pytest.fixture
def cut(need_root, millrace, programs, tmp_path):
    """cut(PATH) -> how many samples are in a recording there that ends in its records."""
    def make(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        millrace('record', '-qa', '--clockid=mono', '--freq=997', '--event=cpu-clock', '-o', tmp_path / 'data', '--',
                 programs / 'spin', '-m', '300')
        data = perfdata.PerfData(tmp_path / 'data')
        places = [record.offset for record in data.records() if record.type == perfdata.SAMPLE]
        assert len(places) > 20
        path.write_bytes(data.bytes[:places[-10] + 4])
        return len(places) - 10
    return make


@pytest.mark.parametrize('name', ['perf.data', 'perf.data.old', 'perf.data.2026112411425012.part'])
def test_a_file_that_cannot_be_recovered_now_is_kept(agent, cut, millrace, tmp_path, name):
    """It waits, whatever the recorder does then, and is recovered beside it."""
    record, out = agent.state / 'record', tmp_path / 'out'
    left = cut(record / name)
    os.chown(record / name, 12345, -1)  # is not recovered: it belongs to neither root nor the user of the agent
    agent(f'--files={out}').until(
        lambda found: found['unrecovered_files'] == 1 and found['delivered']['pieces'] >= 1, 'a piece')
    os.kill(agent.children()[0], signal.SIGKILL)
    agent.until(lambda found: found['recorder_restarts'] == 1, 'another recorder')
    assert status(agent.state)['unrecovered_files'] == 1
    kept, = record.glob('*.left')
    os.chown(kept, 0, -1)
    agent.until(lambda found: not found['unrecovered_files'], 'the recovery')
    agent.stop()
    assert not list(record.iterdir()) and agent.err.count('cannot be recovered now') == 1
    assert left in [reported(millrace, path) for path in out.iterdir()]


def test_a_piece_on_a_bad_disk(agent, millrace, programs, fuse_fs, tmp_path):
    """A part of it cannot be read: the agent goes on, and it is set aside."""
    record = agent.state / 'record'
    record.mkdir(parents=True)
    millrace('record', '-qa', '--clockid=mono', '--freq=997', '--event=cpu-clock', '-o', tmp_path / 'data', '--',
             programs / 'spin', '-m', '300')
    half = (tmp_path / 'data').stat().st_size // 2
    directory = fuse_fs(tmp_path / 'data', half, half + 8192, program='unreadable_fs.py')
    (record / 'perf.data.1').symlink_to(directory / 'file')
    agent(f'--files={tmp_path}/out', '--format=folded').until(
        lambda found: found['refused']['pieces'] == 1 and found['delivered']['pieces'] >= 1, 'the next piece')
    found = agent.stop()
    assert found['refused']['samples'] == 0 and found['recorded']['pieces'] == found['delivered']['pieces'] + 1
    assert f'its samples cannot be counted: signal {int(signal.SIGBUS)}' in agent.err


def test_a_file_without_a_record_is_set_aside(agent, tmp_path):
    record = agent.state / 'record'
    record.mkdir(parents=True)
    (record / 'perf.data').write_bytes(b'x' * 5000)
    (record / 'perf.data.1.part').write_bytes(b'')  # the recorder was killed before the first byte
    agent(f'--files={tmp_path}/out').until(lambda found: found['delivered']['pieces'] >= 1, 'a piece')
    found = agent.stop()
    assert (agent.state / 'refused.data').read_bytes() == b'x' * 5000 and not list(record.iterdir())
    assert found['refused'] == {'pieces': 1, 'samples': 0, 'lost': 0} and not found['unrecovered_files']
    assert found['recorded']['pieces'] == found['delivered']['pieces'] + 1


class Takes(http.server.BaseHTTPRequestHandler):
    bodies, status = [], 200

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        if self.status == 200:
            self.bodies.append((self.path, self.headers['Content-Type'], body))
        self.send_response(self.status)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.mark.parametrize('name, path, expected', [
    ('pprof', '/ingest?name={service}&from={from}&until={until}', '/ingest?name=web&from='),
    ('otlp', '', '/v1development/profiles'),
])
def test_posts(agent, millrace, server, name, path, expected):
    if f'no format "{name}"' in millrace('agent', f'--format={name}', status=129).err:
        pytest.skip(f'this build cannot write {name}')
    class Handler(Takes):
        bodies = []
    server.start(Handler)
    before = time.time()
    agent(f'--to=http://127.0.0.1:{server.port}{path}', f'--format={name}', '--service=web').until(
        lambda found: found['delivered']['pieces'] - found['empty_pieces'] >= 2, 'two pieces with samples')
    found = agent.stop()
    assert len(Handler.bodies) == found['delivered']['pieces'] - found['empty_pieces']
    assert all(body for _, _, body in Handler.bodies)
    first = Handler.bodies[0]
    assert first[0].startswith(expected) and first[1].startswith('application/')
    if name == 'pprof':
        start, end = (int(word.partition('=')[2]) for word in first[0].split('&')[1:])
        assert before - 5 < start < end < time.time() + 5


def test_pieces_without_samples(agent, millrace, server):
    if 'no format "pprof"' in millrace('agent', '--format=pprof', status=129).err:
        pytest.skip('this build cannot write pprof')
    class Handler(Takes):
        bodies = []
    server.start(Handler)
    agent(f'--to=http://127.0.0.1:{server.port}/', '--format=pprof', '--event=dummy').until(
        lambda found: found['delivered']['pieces'] >= 2, 'two pieces')
    found = agent.stop(with_samples=False)
    assert found['empty_pieces'] == found['delivered']['pieces'] and not found['delivered']['samples'], found
    assert not Handler.bodies


def test_what_a_server_refuses_holds_nothing_up(agent, millrace, server):
    if 'no format "pprof"' in millrace('agent', '--format=pprof', status=129).err:
        pytest.skip('this build cannot write pprof')
    class Handler(Takes):
        status = 400
    server.start(Handler)
    agent(f'--to=http://127.0.0.1:{server.port}/', '--format=pprof').until(
        lambda found: found['refused']['pieces'] >= 1, 'a piece that is given up')
    Handler.status, Handler.bodies = 200, []
    agent.until(lambda found: found['delivered']['pieces'] >= 1, 'the next')
    found = agent.stop()
    assert 'HTTP 400' in agent.err and (agent.state / 'refused.data').exists()
    assert found['refused']['pieces'] + found['delivered']['pieces'] == found['recorded']['pieces']


def put_stray(path):
    """Gives a sample in the middle of a recording the id of no event. Returns how many samples are left."""
    data = perfdata.PerfData(path)
    before = perfdata.IP | perfdata.TID | perfdata.TIME
    assert data.attrs[0].sample_type & (before | perfdata.ADDR | perfdata.IDENTIFIER | perfdata.ID) == \
        before | perfdata.ID
    places = [record.offset + 32 for record in data.records() if record.type == perfdata.SAMPLE]
    assert len(places) > 10
    with open(path, 'r+b') as file:
        file.seek(places[len(places) // 2])
        file.write(struct.pack('<Q', 1 << 60))
    return len(places) - 1


@pytest.mark.parametrize('kind', ['clickhouse', 'post', 'files'])
def test_a_sample_of_no_event_holds_back_no_other(agent, millrace, programs, server, tmp_path, kind):
    """Such a piece is delivered, and counted so."""
    record, out = agent.state / 'record', tmp_path / 'out'
    record.mkdir(parents=True)
    millrace('record', '-qa', '--clockid=mono', '--freq=997', '--event=cpu-clock', '--event=task-clock', '-o',
             tmp_path / 'data', '--', programs / 'spin', '-m', '300')
    left = put_stray(tmp_path / 'data')
    shutil.copy(tmp_path / 'data', record / 'perf.data.1')
    class Handler(Takes):
        bodies = []
    if kind != 'clickhouse' and 'no format "pprof"' in millrace('agent', '--format=pprof', status=129).err:
        pytest.skip('this build cannot write pprof')
    if kind == 'post':
        server.start(Handler)
        agent(f'--to=http://127.0.0.1:{server.port}/', '--format=pprof')
    elif kind == 'clickhouse':
        server.start()
        agent(f'--to=clickhouse://127.0.0.1:{server.port}')
    else:
        agent(f'--files={out}', '--format=pprof')
    agent.until(lambda found: found['delivered']['pieces'] + found['refused']['pieces'] >= 1, 'the piece')
    found = agent.stop()
    assert found['delivered'] == found['recorded'] and found['delivered']['samples'] >= left
    assert not (agent.state / 'refused.data').exists()
    assert f'are delivered ({left}): ' in agent.err and 'samples of events that the file does not describe' in agent.err
    if kind == 'post':
        assert len(Handler.bodies) == found['delivered']['pieces'] - found['empty_pieces']
    elif kind == 'clickhouse':
        assert sum(row[7] for row in server.rows) == found['delivered']['samples']
    else:
        assert len(list(out.iterdir())) == found['delivered']['pieces']


def test_many_options_of_record(agent, tmp_path):
    """All of them are given to it, and where it is to write."""
    agent(f'--files={tmp_path}/out', '--', *['--no-buildid'] * 100).until(
        lambda found: found['delivered']['pieces'], 'a piece')
    agent.stop()


@pytest.mark.parametrize('trigger', ['exit', 'load', 'signal', 'psi', 'event'])
def test_snapshots(agent, millrace, spawn, tmp_path, trigger):
    go = tmp_path / 'go'
    if trigger == 'event' and not (TRACEFS / 'events' / 'syscalls' / 'sys_enter_getpriority').exists():
        pytest.skip('this kernel has no tracepoints of system calls')
    if trigger == 'psi':
        try:
            pathlib.Path('/proc/pressure/cpu').read_text()
        except OSError:
            pytest.skip('this kernel does not count pressure')
    for _ in range(os.cpu_count() + 1 if trigger == 'psi' else 1):  # on a quiet machine there are no samples
        spawn(['sh', '-c', 'while :; do :; done'])
    spec = {'exit': f'exit:while ! [ -e {go} ]; do sleep .1; done; rm {go}; exit 7', 'load': 'load:0.000001',
            'signal': 'load:100000', 'psi': 'psi:cpu:0.01', 'event': 'event:syscalls:sys_enter_getpriority'}[trigger]
    agent(f'--files={tmp_path}/out', f'--on-trigger={spec}', '--flight=3s').until(
        lambda found: found['delivered']['pieces'] >= 2, 'two pieces')

    def snapshot(found):
        """Asks for one, until one has samples: the recorder of the last seconds may be late. Others may come before."""
        go.touch()
        if trigger == 'signal':
            agent.process.send_signal(signal.SIGUSR2)
        if trigger == 'event':
            os.getpriority(os.PRIO_PROCESS, 0)
        paths = (agent.state / 'snapshots').glob('snapshot-*.data')
        return found['snapshots'] and [path for path in paths if trigger in ('load', 'psi') or reported(millrace, path)]
    agent.until(snapshot, 'a snapshot')
    agent.stop()
    path, *_ = snapshot(status(agent.state))
    assert f'snapshot {path}: ' in agent.err


def test_a_snapshot_is_asked_of_the_next_recorder(agent, tmp_path):
    """The one that was asked ends before it answers."""
    go = tmp_path / 'go'
    agent(f'--files={tmp_path}/out', f'--on-trigger=exit:while ! [ -e {go} ]; do sleep .1; done; exit 7',
          '--flight=3s').until(lambda found: found['delivered']['pieces'] >= 1, 'a piece')
    _, history, command = agent.children()[:3]
    os.kill(history, signal.SIGSTOP)
    go.touch()
    wait_until(lambda: command not in agent.children(), 'the command has ended')
    go.unlink()
    os.kill(history, signal.SIGKILL)
    agent.until(lambda found: found['snapshots'] == 1, 'a snapshot')
    agent.stop()
    assert 'the recorder of the last seconds ended' in agent.err and f': while ! [ -e {go}' in agent.err


@pytest.mark.parametrize('words, said', [
    ([], 'needs one of --to=URL and --files=DIR'),
    (['--files=a', '--to=clickhouse://b'], 'needs one of --to=URL and --files=DIR'),
    (['--files=a', '--on-trigger=psi:disk:3'], 'is none of load:NUMBER, psi:cpu:PERCENT'),
    (['--files=a', '--on-trigger=load:0'], 'is none of load:NUMBER, psi:cpu:PERCENT'),
    (['--files=a', '--every=10ms'], '--every'),
    (['--files=a', '--call-graph=dwarf'], '--call-graph=dwarf would store what stacks contain: use unwind'),
    (['--files=a', '--call-graph=dwarf,1024'], '--call-graph=dwarf,1024 would store'),
    (['--files=a', 'sleep', '1'], 'agent takes no argument, but got "sleep"'),
    (['--files=a', '--format=svg'], 'no format "svg"'),
    (['--files=a', '--format=clickhouse'], '--to=clickhouse://HOST'),
])
def test_wrong_words(millrace, words, said):
    assert said in millrace('agent', *words, status=129).err


@pytest.mark.parametrize('words, said', [
    (['--event=no-such-event'], "unknown event 'no-such-event'"),
    (['--call-graph=stacks'], '"stacks" is none of fp, unwind'),
    (['--on-trigger=event:no-such-event'], "unknown event 'no-such-event'"),
    (['--on-trigger=load:1000', '--flight=ever'], '"ever" is neither a time'),
    (['--', '--no-such-option'], 'unknown option --no-such-option'),
])
def test_wrong_words_of_record_end_it_at_the_start(need_root, millrace, tmp_path, words, said):
    """Its recorder would never run, however often it is started again."""
    result = millrace('agent', f'--files={tmp_path}/out', f'--state={tmp_path}/state', *words, status=129)
    assert said in result.err and result.err.count('\n') == 1


@pytest.mark.parametrize('url', ['clickhouse://user@store', 'clickhouse://', 'clickhouse://store/a b', 'other://store'])
def test_a_wrong_url_ends_it_at_the_start(millrace, server, tmp_path, url):  # pylint: disable=unused-argument
    result = millrace('agent', f'--to={url}', f'--state={tmp_path}/state', status=129)
    assert f'{url}: it is clickhouse://HOST' in result.err and result.err.count('\n') == 1
    assert not (tmp_path / 'state').exists()


def test_one_agent_at_a_time(agent, millrace, tmp_path):
    agent(f'--files={tmp_path}/out').until(lambda found: True, 'the start')
    result = millrace('agent', f'--state={agent.state}', f'--files={tmp_path}/out', status=255)
    assert 'another agent uses it' in result.err and result.err.count('\n') == 1
    agent.until(lambda found: found['delivered']['pieces'], 'a piece')
    agent.stop()
