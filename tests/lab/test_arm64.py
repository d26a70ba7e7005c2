# SPDX-License-Identifier: MIT
"""
A second architecture with hardware counters: `make static ARCH=arm64`, run in an emulated arm64 machine beside perf. LAB names the
script that boots it: LAB run --arch arm64 --add FILE:PATH --out DIR -- COMMAND, which leaves what COMMAND wrote to /out in DIR.
Run with: LAB=path pytest-3 -m lab tests/lab
"""
import os
import re
import shlex
import subprocess

import pytest

from conftest import MILLRACE, ROOT

LAB = os.environ.get('LAB')
PROGRAM = ROOT / 'build-static-arm64' / 'millrace'

pytestmark = [pytest.mark.lab,
              pytest.mark.skipif(not LAB, reason='LAB does not name the script that boots an arm64 machine'),
              pytest.mark.skipif(not PROGRAM.exists(), reason='make static ARCH=arm64 was not run')]

CASES = {
    'cycles': '-e cycles -c 200000',
    'instructions': '-e instructions -c 200000',
    'group': "-e {cycles,instructions} -c 200000",
    'user': '-e cycles:u -c 100000',
    'kernel': '-e cycles:k -c 20000',
    'fp': '-e cycles -c 200000 -g',
    'dwarf': '-e cycles:u -c 200000 --call-graph dwarf,1024',
}
LOAD = "sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; dd if=/dev/zero of=/dev/null bs=64k count=2000 2>/dev/null'"


@pytest.fixture(name='recorded', scope='module')
def fixture_recorded(tmp_path_factory):
    """A directory with CASE.perf, CASE.millrace and CASE.report, the latter as printed over there."""
    out = tmp_path_factory.mktemp('arm64')
    script = ['cd /out']
    for name, options in CASES.items():
        quoted = ' '.join(shlex.quote(word) for word in options.split())
        script.append(f'perf record -o {name}.perf {quoted} -- {LOAD} 2>{name}.perf.err')
        script.append(f'millrace record --side-channel=off -o {name}.millrace {quoted} -- {LOAD} 2>{name}.millrace.err')
        script.append(f'millrace report -i {name}.millrace --sort comm,dso --call-graph=none >{name}.report 2>/dev/null')
    done = subprocess.run([LAB, 'run', '--arch', 'arm64', '--cpus', '2', '--icount', '1', '--perf', '--timeout', '400',
                           '--add', f'{PROGRAM}:/bin/millrace', '--out', str(out), '--', '\n'.join(script)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
    assert (out / 'cycles.millrace').exists(), done.stdout
    return out


def nr_samples(perf, path):
    return int(re.search(r'SAMPLE events:\s+(\d+)', perf('report', '-i', path, '--stats').out).group(1))


@pytest.mark.parametrize('case', CASES)
def test_same_attrs(recorded, perf, case):
    def attrs(program):
        text = perf('evlist', '-v', '-i', recorded / f'{case}.{program}').out
        return re.sub(r'\{ \d+, \d+ \}', '', text)
    assert attrs('millrace') == attrs('perf')


@pytest.mark.parametrize('case', CASES)
def test_same_number_of_samples(recorded, perf, case):
    ours, theirs = (nr_samples(perf, recorded / f'{case}.{program}') for program in ('millrace', 'perf'))
    assert theirs > 20 and abs(ours - theirs) <= 0.1 * theirs, (ours, theirs)


@pytest.mark.parametrize('case', CASES)
def test_the_report_is_the_same_here(recorded, run, case):
    here = run([MILLRACE, 'report', '-i', recorded / f'{case}.millrace', '--sort', 'comm,dso', '--call-graph=none'])
    assert here.out == (recorded / f'{case}.report').read_text() and '%' in here.out


@pytest.mark.parametrize('case', ['fp'])  # to unwind stacks takes the objects, which are over there
def test_samples_have_call_chains(recorded, run, case):
    text = run([MILLRACE, 'script', '-i', recorded / f'{case}.millrace']).out
    depths = [len(re.findall(r'^\s+[0-9a-f]+ ', sample, re.M)) for sample in text.strip().split('\n\n')]
    assert max(depths) >= 2
