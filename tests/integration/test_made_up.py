# SPDX-License-Identifier: MIT
"""Recordings that no recorder would write end in bounded time. Each of these took minutes, or would take hours."""
import bisect
import json
import struct
import subprocess

import perf_file
import pytest
from conftest import sanitized
from perfdata import LEDGER

CPU_TIME = f'--cpu={100 if sanitized() else 10}'  # in seconds; sanitizers take several times as much


def record(kind, misc, body):
    return struct.pack('<IHH', kind, misc, 8 + len(body)) + body


def write(path, records, attr=None, ids=()):
    attr = attr or perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2)
    path.write_bytes(perf_file.build([attr], {}, [ids], records + perf_file.FINISHED_ROUND))


def output_bytes(run, program, data, *words):
    """Of a command that needs little CPU time; the recording is deleted."""
    done = run(['sh', '-c', f'prlimit {CPU_TIME} "$@" | wc -c', 'sh', program, *words, '-i', data])
    data.unlink()
    assert not done.err, done.err
    return int(done.out)


def test_chain_of_forks(run, program, tmp_path):
    """Tasks that each the one before has forked: names stand at most 1,024 columns further to the right."""
    nr = 200000
    tids = sorted(range(1, nr + 1), key=lambda tid: (tid % 256, tid))  # as they are printed: the ancestors first
    write(tmp_path / 'data', b''.join(record(7, 0, struct.pack('<4IQ', tid, parent, tid, parent, 0))
                                      for parent, tid in zip([0] + tids, tids)))
    found = output_bytes(run, program, tmp_path / 'data', 'report', '--tasks')
    indents = sum(min(level, 1024) for level in range(nr + 1))  # of task 0, and its descendants
    names = len('swapper\n') * (nr + 1)
    assert found == len('#      pid      tid     ppid  comm\n') + (nr + 1) * len('  12345678 12345678 12345678 |') + \
        indents + names


def test_call_chains_with_equal_hashes(run, program, tmp_path):
    """
    A frame and its caller are looked up by the numbers that both have. So many pairs would, with a multiplication
    alone, all begin at the same place in the table.
    """
    bits, factor = 18, 0x9e3779b97f4a7c15
    nr = 1 << bits
    products = sorted((frame * factor % (1 << 64), frame) for frame in range(nr))
    pairs = []
    for caller in range(1, nr):
        least = -(caller << 32) * factor % (1 << 64)
        at = bisect.bisect_left(products, (least, 0))
        if at < nr and products[at][0] - least < 1 << 64 - bits:
            pairs.append((caller, products[at][1] ^ caller))
    assert len(pairs) > nr / 2

    def sample(*numbers):
        return perf_file.sample(2, 0x1000, 7 << 32 | 7, 1 + len(numbers), 2**64 - 512, *(16 * at for at in numbers))

    write(tmp_path / 'data', b''.join([sample(number) for number in range(1, nr)] +
                                      [sample(frame, caller) for caller, frame in pairs if 0 < frame < nr]),
          perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2 | 32))
    output_bytes(run, program, tmp_path / 'data', 'report', '--stdio', '--no-children', '-g', 'caller,50')


def test_ends_of_tasks_without_number(run, program, tmp_path):
    """Such a task is looked for on its CPU, which has no task here, among very many that run."""
    nr, switch_out = 200000, 1 << 13
    runs = b''.join(record(14, 0, struct.pack('<4I', 1, tid, 1, 0)) for tid in range(1, nr))
    ends = b''.join(record(14, switch_out, struct.pack('<2I2I', 2**32 - 1, 2**32 - 1, 2, 0)) for _ in range(nr))
    write(tmp_path / 'data', runs + ends + perf_file.sample(2, 0x1000, 7 << 32 | 7, 1),
          perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2 | 128, bits=1 << 18 | 1 << 26))
    assert output_bytes(run, program, tmp_path / 'data', 'report', '--stdio', '--latency')


def test_object_with_very_many_segments(run, program, tmp_path):
    """Each address is looked for in the segments of its object, to find its source line."""
    (tmp_path / 'object.c').write_text('int main(void) { return 0; }\n')
    subprocess.run(['gcc', '-g', '-o', 'object', 'object.c'], cwd=tmp_path, check=True)
    data = bytearray((tmp_path / 'object').read_bytes())
    table, = struct.unpack_from('<Q', data, 32)
    size, nr = struct.unpack_from('<2H', data, 54)
    made_up = struct.pack('<2I6Q', 1, 5, 1 << 40, 1 << 40, 1 << 40, 1, 1, 1)
    struct.pack_into('<Q', data, 32, len(data))
    struct.pack_into('<H', data, 56, 65000)
    (tmp_path / 'object').write_bytes(data + data[table:table + size * nr] + made_up * (65000 - nr))
    path = str(tmp_path / 'object').encode()
    mmap = record(1, 2, struct.pack('<iI3Q', 7, 7, 1 << 32, 1 << 32, 1 << 32) + path + bytes(8 - len(path) % 8))
    write(tmp_path / 'data', mmap + b''.join(perf_file.sample(2, (1 << 32) + at, 7 << 32 | 7) for at in range(100000)))
    assert output_bytes(run, program, tmp_path / 'data', 'report', '--stdio', '-q', '-s', 'srcline')


def test_losses_of_very_many_tasks(run, program, tmp_path):
    """Each has a line of its own, with what it lost when."""
    tasks = range(1, 200001)
    indexes = b''.join(
        record(69, 0, struct.pack('<Q', 1000) + b''.join(struct.pack('<4Q', task, 0, 2**64 - 1, task)
                                                         for task in tasks[at:at + 1000]))
        for at in range(0, len(tasks), 1000))
    lost = b''.join(record(2, 0, struct.pack('<2Q2I2Q', task, 5, 7, 7, 10**9 + task, task)) for task in tasks)
    write(tmp_path / 'data', indexes + perf_file.sample(2, 0x1000, 7 << 32 | 7, 10**9, 1) + lost +
          perf_file.sample(2, 0x1000, 7 << 32 | 7, 2 * 10**9, 1),
          perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2 | 4 | 64, bits=1 << 18), tasks)
    lines = 3 * len(tasks)  # what was lost, in which gaps, and the timeline
    assert output_bytes(run, program, tmp_path / 'data', 'report', '--loss') > 60 * lines


def test_very_many_groups_of_events(run, program, tmp_path):
    """Each event may be the first one of a group."""
    nr_events, nr_groups, group_desc = 4000, 1000000, 17
    attr = perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2 | 1 << 16)
    group = struct.pack('<I8s2I', 8, b'name', 2**31, 2)
    (tmp_path / 'data').write_bytes(perf_file.build(
        [attr] * nr_events, {group_desc: struct.pack('<I', nr_groups) + group * nr_groups},
        [[event + 1] for event in range(nr_events)],
        perf_file.sample(2, 1, 0x1000, 7 << 32 | 7) + perf_file.FINISHED_ROUND))
    assert output_bytes(run, program, tmp_path / 'data', 'report', '--stdio')


def tracing_data(nr):
    """Formats of so many tracepoints, of one number."""
    text = b'name: x\nID: 5\n'
    return b''.join([b'\x17\x08\x44tracing0.6\0\0\x08', struct.pack('<I', 4096), b'header_page\0', bytes(8),
                     b'header_event\0', bytes(8), struct.pack('<2I', 0, 1), b'system\0', struct.pack('<I', nr),
                     (struct.pack('<Q', len(text)) + text) * nr, bytes(16)])


def test_very_many_formats_of_tracepoints(run, program, tmp_path):
    """The first ones are used."""
    attr = perf_file.attr(type=2, config=5, sample_period=1, sample_type=1 | 2)
    records = perf_file.sample(2, 0x1000, 7 << 32 | 7) + perf_file.FINISHED_ROUND
    (tmp_path / 'data').write_bytes(perf_file.build([attr], {1: tracing_data(200000)}, [[1]], records))
    done = run(['prlimit', CPU_TIME, program, 'report', '--stdio', '-i', tmp_path / 'data'])
    assert '100.00%' in done.out and 'only the first 16384 are used' in done.err
    (tmp_path / 'data').unlink()


def test_names_of_very_many_tracepoints_in_a_pipe(run, program, tmp_path):
    """Each event is looked for among the formats, where it has its name."""
    nr, formats = 3000, tracing_data(300000)
    stream = b'PERFILE2' + struct.pack('<Q', 16) + b''.join(
        record(64, 0, perf_file.attr(type=2, config=5 + event % 2, sample_period=1, sample_type=1 | 2 | 1 << 16) +
               struct.pack('<Q', event + 1)) for event in range(nr))
    stream += record(66, 0, struct.pack('<2I', len(formats), 0)) + formats + bytes(-len(formats) % 8)
    samples = b''.join(perf_file.sample(2, event + 1, 0x1000, 7 << 32 | 7) for event in (0, 1, nr - 2))
    (tmp_path / 'data').write_bytes(stream + samples + perf_file.FINISHED_ROUND)
    done = run(['sh', '-c', f'prlimit {CPU_TIME} "$0" script -i - -F event <"$1"', program, tmp_path / 'data'])
    assert done.out.split() == ['system:x:', 'tracepoint', '6:', 'system:x:'], done
    (tmp_path / 'data').unlink()


def test_very_long_name_of_a_machine(run, program, tmp_path):
    """Each sample is of a machine."""
    attr, hostname = perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2), 3
    samples = b''.join(perf_file.sample(2, 0x1000 + at, 7 << 32 | 7) for at in range(100000))
    (tmp_path / 'data').write_bytes(perf_file.build([attr], {hostname: perf_file.string('x' * (1 << 20))},
                                                    records=samples + perf_file.FINISHED_ROUND))
    assert output_bytes(run, program, tmp_path / 'data', 'report', '--stdio', '-q', '-s', 'host') > 1 << 20


def test_very_many_features_in_a_pipe(run, program, tmp_path):
    """Each map of a vdso is asked for the architecture, which is none of them."""
    nr, hostname = 100000, 3
    stream = b'PERFILE2' + struct.pack('<Q', 16) + record(64, 0, perf_file.attr(type=1, sample_period=1, sample_type=3))
    stream += record(80, 0, struct.pack('<Q', hostname)) * nr
    stream += b''.join(record(1, 2, struct.pack('<iI3Q8s', 7, 7, 4096 * at, 4096, 0, b'[vdso]')) for at in range(nr))
    (tmp_path / 'data').write_bytes(stream + perf_file.sample(2, 0x1000, 7 << 32 | 7) + perf_file.FINISHED_ROUND)
    done = run(['sh', '-c', f'prlimit {CPU_TIME} "$0" report --stdio -i - <"$1"', program, tmp_path / 'data'])
    assert '100.00%' in done.out
    (tmp_path / 'data').unlink()


def test_very_many_kernel_modules(run, program, tmp_path):
    """The symbols of each are in the list of the kernel's."""
    def mapped(start, size, pgoff, name):
        return record(1, 1, struct.pack('<iI3Q', -1, 0, start, size, pgoff) + name.ljust(24, b'\0'))

    kernel, modules, nr = 0xffffffff81000000, 0xffffffffc0000000, 3000
    (tmp_path / 'names').write_text(f'{kernel:x} T _text\n' + ''.join(
        f'{modules + 4096 * (at // 64):x} t f{at // 64}\t[m{at // 64}]\n' for at in range(64 * nr)))
    write(tmp_path / 'data', mapped(kernel, 4096, kernel, b'[kernel.kallsyms]_text') +
          b''.join(mapped(modules + 4096 * at, 4096, 0, b'[m%d]' % at) for at in range(nr)) +
          b''.join(perf_file.sample(1, modules + 4096 * at, 7 << 32 | 7) for at in range(nr)))
    done = run(['prlimit', CPU_TIME, program, 'script', '-i', tmp_path / 'data', '-F', 'ip,sym',
                '--kallsyms', tmp_path / 'names'])
    assert done.out.split()[1::2] == [f'f{at}' for at in range(nr)]
    (tmp_path / 'data').unlink()


def events_of_a_pipe(*items):
    """A pipe. Items: ('event', id), ('sample', id, time), ('lost', id, time, number of records)."""
    attr = perf_file.attr(type=1, config=0, sample_type=1 << 16 | 2 | 4, sample_period=1, bits=1 << 18)
    task, stream = 7 << 32 | 7, b'PERFILE2' + struct.pack('<Q', 16)
    for kind, number, *values in items:
        if kind == 'event':
            stream += record(64, 0, attr + struct.pack('<Q', number))
        elif kind == 'sample':
            stream += record(9, 0, struct.pack('<3Q', number, task, values[0]))
        else:
            stream += record(2, 0, struct.pack('<5Q', number, values[1], task, values[0], number))
    return stream


def test_events_between_samples_of_a_pipe(run, program, tmp_path):
    """What was counted before an event came stays counted, and very many of them take little time."""
    data = tmp_path / 'data'
    data.write_bytes(events_of_a_pipe(
        ('event', 1), ('sample', 1, 1000), ('lost', 1, 2000, 5), ('sample', 1, 3000),
        ('event', 2), ('sample', 2, 4000), ('lost', 2, 5000, 7), ('sample', 1, 6000)))
    loss = json.loads(run([program, 'report', '--loss', '--json', '-i', data]).out)
    assert (loss['captured'], loss['lost']) == (4, 12)
    assert [(gap['from_ns'], gap['to_ns'], gap['records']) for gap in loss['gaps']] == [
        (1000, 2000, 5), (4000, 5000, 7)]
    data.write_bytes(b''.join((events_of_a_pipe(), *(
        events_of_a_pipe(('event', n), ('sample', n, 1000 * n))[16:] for n in range(1, 40001)))))
    done = run(['sh', '-c', f'prlimit {CPU_TIME} "$0" report --loss --json -i "$1"', program, data])
    assert json.loads(done.out)['captured'] == 40000
    data.unlink()


@pytest.mark.parametrize('of', ['readings', 'pauses', 'throttled'])
def test_very_many_entries_of_a_ledger(run, program, tmp_path, of):
    """Readings of a full ring one in the other, or others, and as many gaps that records tell."""
    nr, any_event, ring_full, events_disabled = 100000, 0xffffffff, 0, 10
    first, last = (10 ** 9, 10 ** 9) if of == 'throttled' else (1000, 10 ** 12)
    cause = events_disabled if of == 'pauses' else ring_full
    entries = b''.join(struct.pack('<2I2i3Q', any_event, cause, -1, -1, first + n, last - n + 2 * nr, 1)
                       for n in range(nr))
    attr = perf_file.attr(type=1, sample_type=1 << 16 | 2 | 4, sample_period=1, bits=1 << 18)
    task, stream = 7 << 32 | 7, []
    for at in range(1000, 1000 + 20 * nr, 20):
        if of == 'throttled':
            stream += [record(kind, 0, struct.pack('<6Q', at + kind, 5, 5, task, at + kind, 5)) for kind in (5, 6)]
        else:
            stream += [record(9, 0, struct.pack('<3Q', 5, task, at)),
                       record(2, 0, struct.pack('<5Q', 5, 1, task, at + 10, 5))]
    ledger = struct.pack('<2I4Q', 1, 1, 1, 10 ** 12, nr, 0) + entries
    (tmp_path / 'data').write_bytes(perf_file.build([attr], {LEDGER: ledger}, [[5]],
                                                    b''.join(stream) + perf_file.FINISHED_ROUND))
    assert output_bytes(run, program, tmp_path / 'data', 'report', '--loss')
