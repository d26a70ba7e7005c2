# SPDX-License-Identifier: MIT
"""`millrace flame`: what is in the page, and what a browser does with it."""
import json
import pathlib
import platform
import re
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from browser import (DOWN, END, ENTER, ESCAPE, HOME, LEFT, RIGHT, SHIFT, TAB, UP, Browser, content,  # noqa: E402
                     path_of, section, totals, varints, weights)
import perf_file  # noqa: E402
from conftest import hostile_names  # noqa: E402
from off_cpu import SUM, by_tid, waits_of  # noqa: E402


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


def nodes_named(found, *names):
    return [node for node, name in enumerate(found['node_name']) if node and found['texts'][name] in names]


def test_has_all_samples(data, page, millrace):
    found = content(page)
    series = found['series'][0]
    samples = len(millrace('script', '-i', data).out.split('\n\n')) - 1
    assert series['name'].startswith('cpu-clock') and series['samples'] == samples
    assert totals(found, series)[0] == samples * 250000
    assert sum(count for *_, count in weights(series)) == samples
    assert sum(sum(cpu['samples']) for cpu in found['files'][0]['cpus']) == samples
    assert {'spin-0', 'spin-1'} <= {thread['comm'] for thread in found['threads']}


def test_threads_and_functions(page):
    found = content(page)
    for number, thread in enumerate(found['threads']):
        if thread['comm'].startswith('spin-'):
            total = totals(found, found['series'][0], number)
            inner = sum(total[node] for node in nodes_named(found, 'spin_left', 'spin_right'))
            assert 0.3 < inner / total[0] <= 1


def test_chains_are_those_of_script(data, page, millrace):
    """Each chain that script prints stands in the page, with as many samples; frames of unknown functions aside."""
    found, wanted = content(page), {}
    for block in millrace('script', '-i', data, '-F', 'event,ip,sym', '--inline').out.split('\n\n'):
        frames = tuple(line.split(None, 1)[1].removesuffix(' (inlined)') for line in block.splitlines()[1:])
        if frames and not any('[unknown]' in frame for frame in frames):
            wanted[frames] = wanted.get(frames, 0) + 1
    shown = {}
    for _, node, _, _, count in weights(found['series'][0]):
        frames = tuple(reversed(path_of(found, node)))
        shown[frames] = shown.get(frames, 0) + count
    assert len(wanted) > 3
    assert {frames: shown.get(frames) for frames in wanted} == wanted


INLINED = """
static volatile unsigned long n;
static inline __attribute__((always_inline)) void inner_hot(void) { for (int i = 0; i < 100000; i++) n += i; }
static __attribute__((noinline)) void outer_hot(void) { inner_hot(); n++; }
int main(void) { for (int i = 0; i < 1000; i++) outer_hot(); }
"""


@pytest.mark.parametrize('chains', ['fp', 'unwind'])
def test_inlined_functions_of_recorded_chains(millrace, tmp_path, need_root, chains):
    program = tmp_path / 'program'
    subprocess.run(['gcc', '-O1', '-g', '-fno-omit-frame-pointer', '-x', 'c', '-', '-o', program], input=INLINED,
                   text=True, check=True)
    millrace('record', '-e', 'cpu-clock', '--call-graph', chains, '-o', tmp_path / 'data', '--', program)
    for options, wanted in ([], ['outer_hot', 'inner_hot']), (['--no-inline'], ['outer_hot']):
        millrace('flame', '-i', tmp_path / 'data', '-o', tmp_path / 'page', *options)
        found = content(tmp_path / 'page')
        ends = [path_of(found, node)[-len(wanted):] for _, node, *_ in weights(found['series'][0])]
        assert any(list(end) == wanted for end in ends), (options, ends)
        assert bool(nodes_named(found, 'inner_hot')) == (not options)


# The last instruction of two functions is a call that does not return; behind one of them the next function begins.
ENDS = """
#include <stdlib.h>
static volatile unsigned long n;
static __attribute__((noinline, noreturn)) void spins(void) { while (n < 100000000) n++; exit(0); }
static inline __attribute__((always_inline)) void inlined(void) { n++; spins(); }
__attribute__((noinline, aligned(1))) void ends_with_call(void) { n++; inlined(); }
__attribute__((noinline, aligned(1))) void comes_next(void) { n += 2; }
__attribute__((noinline, aligned(64))) void before_padding(void) { n += 3; ends_with_call(); }
__attribute__((noinline, aligned(64))) void behind_padding(void) { n += 2; }
int main(int argc, char **argv) { if (argc > 1) { comes_next(); behind_padding(); } before_padding(); }
"""


@pytest.mark.skipif(platform.machine() not in ('x86_64', 'aarch64'), reason='the code is not known')
@pytest.mark.parametrize('chains', ['fp', 'unwind'])
def test_callers_that_end_with_a_call(millrace, tmp_path, need_root, chains):
    program, data = tmp_path / 'program', tmp_path / 'data'
    subprocess.run(['gcc', '-O2', '-g', '-fno-omit-frame-pointer', '-fno-shrink-wrap', '-fno-reorder-functions',
                    '-fno-toplevel-reorder', '-x', 'c', '-', '-o', program], input=ENDS, text=True, check=True)
    symbols = subprocess.run(['nm', '-nS', program], capture_output=True, text=True, check=True).stdout
    functions = {name: [int(number, 16) for number in numbers]
                 for *numbers, name in re.findall(r'^(\w+) (\w+) [Tt] (\w+)$', symbols, re.M)}
    start, size = functions['ends_with_call']
    assert start + size == functions['comes_next'][0]
    millrace('record', '-e', 'cpu-clock', '--call-graph', chains, '-o', data, '--', program)
    outer = ['ends_with_call', 'before_padding', 'main']
    for option, wanted in ('--no-inline', ['spins', *outer]), ('--inline', ['spins', r'inlined \(inlined\)', *outer]):
        chain = '\n'.join(rf'\s+[0-9a-f]+ {name}' for name in wanted)
        assert re.search(chain, millrace('script', '-i', data, '-F', 'ip,sym', option).out)
    offsets = millrace('script', '-i', data, '-F', 'ip,sym,symoff').out
    assert f' ends_with_call+{size - (chains == "unwind"):#x}\n' in offsets
    texts = [millrace(*command, '-i', data).out for command in (
        ['script', '--json'], ['report', '--stdio', '-g'], ['export', '--format=folded', '-o', '-'])]
    for text in offsets, *texts:
        assert 'ends_with_call' in text and not re.search('comes_next|behind_padding', text)
    assert 'main;before_padding;ends_with_call;inlined;spins' in texts[-1]
    millrace('flame', '-i', data, '-o', tmp_path / 'page')
    found = content(tmp_path / 'page')
    ends = {tuple(path_of(found, node)[-5:]) for _, node, *_ in weights(found['series'][0])}
    assert ('main', 'before_padding', 'ends_with_call', 'inlined', 'spins') in ends
    assert not nodes_named(found, 'comes_next')


def test_times_are_those_of_script(data, page, millrace):
    found = content(page)
    start, bin_ns = found['files'][0]['start_ns'], found['files'][0]['bin_ns']
    wanted = {}
    for line in millrace('script', '-i', data, '-F', 'time', '--ns').out.splitlines():
        if (at := re.match(r'\s*(\d+)\.(\d{9}):', line)):
            bin_ = (int(at.group(1)) * 10**9 + int(at.group(2)) - start) // bin_ns
            wanted[bin_] = wanted.get(bin_, 0) + 1
    shown = {}
    for *_, bin_, _, count in weights(found['series'][0]):
        shown[bin_] = shown.get(bin_, 0) + count
    assert shown == wanted


def test_needs_nothing_else(page):
    text = page.read_text()
    assert len(text) < 1_000_000
    assert not re.search(r'(src|href)\s*=|https?://|@import|url\(', text)
    assert "default-src 'none'" in text  # nor may it ask for anything


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
    assert 'two files' in millrace('flame', '--diff', data, status=129).err
    assert 'two files' in millrace('flame', '--diff', data, data, data, status=129).err
    assert millrace('flame', '--diff', data, tmp_path / 'none', '-o', tmp_path / 'x', status=255).err.count('\n') == 1
    assert not (tmp_path / 'x').exists()
    assert 'command' in millrace('flame', '-i', data, '--base', 'what', status=129).err


@pytest.mark.parametrize('command', ['flame -i DATA -o OUT', 'flame --diff DATA DATA -o OUT', 'report -i DATA',
                                     'report -i DATA --html OUT', 'diff DATA DATA'])
def test_records_out_of_order(millrace, tmp_path, command):
    data = tmp_path / 'perf.data'
    records = [perf_file.sample(2, 4096, 7 << 32 | 7, time) + perf_file.FINISHED_ROUND
               for time in (1000, 2000, 3000, 50)]
    attr = perf_file.attr(type=1, sample_period=10, sample_type=1 | 2 | 4)
    data.write_bytes(perf_file.build([attr], {}, records=b''.join(records)))
    words = [{'DATA': data, 'OUT': tmp_path / 'page'}.get(word, word) for word in command.split()]
    assert '1 record is out of order' in millrace(*words).err


@pytest.fixture(scope='module')
def programs_page(need_root, millrace, programs, tmp_path_factory):
    """Two programs, an interpreter among them."""
    base = tmp_path_factory.mktemp('programs')
    data, page = base / 'perf.data', base / 'page.html'
    script = f'{programs}/spin -t 1 -m 100; exec {sys.executable} -c "sum(i * i for i in range(1500000))"'
    millrace('record', '-e', 'cpu-clock', '-g', '-o', data, '--', 'sh', '-c', script)
    millrace('flame', '-i', data, '-o', page)
    return page


def test_commands_at_the_base(programs_page, millrace):
    """main of one program is not main of another: each stands on its command."""
    found = content(programs_page)
    bases = {path_of(found, node)[0] for node in range(1, len(found['parent']))}
    assert {'spin-0'} <= bases <= {thread['comm'] for thread in found['threads']}
    assert {found['kind_names'][found['kinds'][found['node_name'][node]]]
            for node in range(1, len(found['parent'])) if not found['parent'][node]} == {'task'}
    other = programs_page.parent / 'other.html'
    for word, pattern in (('process', r'\S+ \d+'), ('thread', r'\S+ \d+'), ('command', r'\S+'), ('none', None)):
        millrace('flame', '-i', programs_page.parent / 'perf.data', '-o', other, '--base', word)
        again = content(other)
        first = [path_of(again, node)[0] for node in range(1, len(again['parent'])) if not again['parent'][node]]
        assert totals(again, again['series'][0])[0] == totals(found, found['series'][0])[0]
        assert all(re.fullmatch(pattern, text) for text in first) if pattern else 'spin-0' not in first


def test_kinds(programs_page):
    found = content(programs_page)
    kind = {text: found['kind_names'][kind] for text, kind in zip(found['texts'], found['kinds'])}
    assert kind['spin_left'] == 'user' and kind['spin-0'] == 'task'
    assert all((kind == 'unknown') == bool(re.fullmatch(r'\[.*\]', text)) for text, kind in kind.items())
    assert 'kernel' in kind.values()
    if '_PyEval_EvalFrameDefault' in kind:
        assert kind['_PyEval_EvalFrameDefault'] == 'interpreter'


@pytest.fixture(scope='module')
def compared(need_root, millrace, programs, data):
    """The page of a comparison: the second recording does the same, and page-faults are only in it."""
    second, page = data.parent / 'second.data', data.parent / 'diff.html'
    millrace('record', '-e', 'cpu-clock,page-faults/period=1/', '-g', '-o', second, '--', programs / 'spin', '-t', '1',
             '-m', '150')
    millrace('flame', '--diff', data, second, '-o', page)
    return page


def test_comparison(compared, page):
    found, alone = content(compared), content(page)
    assert [file['name'].rpartition('/')[2] for file in found['files']] == ['perf.data', 'second.data']
    pairs = [(series, found['series'][series['baseline']]) for series in found['series'] if series['baseline'] >= 0]
    assert {after['name'] for after, _ in pairs} == {series['name'] for series in found['series']}
    for after, before in pairs:
        assert after['name'] == before['name'] and (after['file'], before['file']) == (1, 0)
    before = next(before for after, before in pairs if after['name'].startswith('cpu-clock'))
    assert totals(found, before)[0] == totals(alone, alone['series'][0])[0]


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
    assert found['files'][0]['gaps'] and any('lost' in note for note in found['notes'])


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    made = Browser(tmp_path_factory.mktemp('profile'))
    yield made
    made.close()


def choose(browser, name, value):
    browser.run(f"const it = document.getElementById('{name}'); it.value = {json.dumps(str(value))}; it.onchange();")


@pytest.fixture
def shown(browser, page):
    browser.open(page)
    yield browser
    assert browser.errors() == []


def colours_of(browser, canvas):
    return browser.run(f"""const canvas = document.getElementById('{canvas}');
        const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(image.data.buffer)).size""")


def test_page_opens(shown):
    assert 'a cell is' in shown.text('#time-title-0') and 'cpu-clock' in shown.text('#event')
    assert colours_of(shown, 'flame') > 5 and colours_of(shown, 'heat-0') > 2
    assert len(shown.screenshot()) > 10000


def test_search(shown, page):
    found = content(page)
    total = totals(found, found['series'][0])
    inner = sum(total[node] for node in nodes_named(found, 'spin_left'))
    shown.type('#search', '^spin_left$')
    assert shown.text('#found') == f'{100 * inner / total[0]:.2f} % found'
    shown.type('#search', '(')  # no regular expression: a part of a name
    assert shown.text('#found') == '0.00 % found'


def place_of(browser, node):
    """Where it is clicked at."""
    return browser.run(f"""const box = document.getElementById('flame').getBoundingClientRect();
        const at = place({node}, box.width), top = document.getElementById('flame-box').scrollTop;
        return [box.left + at[0] + at[1] / 2, box.top - top + ROW * (depth[{node}] + 0.5)]""")


def test_zoom(shown):
    """A click on a frame makes it as wide as all; Escape leads to its caller, the button to the beginning."""
    width = shown.run("return document.getElementById('flame').clientWidth")
    node = shown.run("""for (let node = 1; node < nr; node++)
        if (depth[node] === 2 && total[node] > total[0] / 20 && total[node] < total[0]) return node;
        return 2""")
    shown.click_at(*place_of(shown, node))
    assert shown.run('return zoom') == node
    assert shown.run(f'return place({node}, {width})') == pytest.approx([0, width])
    shown.type_key(ESCAPE)
    assert shown.run('return zoom') == shown.run(f'return parent[{node}]')
    shown.click_at(*place_of(shown, node))
    shown.run("document.getElementById('reset').click()")
    assert shown.run('return zoom') == 0


def test_keys(shown):
    """Arrows move, Enter zooms, Home returns; / and n search; the frame that is moved to is told."""
    shown.run("document.getElementById('flame').focus()")
    shown.type_key(DOWN)
    first = shown.run('return current')
    assert shown.run('return parent[current]') == 0 and shown.run('return largestChild(0)') == first
    shown.type_key(DOWN)
    assert shown.run('return parent[current]') == first
    assert shown.text('#status').startswith(shown.run('return label(current)'))
    shown.type_key(ENTER)
    assert shown.run('return zoom === current && zoom > 0')
    shown.type_key(UP)
    assert shown.run('return current') == first
    shown.type_key(HOME)
    assert shown.run('return [zoom, current]') == [0, 0]
    siblings = shown.run("""for (let i = 1; i < nr; i++) {
        const next = sibling(i, 1);
        if (total[i] > 0 && next > 0) { moveTo(i); return [i, next]; }
        } return null""")
    if siblings:
        shown.type_key(RIGHT)
        assert shown.run('return current') == siblings[1]
        shown.type_key(LEFT)
        assert shown.run('return current') == siblings[0]
    shown.type_key('/')
    assert shown.run('return document.activeElement.id') == 'search'
    shown.type('#search', '^spin_(left|right)$')
    shown.type_key(ENTER)
    one = shown.run('return current')
    assert shown.run('return document.activeElement.id') == 'flame' and 'spin_' in shown.run('return label(current)')
    shown.type_key('n')
    assert 'spin_' in shown.run('return label(current)') and shown.run('return current') != one
    shown.type_key('?')
    assert shown.run("return document.getElementById('help-box').open")


def test_part_of_the_time(shown, page):
    """Dragged over in the heat map; the graph is that of the samples in it. Then by keys."""
    found, heat = content(page), "document.getElementById('heat-0')"
    box = shown.run(f'const box = {heat}.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]')
    shown.drag((box[0] + 1, box[1] + 1), (box[0] + box[2] * 0.4, box[1] + box[3] - 2))
    chosen = shown.wait('ranges[0]')
    shown.wait('!scheduled')
    whole = totals(found, found['series'][0])[0]
    assert 0 < shown.run('return total[0]') == totals(found, found['series'][0], bins=chosen)[0] < whole
    assert 'chosen: 0.000 to' in shown.text('#time-title-0')
    shown.click_at(*shown.run("""const box = document.getElementById('all-time').getBoundingClientRect();
        return [box.left + 5, box.top + 5]"""))
    assert shown.run('return total[0]') == whole
    shown.run(f'heats[0].cursor = 0; {heat}.focus()')
    shown.type_key(RIGHT)
    shown.type_key(SHIFT, RIGHT)
    shown.wait('!scheduled')
    chosen = shown.run('return ranges[0]')
    step = shown.run('return heats[0].step')
    assert chosen == [50 * step, 101 * step] or chosen[1] == found['files'][0]['bins']
    assert shown.run('return total[0]') == totals(found, found['series'][0], bins=chosen)[0]
    shown.type_key(ESCAPE)
    assert shown.run('return total[0]') == whole


def test_part_of_the_time_is_that_of_report(shown, data, page, millrace):
    """As many samples as `report --time` has of the part that is chosen."""
    found = content(page)
    file = found['files'][0]
    for part in (0.2, 0.5), (0.6, 1):
        chosen = [int(file['bins'] * end) for end in part]
        shown.run(f'ranges[0] = {chosen}; select()')
        begin, end = (file['start_ns'] + bin_ * file['bin_ns'] for bin_ in chosen)
        times = '{}.{:09},{}.{:09}'.format(*divmod(begin, 10 ** 9), *divmod(end - 1, 10 ** 9))
        rows = json.loads(millrace('report', '-i', data, '--no-children', '--time', times, '--json').out)
        assert shown.run('return samples[0]') == rows['events'][0]['samples'] > 0
        assert shown.run('return total[0]') == rows['events'][0]['period']
    shown.run('ranges[0] = null; select()')


def focused(browser):
    """What has the focus, and whether that is seen."""
    return browser.run("""const it = document.activeElement, style = getComputedStyle(it);
        const name = it.id || it.dataset.view || it.dataset.kind || it.closest('th')?.textContent || it.tagName;
        return [name, style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2]""")


def all_by_tab(browser):
    """What Tab goes to, from the first control to the end of the page."""
    names = ['theme']
    browser.run("element('theme').focus()")
    while len(names) < 60:
        browser.type_key(TAB)
        name, is_seen = focused(browser)
        if name == 'BODY' or name in names:
            break
        assert is_seen, name
        names.append(name)
    return names


def test_all_is_reached_by_tab(browser, report_page):
    browser.open(report_page)
    names = all_by_tab(browser)
    wanted = {'theme', 'help', 'SUMMARY', 'heat-0', 'event', 'thread', 'search', 'flame', 'svg', 'png', 'user',
              'copy'}
    assert wanted <= set(names), names
    browser.run("show('tree')")
    assert {'inverted', 'tree', 'DIV'} <= set(all_by_tab(browser))
    browser.run("show('table')")
    names = all_by_tab(browser)
    assert {'table', 'Self', 'Symbol', 'TR'} <= {name.rstrip(' ▾▴') for name in names}, names
    browser.run("show('text-0')")
    assert 'text' in all_by_tab(browser)
    browser.run("show('flame')")
    assert browser.errors() == []


def test_views_by_keys(browser, report_page):
    """Arrows go from one view to the next, numbers to each."""
    browser.open(report_page)
    browser.run("document.querySelector('[role=tab]').focus()")
    for key, view in ((RIGHT, 'tree'), (RIGHT, 'table'), (LEFT, 'tree'), (END, 'text-1'), (RIGHT, 'flame'),
                      (HOME, 'flame')):
        browser.type_key(key)
        assert browser.run('return view') == view == focused(browser)[0]
        assert browser.run("return document.querySelectorAll('[role=tabpanel]:not([hidden])').length") == 1
    for number, view in enumerate(('flame', 'tree', 'table', 'text-0', 'text-1'), 1):
        browser.type_key(str(number))
        assert browser.run('return view') == view
    assert browser.errors() == []


def test_table_by_keys(browser, report_page):
    """Heads sort, once more the other way; rows lead to the graph."""
    browser.open(report_page)
    browser.type_key('3')
    column = """const head = [...document.querySelectorAll('#table th')];
        const at = head.findIndex(it => it.textContent.startsWith('{}'));
        const rows = [...document.querySelectorAll('#table tbody tr')];
        return [head[at].ariaSort, rows.map(row => row.children[at].textContent)]"""
    head = "[...document.querySelectorAll('#table th button')].find(it => it.textContent.startsWith('{}'))"
    for name, orders in (('Samples', (True, False)), ('Symbol', (False, True))):
        browser.run(head.format(name) + '.focus()')
        for is_down in orders:
            browser.type_key(ENTER)
            sort, values = browser.run(column.format(name))
            values = [int(value.replace(',', '')) if name == 'Samples' else value[4:] for value in values]
            wanted = values if name == 'Samples' else browser.run(
                f'return {json.dumps(values)}.sort((a, b) => {"-" if is_down else ""}a.localeCompare(b))')
            assert sort == ('descending' if is_down else 'ascending')
            assert values == (sorted(values, reverse=is_down) if name == 'Samples' else wanted) and len(values) > 2
    browser.type('#search', 'spin_')
    browser.run("document.querySelector('#table tbody tr').focus()")
    browser.type_key(DOWN)
    symbol = browser.run("return document.activeElement.lastChild.textContent.slice(4)")
    second = browser.run("return document.querySelectorAll('#table tbody tr')[1].lastChild.textContent.slice(4)")
    assert symbol == second
    browser.type_key(ENTER)
    assert browser.run('return view') == 'flame' and browser.run('return nrFound') > 0
    assert browser.run("return element('search').value") == f'^{symbol}$'
    assert browser.errors() == []


def test_table_says_what_it_counts(browser, report_page):
    browser.open(report_page)
    browser.type_key('3')
    assert browser.run("return element('table-note').hidden")
    browser.run('ranges[0] = [0, 5]; select()')
    assert not browser.run("return element('table-note').hidden")
    assert 'whole recording' in browser.text('#table-note')


def test_pointer_shows_what_is_there(shown):
    """What the pointer is at stands beside it: a frame, a part of the time, a CPU."""
    node = shown.run('return largestChild(largestChild(0))')
    shown.move_to(*place_of(shown, node))
    tip = shown.wait("!element('tip').hidden && element('tip').textContent")
    assert tip.startswith(shown.run(f'return label({node})')) and '%' in tip and 'samples' in tip
    for canvas, text in (('heat-0', ' of cpu-clock'), ('cpus-0', 'samples of all events')):
        shown.move_to(*shown.run(f"""const box = element('{canvas}').getBoundingClientRect();
            return [box.left + box.width / 2, box.top + 5]"""))
        assert text in shown.text('#tip')
    shown.move_to(2, 2)
    assert shown.run("return element('tip').hidden")


def test_path_and_copy(shown):
    """The callers of what is zoomed into lead back; the stack is copied as text, innermost first."""
    shown.run("""let node = 0; while (largestChild(node) >= 0) node = largestChild(node);
        zoomTo(node); element('flame').focus();
        navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }""")
    depth = shown.run('return depth[zoom]')
    assert shown.text('#path strong') == shown.run('return label(zoom)')
    shown.type_key('c')
    lines = shown.wait('window.copied').split('\n')
    assert len(lines) == depth and lines[0].startswith(shown.run('return label(zoom)'))
    shown.wait("element('status').textContent.startsWith('copied')")
    shown.run("[...document.querySelectorAll('#path button')].pop().click()")
    assert shown.run('return depth[zoom]') == depth - 1
    shown.run("document.querySelectorAll('#path button')[1].click()")
    assert shown.run('return zoom') == 0 and shown.run("return element('reset').disabled")


@pytest.mark.parametrize('scheme', ['light', 'dark'])
@pytest.mark.parametrize('width, height', [(1280, 800), (800, 600), (400, 700)])
def test_windows(browser, report_page, width, height, scheme):
    """Nothing is wider than the window; the colours are those of the system."""
    browser.emulate(width, height, scheme)
    try:
        browser.open(report_page)
        assert browser.run('return document.documentElement.dataset.theme') == scheme
        for view in 'flame', 'tree', 'table', 'text-0', 'text-1':
            browser.run(f"show('{view}')")
            assert browser.run('return document.documentElement.scrollWidth <= window.innerWidth'), view
            bottom = browser.run("return document.querySelector('footer').getBoundingClientRect().bottom")
            assert bottom < height + 200
        browser.run("""show('flame'); let node = 0;
            while (largestChild(node) >= 0) node = largestChild(node);
            zoomTo(node)""")
        assert browser.run('return document.documentElement.scrollWidth <= window.innerWidth')
        assert browser.errors() == []
    finally:
        browser.emulate(1200, 900)


def test_page_asks_no_network(shown):
    """Nothing was loaded, and what would load something is refused."""
    assert shown.run("return performance.getEntriesByType('resource').length") == 0
    shown.run("""window.refused = [];
        addEventListener('securitypolicyviolation', event => refused.push(event.effectiveDirective));
        fetch('http://127.0.0.1:9/').catch(() => {});
        const image = new Image(); image.src = 'http://127.0.0.1:9/x.png'; document.body.append(image); image.remove();
        const script = document.createElement('script');
        script.src = 'http://127.0.0.1:9/x.js'; document.body.append(script);""")
    shown.wait('refused.length >= 3')
    assert sorted(shown.run('return refused')) == ['connect-src', 'img-src', 'script-src-elem']
    shown.errors()  # they are told there


def test_kinds_of_the_page(browser, programs_page):
    """The legend has the kinds that there are, with shares that make the whole; a click marks those frames."""
    browser.open(programs_page)
    texts = browser.run("return [...document.querySelectorAll('#legend button')].map(it => it.textContent)")
    assert any('user' in text for text in texts) and any('kernel' in text for text in texts)
    assert abs(sum(float(text.split()[-2]) for text in texts) - 100) < 0.1
    browser.run("""document.querySelector('#legend [data-kind="kernel"]').click()""")
    assert browser.text('#found').endswith('found') and browser.run('return nrFound') > 0
    assert browser.run("""return document.querySelector('#legend [data-kind="kernel"]').ariaPressed""") == 'true'
    assert browser.errors() == []


def test_export(shown, page):
    """What is saved is what is shown."""
    shown.run("document.getElementById('svg').click()")
    name = re.sub(r'[^\w.-]+', '_', content(page)['title'].rpartition('/')[2])
    root = xml.etree.ElementTree.fromstring(shown.downloaded(f'{name}.svg'))
    titles = [title.text for title in root.iter('{http://www.w3.org/2000/svg}title')]
    assert any(title.startswith('spin_left') for title in titles)
    assert len(titles) == shown.run("let n = 0; eachShown(element('flame').clientWidth, () => n++); return n")
    shown.run("document.getElementById('png').click()")
    image = shown.downloaded(f'{name}.png')
    width, height = struct.unpack('>II', image[16:24])
    assert image.startswith(b'\x89PNG') and height > 100
    assert width == 2 * shown.run("return element('flame').clientWidth")


def test_dark_and_light(shown):
    backs = []
    for theme in ('dark', 'light'):
        choose(shown, 'theme', theme)
        backs.append(shown.run('return getComputedStyle(document.body).backgroundColor'))
    assert backs == ['rgb(22, 24, 28)', 'rgb(255, 255, 255)']
    shown.run('document.activeElement.blur()')
    shown.type_key('d')
    assert shown.run('return document.documentElement.dataset.theme') == 'dark'


def test_tree(shown, page):
    """Rows open by click and by keys; inverted, the functions stand first."""
    found = content(page)
    total = totals(found, found['series'][0])
    shown.run("document.querySelector('[data-view=tree]').click()")
    rows = "[...document.querySelectorAll('#tree .row')]"
    assert shown.run(f'return {rows}.length') == len({found['node_name'][node] for node in range(1, len(total))
                                                      if not found['parent'][node] and total[node]})
    shown.run(f'{rows}[0].focus()')
    shown.type_key(RIGHT)
    shown.type_key(DOWN)
    assert shown.run("return document.activeElement.getAttribute('aria-level')") == '2'
    shown.type_key(LEFT)
    shown.type_key(LEFT)
    assert shown.run(f"return {rows}.every(row => row.getAttribute('aria-level') === '1')")
    shown.run("document.getElementById('inverted').click()")
    shares = shown.run(f'return {rows}.map(row => parseFloat(row.textContent))')
    assert shares == sorted(shares, reverse=True) and abs(sum(shares) - 100) < 0.02 * len(shares)
    shown.run("document.getElementById('inverted').click()")


def test_threads_of_the_page(shown, page):
    found = content(page)
    series = found['series'][0]
    for number, thread in enumerate(found['threads']):
        choose(shown, 'thread', number)
        assert shown.run('return total[0]') == totals(found, series, number)[0], thread
    choose(shown, 'thread', '')
    assert shown.run('return total[0]') == totals(found, series)[0]


def test_events_of_the_page(browser, need_root, millrace, programs, tmp_path):
    data, page = tmp_path / 'perf.data', tmp_path / 'page.html'
    millrace('record', '-e', 'cpu-clock,page-faults/period=1/', '-g', '-o', data, '--', programs / 'spin', '-t', '2',
             '-m', '50')
    millrace('flame', '-i', data, '-o', page)
    found = content(page)
    assert sum(series['samples'] > 0 for series in found['series']) == 2
    browser.open(page)
    for number, series in enumerate(found['series']):
        if not series['samples']:  # the tracking event
            continue
        choose(browser, 'event', number)
        assert browser.run('return total[0]') == totals(found, series)[0] > 0
        assert series['name'] in browser.text('#status')
    assert browser.errors() == []


def test_comparison_in_the_browser(browser, compared):
    """Shares of each whole; red is what grew, blue what shrank; the widths are those of one or of both."""
    found = content(compared)
    pair = next((series, found['series'][series['baseline']]) for series in found['series']
                if series['baseline'] >= 0 and series['name'].startswith('cpu-clock'))
    after, before = (totals(found, series) for series in pair)
    browser.open(compared)
    for node in range(1, len(after)):
        change = after[node] / after[0] - before[node] / before[0]
        assert abs(browser.run(f'return after[{node}] - before[{node}]') - change) < 1e-9
        colour = browser.run(f'return colour({node})')
        if abs(change) > 0.0001:
            assert colour.startswith('hsl(4,' if change > 0 else 'hsl(216,')
        if node > 40:
            break
    for which, values in (('after', after), ('before', before)):
        choose(browser, 'width', which)
        node = max(range(1, len(values)), key=lambda node: values[node])
        assert abs(browser.run(f'return total[{node}] / total[0]') - values[node] / values[0]) < 1e-9
    assert 'before' in browser.text('#status') and 'after' in browser.text('#status')
    assert browser.errors() == []


def test_hostile_names(browser, need_root, millrace, programs, tmp_path):
    """Names of programs are text, wherever they stand."""
    script = '<img src=x onerror=alert(1)>'
    program = tmp_path / '\x1b[31m\u202e</script><script>document.title="owned"</script>'.replace('/', '\u2215')
    shutil.copy(programs / 'spin', program)
    data, page = tmp_path / 'perf.data', tmp_path / 'page.html'
    with hostile_names():
        millrace('record', '-e', 'cpu-clock', '-g', '-o', data, '--', 'sh', '-c', '"$0" -t 1 -m 50; "$0" -t 1 -m 20',
                 program)
    millrace('flame', '-i', data, '-o', page, '--title', script)
    browser.open(page)
    assert browser.run('return document.querySelector("h1").textContent') == script
    for view in ('tree', 'flame'):
        browser.run(f"document.querySelector('[data-view={view}]').click()")
    texts = browser.run('return [...names, ...objects]')
    assert not [text for text in texts if '\x1b' in text or '\u202e' in text]
    assert any(text.startswith('\\x1b[31m\\u{202e}<') for text in texts)
    browser.run("exportSvg()")
    assert browser.run('return document.title').startswith(script) and not browser.run('return document.images.length')
    assert browser.errors() == []


def test_gaps_of_the_page(browser, lost):
    browser.open(lost)
    assert 'data was lost' in browser.text('#time-title-0') and browser.text('#notes')
    for canvas in ('heat-0', 'cpus-0'):
        painted = browser.run(f"""const probe = document.createElement('canvas').getContext('2d');
            const canvas = document.getElementById('{canvas}');
            probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--gap');
            probe.fillRect(0, 0, 1, 1);
            const wanted = new Uint32Array(probe.getImageData(0, 0, 1, 1).data.buffer)[0];
            const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            const all = new Uint32Array(image.data.buffer);
            return all.filter(pixel => pixel === wanted).length""")
        assert painted > 0
    assert browser.errors() == []


@pytest.fixture(scope='module')
def report_page(data, millrace):
    path = data.parent / 'report.html'
    millrace('report', '-i', data, '--html', path)
    return path


def test_report_page(data, report_page, millrace, tmp_path):
    """
    The tables of --json, the chains of flame (as report shows them: not inlined ones), the texts of --header and
    --loss; for the owner alone.
    """
    page = tmp_path / 'flame.html'
    millrace('flame', '-i', data, '--no-inline', '-o', page)
    found, tables = content(report_page), json.loads(millrace('report', '-i', data, '--json').out)
    assert found['table']['events'] == tables['events']
    flame = content(page)
    for part in ('texts', 'parent', 'node_name', 'series'):
        assert found[part] == flame[part]
    texts = {text['title']: text['text'] for text in found['pages']}
    assert millrace('report', '-i', data, '--header-only', '-I').out == texts['Header']
    assert millrace('report', '-i', data, '--loss').out == texts['Losses']
    assert report_page.stat().st_mode & 0o777 == 0o600



def test_report_page_opens(browser, data, report_page, millrace):
    """A row leads to its function in the graph; the search narrows the table; losses and header are shown."""
    rows = json.loads(millrace('report', '-i', data, '--json').out)['events'][0]['entries']
    browser.open(report_page)
    browser.run("document.querySelector('[data-view=table]').click()")
    assert browser.run("return document.querySelectorAll('#table tbody tr').length") == len(rows)
    assert rows[0]['comm'] in browser.text('#table tbody tr') and 'Children' in browser.text('#table thead')
    browser.type('#search', 'spin_left')
    few = sum('spin_left' in str(row['sym']) for row in rows)
    assert 0 < browser.run("return document.querySelectorAll('#table tbody tr').length") == few < len(rows)
    browser.run("document.querySelector('#table tbody tr').click()")
    assert browser.run('return view') == 'flame' and browser.run('return nrFound') > 0
    for tab, text in (('Losses', 'lost'), ('Header', 'hostname')):
        browser.run(f"[...document.querySelectorAll('[role=tab]')].find(tab => tab.textContent === '{tab}').click()")
        assert text in browser.text('#text')
    assert browser.errors() == []


def test_report_page_errors(data, millrace, tmp_path):
    assert str(tmp_path) in millrace('report', '-i', data, '--html', tmp_path / 'no' / 'x', status=255).err
    assert millrace('report', '-i', tmp_path / 'none', '--html', tmp_path / 'x', status=255).err.count('\n') == 1
    assert not (tmp_path / 'x').exists()


@pytest.fixture(scope='module')
def waits_data(need_root, need_tracefs, millrace, programs, tmp_path_factory):
    path = tmp_path_factory.mktemp('waits') / 'perf.data'
    millrace('record', '-e', 'cpu-clock', '-F', '999', '--off-cpu', '--off-cpu-wakers', '-g', '-o', path,
             '--', programs / 'waits', 'lock', '3', '1800')
    return path


@pytest.fixture(scope='module')
def waits_page(waits_data, millrace):
    path = waits_data.parent / 'waits.html'
    millrace('flame', '-i', waits_data, '-o', path)
    return path


def test_waits_are_those_of_the_recording(waits_data, waits_page):
    """Each time off the CPU: when, how long, in which thread, woken by whom."""
    found = content(waits_page)
    file = found['files'][0]
    waits, parts = file['waits'], {}
    for part in ('since', 'length', 'off', 'ready', 'node', 'waker', 'times'):
        parts[part] = varints(waits[part])
    wakers, shown, i = json.loads(section(waits['wakers'])), [], 0
    for thread, number in waits['threads']:
        at = file['start_ns'] + waits['first_ns']
        for i in range(i, i + number):
            at += parts['since'][i]
            waker = wakers[parts['waker'][i]].split('\n')[0].split()
            shown.append((found['threads'][thread]['tid'], at, at + parts['length'][i], parts['ready'][i],
                          int(waker[-1]) if waker and waker[-1].isdigit() else 0))
            at += parts['length'][i]
        i += 1
    wanted = [(wait.tid, wait.left_ns, wait.end_ns, wait.ready_ns, wait.waker[1])
              for wait in waits_of(waits_data) if not wait.flags & SUM]
    assert waits['short_ns'] == 0 and set(parts['times']) == {1} and len(wanted) > 100
    assert sorted(shown) == sorted(wanted)


def test_browser_shows_on_and_off_the_cpu(waits_data, waits_page, browser):
    """One graph of both, of which each can be left out; their sums are those of the events."""
    found = content(waits_page)
    on, off = (next(series for series in found['series'] if series.get('role') == role) for role in ('on', 'off'))
    sums = [totals(found, series)[0] for series in (on, off)]
    browser.open(waits_page)
    assert browser.run("return [total[0] - offCpu[0], offCpu[0]]") == sums
    browser.run("document.querySelector('[data-role=on]').click()")
    assert browser.run("return [total[0], offCpu[0]]") == [sums[1], sums[1]]
    browser.run("document.querySelector('[data-role=on]').click()")
    browser.run("document.querySelector('[data-role=off]').click()")
    assert browser.run("return [total[0], offCpu[0]]") == [sums[0], 0]
    browser.run("document.querySelector('[data-role=off]').click()")
    assert not browser.errors()


def test_table_says_which_event_it_is_of(waits_data, millrace, browser, tmp_path):
    """There is none of both times on and off the CPU, which the graph shows at first."""
    millrace('report', '-i', waits_data, '--html', tmp_path / 'page.html')
    browser.open(tmp_path / 'page.html')
    browser.run("show('table')")
    assert browser.run('return shownSeries().name') == 'on and off the CPU'
    assert browser.text('#table-note') == f"The table is of the event {browser.run('return table.events[0].event')}."
    browser.run("const it = element('event'); it.value = 0; it.onchange()")
    assert browser.run("return element('table-note').hidden && shownSeries().name === table.events[0].event")
    assert browser.errors() == []


def test_browser_shows_threads(waits_data, waits_page, browser):
    """A click on a wait tells its stack and who ended it; a part that is dragged over is zoomed into."""
    browser.open(waits_page)
    browser.run("show('threads')")
    rows = browser.run('return lanes.rows.map(row => [row.tid, row.waits.length])')
    wanted = by_tid([wait for wait in waits_of(waits_data) if not wait.flags & SUM])
    assert {tid: number for tid, number in rows} == {tid: len(waits) for tid, waits in wanted.items()}
    row, at, following, x, y = browser.run("""
        const {waits} = lanes, wakerOf = i => waits.wakers[waits.waker[i]];
        const told = i => wakerOf(i)[0].startsWith('lock') && wakerOf(i).length > 1;
        // The longest is one for the lock; short ones may be for memory, with another stack.
        const length = ([, i]) => waits.to[i] - waits.from[i];
        const [row, wait] = lanes.rows
            .flatMap((row, number) => row.waits.slice(0, -1).filter(told).map(i => [number, i]))
            .reduce((longest, each) => length(each) > length(longest) ? each : longest);
        zoomLanes(waits.from[wait] - 1e5, waits.to[wait] + 1e5);
        const box = element('lanes').getBoundingClientRect();
        const scale = (box.width - laneLabel) / (lanes.shown[1] - lanes.shown[0]);
        const middle = (waits.from[wait] + waits.to[wait]) / 2 - lanes.shown[0];
        return [row, wait, lanes.rows[row].waits[lanes.rows[row].waits.indexOf(wait) + 1],
            box.left + laneLabel + middle * scale, box.top + LANE_HEAD + (row + 0.5) * LANE];""")
    browser.click_at(x, y)
    assert browser.run('return [lanes.row, lanes.wait]') == [row, at]
    text = browser.text('#wait')
    assert 'futex' in text and 'schedule' in text and 'woken by lock' in text and 'try_to_wake_up' in text
    before = browser.run('return lanes.shown')
    browser.drag((x - 50, y), (x + 50, y))
    after = browser.run('return lanes.shown')
    assert before[0] < after[0] < after[1] < before[1]
    browser.type_key('0')
    assert browser.run('return lanes.shown[0] === lanes.all[0] && lanes.shown[1] === lanes.all[1]')
    browser.type_key(RIGHT)
    assert browser.run('return lanes.wait') == following
    assert not browser.errors()


def test_hostile_names_of_wakers(need_root, need_tracefs, millrace, tmp_path):
    """The name of a waker is one line, whatever it holds: the next lines are its stack."""
    script = tmp_path / 'script.py'
    script.write_text("""import ctypes, threading, time
def work():
    ctypes.CDLL(None).prctl(15, b'a\\nb<x\\x1b')
    end = time.time() + 0.2
    while time.time() < end:
        with lock:
            time.sleep(0.002)
        time.sleep(0.0001)
lock = threading.Lock()
threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
""")
    data, page = tmp_path / 'perf.data', tmp_path / 'page.html'
    with hostile_names():
        millrace('record', '-e', 'dummy', '--off-cpu', '-o', data, '--', '/usr/bin/python3', script)
    millrace('flame', '-i', data, '-o', page)
    wakers = json.loads(section(content(page)['files'][0]['waits']['wakers']))
    assert any(re.fullmatch(r'a\\nb<x\\x1b \d+', waker) for waker in wakers)
    assert not any('\n' in waker for waker in wakers)  # no stacks of wakers were recorded
