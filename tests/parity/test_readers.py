# SPDX-License-Identifier: MIT
"""Files of every mode of millrace record are read by perf 6.1, without an error or a warning, and by hotspot."""
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import end_group, threads_of, while_it_runs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from perfdata import STOCK_FEATURES, PerfData, sections_of  # noqa: E402

SPIN = ['-t', '2', '-m', '50']
MODES = {
    'command': ['-e', 'cpu-clock', '--', '{spin}'],
    'default event': ['--', '{spin}'],
    'call chains fp': ['-e', 'cpu-clock', '-g', '--', '{spin}'],
    'call chains dwarf': ['-e', 'cpu-clock', '-F', '500', '--call-graph', 'dwarf', '--', '{spin}'],
    'call chains dwarf,1024': ['-e', 'cpu-clock', '--call-graph', 'dwarf,1024', '--', '{spin}'],
    'call chains unwind': ['-e', 'cpu-clock', '-F', '500', '--call-graph', 'unwind', '--', '{spin}'],
    'all CPUs': ['-a', '-e', 'cpu-clock', '--', '{spin}'],
    'all CPUs fp': ['-a', '-g', '-e', 'cpu-clock', '--', '{spin}'],
    'one CPU': ['-C', '0', '-e', 'cpu-clock', '--', '{spin}'],
    'process': ['-p', '{pid}', '-e', 'cpu-clock', '--', '{until}'],
    'thread': ['-t', '{tid}', '-e', 'cpu-clock', '--', '{until}'],
    'per thread': ['--per-thread', '-p', '{pid}', '-e', 'cpu-clock', '--', '{until}'],
    'no inherit': ['-i', '-e', 'cpu-clock', '--', '{spin}'],
    'tracepoint': ['-e', 'sched:sched_switch', '--', '{spin}'],
    'tracepoints by glob': ['-a', '-e', 'sched:*', '--', '{spin}'],
    'raw system calls': ['-m', '4M', '-a', '-e', 'raw_syscalls:*', '--', '{spin}'],
    'several events': ['-e', 'cpu-clock,cs,page-faults', '--', '{spin}'],
    'several kinds': ['-e', 'cpu-clock,sched:sched_switch', '-g', '--', '{spin}'],
    'named by the user': ['-e', 'cpu-clock/period=100000,name=clock/u', '--', '{spin}'],
    'modifiers': ['-e', 'cpu-clock:u,task-clock:k', '--', '{spin}'],
    'period': ['-e', 'cpu-clock', '-c', '100000', '--', '{spin}'],
    'addresses': ['-d', '-e', 'page-faults', '-c', '1', '--', '{spin}'],
    'counts per thread': ['-s', '-e', 'cpu-clock', '--', '{spin}'],
    'delay': ['-D', '20', '-e', 'cpu-clock', '--', '{spin}'],
    'times and periods': ['-T', '-P', '-R', '-e', 'cpu-clock', '--', '{spin}'],
    'no build-ids': ['-B', '-e', 'cpu-clock', '--', '{spin}'],
    'mmap writer': ['--writer=mmap', '-e', 'cpu-clock', '-g', '--', '{spin}'],
    'aio writer': ['--aio=2', '-e', 'cpu-clock', '-g', '--', '{spin}'],
}
PIPES = ['command', 'call chains fp', 'all CPUs', 'tracepoint', 'several events', 'several kinds', 'per thread']


@pytest.fixture(scope='module')
def recorded(millrace, programs, need_tracefs, tmp_path_factory):
    """recorded(mode, pipe=False): the file of that mode, recorded when it is asked for first."""
    made, base = {}, tmp_path_factory.mktemp('recorded')

    def record(mode, pipe, file, load):
        args = []
        for arg in MODES[mode]:
            if arg == '{spin}':
                args += [programs / 'spin', *SPIN]
            elif arg == '{until}':
                args += while_it_runs(load.pid, 0.1)
            else:  # the last thread spins, the first one waits
                args.append(arg.format(pid=load and load.pid, tid=load and max(threads_of(load.pid, 3))))
        if pipe:
            file.write_bytes(millrace('record', '-q', '-o', '-', *args, binary=True).out)
            file.chmod(0o600)
        else:
            millrace('record', '-q', '-o', file, *args)

    def recording(mode, pipe=False):
        if (mode, pipe) not in made:
            file, load = base / f'{len(made)}.data', None
            if '{until}' in MODES[mode]:
                load = subprocess.Popen([programs / 'spin', '-t', '2', '-m', '600000'], start_new_session=True)
            try:
                record(mode, pipe, file, load)
            finally:
                if load:
                    end_group(load)
            made[mode, pipe] = file
        return made[mode, pipe]
    return recording


@pytest.fixture(scope='module')
def perf_version(perf):
    return perf('--version').out


def read_with_perf(perf, perf_version, file, pipe=False):
    outputs = {}
    commands = [('script',), ('report', '--stdio'), ('evlist', '-v')]
    if not pipe:  # perf report --stats stumbles over the tracing data of perf's own pipes, too
        commands += [('report', '--stats'), ('buildid-list',), ('report', '--header-only')]
    for command in commands:
        done = perf(*command, '-i', file)
        said = done.err
        if 'version 6.1.' not in perf_version:
            # perf 6.12 asks addr2line(1) for functions that are inlined in the libc, and gives up when it is slow.
            said = re.sub('^addr2line .*: could .*\n', '', said, flags=re.M)
        assert not said.strip(), done
        outputs[command[0]] = done.out
    return outputs


@pytest.mark.parametrize('mode', MODES)
def test_perf_reads_it(recorded, perf, perf_version, mode):
    outputs = read_with_perf(perf, perf_version, recorded(mode))
    assert outputs['evlist'] and (outputs['script'] or mode == 'delay')
    if mode != 'no build-ids' and outputs['script']:
        assert outputs['buildid-list']


# <linux/perf_event.h>: what stands behind a record that is no sample, and bits of attrs.
TRAILER = 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 9 | 1 << 16
IDENTIFIER, SAMPLE_ID_ALL, CONTEXT_SWITCH = 1 << 16, 1 << 18, 1 << 26
EVENT_DESC = 12


@pytest.mark.parametrize('options', [
    ['-e', 'cpu-clock,sched:sched_switch'], ['-e', 'sched:sched_switch,cpu-clock', '--switch-events'],
    ['-a', '-e', 'cpu-clock', '--switch-events'], ['-e', 'cpu-clock/time=0/,faults', '--all-cgroups'],
    ['-e', '{cpu-clock,faults}:S', '--namespaces'], ['--no-timestamp', '-e', 'sched:sched_switch,cpu-clock'],
    ['-e', 'cpu-clock', '--off-cpu', '--switch-events']], ids=' '.join)
def test_first_attr_speaks_for_the_file(millrace, need_root, need_tracefs, tmp_path, options):
    """
    hotspot decodes all records that are no samples by it, samply asks it for CONTEXT_SWITCH and takes no file whose
    first event has no samples, linux-perf-data and quipper expect SAMPLE_ID_ALL of all, and the former reads EVENT_DESC
    first.
    """
    file = tmp_path / 'x.data'
    millrace('record', '-q', '-o', file, *options, '--', 'sh', '-c', 'true; sleep 0.05')
    data, first = PerfData(file), PerfData(file).attrs[0]
    assert first.period > 0 and all(attr.bits & SAMPLE_ID_ALL and attr.sample_type & IDENTIFIER for attr in data.attrs)
    others = [record for record in data.records() if record.type < 64 and record.type != 9]
    assert any(int.from_bytes(record.body[-8:], 'little') in data.by_id for record in others)
    for record in others:
        attr = data.by_id.get(int.from_bytes(record.body[-8:], 'little'), first)  # synthesised ones may have id 0
        assert attr.sample_type & TRAILER == first.sample_type & TRAILER
    assert bool(first.bits & CONTEXT_SWITCH) == any(record.type in (14, 15) for record in others)
    offset, _ = sections_of(data.bytes)[EVENT_DESC]
    size = int.from_bytes(data.bytes[offset + 4:offset + 8], 'little')
    attrs_at = int.from_bytes(data.bytes[24:32], 'little')
    assert data.bytes[offset + 8:offset + 8 + size] == data.bytes[attrs_at:attrs_at + size]


@pytest.mark.parametrize('mode', PIPES)
def test_perf_reads_the_pipe(recorded, perf, perf_version, mode):
    outputs = read_with_perf(perf, perf_version, recorded(mode, pipe=True), pipe=True)
    assert outputs['script']


@pytest.fixture(scope='session')
def perfparser():
    for path in (pathlib.Path('/usr/lib/x86_64-linux-gnu/libexec/hotspot-perfparser'),
                 pathlib.Path('/usr/lib/libexec/hotspot-perfparser')):
        if path.exists():
            return path
    found = shutil.which('hotspot-perfparser')
    if not found:
        pytest.skip('hotspot-perfparser is not installed (Debian: hotspot)')
    return found


@pytest.mark.parametrize('pipe', [False, True], ids=['file', 'pipe'])
@pytest.mark.parametrize('mode', ['command', 'call chains fp', 'call chains dwarf', 'call chains unwind',
                                  'all CPUs', 'process', 'per thread', 'tracepoint', 'several events', 'several kinds'])
def test_hotspot_accepts_it(recorded, perfparser, run, tmp_path, mode, pipe):
    file, out = recorded(mode, pipe), tmp_path / 'parsed'
    done = run([perfparser, '--input', file, '--output', out], env={'QT_QPA_PLATFORM': 'offscreen'})
    assert out.stat().st_size > 2000 and 'rror' not in done.err, done.err


# what perf inject writes of tracepoints to a pipe perf cannot read, of its own files either
FEED = ['-e', 'cpu-clock,context-switches']
KINDS = {
    'plain': [],
    'compressed': ['-z'],
    'threads into one file': ['--threads', '--single-file'],
    'threads into one file, compressed': ['-z', '--threads', '--single-file'],
    'no build-ids': ['-B'],
    'rotation': ['--switch-output=1s'],
    'directory': ['--threads'],
}


@pytest.fixture
def of_kind(millrace, programs, need_tracefs, tmp_path):
    """of_kind(kind): the files of a recording of that kind, or of one that was recovered or merged."""
    def record(path, *options, spin=SPIN):
        millrace('record', '-q', *options, '-o', path, *FEED, '--', programs / 'spin', *spin)
        return path

    def make(kind):
        first, second, out = tmp_path / 'first', tmp_path / 'second', tmp_path / 'out'
        if kind == 'rotation':
            record(first, *KINDS[kind], spin=['-t', '1', '-m', '1300'])
            return sorted(tmp_path.glob('first.*'))
        if kind == 'pipe':
            done = millrace('record', '-q', '-o', '-', *FEED, '--', programs / 'spin', *SPIN, binary=True)
            first.write_bytes(done.out)
            first.chmod(0o600)
            return [first]
        if kind == 'recovered':
            data = bytearray(record(first).read_bytes())
            data[72:104] = bytes(32)  # no features: the recorder did not get to its end
            first.write_bytes(data)
            millrace('recover', '-o', out, first)
            return [out]
        if kind == 'indexed':
            millrace('recover', '--index', '-o', out, record(first, '-B'))
            return [out]
        if kind == 'merged':
            millrace('merge', '-o', out, record(first), record(second, '-z'))
            return [out]
        return [record(first, *KINDS[kind])]
    return make


@pytest.mark.parametrize('kind', [*KINDS, 'recovered', 'indexed', 'merged', 'pipe'])
def test_all_of_perf_takes_it(of_kind, perf, tmp_path, kind):
    """
    Tools of perf that go over the bits of the header without a look at what they know of end by a signal when there is
    one too many: inject 6.1, to a pipe. A rewritten file has what the original has, but for private sections.
    """
    files, compressed = of_kind(kind), '-z' in KINDS.get(kind, [])
    assert files and (kind != 'rotation' or len(files) > 1)
    nr_with_samples = 0
    for file in files:
        main = (file / 'data' if file.is_dir() else file).read_bytes()
        if kind != 'pipe':
            assert max(bit for bit in range(256) if int.from_bytes(main[72:104], 'little') >> bit & 1) < STOCK_FEATURES
        for command in [('script',), ('report', '--header-only'), ('report', '--stdio'), ('evlist',),
                        ('buildid-list',)]:
            perf(*command, '-i', file)
        samples = perf('script', '-F', 'tid,time', '-i', file).out
        nr_with_samples += bool(samples)
        piped = tmp_path / 'piped'
        source = ['-i', file] if kind != 'pipe' else []  # with -i perf leaves out the header of its own pipes, too
        piped.write_bytes(perf('inject', '-b', *source, '-o', '-', input=None if source else main, binary=True).out)
        piped.chmod(0o600)
        if kind != 'directory' and not compressed:  # perf inject leaves out COMPRESSED of its own files, too
            assert perf('script', '-F', 'tid,time', '-i', piped).out == samples
        if kind in ('pipe', 'directory'):  # perf inject cannot make a file of perf's own pipes, either
            continue
        again = tmp_path / 'again'
        perf('inject', '-i', file, '-o', again)
        assert perf('script', '-F', 'tid,time', '-i', again).out == samples
        perf('data', 'convert', '--force', '--to-json', tmp_path / 'json', '-i', file)
        (tmp_path / 'json').unlink()
    assert nr_with_samples  # the last of several may have been begun when the load had ended
