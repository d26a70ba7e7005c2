# SPDX-License-Identifier: MIT
"""What two builds differ in: in the view, with call trees, and as JSON."""
import json
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import perf_file  # noqa: E402
from browser import content, weights  # noqa: E402
from conftest import run_command  # noqa: E402
from screen import Screen  # noqa: E402

SOURCE = r'''
volatile unsigned long sum;
__attribute__((noinline)) void inner(int n) { for (int i = 0; i < n; i++) sum += i * i; }
#ifdef NEW
__attribute__((noinline)) void added(void) { inner(4000); sum++; }
#endif
__attribute__((noinline)) void outer(void) { inner(2000); sum++; }
int main(void)
{
	for (int i = 0; i < 60000; i++) {
		outer();
#ifdef NEW
		added();
#endif
	}
	return 0;
}
'''


@pytest.fixture(scope='module')
def builds(need_root, millrace, tmp_path_factory):
    """Recordings of a program and of a later build of it, where functions are elsewhere."""
    base, paths = tmp_path_factory.mktemp('diff-view'), []
    for name, define in (('old', []), ('new', ['-DNEW'])):
        (base / name).mkdir()
        (base / name / 'work.c').write_text(SOURCE)
        program = base / name / 'work'
        run_command(['cc', '-O0', '-g', '-fno-omit-frame-pointer', *define, '-o', program, base / name / 'work.c'])
        paths.append(base / f'{name}.data')
        millrace('record', '-e', 'cpu-clock:u', '-F', '4000', '-g', '-o', paths[-1], '--', program)
    return paths


@pytest.fixture
def screen(builds):
    with Screen(['diff', *(path.name for path in builds)], cwd=builds[0].parent) as screen:
        screen.wait('Symbol')
        yield screen


def test_view_compares_builds(screen, builds, millrace):
    """The same numbers as in the text; functions of one name are one row, wherever they are."""
    text = screen.text()
    assert "Event 'cpu-clock:u', old.data -> new.data" in text and re.search('^ +Baseline +Delta ', text, re.M)
    assert len(re.findall(r'\] inner$', text, re.M)) == 1
    for name in ('inner', 'main'):
        wanted = re.search(rf'^ +([\d.]+%) +(\S+%).*\] {name} *$', millrace('diff', '--stdio', *builds).out, re.M)
        if wanted:
            # Without a + where all callers are below the limit.
            assert re.search(rf'^[+ ] +{re.escape(wanted[1])} +{re.escape(wanted[2])} .*\] {name}$', text, re.M)


def test_call_trees_are_compared(screen):
    """Callers of inner: the new build has one more, and the share of the other one is less by as much."""
    screen.press('/', 'Show names')
    screen.type('inner')
    screen.press('Enter', 'Filter: inner')
    text = screen.press('e', lambda text: re.search('% added$', text, re.M), 'the callers')
    added = re.search(r'- 0\.00% \+([\d.]+)% added$', text, re.M)
    outer = re.search(r'- ([\d.]+)% -([\d.]+)% outer$', text, re.M)
    assert 40 < float(added[1]) < 90 and 40 < float(outer[2]) < 90 and float(outer[1]) > 90
    screen.press('G', 'to what it called')
    screen.press('Escape', lambda text: 'Filter' not in text)
    text = screen.press('x', 'Children')
    # The new function is where the other one was: the numbers of both are their own. A sample may be in outer itself.
    rows = {line.split()[-1]: line for line in text.splitlines() if '] ' in line}
    assert abs(float(re.search(r'^[+-] +\+([\d.]+)% ', rows['added'])[1]) - float(added[1])) < 2
    shares = re.search(r'^[+-] +([\d.]+)% +-([\d.]+)% ', rows['outer'])
    assert abs(float(shares[1]) - float(outer[1])) < 2 and abs(float(shares[2]) - float(outer[2])) < 2
    assert 'Only' not in screen.press('s', 'A comparison is of these recordings')
    assert 'Another recording' not in screen.press('h', 'This page')
    screen.press('q', lambda text: 'This page' not in text)
    screen.press('0', lambda text: re.search(r'^. +\d[\d.]+% .*\n(.*\n)*.*\] added$', text, re.M), 'by the baseline')
    screen.keys('q')
    assert screen.ended() == 0


def test_text_where_only_text_will_do(builds):
    with Screen(['diff', '-p', *builds], rows=60) as screen:
        assert screen.ended() == 0 and 'Base period' in screen.text()
    with Screen(['diff', '--tui', '-c', 'ratio', *builds]) as screen:
        assert screen.ended() == 129 and 'leave out -c ratio' in screen.err()
    with Screen(['diff', '--tui', *builds], env={'TERM': 'dumb'}) as screen:
        assert screen.ended() == 129 and '--tui: TERM' in screen.err()


def test_weights_may_be_large(builds, millrace):
    """Products of more than 63 bits, which perf computes without the upper ones."""
    weight = 2**62
    done = millrace('diff', '--json', '-c', f'wdiff:{weight},{-weight}', *builds).out
    files = [entry['files'] for entry in json.loads(done)['events'][0]['entries'] if all(entry['files'])]
    assert files
    for old, new in files:
        assert new['wdiff'] == pytest.approx((new['period'] + old['period']) * -weight)
    text = millrace('diff', '--stdio', '-p', '-c', f'wdiff:{weight},{-weight}', *builds).out
    numbers = re.findall(r'^ +[\d.]+% +(\d+) +(-?\d+) +(\d+) ', text, re.M)
    assert len(numbers) == len(files)
    for old, value, new in numbers:
        assert int(value) == pytest.approx((int(new) + int(old)) * -weight)
    millrace('diff', '-c', f'wdiff:{2**63 - 1},{-2**63}', *builds)
    for words in f'{2**63},1', f'1,{-2**63 - 1}', '1,', ',1', '1', '1,2,3', '1,2 ':
        done = millrace('diff', '-c', f'wdiff:{words}', *builds, status=129)
        assert 'needs two weights of 64 bits' in done.err


def test_json_has_the_numbers_of_the_text(builds, millrace):
    out = json.loads(millrace('diff', '--json', *builds).out)
    assert out['files'] == [str(path) for path in builds]
    event = out['events'][0]
    assert event['event'] == 'cpu-clock:u' and len(event['totals']) == 2
    rows = {entry['sym']: entry for entry in event['entries'] if entry['dso'].endswith('/work')}
    old, new = rows['inner']['files']
    assert new['delta'] == pytest.approx(new['percent'] - old['percent'], abs=1e-3)
    assert old['period'] / event['totals'][0] * 100 == pytest.approx(old['percent'], abs=1e-3)
    text = millrace('diff', *builds).out
    shown = re.search(r'^ +([\d.]+)% +([+-][\d.]+)% .*\] inner *$', text, re.M)
    # Both are rounded from one number: to two decimals and to four.
    assert [float(shown[1]), float(shown[2])] == pytest.approx([old['percent'], new['delta']], abs=0.00506)
    ratio = json.loads(millrace('diff', '--json', '-c', 'ratio', *builds).out)['events'][0]['entries']
    found = [entry['files'] for entry in ratio if entry['sym'] == 'inner'][0]
    assert found[1]['ratio'] == pytest.approx(found[1]['period'] / found[0]['period'], abs=1e-5)


def test_json_of_what_both_have(builds, millrace):
    """Shares of the baseline are of that, as in the text: the new build alone has a function."""
    words = ['-b', '-s', 'symbol', builds[1], builds[0]]
    event = json.loads(millrace('diff', '--json', *words).out)['events'][0]
    row, = (entry for entry in event['entries'] if entry['sym'] == 'inner')
    shown = re.search(r'^ +([\d.]+)% .*\] inner *$', millrace('diff', *words).out, re.M)
    assert row['files'][0]['percent'] == pytest.approx(float(shown[1]), abs=0.00506)
    assert row['files'][0]['period'] / event['totals'][0] * 100 == pytest.approx(row['files'][0]['percent'], abs=1e-3)
    whole = json.loads(millrace('diff', '--json', *words[1:]).out)['events'][0]
    alone = sum(entry['files'][0]['period'] for entry in whole['entries'] if not entry['files'][1])
    assert event['totals'] == [whole['totals'][0] - alone, whole['totals'][1]]
    assert row['files'][1] == [entry['files'][1] for entry in whole['entries'] if entry['sym'] == 'inner'][0]


EVENT_DESC = 12


def made_up(path, *events):
    """A recording of one sample for each event of (name, period); 0: none. All count the CPU's clock."""
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 << 16 | 1 | 2 | 4 | 256, bits=1 << 18)
    records = [perf_file.sample(2, number, 4096, 7 << 32 | 7, 1000 + number, period)
               for number, (_, period) in enumerate(events, 1) if period]
    described = perf_file.event_desc(*((name, attr, [number]) for number, (name, _) in enumerate(events, 1)))
    path.write_bytes(perf_file.build([attr] * len(events), {EVENT_DESC: described},
                                     [[number] for number, _ in enumerate(events, 1)], b''.join(records)))
    return path


# Two recordings, and which totals are compared. The n-th event of a name is compared with the n-th of that name in the
# other one, what is left with what has the same number, and nothing twice.
PAIRED = [
    ([('clock', 10), ('clock', 20)], [('clock', 30), ('clock', 40)], [(10, 30), (20, 40)]),
    ([('clock', 10), ('clock', 20)], [('clock', 30)], [(10, 30), (20, 0)]),
    ([('clock', 10)], [('clock:u', 30)], [(10, 30)]),
    ([('clock', 10), ('clock:u', 20)], [('clock:u', 30), ('clock', 40)], [(10, 40), (20, 30)]),
    ([('clock', 10), ('clock:u', 20)], [('clock:u', 30), ('clock:k', 40)], [(10, 40), (20, 30)]),
    ([('clock', 10), ('clock:k', 20)], [('clock:u', 30), ('clock:pp', 40)], [(10, 30), (20, 40)]),
    ([('clock', 0), ('clock', 20)], [('clock', 30), ('clock', 40)], [(20, 40)]),
]


@pytest.mark.parametrize('old,new,wanted', PAIRED)
def test_each_event_is_compared_with_its_own(millrace, tmp_path, old, new, wanted):
    paths = made_up(tmp_path / 'old', *old), made_up(tmp_path / 'new', *new)
    events = json.loads(millrace('diff', '--json', '-s', 'dso', *paths).out)['events']
    assert [tuple(event['totals']) for event in events] == wanted
    millrace('flame', '--diff', *paths, '-o', tmp_path / 'page')
    series = content(tmp_path / 'page')['series']
    pairs = {(sum_of(series[after['baseline']]), sum_of(after)) for after in series if after['baseline'] >= 0}
    assert set(wanted) <= pairs


def sum_of(series):
    return sum(period for _, _, _, period, _ in weights(series))


def test_no_event_in_both(millrace, tmp_path):
    """One line says so, of the page, too."""
    paths = made_up(tmp_path / 'old', ('clock', 10)), made_up(tmp_path / 'new', ('clock', 0))
    for words in ['diff', '--stdio'], ['flame', '--diff', '-o', tmp_path / 'page']:
        done = millrace(*words, *paths)
        assert done.err.count('\n') == 1 and 'old has clock; ' in done.err and 'new has no samples' in done.err
    assert not millrace('flame', '--diff', paths[0], paths[0], '-o', tmp_path / 'page').err
