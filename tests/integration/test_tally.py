# SPDX-License-Identifier: MIT
"""
How tests are counted. tools/tally: a test that failed and passed when it was run once more counts as passed, and is
named.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

TALLY = pathlib.Path(__file__).resolve().parent.parent.parent / 'tools' / 'tally'
HERE = 'integration.test_tally'


def tally(*args):
    done = subprocess.run([TALLY, *map(str, args)], stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout.splitlines()


def junit(path, *cases):
    """cases: (class, name, None or the text of its failure)."""
    path.parent.mkdir(exist_ok=True)
    text = ''.join(f'<testcase classname="{group}" name="{name}">' +
                   (f'<failure message="no">{failure}</failure>' if failure else '') + '</testcase>'
                   for group, name, failure in cases)
    path.write_text(f'<testsuites><testsuite>{text}</testsuite></testsuites>')
    return path


def test_second_run_decides(tmp_path):
    file = junit(tmp_path / 'gcc-integration.xml', (HERE, 'test_a', None), (HERE, 'test_b[x y]', 'late'),
                 (HERE, 'test_c', 'wrong'))
    assert tally('--repeat', file) == (0, ['tests/integration/test_tally.py::test_b[x y]',
                                           'tests/integration/test_tally.py::test_c'])
    junit(tmp_path / 'again' / file.name, (HERE, 'test_b[x y]', None), (HERE, 'test_c', 'wrong'))
    assert tally('--line', file) == (0, ['2 passed, 1 failed'])
    assert tally(tmp_path) == (1, [f'again: gcc-integration: {HERE}.test_b[x y] passed the second time',
                                   f'failed: gcc-integration: {HERE}.test_c', '2 passed, 1 failed'])


def test_second_run_of_a_group(tmp_path):
    """The first run is by xdist, the second one is not."""
    file = junit(tmp_path / 'asan-programs.xml', (HERE, 'test_a[x@y]@objects', 'late'), (HERE, 'test_b@objects', None))
    assert tally('--repeat', file) == (0, ['tests/integration/test_tally.py::test_a[x@y]'])
    junit(tmp_path / 'again' / file.name, (HERE, 'test_a[x@y]', None))
    assert tally(tmp_path) == (0, [f'again: asan-programs: {HERE}.test_a[x@y] passed the second time',
                                   '2 passed, 0 failed'])


UNIT = 'millrace.millrace:unit+threads / stream'  # as Meson writes it


def test_all_well_the_second_time(tmp_path):
    file = junit(tmp_path / 'gcc-unit.xml', (UNIT, '1 - test_a', 'late'), (UNIT, '2', None))
    assert tally('--repeat', file) == (0, ['stream'])
    junit(tmp_path / 'again' / file.name, (UNIT, '1 - test_a', None), (UNIT, '2', None))
    assert tally('--has-failures', file)[0] == 0
    status, lines = tally(tmp_path)
    assert status == 0 and lines[-1] == '2 passed, 0 failed' and 'test_a passed the second time' in lines[0]


def meson_log(path, **results):
    """What Meson says of each program, beside that JUnit file."""
    path.with_suffix('.json').write_text(''.join(
        json.dumps({'name': f'millrace:unit+threads / {name}', 'result': result}) + '\n'
        for name, result in results.items()))


# A program that was killed, or that took too long: before its first result, as all of cmocka are; between two results.
NO_RESULT = '<testcase name="millrace:unit+threads / unwinding" classname="millrace">{}</testcase>'
ONE_RESULT = '<testcase name="1 - test_a" classname="millrace.millrace:unit+threads / unwinding" />{}'
KILLED = '<system-err>\n(test program exited with status code -11)</system-err>'
WENT_WRONG = {
    'killed at first': ('millrace', NO_RESULT.format('<error />' + KILLED), 'ERROR'),
    'killed': ('millrace.millrace:unit+threads / unwinding', ONE_RESULT.format(KILLED), 'ERROR'),
    'too long at first': ('millrace', NO_RESULT.format('<system-out>1..2</system-out>'), 'TIMEOUT'),
    'too long': ('millrace.millrace:unit+threads / unwinding', ONE_RESULT.format('<system-out>1..2</system-out>'),
                 'TIMEOUT'),
}


@pytest.mark.parametrize('how', WENT_WRONG)
def test_program_that_was_killed(tmp_path, how):
    """Meson names it otherwise than the tests that it is made of, or writes no failure at all into this file."""
    suite, cases, result = WENT_WRONG[how]
    file = junit(tmp_path / 'gcc-unit.xml', (UNIT, '1', None))
    more = f'</testsuite><testsuite name="{suite}">{cases}</testsuite>'
    file.write_text(file.read_text().replace('</testsuite>', more))
    meson_log(file, stream='OK', unwinding=result)
    assert tally('--repeat', file) == (0, ['unwinding'])
    assert tally('--has-failures', file)[0] == 0
    assert tally('--line', file)[1] == ['1 passed, 1 failed' if 'first' in how else '2 passed, 1 failed']
    name = 'millrace.millrace:unit+threads / unwinding'
    assert tally(tmp_path)[1][0] == f'failed: gcc-unit: {name}'
    again = junit(tmp_path / 'again' / file.name, (name, '1 - test_a', None), (name, '2 - test_b', 'wrong'))
    assert tally(tmp_path)[0] == 1
    junit(again, (name, '1 - test_a', None))
    meson_log(again, unwinding='TIMEOUT')
    assert tally(tmp_path)[0] == 1
    junit(again, (name, '1 - test_a', None), (name, '2 - test_b', None))
    meson_log(again, unwinding='OK')
    status, lines = tally(tmp_path)
    assert status == 0 and lines[0] == f'again: gcc-unit: {name} passed the second time'


TAKES_LONG = r"""
project('millrace', 'c')
python = find_program('python3')
test('none', python, args: ['-c', 'import time; time.sleep(60)'], protocol: 'tap', timeout: 1, suite: 'unit')
test('one', python, args: ['-c', 'import time; print("1..2\\nok 1 - test_a", flush=True); time.sleep(60)'],
     protocol: 'tap', timeout: 1, suite: 'unit')
test('well', python, args: ['-c', 'print("1..1\\nok 1 - test_a")'], protocol: 'tap', suite: ['unit', 'threads'])
"""


def test_what_meson_writes_of_a_timeout(tmp_path):
    """Its JUnit file has no word of that, its log has."""
    (tmp_path / 'meson.build').write_text(TAKES_LONG)
    build = tmp_path / 'build'
    for command in ['setup', build, tmp_path], ['test', '-C', build]:
        subprocess.run(['meson', *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    results = tmp_path / 'results'
    results.mkdir()
    shutil.copy(build / 'meson-logs' / 'testlog.junit.xml', results / 'gcc-unit.xml')
    said = tally('--results', build / 'meson-logs' / 'testlog.json')[1]
    assert sorted(json.loads(line)['result'] for line in said) == ['OK', 'TIMEOUT', 'TIMEOUT']
    assert [list(json.loads(line)) for line in said] == 3 * [['name', 'result']]
    (results / 'gcc-unit.json').write_text('\n'.join(said) + '\n')
    status, lines = tally(results)
    assert status == 1 and sorted(lines[:-1]) == ['failed: gcc-unit: millrace.millrace:unit / none',
                                                  'failed: gcc-unit: millrace.millrace:unit / one']
    assert sorted(tally('--repeat', results / 'gcc-unit.xml')[1]) == ['none', 'one']


def test_meson_has_run_nothing(tmp_path):
    assert tally('--results', tmp_path / 'testlog.json') == (0, [])
    file = junit(tmp_path / 'gcc-unit.xml', (UNIT, '1', None))
    file.with_suffix('.json').touch()
    assert tally('--line', file) == (0, ['1 passed, 0 failed'])


def test_check_keeps_the_log_of_meson():
    """Beside the JUnit file, under its name; none of an earlier run."""
    check = (TALLY.parent / 'check').read_text()
    assert 'tools/tally --results "$dir/meson-logs/testlog.json" >"$1/$name.json"' in check
    assert re.search('rm -f .*/meson-logs/testlog.json$', check, re.M)


def test_a_second_run_may_take_as_long():
    """With a sanitizer a test may need more than the 30 s that Meson gives it."""
    commands = re.findall('meson test .*', (TALLY.parent / 'check').read_text())
    assert len(commands) == 2 and all(' -t 10 ' in command for command in commands)


def test_no_second_run(tmp_path):
    """Not for many failures, what a sanitizer says, and files that could not even be collected."""
    many = junit(tmp_path / 'many.xml', *((HERE, f'test_{i}', 'wrong') for i in range(11)))
    certain = junit(tmp_path / 'certain.xml', (HERE, 'test_a', 'wrong'),
                    (HERE, 'test_b', 'Failed: a sanitizer spoke: x'))
    broken = junit(tmp_path / 'broken.xml', ('', 'tests.integration.test_x', 'collection failure'))
    race = junit(tmp_path / 'tsan-unit.xml', (UNIT, '1 - test_a', 'wrong'))
    race.write_text(race.read_text().replace('</testcase>', '</testcase><system-err>WARNING: ThreadSanitizer: data race'
                                             '</system-err>', 1))
    for file in many, certain, broken, race:
        assert tally('--repeat', file) == (0, [])
    assert tally('--line', many) == (0, ['0 passed, 11 failed'])


def test_steps(tmp_path):
    (tmp_path / 'steps').write_text('pass build\nskip no library has it\nfail lint\n')
    assert tally(tmp_path) == (1, ['skipped 1: no library has it', 'failed: lint', '1 passed, 1 failed, 1 skipped'])


def test_a_skipped_unit_test_is_no_failure(program):
    """An ordinary user, who builds a package, cannot run all."""
    test = pathlib.Path(program).parent / 'tests' / 'unit' / 'test_object_file'
    done = subprocess.run(['setpriv', '--bounding-set=-all', '--inh-caps=-all', test], stdout=subprocess.PIPE,
                          text=True, env={**os.environ, 'CMOCKA_MESSAGE_OUTPUT': 'TAP'})
    assert done.returncode == 0
    assert re.search('^ok [0-9]+ # SKIP mounted_file_is_refused$', done.stdout, re.M)
    assert 'not ok' not in done.stdout
