# SPDX-License-Identifier: MIT
"""`millrace unwind`: call chains in place of stack dumps. What it writes says to perf what the dumps said to perf."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import perf_file  # noqa: E402
from conftest import wait_until  # noqa: E402
from perfdata import CALLCHAIN, LEDGER, SAMPLE, PerfData, sections_of  # noqa: E402

ERROR, USAGE = 255, 129
REGS_USER, STACK_USER = 1 << 12, 1 << 13
SECRET = b'STACK-SECRET'


@pytest.fixture(scope='module')
def dumps(need_root, perf, programs, tmp_path_factory):
    """A recording of perf: one event with stack dumps, one without."""
    path = tmp_path_factory.mktemp('unwind') / 'dumps'
    events = 'cpu-clock/call-graph=dwarf,stack-size=8192/,page-faults/call-graph=no/'
    perf('record', '-F', '500', '-e', events, '-o', path, '--', programs / 'deep', '-m', '200', '-c', '1')
    return path


@pytest.fixture(scope='module')
def ours(need_root, millrace, programs, tmp_path_factory):
    """The same of millrace, compressed."""
    path = tmp_path_factory.mktemp('unwind') / 'ours'
    millrace('record', '-z', '-F', '500', '-e', 'cpu-clock', '--call-graph', 'dwarf', '-o', path, '--',
             programs / 'deep', '-m', '200', '-c', '1')
    return path


@pytest.fixture(scope='module')
def chains(dumps, millrace):
    path = dumps.parent / 'chains'
    done = millrace('unwind', '-i', dumps, '-o', path)
    assert done.out == '' and re.search(r'chains: \d+ stacks unwound', done.err)
    return path


def samples(text, word):
    """What script printed of the samples with that word; without the address of no frame that perf puts last, and
    without samples that have no chain, which take one line."""
    text = re.sub(r'^.*page-faults.*\n', '', text, flags=re.M)
    return [re.sub(r'\n\tffffffffffffffff .*', '', sample) for sample in text.split('\n\n') if word in sample]


def without_inlined(text):
    return re.sub(r'\n[^\n]*\(inlined\)', '', text)


def test_perf_prints_the_same_chains(dumps, chains, perf):
    before, after = (samples(perf('script', '--no-inline', '-i', path).out, 'deep_burn') for path in (dumps, chains))
    assert len(before) > 50 and after == before
    assert all(sample.count('deep_call+') == 21 and ' _start+' in sample for sample in after)


@pytest.mark.parametrize('registers', ['ip,sp,bp', 'ip,sp,bp,bx,r12,r13,r14,r15'])
def test_some_registers(registers, perf, millrace, programs, tmp_path):
    """Compilers' code needs no more than the stack pointer and what it pushes."""
    data, out = tmp_path / 'data', tmp_path / 'out'
    perf('record', '-q', '-F', '500', '-e', 'cpu-clock:u', '--call-graph', 'dwarf', f'--user-regs={registers}', '-o',
         data, '--', programs / 'deep', '-m', '200')
    theirs = samples(perf('script', '--no-inline', '-i', data).out, 'deep_burn')
    done = millrace('unwind', '-i', data, '-o', out)
    assert 'had no stack' not in done.err
    assert len(theirs) > 50 and samples(perf('script', '--no-inline', '-i', out).out, 'deep_burn') == theirs


def test_all_else_stays(dumps, chains, perf, millrace):
    before, after = PerfData(dumps), PerfData(chains)
    for old, new in zip(before.attrs, after.attrs):
        dumped = old.sample_type & STACK_USER
        without = old.sample_type & ~(REGS_USER | STACK_USER)
        assert new.sample_type == (without | CALLCHAIN if dumped else old.sample_type)
        assert new.ids == old.ids
    assert after.features == before.features
    # Every record, but for marks, which are where the writer wants them.
    stats = [millrace('report', '--stats', '-i', path).out for path in (dumps, chains)]
    counts = [re.findall(r'^ *(?!TOTAL|FINISHED_ROUND)(\w+) events: +(\d+)', text, re.M) for text in stats]
    assert counts[0] == counts[1]
    assert perf('buildid-list', '-i', chains).out == perf('buildid-list', '-i', dumps).out
    assert chains.stat().st_size * 10 < dumps.stat().st_size
    assert SECRET in dumps.read_bytes() and SECRET not in chains.read_bytes()
    assert all(record.body.count(SECRET) == 0 for record in after.records() if record.type == SAMPLE)


def test_our_own_files(ours, perf, millrace, tmp_path):
    """Compressed; the ledger stays. Our reader unwinds as the command does."""
    out = tmp_path / 'chains'
    millrace('unwind', '-i', ours, '-o', out)
    assert LEDGER in sections_of(out.read_bytes())
    assert millrace('script', '-i', out).out == without_inlined(millrace('script', '-i', ours).out)
    found = samples(perf('script', '--no-inline', '-i', out).out, 'deep_burn')
    assert len(found) > 50 and all(' _start+' in sample for sample in found)
    assert 'deep_call' in perf('report', '--stdio', '-g', 'caller', '-i', out).out


PROGRAM_OF_BOTH = """
#include <time.h>
volatile int sink;
__attribute__((noinline)) void leaf(int n) { for (int i = 0; i < 50; i++) sink += n * i; }
__attribute__((noinline)) void middle(int n) { for (int i = 0; i < 100; i++) leaf(n + i); sink++; }
int main(void) { for (int i = 0; clock() < CLOCKS_PER_SEC * 3 / 10; i++) middle(i); return 0; }
"""


@pytest.mark.skipif(not shutil.which('gcc'), reason='gcc is not installed')
def test_code_that_only_debug_frame_describes(need_root, perf, millrace, tmp_path):
    """.eh_frame has _start and the PLT: what the linker and the C library's objects add to a program without any."""
    app, dumps, chains = tmp_path / 'both', tmp_path / 'dumps', tmp_path / 'chains'
    subprocess.run(['gcc', '-O2', '-g', '-fno-asynchronous-unwind-tables', '-x', 'c', '-o', app, '-'],
                   input=PROGRAM_OF_BOTH, check=True, text=True)
    perf('record', '-F', '500', '-e', 'cpu-clock:u', '--call-graph', 'dwarf', '-o', dumps, '--', app)
    millrace('unwind', '-i', dumps, '-o', chains)
    text = millrace('script', '-i', chains, '-F', 'ip,sym').out
    found = [' '.join(re.findall(r'^\s+\w+ (leaf|middle|main|_start)$', sample, flags=re.M))
             for sample in text.split('\n\n') if ' leaf\n' in sample]
    assert len(found) > 5 and set(found) == {'leaf middle main _start'}


def test_code_in_many_segments(need_root, perf, millrace, tmp_path):
    """As sections at addresses of their own have: an executable segment each."""
    app, dumps, chains = tmp_path / 'many', tmp_path / 'dumps', tmp_path / 'chains'
    functions = [f'f{i}' for i in range(20)]
    bodies = ['unsigned sum = 0; for (volatile int i = 0; i < 100000000; i++) sum += i; return sum;',
              *(f'return {callee}() + {i};' for i, callee in enumerate(functions))]
    source = ''.join(f'__attribute__((noinline, section(".{name}"))) unsigned {name}(void) {{ {body} }}\n'
                     for name, body in zip(functions, bodies))
    starts = [f'-Wl,--section-start=.{name}={0x10000000 + i * 0x1000000:#x}' for i, name in enumerate(functions)]
    subprocess.run(['gcc', '-O1', '-no-pie', *starts, '-x', 'c', '-o', app, '-'], check=True, text=True,
                   input=source + f'int main(void) {{ return !{functions[-1]}(); }}')
    perf('record', '-F', '500', '-e', 'cpu-clock:u', '--call-graph', 'dwarf', '-o', dumps, '--', app)
    millrace('unwind', '-i', dumps, '-o', chains)
    text = millrace('script', '-i', chains, '-F', 'ip,sym').out
    found = [re.findall(r'^\s+\w+ (f\d+|main)$', sample, flags=re.M)
             for sample in text.split('\n\n') if ' f0\n' in sample]
    assert len(found) > 5 and all(names == [*functions, 'main'] for names in found), found[:2]


def test_directories_and_pipes(ours, perf, millrace, programs, tmp_path):
    directory, pipe = tmp_path / 'directory', tmp_path / 'pipe'
    load = ['--', programs / 'deep', '-m', '100']
    dwarf = ['-F', '500', '--call-graph', 'dwarf']
    millrace('record', '--threads', '-a', '-e', 'cpu-clock', *dwarf, '-o', directory, *load)
    pipe.write_bytes(perf('record', '-e', 'cpu-clock,page-faults', *dwarf, '-o', '-', *load, binary=True).out)
    for path in directory, pipe:
        out = tmp_path / f'{path.name}.chains'
        millrace('unwind', '-i', path, '-o', out)
        # Of this program: files of others may be replaced between the two.
        before, after = (without_inlined(millrace('script', '--comm', 'deep', '-i', each).out) for each in (path, out))
        assert before == after and 'deep_burn' in after
        assert samples(perf('script', '-i', out).out, 'deep_burn')
    streamed = tmp_path / 'streamed'
    millrace('unwind', '-i', '-', '-o', streamed, input=pipe.read_bytes())
    assert streamed.read_bytes() == (tmp_path / 'pipe.chains').read_bytes()


def test_output_has_its_name_when_it_is_whole(perf, program, programs, spawn, tmp_path):
    """However it ends before, what was there is still there, and a part is under no name of a recording."""
    stream = perf('record', '-e', 'cpu-clock', '-F', '500', '--call-graph', 'dwarf', '-o', '-', '--',
                  programs / 'deep', '-m', '100', binary=True).out
    for how in signal.SIGKILL, signal.SIGTERM:
        directory = tmp_path / how.name
        directory.mkdir()
        out = directory / 'out'
        out.write_bytes(b'what was there')
        process = spawn([program, 'unwind', '-i', '-', '-o', out], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdin.write(stream[:-1000])  # records are given when later ones came, or the stream has ended
        process.stdin.flush()
        wait_until(lambda: len(os.listdir(directory)) == 2, 'the output is begun')
        process.send_signal(how)
        process.wait()
        assert out.read_bytes() == b'what was there'
        names = sorted(os.listdir(directory))
        assert re.fullmatch(r'\.millrace-[0-9a-f]{16} out', ' '.join(names)), names


def test_frames_farthest_out_are_left_out(dumps, perf, millrace, tmp_path):
    out = tmp_path / 'short'
    done = millrace('unwind', '--max-stack', '4', '-i', dumps, '-o', out)
    said = re.search(r'(\d+) of (\d+) stacks have more than 4 frames: --max-stack', done.err)
    assert said and int(said[1]) > int(said[2]) / 2, done.err
    found = samples(perf('script', '--no-inline', '-i', out).out, 'deep_burn')
    assert len(found) > 50
    for sample in found:
        assert len(sample.strip().splitlines()) == 1 + 4


def test_frames_of_the_kernel_count_too(perf, millrace, programs, tmp_path):
    """A chain without the program's outermost frames is not whole, no matter whose frames took the room."""
    data, out = tmp_path / 'data', tmp_path / 'out'
    perf('record', '-q', '-e', 'raw_syscalls:sys_enter', '-c', '1', '--call-graph', 'dwarf,32768', '-o', data, '--',
         '/usr/bin/python3', '-c', 'import json')

    def unwind(*args):
        said = millrace('unwind', *args, '-i', data, '-o', out).err
        text = millrace('script', '-i', out, '-F', 'ip,sym').out
        return (int(re.search(r'(\d+) of them whole', said)[1]), said,
                [sample.strip().split('\n') for sample in text.split('\n\n') if sample.strip()])

    whole, _, chains = unwind()
    cut = len(chains) - whole
    assert whole > 100 and sum('syscall' in line for chain in chains for line in chain) >= len(chains)
    for most in 8, 12, 16, 20:
        now, said, limited = unwind('--max-stack', str(most))
        short = sum(len(chain) <= most for chain in chains)
        assert short - cut <= now <= short and max(map(len, limited)) == most, (most, now, short, cut)
        assert f'have more than {most} frames' in said


def one_line(done, *texts):
    assert done.out == '' and done.err.count('\n') == 1, done
    for text in texts:
        assert text in done.err, done


def test_earlier_outputs_are_removed(dumps, millrace, tmp_path):
    """One of them is kept, as out.old."""
    for _ in range(4):
        millrace('unwind', '-i', dumps, '-o', tmp_path / 'out')
    assert {path.name for path in tmp_path.iterdir()} == {'out', 'out.old'}


def test_what_is_refused(dumps, chains, millrace, tmp_path):
    out = tmp_path / 'out'
    one_line(millrace('unwind', '-i', chains, '-o', out, status=ERROR), 'no stacks', '--call-graph dwarf')
    one_line(millrace('unwind', '-i', dumps, '-o', dumps, status=USAGE), 'give another -o')
    one_line(millrace('unwind', '-i', dumps, status=USAGE), '-o FILE')
    one_line(millrace('unwind', '-i', dumps, '-o', '-', status=USAGE), 'not a pipe')
    one_line(millrace('unwind', dumps, '-o', out, status=USAGE), '-i')
    one_line(millrace('unwind', '-i', dumps, '-o', out, '--max-stack', '0', status=USAGE), '1 to 1024')
    assert not out.exists()


def test_damage_is_reported_and_the_rest_kept(dumps, millrace, tmp_path):
    cut, out = tmp_path / 'cut', tmp_path / 'out'
    data = dumps.read_bytes()
    cut.write_bytes(data[:len(data) // 2])
    cut.chmod(0o600)
    done = millrace('unwind', '-i', cut, '-o', out, status=ERROR)
    assert 'offset' in done.err or 'cut' in done.err
    assert millrace('script', '-i', out).out.count('deep_burn') > 10


def test_other_architecture(millrace, tmp_path):
    """Stacks of riscv64 are not unwound, and not called those of 32-bit programs."""
    attr = perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2 | REGS_USER | STACK_USER, regs_user=3,
                          stack_user=16)
    words = (0x1000, 7 << 32 | 7, 2, 0x1000, 0x2000, 16, 0, 0, 16)
    (tmp_path / 'data').write_bytes(perf_file.build([attr], {6: perf_file.string('riscv64')},
                                                    records=perf_file.sample(2, *words) + perf_file.FINISHED_ROUND))
    said = millrace('unwind', '-i', tmp_path / 'data', '-o', tmp_path / 'out').err
    assert re.search('1 of 1 stacks .*an architecture that is not unwound', said), said
