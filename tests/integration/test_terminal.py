# SPDX-License-Identifier: MIT
"""What is different when standard output, or standard error, is a terminal: the pager, colours, the progress."""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

import pytest

from conftest import MILLRACE, sanitized, wait_until

# The handler of a signal ends the process, with the thread that reads ahead.
TSAN_OPTIONS = os.environ.get('TSAN_OPTIONS', '') + ':report_thread_leaks=0'
PAGER = r'''
import os, sys
with open(sys.argv[1], 'a') as log:
    log.write('started\n')
    log.flush()
    text = sys.stdin.read() if sys.argv[2] == 'all' else sys.stdin.readline()
    while sys.argv[2] == 'hold' and not os.path.exists(sys.argv[1] + '.go'):
        pass
    log.write(f'ended {len(text)}\n')
'''


@pytest.fixture(scope='module')
def data(need_root, millrace, programs, tmp_path_factory):
    path = tmp_path_factory.mktemp('terminal') / 'perf.data'
    millrace('record', '-e', 'cpu-clock', '-g', '-o', path, '--', programs / 'spin', '-t', '2', '-m', '300')
    return path


class Terminal:
    """A run of the program on a terminal of its own."""

    def __init__(self, args, env=None, err=False):
        self.master, slave = pty.openpty()
        names = {name: value for name, value in os.environ.items()
                 if name not in ('PAGER', 'PERF_PAGER', 'NO_COLOR', 'LESS')}
        self.process = subprocess.Popen([MILLRACE, *map(str, args)], stdin=slave,
                                        stdout=subprocess.DEVNULL if err else slave,
                                        stderr=slave if err else subprocess.PIPE, start_new_session=True,
                                        env={**names, 'TERM': 'xterm', 'TSAN_OPTIONS': TSAN_OPTIONS, **(env or {})})
        os.close(slave)

    def read(self):
        """All that it shows."""
        text = b''
        while True:
            try:
                part = os.read(self.master, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            text += part
        return text.decode(errors='replace').replace('\r\n', '\n')

    def end(self):
        text, status = self.read(), self.process.wait(timeout=60)
        os.close(self.master)
        return text, status


@pytest.fixture
def pager(tmp_path):
    (tmp_path / 'pager.py').write_text(PAGER)
    log = tmp_path / 'log'

    class Pager:
        def env(self, how, name='PERF_PAGER'):
            return {name: f'{sys.executable} {tmp_path}/pager.py {log} {how}'}

        def log(self):
            return log.read_text() if log.exists() else ''

        def go_on(self):
            (tmp_path / 'log.go').touch()

    return Pager()


@pytest.mark.parametrize('command', ['report', 'script'])
def test_pager_gets_all(data, millrace, pager, command):
    plain = millrace(command, '-i', data).out
    options = ['--stdio', '--stdio-color=never'] if command == 'report' else []
    text, status = Terminal([command, '-i', data, *options], pager.env('all')).end()
    assert (text, status) == ('', 0)
    assert pager.log() == f'started\nended {len(plain)}\n'


def test_no_pager(data, millrace, pager):
    plain = millrace('report', '-i', data).out
    for options, env in (['--no-pager'], pager.env('all')), ([], {'PERF_PAGER': ''}), ([], {'PAGER': 'cat'}), (
            [], {'PERF_PAGER': 'cat', **pager.env('all', 'PAGER')}):
        text, status = Terminal(['report', '--stdio', '-i', data, '--stdio-color=never', *options], env).end()
        assert (text, status) == (plain, 0)
    assert pager.log() == ''


def test_pager_variable_of_others(data, pager):
    assert Terminal(['report', '--stdio', '-i', data], pager.env('all', 'PAGER')).end()[1] == 0
    assert 'ended' in pager.log()


def test_less_ends_behind_a_page(data):
    if not os.path.exists('/usr/bin/less'):
        pytest.skip('needs less')
    text, status = Terminal(['report', '--stdio', '-i', data, '-s', 'comm', '-g', 'none', '--no-children'],
                            {'PAGER': 'less'}).end()
    assert status == 0 and 'Total Lost Samples' in text and 'spin-0' in text


def test_pager_that_ends_early(data, pager):
    """No error, and nothing on standard error."""
    run = Terminal(['script', '-i', data], pager.env('line'))
    assert run.end() == ('', 0) and run.process.stderr.read() == b''
    assert pager.log().startswith('started\nended ')


def test_pager_that_is_none(data):
    """Whether or not all of the output fits into the pipe."""
    for words in ['script'], ['report', '--header-only'], ['report', '--stdio', '-s', 'comm', '-g', 'none']:
        assert Terminal([*words, '-i', data], {'PAGER': '/no/such/pager'}).end()[1] == 255


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_for_the_pager(data, pager, number):
    """The shell's prompt must not come back while the pager shows something."""
    run = Terminal(['report', '--stdio', '-i', data], pager.env('hold'))
    wait_until(lambda: 'started' in pager.log(), 'the pager starts')
    run.process.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        run.process.wait(timeout=0.3)
    pager.go_on()
    run.read()
    assert run.process.wait(timeout=60) == -number
    assert 'ended' in pager.log()


def test_a_signal_at_any_time(data, pager):
    """Wherever it comes, nothing is left behind: the terminal is closed by the last process that has it."""
    for step in range(20):
        run = Terminal(['report', '--stdio', '-i', data], pager.env('all'))
        try:
            run.process.wait(timeout=step * 0.004)
        except subprocess.TimeoutExpired:
            run.process.send_signal(signal.SIGTERM)
        run.read()
        assert run.process.wait(timeout=60) in (0, -signal.SIGTERM)
        assert pager.log().count('started') == pager.log().count('ended')


def test_colours(data):
    def shown(*options, **env):
        return Terminal(['report', '--stdio', '-i', data, '--no-pager', *options], env).end()[0]

    assert re.search(r'^ +\033\[31m +\d\d\.\d\d%\033\[m', shown(), re.M)
    assert '\033' not in shown(NO_COLOR='1') and '\033' not in shown(TERM='dumb')
    assert '\033' not in shown('--stdio-color=never')
    assert '\033[31m' in shown(NO_COLOR='') and '\033[31m' in shown('--stdio-color=always', NO_COLOR='1')


def test_colours_are_perfs(data, perf, millrace):
    for options in [], ['-g', 'flat', '--no-children'], ['-g', 'folded', '-n'], ['-g', 'fractal,callee']:
        ours = millrace('report', '--stdio-color=always', '-i', data, *options).out
        theirs = perf('report', '--stdio', '--stdio-color=always', '-i', data, *options).out
        found = re.findall(r'\033\[3\dm +[\d.]+%\033\[m', theirs)
        assert found and re.findall(r'\033\[3\dm +[\d.]+%\033\[m', ours) == found


def test_wrong_colour(data, millrace):
    assert 'always' in millrace('report', '--stdio-color=blue', '-i', data, status=129).err


def test_no_progress_of_what_is_quick(data):
    """And none where standard error is no terminal, which all other tests see to."""
    assert Terminal(['report', '--stdio', '-i', data], err=True).end() == ('', 0)


def test_progress_of_long_work(need_root, need_tracefs, millrace, programs, tmp_path):
    """A pipe that takes its time."""
    stream = millrace('record', '-e', 'raw_syscalls:sys_enter', '-o', '-', '--', programs / 'syscalls', '-t', '1',
                      '-n', '60000', binary=True).out
    master, slave = pty.openpty()
    run = subprocess.Popen([MILLRACE, 'report', '-i', '-'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                           stderr=slave, start_new_session=True,
                           preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0))
    os.close(slave)
    run.stdin.write(stream[:10000])
    run.stdin.flush()
    with pytest.raises(subprocess.TimeoutExpired):
        run.wait(timeout=1.2)  # what takes less is not long
    run.stdin.write(stream[10000:])
    run.stdin.close()
    assert run.wait(timeout=60) == 0
    text = ''
    with contextlib.suppress(OSError):  # EIO: the end of a terminal, pty(7)
        while more := os.read(master, 65536).decode():
            text += more
    os.close(master)
    assert re.search(r'millrace: reading: [\d.]+ ?k? records, [\d.]+ ?k?/s', text) and '\r\033[K' in text


FAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1'
LONG = [(words, 'reading') for words in (
    'report --stdio', 'report -D', 'report --stats', 'report --tasks', 'script', 'flame -o {out}',
    'report --html {out}', 'diff {data} {data}', 'export --format=folded -o {out}',
    'export --format=speedscope -o {out}',
    'export --format=firefox -o {out}', 'export --format=pprof -o {out}', 'export --format=perfetto -o {out}',
    'export --format=otlp -o {out}', 'export --format=sqlite -o {out}')] + [
        ('report --loss', 'reading losses'), ('flame --diff -o {out} {data} {data}', 'reading'),
        ('query -i {data} SELECT+1', 'reading'), ('merge -o {out} {data} {data}', 'merging'),
        ('unwind -i {stacks} -o {out}', 'unwinding'), ('recover --index {stacks}', 'making the index'),
        ('recover -o {out} {cut}', 'copying'), ('recover {cut}', 'looking for the last whole record')]


@pytest.fixture(scope='module')
def many(need_root, need_tracefs, millrace, programs, tmp_path_factory):
    """Recordings whose records are enough for a look at the clock."""
    place = tmp_path_factory.mktemp('many')
    files = {name: place / name for name in ('data', 'stacks')}
    for name, options in ('data', ['-g']), ('stacks', ['--call-graph', 'dwarf,1024']):
        millrace('record', '-e', 'raw_syscalls:sys_enter', *options, '-o', files[name], '--', programs / 'syscalls',
                 '-t', '1', '-n', '6000')
    return files


@pytest.mark.skipif(not os.path.exists(FAKETIME), reason='needs faketime')
@pytest.mark.parametrize('words, what', LONG, ids=[words for words, _ in LONG])
def test_progress_of_each_command(many, tmp_path, words, what):
    """On a clock that goes ten thousand times as fast all work is long. In a pipe nothing of it is seen."""
    if sanitized():
        pytest.skip('sanitizers cannot be loaded behind the library that makes the clock fast')
    files = {**many, 'out': tmp_path / 'out', 'cut': tmp_path / 'cut'}
    files['cut'].write_bytes(many['data'].read_bytes()[:-20000])
    args = [part.format(**files).replace('+', ' ') for part in words.split()]
    if not re.search('{(data|stacks|cut)}', words):
        args += ['-i', files['data']]
    master, slave = pty.openpty()
    for err in slave, subprocess.PIPE:
        is_terminal = err == slave
        run = subprocess.Popen([MILLRACE, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=err, start_new_session=True,
                               env={**os.environ, 'LD_PRELOAD': FAKETIME, 'FAKETIME': '+0 x10000'},
                               preexec_fn=lambda: is_terminal and fcntl.ioctl(2, termios.TIOCSCTTY, 0))
        if is_terminal:
            os.close(slave)
            text = b''
            with contextlib.suppress(OSError):  # EIO: the end of a terminal, pty(7)
                while more := os.read(master, 65536):
                    text += more
            os.close(master)
            line = rf'{what}: +\d+ % \[#* *\] [\d.]+ ?[kM]?(B| records), [\d.]+ ?[kM]?B?/s, \d+ s left'
            assert re.search(f'millrace: {line}', text.decode()) and '\r\033[K' in text.decode(), text.decode()
        else:
            assert b' s left' not in run.communicate()[1]
        assert run.wait() == 0
        (tmp_path / 'out').unlink(missing_ok=True)
        files['cut'].write_bytes(many['data'].read_bytes()[:-20000])


def test_progress_of_what_is_stored_last(need_root, need_tracefs, programs):
    """A pipe that is not read: what is held goes into it when the recording has ended."""
    master, slave = pty.openpty()
    run = subprocess.Popen([MILLRACE, 'record', '-e', 'raw_syscalls:*', '-o', '-', '--', programs / 'syscalls',
                            '-t', '1', '-n', '30000'], stdout=subprocess.PIPE, stderr=slave, start_new_session=True,
                           preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0))
    os.close(slave)
    fcntl.fcntl(run.stdout, fcntl.F_SETPIPE_SZ, 1 << 20)  # what stands before the records may be more than 64 KiB
    text = ''
    while 'storing what is in memory' not in text:
        text += os.read(master, 65536).decode()
    assert run.stdout.read()
    assert run.wait(timeout=60) == 0
    with contextlib.suppress(OSError):
        while more := os.read(master, 65536).decode():
            text += more
    os.close(master)
    assert re.search(r'millrace: storing what is in memory: ', text) and '\r\033[K' in text


def status_of(args, seconds, end=signal.SIGINT, lines=0):
    """
    All that a recording shows on its terminal, which it has in the foreground; it is ended after so many seconds, or
    when it has shown so many status lines.
    """
    pid, master = pty.fork()
    if not pid:
        os.execv(MILLRACE, [str(MILLRACE), 'record', '-e', 'cpu-clock', *map(str, args)])
    text, limit, sent = b'', time.monotonic() + seconds, False
    while True:
        if not sent and end and (time.monotonic() > limit or 0 < lines <= text.count(b'Ctrl-C ends it')):
            os.kill(pid, end)
            sent = True
        if select.select([master], [], [], 0.05)[0]:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            text += part
    os.waitpid(pid, 0)
    os.close(master)
    return text.decode(errors='replace')


STATUS = re.compile(r'millrace: recording for (\d+) s, (?:(\d+) samples, )?\d+\.\d MB written, lost \d+; '
                    r'Ctrl-C ends it')


@pytest.mark.parametrize('options', [[], ['-Bz', '--threads'], ['--overwrite']], ids=' '.join)
def test_recording_shows_that_it_lives(need_root, millrace, tmp_path, options):
    begin = time.monotonic()
    text = status_of(['-a', '-e', 'cpu-clock', '-F', '100', '-o', tmp_path / 'data', *options], 60, lines=2)
    found = STATUS.findall(text)
    seconds = [int(seconds) for seconds, _ in found]
    assert len(seconds) >= 2 and seconds == sorted(set(seconds)), text
    assert 1 <= seconds[0] and seconds[-1] <= time.monotonic() - begin, text
    last = text.split('\r\033[K')[-1]
    if options == ['--overwrite']:
        assert {samples for _, samples in found} == {''}
    else:
        stored = len(millrace('script', '-F', 'cpu', '-i', tmp_path / 'data').out.splitlines())
        counts = [int(samples) for _, samples in found]
        assert counts == sorted(counts) and 0 < counts[-1] <= stored, text
    assert re.search('^millrace: captured', last, re.M) and not STATUS.search(last), text
    assert STATUS.search(status_of(['-a', '-v', '-o', tmp_path / 'data', '--', 'sleep', '1.5'], 60, None))


def test_recording_shows_nothing(need_root, millrace, tmp_path):
    """With -q, beside a command that may write there, and in pipes. -B: nothing is said of what others run."""
    assert not status_of(['-a', '-q', '-o', tmp_path / 'data'], 1.5)
    text = status_of(['-a', '-B', '-o', tmp_path / 'data', '--', 'sleep', '1.5'], 60, None)
    assert text.count('millrace: captured') == 1 and '\033' not in text
    assert not [line for line in text.splitlines() if not re.search('millrace: (captured|copied|  )|jit-', line)], text
    assert 'recording for' not in millrace('record', '-av', '-e', 'cpu-clock', '-o', tmp_path / 'data', '--', 'sleep',
                                           '1.5').err
