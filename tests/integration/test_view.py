# SPDX-License-Identifier: MIT
"""The terminal view of report: each of its keys, and terminals of all kinds."""
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import termios

import pytest

import perf_file
from conftest import MILLRACE, hostile_names, run_command, wait_until
from screen import Screen

SOURCE = r'''
#include <sys/prctl.h>
#include <pthread.h>
volatile unsigned long sum;
__attribute__((noinline)) void inner(int n)
{
	for (int i = 0; i < n; i++)
		sum += i * i;
}
__attribute__((noinline)) void outer_a(void) { inner(3000); sum++; }
__attribute__((noinline)) void outer_b(void) { inner(1000); sum++; }
static void *other(void *arg)
{
	prctl(PR_SET_NAME, "otherthread");
	for (int i = 0; i < 8000; i++)
		outer_b();
	return arg;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, other, NULL);
	for (int i = 0; i < 20000; i++) { outer_a(); outer_b(); }
	pthread_join(thread, NULL);
	return 0;
}
'''


@pytest.fixture(scope='module')
def place(need_root, millrace, tmp_path_factory):
    path = tmp_path_factory.mktemp('view')
    (path / 'program.c').write_text(SOURCE)
    run_command(['cc', '-O0', '-g', '-fno-omit-frame-pointer', '-pthread', '-o',
                 path / 'program', path / 'program.c'])
    millrace('record', '-e', 'cpu-clock:u', '-e', 'task-clock:u', '-F', '4000', '-g', '-N', '-o', path / 'perf.data',
             '--', path / 'program')
    return path


@pytest.fixture
def screen(place):
    with Screen(['report', '-i', place / 'perf.data'], cwd=place) as screen:
        screen.wait('Symbol')
        yield screen


def rows(text):
    """The entries that are shown, as {symbol: line}."""
    found = {}
    for line in text.splitlines():
        match = re.match(r'[ +-] +[\d.]+% .*\[[.k]\] (\S+)', line)
        if match:
            found[match[1]] = line
    return found


def go_to(screen, symbol):
    """Moves the cursor to an entry."""
    screen.wait(lambda text: symbol in rows(text), symbol)
    screen.keys('Home')
    for _ in range(60):
        line = screen.cursor_line()
        if line and re.search(rf'\] {symbol}$', line.rstrip()):
            return
        screen.keys('Down')
        screen.wait(lambda text: screen.cursor_line() != line, 'the cursor moves')
    pytest.fail(f'no row {symbol}: {screen.text()}')


def test_first_screen_is_the_table(screen, millrace, place):
    shown = rows(screen.text())
    text = millrace('report', '--stdio', '-g', 'none', '-i', place / 'perf.data').out
    first = text.split('# Samples')[1]
    for symbol, line in shown.items():
        share = re.search(r'([\d.]+%) +([\d.]+%)', line)
        assert re.search(rf'^ +{share[1]} +{share[2]} .*\] {re.escape(symbol)}$', first, re.M), line
    assert {'inner', 'outer_a', 'outer_b', 'main'} <= set(shown)


def test_q_ends(screen):
    screen.keys('q')
    assert screen.ended() == 0


def test_control_c_ends(screen):
    screen.keys('C-c')
    assert screen.ended() == 0


def test_h_shows_help(screen):
    screen.press('h', 'This page')
    screen.press('q', 'Symbol')
    screen.press('?', 'This page')
    screen.press('Escape', 'Symbol')
    screen.press('F1', 'This page')


def test_arrows_and_pages_move(screen):
    first = screen.cursor_line()
    screen.keys('Down')
    screen.wait(lambda text: screen.cursor_line() != first, 'down')
    screen.keys('Up')
    screen.wait(lambda text: screen.cursor_line() == first, 'up')
    screen.press('End', lambda text: re.search(r'(\d+)/\1$', text.rstrip()), 'the last row')
    screen.press('Home', lambda text: re.search(r' 1/\d+$', text.rstrip()), 'the first row')
    screen.keys('E')
    screen.press('NPage', lambda text: not re.search(r' 1/\d+$', text.rstrip()), 'a page down')
    screen.press('PPage', lambda text: re.search(r' 1/\d+$', text.rstrip()), 'a page up')
    screen.press('Space', lambda text: not re.search(r' 1/\d+$', text.rstrip()), 'a page down')


def test_plus_opens_one_level(screen):
    go_to(screen, 'main')
    screen.press('+', lambda text: re.search(r'^- .*\] main$', text, re.M), 'the tree is open')
    assert re.search(r'^   [+-] +[\d.]+% main$', screen.text(), re.M)
    screen.press('+', lambda text: re.search(r'^\+ .*\] main$', text, re.M), 'the tree is closed')


def test_plus_on_a_branch(screen):
    go_to(screen, 'main')
    screen.press('+', lambda text: re.search(r'^   \+ [\d.]+% main$', text, re.M))
    screen.keys('Down')
    screen.press('+', lambda text: re.search(r'^      [+-] [\d.]+% outer_a$', text, re.M))
    assert re.search(r'^   - [\d.]+% main$', screen.text(), re.M)
    screen.press('+', lambda text: not re.search(r'[\d.]+% outer_a$', text, re.M))


def test_e_opens_all_of_a_row(screen):
    go_to(screen, 'main')
    screen.press('e', lambda text: len(re.findall(r'^ +inner$|[\d.]+% inner$', text, re.M)) >= 2, 'both branches')
    screen.press('e', lambda text: not re.search(r'[\d.]+% outer_a$', text, re.M), 'closed')


def test_capital_e_and_c(screen):
    screen.press('E', lambda text: len(re.findall(r'^- +[\d.]+%', text, re.M)) >= 2, 'all are open')
    screen.press('C', lambda text: not re.search(r'^- +[\d.]+%', text, re.M), 'all are closed')


def test_filter_as_you_type(screen):
    screen.press('/', 'Show names with')
    screen.type('outer')
    screen.wait(lambda text: set(rows(text)) == {'outer_a', 'outer_b'}, 'only what matches, before Enter')
    screen.keys('BSpace')
    screen.type('r_a')
    screen.wait(lambda text: set(rows(text)) == {'outer_a'}, 'one is left')
    screen.press('Enter', 'Filter: outer_a')
    screen.press('Escape', lambda text: 'inner' in rows(text), 'ESC takes the filter away')


def test_filter_given_up(screen):
    screen.press('/', 'Show names with')
    screen.type('zzz')
    screen.wait('No row is left')
    screen.press('Escape', lambda text: 'inner' in rows(text), 'all are back')


def test_t_zooms_into_a_thread(screen):
    go_to(screen, 'other')
    screen.press('t', 'Thread: otherthread')
    assert 'main' not in rows(screen.text())
    screen.press('t', lambda text: 'main' in rows(text), 'and back')
    screen.press('t', 'Thread: ')
    screen.press('Escape', lambda text: 'Thread: ' not in text and 'main' in rows(text), 'ESC zooms out')


def test_d_zooms_into_an_object(screen):
    go_to(screen, 'inner')
    screen.press('d', 'DSO: ')
    assert {'main', 'inner'} <= set(rows(screen.text())) and 'start_thread' not in rows(screen.text())
    screen.press('d', lambda text: 'DSO: ' not in text, 'and back')


def test_enter_opens_the_menu(screen):
    go_to(screen, 'outer_a')
    text = screen.press('Enter', 'Zoom into function outer_a')
    assert 'Annotate outer_a' in text and 'Zoom into DSO program' in text and 'Zoom into command program' in text
    for _ in range(4):
        screen.keys('Down')
    screen.keys('Enter')
    screen.wait('Symbol: outer_a')
    assert 'other' not in rows(screen.text())
    screen.press('Escape', lambda text: 'other' in rows(text), 'zoomed out')
    screen.press('m', 'Zoom into command')
    screen.press('Escape', lambda text: 'Zoom into command' not in text)


def test_zoom_into_a_function_counts_its_callees(screen, place, millrace):
    """With callers counted the function's samples are those that its Children share counts."""
    go_to(screen, 'outer_a')
    share = re.search(r'([\d.]+)%', rows(screen.text())['outer_a'])[1]
    screen.press('y', 'Symbol: outer_a')
    text = screen.press('F', lambda text: rows(text).get('outer_a', '').split('%')[0].endswith('100.00'), 'relative')
    assert 'inner' in rows(text)
    screen.press('F', lambda text: f'{share}%' in rows(text).get('outer_a', ''), 'absolute')


def test_k_and_w(screen):
    go_to(screen, 'other')
    screen.press('k', 'This row has none')
    screen.press('w', 'Command: otherthread')
    screen.press('w', lambda text: 'Command: ' not in text)


def test_capital_s_zooms_into_a_socket(screen, place, millrace):
    screen.press('S', 'report -s socket')
    path = place / 'cpus.data'
    millrace('record', '-e', 'cpu-clock:u', '--sample-cpu', '-N', '-o', path, '--', place / 'program')
    with Screen(['report', '-i', path, '-s', 'socket,sym'], cwd=place) as screen:
        screen.wait('Socket')
        screen.press('S', lambda text: re.search(r'Socket: \d', text))
        screen.press('S', lambda text: 'Socket: ' not in text)


def test_r_shows_each_sample(screen, place, millrace):
    """As `millrace script` prints them; of a part of them when that is asked for."""
    def count(text):
        return len(re.findall(r'^\S+ +\d+ +[\d.]+:', text, re.M))

    def shown(text):
        return text.startswith('Samples of ')
    lines = millrace('script', '-i', place / 'perf.data').out.splitlines()
    screen.press('r', 'All samples')
    text = screen.press('Enter', shown)
    assert text.splitlines()[1:20] == [line.expandtabs()[:100].rstrip() for line in lines[:19]]
    screen.press('q', 'Children')
    go_to(screen, 'inner')
    screen.press('r', 'Samples in function inner')
    screen.keys('Down', 'Down', 'Down', 'Down')

    def inside(text):  # the line behind the head of each sample is its function
        return re.findall(r'^\S+ +\d+ +[\d.]+:.*\n +[0-9a-f]+ (\w+)', text, re.M)
    text = screen.press('Enter', lambda text: shown(text) and inside(text))
    assert set(inside(text)) == {'inner'}
    screen.press('q', 'Children')
    go_to(screen, 'other')
    screen.press('r', 'Samples of thread otherthread')
    screen.keys('Down')
    text = screen.press('Enter', shown)
    assert count(text) and count(text) == len(re.findall('^otherthread ', text, re.M))
    screen.press('q', 'Children')
    go_to(screen, 'inner')
    screen.press('a', 'Percent: local period')
    screen.press('r', 'Samples of ')
    screen.press('q', 'Children')


def test_tab_shows_the_next_event(screen):
    assert "'cpu-clock:u'" in screen.text()
    screen.press('Tab', "'task-clock:u'")
    screen.press('Tab', "'cpu-clock:u'")
    screen.press('BTab', "'task-clock:u'")


def test_x_counts_children_or_not(screen):
    assert 'Children' in screen.text()
    text = screen.press('x', lambda text: 'Children' not in text and 'Overhead' in text)
    assert 'main' not in list(rows(text))[:1]
    screen.press('x', 'Children')


def test_c_closes_a_row(screen):
    go_to(screen, 'main')
    screen.press('e', lambda text: re.search(r'[\d.]+% outer_a$', text, re.M))
    screen.keys('Down', 'Down')
    screen.press('c', lambda text: not re.search(r'[\d.]+% outer_a$', text, re.M), 'closed')
    assert re.search(r'\] main$', screen.cursor_line().rstrip())
    before = screen.text()
    screen.keys('c', 'H')
    screen.press('H', lambda text: text == before, 'it stays closed')


def test_capital_g_shows_callers(screen):
    go_to(screen, 'inner')
    screen.press('G', 'to its callers')
    screen.press('e', lambda text: re.search(r'^ +[+-]? *([\d.]+% )?outer_a$', text, re.M), 'its callers')
    screen.press('G', 'to what it called')


def test_capital_v_shows_objects(screen):
    go_to(screen, 'main')
    screen.keys('e')
    screen.press('V', lambda text: re.search(r'% outer_a  program$', text, re.M))


def test_capital_h_hides_titles(screen):
    screen.press('H', lambda text: 'Children' not in text)
    screen.press('H', 'Children')


def test_capital_l_hides_small_rows(screen):
    screen.press('L', 'Hide rows below')
    screen.keys('BSpace')
    screen.type('50')
    screen.press('Enter', lambda text: rows(text) and all(
        float(re.search(r'([\d.]+)%', line)[1]) >= 50 for line in rows(text).values()) and 'other' not in rows(text))
    screen.press('L', 'Hide rows below')
    screen.type('x')
    screen.press('Enter', 'from 0 to 100')


def test_capital_p_writes_what_is_shown(screen, place):
    for path in place.glob('perf.hist.*'):
        path.unlink()
    go_to(screen, 'main')
    screen.keys('e')
    screen.press('P', 'Written to perf.hist.0')
    text = (place / 'perf.hist.0').read_text()
    assert (place / 'perf.hist.0').stat().st_mode & 0o777 == 0o600
    assert 'outer_a' in text and re.search(r'^- .*\] main$', text, re.M)
    screen.press('P', 'Written to perf.hist.1')
    assert (place / 'perf.hist.1').read_text() == text


def test_i_shows_the_header(screen):
    text = screen.press('i', 'hostname')
    assert 'arch' in text
    screen.press('q', 'Symbol')


def test_i_shows_what_threads_had_counted(place, millrace):
    millrace('record', '--stat', '-e', 'cpu-clock:u', '-N', '-o', place / 'stat.data', '--', place / 'program')
    table = millrace('report', '--stdio', '-T', '-i', place / 'stat.data').out.strip().splitlines()[-2:]
    with Screen(['report', '-T', '-i', place / 'stat.data']) as screen:
        screen.wait('[.] inner')
        screen.press('i', 'hostname')
        screen.press('End', table[0].strip())
        assert table[1].strip() in screen.text()


def test_s_shows_another_recording(place, millrace):
    other = place / 'another.data'
    millrace('record', '-e', 'cpu-clock:u', '-N', '-o', other, '--', 'sh', '-c',
             'i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done')
    with Screen(['report', '-i', place / 'perf.data'], cwd=place) as screen:
        screen.wait('Symbol')
        text = screen.press('s', 'Another recording')
        assert 'another.data' in text and 'perf.data' in text
        if text.index(' another.data') > text.index(' perf.data'):
            screen.keys('Down')
        screen.press('Enter', lambda text: re.search(r'  sh  ', text) and 'inner' not in rows(text), 'the other one')
        screen.keys('q')
        assert screen.ended() == 0
    other.unlink()


def test_numbers_sort_groups(place, millrace):
    path = place / 'group.data'
    millrace('record', '-e', '{cpu-clock:u,task-clock:u}', '-N', '-o', path, '--', place / 'program')
    with Screen(['report', '-i', path], cwd=place) as screen:
        text = screen.wait('Symbol')
        assert re.search(r'[\d.]+% +[\d.]+% ', text)
        screen.press('1', lambda text: 'inner' in rows(text))
        screen.press('5', 'This table has 2 events')


@pytest.fixture
def high_screen(place):
    """With room for all lines of a function and their source: the hottest one may be the last."""
    with Screen(['report', '-i', place / 'perf.data'], cwd=place, rows=60) as screen:
        screen.wait('Symbol')
        yield screen


def test_annotate(high_screen, place):
    screen = high_screen
    go_to(screen, 'inner')
    text = screen.press('a', lambda text: 'Percent: local period' in text and 'Enter follows' in text)
    # The path is cut at its end where it is long.
    path = re.match(r'inner +(\S+) +Samples: ', text)[1]
    assert str(place / 'program').startswith(path) and len(path) > 20 and 'imul' in text
    assert 'program.c:' in text and 'sum += i * i' in text
    # The hottest line is under the cursor, and its share is the largest.
    shares = [float(line.split()[0]) for line in text.splitlines() if re.match(r' +\d+\.\d\d ', line)]
    assert float(screen.cursor_line().split()[0]) == max(shares)
    second = sorted(shares)[-2]
    screen.keys('Tab')
    screen.wait(lambda text: screen.cursor_line().split()[0] == f'{second:.2f}', 'the next hottest')
    screen.keys('BTab')
    screen.wait(lambda text: float(screen.cursor_line().split()[0]) == max(shares), 'the hottest')
    screen.keys('Home', 'H')
    screen.wait(lambda text: screen.cursor_line().split()[0] == f'{max(shares):.2f}', 'H')
    screen.press('s', lambda text: 'sum += i' not in text, 'no source')
    screen.press('s', 'sum += i')
    screen.press('t', '[Period]')
    screen.press('t', '[Samples]')
    screen.press('t', 'Percent: local')
    screen.press('c', 'report -b -s symbol_to,cycles')
    screen.press('B', 'Counters of branches are not shown')
    screen.press('h', 'Follow a jump')
    screen.press('q', 'Percent: local')
    screen.press('q', 'Children')


def test_annotate_shares(high_screen):
    """p: of the function or of all samples; b: of periods or of their number. Each sample has the same period."""
    screen = high_screen
    share = sum(float(own) for own in re.findall(r'% +([\d.]+)% .*\] inner$', screen.text(), re.M))
    go_to(screen, 'inner')

    def sum_of(text):
        return sum(float(line.split()[0]) for line in text.splitlines() if re.match(r' +\d+\.\d\d ', line))
    text = screen.press('a', '[Percent: local period]')
    assert abs(sum_of(text) - 100) < 0.5
    text = screen.press('p', '[Percent: global period]')
    assert abs(sum_of(text) - share) < 0.3
    screen.press('b', '[Percent: global hits]')
    screen.press('p', '[Percent: local hits]')
    screen.press('b', '[Percent: local period]')


def test_annotate_styles(screen, place):
    """o, O, f, k, l, j, J: what stands beside the instructions."""
    go_to(screen, 'inner')
    screen.press('a', '[Percent: local period]')

    def labels(text):
        return re.findall(r'^[ \d.]*│[ └┌│→]+([0-9a-f]+): ', text, re.M)
    screen.keys('Home')
    text = screen.wait(lambda text: 'push' in text.splitlines()[2], 'its first instruction')
    jump = re.search(r'[↑↓] j[a-z]+ +([0-9a-f]+)$', text, re.M)[1]
    assert jump in labels(text) and 0 < len(labels(text)) < 4, 'only the targets of jumps have their offset'
    text = screen.press('J', lambda text: re.search(rf'│[ └┌│→]+1 +{jump}: ', text), 'one jump goes there')
    screen.press('J', lambda text: not re.search(rf'│[ └┌│→]+1 +{jump}: ', text))
    screen.press('O', lambda text: len(labels(text)) < 4, 'and of calls: there are none')
    screen.press('O', lambda text: len(labels(text)) > 8 and '0' in labels(text), 'all have it')
    screen.press('f', lambda text: '0' not in labels(text) and re.search(r'[↑↓] j[a-z]+ +0x[0-9a-f]{3,}$', text, re.M))
    screen.press('f', lambda text: '0' in labels(text))
    screen.press('O', lambda text: len(labels(text)) < 4)
    screen.press('o', lambda text: re.search(r'j[a-z]+ +0x[0-9a-f]+ +<inner\+0x', text) and len(labels(text)) > 8)
    screen.press('o', lambda text: '<inner' not in text)
    screen.press('k', lambda text: 'sum += i' in text and 'program.c:' not in text)
    screen.press('k', 'program.c:')
    screen.press('l', f'{place}/program.c:')
    screen.press('l', lambda text: f'{place}/program.c:' not in text.split('\n', 1)[1])
    screen.press('/', 'Search:')
    screen.type(' j')
    screen.keys('Enter')
    screen.wait('→', 'the arrow of the jump under the cursor')
    screen.press('j', lambda text: '→' not in text)
    screen.press('j', '→')
    screen.press('q', 'Children')


def test_annotate_goes_to_other_rows(screen):
    screen.keys('E', 'C', 'Home')
    names = [re.search(r'\] (\S+)$', line)[1] for line in screen.text().splitlines() if re.search(r'\[\.\] \w', line)]
    go_to(screen, 'inner')
    at = names.index('inner')
    screen.press('a', lambda text: text.startswith('inner '))
    other = names[at + 1]
    screen.press('>', lambda text: text.startswith(other + ' ') or f'] {other}' in (screen.cursor_line() or ''))
    screen.press('a', lambda text: text.startswith(other + ' ') or 'for help on key' not in text.splitlines()[-1])


def test_annotate_follows_jumps_and_calls(screen):
    go_to(screen, 'outer_a')
    screen.press('a', 'inner')
    screen.press('o', '<inner>')
    screen.press('/', 'Search:')
    screen.type('<inner>')
    screen.keys('Enter')
    screen.wait(lambda text: '<inner>' in (screen.cursor_line() or ''), 'found')
    screen.press('Enter', lambda text: text.startswith('inner'), 'the callee')
    screen.press('/', 'Search:')
    screen.type(' j')
    screen.keys('Enter')
    screen.wait(lambda text: re.search('[↑↓] j', screen.cursor_line() or ''), 'a jump')
    target = re.search(r'0x([0-9a-f]+)  <', screen.cursor_line())[1]
    assert '→' in screen.text()
    screen.keys('Enter')
    screen.wait(lambda text: f' {target}:' in screen.cursor_line(), 'its target')
    screen.press('q', lambda text: text.startswith('outer_a'), 'back')


def test_annotate_writes_a_file(screen, place):
    for path in place.glob('perf.annotation.*'):
        path.unlink()
    go_to(screen, 'inner')
    screen.press('a', 'Percent: local period')
    screen.press('P', 'Written to perf.annotation.0')
    assert 'imul' in (place / 'perf.annotation.0').read_text()
    screen.press('/', 'Search:')
    screen.type('no such text')
    screen.press('Enter', 'Not found')


def test_annotate_intel(place):
    with Screen(['report', '-i', place / 'perf.data', '-M', 'intel', '--symbol-filter', 'inner'], cwd=place) as screen:
        go_to(screen, 'inner')
        text = screen.press('a', 'Percent: local period')
        assert 'ptr [' in text and '%eax' not in text


def test_annotated_shares_are_those_of_the_samples(screen, place, millrace):
    """Of each address, as script prints them: of all threads, whatever the name in the row."""
    out = millrace('script', '-F', 'ip,sym', '-G', '-i', place / 'perf.data').out
    go_to(screen, 'inner')
    screen.press('a', 'Percent: local period')
    screen.keys('o', 't')
    text = screen.press('t', '[Samples]')
    total = int(re.search(r'Samples: (\d+)', text)[1])
    shown = {int(match[2], 16) & 0xfff: int(match[1]) for match in
             re.finditer(r'^ +(\d+) │[ └┌│→]+([0-9a-f]+):', text, re.M)}
    counted = {}
    for line in out.splitlines():
        words = line.split()
        if len(words) == 2 and words[1] == 'inner':
            counted[int(words[0], 16) & 0xfff] = counted.get(int(words[0], 16) & 0xfff, 0) + 1
    # script prints the samples of both events.
    assert 0 < total <= sum(counted.values())
    assert shown and set(shown) <= set(counted)
    assert sum(shown.values()) <= total


def levels(text):
    """The rows of a tree of keys, as (level, sign, share, name)."""
    found = re.finditer(r'^ *([+ -]) +([\d.]+%) {4,}(.+?) *$', text, re.M)
    return [((match.end(2) - match.start() - 10) // 3, match[1], match[2], match[3]) for match in found]


@pytest.fixture
def tree(place):
    with Screen(['report', '--hierarchy', '-i', place / 'perf.data'], cwd=place) as screen:
        screen.wait(lambda text: 'Command / Shared Object / Symbol' in text and 'for help' in text)
        yield screen


def test_hierarchy_has_the_rows_of_the_text(tree, place, millrace):
    out = millrace('report', '--stdio', '--hierarchy', '-g', 'none', '-i', place / 'perf.data').out
    first = out.split('# Samples')[1]
    wanted = [(share, name) for share, name in re.findall(r'^ +([\d.]+%) {6,}(\S.*?) *$', first, re.M)]
    assert [name for _, _, _, name in levels(tree.text())] == ['program', 'otherthread']
    tree.keys('E')  # all levels, and call trees between them
    text = tree.press('P', 'Written to perf.hist')
    path = place / re.search(r'perf\.hist\.\d+', text)[0]
    shown = levels(path.read_text())
    assert [(share, name) for _, _, share, name in shown] == wanted
    assert {level for level, *_ in shown} == {0, 1, 2} and re.search(' main$', path.read_text(), re.M)
    path.unlink()


def test_hierarchy_plus_and_e(tree):
    tree.press('+', lambda text: [(level, sign, name) for level, sign, _, name in levels(text)][:2] ==
               [(0, '-', 'program'), (1, '+', 'program')], 'one level')
    tree.press('+', lambda text: {level for level, *_ in levels(text)} == {0}, 'closed')
    tree.press('e', lambda text: any(level == 2 and name == '[.] inner' for level, _, _, name in levels(text)), 'all')
    tree.keys('Down', 'Down')
    tree.press('e', lambda text: re.search(r'^         - [\d.]+% ', text, re.M), 'the call tree of a leaf')
    tree.press('Home', lambda text: 'program' in (tree.cursor_line() or ''))
    tree.press('e', lambda text: {level for level, *_ in levels(text)} == {0}, 'all closed')
    tree.press('e', lambda text: 2 in {level for level, *_ in levels(text)}, 'all')
    tree.press('c', lambda text: {level for level, *_ in levels(text)} == {0}, 'closed')
    tree.press('+', lambda text: {level for level, *_ in levels(text)} == {0, 1}, 'what is below is closed, too')


def test_hierarchy_capital_e_and_c(tree):
    tree.press('E', lambda text: {0, 1, 2} <= {level for level, *_ in levels(text)} and
               re.search(r'^         - [\d.]+% ', text, re.M), 'levels and call trees')
    tree.press('C', lambda text: {level for level, *_ in levels(text)} == {0}, 'closed')


def test_hierarchy_menu(tree):
    """Enter opens the menu, with what the row is about."""
    text = tree.press('Enter', 'Zoom into command program')
    assert 'Expand this level' in text and 'Zoom into DSO' not in text and 'Annotate' not in text
    tree.keys('Up')  # from the first item to the last one
    tree.press('Enter', lambda text: 1 in {level for level, *_ in levels(text)}, 'opened')
    tree.keys('Down', 'm')
    text = tree.wait('Zoom into DSO program')
    assert 'Zoom into function' not in text and 'Annotate' not in text
    tree.keys('Escape', 'E', 'Down')
    text = tree.press('Enter', 'Zoom into function inner')
    assert 'Annotate inner' in text


def test_hierarchy_filter(tree):
    tree.press('/', 'Show names with')
    tree.type('inner')
    tree.wait(lambda text: [(level, name) for level, _, _, name in levels(text)] == [
        (0, 'program'), (1, 'program'), (2, '[.] inner'), (0, 'otherthread'), (1, 'program'), (2, '[.] inner')],
              'found, and what is above is open')
    tree.keys('Enter')
    tree.press('Escape', lambda text: 'Filter' not in text and 'otherthread' in text)


def test_hierarchy_zooms(tree):
    tree.press('d', 'This row has none')
    tree.press('w', lambda text: 'Command: program' in text and len(levels(text)) == 1)
    tree.press('F', lambda text: [share for _, _, share, _ in levels(text)] == ['100.00%'], 'of what is shown')
    tree.press('F', lambda text: [share for _, _, share, _ in levels(text)] not in ([], ['100.00%']), 'of all')
    tree.press('w', lambda text: 'Command: ' not in text and len(levels(text)) == 2)
    tree.press('t', 'Thread: program')
    tree.press('Escape', lambda text: 'Thread: ' not in text)
    tree.press('+', lambda text: 1 in {level for level, *_ in levels(text)})
    tree.keys('Down')
    share = [share for level, _, share, name in levels(tree.text()) if (level, name) == (1, 'program')][0]
    tree.press('d', lambda text: 'DSO: ' in text and levels(text)[0][2] == share, 'of the object only')
    tree.press('d', lambda text: 'DSO: ' not in text)
    tree.keys('E')
    tree.press('Down', lambda text: 'inner' in (tree.cursor_line() or ''))
    tree.press('y', 'Symbol: inner')
    tree.press('y', lambda text: 'Symbol: ' not in text)
    tree.press('a', 'Percent: local period')
    tree.press('q', 'Command / Shared')


def test_hierarchy_other_keys(tree):
    tree.press('x', 'callers are not counted')
    tree.press('Tab', "'task-clock:u'")
    tree.press('L', 'Hide rows below')
    tree.keys('BSpace')
    tree.type('50')
    tree.press('Enter', lambda text: [name for _, _, _, name in levels(text)] == ['program'])
    tree.press('H', lambda text: 'Command / ' not in text)
    tree.press('r', 'Samples of command program')
    tree.press('Escape', lambda text: 'Samples of command' not in text)
    tree.keys('q')
    assert tree.ended() == 0


def test_hierarchy_of_groups_of_keys(place):
    with Screen(['report', '--hierarchy', '-s', '{comm,dso},sym', '-i', place / 'perf.data'], cwd=place) as screen:
        text = screen.wait('Command+Shared Object / Symbol')
        assert levels(text)[0][3] == 'program  program'


def test_time_is_cut(screen, place):
    before = int(re.search(r'Event count \(approx\.\): (\d+)', screen.text())[1])
    screen.press('T', 'begin and end of the cut')
    screen.keys('Home', 'Enter')
    for _ in range(10):
        screen.keys('Right')
    screen.press('Enter', lambda text: any(0 < int(count) < before for count in  # nothing is shown while it is read
                                           re.findall(r'Event count \(approx\.\): (\d+)', text)), 'fewer samples')
    screen.press('Escape', f'Event count (approx.): {before}')
    screen.press('T', 'begin and end of the cut')
    screen.press('Escape', 'for help on key')
    screen.press('T', 'begin and end of the cut')
    screen.tmux('resize-window', '-x', '20', '-y', '5')  # the line of time is not there any more
    screen.wait(lambda text: 'T to begin' in text.splitlines()[-1] and len(text.splitlines()) == 5)
    screen.tmux('resize-window', '-x', '90', '-y', '20')
    screen.wait(lambda text: re.match(r' +0\.000-\d+\.\d+ s ', text.splitlines()[1]))


def test_gaps_are_marked(place, need_root, millrace, tmp_path):
    """The recorder stands still while a task runs: that time is marked, what comes before and behind is not."""
    path, busy = place / 'lost.data', subprocess.Popen(['sh', '-c', 'while :; do :; done'])
    recorder = subprocess.Popen([MILLRACE, 'record', '-e', 'cpu-clock:u', '-c', '50000', '-m', '64', '-N', '-o', path,
                                 '-p', str(busy.pid)], stderr=subprocess.PIPE)

    def grows(by):
        before = path.stat().st_size if path.exists() else 0
        wait_until(lambda: path.exists() and path.stat().st_size > before + by, 'more samples are stored')

    def cpu_seconds():
        words = open(f'/proc/{busy.pid}/stat').read().rsplit(')', 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf('SC_CLK_TCK')
    try:
        grows(200000)
        recorder.send_signal(signal.SIGSTOP)
        before = cpu_seconds()
        wait_until(lambda: cpu_seconds() > before + 1, 'samples that are three times what the ring holds')
        recorder.send_signal(signal.SIGCONT)
        before = cpu_seconds()
        grows(400000)
        wait_until(lambda: cpu_seconds() > before + 0.5, 'samples behind the gap for some columns')
        recorder.send_signal(signal.SIGINT)
        recorder.wait(timeout=60)
    finally:
        busy.kill()
        busy.wait()
        recorder.kill()
        recorder.wait()
    with Screen(['report', '-i', path], cwd=place) as screen:
        text = screen.wait('Symbol')
        bar = text.splitlines()[1][22:]
        assert re.search('[▁-█].*xxx.*[▁-█]', bar), bar
        assert 'lost: ' in text.splitlines()[0]


def test_control_c_while_loading_shows_what_is_there(place, millrace, tmp_path):
    """A pipe whose writer has stopped writing, but lives."""
    stream = millrace('record', '-e', 'cpu-clock:u', '-F', '4000', '-N', '-o', '-', '--', place / 'program',
                      binary=True).out
    fifo = tmp_path / 'fifo'
    os.mkfifo(fifo)
    with Screen(['report', '-i', fifo]) as screen, open(fifo, 'wb', buffering=0) as writer:
        writer.write(stream[:-1000])  # the end is inside a record
        wait_until(lambda: not unread(writer), 'all is read')
        screen.keys('C-c')
        text = screen.wait('Interrupted: only the first')
        assert 'inner' in text and int(re.search(r'the first (\d+)', text)[1]) > 10
        screen.keys('q')
        assert screen.ended() == 0


def unread(pipe):
    """Bytes that are in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_off_cpu_and_wall_time(place, millrace):
    """Of a recording that has both: a table in nanoseconds, where the time off the CPU is, too."""
    path = place / 'waits.data'
    millrace('record', '-e', 'cpu-clock', '-F', '1000', '--off-cpu', '-g', '-N', '-o', path, '--', 'sh', '-c',
             f'{place}/program; sleep 0.5; {place}/program')
    with Screen(['report', '-i', path], cwd=place) as screen:
        screen.wait('Symbol')
        screen.press('Tab', "of event 'offcpu-time'")
        screen.press('q', lambda text: 'status 0' in text)
    with Screen(['report', '--wall', '--comms', 'sleep', '-i', path], cwd=place) as screen:
        row = r'([\d.]+)% +([\d.]+)% +[\d.]+% +sleep +\[k\] \w*schedule'
        text = screen.wait(lambda text: re.search(row, text), 'the waits of sleep')
        assert "of event 'wall-clock time'" in text and re.search('[▁-█]', text.splitlines()[1])
        assert re.search('on CPU +blocked +runnable', text)
        on, blocked = re.search(row, text).groups()
        assert float(on) < float(blocked)
        screen.keys('E')
        screen.wait(lambda text: re.search(r'^- ', text, re.M), 'call trees')


def test_long_names_scroll(screen):
    go_to(screen, 'inner')
    screen.press('Right', lambda text: not re.search(r'\[\.\] inner$', text, re.M))
    screen.press('Left', lambda text: re.search(r'\[\.\] inner$', text, re.M))


@pytest.mark.parametrize('columns, rows_of', [(80, 24), (40, 8), (20, 3), (250, 60)])
def test_sizes(place, columns, rows_of):
    with Screen(['report', '-i', place / 'perf.data'], columns, rows_of, cwd=place) as screen:
        screen.wait('Samples:')
        screen.keys('E', 'End', 'Home', 'h')
        screen.wait('Keys')
        screen.keys('q', 'a')
        screen.keys('q', 'q', 'q', 'q')
        assert screen.ended() == 0


def test_resize(screen):
    screen.tmux('resize-window', '-x', '60', '-y', '12')
    screen.wait(lambda text: len(text.splitlines()) <= 12 and "for help" in text.splitlines()[-1], 'smaller')
    screen.tmux('resize-window', '-x', '120', '-y', '30')
    screen.wait(lambda text: re.search(r'^.{100,}\d/\d+$', text.splitlines()[-1]), 'larger')


def test_menu_and_prompt_after_a_resize(screen):
    """What is behind them is drawn again, and they are where they belong."""
    screen.press('m', 'Zoom into command')
    screen.tmux('resize-window', '-x', '60', '-y', '10')
    text = screen.wait(lambda text: len(text.splitlines()) == 10 and 'for help' in text.splitlines()[-1], 'smaller')
    assert 'Zoom into command' in text and text.count('Zoom into thread') == 1
    screen.tmux('resize-window', '-x', '120', '-y', '30')
    text = screen.wait(lambda text: re.search(r'^.{100,}\d/\d+$', text.splitlines()[-1]), 'larger')
    assert text.count('Zoom into thread') == 1 and 'main' in rows(text), 'one menu, on the table'
    screen.press('Escape', lambda text: 'Zoom into' not in text)
    for key, label in (('/', 'Show names with:'), ('L', 'Hide rows below')):
        screen.press(key, label)
        screen.tmux('resize-window', '-x', '60', '-y', '10')
        text = screen.wait(lambda text: len(text.splitlines()) == 10 and label in text.splitlines()[-1], 'smaller')
        assert text.count(label) == 1
        screen.tmux('resize-window', '-x', '120', '-y', '30')
        text = screen.wait(lambda text: len(text.splitlines()) == 30 and label in text.splitlines()[-1], 'larger')
        assert text.count(label) == 1 and 'main' in rows(text)
        screen.press('Escape', lambda text: label not in text)
    go_to(screen, 'inner')
    screen.press('a', 'Percent: local')
    screen.press('/', 'Search:')
    screen.tmux('resize-window', '-x', '60', '-y', '10')
    text = screen.wait(lambda text: len(text.splitlines()) == 10 and 'Search:' in text.splitlines()[-1] and
                       text.startswith('inner'), 'smaller')
    assert text.count('Search:') == 1


def test_very_small_terminal(place):
    """
    20x5: rows, every column, a menu and prompts can be reached. The first rows are of the program, which has names:
    with --children a function of a stripped libc may be the first.
    """
    with Screen(['report', '-i', place / 'perf.data', '--no-children'], 20, 5, cwd=place) as screen:
        text = screen.wait('Overhead')
        assert len(re.findall(r'^\+ +[\d.]+% ', text, re.M)) == 2, text
        for _ in range(20):
            if re.search(r'\[\.\] [a-z_]', text):
                break
            screen.keys('Right')
            text = screen.wait(lambda now, before=text: now != before, 'the next column')
            assert '%' in text.splitlines()[2], 'the share stays'
        assert re.search(r'\[\.\] [a-z_]', text), 'the functions'
        screen.press('m', 'Annotate')
        for _ in range(3):
            screen.keys('Down')
        screen.press('Down', 'Zoom into function')
        screen.keys('Escape')
        screen.press('L', 'Hide rows')
        screen.keys('BSpace')
        screen.type('70')
        assert screen.text().splitlines()[-1].rstrip().endswith('70')
        screen.keys('BSpace', 'BSpace')
        screen.type('x')
        screen.press('Enter', 'A percentage is a nu')
        screen.press('T', 'The terminal is too')


def test_help_fits_80_columns(place):
    def keys_of(columns, *keys):
        with Screen(['report', '-i', place / 'perf.data'], columns, 60) as screen:
            screen.wait('Symbol')
            for key in keys:
                screen.press(key, 'for help')
            return screen.press('h', 'F1').splitlines()
    assert keys_of(80) == keys_of(200)
    assert keys_of(80, 'a') == keys_of(200, 'a')


@pytest.mark.parametrize('key', ['i', 'r'])
def test_pages_scroll_sideways(place, key):
    with Screen(['report', '-i', place / 'perf.data'], 40, 20) as screen:
        screen.wait('Children')
        screen.keys(key)
        if key == 'r':
            screen.press('Enter', 'Samples of ')
        whole = screen.wait(lambda text: 'Press q' in text and ('Samples of' in text or 'hostname' in text))
        moved = screen.press('Right', lambda text: text != whole)
        for left, right in zip(whole.splitlines()[1:-1], moved.splitlines()[1:-1]):
            assert right[:30].rstrip() == left[10:40].rstrip()
        screen.press('Left', lambda text: text == whole)
        screen.keys('Left')  # and not further
        screen.press('Down', lambda text: text.splitlines()[1] == whole.splitlines()[2])


def test_no_colour(place):
    with Screen(['report', '-i', place / 'perf.data'], env={'NO_COLOR': '1'}) as screen:
        screen.wait('Symbol')
        assert not re.search('\x1b\\[(?:[\\d;]*;)?3[0-7]m', screen.colours())
    with Screen(['report', '-i', place / 'perf.data']) as screen:
        screen.wait('Symbol')
        assert re.search('\x1b\\[(?:[\\d;]*;)?3[0-7]m', screen.colours())


def test_ascii(place):
    with Screen(['report', '-i', place / 'perf.data'], env={'LC_ALL': 'C'}) as screen:
        text = screen.wait('Symbol')
        assert text.isascii() and '#' in text.splitlines()[1]


def test_dumb_terminals_get_text(place):
    with Screen(['report', '-i', place / 'perf.data', '--no-pager'], env={'TERM': 'dumb'}, rows=60) as screen:
        assert screen.ended() == 0
    with Screen(['report', '-i', place / 'perf.data', '--tui'], env={'TERM': 'dumb'}) as screen:
        assert screen.ended() == 255
        assert '--tui: TERM names no terminal' in screen.err()
    with Screen(['report', '-i', place / 'perf.data', '--tui'], env={'TERM': 'no-such-terminal'}) as screen:
        assert screen.ended() == 255
        assert 'terminfo' in screen.err()


def test_stdio_and_pipes_are_text(place, millrace):
    text = millrace('report', '-i', place / 'perf.data').out
    assert text == millrace('report', '--stdio', '-i', place / 'perf.data').out
    assert '# Samples' in text
    done = millrace('report', '--tui', '-i', place / 'perf.data', status=255)
    assert 'not both terminals' in done.err
    with Screen(['report', '-i', place / 'perf.data', '--stdio', '--no-pager'], rows=60) as screen:
        assert screen.ended() == 0


def test_signals_give_the_terminal_back(place):
    for number in (signal.SIGTERM, signal.SIGHUP):
        with Screen(['report', '-i', place / 'perf.data']) as screen:
            screen.wait('Symbol')
            pid = subprocess.run(['pgrep', '-f', f'{MILLRACE} report -i {place}/perf.data$'], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout.split()[-1]
            os.kill(int(pid), number)
            assert screen.ended() == 128 + number


def test_broken_files(place, tmp_path):
    whole = (place / 'perf.data').read_bytes()
    (tmp_path / 'empty').write_bytes(b'')
    (tmp_path / 'cut').write_bytes(whole[:len(whole) // 2])
    with Screen(['report', '-i', tmp_path / 'empty']) as screen:
        assert screen.ended() == 255
        assert 'empty' in screen.err()
    with Screen(['report', '-i', tmp_path / 'cut']) as screen:
        screen.wait('Not complete')
        screen.keys('q')
        assert screen.ended() == 255


def made(path, sample_type, *records):
    attr = perf_file.attr(type=1, sample_period=10, sample_type=sample_type)
    path.write_bytes(perf_file.build([attr], {}, records=b''.join(records)))


def test_cpus_that_were_not_recorded(tmp_path):
    made(tmp_path / 'perf.data', 1 | 2 | 4, perf_file.sample(2, 4096, 7 << 32 | 7, 100), perf_file.FINISHED_ROUND)
    with Screen(['report', '-C', '0', '-i', tmp_path / 'perf.data']) as screen:
        assert screen.ended() == 255
        assert 'does not have the CPUs' in screen.err()


def test_records_out_of_order(tmp_path):
    """By the view at its end, as by what prints."""
    times = [perf_file.sample(2, 4096, 7 << 32 | 7, time) + perf_file.FINISHED_ROUND for time in (1000, 2000, 3000, 50)]
    made(tmp_path / 'perf.data', 1 | 2 | 4, *times)
    with Screen(['report', '-i', tmp_path / 'perf.data']) as screen:
        screen.press('q', 'ended with status 0')
        assert screen.err().count('1 record is out of order') == 1


def test_hostile_names(place, millrace, tmp_path):
    """Names neither control the terminal nor break the layout; long and wide ones are cut."""
    for name in ('\x1b[31mred\x1b]0;t\x07', 'a' * 15, '名前' * 2, '\u202eabc', '100%s%n'):
        shutil.copy(place / 'program', tmp_path / 'program')
        path = tmp_path / ('x' * 200 + '.data')
        code = ('import ctypes, sys\nctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)\n'
                'for i in range(2000000): pass')
        with hostile_names():
            millrace('record', '-e', 'cpu-clock:u', '-N', '-o', path, '--', 'python3', '-c', code, name)
        with Screen(['report', '-i', path]) as screen:
            text = screen.wait('Symbol')
            assert '\x1b[31mred' not in screen.colours()
            assert all(len(line) <= 100 for line in text.splitlines())
            screen.press('t', 'Thread: ')
            screen.keys('q', 'q')
            assert screen.ended() == 0
