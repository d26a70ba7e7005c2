# SPDX-License-Identifier: MIT
"""
The agent for long, with a ClickHouse that is killed and started again (make check-fleet). FLEET_SECONDS (900) is how
long, FLEET_KILLS (10) how often.
"""
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from conftest import wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'integration'))
from test_agent import agent, status  # noqa: E402,F401  pylint: disable=unused-import
from test_clickhouse import CONFIG, SERVER, USERS  # noqa: E402

pytestmark = pytest.mark.lab
SECONDS, KILLS = (int(os.environ.get(name, default)) for name, default in (('FLEET_SECONDS', 900), ('FLEET_KILLS', 10)))


class ClickHouse:
    """A server of our own, which can be killed."""
    def __init__(self, path):
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            self.port = free.getsockname()[1]
        self.path = path
        (path / 'config.xml').write_text(CONFIG.format(dir=path, port=self.port))
        (path / 'users.xml').write_text(USERS)

    def start(self):
        self.process = subprocess.Popen([SERVER, f'--config-file={self.path}/config.xml'], cwd=self.path,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask(self, sql):
        request = urllib.request.Request(f'http://127.0.0.1:{self.port}/', sql.encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return [line.split('\t') for line in answer.read().decode().splitlines()]
        except OSError:
            return None


@pytest.mark.skipif(not SERVER, reason='clickhouse-server is not installed: tools/deps readers')
def test_soak(agent, tmp_path):  # noqa: F811
    store = ClickHouse(tmp_path)
    store.start()
    wait_until(lambda: store.ask('SELECT 1'), 'clickhouse-server answers')
    agent(f'--to=clickhouse://127.0.0.1:{store.port}', '--service=soak', '--stop-time=60s', '--spool-size=8G')
    start, memory = time.monotonic(), []
    for kill in range(KILLS):
        time.sleep(max(0, start + SECONDS * (kill + .5) / KILLS - time.monotonic()))
        store.kill()
        time.sleep(min(20, SECONDS / KILLS / 4))
        store.start()
        text = pathlib.Path(f'/proc/{agent.process.pid}/status').read_text()
        memory.append(int(text.partition('VmRSS:')[2].split()[0]))
    time.sleep(max(0, start + SECONDS - time.monotonic()))
    wait_until(lambda: store.ask('SELECT 1'), 'clickhouse-server answers')
    found = agent.stop()
    rows = store.ask("SELECT sum(samples) FROM profile_samples WHERE service = 'soak'")
    store.kill()
    print(f'{found["recorded"]} recorded, {found["delivered"]} delivered, {rows} in the store; agent {memory} kB')
    assert int(rows[0][0]) == found['delivered']['samples']
    assert found['delivered']['samples'] == found['recorded']['samples'] - found['waiting']['samples']
    assert not found['dropped']['pieces'] and not found['refused']['pieces']
    assert max(memory) < memory[0] * 1.5 + 2000
