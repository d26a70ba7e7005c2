# SPDX-License-Identifier: MIT
"""`millrace flame`: what is in the page, and that a browser shows it without an error."""
import json
import re
import shutil
import subprocess

import pytest


def content(page):
    text = page.read_text()
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))


@pytest.fixture(scope='module')
def data(need_root, millrace, programs, tmp_path_factory):
    path = tmp_path_factory.mktemp('flame') / 'perf.data'
    millrace('record', '-e', 'cpu-clock,dummy', '-g', '-o', path, '--', programs / 'spin', '-t', '2', '-m', '150')
    return path


@pytest.fixture(scope='module')
def page(data, millrace):
    path = data.parent / 'flame.html'
    millrace('flame', '-i', data, '-o', path)
    return path


def totals(found, event, thread=None):
    """Of each node, with all below it."""
    total = [0] * (len(found['parents']) + 1)
    for part in event['threads']:
        if thread is not None and part['thread'] != thread:
            continue
        node = 0
        for step, weight in zip(part['at'], part['weight']):
            node += step
            total[node] += weight * event['unit']
    for node in range(len(total) - 1, 0, -1):
        total[node - found['parents'][node - 1]] += total[node]
    return total


def test_has_all_samples(data, page, millrace):
    found = content(page)
    event = found['events'][0]
    samples = len(millrace('script', '-i', data).out.split('\n\n')) - 1
    assert event['name'].startswith('cpu-clock') and event['samples'] == samples
    assert totals(found, event)[0] == samples * 250000
    assert sum(sum(cpu['samples']) for cpu in found['time']['cpus']) == samples
    assert {'spin-0', 'spin-1'} <= {thread['comm'] for thread in found['threads']}


def test_threads_and_functions(page):
    found = content(page)
    event = found['events'][0]
    names = [found['names'][name] for name in found['nodes']]
    for number, thread in enumerate(found['threads']):
        if thread['comm'].startswith('spin-'):
            total = totals(found, event, number)
            inner = sum(total[1 + i] for i, name in enumerate(names) if name in ('spin_left', 'spin_right'))
            assert 0.3 < inner / total[0] <= 1


def test_needs_nothing_else(page):
    text = page.read_text()
    assert len(text) < 1_000_000
    assert not re.search(r'(src|href)\s*=|https?://|@import|url\(', text)


def test_standard_output_and_pipe(data, page, millrace):
    assert millrace('flame', '-i', data, '-o', '-').out == page.read_text()
    stream = millrace('record', '-e', 'cpu-clock', '-g', '-o', '-', '--', 'true', binary=True).out
    done = millrace('flame', '-o', '-', '--title', 'a <b> "c"', input=stream, binary=True)
    assert b'"title":"a \\u003cb> \\"c\\""' in done.out


def test_errors(data, millrace, tmp_path):
    assert millrace('flame', '-i', tmp_path / 'none', status=255).err.count('\n') == 1
    assert str(tmp_path) in millrace('flame', '-i', data, '-o', tmp_path / 'no' / 'where', status=255).err
    assert 'No space left' in millrace('flame', '-i', data, '-o', '/dev/full', status=255).err


def test_gaps_are_marked(need_root, need_tracefs, perf, millrace, programs, tmp_path):
    """A ring of one page overflows."""
    data, page = tmp_path / 'perf.data', tmp_path / 'page.html'
    for _ in range(5):
        perf('record', '-m', '1', '-e', 'raw_syscalls:*', '-o', data, '--', programs / 'syscalls', '-t', '2', '-n',
             '100000', status=None)
        if 'LOST events' in perf('report', '--stats', '-i', data).out:
            break
    else:
        pytest.skip('nothing was lost')
    millrace('flame', '-i', data, '-o', page)
    found = content(page)
    assert found['time']['gaps'] and any('lost' in note for note in found['notes'])


def test_in_a_browser(page, tmp_path):
    browser = shutil.which('chromium') or shutil.which('google-chrome')
    if not browser:
        pytest.skip('needs chromium')
    command = [browser, '--headless', '--no-sandbox', '--disable-gpu', f'--user-data-dir={tmp_path / "profile"}',
               '--enable-logging=stderr', '--dump-dom', page.as_uri()]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip('chromium does not end here')
    if '<body' not in done.stdout:
        pytest.skip(f'chromium does not run here: {done.stderr[-300:]}')
    assert 'CONSOLE' not in done.stderr, done.stderr
    assert re.search(r'data-ready="\d+"', done.stdout)
    assert 'spin-0' in done.stdout and 'Samples of each CPU' in done.stdout
