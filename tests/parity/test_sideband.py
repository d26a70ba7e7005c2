# SPDX-License-Identifier: MIT
"""What is told about the machine before the first sample is what perf tells, and so are the objects that were hit."""
import ctypes
import os
import pathlib
import re
import struct
import subprocess
import sys

import pytest

from conftest import end_group, hostile_names
from perfdata import COMM, FINISHED_INIT, FORK, MMAP, MMAP2, PerfData

ID_INDEX, THREAD_MAP, CPU_MAP, EVENT_UPDATE, KSYMBOL, BPF_EVENT = 69, 73, 74, 78, 17, 18

pytestmark = pytest.mark.usefixtures('need_root')

# Maps of every kind, threads with names, then silence: nothing about it changes any more.
TARGET = r'''
import mmap, os, sys, threading
with open('/proc/self/comm', 'w') as comm:
    comm.write(os.environ.get('NAME', 'target'))
def thread(name):
    with open(f'/proc/self/task/{threading.get_native_id()}/comm', 'w') as comm:
        comm.write(name)
    started.release()
    threading.Event().wait()
started = threading.Semaphore(0)
for name in 'a thread', 'fifteen letters', ') (':
    threading.Thread(target=thread, args=(name,), daemon=True).start()
    started.acquire()
kept = []
for i, name in enumerate(sys.argv[1:]):
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o700)
    os.ftruncate(fd, 8192)
    flags = mmap.MAP_SHARED if i % 2 else mmap.MAP_PRIVATE
    kept.append(mmap.mmap(fd, 4096, flags, mmap.PROT_READ | mmap.PROT_EXEC, offset=4096))
    os.close(fd)
    if 'gone' in name:
        os.unlink(name)
kept.append(mmap.mmap(-1, 8192, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_EXEC))
kept.append(mmap.mmap(-1, 8192, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7))
print('ready', flush=True)
threading.Event().wait()
'''


def start_target(spawn, *names, comm='target'):
    """The process TARGET with these files mapped; it is ready when this returns."""
    process = spawn([sys.executable, '-c', TARGET, *names], stdout=subprocess.PIPE, cwd='/',
                    env={**os.environ, 'NAME': comm})
    assert process.stdout.readline() == b'ready\n'
    return process


@pytest.fixture
def target(spawn, tmp_path):
    long = tmp_path
    while len(str(long)) < 3800:
        long = long / ('d' * 200)
    os.makedirs(long)
    return start_target(spawn, *(str(tmp_path / name) for name in ('plain.so', 'a b  c.so', 'tail ', 'gone.so')),
                        str(long / 'long.so'))


@pytest.fixture
def both(millrace, perf, tmp_path):
    """both('-a', …) -> the files of millrace and of perf for these options of record, while `true` runs."""
    def record(*options):
        ours, theirs = tmp_path / 'ours.data', tmp_path / 'theirs.data'
        perf('record', '-o', theirs, *options, '--', 'true')
        millrace('record', '--side-channel=off', '-o', ours, *options, '--', 'true')
        return PerfData(ours), PerfData(theirs)

    return record


def before_samples(data):
    """The records up to FINISHED_INIT, with their headers, as bytes."""
    for record in data.records():
        if record.type == FINISHED_INIT:
            return
        yield struct.pack('<I2H', record.type, record.misc, len(record.body) + 8) + record.body


def kind(record):
    return struct.unpack_from('<I', record)[0]


def pid(record):
    return struct.unpack_from('<i', record, 8)[0]


def of_pids(data, pids):
    return [record for record in before_samples(data) if kind(record) in (COMM, FORK, MMAP, MMAP2)
            and pid(record) in pids]


def readable(records):
    """For the message of a failed assertion."""
    return [(kind(record), pid(record), record[16:].strip(b'\0')[-60:]) for record in records]


def assert_equal(ours, theirs):
    if ours != theirs:
        assert readable(ours) == readable(theirs)
        assert ours == theirs
    assert ours


@pytest.mark.parametrize('options', [[], ['-d'], ['-g', '-e', 'cpu-clock,cs'], ['--per-thread']], ids=' '.join)
def test_a_process_is_synthesised_as_by_perf(both, target, options):
    ours, theirs = both('-e', 'cpu-clock', *options, '-p', target.pid)
    records = of_pids(ours, [target.pid])
    assert_equal(records, of_pids(theirs, [target.pid]))
    assert len([record for record in records if kind(record) == COMM]) == 4
    for part in b'a b  c.so\0', b'/tail \0', b'gone.so (deleted)\0', b'//anon\0', b'[vdso]\0', b'd/long.so\0':
        assert any(part in record for record in records), part


def test_threads_are_synthesised_as_by_perf(both, target):
    """But for what perf writes once more for the next thread of a process."""
    tids = sorted(os.listdir(f'/proc/{target.pid}/task'))  # as text: the order that perf gives them
    for chosen in [tids[1]], tids[1:3], [tids[0], tids[2]]:
        ours, theirs = both('-e', 'cpu-clock', '-t', ','.join(chosen))
        assert_equal(of_pids(ours, [target.pid]), list(dict.fromkeys(of_pids(theirs, [target.pid]))))


def test_maps_without_build_ids_beside_a_recorder_of_build_ids(recorder, perf, spawn, tmp_path):
    """
    The kernel says of the maps of a task that they have a build-id, and gives device and inode, while another event
    wants build-ids: perf aborts on that. That recorder begins later: the kernel visits its events first.
    """
    task = spawn(['sh', '-c', 'read line; for i in 1 2 3; do /bin/ls /; done'], stdin=subprocess.PIPE,
                 stdout=subprocess.DEVNULL)
    files = [tmp_path / name for name in ('files', 'ids')]
    recorders = [recorder(['-e', 'cpu-clock', '-o', file, *options, '-p', task.pid])
                 for file, options in zip(files, ([], ['--buildid-mmap']))]
    task.stdin.write(b'\n')
    task.stdin.close()
    for process in recorders:
        assert process.wait() == 0
    maps, with_ids = ([record for record in PerfData(file).records() if record.type == MMAP2] for file in files)
    assert sum(record.misc >> 14 & 1 for record in with_ids) >= 6
    assert len(maps) >= 6 and not any(record.misc >> 14 & 1 for record in maps)
    shown = perf('script', '-i', files[0], '--show-mmap-events').out
    assert re.search(r' [0-9a-f]+:[0-9a-f]+ \d+ \d+\]: r-xp \S*/ls$', shown, re.M), shown


def quiet_state(number):
    """What must not change while two recorders look at a process one after the other."""
    process = pathlib.Path('/proc') / str(number)
    try:
        tasks = [(task.name, (task / 'comm').read_text()) for task in sorted((process / 'task').iterdir())]
        stat = (process / 'stat').read_text().rsplit(')', 1)[1].split()
        return tasks, (process / 'maps').read_text(), stat[1], stat[19]
    except OSError:
        return None


def test_all_processes_are_synthesised_as_by_perf(both, target):
    before = {number: quiet_state(number) for number in map(int, filter(str.isdigit, os.listdir('/proc')))}
    ours, theirs = both('-e', 'cpu-clock', '-a')
    same = {number for number, state in before.items() if state and state == quiet_state(number)}
    # not those whose description says what they do at the moment, nor those with names that perf leaves escaped
    same -= {number for number in same if before[number][0][0][1].startswith('kworker') or '\\' in before[number][1]}
    assert target.pid in same
    assert_equal(of_pids(ours, same), of_pids(theirs, same))


def test_the_rest_comes_in_the_same_order(both, target):
    def shape(data):
        return [(kind(record), len(record)) for record in before_samples(data)
                if kind(record) in (ID_INDEX, MMAP, EVENT_UPDATE, THREAD_MAP, CPU_MAP)]

    def exact(data):
        return [record for record in before_samples(data) if kind(record) in (MMAP, CPU_MAP)]

    for options in ['-a'], ['-C', '0'], ['-p', target.pid], ['-e', 'task-clock,cpu-clock,cs'], ['--per-thread'], []:
        ours, theirs = both('-e', 'cpu-clock', *options)
        assert shape(ours) == shape(theirs)
        assert exact(ours) == exact(theirs)


def test_names_are_those_of_the_files(spawn, millrace, tmp_path):
    """Where perf keeps the escapes of procfs."""
    path = tmp_path / 'new\nline.so'
    ours = tmp_path / 'ours.data'
    with hostile_names():
        process = start_target(spawn, str(path), comm='a\\b\nc')
        millrace('record', '-e', 'cpu-clock', '-o', ours, '-p', process.pid, '--', 'true')
        end_group(process)
    records = of_pids(PerfData(ours), [process.pid])
    assert any(os.fsencode(path) + b'\0' in record for record in records)
    assert any(kind(record) == COMM and record[16:].startswith(b'a\\b\nc\0') for record in records)


def load_bpf(name):
    """An fd of a small program, or None where that is not possible."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(struct.pack('<2BhiBBhi', 0xb7, 0, 0, 0, 0x95, 0, 0, 0))  # return 0
    licence = ctypes.create_string_buffer(b'GPL')
    attr = struct.pack('<2I2Q2IQ2I16s', 1, 2, ctypes.addressof(code), ctypes.addressof(licence), 0, 0, 0, 0, 0, name)
    fd = libc.syscall(321, 5, ctypes.create_string_buffer(attr, 128), 128)
    return fd if fd >= 0 else None


@pytest.mark.skipif(os.uname().machine != 'x86_64', reason='knows the number of bpf(2) on x86-64 only')
def test_bpf_programs_are_synthesised_as_by_perf(both):
    name = f'mr{os.getpid() % 1000000}'.encode()
    fd = load_bpf(name)
    if fd is None:
        pytest.skip('cannot load a BPF program')
    try:
        ours, theirs = both('-e', 'cpu-clock')
    finally:
        os.close(fd)

    def reported(data):
        records = list(before_samples(data))
        found = [i for i, record in enumerate(records) if kind(record) == KSYMBOL and name + b'\0' in record]
        return [records[i + j] for i in found for j in range(2)]

    assert [kind(record) for record in reported(ours)] == [KSYMBOL, BPF_EVENT]
    assert reported(ours) == reported(theirs)


def objects(perf, data, *options):
    """Those with a build-id. The [vdso] is stored without having been hit, by perf as well."""
    lines = perf('buildid-list', *options, '-i', data).out.splitlines()
    return {line for line in lines if not line.startswith(' ') and '[vdso]' not in line}


def path_of(line):
    return line.split(' ', 1)[1]


def paths_of_several_files(data):
    """Mapped on the machine, in containers too: perf gives all files of a path one build-id."""
    files = {}
    for record in PerfData(data).records():
        if record.type == MMAP2:
            device_and_inode, generation = record.body[32:48], record.body[48:56]
            name = os.fsdecode(record.body[64:].split(b'\0', 1)[0])
            files.setdefault(name, {}).setdefault(device_and_inode, set()).add(generation)
    return {name for name, found in files.items()  # those that were mapped before have no generation
            if len(found) > 1 or any(len(generations - {bytes(8)}) > 1 for generations in found.values())}


@pytest.mark.parametrize('options', [['-e', 'cpu-clock'], ['-e', 'cpu-clock', '-a'],
                                     ['-e', 'cpu-clock,sched:sched_switch', '-a', '-F', '9000'],
                                     ['-e', 'page-faults', '-c', '1']], ids=' '.join)
def test_the_objects_are_those_that_perf_finds(millrace, perf, tmp_path, options):
    """--with-hits makes perf look for the samples' objects itself."""
    data = tmp_path / 'data'
    millrace('record', '-o', data, *options, '--',
             'sh', '-c', 'for i in 1 2 3 4 5; do ls -lR /usr/share/doc | sort | md5sum; date; done')
    found = objects(perf, data)
    differ = found ^ objects(perf, data, '--with-hits')
    assert {path_of(line) for line in differ} <= paths_of_several_files(data), differ
    if differ:
        sampled = set(re.findall(r'\((/.*)\)$', perf('script', '-F', 'ip,sym,dso', '-i', data).out, re.M))
        assert {path_of(line) for line in differ & found} <= sampled
    assert any('/libc.so' in line for line in found)
    assert any('kernel.kallsyms' in line for line in found)


def test_objects_of_callers_come_in_addition(millrace, perf, programs, tmp_path):
    """spin_thread was called by libc, which is never on top itself."""
    data = tmp_path / 'data'
    millrace('record', '-g', '-e', 'cpu-clock:u', '-o', data, '--', programs / 'spin', '-m', '100')
    assert objects(perf, data, '--with-hits') <= objects(perf, data)
    assert any('/libc.so' in line for line in objects(perf, data))
