# SPDX-License-Identifier: MIT
"""`record --bundle` carries what names need: a machine that has nothing else prints the same text."""
import os
import re
import shutil
import struct
import subprocess

import pytest

import perf_file
from conftest import while_it_runs

HOT = '''
#include <time.h>
static volatile unsigned long n;
static inline __attribute__((always_inline)) void inner(void) { for (int i = 0; i < 100000; i++) n += i * 3; }
__attribute__((noinline)) void hot_function(void) { inner(); }
int main(void) { while (clock() < 150000) hot_function(); }
'''
LOAD = '''set -e
unshare -m sh -ec "mount --make-rprivate /; mkdir -p own; mount -t tmpfs none own
        cp $B/hot own/contained; own/contained"
cp $B/hot deleted; ./deleted; rm deleted
$JIT 0.15 /tmp
$JIT 0.3 . dump
dd if=/dev/zero of=/dev/null bs=1M count=600 2>/dev/null
'''


@pytest.fixture(scope='module')
def built(tmp_path_factory, need_root):
    place = tmp_path_factory.mktemp('built')
    (place / 'hot.c').write_text(HOT)
    subprocess.run('gcc -O1 -g -Wl,--build-id -o hot hot.c'.split(), cwd=place, check=True)
    return place


@pytest.fixture(scope='module')
def elsewhere(program, tmp_path_factory, need_root):
    """The root of a machine with nothing but the program and the libraries that it is linked with."""
    root = tmp_path_factory.mktemp('elsewhere')
    (root / 'own').mkdir()
    (root / 'dev').mkdir()
    (root / 'dev' / 'null').touch()
    shutil.copy(program, root / 'own' / 'millrace')
    for library in re.findall(r'/\S+', subprocess.run(['ldd', program], capture_output=True, text=True).stdout):
        shutil.copy(library, root / 'own')
    return root


def text_elsewhere(run, elsewhere, data, *command, proc=False):
    """proc: with a /proc, which tells where an open file is."""
    for name in ['data', 'data.bundle']:
        if (elsewhere / name).is_dir():
            shutil.rmtree(elsewhere / name)
    shutil.copy(data, elsewhere / 'data')
    shutil.copytree(f'{data}.bundle', elsewhere / 'data.bundle', symlinks=True)
    loader = next((elsewhere / 'own').glob('ld-linux-*'))
    words = ['chroot', elsewhere, f'/own/{loader.name}', '--library-path', '/own', '/own/millrace', command[0],
             '-i', '/data', *command[1:]]
    env = {'HOME': '/', 'PATH': os.environ['PATH'], 'LC_ALL': 'C'}
    if not proc:
        return run(words, env=env)
    (elsewhere / 'proc').mkdir()
    done = run(['unshare', '-m', 'sh', '-ec', 'mount -t proc proc "$0/proc"; exec "$@"', elsewhere, *words], env=env)
    (elsewhere / 'proc').rmdir()
    return done


@pytest.mark.parametrize('call_graph', ['fp', 'dwarf,2048'])
def test_same_text(run, millrace, programs, built, elsewhere, tmp_path, call_graph):
    data = tmp_path / 'data'
    millrace('record', '-q', '--bundle', '-k', 'mono', '-e', 'cpu-clock', '-F', '999', '--call-graph', call_graph,
             '-o', data, '--', 'sh', '-c', LOAD, cwd=tmp_path,
             env={**os.environ, 'B': str(built), 'JIT': str(programs / 'jit')})
    for dump in tmp_path.glob('jit-*.dump'):
        dump.unlink()
    for command in [['report', '-s', 'comm,dso,sym'], ['report', '-s', 'sym,srcline', '-g', 'caller,address'],
                    ['script', '-F', '+srcline']]:
        here = millrace(command[0], '-i', data, *command[1:], env={**os.environ, 'HOME': '/nowhere'})
        there = text_elsewhere(run, elsewhere, data, *command)
        assert there.out == here.out and there.err == here.err
        for name in ['hot_function', 'jit_hot', 'jit_first', 'jit_second', 'inner' if 'dwarf' in call_graph else '']:
            assert name in there.out, name
    kernel = re.findall(r'\[k\] (\S+)', text_elsewhere(run, elsewhere, data, 'report', '-s', 'sym').out)
    assert 'do_syscall_64' in kernel and not [name for name in kernel if name.startswith('0xffffffff')]


SPLIT = {
    'main.c': """
#include <time.h>
void hot_function(void);
int main(void) { while (clock() < 300000) hot_function(); }
""",
    'hot.c': """
static volatile unsigned long n;
static inline __attribute__((always_inline)) void inner(void) { while (n % 100000) n++; }
__attribute__((noinline)) void hot_function(void) { n++; inner(); }
"""}


@pytest.mark.parametrize('how', ['-gdwarf-5', '-gdwarf-4', 'dwp', 'deleted', 'apart'])
def test_split_debug_information(run, millrace, elsewhere, tmp_path, how):
    """
    In .dwo files, one of them in another directory, or in a .dwp file; of a program that is gone in the end; and where
    the skeletons are in a file of their own.
    """
    place = tmp_path / 'built'
    version = '-gdwarf-4' if how in ('-gdwarf-4', 'dwp') else '-gdwarf-5'  # binutils' dwp has no DWARF 5
    (place / 'parts').mkdir(parents=True)
    for name, text in SPLIT.items():
        (place / name).write_text(text)
        subprocess.run(['gcc', '-O1', version, '-gsplit-dwarf', '-c', name, '-o', f'parts/{name}.o'], cwd=place,
                       check=True)
    subprocess.run(['gcc', '-Wl,--build-id', '-o', 'hot', *place.glob('parts/*.o')], cwd=place, check=True)
    if how == 'dwp':
        if not shutil.which('dwp'):
            pytest.skip('no dwp(1)')
        subprocess.run(['dwp', '-e', 'hot', '-o', 'hot.dwp'], cwd=place, check=True)
    if how == 'apart':
        subprocess.run('objcopy --only-keep-debug hot hot.debug && strip -g hot && '
                       'objcopy --add-gnu-debuglink=hot.debug hot', shell=True, cwd=place, check=True)
    if how == 'dwp':
        for dwo in place.glob('parts/*.dwo'):
            dwo.unlink()
    data = tmp_path / 'data'
    command = ['./hot'] if how != 'deleted' else ['sh', '-c', 'cp hot gone && ./gone && rm gone']
    done = millrace('record', '--bundle', '-e', 'cpu-clock:u', '-F', '999', '-g', '-o', data, '--', *command, cwd=place)
    assert 'not 1, such as' not in done.err, done.err
    commands = [['report', '--inline', '-s', 'sym,srcline', '-g', 'caller'],
                ['script', '--inline', '-F', '+srcline']]
    # What a reader here says in the end has no copies beside it, except of the program that is gone.
    (tmp_path / 'data.bundle').rename(tmp_path / 'away')
    here = [millrace(*words, '-i', data, env={**os.environ, 'HOME': '/nowhere'}) for words in commands]
    (tmp_path / 'away').rename(tmp_path / 'data.bundle')
    shutil.rmtree(place)
    for words, expected in zip(commands, here):
        there = text_elsewhere(run, elsewhere, data, *words, proc=True)
        assert '(inlined)' in there.out and re.search(r'inner\b', there.out) and 'hot.c:3' in there.out, there.out
        if how != 'deleted':
            assert there.out == expected.out and there.err == expected.err


def test_what_is_no_split_debug_information(millrace, tmp_path):
    """Only files are copied that have the units: the object may name any other."""
    (tmp_path / 'hot.c').write_text(HOT)
    for words in ('gcc -O1 -g -gsplit-dwarf -c hot.c', 'gcc -Wl,--build-id -o hot hot.o'):
        subprocess.run(words.split(), cwd=tmp_path, check=True)
    record = ['record', '--bundle', '-e', 'cpu-clock:u', '-F', '999', '-o', 'data', '--', './hot']
    dwo = tmp_path / 'hot.dwo'
    dwo.unlink()
    os.mkfifo(tmp_path / 'hot.dwp')
    (tmp_path / 'secret').write_text('secret')
    other = (tmp_path / 'hot').read_bytes()
    for make in (lambda: os.mkfifo(dwo), lambda: dwo.symlink_to('secret'), lambda: dwo.write_bytes(other),
                 lambda: dwo.mkdir()):
        make()
        done = millrace(*record, cwd=tmp_path)
        assert re.search(r'not 1, such as (\S*/)?hot\.dwo: gone', done.err), done.err
        assert not [path for path in (tmp_path / 'data.bundle').rglob('*.dw?')]
        if dwo.is_dir() and not dwo.is_symlink():
            dwo.rmdir()
        else:
            dwo.unlink()


def record(kind, misc, body):
    return struct.pack('<IHH', kind, misc, 8 + len(body)) + body


KERNEL, MODULE, BPF = 0xffffffff81000000, 0xffffffffc0400000, 0xffffffffc0800000
KERNEL_ID = bytes(range(20))
LIST = (f'{KERNEL:x} T _text\n{KERNEL + 0x10:x} T kernel_hot\n{KERNEL + 0x100:x} T other\n{KERNEL + 0x200:x} T _etext\n'
        f'{MODULE + 0x20:x} t module_hot\t[mine]\n{MODULE + 0x80:x} t later\t[mine]\n')


def of_another_kernel(data, host=None, pipe=False):
    """A recording with a sample of the kernel, one of a module that no distribution has, and one of a BPF program."""
    def mapped(start, size, pgoff, name):
        name = name.encode() + b'\0'
        name = name.ljust((len(name) + 7) // 8 * 8, b'\0')
        return record(1, 1, struct.pack('<iI3Q', -1, 0, start, size, pgoff) + name)

    ksymbol = record(17, 0, struct.pack('<QIHH', BPF, 0x100, 1, 0) + b'bpf_prog_0011223344556677_hot'.ljust(32, b'\0'))
    samples = b''.join(perf_file.sample(1, address, 7 << 32 | 7)
                       for address in (KERNEL + 0x11, MODULE + 0x25, BPF + 3))
    name = b'[kernel.kallsyms]\0'.ljust(64, b'\0')
    ids = record(0, 1, struct.pack('<i', -1) + KERNEL_ID + bytes([20, 0, 0, 0]) + name)
    attr = perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2)
    records = (mapped(KERNEL, 0x100000, KERNEL, '[kernel.kallsyms]_text') +
               mapped(MODULE, 0x1000, 0, '/lib/modules/1.2.3/extra/mine.ko') + ksymbol + samples)
    if pipe:
        data.write_bytes(b'PERFILE2' + struct.pack('<Q', 16) + record(64, 0, attr) + records)
        return
    features = {2: ids, **({3: perf_file.string(host)} if host else {})}
    data.write_bytes(perf_file.build([attr], features, records=records + perf_file.FINISHED_ROUND))


def test_modules_and_bpf_programs(run, elsewhere, tmp_path):
    """Symbols of such a module are among the kernel's; those of BPF programs are in records."""
    data = tmp_path / 'data'
    of_another_kernel(data)
    place = tmp_path / 'data.bundle' / '[kernel.kallsyms]' / KERNEL_ID.hex()
    place.mkdir(parents=True)
    (place / 'kallsyms').write_text(LIST)
    out = text_elsewhere(run, elsewhere, data, 'script', '-F', 'ip,sym,dso').out
    assert re.search(r'kernel_hot \(\[kernel.kallsyms\]\)\n.* module_hot \(\[mine\]\)\n.* '
                     r'bpf_prog_0011223344556677_hot \(', out), out


def test_lists_of_symbols_that_do_not_fit(millrace, tmp_path):
    """~/.debug may have the list of another boot, with modules elsewhere, or a part of it."""
    data, place = tmp_path / 'data', tmp_path / '.debug' / '[kernel.kallsyms]' / KERNEL_ID.hex()
    of_another_kernel(data)
    place.mkdir(parents=True)
    moved = re.sub('^ffff[0-9a-f]+', lambda found: f'{int(found[0], 16) + 0x200000:x}', LIST, flags=re.M)
    for text, named in ((LIST, True), (moved, True), (LIST[:LIST.index('other')], False),
                        (LIST.replace('_text', '_start'), False)):
        (place / 'kallsyms').write_text(text)
        out = millrace('script', '-F', 'ip,sym', '-i', data, env={'HOME': str(tmp_path)}).out
        assert ('kernel_hot' in out) == named and 'module_hot' not in out, out
    # A list of another boot that was given, or is that of this boot: a module may happen to be where one was.
    lines = zip(LIST.splitlines(), moved.splitlines())
    mixed = '\n'.join(here if '[mine]' in here else there for here, there in lines) + '\n'
    for text, named in ((LIST, True), (mixed, False)):
        (tmp_path / 'list').write_text(text)
        out = millrace('script', '-F', 'ip,sym', '-i', data, '--kallsyms', tmp_path / 'list').out
        assert 'kernel_hot' in out and ('module_hot' in out) == named, out


def test_modules_of_this_boot(run, elsewhere, tmp_path):
    """Without KASLR the kernel is at one address at each boot, and on each machine: modules are not."""
    root = tmp_path / 'root'
    shutil.copytree(elsewhere, root, ignore=shutil.ignore_patterns('data*'))
    (root / 'proc').mkdir()
    (root / 'proc' / 'kallsyms').write_text(LIST)
    loader = next((root / 'own').glob('ld-linux-*')).name

    def output(base, old=False, **recorded):
        (root / 'proc' / 'modules').write_text('other 4096 1 - Live 0xffffffffc0300000\n'
                                               f'mine 4096 0 - Live {base:#x} (OE)\n')
        of_another_kernel(root / 'data', **recorded)
        if old:
            os.utime(root / 'data', (1, 1))
        through = ['sh', '-c', f'cat {root}/data | "$@"', 'sh'] if recorded.get('pipe') else []
        return run([*through, 'chroot', root, f'/own/{loader}', '--library-path', '/own', '/own/millrace', 'script',
                    '-F', 'ip,sym', '-i', '-' if through else '/data'], env={**os.environ, 'HOME': '/'}).out

    here = os.uname().nodename
    for named, out in ((True, output(MODULE)), (True, output(MODULE, host=here)), (True, output(MODULE, pipe=True)),
                       (False, output(MODULE, host='another')), (False, output(MODULE, old=True)),
                       (False, output(MODULE - 0x10)), (False, output(MODULE + 0x1000, pipe=True))):
        assert 'kernel_hot' in out and ('module_hot' in out) == named, out


@pytest.mark.parametrize('kind', ['fifo', 'link'])
@pytest.mark.parametrize('copy', ['data.bundle', '.debug'])
def test_list_of_symbols_that_is_a_fifo(millrace, spawn, tmp_path, copy, kind):
    """It is not waited for; a pipe that the user names is read."""
    data, place = tmp_path / 'data', tmp_path / copy / '[kernel.kallsyms]' / KERNEL_ID.hex()
    of_another_kernel(data)
    place.mkdir(parents=True)
    fifo = place / 'kallsyms' if kind == 'fifo' else tmp_path / 'fifo'
    os.mkfifo(fifo)
    if kind == 'link':
        (place / 'kallsyms').symlink_to(fifo)
    done = millrace('script', '-F', 'ip,sym', '-i', data, timeout=20, env={'HOME': str(tmp_path)})
    assert '_hot' not in done.out.replace('bpf_prog_0011223344556677_hot', '')
    assert ('kallsyms: it is no regular file' in done.err) == (copy == 'data.bundle')
    spawn(['sh', '-c', 'trap "" PIPE; while :; do printf %s "$1" >"$2"; sleep 0.1; done', 'sh', LIST, fifo])
    assert 'kernel_hot' in millrace('script', '-F', 'ip,sym', '-i', data, '--kallsyms', fifo, timeout=20).out


def test_end_of_a_bpf_program_was_lost(millrace, tmp_path):
    """No two are at one place: where another one is loaded, the one before is gone."""
    def loaded(start, tag):
        name = f'bpf_prog_{tag:016x}_hot'.encode()
        return record(17, 0, struct.pack('<QIHH', start, 0x40, 1, 0) + name.ljust(32, b'\0'))

    bpf = 0xffffffffc0800000
    data = tmp_path / 'data'
    records = b''.join([loaded(bpf, 1), perf_file.sample(1, bpf + 0x24, 7 << 32 | 7),
                        loaded(bpf + 0x10, 2), perf_file.sample(1, bpf + 0x24, 7 << 32 | 7),
                        loaded(bpf + 0x10, 3), perf_file.sample(1, bpf + 0x24, 7 << 32 | 7)])
    data.write_bytes(perf_file.build([perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2)], {},
                                     records=records + perf_file.FINISHED_ROUND))
    assert re.findall(r'bpf_prog_0+(\d)_hot', millrace('script', '-i', data, '-F', 'ip,sym').out) == ['1', '2', '3']


def test_many_symbols_in_a_kernel_module(run, program, tmp_path):
    """Made up: the kernel says of no code of a module that it came or went. The first ones have names."""
    module = 0xffffffffc0000000
    mmap = record(1, 1, struct.pack('<iI3Q', -1, 0, module, 1 << 28, 0) + b'/lib/modules/mine.ko'.ljust(24, b'\0'))
    symbols = b''.join(record(17, 0, struct.pack('<QIHH8s', module + 16 * i, 16, 1, 0, b'f%d' % i))
                       for i in range(400000))
    (tmp_path / 'data').write_bytes(perf_file.build(
        [perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2)], {},
        records=mmap + symbols + perf_file.sample(1, module + 0x78, 7 << 32 | 7) + perf_file.FINISHED_ROUND))
    done = run(['prlimit', '--cpu=10', program, 'script', '-i', tmp_path / 'data', '-F', 'ip,sym'])
    (tmp_path / 'data').unlink()
    assert done.out.split() == ['ffffffffc0000078', 'f7'], done


def test_bpf_program_where_a_kernel_module_was(millrace, tmp_path):
    """No record tells that a module is gone: its functions have their names all the same."""
    def mapped(start, size, pgoff, name):
        return record(1, 1, struct.pack('<iI3Q', -1, 0, start, size, pgoff) + name.ljust(32, b'\0'))

    maps = mapped(KERNEL, 1 << 21, KERNEL, b'[kernel.kallsyms]_text') + mapped(MODULE, 0x1000, 0, b'[mine]')
    ksymbol = record(17, 0, struct.pack('<QIHH', MODULE + 0x400, 0x40, 1, 0) +
                     b'bpf_prog_0011223344556677_hot'.ljust(32, b'\0'))
    samples = b''.join(perf_file.sample(1, MODULE + at, 7 << 32 | 7) for at in (0x24, 0x410))
    data, names = tmp_path / 'data', tmp_path / 'kallsyms'
    names.write_text(LIST)
    data.write_bytes(perf_file.build([perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2)], {},
                                     records=maps + ksymbol + samples + perf_file.FINISHED_ROUND))
    out = millrace('script', '-i', data, '-F', 'ip,sym', '--kallsyms', names).out
    assert re.findall(r'\w+_hot', out) == ['module_hot', 'bpf_prog_0011223344556677_hot'], out


def test_call_that_does_not_return_at_the_end_of_a_kernel_function(millrace, tmp_path):
    """What it leaves on the stack is where the padding of the next function begins, which does not run."""
    names = [(0, '_text'), (0x40, '__pfx_rest'), (0x50, 'rest'), (0x70, 'caller'), (0xb0, '__pfx_other'),
             (0xc0, 'other')]
    (tmp_path / 'names').write_text(''.join(f'{KERNEL + at:x} T {name}\n' for at, name in names))
    # Behind `rest` is what an interrupt was at: the first byte of `other`.
    chain = [(1 << 64) - 128, *(KERNEL + at for at in (0x58, 0xc0, 0xb0, 0xb4, 0xc4))]  # PERF_CONTEXT_KERNEL
    (tmp_path / 'data').write_bytes(perf_file.build(
        [perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2 | 32)], {},
        records=record(1, 1, struct.pack('<iI3Q', -1, 0, KERNEL, 1 << 21, KERNEL) +
                       b'[kernel.kallsyms]_text'.ljust(32, b'\0')) +
        perf_file.sample(1, KERNEL + 0x58, 7 << 32 | 7, len(chain), *chain) + perf_file.FINISHED_ROUND))
    options = ['-i', tmp_path / 'data', '--kallsyms', tmp_path / 'names']
    out = millrace('script', '-F', 'ip,sym,symoff', *options).out
    assert out.split() == [
        f'{KERNEL + 0x58:x}', 'rest+0x8', f'{KERNEL + 0xc0:x}', 'other+0x0', f'{KERNEL + 0xb0:x}', 'caller+0x40',
        f'{KERNEL + 0xb4:x}', '__pfx_other+0x4', f'{KERNEL + 0xc4:x}', 'other+0x4'], out
    folded = 'other;__pfx_other;caller;other;rest'
    assert folded in millrace('export', '--format=folded', '-o', '-', *options).out
    assert folded in millrace('report', '--stdio', '--no-children', '-g', 'folded,0,count,caller', *options).out


def test_records_of_bpf_programs_that_are_too_long(millrace, tmp_path):
    """The kernel gives several recorders records with old bytes behind the trailer: not a time, nor an event."""
    def timed(kind, body, time, junk=b''):
        return record(kind, 0, body + struct.pack('<3Q', time, 0, 1) + junk)

    def changed(tag, time, gone):
        name = f'bpf_prog_{tag:016x}_hot'.encode().ljust(32, b'\0')
        return timed(17, struct.pack('<QIHH', bpf + 16 * tag, 0x40, 1, gone) + name, time, b'\x7f' * 64) + \
            timed(18, struct.pack('<HHIQ', 1 + gone, 0, tag, 0), time, b'\x7f' * 64)

    def sample(time):
        return record(9, 1, struct.pack('<4Q', 1, bpf + 0x3f, time, 0))

    bpf = 0xffffffffc0800000
    data = tmp_path / 'data'
    records = b''.join(changed(tag, 1000 * tag, 0) + sample(1000 * tag + 100) + changed(tag, 1000 * tag + 200, 1)
                       for tag in (1, 2, 3))
    attr = perf_file.attr(type=1, sample_period=1000, sample_type=1 | 4 | 1 << 7 | 1 << 16, bits=1 << 18)
    data.write_bytes(perf_file.build([attr, attr], {}, [[1], [2]], records=records + perf_file.FINISHED_ROUND))
    done = millrace('script', '-i', data, '-F', 'ip,sym')
    assert re.findall(r'bpf_prog_0+(\d)_hot', done.out) == ['1', '2', '3'] and done.err == ''


def bpf_program(btf, tag, starts, texts):
    """As it is in BPF_PROG_INFO: functions of 64 bytes, and lines 7, one for each text, from the first function on."""
    lines = b''.join(struct.pack('<4I', i, text, 0, 7 << 10) for i, text in enumerate(texts))
    rows = b''.join(struct.pack('<Q', starts[0] + i) for i in range(len(texts)))
    functions = struct.pack(f'<{len(starts)}Q', *starts) + struct.pack('<I', 64) * len(starts)
    info = bytearray(232)
    struct.pack_into('>Q', info, 8, tag)
    behind = len(lines) + len(rows)
    struct.pack_into('<2I2QI', info, 104, len(starts), len(starts), behind, behind + 8 * len(starts), btf)
    struct.pack_into('<I2Q3I', info, 148, len(texts), 0, len(lines), len(texts), 16, 8)
    data = lines + rows + functions
    return struct.pack('<2IQ', len(info), len(data), 0) + bytes(info) + data


def bpf_types(number, texts):
    data = struct.pack('<HBB5I', 0xeb9f, 1, 0, 24, 0, 0, 0, len(texts)) + texts
    return struct.pack('<2I', number, len(data)) + data


@pytest.mark.parametrize('made_up', ['long text', 'same place', 'many types'])
def test_made_up_lines_of_bpf_programs(run, program, tmp_path, made_up):
    """What would take minutes is not looked at, and the lines of another program are found."""
    bpf, other = 0xffffffffc0800000, 0xffffffffc0900000
    programs, types = {
        'long text': lambda: ([bpf_program(1, 2, [other], [0] * 150000)], [bpf_types(1, b'x' * (16 << 20) + b'\0')]),
        'same place': lambda: ([bpf_program(1, 2, [other] * 300000, [0] * 300000)], [bpf_types(1, b'x\0')]),
        'many types': lambda: ([bpf_program(77, 2, [other], [0])] * 30000, [struct.pack('<2I', 5, 0)] * 2000000),
    }[made_up]()
    programs.append(bpf_program(9, 1, [bpf], [0]))
    types.append(bpf_types(9, b'/src/other.bpf.c\0'))
    lists = {25: programs, 26: types}
    loaded = record(17, 0, struct.pack('<QIHH', bpf, 64, 1, 0) + f'bpf_prog_{1:016x}_hot'.encode().ljust(32, b'\0'))
    (tmp_path / 'data').write_bytes(perf_file.build(
        [perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2)],
        {bit: struct.pack('<I', len(items)) + b''.join(items) for bit, items in lists.items()},
        records=loaded + perf_file.sample(1, bpf + 0x24, 7 << 32 | 7) + perf_file.FINISHED_ROUND))
    done = run(['prlimit', '--cpu=10', program, 'report', '-i', tmp_path / 'data', '-s', 'sym,srcline'])
    (tmp_path / 'data').unlink()
    assert re.search(r'bpf_prog_0+1_hot +other\.bpf\.c:7', done.out), done


def test_lines_of_a_bpf_program(run, millrace, programs, spawn, elsewhere, tmp_path, need_root):
    """The kernel tells names and lines while it is loaded; they are in the recording."""
    process = spawn([programs / 'bpf', '60'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if process.stdout.readline() != 'running\n':
        pytest.skip(f'BPF programs cannot be loaded: {process.communicate()[1]}')
    data = tmp_path / 'data'
    millrace('record', '-q', '--bundle', '-e', 'cpu-clock', '-F', '999', '-p', process.pid, '-o', data, '--',
             *while_it_runs(process.pid, 0.3))
    process.kill()
    process.wait()
    here = millrace('report', '-i', data, '-s', 'sym,srcline').out
    assert float(re.search(r'([\d.]+)%.*bpf_prog_\w+_bpf_hot +bpf_hot\.bpf\.c:42', here).group(1)) > 50
    assert text_elsewhere(run, elsewhere, data, 'report', '-s', 'sym,srcline').out == here


def test_bpf_programs_without_trampolines(run, program, programs, spawn, tmp_path, need_root):
    """Those of systemd for example: the symbols of the kernel, a long file, are not read once more for them."""
    def nr_reads():
        run(['strace', '-f', '-o', tmp_path / 'calls', '-e', 'trace=openat', program, 'record', '-a', '-e', 'cpu-clock',
             '-o', tmp_path / 'data', '--no-buildid', '--', 'true'])
        return (tmp_path / 'calls').read_text().count('"/proc/kallsyms"')

    before = nr_reads()
    process = spawn([programs / 'bpf', '60'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if process.stdout.readline() != 'running\n':
        pytest.skip(f'BPF programs cannot be loaded: {process.communicate()[1]}')
    assert nr_reads() == before > 0


def test_lines_of_bpf_programs_that_are_unloaded_while_recording(millrace, programs, tmp_path, need_root):
    """They are read when they are loaded. Another program that comes to the same place has other lines."""
    data, bpf = tmp_path / 'data', programs / 'bpf'
    done = millrace('record', '-a', '-e', 'cpu-clock', '-F', '999', '-o', data, '--', 'sh', '-c',
                    f'{bpf} 0.4; {bpf} 0.4 142; {bpf} 0.4 242')
    if done.status == 77:
        pytest.skip(f'BPF programs cannot be loaded: {done.err}')
    rows = re.findall(r'([\d.]+)% .*bpf_prog_(\w+)_bpf_hot +(\S+)',
                      millrace('report', '-i', data, '-s', 'sym,srcline').out)
    known = {}  # lines of each tag
    for share, tag, line in rows:
        known.setdefault(tag, {}).setdefault(line, 0)
        known[tag][line] += float(share)
    assert len(known) == 3, (rows, done.err)
    for lines, hot in zip(sorted(known.values(), key=lambda lines: int(max(lines, key=lines.get).split(':')[1])),
                          [42, 142, 242]):
        assert max(lines, key=lines.get) == f'bpf_hot.bpf.c:{hot}', rows
        assert {int(line.split(':')[1]) for line in lines} <= {hot - 1, hot, hot + 1}, rows


def test_bpf_events_are_none_of_tasks(run, program, spawn, tmp_path, need_root):
    """Each event of a task costs time when the task is switched: as root, those for BPF programs are of CPUs."""
    pids = [spawn(['sleep', '60']).pid for _ in range(2)]
    run(['strace', '-f', '-v', '-o', tmp_path / 'calls', '-e', 'trace=perf_event_open', program, 'record', '-e',
         'cpu-clock', '-p', f'{pids[0]},{pids[1]}', '-o', tmp_path / 'data', '--', 'true'],
        env={**os.environ, 'ASAN_OPTIONS': 'detect_leaks=0'})
    opened = re.findall(r'sample_id_all=0,.* bpf_event=1,.*}, (-?\d+), (\d+), .* = \d+$',
                        (tmp_path / 'calls').read_text(), re.M)
    if not opened:
        pytest.skip('no records of BPF programs (Linux 5.1)')
    assert {pid for pid, _ in opened} == {'-1'} and len(opened) == len(set(opened)), opened


def test_bpf_events_of_one_size(run, program, tmp_path, need_root):
    """The kernel makes them longer by the sample_id of each event that they went to before, and perf cannot read them
    then: what opens objects at once has none."""
    run(['strace', '-f', '-v', '-o', tmp_path / 'calls', '-e', 'trace=perf_event_open', program, 'record', '-a', '-e',
         'cpu-clock', '-o', tmp_path / 'data', '--', 'true'], env={**os.environ, 'ASAN_OPTIONS': 'detect_leaks=0'})
    opened = re.findall(r'sample_type=(\S+),.* sample_id_all=(\d),.* bpf_event=1,.*}, (-?\d+), (\d+), .* = \d+$',
                        (tmp_path / 'calls').read_text(), re.M)
    if not opened:
        pytest.skip('no records of BPF programs (Linux 5.1)')
    recorded = [of[2:] for of in opened if of[1] == '1']
    assert len(recorded) == len(set(recorded)), opened
    assert {of[2:] for of in opened if of[:2] == ('0', '0')} == set(recorded), opened


def test_file_without_build_id(run, millrace, program, built, tmp_path):
    """Nothing shows that the file of that name on another machine is the one that was recorded."""
    app, data = tmp_path / 'app', tmp_path / 'data'

    def build(hot):
        (tmp_path / 'app.c').write_text(HOT.replace('hot_function', hot))
        subprocess.run('gcc -O1 -g -Wl,--build-id=none -o app.new app.c'.split(), cwd=tmp_path, check=True)
        (tmp_path / 'app.new').rename(app)

    def names(*options):
        """On a machine of another name: of the functions of the program, and what is said."""
        done = run(['unshare', '--uts', 'sh', '-c', 'hostname another && exec "$@"', 'sh', program, 'report',
                    '-i', data, '--no-children', '-s', 'dso,sym', *options])
        return set(re.findall(r'app +\[\.\] (\w+)', done.out)), done.err

    build('hot_function')
    # -N: in a container it would keep a copy.
    millrace('record', '-q', '-N', '-e', 'cpu-clock:u', '-F', '999', '--call-graph', 'dwarf,2048', '-o', data, '--',
             app)
    found, said = names()
    assert 'hot_function' in found and not said, 'a machine that was renamed: the inode is the same'
    build('cold_function')
    found, said = names()
    assert found and all(re.fullmatch('0x[0-9a-f]+', name) for name in found)
    assert 'app was recorded on another machine, without a build-id, and may be another file here: ' in said
    assert 'cold_function' in names('--symfs=/.')[0], 'the user says that it is the same'


@pytest.fixture
def without_id(tmp_path):
    """Programs without a build-id, as Go's linker and musl's gcc make them: with a function hot_NAME each."""
    def build(name):
        (tmp_path / f'{name}.c').write_text(HOT.replace('hot_function', f'hot_{name}'))
        subprocess.run(f'gcc -O1 -g -Wl,--build-id=none -o {name} {name}.c'.split(), cwd=tmp_path, check=True)
    (tmp_path / 'own').mkdir()
    build('old')
    build('new')
    return tmp_path


OWN = 'mount -t tmpfs none own; '


def names_of(run, program, data, home, *options):
    """On a machine of another name: of the functions of the program, and what is said."""
    done = run(['unshare', '--uts', 'sh', '-c', 'hostname another && exec "$@"', 'sh', program, 'report', '-i', data,
                '-s', 'dso,sym', *options], env={**os.environ, 'HOME': home})
    return set(re.findall(r'(?:old|app) +\[\.\] (hot_\w+|0x\w+)', done.out)), done.err


def test_copies_of_files_without_a_build_id(run, millrace, program, without_id, need_root):
    """Two files under one path of a container that is gone: each copied once, for two recordings."""
    home, data = without_id / 'home', without_id / 'data'
    contained = ['unshare', '-m', 'sh', '-ec', OWN + 'cp old own/app; own/app; cp new own/n; mv own/n own/app; own/app']

    def record(*command):
        return millrace('record', '-e', 'cpu-clock:u', '-F', '999', '-o', data, *command, cwd=without_id,
                        env={**os.environ, 'HOME': home}).err

    def copies():
        return sorted((path.stat().st_ino, path.read_bytes()) for path in home.rglob('elf') if 'app' in path.parts)

    assert 'no build-id' not in record(*contained)
    kept = copies()
    assert sorted(bytes for _, bytes in kept) == sorted((without_id / name).read_bytes() for name in ('old', 'new'))
    assert names_of(run, program, data, home) == ({'hot_old', 'hot_new'}, '')
    record(*contained)
    assert copies() == kept
    assert names_of(run, program, data, home)[0] == {'hot_old', 'hot_new'}
    lines = run([program, 'report', '-i', data, '-s', 'dso,srcline'], env={**os.environ, 'HOME': home}).out
    assert 'old.c:' in lines and 'new.c:' in lines, lines
    (without_id / 'own/app').write_bytes((without_id / 'new').read_bytes())
    assert names_of(run, program, data, home)[0] == {'hot_old', 'hot_new'}, 'those of another file at the place'
    for path in home.rglob('elf'):
        path.unlink()
    found, said = names_of(run, program, data, home)
    assert all(name.startswith('0x') for name in found) and 'app ' in said, (found, said)
    record('-N', *contained)
    assert copies() == []


def test_bundle_of_files_without_a_build_id(run, millrace, program, without_id, need_root):
    """Also of those that are under their path here, where a reader looks when the bundle is not there."""
    home, data = without_id / 'home', without_id / 'data'
    assert 'no build-id' not in millrace('record', '--bundle', '-e', 'cpu-clock:u', '-F', '999', '-o', data, './old',
                                         cwd=without_id, env={**os.environ, 'HOME': home}).err
    bundle, old = without_id / 'data.bundle', without_id / 'old'
    bundle.rename(without_id / 'elsewhere')
    assert names_of(run, program, data, home) == ({'hot_old'}, '')
    (without_id / 'new').rename(old)
    found, said = names_of(run, program, data, home)
    assert all(name.startswith('0x') for name in found), (found, said)
    (without_id / 'elsewhere').rename(bundle)
    assert names_of(run, program, data, home) == ({'hot_old'}, '')
    assert not home.exists()


def test_vdso_without_build_id(run, millrace, program, tmp_path, need_root):
    """That of this machine has the names of another kernel."""
    (tmp_path / 'now.c').write_text('''#include <time.h>
        int main(void) { struct timespec t; while (clock() < 100000)
                for (int i = 0; i < 10000; i++) clock_gettime(CLOCK_MONOTONIC, &t); }''')
    subprocess.run('gcc -O1 -o now now.c'.split(), cwd=tmp_path, check=True)
    data = tmp_path / 'data'
    report = [program, 'report', '-i', data, '-s', 'dso,sym']
    for without, named in ([], True), (['-B'], False):
        millrace('record', '-q', *without, '-e', 'cpu-clock:u', '-F', '999', '-o', data, '--', tmp_path / 'now')
        assert '__vdso_clock_gettime' in run(report).out
        shown = run(['unshare', '--uts', 'sh', '-c', 'hostname another && exec "$@"', 'sh', *report]).out
        assert ('__vdso_clock_gettime' in shown) == named and '[vdso]' in shown
