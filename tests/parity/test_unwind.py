# SPDX-License-Identifier: MIT
"""Call chains of dwarf recordings: unwound from the stack dumps as perf does it."""
import functools
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

INLINED = '''
#include <stdlib.h>

static volatile unsigned long sink;

static inline __attribute__((always_inline)) void innermost(unsigned long rounds)
{
        for (unsigned long i = 0; i < rounds; i++)
                sink += i;
}

static inline __attribute__((always_inline)) void between(unsigned long rounds)
{
        innermost(rounds);
}

static __attribute__((noinline)) void outer(unsigned long rounds)
{
        between(rounds);
        sink++;
}

int main(void)
{
        outer(100000000);
        return 0;
}
'''


def chains(text, word):
    """The call chains of samples in which the word occurs; without the address of no frame that perf puts last."""
    found = [sample for sample in text.split('\n\n') if word in sample]
    return [re.sub(r'\n\tffffffffffffffff .*', '', sample).strip() for sample in found]


def with_real_functions(inlined, plain):
    """perf's chain, with the symbol for the function that has the code: perf names it as the debug information does,
    and calls it "(inlined)" where that is not the symbol's name."""
    real, result = plain.splitlines()[1:], []
    lines = inlined.splitlines()
    for i, line in enumerate(lines[1:], 1):
        outermost = i + 1 == len(lines) or lines[i + 1].split()[0] != line.split()[0]
        result.append(real.pop(0) if outermost else line)
    return '\n'.join([lines[0], *result])


def perf_chains(perf, data, word):
    inlined, plain = (perf('script', *options, '-i', data).out.split('\n\n') for options in ([], ['--no-inline']))
    text = [with_real_functions(*pair) if 'inlined)' in pair[0] else pair[0] for pair in zip(inlined, plain)]
    return chains('\n\n'.join(text), word)


@functools.cache
def behind_pops(path):
    """
    Where straight code has taken the frame pointer from the stack and not yet returned, as script prints it. gcc's
    unwind information says there that the caller's is still on the stack: below the stack pointer, which no dump has.
    """
    found = set()
    code = subprocess.run(['objdump', '-d', '--no-show-raw-insn', path], check=True, capture_output=True, text=True)
    for name, body in re.findall(r'^[0-9a-f]+ <(\S+)>:\n((?:.+\n)*)', code.stdout, re.M):
        lines = re.findall(r'^ *([0-9a-f]+):\t(.*?) *$', body, re.M)
        popped = False
        for address, instruction in lines:
            if popped:
                found.add(f'{name}+{int(address, 16) - int(lines[0][0], 16):#x}')
            popped = instruction.startswith('pop    %rbp') or \
                popped and not re.match(r'ret|j|call|push|leave|mov .*%rsp', instruction)
    return found


def is_cut_by_perf(ours, theirs):
    """perf ends there, behind the caller; the frame pointer is in its register, and leads to where threads begin."""
    innermost = re.match(r'.*\n\s+[0-9a-f]+ (\S+) \((/.*)\)', ours)
    return bool(ours.startswith(theirs + '\n') and theirs.count('\n') == 2 and innermost and
                innermost[1] in behind_pops(innermost[2]) and
                re.search(r' (_start|clone3?)\+0x\w+ \(/.*\)$', ours))


def assert_same_chains(data, word, perf, millrace):
    theirs, ours = perf_chains(perf, data, word), chains(millrace('script', '-i', data).out, word)
    assert len(theirs) > 10
    for left, right in zip(ours, theirs):
        assert left == right or is_cut_by_perf(left, right)
    assert len(ours) == len(theirs)
    return ours


def test_threads(need_root, perf, millrace, programs, tmp_path):
    data = tmp_path / 'perf.data'
    perf('record', '-e', 'cpu-clock:u', '--call-graph', 'dwarf,4096', '-o', data, '--', programs / 'spin', '-t', '2',
         '-m', '100')
    found = assert_same_chains(data, 'spin_outer', perf, millrace)
    assert any(re.search(r'spin_left.*\n.*spin_outer.*\n.*spin_thread.*\n.*start_thread', chain) for chain in found)


def test_kernel_part_comes_first(need_root, perf, millrace, programs, tmp_path):
    data = tmp_path / 'perf.data'
    perf('record', '-e', 'cpu-clock', '--call-graph', 'dwarf', '-o', data, '--', programs / 'syscalls', '-t', '2',
         '-n', '200000')
    # Only of the loop: what libc does for a thread it does in functions written in assembler, of which perf has other
    # names.
    found = assert_same_chains(data, ' work+', perf, millrace)
    assert any('entry_SYSCALL_64' in chain for chain in found)


POPS = '''
static volatile unsigned long sink, more;

static __attribute__((noinline)) unsigned long leaf(unsigned long x)
{
        return x * 3 + 1;
}

static __attribute__((noinline)) void outer(void)
{
        unsigned long x = leaf(sink);

        sink = x;
        more = x / 3;
        sink = more % 5;
        more = sink / 7;
}

static __attribute__((noinline)) void rounds(unsigned long nr)
{
        for (unsigned long i = 0; i < nr; i++)
                outer();
}

int main(void)
{
        rounds(20000000);
        return 0;
}
'''


def test_behind_the_pop_of_the_frame_pointer(need_root, perf, millrace, tmp_path):
    """Where perf ends in some functions that have taken their frame down, chains are whole."""
    (tmp_path / 'pops.c').write_text(POPS)
    program, data = tmp_path / 'pops', tmp_path / 'perf.data'
    subprocess.run(['gcc', '-O2', '-fno-omit-frame-pointer', '-o', program, tmp_path / 'pops.c'], check=True)
    perf('record', '-e', 'cpu-clock:u', '--call-graph', 'dwarf,4096', '-o', data, '--', program)
    found = assert_same_chains(data, 'outer', perf, millrace)
    for chain in found:
        assert re.search(r'\n\s+\w+ outer.*\n\s+\w+ rounds.*\n\s+\w+ main.*\n(.*\n)*.* _start\+', chain)
    if os.uname().machine == 'x86_64':
        popped = behind_pops(program)
        assert len([chain for chain in found if chain.splitlines()[1].split()[1] in popped]) > 10


RECURSION = """
#include <time.h>

static volatile unsigned long sink;

static __attribute__((noinline)) void burn(void)
{
        for (unsigned long i = 0; i < 10000000; i++)
                sink += i;
}

static __attribute__((noinline)) void deeper(unsigned left)
{
        if (left)
                deeper(left - 1);
        else
                burn();
        sink++;
}

int main(void)
{
        while (clock() < CLOCKS_PER_SEC * 3 / 10)
                deeper(1500);
        return 0;
}
"""


def test_max_stack(need_root, perf, millrace, tmp_path):
    """So many frames are unwound, from the innermost on, in either order of callers; 127 where nothing is said."""
    (tmp_path / 'recursion.c').write_text(RECURSION)
    program, data, ours = tmp_path / 'recursion', tmp_path / 'perf.data', tmp_path / 'chains.data'
    subprocess.run(['gcc', '-O1', '-fno-optimize-sibling-calls', '-o', program, tmp_path / 'recursion.c'], check=True)
    perf('record', '-F', '500', '-e', 'cpu-clock:u', '--call-graph', 'dwarf,65528', '-o', data, '--', program)
    for most, *options in [127], [3, '--max-stack', '3'], [128, '--max-stack', '128'], [1000, '--max-stack', '1000']:
        common = [*options, '--no-inline', '-i', data]
        mine, theirs = (chains(tool('script', '-F', 'comm,ip,sym', *common).out, ' burn') for tool in (millrace, perf))
        assert len(mine) > 30 and mine == theirs
        assert {chain.count('\n') for chain in mine} == {most}
        for order in 'caller', 'callee':
            table = [*common, '--stdio', '--no-children', '-S', 'burn', '-g', f'{order},0.5']
            mine, theirs = ([line for line in tool('report', *table).out.splitlines() if line and line[0] != '#']
                            for tool in (millrace, perf))
            assert mine == theirs and len(mine) > most
    millrace('unwind', '--max-stack', '1000', '-i', data, '-o', ours)
    found = chains(millrace('script', '-F', 'comm,ip,sym', '-i', ours).out, ' burn')
    assert len(found) > 30 and {chain.count('\n') for chain in found} == {1000}


def test_inlined_functions(need_root, perf, millrace, tmp_path):
    (tmp_path / 'inlined.c').write_text(INLINED)
    program = tmp_path / 'inlined'
    subprocess.run(['gcc', '-g', '-O2', '-o', program, tmp_path / 'inlined.c'], check=True)
    data = tmp_path / 'perf.data'
    perf('record', '-e', 'cpu-clock:u', '--call-graph', 'dwarf', '-o', data, '--', program)
    found = assert_same_chains(data, 'outer', perf, millrace)
    assert any(re.search(r'innermost\+0x\w+ \(inlined\)\n.*between\+0x\w+ \(inlined\)\n.*outer\S*\+0x\w+ \(/', chain)
               for chain in found)
    table = millrace('report', '-g', 'none', '-i', data).out
    assert re.search(r'inlined +\[\.\] innermost \(inlined\)', table)


NAMESPACES = '''
#include <algorithm>
#include <vector>

namespace outside {
namespace {
__attribute__((noinline)) unsigned long long_work(unsigned long rounds)
{
        std::vector<unsigned> values(512);
        unsigned long sum = 0;

        for (unsigned long i = 0; i < rounds; i++) {
                std::generate(values.begin(), values.end(), [&] { return sum = sum * 1103515245 + 12345; });
                std::sort(values.begin(), values.end(), [](unsigned a, unsigned b) { return (a ^ 5) < (b ^ 5); });
                sum += values[3];
        }
        return sum;
}
}
struct holder {
        __attribute__((noinline)) unsigned long call(unsigned long rounds) { return long_work(rounds) + 1; }
};
}

int main()
{
        return outside::holder().call(20000) == 3;
}
'''


def test_inlined_templates(need_root, perf, millrace, tmp_path):
    """As many functions for each address as addr2line knows; perf 6.1 leaves some out."""
    (tmp_path / 'names.cc').write_text(NAMESPACES)
    program = tmp_path / 'names'
    subprocess.run(['g++', '-g', '-O2', '-o', program, tmp_path / 'names.cc'], check=True)
    data = tmp_path / 'perf.data'
    perf('record', '-e', 'cpu-clock:u', '--call-graph', 'dwarf', '-o', data, '--', program)
    found = {}
    for chain in chains(millrace('script', '-i', data).out, 'long_work'):
        frames = re.findall(r'^\t +([0-9a-f]+) (.*)', chain, re.M)
        address = frames[0][0]
        functions = next((i for i, frame in enumerate(frames) if frame[0] != address), len(frames))
        if all('.so' not in frame[1] for frame in frames[:functions]):
            found[address] = min(functions, found.get(address, functions))
    assert len(found) > 10
    reported = subprocess.run(['addr2line', '-a', '-f', '-i', '-e', program, *found], check=True, capture_output=True,
                          text=True)
    # An address, then two lines for each function.
    known = [len(part.splitlines()) // 2 for part in re.split(r'^0x[0-9a-f]+\n', reported.stdout, flags=re.M)[1:]]
    assert list(found.values()) == known
    assert max(known) > 2



SIGNALS = '''
#include <signal.h>
#include <sys/time.h>

static volatile unsigned long sink, left = 100;

static __attribute__((noinline)) void in_handler(void)
{
        for (unsigned long i = 0; i < 2000000; i++)
                sink += i;
        if (left)
                left--;
}

/* Once, and again when the handler is done: nothing else would run where it takes longer than the timer. */
static void set_timer(void)
{
        const struct itimerval once = {.it_value = {0, 1000}};

        setitimer(ITIMER_REAL, &once, 0);
}

static void handler(int nr)
{
        (void)nr;
        in_handler();
        set_timer();
}

static __attribute__((noinline)) void interrupted(void)
{
        while (left)
                sink++;
}

int main(void)
{
        signal(SIGALRM, handler);
        set_timer();
        interrupted();
        return 0;
}
'''


def test_signal_handler(need_root, perf, millrace, tmp_path):
    (tmp_path / 'signals.c').write_text(SIGNALS)
    program = tmp_path / 'signals'
    subprocess.run(['gcc', '-g', '-O1', '-o', program, tmp_path / 'signals.c'], check=True)
    data = tmp_path / 'perf.data'
    perf('record', '-e', 'cpu-clock:u', '--call-graph', 'dwarf', '-o', data, '--', program)
    theirs, ours = perf_chains(perf, data, 'in_handler'), chains(millrace('script', '-i', data).out, 'in_handler')
    # perf asks for the name of what the handler returns to one byte before it.
    assert [re.sub(r'\w+ \[unknown\] \(.*libc', 'libc', chain) for chain in theirs] == \
        [re.sub(r'\w+ __restore_rt\+0x0 \(.*libc', 'libc', chain) for chain in ours]
    assert any(re.search(r'in_handler.*\n.*handler.*\n.*__restore_rt.*\n.*interrupted.*\n.*main', chain)
               for chain in ours)


def test_bundle(need_root, perf, millrace, tmp_path):
    """What was recorded is deleted: its names, and its unwind tables, are in the bundle. perf finds them there, too."""
    (tmp_path / 'inlined.c').write_text(INLINED)
    program, data, home = tmp_path / 'inlined', tmp_path / 'perf.data', tmp_path / 'home'
    subprocess.run(['gcc', '-g', '-O2', '-o', program, tmp_path / 'inlined.c'], check=True)
    home.mkdir()
    millrace('record', '-e', 'cpu-clock', '--call-graph', 'dwarf', '--bundle', '-o', data, '--', program)
    before = millrace('script', '-i', data, env={'HOME': str(home)}).out
    program.unlink()
    assert millrace('script', '-i', data, env={'HOME': str(home)}).out == before
    assert re.search(r'innermost\S+ \(inlined\)\n.*between\S+ \(inlined\)\n.*outer\.constprop\.0\+', before)
    assert ' outer+' in perf('--buildid-dir', f'{data}.bundle', 'script', '-i', data, env={'HOME': str(home)}).out
    moved = tmp_path / 'moved.data'
    data.rename(moved)
    assert 'outer' not in millrace('script', '-i', moved, env={'HOME': str(home)}).out


def test_bundle_has_what_was_removed(need_root, millrace, tmp_path):
    (tmp_path / 'inlined.c').write_text(INLINED)
    program, data = tmp_path / 'inlined', tmp_path / 'perf.data'
    subprocess.run(['gcc', '-g', '-O2', '-o', program, tmp_path / 'inlined.c'], check=True)
    code = program.read_bytes()
    millrace('record', '-e', 'cpu-clock', '--bundle', '-o', data, '--', 'sh', '-c', f'{program}; rm {program}')
    kept = [path for path in (tmp_path / 'perf.data.bundle').rglob('*/inlined/*/elf')]
    assert [path.read_bytes() for path in kept] == [code]


@pytest.mark.parametrize('options', [['-B'], ['--buildid-mmap'], ['--switch-output=1s'], ['--flight=1s'], ['-o', '-']])
def test_bundle_needs_one_file_with_build_ids(millrace, tmp_path, options):
    done = millrace('record', '--bundle', '-o', tmp_path / 'perf.data', *options, '--', 'true', status=129)
    assert '--bundle' in done.err


# What perf finds, and all of it: C++ with exceptions, realigned stacks, handlers with and without a stack of their own.
@pytest.mark.parametrize('name', ['c++', 'avx2', 'signals', 'sigaltstack', 'static-pie'])
def test_agreement(need_root, perf, program, name):
    """Address by address; the other programs of bench/unwind-agreement take longer or need what is seldom installed."""
    command = [ROOT / 'bench' / 'unwind-agreement', '--seconds', '2', name]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, 'MILLRACE': str(program)}).stdout
    samples, same, longer, and_whole, shorter, data, signal, other = re.search(
        rf'^{re.escape(name)} +(\d+) +([0-9.]+)% +(\d+)/(\d+) +(\d+) +(\d+) +(\d+) +(\d+)', text, re.M).groups()
    assert int(samples) > 20
    assert [int(kind) for kind in (shorter, other)] == [0, 0], text
    # Between the pop of a register and the return perf looks for its value below the stack pointer, and ends.
    assert longer == and_whole and int(longer) <= int(samples) / 50, text
    # While an exception is thrown the unwind information of libgcc is wrong for a few instructions.
    assert int(data) <= 1 + int(samples) / 50, text
    assert float(same) == 100 or int(longer) or int(data) or 'sig' in name and int(signal)


def test_recorded_by_millrace(need_root, perf, millrace, programs, tmp_path):
    data = tmp_path / 'perf.data'
    millrace('record', '-e', 'cpu-clock:u', '--call-graph', 'dwarf', '-o', data, '--', programs / 'spin', '-t', '2',
             '-m', '100')
    assert_same_chains(data, 'spin_outer', perf, millrace)
