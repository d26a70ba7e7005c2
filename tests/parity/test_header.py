# SPDX-License-Identifier: MIT
"""What stands on top of a report is what perf prints, and what we write there is what perf writes."""
import struct
from struct import pack

import pytest

import perf_file
from perf_file import attr, build, event_desc, string, strings

CPU_CLOCK = attr(type=1)
SAMPLED = attr(type=1, sample_type=0x47, read_format=4)
NRCPUS = pack('<2I', 2, 2)
SIBLINGS = strings('0-1') + strings('0', '1')
IDS = pack('<4I', 0, 0, 1, 0)
RICH = attr(type=5, config=9, sample_period=1 << 63, sample_type=0x1fdffff, read_format=31, bits=(1 << 38) - 1,
            wakeup=7, bp_type=3, config1=0x1000, config2=4, branch=0x7ffff, regs_user=0xff0fff, stack_user=8192,
            clockid=-3, regs_intr=7, aux_watermark=9, max_stack=127, aux_sample_size=3, sig_data=77)


@pytest.fixture(scope='module')
def reader(millrace):
    """millrace, when it has a report."""
    if '\n  report ' not in millrace('--help').out:
        pytest.skip('needs millrace report')
    return millrace


@pytest.fixture(scope='module')
def recorder(millrace):
    """millrace, when it has a recorder."""
    if '\n  record ' not in millrace('--help').out:
        pytest.skip('needs millrace record')
    return millrace


def header(text):
    return [line for line in text.splitlines() if line.startswith('#')]


def compare(reader, perf, path):
    for long in ([], ['-I']):
        theirs = header(perf('report', '--header-only', *long, '-i', path).out)
        assert len(theirs) > 5
        # A backslash is printed as two else.
        assert header(reader('report', '--header-only', '--raw-text', *long, '-i', path).out) == theirs


def memory_node(node, nr_bits, *words):
    return pack('<3Q', node, nr_bits, nr_bits) + pack(f'<{len(words)}Q', *words)


def cache(level, kind, size, cpus):
    return pack('<4I', level, 64, 64, 12) + string(kind) + string(size) + string(cpus)


def groups(*entries):
    return pack('<I', len(entries)) + b''.join(string(name) + pack('<2I', leader, nr) for name, leader, nr in entries)


def bpf_prog(functions, btf_id=0, types=()):
    """Program 7, "hello". functions: of (tag, address, size); types: of the functions, in the BTF."""
    data = bytearray(24)

    def put(array):
        data.extend(bytes(-len(data) % 8))
        start = len(data)
        data.extend(array)
        return start

    addresses = put(b''.join(pack('<Q', address) for _, address, _ in functions))
    sizes = put(b''.join(pack('<I', size) for _, _, size in functions))
    tags = put(b''.join(tag for tag, _, _ in functions))
    infos = put(b''.join(pack('<2I', 0, kind) for kind in types))
    info = bytearray(232)  # struct bpf_prog_info
    struct.pack_into('<2I', info, 0, 1, 7)
    struct.pack_into('<16s', info, 64, b'hello')
    struct.pack_into('<2I2Q', info, 104, len(functions), len(functions), addresses, sizes)
    struct.pack_into('<2IQI', info, 128, btf_id, 8, infos, len(types))
    struct.pack_into('<IQ', info, 180, len(functions), tags)
    return pack('<I2IQ', 1, len(info), len(data), 0x1f9) + bytes(info) + bytes(data)


def bpf_btf(number, *names):
    """Type 1: int, 2: a function type, 3 and on: functions."""
    texts = b'\0int\0'
    types = pack('<4I', 1, 1 << 24, 4, 32) + pack('<3I', 0, 13 << 24, 1)
    for name in names:
        types += pack('<3I', len(texts), 12 << 24, 2)
        texts += name.encode() + b'\0'
    btf = pack('<H2B5I', 0xeb9f, 1, 0, 24, 0, len(types), len(types), len(texts)) + types + texts
    return pack('<3I', 1, number, len(btf)) + btf


ONE = (bytes(range(8)), 0x1000, 20)
TWO = (bytes(range(8, 16)), 0x2000, 30)
MADE = {
    'nothing': {},
    'strings': {3: string('host'), 4: string('6.1'), 5: string('v'), 6: string('x86_64'), 8: string('cpu'),
                9: string('AuthenticAMD,1,2,3')},
    'numbers': {7: pack('<2I', 3, 1), 10: pack('<Q', 77)},
    'command line': {11: strings('/a b/perf', "it's", 'a"b', '$x', '', 'a\\b')},
    'no command line': {11: strings()},
    'event without ids': {12: event_desc(('n', CPU_CLOCK, []))},
    'event with every field': {12: event_desc(('n', RICH, [1, 2]))},
    'topology without ids': {7: NRCPUS, 13: SIBLINGS},
    'topology without dies': {7: NRCPUS, 13: SIBLINGS + IDS},
    'topology': {7: NRCPUS, 13: SIBLINGS + IDS + strings('0-1') + pack('<2I', 0, 0)},
    'topology without ids of dies': {7: NRCPUS, 13: SIBLINGS + IDS + strings('0-1')},
    'topology with no dies': {7: NRCPUS, 13: SIBLINGS + IDS + strings() + pack('<2I', 3, 4)},
    'topology, a CPU offline': {7: pack('<2I', 3, 2), 13: SIBLINGS + IDS + pack('<2i', -1, -1)},
    'topology, foolish package': {6: string('x86_64'), 7: NRCPUS, 13: SIBLINGS + pack('<4I', 0, 0, 1, 9)},
    'topology, free packages': {6: string('aarch64'), 7: NRCPUS, 13: SIBLINGS + pack('<4I', 0, 0, 1, 9)},
    'topology of unknown CPUs': {13: SIBLINGS + IDS},
    'nodes': {14: pack('<I', 2) + pack('<I2Q', 0, 100, 50) + string('0-1') +
              pack('<I2Q', 12, 12345678, 50) + string('')},
    'flags': {15: b'', 18: pack('<Q', 0), 19: b''},
    'PMUs': {16: pack('<I', 2) + pack('<I', 1) + string('software') + pack('<I', 9) + string('')},
    'caches': {20: pack('<2I', 1, 3) + cache(1, 'Data', '48K', '0') + cache(12, 'Unified', '', '0-127') +
               cache(0, 'Instruction', '65536K', 'x')},
    'no caches': {20: pack('<2I', 1, 0)},
    'times': {21: pack('<2Q', 123456789123456789, 923456789123456789)},
    'times backwards': {21: pack('<2Q', 5 * 10**9 + 999, 10**9)},
    'no times': {21: pack('<2Q', 0, 0)},
    'memory': {22: pack('<3Q', 1, 1 << 27, 2) + memory_node(0, 8, 0xff) + memory_node(11, 70, 5, 3)},
    'memory in odd blocks': {22: pack('<3Q', 1, 1000, 1) + memory_node(0, 9, 0x1ff)},
    'much memory': {22: pack('<3Q', 1, 1 << 27, 1) + memory_node(0, 8193, *[2**64 - 1] * 129)},
    'no memory': {22: pack('<3Q', 1, 1 << 27, 0)},
    'clock': {23: pack('<Q', 4), 29: pack('<2I2Q', 1, 1, 1700000000123456789, 5000000999)},
    'clock without a name': {29: pack('<2I2Q', 1, 99, 1700000000123456789, 5000000999)},
    'clock of another version': {29: pack('<2I2Q', 2, 1, 1700000000123456789, 5000000999)},
    'no BPF': {25: pack('<I', 0), 26: pack('<I', 0)},
    'BPF, one function': {25: bpf_prog([ONE])},
    'BPF, two functions': {25: bpf_prog([ONE, TWO])},
    'BPF, functions with names': {25: bpf_prog([ONE, TWO], 5, (3, 4)), 26: bpf_btf(5, 'work', 'part')},
    'BPF, names elsewhere': {25: bpf_prog([ONE, TWO], 5, (3, 4)), 26: bpf_btf(6, 'work', 'part')},
    'BPF, not compiled': {25: bpf_prog([])},
    'compressed': {27: pack('<5I', 0, 1, 3, 7, 4096)},
    'compressed somehow': {27: pack('<5I', 0, 9, 3, 7, 4096)},
    'what the CPU can': {28: pack('<I', 2) + string('branches') + string('32') + string('max_precise') + string('0')},
    'what no CPU can': {28: pack('<I', 0)},
    'hybrid': {30: pack('<I', 2) + string('cpu_core') + string('0-7') + string('cpu_atom') + string('8-15')},
    'what PMUs can': {31: pack('<I', 2) + pack('<I', 2) + string('a') + string('b') + string('c') + string('') +
                      string('cpu_core') + pack('<I', 0) + string('cpu_atom')},
    'bits of tomorrow': {3: string('host'), 40: b'', 200: b'own'},
}
MADE_GROUPS = {
    'named': groups(('gn', 1, 2)),
    'two': groups(('gn', 0, 2), ('{anon_group}', 2, 3)),
    'in disorder': groups(('gn', 2, 2), ('{anon_group}', 0, 2)),
    'of one': groups(('gn', 0, 1)),
    'of one member': groups(('gn', 7, 2)),
    'none': groups(),
}


@pytest.mark.parametrize('what', MADE)
def test_made_file(reader, perf, tmp_path, what):
    path = tmp_path / 'made.data'
    path.write_bytes(build([CPU_CLOCK], MADE[what]))
    compare(reader, perf, path)


@pytest.mark.parametrize('what', MADE_GROUPS)
def test_made_groups(reader, perf, tmp_path, what):
    path = tmp_path / 'made.data'
    events = [(name, SAMPLED, [number]) for number, name in enumerate('abcde', 1)]
    path.write_bytes(build([SAMPLED] * 5, {12: event_desc(*events), 17: MADE_GROUPS[what]},
                           [ids for _, _, ids in events]))
    compare(reader, perf, path)


@pytest.mark.parametrize('bit, payload', [
    (3, b'\xff\xff\0\0'), (7, pack('<I', 1)), (11, pack('<I', 9)), (13, SIBLINGS[:30]), (14, pack('<I', 1 << 31)),
    (16, pack('<2I', 1, 1)), (20, pack('<2I', 2, 0)), (21, b''), (22, pack('<3Q', 1, 1, 1 << 60)),
    (25, pack('<I', 1)), (27, b''), (31, pack('<I', 1))])
def test_damaged_section_is_named(reader, tmp_path, bit, payload):
    """The others are shown. (perf stops at the first bad one, and prints what its memory holds.)"""
    path = tmp_path / 'made.data'
    path.write_bytes(build([CPU_CLOCK], {4: string('release'), bit: payload, 28: strings()}))
    lines = header(reader('report', '--header-only', '-I', '-i', path).out)
    assert '# os release : release' in lines
    assert '# cpu pmu capabilities: not available' in lines
    assert len([line for line in lines if line.endswith(': section is damaged, not shown')]) == 1


COMMANDS = {
    'clock': ['-e', 'cpu-clock,cs'],
    'call chains': ['-e', 'cpu-clock:u', '-g'],
    'whole machine': ['-e', 'cpu-clock', '-a', '-F', '99'],
    'tracepoints': ['-e', 'sched:sched_switch,sched:sched_wakeup'],
}


@pytest.mark.parametrize('what', COMMANDS)
@pytest.mark.parametrize('who', ['recorder', 'perf'])
def test_recorded_file(reader, perf, need_tracefs, tmp_path, request, what, who):
    path = tmp_path / 'recorded.data'
    request.getfixturevalue(who)('record', *COMMANDS[what], '-o', path, '--', 'true')
    compare(reader, perf, path)


OURS_ALONE = {2, 5, 11, 12, 14, 21}  # what was hit, our version, command line, ids, free memory, times
CACHE, NO_CACHES = 20, struct.pack('<2I', 1, 0)
OURS_NEW = {132, 134}  # where the records of each time are, what was lost


@pytest.mark.parametrize('what', COMMANDS)
def test_features_are_perfs(recorder, perf, need_tracefs, tmp_path, what):
    """The same sections, and the same bytes where the same things were recorded."""
    paths = tmp_path / 'ours.data', tmp_path / 'theirs.data'
    recorder('record', *COMMANDS[what], '--side-channel=off', '-o', paths[0], '--', 'true')
    perf('record', *COMMANDS[what], '-o', paths[1], '--', 'true')
    ours, theirs = map(perf_file.features, paths)
    if theirs.get(CACHE) == NO_CACHES:  # as on some virtual machines
        del theirs[CACHE]
    assert set(ours) - {2} - OURS_NEW == set(theirs) - {2}  # nothing hit, nothing to identify
    assert [bit for bit in theirs if bit not in OURS_ALONE and ours[bit] != theirs[bit]] == []
    assert len(ours[12]) == len(theirs[12])
