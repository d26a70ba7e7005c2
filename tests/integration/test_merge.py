# SPDX-License-Identifier: MIT
"""One file of a directory, or of several files: the same records, in order, that perf reads too."""
import pathlib
import re
import resource
import struct
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import perf_file  # noqa: E402
from conftest import ALL_CPUS, sanitized  # noqa: E402
from law import loss_of  # noqa: E402
from perfdata import LEDGER, MMAP2, PerfData, sections_of  # noqa: E402

USAGE = 129
WORKLOAD = ['sh', '-c', 'for i in 1 2 3; do ls -lR /usr/share/doc/l* | sort | wc -l & done; wait']


@pytest.fixture(scope='module')
def directory(need_root, need_tracefs, perf, tmp_path_factory):
    path = tmp_path_factory.mktemp('merge') / 'dir'
    perf('record', '--threads=cpu', '-e', 'sched:sched_switch,sched:sched_waking', *ALL_CPUS, '-g', '-o', path,
         '--', 'sh', '-c', 'for i in 1 2 3 4 5 6; do ls -lR /usr/share/doc /usr/include | sort | wc -l & done; wait; '
         'head -c 200000000 /dev/zero | cat | wc -c')  # some MB of records, however few files are installed
    return path


@pytest.fixture(scope='module')
def records(need_root, millrace, tmp_path_factory):
    """Two files of two events each, one after the other, with the event cpu-clock in both."""
    where = tmp_path_factory.mktemp('records')
    for name, events in ('a', 'cpu-clock,page-faults'), ('b', 'cpu-clock,context-switches'):
        millrace('record', '-e', events, '-o', where / name, '--', *WORKLOAD)
    return where


def counts(millrace, path):
    text = millrace('report', '--stats', '-i', path).out
    found = {}
    for name, number in re.findall(r'^ *(\w+) events: +(\d+)', text, re.M):
        found.setdefault(name, int(number))  # of all events first, then of each
    found['TOTAL'] -= found.pop('FINISHED_ROUND', 0)
    return found


def plain(text):
    """
    Lines without what is not merging's: the width of columns, which of two symbols of one address is taken, and tasks
    of other tests whose names perf does not escape.
    """
    return [re.sub(r'\+0x[0-9a-f]+', '', ' '.join(line.split())) for line in text.removesuffix('\n').split('\n')
            if not re.search(r'[^\x20-\x7e\t]|\\x[0-9a-f]{2}|\\u\{', line)]


def feature_bits(path):
    return sum(word << 64 * i for i, word in enumerate(struct.unpack_from('<4Q', path.read_bytes(), 72)))


@pytest.mark.text_of_perf
def test_directory(directory, perf, millrace, tmp_path):
    out = tmp_path / 'merged'
    out.write_bytes(b'what was there')
    done = millrace('merge', directory, '-o', out)
    assert done.out == '' and done.err.count('\n') == 1
    assert (tmp_path / 'merged.old').read_bytes() == b'what was there'
    assert out.stat().st_mode & 0o777 == 0o600
    theirs, ours = perf('script', '-i', out), millrace('script', '-i', out).out
    assert ours == millrace('script', '-i', directory).out
    assert 'out of order' not in theirs.err
    assert plain(ours) == plain(theirs.out)
    assert counts(millrace, out) == counts(millrace, directory)
    # All features but that it is a directory.
    assert feature_bits(out) == feature_bits(directory / 'data') & ~(1 << 24)
    assert perf('evlist', '-v', '-i', out).out == perf('evlist', '-v', '-i', directory).out
    assert perf('buildid-list', '-i', out).out == perf('buildid-list', '-i', directory).out


def add_feature(data, bit):
    """The same file with a feature that nothing knows, of 4 bytes; `bit` is above all others."""
    start, size = struct.unpack_from('<2Q', data, 40)
    end, nr = start + size, bin(int.from_bytes(data[72:104], 'little')).count('1')
    table = [struct.unpack_from('<2Q', data, end + 16 * i) for i in range(nr)]
    table = [(at + 16, length) for at, length in table] + [(len(data) + 16, 4)]
    bits = int.from_bytes(data[72:104], 'little') | 1 << bit
    return (data[:72] + bits.to_bytes(32, 'little') + data[104:end]
            + b''.join(struct.pack('<2Q', *row) for row in table) +
            data[end + 16 * nr:] + b'what')


@pytest.mark.text_of_perf
def test_ledger_and_features_of_a_newer_perf(records, perf, millrace, tmp_path):
    """One file keeps its ledger; of several none tells of all. Bits that perf 6.1 does not know are left out."""
    one, two, newer = tmp_path / 'one', tmp_path / 'two', tmp_path / 'newer'
    newer.write_bytes(add_feature((records / 'a').read_bytes(), 33))
    newer.chmod(0o600)
    assert millrace('script', '-i', newer).out == perf('script', '-i', newer).out == millrace('script',
        '-i', records / 'a').out
    assert loss_of(millrace, newer)['ledger']
    millrace('merge', '-o', one, newer)
    assert feature_bits(one) == feature_bits(records / 'a') and LEDGER in sections_of(one.read_bytes())
    assert loss_of(millrace, one)['cost'] == loss_of(millrace, records / 'a')['cost']
    millrace('merge', '-o', two, newer, records / 'b')
    assert feature_bits(two) >> 32 == 0 and LEDGER not in sections_of(two.read_bytes())
    assert not loss_of(millrace, two)['ledger']


def test_marks_bound_the_memory_of_readers(directory, millrace, tmp_path):
    out = tmp_path / 'merged'
    millrace('merge', '-o', out, directory)
    data = out.read_bytes()
    at, size = struct.unpack_from('<2Q', data, 40)
    end, last, marks = at + size, at, 0
    while at < end:
        kind, _, length = struct.unpack_from('<IHH', data, at)
        if kind == 68:
            marks, last = marks + 1, at
        at += length
        assert at - last < (1 << 20) + 65536
    assert marks >= size // (1 << 20) - 1 and size > 1 << 20


def test_merged_again_is_the_same(directory, millrace, tmp_path):
    millrace('merge', directory, '-o', tmp_path / 'once')
    millrace('merge', tmp_path / 'once', '-o', tmp_path / 'twice')
    assert (tmp_path / 'twice').read_bytes() == (tmp_path / 'once').read_bytes()


def events_of(perf, path):
    return perf('evlist', '-i', path).out.split()


def script_times(text):
    return [float(time) for time in re.findall(r' (\d+\.\d+): ', text)]


@pytest.mark.text_of_perf
def test_several_files(records, perf, millrace, tmp_path):
    out = tmp_path / 'merged'
    millrace('merge', records / 'b', records / 'a', '-o', out)
    both = [counts(millrace, records / name) for name in 'ab']
    merged = counts(millrace, out)
    assert merged == {name: sum(one.get(name, 0) for one in both) for name in merged}
    names = events_of(perf, out)
    assert [name.split(':')[0] for name in names if 'dummy' not in name] == ['cpu-clock', 'context-switches',
                                                                         'page-faults']
    theirs = perf('script', '-i', out)
    assert 'out of order' not in theirs.err
    ours = plain(millrace('script', '-i', out).out)
    assert ours == plain(theirs.out)
    # One recording ended before the other one began: each sample reads as it did alone.
    assert ours == [line for name in 'ab' for line in plain(millrace('script', '-i', records / name).out)]
    assert script_times(theirs.out) == sorted(script_times(theirs.out))


@pytest.mark.text_of_perf
def test_group_that_is_read_in_samples(need_root, perf, millrace, tmp_path):
    """Beside an event without values in its samples; as the parts of a directory, too."""
    fields = '--ns', '-F', 'comm,tid,time,period,event'
    for options in [], ['--threads']:
        file, out = tmp_path / f'x{len(options)}', tmp_path / f'm{len(options)}'
        millrace('record', *options, '-e', 'context-switches', '-c', '1', '-e', '{cpu-clock,page-faults}:S', '-o', file,
                 '--', 'sh', '-c', 'i=0; while [ $i -lt 9999 ]; do i=$((i + 1)); done; sleep 0.01; echo')
        millrace('merge', file, '-o', out)
        samples = sorted(plain(millrace('script', *fields, '-i', file).out))
        assert any('page-faults:' in line for line in samples) and any('context-switches:' in line for line in samples)
        assert sorted(plain(millrace('script', *fields, '-i', out).out)) == samples
        assert sorted(plain(perf('script', *fields, '-i', out).out)) == samples


def one_line(done, *texts):
    assert done.out == '' and done.err.count('\n') == 1, done
    for text in texts:
        assert text in done.err, done


def patched(path, to, old, new):
    data = path.read_bytes()
    assert data.count(old) >= 1 and len(old) == len(new)
    to.write_bytes(data.replace(old, new))
    return to


def test_what_cannot_be_joined(records, millrace, tmp_path):
    out = tmp_path / 'merged'
    a, b = records / 'a', records / 'b'
    name = subprocess.run(['uname', '-n'], stdout=subprocess.PIPE, check=True).stdout.strip()
    other = patched(b, tmp_path / 'other', name + bytes(8), b'X' * len(name) + bytes(8))
    one_line(millrace('merge', a, other, '-o', out, status=255), 'time of day', 'record with --clockid mono')
    millrace('record', '-e', 'cpu-clock', '-g', '--side-channel=off', '-o', tmp_path / 'single', '--', 'true')
    one_line(millrace('merge', a, tmp_path / 'single', '-o', out, status=255), 'cannot be joined', 'cpu-clock')
    stream = millrace('record', '-e', 'cpu-clock', '-o', '-', '--', 'sh', '-c', ':', binary=True).out
    (tmp_path / 'stream').write_bytes(stream)
    one_line(millrace('merge', tmp_path / 'stream', '-o', out, status=255), 'layout of a pipe')
    assert not out.exists()


HOST_PIDS, CLOCK_DATA = 1 << 22, 29


@pytest.fixture(scope='module')
def hosts(need_root, program, programs, tmp_path_factory):
    """Recordings of two machines, of which the second one has been up 5 s less."""
    where = tmp_path_factory.mktemp('hosts')
    for name in 'web1', 'web2':
        command = [program, 'record', '-e', 'cpu-clock', '-F', '999', '-k', 'mono', '-g', '--off-cpu', '--all-cgroups',
                   '-o', where / name, '--', programs / 'spin', '-t', '2', '-m', '100']
        subprocess.run(['unshare', '--uts', 'sh', '-c', f'hostname {name}; exec "$@"', 'sh', *command], check=True)
    data = bytearray((where / 'web2').read_bytes())
    offset, _ = sections_of(data)[CLOCK_DATA]
    wall, = struct.unpack_from('<Q', data, offset + 8)
    struct.pack_into('<Q', data, offset + 8, wall + 5_000_000_000)
    (where / 'web2').write_bytes(data)
    return where


def samples_of(text):
    """[(comm, pid, tid, cpu, time, event, [(symbol, object) of the chain])]."""
    found = []
    for block in text.strip().split('\n\n'):
        head, *chain = block.split('\n')
        comm, pid, tid, cpu, time, event = re.match(r' *(.+?) +(\d+)/(\d+) +\[(\d+)\] +(\d+\.\d+): +(\S+):',
                                                    head).groups()
        frames = [re.match(r'\s+[0-9a-f]+ (.*) \((.*)\)$', line).groups() for line in chain]
        found.append((comm, int(pid), int(tid), int(cpu), round(float(time) * 1e6), event, frames))
    return found


@pytest.mark.text_of_perf
def test_several_machines(hosts, perf, millrace, tmp_path):
    out = tmp_path / 'merged'
    done = millrace('merge', hosts / 'web1', hosts / 'web2', '-o', out)
    moved, cpus = re.search(r'web2: times moved by \+(\S+) s, to the clock of web1 .*; pids by 4194304, CPUs by (\d+)',
                            done.err).groups()
    assert abs(float(moved) - 5) < 1e-3
    fields = ('-F', 'comm,pid,tid,cpu,time,event,ip,sym,dso', '--no-inline')
    first, second = (samples_of(millrace('script', '-i', hosts / name, *fields).out) for name in ('web1', 'web2'))
    ours = millrace('script', '-i', out, *fields).out
    merged = samples_of(ours)
    assert len(merged) == len(first) + len(second) and [row[4] for row in merged] == sorted(row[4] for row in merged)
    assert [row for row in merged if row[1] < HOST_PIDS] == first
    for there, here in zip(second, [row for row in merged if row[1] >= HOST_PIDS], strict=True):
        assert here[0] == there[0] and here[5] == there[5] and abs(here[4] - there[4] - float(moved) * 1e6) < 2
        assert here[1:4] == (there[1] + HOST_PIDS, there[2] + HOST_PIDS, there[3] + int(cpus))
        # No name of the kernel of another machine.
        assert [('[unknown]', '[kernel of web2]') if name == '[kernel.kallsyms]' else (symbol, name)
                for symbol, name in there[6]] == here[6]
    theirs = perf('script', '-i', out, *fields)
    assert plain(theirs.out) == plain(ours) and 'out of order' not in theirs.err
    table = millrace('report', '-i', out, '-s', 'host', '-n', '-g', 'none', '-F', 'host,sample').out
    assert sum(map(int, re.findall(r'^ +web1 +(\d+)', table, re.M))) == len(first)
    assert sum(map(int, re.findall(r'^ +web2 +(\d+)', table, re.M))) == len(second)
    # Both machines have one kernel: that of the second is no other, it only has no names here.
    hints = millrace('report', '-i', out, '-s', 'dso', '-g', 'none').err
    assert re.search(r'% of samples: \[kernel of web2\] has no names: ', hints) and 'is not the kernel' not in hints
    # Who ended a wait is a task of the same machine.
    text = millrace('report', '-i', out, '-s', 'host,waker', '-g', 'none').out
    wakers = re.findall(r'(web\d) +spin\S*:(\d+)', text)
    assert wakers and all((name == 'web2') == (int(tid) >= HOST_PIDS) for name, tid in wakers), text
    # Three recordings, two of one machine: they share its numbers.
    again = millrace('merge', hosts / 'web2', hosts / 'web1', hosts / 'web2', '-o', out)
    assert re.search(r'web1: times moved by -(5\.00|4\.99)', again.err) and again.err.count('times moved') == 1
    table = millrace('report', '-i', out, '-s', 'host', '-n', '-g', 'none', '-F', 'host,sample').out
    assert sum(map(int, re.findall(r'^ +web2 +(\d+)', table, re.M))) == 2 * len(second)


def test_machines_that_cannot_be_merged(hosts, need_tracefs, millrace, tmp_path):
    out = tmp_path / 'merged'
    millrace('record', '-k', 'mono', '-e', 'sched:sched_switch', '-o', tmp_path / 'a', '--', 'true')
    done = millrace('merge', tmp_path / 'a', hosts / 'web1', '-o', out, status=255)
    one_line(done, 'of other machines', 'tracepoints')
    assert not out.exists()


def host_file(path, host, wall, records, payloads=()):
    """A recording whose clock was 1 s at that time of day, of samples with an id, all other records with a trailer."""
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4 | 64, bits=1 << 18 | 1 << 25, clockid=1)
    clock = struct.pack('<2I2Q', 1, 1, wall * 10**9, 10**9)
    features = {3: perf_file.string(host), 7: struct.pack('<2I', 2, 2), CLOCK_DATA: clock, **dict(payloads)}
    path.write_bytes(perf_file.build([attr], features, ids=[[5]], records=records + perf_file.FINISHED_ROUND))
    return path


def test_kernel_symbols_of_two_machines(millrace, tmp_path):
    """KSYMBOL records, which the kernel makes too long: what it left behind them is no time."""
    inputs = []
    for host, wall in (('web1', 7000), ('web2', 7005)):
        body = struct.pack('<QIHH16s', 0xffffffffc0000000, 64, 1, 0, b'bpf_prog_1')
        trailer, old = struct.pack('<2I2Q', 0, 0, 10**9, 5), b'\x77' * 40
        ksymbol = struct.pack('<IHH', 17, 0, 8 + len(body + trailer + old)) + body + trailer + old
        records = b''.join(perf_file.sample(1, 0xffffffff81000000, 7 << 32 | 7, 10**9 + i, 5) for i in (1, 2))
        inputs.append(host_file(tmp_path / host, host, wall, ksymbol + records))
    millrace('merge', '-o', tmp_path / 'both', *inputs)
    shown = millrace('script', '-i', tmp_path / 'both', '--show-bpf-events', '--ns').out
    found = [re.search(r' (\d+\.\d+):.*(KSYMBOL|cpu-clock)', line).groups() for line in shown.splitlines()]
    assert found == [(f'{at}.00000000{i}', kind) for at in (1, 6)
                     for i, kind in enumerate(('KSYMBOL', 'cpu-clock', 'cpu-clock'))], shown


@pytest.mark.parametrize('host', ('web2', 'web2' + 300 * 'x'), ids=('short', 'long'))
def test_kernel_maps_of_two_machines(millrace, tmp_path, host):
    """The map of the other kernel has another name, and as another time only what its clock makes of it."""
    inputs = []
    for name, wall in (('web1', 7000), (host, 7005)):
        body = struct.pack('<iI3Q24s', -1, 0, 0xffffffff81000000, 4096, 0xffffffff81000000, b'[kernel.kallsyms]_text')
        trailer = struct.pack('<2I2Q', 7, 8, 10**9, 5)
        mmap = struct.pack('<IHH', 1, 1, 8 + len(body + trailer)) + body + trailer
        sample = perf_file.sample(1, 0xffffffff81000000, 7 << 32 | 7, 10**9 + 1, 5)
        inputs.append(host_file(tmp_path / str(wall), name, wall, mmap + sample))
    millrace('merge', '-o', tmp_path / 'both', *inputs)
    shown = millrace('script', '-i', tmp_path / 'both', '--show-mmap-events', '--ns', '-F', 'tid,time,event').out
    found = [(int(tid), time, name or 'sample') for tid, time, name in re.findall(
        r'^ *(\d+) +(\d+\.\d+):(?:.* x (\[.*\S))?', shown, re.M)]
    assert found == [(8, '1.000000000', '[kernel.kallsyms]_text'), (7, '1.000000001', 'sample'),
                     (4194312, '6.000000000', f'[kernel of {host}]'), (4194311, '6.000000001', 'sample')], shown


def test_names_of_machines_that_cannot_be_merged(hosts, millrace, tmp_path):
    """A recording of several machines has theirs; a very long one has no room in the map of a kernel."""
    out, both = tmp_path / 'out', tmp_path / 'both'
    millrace('merge', '-o', both, hosts / 'web1', hosts / 'web2')
    sample = perf_file.sample(1, 0xffffffff81000000, 7 << 32 | 7, 10**9 + 1, 5)
    other = host_file(tmp_path / 'web3', 'web3', 7000, sample)
    for recordings in (both, other), (other, both), (hosts / 'web1', both):
        done = millrace('merge', '-o', out, *recordings, status=255)
        assert f'{both} is of several machines already: name the recordings of each of them' in done.err
    millrace('merge', '-o', out, both)
    assert out.read_bytes() == both.read_bytes()
    out.unlink()
    done = millrace('merge', '-o', out, other, host_file(tmp_path / 'long', 'x' * 70000, 7000, sample), status=255)
    assert 'the name of its machine has more than 4096 bytes' in done.err
    assert not out.exists()


def test_long_names_in_maps_of_two_machines(millrace, tmp_path):
    """With the name of its machine behind it the name of the module is too long for a record."""
    body = struct.pack('<iI3Q', -1, 0, 0xffffffff81000000, 4096, 0) + b'[' + 65449 * b'x' + b']\0\0\0\0\0'
    mmap = struct.pack('<IHH', 1, 1, 8 + len(body) + 32) + body + struct.pack('<2I2Q', 7, 8, 10**9, 5)
    inputs = [host_file(tmp_path / name, name, 7000, mmap) for name in ('web1', 'web2' + 50 * 'x')]
    assert 'the record is damaged' in millrace('merge', '-o', tmp_path / 'out', *inputs, status=255).err
    assert not (tmp_path / 'out').exists()


def test_maps_that_only_claim_a_build_id(millrace, tmp_path):
    """In the merged file they have one if it is known, and else they claim none."""
    def mmap2(path, inode):
        body = struct.pack('<2I3Q2I2Q2I16s', 7, 7, 0x1000, 0x1000, 0, 8, 3, inode, 1, 5, 2, path)
        body += struct.pack('<2I2Q', 7, 7, 10**9, 5)
        return struct.pack('<IHH', MMAP2, 1 << 14 | 2, 8 + len(body)) + body
    of_known = struct.pack('<IHHi24s8s', 0, 1 << 15 | 2, 44, -1, bytes(range(20)) + bytes([20]), b'/known')
    inputs = [host_file(tmp_path / name, name, 7000, mmap2(b'/known', 77) + mmap2(b'/unknown', 78), {2: of_known})
              for name in ('web1', 'web2')]
    millrace('merge', '-o', tmp_path / 'both', *inputs)
    found = [(record.misc >> 14 & 1, record.body[32:56]) for record in PerfData(tmp_path / 'both').records()
             if record.type == MMAP2]
    assert sorted(set(found)) == [(0, struct.pack('<2I2Q', 8, 3, 78, 1)),
                                  (1, bytes([20, 0, 0, 0]) + bytes(range(20)))], found


def test_recorded_before_the_first_machine_was_started(millrace, tmp_path):
    """The clock of the first machine has no such time: the other order of the recordings is needed."""
    out = tmp_path / 'both'

    def recording(host, wall, *times, behind_each=b''):
        return host_file(tmp_path / host, host, wall, b''.join(
            perf_file.sample(1, 0xffffffff81000000, 7 << 32 | 7, time, 5) + behind_each for time in times))

    def expect_refused(late, early):
        done = millrace('merge', '-o', out, late, early, status=255)
        assert done.err.splitlines()[1:] == [f'millrace: {early} was recorded before web1 was started, whose clock all '
                                             'times are moved to: name the recordings of web2 first']
        assert not out.exists()

    late = recording('web1', 7000, 10**9)
    # web2 was started 5 s before web1; one of the samples is the last before that or the first after it.
    for times in ((5 * 10**9,), (1,), (6 * 10**9, 5 * 10**9)):
        early = recording('web2', 6995, *times)
        expect_refused(late, early)
        millrace('merge', '-o', out, early, late)
        found = re.findall(r' (\d+\.\d+): ', millrace('script', '-i', out, '--ns').out)
        assert found == [f'{time // 10**9}.{time % 10**9:09}' for time in sorted([*times, 6 * 10**9])]
        out.unlink()
    # Also where such a time comes behind others.
    expect_refused(late, recording('web2', 6995, 7 * 10**9, 10**9, behind_each=3 * perf_file.FINISHED_ROUND))
    millrace('merge', '-o', out, late, recording('web2', 6995, 5 * 10**9 + 1))
    assert re.findall(r' (\d+\.\d+): ', millrace('script', '-i', out, '--ns').out) == ['0.000000001', '1.000000000']


def test_one_recording_twice(records, millrace, tmp_path):
    """It is said, and done."""
    a, link = records / 'a', tmp_path / 'link'
    link.symlink_to(a)
    for other, words in (a, ''), (link, f', also as {a}'):
        done = millrace('merge', a, records / 'b', other, '-o', tmp_path / 'out')
        assert f'{other} is given twice{words}: its samples count twice\n' in done.err and 'of 3 recordings' in done.err
    assert 'given twice' not in millrace('merge', a, records / 'b', '-o', tmp_path / 'out').err


def test_command_line(records, millrace, tmp_path):
    a = records / 'a'
    one_line(millrace('merge', a, status=USAGE), '-o FILE')
    one_line(millrace('merge', '-o', tmp_path / 'out', status=USAGE), 'needs data directories')
    one_line(millrace('merge', a, '-o', a, status=USAGE), 'another -o')
    copy = tmp_path / 'x.old'
    copy.write_bytes(a.read_bytes())
    one_line(millrace('merge', copy, '-o', tmp_path / 'x', status=USAGE), 'another -o')
    one_line(millrace('merge', a, '-o', '-', status=USAGE), 'not a pipe')
    one_line(millrace('merge', tmp_path / 'missing', '-o', tmp_path / 'out', status=255), 'No such file')
    assert copy.read_bytes() == a.read_bytes() and not (tmp_path / 'out').exists()


def test_damage_is_reported_and_the_rest_merged(records, millrace, tmp_path):
    cut = tmp_path / 'cut'
    data = (records / 'a').read_bytes()
    start, size = struct.unpack_from('<2Q', data, 40)
    cut.write_bytes(data[:start + size // 2 + 1])
    done = millrace('merge', cut, '-o', tmp_path / 'out', status=255)
    assert 'cut off' in done.err
    assert millrace('script', '-i', tmp_path / 'out').out == millrace('script', '-i', cut, status=255).out


def test_full_disk(directory, millrace, tmpfs):
    where = tmpfs('256k')
    (where / 'out').write_bytes(b'what was there')
    one_line(millrace('merge', directory, '-o', where / 'out', status=255), 'No space left', str(where / 'out'))
    assert [(path.name, path.read_bytes()) for path in where.iterdir()] == [('out', b'what was there')]


def test_memory_is_bounded(directory, program, tmp_path):
    """Half of what the records take; what is mapped of the input is the page cache's and does not count."""
    if sanitized():
        pytest.skip('sanitizers need more address space than the limit of this test allows')
    size = sum(path.stat().st_size for path in directory.iterdir())
    big = tmp_path / 'big'
    big.mkdir()
    (big / 'data').write_bytes((directory / 'data').read_bytes())
    times = -(-(96 << 20) // size)
    for part in directory.glob('data.*'):
        (big / part.name).write_bytes(part.read_bytes() * times)  # late ones are delivered too
    limit = 24 << 20

    def limited():
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    done = subprocess.run([program, 'merge', big, '-o', tmp_path / 'out'], stderr=subprocess.PIPE, text=True,
                          preexec_fn=limited)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / 'out').stat().st_size > 64 << 20


def test_many_build_ids(millrace, tmp_path):
    """Each once, in the order of the recordings, and not compared each with each."""
    def build_id(nr, name):
        name = name.encode() + b'\0'
        body = struct.pack('<iQQI4B', -1, nr, nr, nr, 20, 0, 0, 0) + name.ljust((len(name) + 7) // 8 * 8, b'\0')
        return struct.pack('<IHH', 0, 1 << 15 | 2, 8 + len(body)) + body

    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4)
    many = [build_id(nr, f'/many/{nr}') for nr in range(150000)]
    first, second = tmp_path / 'a', tmp_path / 'b'
    for path, ids in (first, [build_id(1, '/one'), *many]), (second, [*many[::-1], build_id(2, '/one'), many[3]]):
        path.write_bytes(perf_file.build([attr], {2: b''.join(ids)}, records=perf_file.sample(2, 1, 5, 1000)))
    millrace('merge', first, second, '-o', tmp_path / 'all', timeout=60)
    assert perf_file.features(tmp_path / 'all')[2] == b''.join([build_id(1, '/one'), *many, build_id(2, '/one')])
