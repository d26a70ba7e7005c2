# SPDX-License-Identifier: MIT
"""
A second architecture with hardware counters: what `make static ARCH=arm64` built, run in an emulated arm64 machine
beside perf, which tools/lab boots with Debian's kernel and perf (with icount: the time there is that of instructions,
and they are counted). LAB names another script that takes the same options.
Run with: make check-arm64
"""
import os
import re
import shlex
import subprocess

import pytest

from conftest import MILLRACE, ROOT

LAB = os.environ.get('LAB') or ROOT / 'tools' / 'lab'
BUILD = ROOT / 'build-static-arm64'

pytestmark = [pytest.mark.lab,
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
SHORT = '/bin/steps 2000 10'
REPORT = ['--sort', 'comm,dso,symbol']
OBJECTS = ['bin/steps', 'bin/millrace', 'usr/bin/perf']  # what runs there, for the symbols here


def run_there(out, script, icount):
    """Lines of a shell script, on that machine; what they write to /out is in `out`."""
    done = subprocess.run([LAB, 'run', '--arch', 'arm64', '--cpus', '2', *icount, '--perf', '--timeout', '900',
                           *(word for name in ('steps', 'steps_signed', 'trap')
                             for word in ('--add', f'{BUILD}/tests/lab/{name}:/bin/{name}')),
                           '--add', f'{BUILD}/millrace:/bin/millrace',
                           '--out', str(out), '--', '\n'.join(['cd /out; uname -m >machine', *script])],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
    assert (out / 'machine').exists(), done.stdout
    assert (out / 'machine').read_text() == 'aarch64\n'
    return out


@pytest.fixture(name='recorded', scope='module')
def fixture_recorded(tmp_path_factory):
    """A directory with CASE.perf and CASE.millrace, what was reported over there, and the objects of that machine."""
    script = ['cat /proc/kallsyms >kallsyms; mkdir -p objects/bin objects/usr/bin']
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
    return run_there(tmp_path_factory.mktemp('arm64'), script, ['--icount', '1'])


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


MODES = {
    'serial': '', 'threads': '--threads', 'compressed': '-z', 'threads-compressed': '--threads -z --single-file',
    'signed-dwarf': '--call-graph dwarf,4096', 'signed-unwind': '--call-graph unwind,4096',
}


# What this PMU may not have: precise levels, branch stacks, addresses of data.
ASKED = ['-e cycles:p', '-e cycles:ppp', '-e cycles -b', '-e cycles -j any_call,u', '-e cycles -d',
         '-e cycles --weight', '-e cycles --phys-data', '-e cycles -d --data-page-size', '-e cycles --intr-regs',
         '-e cache-misses -b']


@pytest.fixture(name='modes', scope='module')
def fixture_modes(tmp_path_factory):
    """MODE.data of a counted load, MODE.script of it as said there; killed.data; selftest. In real time."""
    script = []
    for mode, options in MODES.items():
        load = f'/bin/{"steps_signed" if "signed" in mode else "steps"} 8000 10'
        script.append(f'millrace record -e cycles -c 500000 {options} -o {mode}.data -- {load} 2>{mode}.err')
        script.append(f'millrace script -i {mode}.data >{mode}.script 2>{mode}.script.err')
        script.append(f'millrace report --stdio -i {mode}.data >{mode}.report 2>{mode}.report.err')
        if '--threads' not in options or 'single' in options:
            script.append(f'perf script -F comm,ip,sym -i {mode}.data >{mode}.perf-script 2>{mode}.perf-script.err')
    for name in 'unwind', 'dwarf':
        script += [f'millrace record -e cycles -c 500000 --call-graph {name},16384 -o trap-{name}.data -- /bin/trap 100'
                   f' 2>trap-{name}.err', f'millrace script -F ip,sym -i trap-{name}.data >trap-{name}.script 2>&1']
    script += ['millrace record -a -e cycles -c 500000 -o killed.data -- sleep 600 2>/dev/null & recorder=$!',
               # Again and again: the events may be enabled when the first load has ended, and each second is stored.
               'for try in $(seq 60); do /bin/steps 8000 10',
               'millrace script -i killed.data 2>/dev/null | grep -q steps_leaf && break; sleep 0.2; done',
               'kill -9 $recorder; wait',
               'millrace report --stdio -i killed.data >killed.report 2>killed.report.err',
               'millrace recover killed.data 2>killed.recover; perf report --stats -i killed.data >killed.stats 2>&1',
               *(f'{program} record {own} -o asked.data {options} -c 500000 -- {SHORT} 2>asked.{number}.{program}\n'
                 f'echo $? >>asked.{number}.{program}; perf evlist -v -i asked.data >asked.{number}.{program}.attr 2>&1'
                 for number, options in enumerate(ASKED)
                 for program, own in (('millrace', '--side-channel=off'), ('perf', ''))),
               'millrace selftest --quick >selftest 2>&1; echo $? >selftest.status']
    return run_there(tmp_path_factory.mktemp('arm64-modes'), script, [])


@pytest.mark.parametrize('mode', MODES)
def test_each_mode_records_there(modes, mode):
    """The load takes the same cycles in all of them, and nearly all are in its functions."""
    said = re.search(r'captured (\d+) samples.*; lost 0$', (modes / f'{mode}.err').read_text(), re.M)
    assert said, (modes / f'{mode}.err').read_text()
    samples = len(re.findall(r'^\s*(?:steps|perf-exec)', (modes / f'{mode}.script').read_text(), re.M))
    assert samples == int(said[1]) and samples > 20
    assert 'steps_leaf' in (modes / f'{mode}.report').read_text()


@pytest.mark.parametrize('mode', ['serial', 'compressed', 'threads-compressed', 'signed-unwind'])
def test_perf_there_reads_each_mode(modes, mode):
    assert len(re.findall('steps_leaf', (modes / f'{mode}.perf-script').read_text())) == \
        len(re.findall('steps_leaf', (modes / f'{mode}.script').read_text())) > 10


@pytest.mark.parametrize('mode', ['signed-dwarf', 'signed-unwind'])
def test_signed_return_addresses_are_unwound(modes, mode):
    """Pointer authentication: to main, and to what calls it."""
    leaves = [text for text in (modes / f'{mode}.script').read_text().split('\n\n')
              if re.match(r'.*\n(.* \(inlined\)\n)?\s+[0-9a-f]+ steps_leaf', text)]
    whole = [text for text in leaves if re.search(r'steps_leaf.*\n.*steps_middle.*\n.*steps_outer.*\n.* main', text)]
    assert len(leaves) > 10 and len(whole) == len(leaves), (len(whole), leaves[:3])


@pytest.mark.parametrize('name', ['unwind', 'dwarf'])
def test_what_a_signal_interrupts_is_in_the_chain(modes, name):
    """The trampoline has no call frame information, and what it leads to no frame."""
    chains = [re.findall(r'^\s+[0-9a-f]+ (\S+)', text, re.M)
              for text in (modes / f'trap-{name}.script').read_text().split('\n\n')]
    found = [chain for chain in chains if chain and chain[0] == 'trap_work']
    assert len(found) > 20
    for chain in found:
        assert chain[:5] == ['trap_work', 'trap_handler', '__kernel_rt_sigreturn', 'trap_leaf', 'main'], found
        assert chain[-1] == '_start'


def test_a_killed_recorder_leaves_its_file(modes):
    assert 'steps_leaf' in (modes / 'killed.report').read_text()
    assert int(re.search(r'SAMPLE events:\s+(\d+)', (modes / 'killed.stats').read_text())[1]) > 20


def test_selftest_passes_there(modes):
    assert (modes / 'selftest.status').read_text() == '0\n', (modes / 'selftest').read_text()


@pytest.mark.parametrize('number', range(len(ASKED)), ids=ASKED)
def test_what_the_pmu_does_not_have_is_refused_as_by_perf(modes, number):
    ours, theirs = ((modes / f'asked.{number}.{program}').read_text() for program in ('millrace', 'perf'))
    assert (ours.endswith('\n0\n')) == (theirs.endswith('\n0\n')), (ours, theirs)
    if not ours.endswith('\n0\n'):
        assert re.match(r'millrace: event c\S+: .*(branch|precise|PMU)', ours) and ours.count('\n') == 2
        return
    assert re.search(r'captured [1-9]\d* samples.*; lost 0', ours)
    attrs = [re.sub(r'\{ \d+, \d+ \}', '', (modes / f'asked.{number}.{program}.attr').read_text())
             for program in ('millrace', 'perf')]
    assert attrs[0] == attrs[1]
