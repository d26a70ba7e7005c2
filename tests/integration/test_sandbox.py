# SPDX-License-Identifier: MIT
"""Commands that read foreign files have given up what they do not need before the first byte: seen from outside."""
import pathlib
import subprocess
import time

import pytest

from conftest import MILLRACE


def status_of(pid):
    lines = pathlib.Path(f'/proc/{pid}/status').read_text().splitlines()
    return dict(line.split(':\t', 1) for line in lines if ':\t' in line)


def features():
    return subprocess.run([MILLRACE, '--version'], stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.parametrize('line', ['report --stdio -i -', 'script -i -', 'flame -i - -o x.html',
                                  'export -i - --format=folded -o x.folded'], ids=lambda line: line.split()[0])
def test_a_reader_is_in_its_sandbox(line, tmp_path):
    if '+sandbox' not in features():
        pytest.skip('built without libseccomp')
    reader = subprocess.Popen([MILLRACE, *line.split()], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, cwd=tmp_path)
    try:
        # It waits for the first byte.
        until = time.monotonic() + 20
        while status_of(reader.pid).get('Seccomp') != '2' and time.monotonic() < until:
            time.sleep(0.01)
        status = status_of(reader.pid)
        assert status['Seccomp'] == '2' and status['NoNewPrivs'] == '1'
        # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER and CAP_SYSLOG: capability(7).
        assert int(status['CapEff'], 16) & ~(1 << 1 | 1 << 2 | 1 << 3 | 1 << 34) == 0
    finally:
        reader.stdin.close()
        assert reader.wait(timeout=20) != 0  # an empty recording


def test_the_output_is_written_and_nothing_else(millrace, tmp_path):
    """Through a link of one's own the target is replaced, in its directory."""
    millrace('record', '-e', 'cpu-clock', '-o', tmp_path / 'x.data', '--', 'true')
    (tmp_path / 'there').mkdir()
    (tmp_path / 'there' / 'page.html').write_text('old')
    (tmp_path / 'link.html').symlink_to(tmp_path / 'there' / 'page.html')
    millrace('flame', '-i', tmp_path / 'x.data', '-o', tmp_path / 'link.html')
    assert (tmp_path / 'there' / 'page.html').read_text().startswith('<')
    assert (tmp_path / 'link.html').is_symlink()
