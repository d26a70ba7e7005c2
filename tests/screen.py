# SPDX-License-Identifier: MIT
"""A terminal whose text can be looked at and typed into: tmux, with a server of its own that nothing else uses."""
import os
import shlex
import shutil
import subprocess
import tempfile
import time

import pytest

from conftest import MILLRACE, wait_until

STATUS = 'ended with status '


class Screen:
    """A run of the program on a terminal. with Screen(['report', '-i', path]) as screen: …"""

    def __init__(self, args, columns=100, rows=24, env=None, cwd=None):
        if not shutil.which('tmux'):
            pytest.skip('needs tmux')
        self.place = tempfile.TemporaryDirectory(prefix='millrace-screen-')
        self.socket = os.path.join(self.place.name, 'socket')
        settings = {'TERM': 'screen-256color', 'LC_ALL': 'C.UTF-8', **(env or {})}
        words = ' '.join(shlex.quote(str(word)) for word in [MILLRACE, *args])
        names = ' '.join(shlex.quote(f'{name}={value}') for name, value in settings.items())
        unset = '' if env and 'NO_COLOR' in env else '-u NO_COLOR '
        line = (f'env {unset}-u COLUMNS -u LINES -u PAGER -u PERF_PAGER {names} {words} 2>{self.place.name}/err; '
                f'echo "{STATUS}$?"; exec sleep 600')
        environment = {name: value for name, value in os.environ.items() if name != 'TMUX'}
        subprocess.run(['tmux', '-u', '-f', '/dev/null', '-S', self.socket, 'new-session', '-d', '-x', str(columns),
                        '-y', str(rows), line], check=True, cwd=cwd, env={**environment, 'LC_ALL': 'C.UTF-8'})
        self.tmux('set-option', '-g', 'status', 'off')
        self.tmux('set-option', '-g', 'escape-time', '0')
        self.tmux('resize-window', '-x', str(columns), '-y', str(rows))

    def tmux(self, *args):
        return subprocess.run(['tmux', '-u', '-S', self.socket, *args], check=True, stdout=subprocess.PIPE,
                              env={**os.environ, 'LC_ALL': 'C.UTF-8'}).stdout.decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux('kill-server')
        self.place.cleanup()

    def lines(self):
        return self.tmux('capture-pane', '-p').splitlines()

    def text(self):
        return '\n'.join(self.lines())

    def colours(self):
        """With the escape sequences of what is shown."""
        return self.tmux('capture-pane', '-p', '-e')

    def err(self):
        with open(f'{self.place.name}/err') as file:
            return file.read()

    def keys(self, *keys):
        """Names of tmux (Down, Enter, Escape, C-c, BTab), or characters; a text is typed with type()."""
        self.tmux('send-keys', *keys)

    def type(self, text):
        self.tmux('send-keys', '-l', text)

    def wait(self, condition, what=''):
        """
        condition: a text that must be shown, or a function of the shown text. Returns the text: all of it, as tmux may
        have drawn a part of what was written when it is asked.
        """
        def look():
            text = self.text()
            if not (condition in text if isinstance(condition, str) else condition(text)):
                time.sleep(0.03)  # tmux is a process each time
                return None
            time.sleep(0.02)
            return text if text == self.text() else None
        try:
            return wait_until(look, what or condition)
        except pytest.fail.Exception as failure:
            pytest.fail(f'{failure}\n{self.text()}\n{self.err()}')

    def press(self, key, condition, what=''):
        """A key, and what is shown then."""
        self.keys(key)
        return self.wait(condition, what or f'{condition} after {key}')

    def ended(self):
        """The exit status."""
        text = self.wait(STATUS)
        return int(text.split(STATUS)[1].split()[0])

    def cursor_line(self):
        """The line that is drawn in reverse, below the title; its text without escapes."""
        for line, plain in list(zip(self.colours().splitlines(), self.lines()))[1:]:
            if '\x1b[7m' in line or '\x1b[0;7m' in line or ';7m' in line:
                return plain
        return None
