# SPDX-License-Identifier: MIT
"""Every command of docs/guide.md does what is said there, on this machine."""
import os
import pathlib
import re
import subprocess

import pytest

from conftest import MILLRACE, ROOT

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
