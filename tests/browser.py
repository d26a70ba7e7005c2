# SPDX-License-Identifier: MIT
"""A browser that opens the pages of `flame` and `report --html`, and the data inside of those."""
import base64
import json
import re
import shutil
import subprocess
import time
import urllib.request
import zlib

import pytest

TAB, ESCAPE, ENTER, SHIFT, HOME, END = '\ue004', '\ue00c', '\ue007', '\ue008', '\ue011', '\ue010'
LEFT, UP, RIGHT, DOWN = '\ue012', '\ue013', '\ue014', '\ue015'


def content(page):
    """The data of a page, its sections decoded."""
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S).group(1)
    found = json.loads(text)
    found['pages'] = found['texts']  # of the page; the next are the names of the tree
    found.update(json.loads(section(found['names'])))
    up, found['node_name'] = varints(found['node_up']), [None] + varints(found['node_name'])
    found['parent'] = [None]
    for levels in up:
        at = len(found['parent']) - 1
        for _ in range(levels):
            at = found['parent'][at]
        found['parent'].append(at)
    if 'table' in found:
        found['table'] = json.loads(section(found['table']))
    return found


def section(text):
    return zlib.decompress(base64.b64decode(text))


def varints(text):
    values, value, shift = [], 0, 0
    for byte in section(text):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value)
            value = shift = 0
    return values


def weights(series):
    """(thread, node, bin, period, samples) of a series."""
    nodes, bins, periods = (varints(series[part]) for part in ('node', 'bin', 'period'))
    counts = varints(series['nr']) if 'nr' in series else periods
    at, result = 0, []
    for thread, number in series['threads']:
        node, last, bin_ = 0, None, 0
        for i in range(at, at + number):
            node += nodes[i]
            bin_ = bins[i] + (bin_ if node == last else 0)
            last = node
            result.append((thread, node, bin_, periods[i] * series['unit'], counts[i]))
        at += number
    return result


def totals(found, series, thread=None, bins=None):
    """Of each node, with all that it called."""
    total = [0] * len(found['parent'])
    for which, node, bin_, period, _ in weights(series):
        if (thread is None or which == thread) and (bins is None or bins[0] <= bin_ < bins[1]):
            total[node] += period
    for node in range(len(total) - 1, 0, -1):
        total[found['parent'][node]] += total[node]
    return total


def path_of(found, node):
    """The names from the base to a node."""
    names = []
    while node:
        names.insert(0, found['texts'][found['node_name'][node]])
        node = found['parent'][node]
    return names


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
        self.downloads = profile / 'downloads'
        # Nothing that would ask the network at the start.
        arguments = ['--headless=new', '--no-sandbox', '--disable-gpu', '--window-size=1200,900', '--no-first-run',
                     '--disable-quic', '--disable-background-networking', '--disable-component-update',
                     '--disable-sync', f'--user-data-dir={profile}']
        preferences = {'download.default_directory': str(self.downloads),
                       'profile.default_content_setting_values.automatic_downloads': 1}
        options = {'binary': browser, 'args': arguments, 'prefs': preferences}
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
        """A page of millrace, when it is ready."""
        self.post('/url', {'url': page.as_uri()})
        self.wait('document.body.dataset.ready')

    def run(self, script):
        return self.post('/execute/sync', {'script': script, 'args': []})

    def errors(self):
        return self.post('/se/log', {'type': 'browser'})

    def element(self, selector):
        return next(iter(self.post('/element', {'using': 'css selector', 'value': selector}).values()))

    def type(self, selector, text):
        self.post(f'/element/{self.element(selector)}/value', {'text': text})

    def click_at(self, x, y):
        self.drag((x, y), (x, y))

    def move_to(self, x, y):
        self.post('/actions', {'actions': [{'type': 'pointer', 'id': 'mouse', 'actions': [
            {'type': 'pointerMove', 'duration': 0, 'x': int(x), 'y': int(y)}]}]})

    def emulate(self, width, height, scheme='light'):
        """A window of that size inside, of a person who likes such colours."""
        for command, values in (
                ('Emulation.setDeviceMetricsOverride',
                 {'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': False}),
                ('Emulation.setEmulatedMedia', {'features': [{'name': 'prefers-color-scheme', 'value': scheme}]})):
            self.post('/goog/cdp/execute', {'cmd': command, 'params': values})

    def drag(self, start, end):
        """Both are places in the window."""
        def move(x, y):
            return {'type': 'pointerMove', 'duration': 0, 'x': int(x), 'y': int(y)}
        steps = [move(*start), {'type': 'pointerDown', 'button': 0}, move(*end), {'type': 'pointerUp', 'button': 0}]
        self.post('/actions', {'actions': [{'type': 'pointer', 'id': 'mouse', 'actions': steps}]})

    def type_key(self, *keys):
        """Presses them one behind the other, and lets go in the opposite order."""
        steps = [{'type': 'keyDown', 'value': key} for key in keys]
        steps += [{'type': 'keyUp', 'value': key} for key in reversed(keys)]
        self.post('/actions', {'actions': [{'type': 'key', 'id': 'keys', 'actions': steps}]})

    def wait(self, condition, seconds=20):
        """Until the expression is true; what it is then."""
        end = time.monotonic() + seconds
        while not (value := self.run(f'return {condition}')):
            assert time.monotonic() < end, f'not so after {seconds} s: {condition}'
            time.sleep(0.02)
        return value

    def downloaded(self, name):
        """The bytes of a file that the page saved."""
        end, path = time.monotonic() + 20, self.downloads / name
        while not path.exists() or not path.stat().st_size:  # an empty file holds its name at first
            assert time.monotonic() < end, f'{path} was not saved'
            time.sleep(0.05)
        return path.read_bytes()

    def screenshot(self):
        return base64.b64decode(self.request('GET', '/screenshot'))

    def text(self, selector):
        return self.run(f"return document.querySelector('{selector}').textContent")
