# SPDX-License-Identifier: MIT
"""The view over a recording that runs: `millrace top`."""
import os
import re
import signal

import pytest

from conftest import run_command, stat_of, wait_until
from screen import Screen

OWN = ['-e', 'cpu-clock:u', '-F', '1000', '-d', '0.2']


@pytest.fixture
def load(need_root, programs, spawn):
    """A process that runs until the test ends; its name is known to no other test."""
    return spawn([programs / 'spin', '-t', '1', '-m', '600000'])


@pytest.fixture
def screen(load, tmp_path):
    with Screen(['top', '-p', load.pid, *OWN], cwd=tmp_path) as screen:
        screen.wait(lambda text: re.search(r'[\d.]+% .*spin', text))
        yield screen


def count(text):
    return int(re.search(r'Event count \(approx\.\): (\d+)', text)[1])


def test_it_is_refreshed(screen):
    assert 'lost: 0' in screen.text()
    before = screen.lines()[0]
    screen.wait(lambda text: text.splitlines()[0] != before, 'other numbers')
    kept = float(re.search(r'kept: ([\d.]+) MB', screen.text())[1])
    screen.wait(lambda text: float(re.search(r'kept: ([\d.]+) MB', text)[1]) > kept, 'more is kept')


def test_z_forgets(screen):
    """Each screen then has the samples of one interval: 200 ms of one thread, not the sum of all."""
    screen.press('D', '[total]')
    screen.wait(lambda text: count(text) > 1_500_000_000, 'a second and a half of samples')
    screen.press('z', '[zero]')
    screen.wait(lambda text: 0 < count(text) < 1_500_000_000, 'one interval')
    screen.press('z', lambda text: '[zero]' not in text)


def test_capital_d_keeps_everything(screen):
    screen.press('D', '[total]')
    first = count(screen.text())
    screen.wait(lambda text: count(text) > first + 2_000_000_000, 'nothing decays')
    screen.press('D', lambda text: '[total]' not in text)


def test_a_rate_of_the_command_line_replaces_that_of_the_configuration(load, tmp_path):
    """-F stands for -c as well: with both a sample would come each 1000 s."""
    (tmp_path / 'config').write_text('[top]\ncount = 1000000000000\n')
    env = {'MILLRACE_CONFIG': str(tmp_path / 'config')}
    with Screen(['top', '-p', load.pid, *OWN], cwd=tmp_path, env=env) as screen:
        screen.wait(lambda text: re.search(r'[\d.]+% .*spin', text))


def test_p_pauses(screen):
    screen.press('p', '[paused]')
    before = count(screen.text())  # the key is taken before the next refresh
    kept = re.search(r'kept: ([\d.]+) MB', screen.text())[1]
    screen.wait(lambda text: re.search(r'kept: ([\d.]+) MB', text)[1] != kept, 'it goes on recording')
    assert count(screen.text()) == before
    screen.press('p', lambda text: '[paused]' not in text and count(text) != before)


def test_f_disables_the_events(screen):
    screen.press('f', '[disabled]')
    screen.press('f', lambda text: '[disabled]' not in text)
    before = count(screen.text())
    screen.wait(lambda text: count(text) != before, 'samples again')


def test_s_saves_what_is_kept(screen, tmp_path, millrace, perf):
    (tmp_path / 'perf.data').write_text('older')
    screen.wait(lambda text: float(re.search(r'kept: ([\d.]+) MB', text)[1]) >= 0.1)
    screen.press('s', 'Saved as perf.data')
    assert (tmp_path / 'perf.data.old').read_text() == 'older'
    ours = millrace('report', '--stdio', '-s', 'comm', '-i', tmp_path / 'perf.data').out
    theirs = perf('report', '--stdio', '-s', 'comm', '-i', tmp_path / 'perf.data').out
    for text in ours, theirs:
        assert re.search(r"of event 'cpu-clock:u'", text) and re.search(r'\d+\.\d\d%  spin', text), text
    assert re.findall(r'Event count.*', ours) == re.findall(r'Event count.*', theirs)
    # What was saved while it was recorded is whole, in order, and more comes.
    times = [float(line.strip().rstrip(':')) for line in
             millrace('script', '-F', 'time', '-i', tmp_path / 'perf.data').out.split()]
    assert times == sorted(times) and len(times) > 100


def test_keys_of_the_view_work(screen):
    screen.press('/', 'Show names with')
    screen.type('no such name')
    screen.press('Enter', 'Filter: no such name')
    screen.press('Escape', lambda text: 'Filter' not in text)
    screen.press('t', 'Thread: spin')
    screen.press('t', lambda text: 'Thread: ' not in text)
    screen.press('h', 'This page')
    screen.press('End', 'Forget everything')
    screen.press('q', 'Symbol')
    screen.press('T', 'Only a recording in a file')
    screen.press('a', 'Percent: local period')
    screen.press('q', 'Symbol')


def test_call_graphs(load, tmp_path):
    for mode in ['-g'], ['--call-graph', 'unwind']:
        with Screen(['top', '-p', load.pid, *OWN, *mode], cwd=tmp_path) as screen:
            # Not a function of the start of the program, whose share is soon so small that its tree has no branches.
            screen.wait(lambda text: re.search(r'Symbol *\n\+ +(9\d|100)\.\d\d% .*spin-0', text))
            screen.press('+', lambda text: re.search(r'^- +[\d.]+%', text, re.M), 'a tree is open')
            # It stays open when the table is refreshed.
            before = screen.lines()[0]
            screen.wait(lambda text: text.splitlines()[0] != before and re.search(r'^- +[\d.]+%', text, re.M))
            screen.keys('q')
            assert screen.ended() == 0


def test_the_cursor_stays_at_the_first_row(load, spawn, tmp_path):
    """Or else the table scrolls away with what was its first row in the beginning."""
    other = spawn(['sh', '-c', 'kill -STOP $$; while :; do :; done'])
    wait_until(lambda: stat_of(other.pid)[0] == 'T', 'it is stopped')
    with Screen(['top', '-p', f'{load.pid},{other.pid}', *OWN, '-s', 'comm'], cwd=tmp_path) as screen:
        screen.wait(lambda text: 'spin' in (screen.cursor_line() or ''), 'the cursor at the only row')
        os.kill(load.pid, signal.SIGSTOP)
        os.kill(other.pid, signal.SIGCONT)
        screen.wait(lambda text: re.search(r'% +sh\n.*% +spin', text), 'the other one is the first')
        assert re.search(r'% +sh$', screen.cursor_line())
        screen.press('Down', lambda text: 'spin' in screen.cursor_line(), 'the cursor moves')
        os.kill(other.pid, signal.SIGSTOP)
        os.kill(load.pid, signal.SIGCONT)
        screen.wait(lambda text: re.search(r'% +spin.*\n.*% +sh', text), 'and back')
        assert 'spin' in screen.cursor_line()
        screen.keys('q')
        assert screen.ended() == 0


def test_all_cpus_is_the_default(need_root, load, tmp_path):
    with Screen(['top', *OWN], cwd=tmp_path) as screen:
        screen.press('/', 'Show names with')
        screen.keys('Enter')
        screen.wait(lambda text: re.search(r'[\d.]+% .*spin', text), 'the load')
        screen.keys('q')
        assert screen.ended() == 0
        assert 'lost 0' in screen.err()


def test_the_target_ends(programs, need_root, spawn, tmp_path):
    short = spawn([programs / 'spin', '-t', '1', '-m', '1500'])
    with Screen(['top', '-p', short.pid, *OWN], cwd=tmp_path) as screen:
        screen.wait('[ended]')
        assert re.search(r'[\d.]+% .*spin', screen.text())
        screen.press('s', 'Saved as perf.data')
        screen.keys('q')
        assert screen.ended() == 0


def test_memory_is_bounded(need_root, load, tmp_path, millrace):
    """The oldest samples go; what is saved has the names of tasks and maps all the same."""
    with Screen(['top', '-p', load.pid, '-e', 'cpu-clock:u', '-F', '20000', '-d', '0.2', '--hold', '4M',
                 '--call-graph', 'dwarf,4096'], cwd=tmp_path) as screen:
        screen.wait(lambda text: re.search(r'kept: [34]\.\d MB', text), 'full')
        kept = screen.lines()[0]
        screen.wait(lambda text: text.splitlines()[0] != kept)
        screen.wait(lambda text: re.search(r'kept: [34]\.\d MB', text), 'still full')
        screen.press('s', 'Saved as perf.data')
        screen.keys('q')
        assert screen.ended() == 0
    assert (tmp_path / 'perf.data').stat().st_size < 8 << 20
    out = millrace('report', '--stdio', '-s', 'comm,sym', '-g', 'none', '-i', tmp_path / 'perf.data').out
    assert re.search(r'\d+\.\d\d%.*spin.*\[\.\] [a-z_]+', out)


MANY_STACKS = '''
#include <unistd.h>
static unsigned long long state = 88172645463325252ull;
static unsigned next(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state >> 20; }
__attribute__((noinline)) static void left(int n);
__attribute__((noinline)) static void right(int n) { if (n) (next() & 1 ? left : right)(n - 1); else getppid(); }
__attribute__((noinline)) static void left(int n) { if (n) (next() & 1 ? left : right)(n - 1); else getppid(); n++; }
int main(void) { for (;;) left(40); }
'''


def test_samples_without_room_are_counted(need_root, need_tracefs, spawn, tmp_path):
    """Where nothing decays, and hardly a stack comes twice."""
    (tmp_path / 'many.c').write_text(MANY_STACKS)
    run_command(['cc', '-O0', '-fno-omit-frame-pointer', '-o', tmp_path / 'many', tmp_path / 'many.c'])
    load = spawn([tmp_path / 'many'])
    with Screen(['top', '-p', load.pid, '-e', 'syscalls:sys_enter_getppid', '-c', '1', '-g', '--total', '--hold', '4M',
                 '-d', '0.2'], cwd=tmp_path) as screen:
        screen.wait(lambda text: re.search(r'not counted: [1-9]', text), 'there is no room')
        before = int(re.search(r'not counted: (\d+)', screen.text())[1])
        screen.wait(lambda text: int(re.search(r'not counted: (\d+)', text)[1]) > before, 'more are not counted')
        screen.press('z', '[zero]')  # what goes leaves room
        before = screen.wait(lambda text: count(text) > 0, 'samples are counted again').splitlines()[0]
        screen.wait(lambda text: count(text) > 0 and text.splitlines()[0] != before, 'and again')
        assert 'lost: 0' in screen.text()


@pytest.mark.parametrize('words, why', [
    (['-e', 'no-such-event'], 'no-such-event'),
    (['-p', '999999999'], '999999999'),
    (['--call-graph', 'nothing'], 'nothing'),
])
def test_the_recorder_says_what_is_wrong(need_root, words, why, tmp_path):
    with Screen(['top', *words], cwd=tmp_path) as screen:
        assert screen.ended() not in (0, 139)
        assert why in screen.err()


def test_it_needs_a_terminal(millrace):
    done = millrace('top', status=255)
    assert 'needs a terminal' in done.err
    assert 'takes no argument' in millrace('top', 'x', status=129).err
    for words in ['-d', '0'], ['-d', 'x'], ['--hold', '1'], ['--percent-limit', '101'], ['-s', 'nothing']:
        millrace('top', *words, status=129)


def test_a_signal_ends_the_recorder_too(load, tmp_path):
    with Screen(['top', '-p', load.pid, *OWN], cwd=tmp_path) as screen:
        screen.wait(lambda text: re.search(r'[\d.]+% .*spin', text))
        pids = run_command(['pgrep', '-f', f'top -p {load.pid} -e']).out.split()
        main = [pid for pid in pids if 'millrace' in open(f'/proc/{pid}/comm').read()]
        run_command(['kill', '-TERM', *main])
        assert screen.ended() in (143, 0)


def test_a_recorder_that_is_killed(load, tmp_path):
    """What came before is shown; at the end it is said."""
    with Screen(['top', '-p', load.pid, *OWN], cwd=tmp_path) as screen:
        screen.wait(lambda text: re.search(r'[\d.]+% .*spin', text))
        pids = [pid for pid in run_command(['pgrep', '-f', f'top -p {load.pid} -e']).out.split()
                if 'millrace' in open(f'/proc/{pid}/comm').read()]
        (recorder,) = [pid for pid in pids if stat_of(pid)[1] in pids]
        os.kill(int(recorder), signal.SIGKILL)
        screen.wait('[ended]')
        assert re.search(r'[\d.]+% .*spin', screen.text())
        screen.keys('q')
        assert screen.ended() == 255
        assert 'killed by signal 9' in screen.err()
