# SPDX-License-Identifier: MIT
"""Lines of the source in tables, call graphs and scripts: of programs, of inlined functions, of the kernel and its
modules. perf, with addr2line, is the judge where it knows them."""
import re
import struct
import subprocess

import pytest

import perf_file

SOURCE = '''
static volatile unsigned long sink;
static inline __attribute__((always_inline)) unsigned long innermost(unsigned long value)
{
        for (int i = 0; i < 500; i++)
                sink = value = value / (sink | 3) + 3037000493ul,
                sink = value / (sink | 5);
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
        return between(value) + (__builtin_frame_address(0) != (void *)0); /* it has a frame */
}
int main(void)
{
        unsigned long sum = 1;
        for (int i = 0; i < 4000; i++)
                sum += outer(sum);
        return sum == 3;
}
'''


@pytest.fixture(scope='module')
def subject(tmp_path_factory):
    place = tmp_path_factory.mktemp('lines')
    (place / 'lines.c').write_text(SOURCE)
    subprocess.run(['gcc', '-O1', '-g', '-fno-omit-frame-pointer', '-o', 'lines', 'lines.c'], cwd=place, check=True)
    return place / 'lines'


@pytest.fixture(scope='module')
def dwarf(perf, need_root, subject):
    """Without a sample behind the pop of the frame pointer: of that perf's chain ends in main()."""
    data = subject.parent / 'dwarf.data'
    for _ in range(20):
        perf('record', '-q', '-e', 'cpu-clock:u', '-F', '499', '--call-graph', 'dwarf,2048', '-o', data, '--', subject)
        chains = perf('script', '-i', data, '-F', 'ip,sym').out.split('\n\n')
        if all(' _start' in chain for chain in chains if ' main\n' in f'{chain}\n'):
            return data
    pytest.fail('perf cuts a chain of each recording')


def frames(text):
    """Lines of a call graph about the program: shares and rulers removed, and what libc's debug file may change."""
    kept = [re.sub(r'^[\s|+-]*(\d+\.\d+%--)?', '', line).rstrip() for line in text.splitlines()]
    return [line for line in kept if re.match(r'(main|outer|between|innermost)\b', line)]


@pytest.mark.parametrize('key', ['srcline', 'address'])
@pytest.mark.parametrize('direction', ['caller', 'callee'])
def test_graphs_by_line_and_address(perf, millrace, dwarf, key, direction):
    command = ['report', '-i', dwarf, '--stdio', '--no-children', '-s', 'sym', '-g', f'{direction},{key}']
    theirs, ours = frames(perf(*command).out), frames(millrace(*command).out)
    assert ours == theirs
    assert {'main lines.c:24', 'outer lines.c:18', 'between lines.c:13 (inlined)'} <= set(ours)
    by_function = frames(millrace(*command[:-1], f'{direction},function').out)
    assert {'main', 'outer', 'between (inlined)'} == set(by_function) - {'innermost (inlined)'}
    full = frames(millrace(*command, '--full-source-path').out)
    assert f'main {dwarf.parent}/lines.c:24' in full


def test_frames_of_one_function_by_address(millrace, dwarf):
    graphs = {key: millrace('report', '-i', dwarf, '--no-children', '-s', 'comm', '-g', f'callee,{key},0').out
              for key in ['function', 'srcline', 'address']}
    nr = {key: len(re.findall('innermost', text)) for key, text in graphs.items()}
    assert nr['function'] == 1 < nr['srcline'] < nr['address'], nr


def test_each_inlined_function_has_the_line_of_its_call(perf, millrace, dwarf):
    theirs, ours = (re.findall(r'^\t +\w+ (?:main|outer|between|innermost)\n.*', tool(
        'script', '-i', dwarf, '-F', 'ip,sym,srcline').out, re.M) for tool in (perf, millrace))
    assert ours == theirs != []
    assert any(line.endswith('lines.c:13 (inlined)') for line in ours)


def test_inlined_functions_of_recorded_chains(perf, millrace, need_root, subject):
    """perf shows none in chains of frame pointers; there the call is before the address."""
    data = subject.parent / 'fp.data'
    millrace('record', '-q', '-e', 'cpu-clock:u', '-F', '499', '--call-graph', 'fp', '-o', data, '--', subject)
    plain, inlined = (millrace('script', '-i', data, '-F', 'ip,sym,srcline', *option).out
                      for option in ([], ['--inline']))
    ours, theirs = (re.findall(r'\t +\w+ (?:main|outer)\n.*', text)
                    for text in (plain, perf('script', '-i', data, '-F', 'ip,sym,srcline').out))
    assert ours == theirs != [] and 'inlined' not in plain
    assert re.search(r' innermost\n  lines.c:[5-7] \(inlined\)\n\t +\w+ between\n  lines.c:1[23] \(inlined\)\n'
                     r'\t +\w+ outer\n  lines.c:18\n\t +\w+ main\n  lines.c:24\n', inlined), inlined[:1000]
    no_inline = millrace('script', '-i', data, '-F', 'ip,sym,srcline', '--no-inline').out
    assert no_inline == plain


KERNEL = '''
int _text(void) { return 1; }
int counter;
int hot_in_kernel(int x)
{
        counter += x;
        return counter * 3;
}
'''
KERNEL_TEXT = 0xffffffff81000000
MOVED = 0x1200000  # by address randomisation
MODULE_TEXT = 0xffffffffc0400000


def build_id_of(path):
    text = subprocess.run(['readelf', '-n', path], capture_output=True, text=True, check=True).stdout
    return bytes.fromhex(re.search('Build ID: ([0-9a-f]+)', text).group(1))


def symbol_of(path, name):
    text = subprocess.run(['nm', path], capture_output=True, text=True, check=True).stdout
    return int(re.search(rf'^([0-9a-f]+) \w {name}$', text, re.M).group(1), 16)


def record(kind, misc, body):
    return struct.pack('<IHH', kind, misc, 8 + len(body)) + body


def mapped(start, size, pgoff, name):
    name = name.encode() + b'\0'
    return record(1, 1, struct.pack('<iI3Q', -1, 0, start, size, pgoff) + name.ljust((len(name) + 7) // 8 * 8, b'\0'))


def build_id_record(build_id, name):
    name = name.encode() + b'\0'
    return record(0, 1, struct.pack('<i', -1) + build_id + bytes([20, 0, 0, 0]) + name.ljust(64, b'\0'))


def write(path, maps, build_ids, addresses):
    samples = b''.join(perf_file.sample(1, address, 7 << 32 | 7) for address in addresses)
    attr = perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2)
    path.write_bytes(perf_file.build([attr], {2: b''.join(build_ids)},
                                     records=b''.join(maps) + samples + perf_file.FINISHED_ROUND))


def test_kernel(perf, millrace, tmp_path):
    """An image with debug information, while the kernel that was recorded lay elsewhere."""
    (tmp_path / 'kernel.c').write_text(KERNEL)
    subprocess.run(['gcc', '-g', '-O1', '-mcmodel=kernel', '-fno-pie', '-static', '-nostdlib', '-no-pie', '-o',
                    'vmlinux', 'kernel.c', '-Wl,--build-id', f'-Wl,-Ttext={KERNEL_TEXT:#x}', '-Wl,-e,_text'],
                   cwd=tmp_path, check=True)
    vmlinux = tmp_path / 'vmlinux'
    text, hot = symbol_of(vmlinux, '_text') + MOVED, symbol_of(vmlinux, 'hot_in_kernel') + MOVED
    data = tmp_path / 'perf.data'
    write(data, [mapped(text, 0x100000, text, '[kernel.kallsyms]_text')],
          [build_id_record(build_id_of(vmlinux), '[kernel.kallsyms]')], [hot + 1] * 5)
    command = ['report', '-i', data, '--stdio', '-s', 'sym,srcline', '--vmlinux', vmlinux]
    ours, theirs = (re.findall(r'100.00%.*', tool(*command).out) for tool in (millrace, perf))
    assert ours and re.search(r'\[k\] hot_in_kernel +kernel.c:[5-7]$', ours[0].rstrip()), ours
    assert not theirs or [line.split() for line in ours] == [line.split() for line in theirs]


def test_module(millrace, tmp_path):
    """A relocatable file, whose debug information has no addresses before it is loaded."""
    (tmp_path / 'mod.c').write_text(KERNEL.replace('_text', 'other'))
    subprocess.run(['gcc', '-g', '-O1', '-c', '-o', 'mod.o', 'mod.c'], cwd=tmp_path, check=True)
    subprocess.run(['ld', '-r', '--build-id', '-o', 'mod.ko', 'mod.o'], cwd=tmp_path, check=True)
    module = tmp_path / 'mod.ko'
    data = tmp_path / 'perf.data'
    write(data, [mapped(KERNEL_TEXT, 0x1000, KERNEL_TEXT, '[kernel.kallsyms]_text'),
                 mapped(MODULE_TEXT, 0x1000, 0, str(module))],
          [build_id_record(build_id_of(module), str(module))],
          [MODULE_TEXT + symbol_of(module, 'hot_in_kernel') + 1] * 5)
    out = millrace('report', '-i', data, '-s', 'dso,sym,srcline').out
    assert re.search(r'100.00% +\[mod\] +\[k\] hot_in_kernel +mod.c:[5-7]\n', out), out


MODULE = '''
int counter, other = 1;
int hot(int x)
{
        counter += x;
        return counter * 3;
}
__attribute__((section(".init.text"))) int start(int x)
{
        counter ^= x;
        counter ^= counter >> 1;
        counter ^= counter >> 2;
        counter ^= counter >> 3;
        return counter * other;
}
__attribute__((section(".noinstr.text"), aligned(16))) int entry(int x)
{
        counter -= x;
        return counter * 5;
}
__attribute__((section(".exit.text"))) int end(int x)
{
        other -= x;
        return other * 5;
}
'''


def test_module_with_more_code(millrace, tmp_path):
    """Behind .text the kernel has other code, but not data, and not that of initialisation."""
    (tmp_path / 'mod.c').write_text(MODULE)
    subprocess.run(['gcc', '-g', '-O1', '-c', '-o', 'mod.o', 'mod.c'], cwd=tmp_path, check=True)
    subprocess.run(['ld', '-r', '--build-id', '-o', 'mod.ko', 'mod.o'], cwd=tmp_path, check=True)
    module = tmp_path / 'mod.ko'
    sections = subprocess.run(['readelf', '-SW', module], capture_output=True, text=True, check=True).stdout
    starts, at = {}, 0
    for name, size, align in re.findall(r'\] (\S+) +PROGBITS +\w+ \w+ (\w+) \w+ +AX +\d+ +\d+ +(\d+)', sections):
        if name != '.init.text':
            starts[name] = (at + int(align) - 1) // int(align) * int(align)
            at = starts[name] + int(size, 16)
    assert list(starts) == ['.text', '.noinstr.text', '.exit.text']
    data = tmp_path / 'perf.data'
    for address, line in ((starts['.text'], '[45]'), (starts['.noinstr.text'], '1[78]'),
                          (starts['.exit.text'], '2[23]'), (at, None)):
        write(data, [mapped(KERNEL_TEXT, 0x1000, KERNEL_TEXT, '[kernel.kallsyms]_text'),
                     mapped(MODULE_TEXT, 0x1000, 0, str(module))],
              [build_id_record(build_id_of(module), str(module))], [MODULE_TEXT + address] * 5)
        out = millrace('report', '-i', data, '-s', 'dso,srcline').out
        assert re.search(rf'100.00% +\[mod\] +mod.c:{line}\n' if line else r'100.00% +\[mod\] +(?!mod\.c:)\S', out), out
