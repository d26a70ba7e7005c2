# SPDX-License-Identifier: MIT
"""`millrace flame`: what is in the page, and that a browser shows it without an error."""
import json
import re
import shutil
import subprocess
import urllib.request

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


def test_page_is_the_owners_alone(page):
    assert page.stat().st_mode & 0o777 == 0o600


def test_standard_output_and_pipe(data, page, millrace):
    assert millrace('flame', '-i', data, '-o', '-').out == page.read_text()
    stream = millrace('record', '-e', 'cpu-clock', '-g', '-o', '-', '--', 'true', binary=True).out
    done = millrace('flame', '-o', '-', '--title', 'a <b> "c"', input=stream, binary=True)
    assert b'"title":"a \\u003cb> \\"c\\""' in done.out


def test_errors(data, millrace, tmp_path):
    assert millrace('flame', '-i', tmp_path / 'none', status=255).err.count('\n') == 1
    assert str(tmp_path) in millrace('flame', '-i', data, '-o', tmp_path / 'no' / 'where', status=255).err
    assert 'No space left' in millrace('flame', '-i', data, '-o', '/dev/full', status=255).err


@pytest.fixture(scope='module')
def lost(need_root, need_tracefs, perf, millrace, programs, tmp_path_factory):
    """The page of a recording whose rings of one page overflowed."""
    base = tmp_path_factory.mktemp('lost')
    data, page = base / 'perf.data', base / 'page.html'
    for _ in range(5):
        perf('record', '-m', '1', '-e', 'raw_syscalls:*', '-o', data, '--', programs / 'syscalls', '-t', '2', '-n',
             '100000', status=None)
        if 'LOST events' in perf('report', '--stats', '-i', data).out:
            break
    else:
        pytest.skip('nothing was lost')
    millrace('flame', '-i', data, '-o', page)
    return page


def test_gaps_are_marked(lost):
    found = content(lost)
    assert found['time']['gaps'] and any('lost' in note for note in found['notes'])


class Browser:
    """A headless Chromium that does what a person would, by WebDriver (https://www.w3.org/TR/webdriver2)."""

    def __init__(self, profile):
        driver, browser = shutil.which('chromedriver'), shutil.which('chromium') or shutil.which('google-chrome')
        if not driver or not browser:
            pytest.skip('needs chromium and chromium-driver')
        self.driver = subprocess.Popen([driver, '--port=0'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       text=True)
        port = next((found.group(1) for line in self.driver.stdout
                     if (found := re.search(r'successfully on port (\d+)', line))), None)
        self.base, self.session = f'http://127.0.0.1:{port}/session', None
        options = {'binary': browser, 'args': ['--headless=new',
                                               '--no-sandbox', '--disable-gpu', '--window-size=1200,900',
                                               f'--user-data-dir={profile}']}
        try:
            asked = {'capabilities': {'alwaysMatch': {'browserName': 'chrome', 'goog:chromeOptions': options,
                                                      'goog:loggingPrefs': {'browser': 'ALL'}}}}
            self.session = self.post('', asked)['sessionId']
        except (OSError, TimeoutError) as why:
            self.close()
            pytest.skip(f'chromium does not run here: {why}')

    def request(self, method, path, body=None):
        url = self.base + (f'/{self.session}' if self.session else '') + path
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {'Content-Type': 'application/json'}, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as answer:
            return json.loads(answer.read())['value']

    def post(self, path, body):
        return self.request('POST', path, body)

    def close(self):
        if self.session:
            self.request('DELETE', '')
        self.driver.terminate()
        self.driver.wait(timeout=60)
        self.driver.stdout.close()

    def open(self, page):
        self.post('/url', {'url': page.as_uri()})

    def run(self, script):
        return self.post('/execute/sync', {'script': script, 'args': []})

    def errors(self):
        return self.post('/se/log', {'type': 'browser'})

    def element(self, selector):
        return next(iter(self.post('/element', {'using': 'css selector', 'value': selector}).values()))

    def type(self, selector, text):
        self.post(f'/element/{self.element(selector)}/value', {'text': text})

    def click_at(self, x, y):
        steps = [{'type': 'pointerMove', 'duration': 0, 'x': int(x), 'y': int(y)}, {'type': 'pointerDown', 'button': 0},
                 {'type': 'pointerUp', 'button': 0}]
        self.post('/actions', {'actions': [{'type': 'pointer', 'id': 'mouse', 'actions': steps}]})

    def type_key(self, key):
        self.post('/actions', {'actions': [{'type': 'key', 'id': 'keys', 'actions': [
            {'type': 'keyDown', 'value': key}, {'type': 'keyUp', 'value': key}]}]})

    def text(self, selector):
        return self.run(f"return document.querySelector('{selector}').textContent")


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    made = Browser(tmp_path_factory.mktemp('profile'))
    yield made
    made.close()


ESCAPE = '\ue00c'


def choose(browser, name, value):
    browser.run(f"const it = document.getElementById('{name}'); it.value = {json.dumps(str(value))}; it.onchange();")


@pytest.fixture
def shown(browser, page):
    browser.open(page)
    yield browser
    assert browser.errors() == []


def test_page_opens(shown):
    assert int(shown.run('return document.body.dataset.ready')) >= 0
    assert 'Samples of each CPU' in shown.text('#time-title') and 'cpu-clock' in shown.text('#event')
    painted = shown.run("""const canvas = document.getElementById('flame');
        const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(image.data.buffer)).size""")
    assert painted > 5
    assert len(shown.request('GET', '/screenshot')) > 10000


def test_search(shown, page):
    found, event = content(page), content(page)['events'][0]
    total, names = totals(found, event), [found['names'][name] for name in found['nodes']]
    inner = sum(total[1 + i] for i, name in enumerate(names) if name == 'spin_left')
    shown.type('#search', '^spin_left$')
    assert shown.text('#found') == f'{100 * inner / total[0]:.2f} % found'
    shown.type('#search', '(')  # no regular expression: a part of a name
    assert shown.text('#found') == '0.00 % found'


def test_zoom(shown):
    """A click on a frame makes it as wide as all; Escape leads to its caller, the button to the beginning."""
    where = shown.run("""const box = document.getElementById('flame').getBoundingClientRect();
        const node = order.find(node => depth[node] === 2 && total[node] > 0 && total[node] < total[0]) ??
            order.find(node => depth[node] === 2 && total[node] > 0);
        const at = place(node, box.width);
        return [node, box.left + at[0] + at[1] / 2, box.top + ROW * 2.5]""")
    shown.click_at(where[1], where[2])
    assert shown.run('return zoom') == where[0]
    assert shown.run("return place(zoom, document.getElementById('flame').clientWidth)") == [
        0, shown.run("return document.getElementById('flame').clientWidth")]
    shown.type_key(ESCAPE)
    assert shown.run('return zoom') == shown.run(f'return parent[{where[0]}]')
    shown.click_at(where[1], where[2])
    shown.run("document.getElementById('reset').click()")
    assert shown.run('return zoom') == 0


def test_threads_of_the_page(shown, page):
    found = content(page)
    event = found['events'][0]
    for number, thread in enumerate(found['threads']):
        choose(shown, 'thread', number)
        assert shown.run('return total[0]') == totals(found, event, number)[0], thread
    choose(shown, 'thread', '')
    assert shown.run('return total[0]') == totals(found, event)[0]


def test_events_of_the_page(browser, need_root, millrace, programs, tmp_path):
    data, page = tmp_path / 'perf.data', tmp_path / 'page.html'
    millrace('record', '-e', 'cpu-clock,page-faults/period=1/', '-g', '-o', data, '--', programs / 'spin', '-t', '2',
             '-m', '50')
    millrace('flame', '-i', data, '-o', page)
    found = content(page)
    assert len(found['events']) == 2
    browser.open(page)
    for number, event in enumerate(found['events']):
        choose(browser, 'event', number)
        assert browser.run('return total[0]') == totals(found, event)[0] > 0
        assert event['name'] in browser.text('#status')
    assert browser.errors() == []


def test_gaps_of_the_page(browser, lost):
    browser.open(lost)
    assert 'data was lost' in browser.text('#time-title') and browser.text('#notes')
    gap = browser.run("return getComputedStyle(document.documentElement).getPropertyValue('--gap')").strip()
    painted = browser.run("""const probe = document.createElement('canvas').getContext('2d');
        const canvas = document.getElementById('time');
        probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--gap');
        probe.fillRect(0, 0, 1, 1);
        const wanted = new Uint32Array(probe.getImageData(0, 0, 1, 1).data.buffer)[0];
        const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        const all = new Uint32Array(image.data.buffer);
        return all.filter(pixel => pixel === wanted).length""")
    assert gap and painted > 0
    assert browser.errors() == []
