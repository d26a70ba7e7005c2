# SPDX-License-Identifier: MIT
"""Names of C++, Rust and C functions in dwarf call graphs, as different compilers describe them; other readers as
judges."""
import os
import re
import shutil
import subprocess

import pytest

CXX = r'''
#include <algorithm>
#include <vector>

static volatile unsigned long sink;

namespace ns {
static __attribute__((noinline)) unsigned long total(const std::vector<unsigned> &values)
{
        unsigned long sum = 0;

        for (unsigned pass = 0; pass < 40; pass++)
                for (unsigned value : values)
                        sink = sum = sum * 31 + value;
        return sum;
}

struct Weights {
        unsigned long bias;
        unsigned long operator()(unsigned long value) const
        {
                for (int i = 0; i < 20; i++)
                        sink = value = value * 6364136223846793005ul + bias;
                return value;
        }
};
}

namespace {
void put_in_order(std::vector<unsigned> &values)
{
        std::sort(values.begin(), values.end(), [](unsigned a, unsigned b) { return (a ^ 5) < (b ^ 5); });
}

static inline __attribute__((always_inline)) unsigned long forced(unsigned long value)
{
        for (int i = 0; i < 20000; i++)
                sink = value = value * 2862933555777941757ul + 3037000493ul;
        return value;
}
}

int main()
{
        std::vector<unsigned> values(512);
        unsigned long sum = 1;

        for (int round = 0; round < 1000; round++) {
                auto local = [&](unsigned long value) { return forced(value) + 1; };
                ns::Weights weights{sum};
                for (auto &value : values)
                        value = static_cast<unsigned>(weights(sum++) >> 32);
                put_in_order(values);
                sum += ns::total(values) + local(sum);
        }
        return sum == 3;
}
'''

C = r'''
static volatile unsigned long sink;

static inline __attribute__((always_inline)) unsigned long innermost(unsigned long value)
{
        for (int i = 0; i < 1000; i++)
                sink = value = value * 2862933555777941757ul + 3037000493ul;
        return value;
}

static inline __attribute__((always_inline)) unsigned long between(unsigned long value)
{
        for (int i = 0; i < 20; i++)
                value ^= innermost(value);
        return value;
}

__attribute__((noinline)) unsigned long outer(unsigned long value)
{
        return between(value) + 1;
}

int main(void)
{
        unsigned long sum = 1;

        for (int i = 0; i < 6000; i++)
                sum += outer(sum);
        return sum == 3;
}
'''

RUST = r'''
struct Weights { bias: u64 }

impl Weights {
    #[inline(always)]
    fn apply(&self, mut value: u64) -> u64 {
        for i in 0..200u64 {
            value = unsafe { std::ptr::read_volatile(&(value.wrapping_mul(6364136223846793005) ^ self.bias ^ i)) };
        }
        value
    }
}

#[inline(never)]
fn work(start: u64) -> u64 {
    let weights = Weights { bias: start };
    (0..20).map(|i| weights.apply(i)).fold(0, |a, b| a ^ b)
}

fn main() {
    let mut sum = 1;
    for _ in 0..30000 { sum ^= work(sum); }
    std::process::exit((sum == 3) as i32);
}
'''


def build(tmp_path, compiler, flags, source):
    """Compiled and linked in two steps: -gsplit-dwarf leaves its .dwo beside the object."""
    if not shutil.which(compiler):
        pytest.skip(f'{compiler} is not installed')
    suffix = {'rustc': 'rs', 'gcc': 'c', 'clang': 'c'}.get(compiler, 'cc')
    path, program = tmp_path / f'code.{suffix}', tmp_path / 'code'
    path.write_text(source)
    if compiler == 'rustc':
        steps = [[compiler, *flags, '-o', program, path]]
    else:
        steps = [[compiler, *flags, '-c', '-o', tmp_path / 'code.o', path],
                 [compiler, *flags, '-o', program, tmp_path / 'code.o']]
    for step in steps:
        done = subprocess.run(step, cwd=tmp_path, capture_output=True, text=True)
        if done.returncode and ('-flto' in flags or '-gdwarf-4' in flags or compiler == 'rustc'):
            pytest.skip(f'{compiler} {" ".join(flags)}: {done.stderr.partition(chr(10))[0]}')
        assert done.returncode == 0, done.stderr
    return program


def frames_of(text, object_name):
    """For each address of the program the functions there, innermost first."""
    found = {}
    for sample in text.split('\n\n'):
        group = []
        for address, name, where in re.findall(r'^\t +([0-9a-f]+) (.*)\+0x[0-9a-f]+ \((.*)\)$', sample, re.M):
            group.append((name, where))
            if where == 'inlined':
                continue
            if where.endswith(f'/{object_name}'):
                found[address] = group
            group = []
    return found


def recorded(perf, millrace, tmp_path, program):
    data = tmp_path / 'perf.data'
    perf('record', '-e', 'cpu-clock:u', '--call-graph', 'dwarf,4096', '-o', data, '--', program)
    return data


def assert_symbols(perf, data, found):
    """The function that has the code is named as without inlined ones, and is never called inlined."""
    plain = frames_of(perf('script', '--no-inline', '-i', data).out, 'code')
    assert plain
    for address, group in plain.items():
        assert found[address][-1] == group[-1], address


def nr_functions(judge, program, addresses):
    """How many functions another program finds at each address."""
    options = ['-f', '-i'] if judge == 'addr2line' else ['--functions=linkage']
    reported = subprocess.run([judge, '-a', *options, '-e', program, *[f'0x{address}' for address in addresses]],
                          check=True, capture_output=True, text=True).stdout
    # An address, then two lines for each function.
    parts = re.split(r'^0x0*([0-9a-f]+)\n', reported, flags=re.M)[1:]
    return {address: len(text.splitlines()) // 2 for address, text in zip(parts[::2], map(str.strip, parts[1::2]))}


CXX_BUILDS = [('g++', ['-g', '-O0']), ('g++', ['-g', '-O2']), ('g++', ['-g', '-O2', '-gdwarf-4']),
              ('g++', ['-g', '-O2', '-flto']), ('g++', ['-g', '-O2', '-gsplit-dwarf']), ('clang++', ['-g', '-O0']),
              ('clang++', ['-g', '-O2']), ('clang++', ['-g', '-O2', '-gdwarf-4']),
              ('g++', ['-g', '-O2', '-gsplit-dwarf', '-fdebug-types-section']),
              ('clang++', ['-g', '-O2', '-gsplit-dwarf']), ('clang++', ['-g', '-O2', '-flto', '-fuse-ld=lld'])]


@pytest.mark.parametrize('compiler, flags', CXX_BUILDS,
                         ids=lambda value: value if isinstance(value, str) else ''.join(value))
def test_cxx(need_root, perf, millrace, tmp_path, compiler, flags):
    program = build(tmp_path, compiler, flags, CXX)
    data = recorded(perf, millrace, tmp_path, program)
    found = frames_of(millrace('script', '-i', data).out, 'code')
    assert_symbols(perf, data, found)
    names = {name for group in found.values() for name, _ in group}
    inlined = {name for group in found.values() for name, where in group if where == 'inlined'}
    assert '(anonymous namespace)::forced' in inlined
    assert 'ns::total' in {re.sub(r' \[.*|\..*', '', name) for name in names}
    for wanted in ('ns::Weights::operator()', '(anonymous namespace)::put_in_order'):
        assert wanted in names
    if flags == ['-g', '-O0']:
        assert inlined == {'(anonymous namespace)::forced'}
    else:
        assert any(name.startswith('std::sort<') for name in inlined)
        assert not {name for name in inlined if re.match(r'(sort|__sort|forced|put_in_order|operator\(\))\b', name)}
    # Neither reads all .dwo files; GNU's finds not all functions of clang's DWARF 5.
    judge = 'llvm-symbolizer' if compiler == 'clang++' else 'addr2line'
    if '-gsplit-dwarf' not in flags and '-flto' not in flags and shutil.which(judge):
        assert {address: len(group) for address, group in found.items()} == nr_functions(judge, program, found)


C_BUILDS = [(compiler, flags) for compiler in ('gcc', 'clang')
            for flags in (['-g', '-O1'], ['-g', '-O1', '-gdwarf-4'], ['-g', '-O2', '-gsplit-dwarf'],
                          ['-g', '-O2', '-gdwarf-4', '-gsplit-dwarf'],
                          ['-g', '-O2', '-ffunction-sections', '-Wl,--gc-sections'])]


@pytest.mark.parametrize('compiler, flags', C_BUILDS, ids=lambda value: value
                         if isinstance(value, str) else ''.join(value))
def test_c(need_root, perf, millrace, tmp_path, compiler, flags):
    program = build(tmp_path, compiler, flags, C)
    data = recorded(perf, millrace, tmp_path, program)
    found = frames_of(millrace('script', '-i', data).out, 'code')
    assert_symbols(perf, data, found)
    assert ['innermost', 'between', 'outer'] in [[name for name, _ in group] for group in found.values()]
    lines = millrace('script', '-F', 'ip,sym,srcline', '-i', data).out
    assert re.search(r'innermost\n +code\.c:[67] \(inlined\)\n.* between\n +code\.c:1[34] \(inlined\)\n'
                     r'.* outer\n +code\.c:20\n', lines), lines[:2000]


def test_rust(need_root, perf, millrace, tmp_path):
    program = build(tmp_path, 'rustc', ['-g', '-O'], RUST)
    data = recorded(perf, millrace, tmp_path, program)
    found = frames_of(millrace('script', '-i', data).out, 'code')
    assert_symbols(perf, data, found)
    assert any([name for name, _ in group][-1] == 'code::work' and 'code::Weights::apply' in [name for name, _ in group]
               for group in found.values())


# GNU's dwp knows no DWARF 5.
@pytest.mark.parametrize('compiler, version, tool', [('g++', '-gdwarf-4', 'dwp'), ('g++', '-gdwarf-5', 'llvm-dwp'),
                                                     ('clang++', '-gdwarf-4', 'llvm-dwp'),
                                                     ('clang++', '-gdwarf-5', 'llvm-dwp')])
def test_split_package(need_root, perf, millrace, tmp_path, compiler, version, tool):
    """The .dwo file of the program is behind that of another unit in one .dwp: the same names."""
    if not shutil.which(tool):
        pytest.skip(f'{tool} is not installed')
    (tmp_path / 'other.cc').write_text('#include <map>\nint other(std::map<int, int> &all) { return all[1]; }\n')
    program = build(tmp_path, compiler, ['-O2', version, '-gsplit-dwarf'], CXX)
    subprocess.run([compiler, '-O2', version, '-gsplit-dwarf', '-c', 'other.cc'], cwd=tmp_path, check=True)
    data = recorded(perf, millrace, tmp_path, program)
    found = frames_of(millrace('script', '-i', data).out, 'code')
    assert '(anonymous namespace)::forced' in {name for group in found.values() for name, _ in group}
    subprocess.run([tool, 'other.dwo', 'code.dwo', '-o', 'code.dwp'], cwd=tmp_path, check=True)
    for path in tmp_path.glob('*.dwo'):
        path.unlink()
    assert frames_of(millrace('script', '-i', data).out, 'code') == found
    (tmp_path / 'code.dwp').unlink()
    assert frames_of(millrace('script', '-i', data).out, 'code') != found


def test_waiting_split_file(need_root, perf, millrace, tmp_path):
    """A fifo in the place of a .dwo: nothing waits for a writer."""

    program = build(tmp_path, 'clang', ['-g', '-O2', '-gsplit-dwarf'], C)
    (tmp_path / 'code.dwo').unlink()
    os.mkfifo(tmp_path / 'code.dwo')
    data = recorded(perf, millrace, tmp_path, program)
    found = frames_of(millrace('script', '-i', data, timeout=30).out, 'code')
    assert ['outer'] in [[name for name, _ in group] for group in found.values()]
