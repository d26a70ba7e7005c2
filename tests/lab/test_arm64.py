# SPDX-License-Identifier: MIT
"""
A second architecture with hardware counters: what `make static ARCH=arm64` built, run in an emulated arm64 machine
beside perf. LAB names the script that boots it: LAB run --arch arm64 --cpus 2 --icount 1 --perf --timeout SECONDS
--add FILE:PATH --out DIR -- COMMAND puts FILE and Debian's perf into the machine, runs COMMAND there as root (icount:
the time there is that of instructions, and they are counted), and leaves what COMMAND wrote to /out in DIR.
Run with: make static ARCH=arm64 && LAB=path make check-lab
"""
import os
import re
import shlex
import subprocess

import pytest

from conftest import MILLRACE, ROOT

LAB = os.environ.get('LAB')
BUILD = ROOT / 'build-static-arm64'

pytestmark = [pytest.mark.lab,
              pytest.mark.skipif(not LAB, reason='LAB does not name the script that boots an arm64 machine'),
              pytest.mark.skipif(not (BUILD / 'millrace').exists(), reason='make static ARCH=arm64 was not run')]

CASES = {
    'cycles': '-e cycles -c 200000',
    'instructions': '-e instructions -c 50000',
    'group': '-e {cycles,instructions} -c 100000',
    'cycles-user': '-e cycles:u -c 200000',
    'cycles-kernel': '-e cycles:k -c 20000',
    'instructions-user': '-e instructions:u -c 50000',
    'instructions-kernel': '-e instructions:k -c 20000',
    'group-user': '-e {cycles,instructions}:u -c 100000',
    'group-kernel': '-e {cycles,instructions}:k -c 50000',
    'cycles-fp': '-e cycles -c 200000 --call-graph fp',
    'cycles-dwarf': '-e cycles -c 200000 --call-graph dwarf,1024',
    'instructions-fp': '-e instructions -c 50000 --call-graph fp',
    'instructions-dwarf': '-e instructions -c 200000 --call-graph dwarf,1024',
    'group-fp': '-e {cycles,instructions} -c 200000 --call-graph fp',
    'group-dwarf': '-e {cycles,instructions} -c 200000 --call-graph dwarf,1024',
}
FP = [case for case in CASES if case.endswith('-fp')]
GRAPHS = FP + [case for case in CASES if case.endswith('-dwarf')]
LOAD = '/bin/steps 2000 1000'  # long: qemu looks for overflows of instructions in user space at each tick only
REPORT = ['--sort', 'comm,dso,symbol']
OBJECTS = ['bin/steps', 'bin/millrace', 'usr/bin/perf']  # what runs there, for the symbols here


@pytest.fixture(name='recorded', scope='module')
def fixture_recorded(tmp_path_factory):
    """A directory with CASE.perf and CASE.millrace, what was reported over there, and the objects of that machine."""
    out = tmp_path_factory.mktemp('arm64')
    script = ['cd /out; uname -m >machine; cat /proc/kallsyms >kallsyms; mkdir -p objects/bin objects/usr/bin']
    script += [f'cp /{path} objects/{path}' for path in OBJECTS]
    for name, options in CASES.items():
        quoted = ' '.join(shlex.quote(word) for word in options.split())
        script.append(f'perf record -o {name}.perf {quoted} -- {LOAD} 2>{name}.perf.err')
        script.append(f'millrace record --side-channel=off -o {name}.millrace {quoted} -- {LOAD} 2>{name}.millrace.err')
        script.append(f'millrace report -i {name}.millrace {" ".join(REPORT)} >{name}.report 2>{name}.report.err')
    for name in GRAPHS:
        script.append(f'millrace script -i {name}.millrace >{name}.script 2>{name}.script.err')
    for name in FP:
        script.append(f'perf script -i {name}.millrace >{name}.perf-script 2>{name}.perf-script.err')
    done = subprocess.run([LAB, 'run', '--arch', 'arm64', '--cpus', '2', '--icount', '1', '--perf', '--timeout', '900',
                           '--add', f'{BUILD}/millrace:/bin/millrace', '--add', f'{BUILD}/tests/lab/steps:/bin/steps',
                           '--out', str(out), '--', '\n'.join(script)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
    assert (out / 'machine').exists(), done.stdout
    assert (out / 'machine').read_text() == 'aarch64\n'
    return out


@pytest.fixture(name='there')
def fixture_there(recorded, run):
    """there('report', case) -> Done: millrace here, on a recording from there, with its objects."""
    objects = ['--symfs', recorded / 'objects', '--kallsyms', recorded / 'kallsyms']
    return lambda command, case, *args: run([MILLRACE, command, '-i', recorded / f'{case}.millrace', *objects, *args])


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
def test_the_report_is_the_same_here(recorded, there, case):
    over_there = (recorded / f'{case}.report').read_text()
    assert 'steps_' in over_there or case.endswith('kernel')
    assert there('report', case, *REPORT).out == over_there


@pytest.mark.parametrize('case', GRAPHS)
def test_the_chains_are_the_same_here(recorded, there, case):
    over_there = (recorded / f'{case}.script').read_text()
    assert re.search(r'steps_leaf.*\n.*steps_middle.*\n.*steps_outer.*\n.*main', over_there)
    assert there('script', case).out == over_there


# perf there cannot be asked for dwarf: its libunwind gives up after one step, and it dies without addr2line.
@pytest.mark.parametrize('case', FP)
def test_the_chains_of_leaves_are_those_of_perf(recorded, case):
    """Elsewhere perf puts in what the link register was left with: docs/differences-from-perf.md."""
    def chains(program):
        text = (recorded / f'{case}.{program}').read_text()
        found = [re.findall(r'^\s+[0-9a-f]+ (\S+)', sample, re.M) for sample in text.split('\n\n')]
        return [chain for chain in found if chain and chain[0].startswith('steps_leaf')]
    assert len(chains('perf-script')) > 5
    assert chains('script') == chains('perf-script')
