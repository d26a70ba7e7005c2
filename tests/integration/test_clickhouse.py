# SPDX-License-Identifier: MIT
"""`millrace export --to=clickhouse://...`: a server has what `report` counts, once, whatever happens between."""
import base64
import collections
import gzip
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import perf_file  # noqa: E402
from browser import Browser, content, totals, weights  # noqa: E402
from conftest import ROOT, peak_memory, wait_until  # noqa: E402

SERVER = shutil.which('clickhouse-server')
CONFIG = """<yandex><logger><level>warning</level><log>{dir}/log</log><errorlog>{dir}/err</errorlog></logger>
<http_port>{port}</http_port><listen_host>127.0.0.1</listen_host><path>{dir}/data/</path><tmp_path>{dir}/tmp/</tmp_path>
<mark_cache_size>5000000</mark_cache_size><users_config>users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database></yandex>"""
USER = """<{name}><password>{password}</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile>
<quota>default</quota></{name}>"""
USERS = f"""<yandex><profiles><default/></profiles><quotas><default/></quotas><users>
{USER.format(name='default', password='')}{USER.format(name='writer', password='secret')}</users></yandex>"""


@pytest.fixture(scope='module')
def data(need_root, millrace, programs, tmp_path_factory):
    path = tmp_path_factory.mktemp('clickhouse') / 'perf.data'
    millrace('record', '-e', 'cpu-clock', '-F', '1999', '-k', 'mono', '--call-graph', 'unwind', '-o', path, '--',
             programs / 'spin', '-t', '2', '-m', '150')
    if 'cannot send to servers' in millrace('export', '--to=clickhouse://a', '--format=folded', status=129).err:
        pytest.skip('this build cannot send to servers')
    return path


def total(millrace, data):
    report = millrace('report', '-i', data, '--json', '--no-children', '-g', 'none', '-s', 'comm').out
    event, = json.loads(report)['events']
    return event['samples'], event['period']


def parse_samples(body):
    """[(service, event, unit, time, host, comm, stack, samples, value, batch, service unit, container, pod)]."""
    at, rows = 0, []

    def text():
        nonlocal at
        size, shift = 0, 0
        while True:
            byte = body[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        at += size
        return body[at - size:at].decode(errors='surrogateescape')  # names of other tests are hostile

    while at < len(body):
        row = [text(), text(), text(), *struct.unpack_from('<I', body, at)]
        at += 4
        row += [text(), text()]
        labels = [text(), text(), text()]
        row += [*struct.unpack_from('<4Q', body, at), *labels]
        at += 32
        rows.append(tuple(row))
    return rows


class Store(http.server.BaseHTTPRequestHandler):
    """Answers as ClickHouse does what export asks it; `faults` say what happens to the next inserts."""
    def do_POST(self):
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)['query'][0]
        body = self.rfile.read(int(self.headers['Content-Length']))
        store = self.server
        store.logins.add(self.headers.get('Authorization'))
        if store.garbage:
            self.answer(200, b'<html>hello</html>')
        elif query.startswith('SELECT'):
            batch = int(re.search(r'batch = (\d+)', query).group(1))
            self.answer(200, f'{sum(row[7] for row in store.rows if row[9] == batch)}\n'.encode())
        elif query.startswith('INSERT INTO profile_samples'):
            fault = store.faults.pop(0) if store.faults else None
            if fault == '500':
                self.answer(500, b'Code: 241. DB::Exception: Memory limit exceeded\nstack trace')
                return
            if fault == 'drop before':
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            store.rows += parse_samples(gzip.decompress(body))
            if fault == 'drop after':
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            store.garbage = fault == 'garbage after'
            self.answer(200, b'')
        else:
            if query.startswith('INSERT INTO profile_stacks'):
                store.stacks += gzip.decompress(body)
            self.answer(200, b'')

    def answer(self, status, body):
        self.send_response(status)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class StoreServer(http.server.ThreadingHTTPServer):
    """Has what a Store takes and does."""
    allow_reuse_address = True

    def __init__(self, port=0, handler=Store):
        self.rows, self.stacks, self.faults, self.logins, self.garbage = [], bytearray(), [], set(), False
        super().__init__(('127.0.0.1', port), handler)


@pytest.fixture
def store():
    server = StoreServer()
    server.url = f'clickhouse://127.0.0.1:{server.server_port}'
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize('faults', [[], ['500', '500'], ['drop before'], ['drop after'], ['500', 'drop after']])
def test_counted_once(data, millrace, store, faults):
    store.faults = list(faults)
    millrace('export', '-i', data, f'--to={store.url}/profiles', '--service', "o'brien")
    assert (sum(row[7] for row in store.rows), sum(row[8] for row in store.rows)) == total(millrace, data)
    assert {row[0] for row in store.rows} == {"o'brien"} and not store.faults
    assert {'spin-0', 'spin-1'} <= {row[5] for row in store.rows}
    count = len(store.rows)
    millrace('export', '-i', data, f'--to={store.url}/profiles', '--service', "o'brien")
    assert len(store.rows) == count, 'a recording that is exported again is counted again'


def test_counted_once_with_other_names(millrace, programs, store, tmp_path, need_root):
    """A piece that is sent again after its program was removed, and one after half of it was stored."""
    program, data = tmp_path / 'gone', tmp_path / 'perf.data'
    alone = {'HOME': str(tmp_path)}  # other tests keep the same program in theirs
    shutil.copy(programs / 'spin', program)
    millrace('record', '-e', 'cpu-clock', '-F', '999', '-k', 'mono', '-g', '-N', '-o', data, '--', program, '-m', '150',
             env=alone)
    folded = 'export', '-i', data, '--format=folded', '-o', '-'
    names = millrace(*folded, env=alone).out
    done = millrace('export', '-i', data, f'--to={store.url}', status=None, env=alone)
    if 'cannot send to servers' in done.err:
        pytest.skip('this build cannot send to servers')
    rows = list(store.rows)
    program.unlink()
    assert names != millrace(*folded, env=alone).out  # else this tests nothing
    millrace('export', '-i', data, f'--to={store.url}', env=alone)
    assert rows == store.rows and sum(row[7] for row in rows) == total(millrace, data)[0]


def test_half_stored_and_other_names(millrace, store, tmp_path):
    """Batches end at the same samples however many rows these are: one or as many as there are samples. A call chain
    that is cut stands for one whose names are unknown."""
    data, nr = tmp_path / 'perf.data', 70000
    clock = struct.pack('<2I2Q', 1, 1, 1700000000 * 10**9, 10**9)
    attr = perf_file.attr(type=1, sample_period=3, sample_type=1 | 2 | 4 | 32, bits=1 << 25, clockid=1)
    records = b''.join(perf_file.sample(2, 4096, 7 << 32 | 7, 10**9 + i, 3, (1 << 64) - 512, 4096, 1 << 20 | i)
                       for i in range(nr))
    data.write_bytes(perf_file.build([attr], {29: clock}, records=records + perf_file.FINISHED_ROUND))
    for words, again in (['--max-stack=1'], []), ([], ['--max-stack=1']):
        store.rows, store.faults = [], ['garbage after']
        done = millrace('export', '-i', data, f'--to={store.url}', *words, status=255)
        if 'cannot send to servers' in done.err:
            pytest.skip('this build cannot send to servers')
        store.garbage = False
        assert 'answers a question for a number' in done.err and 0 < sum(row[7] for row in store.rows) < nr
        first = len(store.rows)
        millrace('export', '-i', data, f'--to={store.url}', *again)
        assert (sum(row[7] for row in store.rows), sum(row[8] for row in store.rows)) == (nr, 3 * nr)
        assert (first == 1) == bool(words) and (len(store.rows) - first < 10) == bool(again)


def test_a_deep_chain_has_all_callers(millrace, store, tmp_path):
    data, depth = tmp_path / 'perf.data', 1200
    clock = struct.pack('<2I2Q', 1, 1, 1700000000 * 10**9, 10**9)
    attr = perf_file.attr(type=1, sample_period=3, sample_type=1 | 2 | 4 | 32, bits=1 << 25, clockid=1, max_stack=depth)
    record = perf_file.sample(2, 4096, 7 << 32 | 7, 10**9, 1 + depth, (1 << 64) - 512, *range(4096, 4096 + depth))
    data.write_bytes(perf_file.build([attr], {29: clock}, records=record + perf_file.FINISHED_ROUND))
    done = millrace('export', '-i', data, f'--to={store.url}', status=None)
    if 'cannot send to servers' in done.err:
        pytest.skip('this build cannot send to servers')
    assert not done.status and store.stacks.count(b'[unknown]') == depth


def test_server_that_stays_broken(data, millrace, store):
    store.faults = ['500'] * 6
    result = millrace('export', '-i', data, f'--to={store.url}', status=255)
    assert 'HTTP 500: Code: 241. DB::Exception: Memory limit exceeded' in result.err and result.err.count('\n') == 1
    store.garbage = True
    result = millrace('report', f'--from={store.url}', '--service=web', status=255)
    assert 'the answer is not what was asked for' in result.err and result.err.count('\n') == 1 and not result.out
    result = millrace('flame', f'--from={store.url}', '--service=web', '-o', data.parent / 'page', status=255)
    assert 'the answer is not what was asked for' in result.err and result.err.count('\n') == 1
    result = millrace('export', '-i', data, f'--to={store.url}', status=255)
    assert 'answers a question for a number with "<html>hello</html>"' in result.err and result.err.count('\n') == 1


def test_credentials(data, millrace, store, tmp_path):
    path = tmp_path / 'login'
    path.write_text('user=writer\npassword=secret\n')
    path.chmod(0o644)
    result = millrace('export', '-i', data, f'--to={store.url}', f'--credentials={path}', status=255)
    assert 'others may read these credentials: chmod 600' in result.err and not store.logins
    path.chmod(0o600)
    millrace('export', '-i', data, f'--to={store.url}', f'--credentials={path}')
    assert store.logins == {'Basic d3JpdGVyOnNlY3JldA=='}
    store.logins.clear()
    path.write_text('user=writer\npassword=' + 'token' * 300)
    millrace('export', '-i', data, f'--to={store.url}', f'--credentials={path}')
    assert store.logins == {'Basic ' + base64.b64encode(b'writer:' + b'token' * 300).decode()}, 'all of it'
    result = millrace('export', '-i', data, '--to=clickhouse://writer:secret@127.0.0.1/', status=255)
    assert 'user and password are in the file of --credentials' in result.err


def test_certificates(data, millrace, store, tmp_path):
    if not shutil.which('openssl'):
        pytest.skip('openssl is not installed')
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', tmp_path / 'key', '-out',
                    tmp_path / 'cert', '-days', '2', '-subj', '/CN=localhost', '-addext',
                    'subjectAltName=IP:127.0.0.1'], check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / 'cert', tmp_path / 'key')
    store.socket = context.wrap_socket(store.socket, server_side=True)
    url = store.url.replace('clickhouse:', 'clickhouses:')
    result = millrace('export', '-i', data, f'--to={url}', status=255)
    assert 'certificate' in result.err and result.err.count('\n') == 1 and not store.rows
    millrace('export', '-i', data, f'--to={url}', f'--ca-file={tmp_path}/cert')
    assert sum(row[7] for row in store.rows) == total(millrace, data)[0]


class Posts(http.server.BaseHTTPRequestHandler):
    """Keeps the paths of what is sent."""
    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        self.server.rows.append(self.path)
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *args):
        pass


def test_service_in_a_url(millrace, store, tmp_path):
    """{service} is what --service says, or the host that was recorded; nothing of it ends the place where it is."""
    path, paths = tmp_path / 'perf.data', []
    store.RequestHandlerClass = Posts
    to = store.url.replace('clickhouse', 'http') + '/{service}?name={service}&x=1'
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4)
    sample = perf_file.sample(2, 4096, 7 << 32 | 7, 100) + perf_file.FINISHED_ROUND
    hostile = '50% gr\u00fcn#~_{x}'
    for host, words, service in (('web-1.example', [], 'web-1.example'), ('web-1.example', ['--service=shop'], 'shop'),
                                 ('a/b?c=d&e', [], 'a/b?c=d&e'), ('x', [f'--service={hostile}'], hostile),
                                 (None, [], 'millrace')):
        path.write_bytes(perf_file.build([attr], {3: perf_file.string(host)} if host else {}, records=sample))
        done = millrace('export', '-i', path, '--format=pprof', f'--to={to}', *words, status=None)
        if 'no format "pprof"' in done.err or 'cannot send to servers' in done.err:
            pytest.skip('this build cannot send profiles to servers')
        quoted = urllib.parse.quote(service, safe='')
        paths.append(f'/{quoted}?name={quoted}&x=1')
        assert store.rows == paths, done


@pytest.mark.parametrize('end, path', [
    ('', '/v1development/profiles'),
    ('?key=a/b', '/v1development/profiles?key=a/b'),
    ('/?key=a', '/?key=a'),
    ('/{service}', '/web'),
    ('?of={service}', '/v1development/profiles?of=web'),
])
def test_path_of_otlp(millrace, store, tmp_path, end, path):
    """Where the URL has none, a query behind the host or not."""
    file = tmp_path / 'perf.data'
    store.RequestHandlerClass = Posts
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4)
    sample = perf_file.sample(2, 4096, 7 << 32 | 7, 100) + perf_file.FINISHED_ROUND
    file.write_bytes(perf_file.build([attr], {}, records=sample))
    to = store.url.replace('clickhouse', 'http') + end
    done = millrace('export', '-i', file, '--format=otlp', '--service=web', f'--to={to}', status=None)
    if 'no format "otlp"' in done.err or 'cannot send to servers' in done.err:
        pytest.skip('this build cannot send profiles to servers')
    assert done.status == 0 and store.rows == [path]


@pytest.mark.parametrize('word', ['{from}', '{until}'])
def test_times_in_a_url_need_the_time_of_day(millrace, store, tmp_path, word):
    """Nothing is sent: the store would file it under 1970."""
    path = tmp_path / 'perf.data'
    store.RequestHandlerClass = Posts
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4)
    sample = perf_file.sample(2, 4096, 7 << 32 | 7, 100) + perf_file.FINISHED_ROUND
    path.write_bytes(perf_file.build([attr], {}, records=sample))
    to = store.url.replace('clickhouse', 'http') + f'/ingest?at={word}'
    done = millrace('export', '-i', path, '--format=pprof', f'--to={to}', status=None)
    if 'no format "pprof"' in done.err or 'cannot send to servers' in done.err:
        pytest.skip('this build cannot send profiles to servers')
    assert done.status == 255 and 'record with --clockid mono' in done.err and not store.rows


class Answers(Store):
    """The four answers that flame and report ask for, the last one in pieces; `end` is its end."""
    def do_POST(self):
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)['query'][0]
        self.rfile.read(int(self.headers['Content-Length']))
        now = int(time.time()) // 10 * 10
        if 'arrayStringConcat' in query:
            self.answer(200, b'77\t1\tpread\\0main\\0_start\tkernel\\0web\\0web\n')
        elif 'sum(samples)' not in query:
            self.answer(200, f'{now if "now()" in query else 1000}\n'.encode())
        else:
            self.send_response(200)
            self.end_headers()
            for _ in range(self.server.count):
                self.wfile.write(b'cpu-clock\tall hosts\t%s\t%d\t77\t2\t30\n' % (b'c' * self.server.size, now))
            self.wfile.write(self.server.end)


def test_many_rows_of_a_store(data, program, store, tmp_path):  # pylint: disable=unused-argument
    """More than 512 MiB, in bounded memory."""
    store.RequestHandlerClass = Answers
    store.count, store.size, store.end = 9000, 64000, b''
    assert peak_memory([program, 'flame', f'--from={store.url}', '--service=web', '-o', tmp_path / 'page']) < 200_000
    assert content(tmp_path / 'page')['series'][0]['samples'] == 18000


@pytest.fixture
def stored_page(data, millrace, store, tmp_path):  # pylint: disable=unused-argument
    store.RequestHandlerClass = Answers
    store.count, store.size, store.end = 3, 4, b''
    millrace('flame', f'--from={store.url}', '--service=web', '-o', tmp_path / 'page.html')
    return tmp_path / 'page.html'


def test_page_of_a_store_has_kinds_and_times(stored_page):
    found = content(stored_page)
    kinds = {text: found['kind_names'][kind] for text, kind in zip(found['texts'], found['kinds'])}
    assert (kinds['pread'], kinds['main'], kinds['_start']) == ('kernel', 'user', 'user')
    series, file = found['series'][0], found['files'][0]
    (_, _, bin_, _, _), = weights(series)
    assert bin_ < file['bins'] <= bin_ + 2 and 3000e9 < file['span_ns'] <= file['bins'] * file['bin_ns']


def test_page_of_a_store_in_a_browser(stored_page, tmp_path):
    """Its samples have no CPUs, but times: a part of them can be chosen."""
    browser = Browser(tmp_path / 'profile')
    try:
        browser.open(stored_page)
        assert not browser.run("return element('times-box').hidden")
        assert browser.run("return heats[0].cells.filter(count => count).length") == 1
        browser.run('choose(heats[0], 0, 0)')
        browser.wait("element('status').textContent === 'no samples'")
        assert browser.errors() == []
    finally:
        browser.close()


@pytest.mark.parametrize('end', [b'Code: 241, e.displayText() = DB::Exception: Memory limit exceeded\n',
                                 b'\n__exception__\r\ntag\nCode: 241. DB::Exception: Memory limit exceeded',
                                 b'cpu-clock\tall ho'])
def test_a_store_that_fails_while_it_answers(data, millrace, store, end):
    store.RequestHandlerClass = Answers
    store.count, store.size, store.end = 3, 10, end
    result = millrace('report', f'--from={store.url}', '--service=web', status=255)
    assert ('Memory limit exceeded' if b'Code' in end else 'is not what was asked for') in result.err
    assert result.err.count('\n') == 1 and not result.out


@pytest.mark.parametrize('args, status, said', [
    (['--to=clickhouse://127.0.0.1:1'], 255, 'connect'),
    (['--to=postgres://127.0.0.1'], 255, 'it is clickhouse://HOST'),
    (['--to=clickhouse://127.0.0.1/a b'], 255, 'it is clickhouse://HOST'),
    (['--to=clickhouse://127.0.0.1', '--format=folded'], 129, '--format is only for files'),
])
def test_wrong_words(data, millrace, args, status, said):
    result = millrace('export', '-i', data, *args, status=status)
    assert said in result.err and result.err.count('\n') == 1


@pytest.mark.parametrize('args, said', [
    (['--service=web', '-s', 'pid'], 'other keys than comm, dso, symbol and host'),
    (['--service=web', '-g', 'srcline'], 'addresses and source lines'),
    (['--service=web', '--cpu=1'], 'CPUs, pids and times'),
    (['--service=web', '--loss'], 'losses'),
    (['--service=web', '--html=x'], 'use millrace flame --from'),
    (['--service=web', '-i', 'x'], 'leave out the recording'),
    ([], '--from needs --service=NAME'),
])
def test_a_store_is_no_recording(data, millrace, args, said):
    result = millrace('report', '--from=clickhouse://127.0.0.1:1', *args, status=129)
    assert said in result.err and result.err.count('\n') == 1 and not result.out
    result = millrace('report', '-i', data, '--service=web', status=129)
    assert 'need --from' in result.err


def test_needs_the_time_of_day(need_root, data, millrace, programs, tmp_path):
    path = tmp_path / 'perf.data'
    millrace('record', '-o', path, '--', programs / 'spin', '-m', '20')
    result = millrace('export', '-i', path, '--to=clickhouse://127.0.0.1:1', status=255)
    assert 'record with --clockid mono' in result.err


@pytest.fixture(scope='module')
def engine_of_today(tmp_path_factory):
    """The engine of npm's chdb behind HTTP."""
    if not shutil.which('node') or subprocess.run(['node', '-e', "require('chdb')"], stderr=subprocess.DEVNULL,
                                                  check=False).returncode:
        pytest.skip('chdb is not installed: npm install chdb, and NODE_PATH=DIR/node_modules')
    process = subprocess.Popen(['node', ROOT / 'bench' / 'fleet_bridge.js', tmp_path_factory.mktemp('chdb')],
                               stdout=subprocess.PIPE, text=True)
    port = int(process.stdout.readline())

    def ask(sql):
        with urllib.request.urlopen(f'http://127.0.0.1:{port}/', sql.encode(), timeout=60) as answer:
            return [line.split('\t') for line in answer.read().decode().splitlines()]
    ask.url = f'clickhouse://127.0.0.1:{port}'
    yield ask
    process.terminate()
    process.wait()


def test_engine_of_today(data, millrace, engine_of_today, tmp_path):
    check_store(data, millrace, engine_of_today, tmp_path / 'page.html')


@pytest.fixture(scope='module')
def server(tmp_path_factory):
    if not SERVER:
        pytest.skip('clickhouse-server is not installed: tools/deps readers')
    path = tmp_path_factory.mktemp('server')
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    (path / 'config.xml').write_text(CONFIG.format(dir=path, port=port))
    (path / 'users.xml').write_text(USERS)
    process = subprocess.Popen([SERVER, f'--config-file={path}/config.xml'], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, cwd=path)

    def ask(sql):
        request = urllib.request.Request(f'http://127.0.0.1:{port}/', sql.encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [line.split('\t') for line in answer.read().decode().splitlines()]

    def answers():
        assert process.poll() is None, (path / 'err').read_text()[-2000:]
        try:
            return ask('SELECT version()')
        except OSError:
            return None

    wait_until(answers, 'clickhouse-server answers')
    ask.url = f'clickhouse://127.0.0.1:{port}'
    yield ask
    process.terminate()
    process.wait()


def test_clickhouse_itself(data, millrace, server, tmp_path):
    login = tmp_path / 'login'
    login.write_text('user=writer\npassword=secret\n')
    login.chmod(0o600)
    check_store(data, millrace, server, tmp_path / 'page.html', f'--credentials={login}')
    login.write_text('user=writer\npassword=wrong\n')
    result = millrace('export', '-i', data, f'--to={server.url}', '--service=web', f'--credentials={login}', status=255)
    assert 'HTTP' in result.err and result.err.count('\n') == 1


def check_report(data, millrace, server, *login):
    """The table of what the server has is that of the recording. Of a sample in an inlined function the two count
    different ones, but have the same call chain: so samples are compared by object, and functions by their chains."""
    def rows(*args):
        event, = json.loads(millrace('report', *args, '--json', '-g', 'none').out)['events']
        objects, functions = collections.defaultdict(collections.Counter), collections.Counter()
        for row in event['entries']:
            dso = re.sub(r'^[^[].*\.ko.*', '[module]', (row['dso'] or '').rpartition('/')[2])
            objects[row['comm'], dso, row['level']].update({n: row[n] for n in ('samples', 'period')})
            if row['sym']:
                functions[row['comm'], dso, row['sym'], row['level']] += row['children_period']
        return (event['event'], event['samples'], event['period']), dict(objects), functions

    store = ('--from=' + server.url, '--service=web', '--since=1d', *login)
    head, objects, functions = rows('-i', data, '--inline')
    stored_head, stored_objects, stored_functions = rows(*store)
    assert head == stored_head and objects == stored_objects
    assert len(functions) > 5 and all(stored_functions[key] == number for key, number in functions.items())
    text = millrace('report', *store, '-s', 'host,comm', '-n', '-c', 'spin-0', '-g', 'caller').out
    line, = re.findall(r'^ +\S+% +\S+% +(\d+) +(\S+)', text, re.M)[:1]
    assert line == (str(sum(row['samples'] for key, row in objects.items() if key[0] == 'spin-0')), os.uname().nodename)
    assert text.startswith('# Service: web, 1 host, the last 86400 s, by ') and '--spin_left' in text
    shown = millrace('report', *store, '--json').out
    assert 'Lost' not in text and '"lost_samples":null' in shown and '"unit":null' in shown


def check_names(millrace, server, *login):
    """Any byte may be in the name of a function, a file or a thread."""
    server("INSERT INTO profile_stacks (service, hash, stack, objects, kernel, last_seen) VALUES ('names', 7, "
           r"['in\\ne\tr', '', 'out\'er'], ['a\nb', '', '\\'], 0, now())")
    server("INSERT INTO profile_samples (service, event, unit, time, host, comm, systemd_unit, container, pod, stack, "
           r"samples, value, batch) VALUES ('names', 'cpu-clock', 'ns', now(), 'h', 'c\nd', '', '', '', 7, 2, 30, 1)")
    found = json.loads(millrace('report', f'--from={server.url}', '--service=names', '--json', *login).out)
    rows = {row['sym']: (row['comm'], row['dso'], row['samples']) for row in found['events'][0]['entries']}
    assert rows["in\\ne\tr"] == ('c\nd', 'a\nb', 2) and rows["out'er"] == ('c\nd', '\\', 0), rows


def check_store(data, millrace, server, page, *login):
    """What a server has after two exports of the same recording, and what flame makes of it."""
    for _ in range(2):
        millrace('export', '-i', data, f'--to={server.url}', '--service=web', *login)
    assert server("SELECT sum(samples), sum(value) FROM profile_samples WHERE service = 'web'") == [
        [str(number) for number in total(millrace, data)]]
    rows = server("SELECT st[1], sum(ns) FROM (SELECT stack AS hash, sum(value) AS ns FROM profile_samples "
                  "WHERE service = 'web' GROUP BY hash) AS sums ANY INNER JOIN (SELECT hash, stack AS st "
                  "FROM profile_stacks WHERE service = 'web') AS stacks USING hash GROUP BY st[1]")
    folded = collections.Counter()
    for line in millrace('export', '-i', data, '--format=folded', '-o', '-').out.splitlines():
        stack, _, number = line.rpartition(' ')
        folded[stack.rpartition(';')[2]] += int(number)
    assert {name: int(value) for name, value in rows} == folded
    millrace('flame', f'--from={server.url}', '--service=web', '--since=1d', '-o', page)
    found = content(page)
    series, = found['series']
    assert (series['samples'], totals(found, series)[0]) == total(millrace, data)
    shown = collections.Counter()
    for _, node, _, period, _ in weights(series):
        shown[found['texts'][found['node_name'][node]]] += period
    assert shown == folded
    check_report(data, millrace, server, *login)
    check_names(millrace, server, *login)
    none = millrace('flame', f'--from={server.url}', '--service=no such', '-o', page, status=255)
    assert 'there are no samples of service no such' in none.err and none.err.count('\n') == 1
