# SPDX-License-Identifier: MIT
"""Every command of docs/guide.md does what is said there, on this machine."""
import os
import pathlib
import re
import shlex
import signal
import subprocess
import threading
import time
import urllib.parse

import pytest

from conftest import MILLRACE, ROOT, wait_until
from test_clickhouse import Store, StoreServer

GUIDE = (ROOT / 'docs' / 'guide.md').read_text()
BUILD = pathlib.Path(MILLRACE).parent
MILL = BUILD / 'tools' / 'mill'


def blocks():
    """(title of the part, its commands) of each part that has some; the blocks of a part are one script."""
    for part in GUIDE.split('\n## ')[1:]:
        commands = re.findall(r'^```sh\n(.*?)^```', part, re.M | re.S)
        if commands:
            yield part.splitlines()[0], ''.join(commands)


@pytest.fixture
def service():
    process = subprocess.Popen([MILL, '60'], stdout=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


def test_the_guide_has_parts():
    assert len(list(blocks())) >= 4


@pytest.mark.skipif(os.geteuid() != 0, reason='the guide records the whole machine: needs root')
@pytest.mark.parametrize('script', [pytest.param(script, id=title.replace(' ', '-')) for title, script in blocks()])
def test_the_commands_of_a_part(script, service, tmp_path):
    if not MILL.exists():
        pytest.skip('tools/mill is not built')
    env = {**os.environ, 'PATH': f'{BUILD}:{MILL.parent}:{os.environ["PATH"]}', 'HOME': str(tmp_path), 'LC_ALL': 'C'}
    # pidof may find the mills of other tests.
    script = script.replace('$(pidof mill)', str(service.pid))
    # Not into a pipe: record would write its file there.
    with open(tmp_path / 'printed', 'w') as printed:
        done = subprocess.run(['bash', '-euxo', 'pipefail', '-c', script], cwd=tmp_path, env=env, timeout=240,
                              stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT)
    assert done.returncode == 0, (tmp_path / 'printed').read_text(errors='replace')[-4000:]


class Fleet(Store):
    """A server that takes what agents deliver, answers what flame --from asks, and keeps profiles that are posted."""
    def do_POST(self):
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query).get('query', [''])[0]
        if query and not re.search(r'now\(\)|uniqExact|GROUP BY', query):
            super().do_POST()
            return
        body = self.rfile.read(int(self.headers['Content-Length']))
        if not query:
            self.server.profiles[self.path] = body
        self.answer(200, b'' if not query else f'{int(time.time())}\n'.encode() if 'now()' in query
                    else b'1\n' if 'uniqExact' in query
                    else b'7\t0\tmain\\nwork_of_mill\tmill\\nmill\n' if 'FROM profile_stacks' in query
                    else b'cpu-clock\thost-a\tmill\t%d\t7\t5\t5000000\n' % time.time())


@pytest.fixture
def fleet():
    if b'+clickhouse' not in subprocess.run([MILLRACE, '--version'], stdout=subprocess.PIPE, check=True).stdout:
        pytest.skip('built without libcurl')
    server = StoreServer(handler=Fleet)
    server.profiles = {}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def commands_not_pasted():
    """Those that would change this machine or need another: each is known to a test below."""
    blocks = re.findall(r'^```(\w*)\n(.*?)^```', GUIDE, re.M | re.S)
    agent, options, unit, *readers = ''.join(text for language, text in blocks if not language).splitlines()
    assert re.fullmatch(r"echo 'OPTIONS=.*' > /etc/default/millrace-agent", options)
    assert unit == 'systemctl enable --now millrace-agent'
    return agent, re.search("'OPTIONS=(.*)'", options)[1], readers


def local(command, server):
    return shlex.split(re.sub(r'(store\.example:8123|collector:4318|pyroscope:4040)',
                              f'127.0.0.1:{server.server_port}', command))


def run_agent(words, state, recorded):
    """Until `recorded`; its last piece is delivered when it ends."""
    agent = subprocess.Popen([MILLRACE, *words], env={**os.environ, 'STATE_DIRECTORY': str(state), 'HOME': str(state)},
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: agent.poll() is not None or recorded(), 'the agent records')
    finally:
        agent.send_signal(signal.SIGTERM)
        err = agent.communicate(timeout=90)[1]
    assert agent.returncode == 0, err


def has_samples(state):
    """In what is written of the first piece. Its file comes before its first sample, on a busy machine long before; and
    a snapshot, when CPUs are busy, may have samples while the piece has none yet."""
    return any(subprocess.run([MILLRACE, 'script', '-F', 'time', '-i', path], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False).stdout
               for path in (state / 'record').rglob('*.data*') if path.is_file())


def test_an_agent_that_keeps_files(need_root, run, program, tmp_path):
    words = shlex.split(commands_not_pasted()[0])
    assert words[0] == 'millrace'
    if any('psi:' in word for word in words) and not os.path.exists('/proc/pressure/cpu'):
        words = [word for word in words if 'psi:' not in word]
    # The end is late where it is on a busy machine, seen from a container: objects of all others are copied.
    words = [*(word.replace('/var/lib/millrace', str(tmp_path)) for word in words[1:]), '--stop-time=60s']
    (tmp_path / 'state').mkdir()
    run_agent(words, tmp_path / 'state', lambda: has_samples(tmp_path / 'state'))
    # On a quiet machine there are pieces without a sample.
    reports = [run([program, 'report', '--stdio', '-i', piece]).out for piece in (tmp_path / 'pieces').iterdir()]
    assert any('%' in text for text in reports), reports


def test_an_agent_of_a_fleet_and_a_page_of_it(need_root, fleet, run, program, tmp_path):
    _, options, readers = commands_not_pasted()
    unit = (ROOT / 'packaging' / 'millrace-agent.service').read_text()
    assert 'ExecStart=@BINDIR@/millrace agent $OPTIONS\n' in unit
    assert 'EnvironmentFile=-/etc/default/millrace-agent\n' in unit
    options = [*local(options, fleet), '--stop-time=60s']  # as above
    run_agent(['agent', *options], tmp_path, lambda: has_samples(tmp_path))
    assert fleet.rows and {row[0] for row in fleet.rows} == {'web'}
    assert len(readers) >= 2
    for reader in readers:
        words = local(reader, fleet)
        assert words[0] == 'millrace'
        printed = run([program, *words[1:]], cwd=tmp_path).out
        if output := re.search(r'-o (\S+)', reader):
            assert 'web: 5 samples of 1 hosts' in (tmp_path / output[1]).read_text()
        else:
            assert 'work_of_mill' in printed


@pytest.mark.parametrize('options', re.findall(r'`(--format=\S+ --to=[^`]+)`', GUIDE.replace('\n', ' ')))
def test_profiles_are_posted(fleet, millrace, tmp_path, options):
    millrace('record', '-q', '-k', 'mono', '-e', 'cpu-clock:u', '-o', tmp_path / 'data', '--', MILL, '1')
    millrace('export', '-i', tmp_path / 'data', *local(options, fleet))
    assert len(fleet.profiles) == 1 and all(fleet.profiles.values())
