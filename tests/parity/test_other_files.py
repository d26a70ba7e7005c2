# SPDX-License-Identifier: MIT
"""What other projects' recordings have shown (make check-corpus), on recordings that are made here."""
import json
import os
import re
import struct

import pytest

import perf_file


def rows(text):
    # perf ends with a tip, of which some have a percentage.
    return [line.rstrip() for line in text.splitlines() if '%' in line and not line.startswith('#')]


@pytest.fixture(scope='module')
def tracepoints(perf, need_tracefs, tmp_path_factory):
    path = tmp_path_factory.mktemp('tracepoints') / 'perf.data'
    perf('record', '-q', '-e', 'sched:sched_process_fork,sched:sched_process_exit', '-o', path, '--', 'sh', '-c',
         'true | true; ls >/dev/null; true')
    return path


def test_tracepoints_alone_are_sorted_by_their_fields(millrace, perf, tracepoints):
    theirs, ours = (tool('report', '-i', tracepoints, '--stdio').out for tool in (perf, millrace))
    assert 'Trace output' in theirs and rows(ours) == rows(theirs) != []
    assert 'Trace output' not in millrace('report', '-i', tracepoints, '-s', 'comm').out


@pytest.fixture(scope='module')
def switches(perf, need_tracefs, tmp_path_factory):
    path = tmp_path_factory.mktemp('switches') / 'perf.data'
    # On one CPU, and of two priorities, so that these switch to each other.
    perf('record', '-q', '-e', 'sched:sched_switch,sched:sched_process_exec', '-o', path, '--', 'taskset', '-c', '0',
         'sh', '-c', 'ls -R /usr/include | nice -n 7 wc -l; sleep 0.1; ls /usr | wc -l')
    return path


@pytest.mark.parametrize('options', [
    ['-s', 'next_comm'], ['-s', 'prev_pid,next_pid'], ['-s', 'sched_switch.prev_state'], ['-s', 'next_comm/raw,comm'],
    ['-s', 'sched:sched_switch.next_prio,cpu'], ['-s', '%1.prev_comm'], ['-s', 'common_pid'],
    ['-s', 'sched_switch.*'], ['--raw-trace', '-s', 'sched_switch.*']], ids=' '.join)
def test_fields_of_tracepoints_are_keys(millrace, perf, switches, options):
    theirs, ours = (rows(tool('report', '-i', switches, '--stdio', *options).out) for tool in (perf, millrace))
    assert len(theirs) > 2 and ours == theirs


def test_words_that_are_no_fields(millrace, switches, chains):
    for path in switches, chains:
        assert '"nothing" is none of pid, comm' in millrace('report', '-i', path, '-s', 'nothing', status=129).err
    assert 'is no event' in millrace('report', '-i', switches, '-s', 'foo.prev_pid', status=129).err
    assert 'means both' in millrace('report', '-i', switches, '-s', 'sched.prev_pid', status=129).err


def test_names_of_tracepoints_in_a_pipe_without_descriptions(millrace, perf, run, tracepoints, tmp_path):
    """Of old versions: their pipes have no EVENT_DESC and no EVENT_UPDATE, but TRACING_DATA."""
    whole = run(['sh', '-c', f'exec perf record -q -e sched:sched_process_exit -o - -- true'], binary=True).out
    kept, at = bytearray(whole[:16]), 16
    while at < len(whole):
        kind, _misc, size = struct.unpack_from('<IHH', whole, at)
        outside = struct.unpack_from('<I', whole, at + 8)[0] if kind == 66 else 0  # TRACING_DATA: the blob follows
        if kind not in (78, 80):  # EVENT_UPDATE, HEADER_FEATURE
            kept += whole[at:at + size + outside]
        at += size + outside
    path = tmp_path / 'stream'
    path.write_bytes(kept)
    theirs, ours = (tool('script', '-i', path).out for tool in (perf, millrace))
    assert 'sched:sched_process_exit' in theirs and ours == theirs


@pytest.fixture(scope='module')
def chains(perf, tmp_path_factory):
    path = tmp_path_factory.mktemp('chains') / 'perf.data'
    perf('record', '-q', '-g', '-e', 'cpu-clock', '-o', path, '--', 'ls', '-R', '/usr/include', '/usr/lib')
    return path


@pytest.mark.parametrize('keys', ['time,overhead,sym', 'sym,overhead', 'comm,overhead,dso'])
def test_keys_sort_in_their_order(millrace, perf, chains, keys):
    command = ['report', '-i', chains, '--stdio', '--no-children', '-g', 'none', '-s', keys]
    theirs = rows(perf(*command).out)
    assert theirs and rows(millrace(*command).out) == theirs


@pytest.mark.parametrize('which', [0, 1])
@pytest.mark.parametrize('children', ['--children', '--no-children'])
def test_symbol_filter_is_about_entries(millrace, perf, chains, which, children):
    command = ['report', '-i', chains, '--stdio', children, '-g', 'none']
    text = re.findall(r'\[[.k]\] +([a-z_]{4})', perf(*command).out)[which]  # of entries that are certainly there
    command += ['--symbol-filter', text]
    ours, theirs = (sorted(re.sub(r' +', ' ', row) for row in rows(tool(*command).out)) for tool in (millrace, perf))
    assert theirs and ours == theirs
    assert all(text in row for row in ours)


USER, USER_DEFERRED = (1 << 64) - 512, (1 << 64) - 640
DEFER_CALLCHAIN = 1 << 38


def records_of(data):
    """[(type, misc, body)] of a file."""
    at, size = struct.unpack_from('<QQ', data, 0x28)
    end, found = at + size, []
    while at < end:
        kind, misc, size = struct.unpack_from('<IHH', data, at)
        found.append((kind, misc, data[at + 8:at + size]))
        at += size
    return found


def with_records(data, records):
    """The file with these instead; features move."""
    start, size = struct.unpack_from('<QQ', data, 0x28)
    body = b''.join(struct.pack('<IHH', kind, misc, 8 + len(body)) + body for kind, misc, body in records)
    head, tail, moved = bytearray(data[:start]), bytearray(data[start + size:]), len(body) - size
    struct.pack_into('<Q', head, 0x30, len(body))
    for i in range(sum(bin(word).count('1') for word in struct.unpack_from('<4Q', data, 0x48))):
        offset, length = struct.unpack_from('<QQ', tail, 16 * i)
        struct.pack_into('<QQ', tail, 16 * i, offset + moved, length)
    return bytes(head) + body + bytes(tail)


def with_deferred_chains(data, leave_out=0):
    """
    As Linux 6.19 writes them with attr.defer_callchain: the user part of a chain follows in a record of its own, once
    for all samples that have it. The last `leave_out` of them do not come. Also returns how many there are.
    """
    attrs_at = struct.unpack_from('<Q', data, 0x18)[0]
    sample_type, _, bits = struct.unpack_from('<3Q', data, attrs_at + 24)
    assert sample_type == 0x127 | 1 << 2 and bits & 1 << 18  # IP TID TIME CALLCHAIN PERIOD, sample_id_all
    out, cookie, samples = [], 0x100000001, 0
    old = records_of(data)
    for at, (kind, misc, body) in enumerate(old):
        if kind == 9:
            words = list(struct.unpack(f'<{len(body) // 8}Q', body))
            ip, task, time, period, nr = words[:5]
            ips = words[5:5 + nr]
            if USER in ips:
                kernel, user = ips[:ips.index(USER)], ips[ips.index(USER):]
                chain = kernel + [USER_DEFERRED, cookie]
                body = struct.pack(f'<{5 + len(chain)}Q', ip, task, time, period, len(chain), *chain)
                next_sample = next((b for k, _, b in old[at + 1:] if k == 9), b'')
                out.append((kind, misc, body))
                samples += 1
                if next_sample[8:16] != body[8:16] or not next_sample.endswith(struct.pack(f'<{len(user)}Q', *user)):
                    out.append((22, 2, struct.pack(f'<{4 + len(user)}Q', cookie, len(user), *user, task, time + 1)))
                    cookie += 1
                continue
        out.append((kind, misc, body))
    deferred = [at for at, record in enumerate(out) if record[0] == 22]
    for at in sorted(deferred[len(deferred) - leave_out:], reverse=True):
        del out[at]
    new = bytearray(with_records(data, out))
    struct.pack_into('<Q', new, attrs_at + 40, bits | DEFER_CALLCHAIN)
    return bytes(new), samples, len(deferred)


def record_on_one_cpu(perf, *words):
    """There records lie in the order of their times, in which with_deferred_chains() looks for the next sample."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    try:
        perf('record', '-q', '-g', '-e', 'cpu-clock', *words)
    finally:
        os.sched_setaffinity(0, cpus)


def test_call_chains_that_come_later(millrace, perf, tmp_path):
    old, new = tmp_path / 'old.data', tmp_path / 'new.data'
    record_on_one_cpu(perf, '-F', '10000', '-o', old, '--', 'ls', '-R', '/usr/include')
    data, samples, chains = with_deferred_chains(old.read_bytes())
    assert samples > chains > 10
    new.write_bytes(data)
    for command in (['script'], ['report', '-g', 'caller'], ['report', '--no-children', '-g', 'callee'],
                    ['script', '--folded'], ['script', '--json']):
        done = millrace(*command, '-i', new)
        assert done.out == millrace(*command, '-i', old).out and 'lack' not in done.err
    assert f'CALLCHAIN_DEFERRED events: {chains:10}' in millrace('report', '--stats', '-i', new).out
    new.write_bytes(with_deferred_chains(old.read_bytes(), leave_out=chains)[0])
    done = millrace('script', '-i', new)
    assert f'the call chains of {samples} samples lack their user part' in done.err
    assert len(re.findall('^ls', done.out, re.M)) == len(re.findall('^ls', millrace('script', '-i', old).out, re.M))


def test_call_chains_that_come_after_an_exec(millrace, perf, tmp_path):
    """The chain of a sample that exec(2) itself gave is that of the new program; its name is that of the old one."""
    data = tmp_path / 'some.data'
    record_on_one_cpu(perf, '-F', '1000', '-o', data, '--', 'sh', '-c', 'exec ls -R /usr/include')
    data.write_bytes(with_deferred_chains(data.read_bytes())[0])

    def lacking(done):
        found = re.search(r'the call chains of (\d+) samples lack their user part', done.err)
        return int(found[1]) if found else 0
    before = lacking(millrace('script', '-i', data))  # a sample in exec(2) may share its chain with the one after it
    records = records_of(data.read_bytes())
    exec_at, task = [(at, body[:8]) for at, (kind, misc, body) in enumerate(records)
                     if kind == 3 and misc & 1 << 13 and body[8:11] == b'ls\0'][0]  # not that of sh
    ip, time, cookie = 0xffffffff81000000, struct.unpack('<Q', records[exec_at][2][-8:])[0], 0x77700000001
    chain = [(1 << 64) - 128, ip, USER_DEFERRED, cookie]
    sample = struct.pack('<Q8s3Q4Q', ip, task, time - 1, 1, len(chain), *chain)
    late = struct.pack('<4Q8sQ', cookie, 2, USER, 0x1234, task, time + 1)
    records[exec_at:exec_at + 1] = [(9, 1, sample), records[exec_at], (22, 2, late)]
    data.write_bytes(with_records(data.read_bytes(), records))
    done = millrace('script', '-i', data, '-F', 'comm,ip')
    of_exec = [block for block in done.out.split('\n\n') if f'{ip:x}' in block]
    assert [block.split()[0] for block in of_exec] == ['sh'] and '1234' not in of_exec[0]
    assert lacking(done) == before + 1


def test_dump_of_old_and_new_records(millrace, perf, tmp_path):
    """TIME_CONV, short and with its newer fields, EVENT_TYPE; BPF_METADATA of perf 6.17, unknown to perf 6.1."""
    old, new = tmp_path / 'old.data', tmp_path / 'new.data'
    perf('record', '-q', '-g', '-e', 'cpu-clock', '-o', old, '--', 'true')
    data = old.read_bytes()
    records = records_of(data)
    time_conv = struct.pack('<3Q', 31, 633053033, (1 << 64) - 7)
    more = [(79, 0, time_conv), (79, 0, time_conv + struct.pack('<2Q2B6x', 5, 0xffff, 1, 0)), (65, 0, bytes(16))]
    new.write_bytes(with_records(data, records[:1] + more + records[1:]))
    theirs, ours = (tool('report', '-D', '-i', new).out for tool in (perf, millrace))
    assert 'Time Cycles' in theirs and ours == theirs
    entry = b'version'.ljust(64, b'\0') + b'6.17\x1b'.ljust(256, b'\0')
    metadata = b'prog_abc'.ljust(512, b'\0') + struct.pack('<Q', 2) + entry
    new.write_bytes(with_records(data, records + [(84, 0, metadata), (85, 0, bytes(64)), (22, 0, bytes(64))]))
    done = millrace('report', '-D', '-i', new)
    assert f'PERF_RECORD_BPF_METADATA prog prog_abc\n  entry 0: {"version":>20} = 6.17\\x1b\n' in done.out
    assert 'PERF_RECORD_SCHEDSTAT_CPU' in done.out and 'PERF_RECORD_CALLCHAIN_DEFERRED' in done.out
    assert millrace('script', '-i', new).out == millrace('script', '-i', old).out


@pytest.mark.parametrize('arch, mask', [
    ('x86_64', 0xffffffff00ffffff), ('i686', 0x1ff), ('aarch64', 0x4001ffffffff), ('armv7l', 0xffff),
    ('ppc64le', 0x7ffffffffffffff), ('s390x', 0x3ffffffff), ('mips64', 0xf3ffffff)])
def test_registers_have_the_names_of_the_machine_that_recorded(millrace, perf, tmp_path, arch, mask):
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4 | 1 << 12 | 1 << 18, regs_user=mask,
                          regs_intr=mask)
    registers = [2, *range(0x100, 0x100 + mask.bit_count())]
    sample = perf_file.sample(2, 0x10100, 7 << 32 | 7, 1, *registers, *registers)
    path = tmp_path / 'perf.data'
    path.write_bytes(perf_file.build([attr], {6: perf_file.string(arch)}, records=sample + perf_file.FINISHED_ROUND))
    for command in ['script', '-F', 'ip,uregs,iregs'], ['report', '-D']:
        theirs, ours = (re.findall(r'^\.\.\.\. .*|\S+:0x\w+', tool(command[0], '-i', path, *command[1:]).out, re.M)
                        for tool in (perf, millrace))
        assert ours == theirs and len(ours) == 2 * mask.bit_count()
    names = [word.partition(':')[0] for word in re.findall(r'\S+:0x', perf('script', '-i', path, '-F', 'uregs').out)]
    found = json.loads(millrace('script', '-i', path, '--json', '-F', 'uregs,iregs').out)
    assert list(found['uregs'].values()) == list(map(hex, registers[1:])) and found['iregs'] == found['uregs']
    assert [name.removesuffix('_high') for name in found['uregs']] == names


def test_registers_without_a_name_have_keys_of_their_own(millrace, tmp_path):
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4 | 1 << 12, regs_user=0b1011)
    path = tmp_path / 'perf.data'
    path.write_bytes(perf_file.build([attr], {6: perf_file.string('no-such-arch')},
                                     records=perf_file.sample(2, 4096, 7 << 32 | 7, 1, 2, 16, 17, 18) +
                                     perf_file.FINISHED_ROUND))
    found = json.loads(millrace('script', '-i', path, '--json', '-F', 'uregs').out)
    assert found['uregs'] == {'unknown0': '0x10', 'unknown1': '0x11', 'unknown3': '0x12'}
