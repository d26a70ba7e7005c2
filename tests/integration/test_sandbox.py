# SPDX-License-Identifier: MIT
"""What readers give up before the first byte of a foreign file, and recorders when their events are open."""
import contextlib
import http.server
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import pytest

from conftest import MILLRACE, child_of, each_thread, wait_until, while_it_runs
from screen import Screen


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


def pids_of(command, place):
    """Of millrace, by their working directory."""
    found = subprocess.run(['pgrep', '-f', f'^{MILLRACE} {command}.*'], stdout=subprocess.PIPE, text=True, check=True)
    pids = []
    for pid in map(int, found.stdout.split()):
        with contextlib.suppress(OSError):  # one of another test, which has ended since
            if os.readlink(f'/proc/{pid}/cwd') == str(place):
                pids.append(pid)
    return pids


def test_who_opens_files_of_containers_is_in_a_sandbox(need_root, millrace, tmp_path):
    """From its first file on; and it has nothing of the reader's open."""
    if '+sandbox' not in features() or '+tui' not in features():
        pytest.skip('built without libseccomp or ncurses')
    (tmp_path / 'place').mkdir()
    script = ('mount --make-rprivate /; mount -t tmpfs none place; cp /bin/sh place/busy; '
              'exec place/busy -c "while :; do :; done"')
    with subprocess.Popen(['unshare', '-m', 'sh', '-ec', script], cwd=tmp_path) as busy:
        wait_until(lambda: pathlib.Path(f'/proc/{busy.pid}/comm').read_text() == 'busy\n', 'it runs')
        millrace('record', '-q', '-a', '-B', '-e', 'cpu-clock', '-o', tmp_path / 'x.data', '--',
                 *while_it_runs(busy.pid, 0.1))
        busy.kill()
    # Of a loaded machine it is not among the first rows.
    with Screen(['report', '-i', 'x.data', '--comms', 'busy'], cwd=tmp_path) as screen:
        screen.wait('busy')
        [reader] = pids_of('report', tmp_path)
        helper = int(pathlib.Path(f'/proc/{reader}/task/{reader}/children').read_text())
        status = status_of(helper)
        assert status['Name'] == 'container-files'
        assert pathlib.Path(f'/proc/{helper}/cmdline').read_text().startswith('container-files\0')
        # CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE and CAP_SYSLOG: capability(7).
        assert capabilities(status, 'CapPrm') <= {2, 19, 34}
        assert status['NoNewPrivs'] == '1' and status['Seccomp'] == '2'
        assert os.readlink(f'/proc/{helper}/cwd') == '/'
        files = [os.readlink(f'/proc/{helper}/fd/{fd}') for fd in os.listdir(f'/proc/{helper}/fd')]
        assert sorted(files)[:3] == ['/dev/null'] * 3 and len(files) == 4
        screen.keys('q')
        wait_until(lambda: not os.path.exists(f'/proc/{helper}'), 'its end')


class Refuses(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get('Content-Length', 0)))
        self.send_response(400)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(name='server', scope='module')
def fixture_server():
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Refuses)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'127.0.0.1:{server.server_port}'
    server.shutdown()
    server.server_close()


READERS = ['report --stdio -i FOREIGN', 'report -i FOREIGN --html x.html', 'script -i FOREIGN', 'diff FOREIGN x.data',
           'flame -i FOREIGN -o x.html', 'flame --diff FOREIGN x.data -o x.html', 'merge FOREIGN -o y.data',
           'export -i FOREIGN --format=folded -o x.folded', 'unwind -i FOREIGN -o y.data', 'recover FOREIGN -o y.data']
OF_FEATURES = {'query -i FOREIGN SELECT_1': 'sqlite',
               'export -i FOREIGN --to=http://SERVER --format=otlp': 'clickhouse',
               'export -i FOREIGN --to=clickhouse://SERVER': 'clickhouse'}
OF_STORES = ['report --stdio --from=clickhouse://SERVER --service=x',
             'flame --from=clickhouse://SERVER --service=x -o x.html']


@pytest.mark.parametrize('line', [*READERS, *OF_FEATURES, *OF_STORES])
def test_nothing_foreign_is_read_before_the_sandbox(millrace, line, server, tmp_path):
    """As the kernel sees it: from the filter on no program is started, and no socket made but for a named server."""
    if '+sandbox' not in features():
        pytest.skip('built without libseccomp')
    wanted = OF_FEATURES.get(line, 'clickhouse' if line in OF_STORES else '')
    if wanted and f'+{wanted}' not in features():
        pytest.skip(f'built without {wanted}')
    for name in ('foreign.data', 'x.data'):
        millrace('record', '-e', 'cpu-clock', '-o', tmp_path / name, '--', 'true')
    words = line.replace('FOREIGN', 'foreign.data').replace('SERVER', server).split()
    traced = ['strace', '-f', '-o', tmp_path / 'calls', '-e', 'trace=seccomp,openat,connect,socket,execve,execveat']
    subprocess.run([*traced, MILLRACE, *(word.replace('SELECT_1', 'SELECT 1') for word in words)], cwd=tmp_path,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=120)
    calls = (tmp_path / 'calls').read_text().splitlines()
    filtered = next(at for at, call in enumerate(calls) if 'SECCOMP_SET_MODE_FILTER' in call and ' = 0' in call)
    foreign = re.compile('foreign.data' if 'FOREIGN' in line else r'connect\(.*AF_INET6?\b.*127\.0\.0\.1')
    assert next(at for at, call in enumerate(calls) if foreign.search(call) and 'execve' not in call) > filtered
    later = '\n'.join(calls[filtered + 1:])
    assert 'execve' not in later
    assert 'SERVER' in line or 'socket(' not in later


def test_top_is_in_its_sandbox(need_root, spawn, tmp_path):
    if '+sandbox' not in features() or '+tui' not in features():
        pytest.skip('built without libseccomp or ncurses')
    with Screen(['top', '-p', spawn(['sleep', '60']).pid, '-e', 'cpu-clock:u', '-d', '0.2'], cwd=tmp_path) as screen:
        screen.wait('kept:')
        tops = pids_of('top', tmp_path)
        statuses = [status_of(pid) for pid in tops]  # of the view, and of the recorder that it has started
        assert len(tops) == 2 and all(status['NoNewPrivs'] == '1' for status in statuses)
        assert [status['Seccomp'] for status in statuses if int(status['PPid']) not in tops] == ['2']


def test_the_output_is_written_and_nothing_else(millrace, tmp_path):
    """Through a link of one's own the target is replaced, in its directory."""
    millrace('record', '-e', 'cpu-clock', '-o', tmp_path / 'x.data', '--', 'true')
    (tmp_path / 'there').mkdir()
    (tmp_path / 'there' / 'page.html').write_text('old')
    (tmp_path / 'link.html').symlink_to(tmp_path / 'there' / 'page.html')
    millrace('flame', '-i', tmp_path / 'x.data', '-o', tmp_path / 'link.html')
    assert (tmp_path / 'there' / 'page.html').read_text().startswith('<')
    assert (tmp_path / 'link.html').is_symlink()


# DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, KILL, IPC_LOCK, SYS_PTRACE, SYS_NICE, SYSLOG, CHECKPOINT_RESTORE:
# capability(7).
OF_A_RECORDER = {1, 2, 3, 5, 14, 19, 23, 34, 40}
SYS_ADMIN, KILL, PERFMON = 21, 5, 38


def capabilities(status, name):
    return {bit for bit in range(64) if int(status[name], 16) >> bit & 1}


@pytest.mark.parametrize('args', [['-a'], ['-a', '-z', '--threads'], ['--call-graph', 'unwind'], ['-p']],
                         ids=lambda args: args[-1])
def test_a_recorder_keeps_what_it_uses(need_root, recorder, spawn, tmp_path, args):
    """All threads of it; and its command has what it was started with."""
    if args == ['-p']:
        args = ['-p', str(spawn(['sleep', '60']).pid)]
        command = []
    else:
        command = ['--', 'sleep', '60']
    before = status_of('self')
    process = recorder(['-e', 'cpu-clock', '-o', tmp_path / 'data', *args, *command])
    for status in each_thread(process.pid, lambda tid: status_of(f'{process.pid}/task/{tid}')):
        assert status['NoNewPrivs'] == '1'
        assert capabilities(status, 'CapEff') <= OF_A_RECORDER
        assert capabilities(status, 'CapPrm') <= OF_A_RECORDER | {SYS_ADMIN}
        assert capabilities(status, 'CapInh') == set()
    assert (KILL in capabilities(status_of(process.pid), 'CapEff')) == bool(command)
    if command:
        theirs = status_of(child_of(process))
        assert [theirs[name] for name in ('CapEff', 'CapPrm', 'CapBnd', 'NoNewPrivs')] == \
            [before[name] for name in ('CapEff', 'CapPrm', 'CapBnd', 'NoNewPrivs')]
    process.terminate()
    assert 'captured' in process.communicate(timeout=60)[1]


@pytest.mark.skipif(os.uname().machine != 'x86_64', reason='elsewhere /proc/iomem does not tell where the code ends')
def test_a_recorder_without_privileges_still_starts_quickly(need_root, recorder, spawn, tmp_path):
    """/proc/iomem tells root where the kernel ends. All symbols up to there take longer than the rest of a start."""
    process = recorder(['-e', 'cpu-clock', '-o', tmp_path / 'data', '-p', spawn(['sleep', '60']).pid])
    read = int(re.search(r'rchar: (\d+)', pathlib.Path(f'/proc/{process.pid}/io').read_text())[1])
    assert read < pathlib.Path('/proc/kallsyms').read_bytes().count(b'\n') * 10  # a symbol has 40 bytes or more
    process.terminate()
    assert 'captured' in process.communicate(timeout=60)[1]


def test_a_command_of_another_user_is_ended(need_root, recorder, tmp_path):
    command = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups', 'sleep', '60']
    process = recorder(['-e', 'cpu-clock', '-o', tmp_path / 'data', '--', *command])
    wait_until(lambda: status_of(child_of(process))['Uid'].split()[0] == '65534', 'another user')
    process.terminate()
    assert 'captured' in process.communicate(timeout=60)[1]


def test_outputs_in_a_directory_of_another_user(need_root, recorder, tmp_path):
    """Each is made when events are long open."""
    theirs = tmp_path / 'theirs'
    theirs.mkdir(mode=0o755)
    os.chown(theirs, 65534, 65534)
    process = recorder(['-a', '-e', 'cpu-clock', '-o', theirs / 'data', '--switch-output=signal'])
    for nr in (1, 2):
        process.send_signal(signal.SIGUSR2)
        wait_until(lambda number=nr: len(list(theirs.iterdir())) > number, 'one more file')
    process.terminate()
    assert process.communicate(timeout=60)[1].count('wrote') == 3
