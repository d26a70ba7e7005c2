# SPDX-License-Identifier: MIT
"""Recordings of many kinds, each made once, and what `report` and `script` answer: the same as perf, row by row."""
import itertools
import os
import pathlib
import re
import subprocess

import pytest

from test_report import STEADY, TIP, assert_same, assert_same_graphs

CXX = '''
#include <cstdint>
#include <map>
#include <string>
namespace shop {
template <typename Key> struct Store {
        std::map<Key, uint64_t> items;
        __attribute__((noinline)) void add(const Key &key, uint64_t value) { items[key] += value; }
};
struct Clerk {
        virtual ~Clerk() {}
        virtual void work(Store<std::string> &store, int round) = 0;
};
struct Fast : Clerk {
        __attribute__((noinline)) void work(Store<std::string> &store, int round) override
        {
                for (int i = 0; i < 200; i++)
                        store.add(std::to_string((round * 31 + i) % 977), i);
        }
};
}
int main()
{
        shop::Store<std::string> store;
        shop::Fast fast;
        shop::Clerk *clerk = &fast;
        for (int round = 0; round < 3000; round++)
                clerk->work(store, round);
        return store.items.size() == 0;
}
'''

# Code made at run time, and its names.
JIT = '''
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
        static const unsigned char loop[] = {0xb9, 0, 0, 0, 0x10, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
        char path[64];
        unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(code, loop, sizeof(loop));
        memcpy(code + 64, loop, sizeof(loop));
        snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
        FILE *map = fopen(path, "w");
        fprintf(map, "%lx %zx first made\\n%lx %zx second, made(int)\\n", (unsigned long)code, sizeof(loop),
                (unsigned long)code + 64, sizeof(loop));
        fclose(map);
        ((void (*)(void))code)();
        ((void (*)(void))(code + 64))();
        puts(path);
}
'''

SHELL = [*STEADY, 'sh', '-c', 'for i in 1 2 3; do ls -lR /usr/share/doc | sort | wc -l; done']
CLOCK = ['-e', 'cpu-clock', '-g']


class Recordings:
    """recordings['fp'] -> its path; recorded when it is asked for first."""

    def __init__(self, base, perf, millrace, programs):
        self.base, self.perf, self.millrace, self.programs, self.made = base, perf, millrace, programs, {}
        self.left = []  # to be removed

    def __getitem__(self, name):
        if name not in self.made:
            self.made[name] = getattr(self, name.replace('-', '_'))(self.base / f'{name}.data')
        return self.made[name]

    def record(self, recorder, path, options, workload):
        recorder('record', '-o', path, *options, '--', *workload)
        return path

    def fp(self, path):
        return self.record(self.perf, path, CLOCK, SHELL)

    def fp_ours(self, path):
        return self.record(self.millrace, path, CLOCK, SHELL)

    def compressed(self, path):
        return self.record(self.millrace, path, [*CLOCK, '-z'], SHELL)

    def compressed_perf(self, path):
        return self.record(self.perf, path, [*CLOCK, '-z'], SHELL)

    def directory(self, path):
        return self.record(self.millrace, path, [*CLOCK, '--threads'], SHELL)

    def pipe(self, path):
        path.write_bytes(self.millrace('record', *CLOCK, '-o', '-', '--', 'sh',
                                       '-c', 'ls -lR /usr/share/doc >/dev/null', binary=True).out)
        return path

    def threads(self, path):
        return self.record(self.millrace, path, CLOCK, [self.programs / 'spin', '-t', '4', '-m', '100'])

    def tracepoints(self, path):
        return self.record(self.millrace, path, ['-e', 'sched:sched_switch,sched:sched_process_fork', '-g'], SHELL)

    def events(self, path):
        return self.record(self.perf, path, ['-e', 'cpu-clock,page-faults,dummy', '-g'], SHELL)

    def cxx_program(self):
        source, program = self.base / 'shop.cc', self.base / 'shop'
        if not program.exists():
            source.write_text(CXX)
            subprocess.run(['g++', '-O1', '-fno-omit-frame-pointer', '-o', program, source], check=True)
        return program

    def cxx(self, path):
        return self.record(self.perf, path, ['-e', 'cpu-clock:u', '-g'], [self.cxx_program()])

    def dwarf(self, path):
        return self.record(self.millrace, path, ['-e', 'cpu-clock:u', '--call-graph', 'dwarf,4096'],
                           [self.programs / 'spin', '-t', '2', '-m', '60'])

    def deleted(self, path):
        program = self.base / 'gone'
        program.write_bytes((self.programs / 'spin').read_bytes())
        program.chmod(0o755)
        self.record(self.perf, path, ['-N', '-e', 'cpu-clock:u', '-g'], [program, '-t', '1', '-m', '60'])
        program.unlink()
        return path

    def tracepoints_perf(self, path):
        return self.record(self.perf, path, ['-e', 'raw_syscalls:*,sched:sched_process_exec'], SHELL)

    def tracepoints_compressed(self, path):
        return self.record(self.millrace, path, ['-e', 'sched:*', '-z', '--threads'], SHELL)

    def pipe_perf(self, path):
        path.write_bytes(self.perf('record', '-e', 'cpu-clock,page-faults', '-o', '-', '--', *SHELL, binary=True).out)
        return path

    def pipe_compressed(self, path):
        path.write_bytes(self.millrace('record', '-e', 'cpu-clock', '-z', '-o', '-', '--', *SHELL, binary=True).out)
        return path

    def group(self, path):
        return self.record(self.millrace, path, ['-e', '{cpu-clock,page-faults,context-switches}', '-g'], SHELL)

    def group_perf(self, path):
        return self.record(self.perf, path, ['-e', 'name{cpu-clock,page-faults}:S', '-e', 'context-switches'], SHELL)

    def dwarf_perf(self, path):
        return self.record(self.perf, path, ['-e', 'cpu-clock:u', '--call-graph', 'dwarf,4096'],
                           [self.programs / 'spin', '-t', '2', '-m', '60'])

    def forks(self, path):
        return self.record(self.millrace, path, CLOCK, [self.programs / 'forkstorm', '-p', '2', '-n', '200'])

    def execs_perf(self, path):
        return self.record(self.perf, path, [*CLOCK, '-F', '5000'],
                           [*STEADY, 'sh', '-c', 'for i in 1 2 3 4; do (ls -R /usr/share/doc; exec sh -c '
                            '"sort /etc/services") >/dev/null & done; wait'])

    def jit(self, path):
        source, program = self.base / 'jit.c', self.base / 'jit'
        if os.uname().machine != 'x86_64':
            pytest.skip('the code is for x86-64')
        source.write_text(JIT)
        subprocess.run(['gcc', '-o', program, source], check=True)
        done = self.millrace('record', '-e', 'cpu-clock', '-o', path, '--', program)
        self.left.append(pathlib.Path(done.out.strip()))
        return path

    def mounts(self, path):
        """The program is where only its own mount namespace has it: it cannot be read from here."""
        done = subprocess.run(['unshare', '-m', 'true'], check=False)
        if done.returncode:
            pytest.skip('no mount namespaces here')
        inside = self.base / 'inside'
        inside.mkdir()
        script = (f'mount -t tmpfs none {inside} && cp {self.programs}/spin {inside}/contained && exec '
                  f'{inside}/contained -t 1 -m 60')
        return self.record(self.perf, path, ['-N', '-e', 'cpu-clock:u', '-g', '--namespaces'],
                           ['unshare', '-m', '--propagation', 'private', 'sh', '-c', script])

    def deleted_ours(self, path):
        program = self.base / 'gone-ours'
        program.write_bytes((self.programs / 'spin').read_bytes())
        program.chmod(0o755)
        self.record(self.millrace, path, ['-e', 'cpu-clock', '-g', '-N'],
                    ['sh', '-c', f'{program} -t 1 -m 60 & sleep 0; rm {program}; wait'])
        return path

    def execs(self, path):
        return self.record(self.millrace, path, ['-e', 'cpu-clock', '-c', '200000'],
                           ['sh', '-c', 'for i in 1 2 3 4 5 6; do sh -c "exec ls /usr/share/doc" >/dev/null & done; '
                                        'wait'])


@pytest.fixture(scope='session')
def recordings(need_root, need_tracefs, perf, millrace, programs, tmp_path_factory):
    directory = tmp_path_factory.mktemp('answers')
    # perf names the vdso of a data directory by the copy that a recording of its own has left in ~/.debug.
    perf('record', '-e', 'cpu-clock:u', '-F', '4000', '-o', directory / 'vdso.data', '--', 'python3', '-c',
         'import time\nfor _ in range(2000000): time.monotonic_ns()')
    made = Recordings(directory, perf, millrace, programs)
    yield made
    for path in made.left:
        if re.fullmatch(r'/tmp/perf-\d+\.map', str(path)) and path.is_file() and not path.is_symlink():
            path.unlink()


# What the threads of spin do between start and end. Around that a sample may fall on a function written in assembler,
# or on a stack deeper than what was recorded of it, of which perf shows more than there is:
# docs/differences-from-perf.md. Not what libc's functions are called: perf names them by their debug information, and
# says (inlined).
WORK = ['--comms', 'spin-0,spin-1', '--dsos', 'spin']

GRAPHS = [[], ['--no-children'], ['-g', 'flat,2', '--no-children'], ['-g', 'none', '-s', 'comm,dso']]
REPORTS = (
    [(name, options) for name in ('fp', 'fp-ours', 'compressed', 'compressed-perf', 'directory', 'threads', 'cxx')
     for options in GRAPHS] +
    [('dwarf', options + WORK) for options in GRAPHS] +
    [('pipe', ['--no-children']), ('pipe', ['--no-children', '-g', 'none', '-s', 'dso,sym'])] +
    [(name, options) for name in ('tracepoints', 'events', 'deleted')
     for options in (['-g', 'none'], ['--no-children', '-g', 'caller'],
                     ['--no-children', '-g', 'folded,1', '-s', 'sym'])] +
    [(name, options) for name in ('group', 'group-perf', 'forks', 'execs-perf', 'mounts', 'deleted-ours')
     for options in ([], ['--no-children', '-s', 'comm,dso'], ['-g', 'none', '-n', '-s', 'pid,dso,sym'])] +
    [(name, ['-s', keys]) for name in ('tracepoints-perf', 'tracepoints-compressed', 'pipe-compressed', 'jit',
                                       'pipe-perf')
     for keys in ('comm,dso,sym', 'dso', 'time,comm')] +
    [('dwarf-perf', options + WORK) for options in GRAPHS]
    + [('tracepoints-perf', ['-s', 'trace', '--percent-limit', '1'])] +
    [(name, [option]) for name in ('forks', 'execs-perf', 'mounts', 'threads') for option in ('--tasks', '--mmaps')] +
    [('execs', options) for options in ([], ['-s', 'pid,dso', '-n'], ['-s', 'comm'], ['-q'])] +
    [('execs', ['-n', '-t', ',']), ('cxx', ['-t', ':', '-g', 'none']),
     ('fp', ['--no-children', '-g', 'none', '-t', '_', '-s', 'pid,sym']),
     ('execs', ['--show-total-period', '-n', '-s', 'dso']), ('execs', ['-w', '5,10,4', '-s', 'comm,dso,sym']),
     ('fp', ['-g', 'none', '-w', '0,20,0,6', '-s', 'pid,dso']),
     ('fp', ['--percentage', 'relative', '-c', 'ls', '-g', 'none', '-s', 'comm,dso']),
     ('fp', ['--percentage', 'relative', '-c', 'sort', '--no-children', '-g', 'none', '-s', 'comm,dso']),
     ('execs', ['--percentage', 'absolute', '-c', 'ls', '-s', 'comm,dso'])]
)


def named(case):
    return f'{case[0]} {" ".join(case[1])}'


@pytest.mark.parametrize('case', REPORTS, ids=named)
def test_report(case, recordings, perf, millrace):
    name, options = case
    data = recordings[name]
    theirs = TIP.sub('\n', perf('report', '--stdio', *options, '-i', data).out).replace('[...] (inlined)', '[...]')
    ours = millrace('report', '--stdio', *options, '-i', data).out
    assert theirs.count('\n') > 3
    # rows that the filter hides count for the width, and their frames have other names in perf
    if name.startswith('dwarf'):
        ours, theirs = (re.sub(r'(?m)^(#.*?)(\.\.+| +)$', r'\1', text) for text in (ours, theirs))
        theirs = theirs.replace('__GI___clock_gettime (inlined)', 'clock_gettime@@GLIBC_2.17')
    assert_same_graphs(ours, theirs)


@pytest.mark.parametrize('name', ['fp', 'fp-ours', 'compressed', 'compressed-perf', 'directory', 'pipe', 'pipe-perf',
                                  'pipe-compressed', 'threads', 'cxx', 'tracepoints', 'tracepoints-perf',
                                  'tracepoints-compressed', 'events', 'group', 'group-perf', 'deleted', 'deleted-ours',
                                  'execs', 'execs-perf', 'forks', 'jit', 'mounts'])
def test_script(name, recordings, perf, millrace):
    data = recordings[name]
    # Of a directory perf gives records of the same nanosecond in an order that hangs on how far it has read each file.
    tied = name == 'tracepoints-compressed'
    script = ['script', '--ns', '-i', data] if tied else ['script', '-i', data]
    ours, theirs = (run(*script, binary=True).out.decode(errors='replace') for run in (millrace, perf))
    assert theirs.count('\n') > 5
    assert_same(*map(by_moment, (ours, theirs))) if tied else assert_same(ours, theirs)


def by_moment(text):
    """Lines of the same time, as script --ns prints it, sorted."""
    moments = itertools.groupby(text.splitlines(True), lambda line: re.search(r' \d+\.\d{9}: ', line).group())
    return ''.join(''.join(sorted(lines)) for _, lines in moments)
