# SPDX-License-Identifier: MIT
"""Debug information that is elsewhere: on a debuginfod server, in .gnu_debugdata; and what the report says when there
is none."""
import http.server
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading

import pytest

import perf_file
from conftest import peak_memory, run_command, wait_until

SOURCE = '''
#include <time.h>
static volatile unsigned long n;
__attribute__((noinline)) static void hidden_hot(void) { for (int i = 0; i < 100000; i++) n += i * 3; }
__attribute__((noinline)) void exported_hot(void) { for (int i = 0; i < 50000; i++) n += i * 5; }
int main(void)
{
        while (clock() < 300000) {
                hidden_hot();
                exported_hot();
        }
}
'''


@pytest.fixture(autouse=True)
def own_home(monkeypatch, tmp_path):
    """In a container every object is kept, by its build-id, which all that is made of one program here shares."""
    monkeypatch.setenv('HOME', str(tmp_path / 'own-home'))


@pytest.fixture(scope='module')
def stripped(tmp_path_factory):
    """A program without its symbols, which are in files beside it."""
    place = tmp_path_factory.mktemp('stripped')
    (place / 'hot.c').write_text(SOURCE)
    for step in ['gcc -O1 -g -rdynamic -Wl,--build-id -o whole hot.c', 'mkdir served',
                 'objcopy --only-keep-debug whole served/hot.debug', 'strip -o hot whole']:
        subprocess.run(step.split(), cwd=place, check=True)
    return place


def test_an_object_without_a_name(millrace, stripped, tmp_path):
    """No package has installed it. A copy is found by its build-id."""
    notes = run_command(['readelf', '-n', stripped / 'hot']).out
    build_id = bytes.fromhex(re.search('Build ID: ([0-9a-f]+)', notes)[1])
    copy = tmp_path / 'own-home' / '.debug' / '.build-id' / build_id.hex()[:2] / build_id.hex()[2:] / 'elf'
    copy.parent.mkdir(parents=True)
    shutil.copy(stripped / 'hot', copy)
    body = struct.pack('<2I3Q4B20s2I', 7, 7, 0x400000, 0x100000, 0, len(build_id), 0, 0, 0, build_id, 5, 2) + bytes(8)
    mapped = struct.pack('<IHH', 10, 2 | 1 << 14, 8 + len(body)) + body
    file = tmp_path / 'data'
    file.write_bytes(perf_file.build([perf_file.attr(type=1, sample_period=1, sample_type=7)], {},
                                     records=mapped + perf_file.sample(2, 0x400008, 7 << 32 | 7, 10**9)))
    assert 'is stripped' in millrace('report', '--stdio', '-i', file, timeout=60).err


@pytest.fixture(scope='module')
def data(run, program, stripped):
    run([program, 'record', '-q', '-N', '-e', 'cpu-clock:u', '-F', '999', '-o', stripped / 'data', '--',
         stripped / 'hot'])
    return stripped / 'data'


@pytest.fixture
def report(millrace, data, tmp_path):
    def run_report(*options, **environ):
        env = {**os.environ, 'DEBUGINFOD_CACHE_PATH': str(tmp_path / 'cache'), **environ}
        env.pop('DEBUGINFOD_URLS', None)
        return millrace('report', '-i', data, '-s', 'dso,sym,srcline', *options, env=env)
    return run_report


@pytest.fixture
def has_downloads(millrace):
    if '+debuginfod' not in millrace('--version').out:
        pytest.skip('built without libdebuginfod')


def free_port():
    with socket.socket() as one:
        one.bind(('127.0.0.1', 0))
        return one.getsockname()[1]


def test_downloads(report, has_downloads, stripped, spawn, tmp_path):
    """From Debian's server; nothing is asked for without the option, and nothing twice."""
    if not shutil.which('debuginfod'):
        pytest.skip('debuginfod is not installed')
    port = free_port()
    log = tmp_path / 'log'
    with open(log, 'w') as out:
        spawn(['debuginfod', '-v', '-d', ':memory:', '-p', str(port), '-t', '0', '-F', stripped / 'served'],
              stdout=out, stderr=subprocess.STDOUT)
    wait_until(lambda: re.search('fdcache|groom|scanned|file count', log.read_text()), 'debuginfod has read its files')
    url = f'--debuginfod=http://127.0.0.1:{port}'
    before = report()
    assert 'hidden_hot' not in before.out and re.search('hot is stripped: .*, or --debuginfod', before.err)
    assert not (tmp_path / 'cache').exists()
    wait_until(lambda: 'hidden_hot' in report(url, '-q').out or shutil.rmtree(tmp_path / 'cache'),
               'the server has the file')
    shutil.rmtree(tmp_path / 'cache')
    came = report(url)
    assert re.search(r'hidden_hot +hot.c:4', came.out) and re.search('downloaded 1 file, ', came.err)
    again = report()
    assert again.out == came.out and again.err == ''


def test_no_server(report, has_downloads):
    away = report(f'--debuginfod=http://127.0.0.1:{free_port()}')
    assert 'downloads ended: no server can be reached' in away.err and 'exported_hot' in away.out


def test_no_server_is_named(millrace, data, has_downloads):
    env = {name: value for name, value in os.environ.items() if name != 'DEBUGINFOD_URLS'}
    done = millrace('report', '-i', data, '--debuginfod', env=env, status=129)
    assert 'DEBUGINFOD_URLS' in done.err


class Slow(http.server.BaseHTTPRequestHandler):
    """Begins a large file, and never ends it."""
    bytes_all = 50 << 20

    def do_GET(self):
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header('Content-Length', str(self.bytes_all))
        self.end_headers()
        self.wfile.write(b'x' * (1 << 16))
        self.server.ended.wait(30)

    def log_message(self, *args):
        pass


@pytest.fixture
def slow():
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Slow)
    server.asked, server.ended = [], threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.ended.set()
    server.shutdown()
    server.server_close()


def test_interrupt_ends_the_download_alone(program, data, slow, has_downloads, spawn, tmp_path):
    url = f'--debuginfod=http://127.0.0.1:{slow.server_address[1]}'
    process = spawn([program, 'report', '-i', data, '-s', 'sym', url], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    env={**os.environ, 'DEBUGINFOD_CACHE_PATH': str(tmp_path / 'cache')})
    wait_until(lambda: slow.asked, 'the file is asked for')
    wait_until(lambda: b'SigCgt' in open(f'/proc/{process.pid}/status', 'rb').read() and int(re.search(
        r'SigCgt:\s+(\w+)', open(f'/proc/{process.pid}/status').read()).group(1), 16) & 1 << signal.SIGINT - 1,
        'the interrupt is caught')
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0 and b'exported_hot' in out
    assert b'downloads ended: interrupted' in err and len(slow.asked) == 1


def test_too_large(report, slow, has_downloads):
    Slow.bytes_all = 2 << 30
    done = report(f'--debuginfod=http://127.0.0.1:{slow.server_address[1]}')
    assert re.search('not downloaded: too large .*: 1 file\n', done.err) and 'exported_hot' in done.out


# The first file is larger than the limit for all, of which nothing was told before; the others are announced.
LIBRARY = r'''
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int (*progress)(void *client, long bytes, long all), nr;
static void *data;
void *debuginfod_begin(void) { return &nr; }
void debuginfod_end(void *client) { }
void debuginfod_set_progressfn(void *client, int (*function)(void *, long, long)) { progress = function; }
void debuginfod_set_user_data(void *client, void *to) { data = to; }
void *debuginfod_get_user_data(void *client) { return data; }
const char *debuginfod_get_url(void *client) { return "http://server"; }
int debuginfod_find_debuginfo(void *client, const unsigned char *id, int bytes, char **path)
{
        if (nr++)
                return progress(client, 1, 100) ? -ECANCELED : -ENOENT;
        char name[4096];
        snprintf(name, sizeof(name), "%s/large", getenv("DEBUGINFOD_CACHE_PATH"));
        int fd = open(name, O_RDWR | O_CREAT, 0600);
        *path = strdup(name);
        return fd < 0 || ftruncate(fd, (1L << 30) + 1) ? -errno : fd;
}
int debuginfod_find_executable(void *client, const unsigned char *id, int bytes, char **path)
{
        return debuginfod_find_debuginfo(client, id, bytes, path);
}
'''


def test_too_large_together(report, has_downloads, tmp_path):
    (tmp_path / 'library.c').write_text(LIBRARY)
    (tmp_path / 'cache').mkdir()
    subprocess.run('gcc -shared -fPIC -o libdebuginfod.so.1 library.c'.split(), cwd=tmp_path, check=True)
    said = report('--debuginfod=http://server', LD_LIBRARY_PATH=str(tmp_path)).err
    assert 'downloaded 1 file' in said and 'not downloaded: too large' in said and 'not on the' not in said


def test_mini_debug_information(millrace, stripped, tmp_path):
    if '+lzma' not in millrace('--version').out or not shutil.which('xz'):
        pytest.skip('built without liblzma, or no xz')
    script = '''set -e
        nm -D --format=posix --defined-only whole | awk '{print $1}' | sort >dynamic
        nm --format=posix --defined-only whole | awk '$2 ~ /[Tt]/ {print $1}' | sort | comm -13 dynamic - >keep
        objcopy -S --remove-section .comment --keep-symbols=keep served/hot.debug mini
        xz -f mini; strip -o hot.mini whole; objcopy --add-section .gnu_debugdata=mini.xz hot.mini'''
    subprocess.run(['sh', '-c', script], cwd=stripped, check=True)
    data = tmp_path / 'data'
    millrace('record', '-q', '-N', '-e', 'cpu-clock:u', '-F', '999', '-o', data, '--', stripped / 'hot.mini')
    out = millrace('report', '-i', data, '-s', 'sym').out
    assert 'hidden_hot' in out and 'exported_hot' in out and '0x' not in out
    # What cannot be unpacked is as if it were not there.
    for content in [b'', b'\xfd7zXZ\0' + b'x' * 100, (stripped / 'mini.xz').read_bytes()[:-40]]:
        (stripped / 'broken').write_bytes(content)
        subprocess.run(['sh', '-c', 'strip -o hot.broken whole && objcopy --add-section .gnu_debugdata=broken '
                        'hot.broken 2>/dev/null'], cwd=stripped, check=True)
        millrace('record', '-q', '-N', '-e', 'cpu-clock:u', '-F', '999', '-o', data, '--', stripped / 'hot.broken')
        out = millrace('report', '-i', data, '-s', 'sym').out
        assert 'exported_hot' in out and 'hidden_hot' not in out


def names_of(millrace, data, path, **environ):
    """Of the functions of that object; addresses for those that have no name."""
    done = millrace('report', '-i', data, '-s', 'dso,sym', '--json', env={**os.environ, **environ})
    shown = json.loads(done.out)
    entries = [entry for entry in shown['events'][0]['entries'] if entry['dso'] == str(path)]
    assert entries
    return {entry['sym'] or '0x' for entry in entries}, ' '.join(hint['text'] for hint in shown['hints'])


def test_debug_file_of_a_static_program(millrace, stripped, tmp_path):
    """Which has no dynamic symbols; offsets of the debug file's segments are not those of the program."""
    script = '''set -e
        gcc -O1 -g -static -Wl,--build-id -o static hot.c; cp static whole_static
        objcopy --only-keep-debug static static.debug; strip static; cp static nameless
        objcopy --add-gnu-debuglink=static.debug static'''
    subprocess.run(['sh', '-c', script], cwd=stripped, check=True)
    for name in 'static', 'nameless':
        millrace('record', '-q', '-N', '-e', 'cpu-clock:u', '-F', '999', '-o', tmp_path / name, '--', stripped / name)
    names, hints = names_of(millrace, tmp_path / 'static', stripped / 'static')
    assert {'hidden_hot', 'exported_hot'} <= names and '0x' not in names and not hints
    functions = subprocess.run(['nm', stripped / 'whole_static'], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert names <= {line.split()[-1] for line in functions.splitlines()}
    names, hints = names_of(millrace, tmp_path / 'nameless', stripped / 'nameless')
    assert names == {'0x'} and 'nameless is stripped' in hints


@pytest.mark.parametrize('how', ['objcopy', 'eu-strip'])
def test_debug_file_without_its_program(millrace, stripped, tmp_path, how):
    """What objcopy leaves does not say where code is in the program: no names are better than those of others."""
    if not shutil.which(how):
        pytest.skip(f'no {how}')
    gone, cache = tmp_path / 'gone', tmp_path / 'cache'
    shutil.copy(stripped / 'whole', gone)
    millrace('record', '-q', '-N', '-e', 'cpu-clock:u', '-F', '999', '-o', tmp_path / 'data', '--', gone)
    notes = subprocess.run(['readelf', '-n', gone], stdout=subprocess.PIPE, text=True, check=True).stdout
    place = cache / re.search(r'Build ID: (\w+)', notes).group(1)
    place.mkdir(parents=True)
    split = {'objcopy': ['objcopy', '--only-keep-debug', gone, place / 'debuginfo'],
             'eu-strip': ['eu-strip', '-f', place / 'debuginfo', '-o', tmp_path / 'rest', gone]}[how]
    subprocess.run(split, check=True)
    gone.unlink()
    names, hints = names_of(millrace, tmp_path / 'data', gone, DEBUGINFOD_CACHE_PATH=str(cache))
    if how == 'objcopy':
        assert names == {'0x'} and 'gone is not here' in hints
    else:
        assert {'hidden_hot', 'exported_hot'} <= names and not hints


def test_debug_file_of_another_build(millrace, stripped, tmp_path):
    """Without build-ids only the CRC in .gnu_debuglink tells them apart."""
    script = '''set -e
        sed 's/hidden_hot/other_hot/g; s/exported_hot/strange/g' hot.c >other.c
        for name in hot other; do
            gcc -O1 -g -rdynamic -fno-plt -Wl,--build-id=none -o $1/$name $name.c
            objcopy --only-keep-debug $1/$name $1/$name.debug
        done
        cd $1; strip hot; objcopy --add-gnu-debuglink=hot.debug hot'''
    subprocess.run(['sh', '-c', script, 'sh', tmp_path], cwd=stripped, check=True)
    millrace('record', '-q', '-e', 'cpu-clock:u', '-F', '999', '-o', tmp_path / 'data', '--', tmp_path / 'hot')
    names, hints = names_of(millrace, tmp_path / 'data', tmp_path / 'hot')
    assert {'hidden_hot', 'exported_hot'} <= names and not hints
    assert 'hot.c:' in millrace('report', '-i', tmp_path / 'data', '-s', 'sym,srcline').out
    (tmp_path / 'other.debug').rename(tmp_path / 'hot.debug')
    names, hints = names_of(millrace, tmp_path / 'data', tmp_path / 'hot')
    assert names <= {'exported_hot', 'main', '0x'} and 'hot is stripped' in hints
    assert 'other.c' not in millrace('report', '-i', tmp_path / 'data', '-s', 'sym,srcline').out


@pytest.mark.parametrize('how', ['zlib', 'zlib-gnu', 'zstd'])
def test_compressed_sections(millrace, stripped, tmp_path, how):
    pack = ['objcopy', f'--compress-debug-sections={how}', stripped / 'whole', tmp_path / 'hot']
    if subprocess.run(pack, check=False).returncode:
        pytest.skip(f'objcopy does not know {how}')
    millrace('record', '-q', '-N', '-e', 'cpu-clock:u', '-F', '999', '-o', tmp_path / 'data', '--', tmp_path / 'hot')
    out = millrace('report', '-i', tmp_path / 'data', '-s', 'sym,srcline').out
    assert re.search(r'hidden_hot +hot\.c:\d', out), out
    # The checksum of what is unpacked is its last byte.
    elf = bytearray((tmp_path / 'hot').read_bytes())
    sections = subprocess.run(['readelf', '-SW', tmp_path / 'hot'], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
    packed = re.findall(r'(?:\.zdebug_\w+ +PROGBITS +0+ (\w+) (\w+)|\.debug_\w+ +PROGBITS +0+ (\w+) (\w+) \w+ +\w*C)',
                        sections)
    if not packed:
        pytest.skip(f'objcopy does not know {how}')
    for at, size in (filter(None, found) for found in packed):
        elf[int(at, 16) + int(size, 16) - 1] ^= 1
    (tmp_path / 'hot').write_bytes(elf)
    millrace('record', '-q', '-N', '-e', 'cpu-clock:u', '-F', '999', '-o', tmp_path / 'data', '--', tmp_path / 'hot')
    out = millrace('report', '-i', tmp_path / 'data', '-s', 'sym,srcline').out
    assert 'hidden_hot' in out and 'hot.c:' not in out, out


def test_huge_section(millrace, program, stripped, tmp_path):
    """A section of 6 GiB, of which the file is nearly all holes: neither read nor waited for. The names stay."""
    whole, app = stripped / 'whole', tmp_path / 'hot'
    shutil.copy(whole, app)
    sections = subprocess.run(['readelf', '-SW', whole], stdout=subprocess.PIPE, text=True, check=True).stdout
    number = int(re.search(r'\[ *(\d+)\] \.debug_abbrev', sections).group(1))
    elf = bytearray(whole.read_bytes())
    header = struct.unpack_from('<Q', elf, 40)[0] + 64 * number
    struct.pack_into('<Q', elf, header + 32, 6 << 30)
    app.write_bytes(elf)
    os.truncate(app, (6 << 30) + len(elf))
    millrace('record', '-q', '-N', '-e', 'cpu-clock:u', '-F', '999', '-o', tmp_path / 'data', '--', app)
    report = ['report', '-i', tmp_path / 'data', '-s', 'sym,srcline']
    out = millrace(*report).out
    assert re.search(r'hidden_hot +hot\[', out) or re.search(r'hidden_hot +hidden_hot\+', out), out
    assert peak_memory([program, *report]) < 1 << 20


def names_at(millrace, app, offsets, data):
    """What is printed for samples at these offsets in a file."""
    start, path = 0x10000000, str(app).encode() + b'\0'
    path = path.ljust((len(path) + 7) & ~7, b'\0')
    mapped = struct.pack('<IHH2I3Q', 1, 2, 40 + len(path), 7, 7, start, 1 << 20, 0) + path
    samples = b''.join(perf_file.sample(2, start + offset, 7 << 32 | 7) for offset in offsets)
    attr = perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2)
    data.write_bytes(perf_file.build([attr], {}, records=mapped + samples + perf_file.FINISHED_ROUND))
    return millrace('script', '-i', data, '-F', 'ip,sym').out.split()[1::2]


def text_of(*args):
    return subprocess.run([str(arg) for arg in args], check=True, stdout=subprocess.PIPE, text=True).stdout


def make_or_skip(*args):
    made = subprocess.run([str(arg) for arg in args], check=False, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f'{args}: {made.stderr}')


@pytest.mark.parametrize('bits', ['-m32', '-m64'])
@pytest.mark.parametrize('linker', ['bfd', 'lld'])
@pytest.mark.parametrize('exports', ['-rdynamic', '-no-pie'])
def test_entries_of_the_plt(millrace, tmp_path, bits, linker, exports):
    """What the section says of their size is 4 for GNU ld on i386, and 0 for lld. A stripped program that exports
    nothing has no other names."""
    app = tmp_path / 'app'
    (tmp_path / 'app.c').write_text('#include <string.h>\n#include <stdlib.h>\n'
                                    'int main(int argc, char **argv) { return strlen(argv[0]) + abs(argc) + rand(); }')
    make_or_skip('gcc', bits, f'-fuse-ld={linker}', '-s', exports, '-fno-builtin', '-Wl,-z,lazy', '-o', app,
                 tmp_path / 'app.c')
    code = subprocess.run(['objdump', '-dF', '-j', '.plt', app], check=True, stdout=subprocess.PIPE, text=True).stdout
    entries = {int(offset, 16): name for name, offset in re.findall(r'<(\w+@plt)> \(File Offset: 0x(\w+)\):', code)}
    assert {'strlen@plt', 'abs@plt', 'rand@plt'} <= set(entries.values()), code
    found = names_at(millrace, app, [offset + inside for offset in entries for inside in (0, 15)], tmp_path / 'data')
    assert found == [name for name in entries.values() for _ in range(2)], (found, code)


SECTIONS = '''
        .text
        .type sized, @function
sized:  nop
        nop
        .size sized, . - sized
        .type unsized, @function
unsized: nop
        nop
        .globl end_of_text
end_of_text:
        .section other, "ax", @progbits
        nop
        nop
'''


@pytest.mark.skipif(os.uname().machine != 'x86_64', reason='an instruction is a byte')
def test_symbols_without_a_size_end_in_their_section(millrace, tmp_path):
    """What follows has no names: it is not more of them. So _init is before the PLT."""
    app = tmp_path / 'app'
    (tmp_path / 'app.s').write_text(SECTIONS)
    make_or_skip('gcc', '-nostdlib', '-shared', '-Wl,--section-start=other=0x2000', '-Wl,-Ttext=0x1ffc', '-o', app,
                 tmp_path / 'app.s')
    text = int(re.search(r'\] \.text +PROGBITS +\w+ (\w+) 000004 ', text_of('readelf', '-SW', app)).group(1), 16)
    found = names_at(millrace, app, range(text, text + 6), tmp_path / 'data')
    assert found == ['sized'] * 2 + ['unsized'] * 2 + ['[unknown]'] * 2


CHOSEN = r'''
#include <stdlib.h>
#include <string.h>
static int one(int x) { return x; }
static int (*choose(void))(int) { return one; }
int chosen(int) __attribute__((ifunc("choose")));
int main(int argc, char **argv) { return strlen(argv[0]) + chosen(argc) + abs(argc) + rand(); }
'''


def names_of_slots(app):
    """Names of the functions whose addresses are in the words from which the PLT jumps."""
    symbols = {}
    for address, name in re.findall(r' (\w{16}) +\d+ I?FUNC .* (\w+)(?:@\S*)?\n', text_of('readelf', '-sW', app)):
        symbols.setdefault(int(address, 16), set()).add(name)
    relocations = text_of('readelf', '-rW', app).split("'.rela.plt'", 1)[1]
    slots = {int(slot, 16): {name} for slot, name in re.findall(r'(\w{16}) .*_JUMP_SLOT +\w+ (\w+)', relocations)}
    slots.update((int(slot, 16), symbols[int(address, 16)])
                 for slot, address in re.findall(r'(\w{16}) .*_IRELATIVE +(\w+)', relocations))
    return slots


@pytest.mark.skipif(os.uname().machine != 'x86_64', reason='the PLT of x86-64')
@pytest.mark.parametrize('options', [[], ['-Wl,-z,now'], ['-Wl,-z,ibtplt'], ['-fuse-ld=gold'],
                                     ['-fuse-ld=lld', '-Wl,-z,retpolineplt'], ['-fuse-ld=lld', '-Wl,-z,force-ibt'],
                                     ['-static']], ids=' '.join)
def test_entries_of_the_plt_are_named_by_their_code(millrace, tmp_path, options):
    """They are not in the order of the relocations, of another size, or in two sections."""
    app = tmp_path / 'app'
    (tmp_path / 'app.c').write_text(CHOSEN)
    make_or_skip('gcc', '-fcf-protection', '-fno-builtin', *options, '-o', app, tmp_path / 'app.c')
    slots, nr = names_of_slots(app), 0
    sections = text_of('readelf', '-SW', app)
    for section, address, offset in re.findall(r'\] (\.plt(?:\.sec)?) +PROGBITS +(\w+) (\w+)', sections):
        code = text_of('objdump', '-dw', '-j', section, app)
        jumps = [(int(at, 16), slots.get(int(slot, 16))) for at, slot in
                 re.findall(r'(\w+):.*\b(?:jmp|mov) .*# (\w+)', code)]
        jumps = [(at + int(offset, 16) - int(address, 16), names) for at, names in jumps if names]
        found = names_at(millrace, app, [at for at, _ in jumps], tmp_path / 'data') if jumps else []
        for (at, names), name in zip(jumps, found):
            assert name in {f'{name}@plt' for name in names}, (hex(at), found, code)
        nr += len(found)
    assert nr == len(slots) >= 4, slots


def test_hints(millrace, program, stripped, data, tmp_path):
    shown = json.loads(millrace('report', '-i', data, '-s', 'dso,sym', '--json').out)
    entries = shown['events'][0]['entries']
    without = sum(entry['period'] for entry in entries if entry['dso'].endswith('/hot') and not entry['sym'])
    (hint,) = shown['hints']
    assert without > 0 and 'is stripped' in hint['text']
    assert hint['percent'] == pytest.approx(100 * without / sum(entry['period'] for entry in entries), abs=0.01)
    assert millrace('report', '-i', data, '-q').err == ''
    both = run_command(['sh', '-c', '"$@" 2>&1', 'sh', program, 'report', '-i', data]).out
    assert both.rstrip().splitlines()[-1].startswith('millrace: '), 'it comes behind the report'
    shutil.copy(stripped / 'hot', tmp_path / 'gone')
    millrace('record', '-q', '-N', '-e', 'cpu-clock:u', '-F', '999', '-o', tmp_path / 'data', '--', tmp_path / 'gone')
    (tmp_path / 'gone').unlink()
    done = millrace('report', '-i', tmp_path / 'data', '-s', 'dso')
    assert re.fullmatch(r'millrace: \d+ % of samples: .*/gone is not here, and no copy of it: record with '
                        r"--bundle, or name record's --buildid-dir(, or --debuginfod)?\n", done.err)


@pytest.mark.skipif(os.geteuid() != 0, reason='needs root: a file of another user')
def test_hint_for_a_file_that_may_not_be_read(program, stripped, tmp_path):
    shutil.copy(stripped / 'hot', tmp_path / 'theirs')
    run_command([program, 'record', '-q', '-N', '-e', 'cpu-clock:u', '-F', '999', '-o', tmp_path / 'data', '--',
                 tmp_path / 'theirs'], status=0)
    (tmp_path / 'theirs').chmod(0o700)
    os.chown(tmp_path / 'theirs', 65534, 65534)
    done = run_command(['setpriv', '--bounding-set=-all', '--inh-caps=-all', program, 'report', '-i', tmp_path / 'data',
                        '-s', 'dso'], status=0)
    assert re.fullmatch(r'millrace: \d+ % of samples: .*/theirs cannot be read: Permission denied\n', done.err)


def test_hint_for_run_time_code(millrace, programs, tmp_path):
    """Without a map nothing names the code, and its runtime is known by what the process has mapped."""
    millrace('record', '-q', '-e', 'cpu-clock:u', '-F', '999', '-o', tmp_path / 'data', '--', programs / 'jit', '0.3',
             tmp_path)
    done = millrace('report', '-i', tmp_path / 'data')
    assert re.search(r'\d+ % of samples: code that jit \(pid \d+\) compiled at run time, without a map of it: make its '
                     r'runtime write /tmp/perf-PID.map or a jitdump\n', done.err), done.err


def test_hint_for_run_time_code_of_a_program_that_python_started(millrace, programs, tmp_path):
    """What python has mapped is not the program's."""
    python = os.path.realpath(sys.executable)
    millrace('record', '-q', '-e', 'cpu-clock:u', '-F', '999', '-o', tmp_path / 'data', '--', python, '-c',
             f'import subprocess; subprocess.run(["{programs}/jit", "0.5", "{tmp_path}"], check=True)')
    said = millrace('report', '-i', tmp_path / 'data').err
    assert 'code that jit (pid ' in said and 'make its runtime write' in said and '-X perf' not in said, said


@pytest.mark.parametrize('options, said', [([], ' and those that it starts from now on'), (['-i'], '')], ids=str)
def test_hint_for_children(millrace, spawn, tmp_path, options, said):
    """A server's work is in processes that were there before."""
    parent = spawn(['sh', '-c', 'sleep 60 & sleep 60 & wait'])
    wait_until(lambda: open(f'/proc/{parent.pid}/task/{parent.pid}/children').read().count(' ') == 2, 'two children')
    done = millrace('record', *options, '-e', 'cpu-clock', '-p', parent.pid, '-o', tmp_path / 'data', '--', 'sleep',
                    '0.1')
    assert f'no samples: -p takes process {parent.pid} (sh){said}, but not the 2 children that it has' in done.err
    with open(f'/proc/{parent.pid}/task/{parent.pid}/children') as text:
        children = text.read().split()
    they = said.replace('it starts', 'they start')
    for nr in 1, 2:  # those that are named, too, are recorded
        done = millrace('record', *options, '-e', 'cpu-clock', '-p', ','.join([str(parent.pid), *children[:nr]]), '-o',
                        tmp_path / 'data', '--', 'sleep', '0.1')
        hint = f'no samples: -p takes these 2 processes{they}, but not the other 1 that they have: '
        assert hint in done.err if nr == 1 else 'no samples' not in done.err, done.err


@pytest.mark.parametrize('options', [[], ['-z'], ['--overwrite']], ids=str)
def test_hint_for_children_with_waits_of_the_parent(millrace, spawn, tmp_path, options):
    """Samples of --off-cpu say nothing of them; where nothing else is recorded they are what was wanted."""
    parent = spawn(['sh', '-c', 'sleep 60 & wait'])
    wait_until(lambda: open(f'/proc/{parent.pid}/task/{parent.pid}/children').read(), 'a child')
    wait_until(lambda: '\nState:\tS' in open(f'/proc/{parent.pid}/status').read(), 'that it waits')
    for event in 'cpu-clock', 'dummy':
        done = millrace('record', *options, '-e', event, '--off-cpu', '-p', parent.pid, '-o', tmp_path / 'data', '--',
                        'sleep', '0.1')
        assert not re.search(r'captured 0 samples', done.err) and 'captured' in done.err, done.err
        hint = f'no samples on a CPU: -p takes process {parent.pid} (sh) and those that it starts from now on, but not'
        assert (hint in done.err) == (event == 'cpu-clock'), done.err
    busy = spawn(['sh', '-c', 'sleep 60 & while :; do :; done'])
    wait_until(lambda: open(f'/proc/{busy.pid}/task/{busy.pid}/children').read(), 'a child')
    done = millrace('record', *options, '-e', 'cpu-clock', '-F', '999', '--off-cpu', '-p', busy.pid, '-o',
                    tmp_path / 'data', '--', 'sleep', '0.5')
    assert 'no samples' not in done.err, done.err


def test_hint_for_children_leaves_out_the_recorder(program, run, tmp_path):
    """Which a shell has started that is recorded."""
    command = f'{program} record -e cpu-clock -c 1000000000000 -o {tmp_path}/data -p $$ -- true'
    err = run(['sh', '-c', f'{command}; :']).err
    assert 'captured 0 samples' in err and 'no samples' not in err, err
    err = run(['sh', '-c', f'sleep 60 & {command}; kill $!']).err
    assert 'but not the 1 children that it has' in err, err


MANY_INLINED = '''
static volatile unsigned long n;
template<int N> static inline __attribute__((always_inline)) void level(void)
{
        level<N - 1>();
}
template<> inline __attribute__((always_inline)) void level<0>(void) { for (int i = 0; i < 100000; i++) n += i * 3; }
int main(void)
{
        for (int i = 0; i < 3000; i++)
                level<40>();
}
'''


def test_line_around_many_inlined_functions(millrace, tmp_path):
    """Of more than 31 inlined functions the outer ones are left out; the function around them keeps its line."""
    (tmp_path / 'many.cc').write_text(MANY_INLINED)
    subprocess.run(['g++', '-O2', '-g', '-o', 'many', 'many.cc'], cwd=tmp_path, check=True)
    millrace('record', '-q', '-N', '-e', 'cpu-clock:u', '-F', '500', '--call-graph', 'dwarf', '-o', tmp_path / 'data',
             '--', tmp_path / 'many')
    script = millrace('script', '-i', tmp_path / 'data', '-F', 'ip,sym,srcline').out
    chains = [re.findall(r'^\s+[0-9a-f]+ (level<\d+>|main)\n\s+many\.cc:(\d+)', chain, re.MULTILINE)
              for chain in script.split('\n\n')]
    inlined = [chain for chain in chains if chain and chain[0] == ('level<0>', '7')]
    assert inlined
    assert {tuple(chain) for chain in inlined} == {
        (('level<0>', '7'), *((f'level<{i}>', '5') for i in range(1, 31)), ('main', '11'))}


def test_many_aliases_of_what_plt_entries_jump_to(run, program, tmp_path):
    """A made-up file: each entry jumps to a function that is chosen at run time, and has very many names."""
    nr, text = 300000, 0x1000
    function = struct.pack('<QQ', text, 16)
    parts = {
        b'.symtab': bytes(24) + (struct.pack('<IBBH', 1, 2, 0, 3) + function) * nr +
        struct.pack('<IBBH', 7, 0x12, 0, 3) + function,  # the last one is global: it is shown
        b'.strtab': b'\0local\0global\0',
        b'.text': bytes(16),
        b'.rela.plt': struct.pack('<QQq', 0x9000, 37, text) * nr,  # R_X86_64_IRELATIVE
        b'.plt': b'\x68\0\0\0\0\x90\x90\x90' * nr,  # push 0
    }
    kinds = {b'.symtab': (2, 0, 2, 24), b'.strtab': (3, 0, 0, 0), b'.text': (1, 6, 0, 0), b'.rela.plt': (4, 2, 0, 24),
             b'.plt': (1, 6, 0, 0), b'.shstrtab': (3, 0, 0, 0)}
    names = b'\0' + b'\0'.join(kinds) + b'\0'
    body, headers, offsets = bytearray(text), bytes(64), {}
    for name in (b'.text', *(name for name in parts if name != b'.text')):
        offsets[name] = len(body)
        body += parts[name] + bytes(-len(parts[name]) % 16)
    offsets[b'.shstrtab'] = len(body)
    parts[b'.shstrtab'] = names
    body += names + bytes(-len(names) % 16)
    for name, (kind, flags, link, entry) in kinds.items():
        headers += struct.pack('<2I4Q2I2Q', names.index(b'\0' + name + b'\0') + 1, kind, flags,
                               offsets[name] if flags else 0, offsets[name], len(parts[name]), link, 0, 8, entry)
    struct.pack_into('<16s2HI3QI6H', body, 0, b'\x7fELF\2\1\1', 3, 62, 1, 0, 0, len(body), 0, 64, 56, 0, 64, 7, 6)
    (tmp_path / 'lib.so').write_bytes(body + headers)
    name = os.fsencode(tmp_path / 'lib.so')
    mmap = struct.pack('<2I3Q', 7, 7, 0x400000, 1 << 28, 0) + name + bytes(8 - len(name) % 8)
    samples = [perf_file.sample(2, 0x400000 + at + 4, 7 << 32 | 7) for at in (text, offsets[b'.plt'])]
    (tmp_path / 'data').write_bytes(perf_file.build(
        [perf_file.attr(type=1, sample_period=1, sample_type=1 | 2)], {},
        records=struct.pack('<IHH', 1, 2, 8 + len(mmap)) + mmap + b''.join(samples) + perf_file.FINISHED_ROUND))
    done = run(['prlimit', '--cpu=10', program, 'script', '-i', tmp_path / 'data', '-F', 'ip,sym'])
    (tmp_path / 'lib.so').unlink()
    assert done.out.split()[1::2] == ['global', 'global@plt'], done


SPLIT = '''
#include <time.h>
static volatile unsigned long n;
static inline __attribute__((always_inline)) void inner(unsigned k)
{
        for (unsigned i = 0; i < k; i++)
                n += i; /* INNER */
}
__attribute__((noinline)) void outer(unsigned k)
{
        inner(k); /* OUTER */
}
int main(void)
{
        while (clock() < 300000)
                outer(100000);
}
'''


@pytest.mark.parametrize('flags', [['-gdwarf-5'], ['-gdwarf-4']], ids=' '.join)
def test_no_line_of_a_function_that_may_be_inlined(millrace, tmp_path, flags):
    """Without the .dwo file it is not known what was inlined, so not whether a line is one of the function itself."""
    (tmp_path / 'split.c').write_text(SPLIT)
    subprocess.run(['gcc', '-O1', *flags, '-gsplit-dwarf', '-c', 'split.c'], cwd=tmp_path, check=True)
    subprocess.run(['gcc', '-o', 'split', 'split.o'], cwd=tmp_path, check=True)
    data = tmp_path / 'data'
    millrace('record', '-q', '-N', '-g', '-e', 'cpu-clock:u', '-F', '1999', '-o', data, '--', tmp_path / 'split')
    outer, = [nr for nr, line in enumerate(SPLIT.split('\n'), 1) if 'OUTER' in line]

    def lines(*options):
        out = millrace('script', '-i', data, '-F', 'ip,sym,srcline', *options).out
        return set(re.findall(r' outer(?: \(inlined\))?\n +(.*)', out))

    assert lines('--inline') == {f'split.c:{outer}'}
    assert all(line.startswith('split.c:') for line in lines('--no-inline'))
    (tmp_path / 'split.dwo').rename(tmp_path / 'elsewhere')
    assert lines('--inline') and not any('split.c' in line for line in lines('--inline'))
    assert lines('--no-inline') and all(line.startswith('split.c:') for line in lines('--no-inline'))
