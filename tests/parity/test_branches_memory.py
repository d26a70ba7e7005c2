# SPDX-License-Identifier: MIT
"""
Reports of branches and of accesses to memory, as perf's. This machine's CPU records neither: a recording of a clock
gets them, with addresses of its own samples.
"""
import collections
import json
import random
import re
import struct

import pytest

PLAIN = 0x107  # IP, TID, TIME, PERIOD
ADDR, BRANCH_STACK, WEIGHT, DATA_SRC, TRANSACTION, PHYS_ADDR, DATA_PAGE_SIZE = (
    1 << 3, 1 << 11, 1 << 14, 1 << 15, 1 << 17, 1 << 19, 1 << 22)
DATA_SOURCES = [
    0x5080021,                                         # N/A everywhere, as of software events
    1 << 1 | (0x2 | 0x8) << 5 | 1 << 20 | 0xa << 26,   # load, L1 hit, snoop none, TLB L1 hit
    1 << 2 | (0x4 | 0x40) << 5 | 1 << 22 | 0x24 << 26,
    1 << 1 | 0x80 << 5 | 1 << 23 | 1 << 25 | 2 << 24 | 0x1 << 33 | 1 << 37,
    1 << 1 | 0xd << 33 | 1 << 37 | 1 << 40,
    1 << 1 | 1 << 38 | 3 << 40,
]
TRANSACTIONS = [0, 0, 1, 2 | 4, 8 | 16 | 32, 64 | 7 << 32]


def sizes_and_records(data):
    at, size = struct.unpack_from('<QQ', data, 0x28)
    end = at + size
    while at < end:
        kind, misc, size = struct.unpack_from('<IHH', data, at)
        yield kind, misc, data[at + 8:at + size]
        at += size


def enriched(data, dice):
    """The file with branches and all that an access to memory has."""
    attrs_at = struct.unpack_from('<Q', data, 0x18)[0]
    assert struct.unpack_from('<Q', data, attrs_at + 24)[0] == PLAIN
    ips = [struct.unpack_from('<Q', body)[0] for kind, _, body in sizes_and_records(data) if kind == 9]
    maps = [struct.unpack_from('<QQ', body, 8) for kind, _, body in sizes_and_records(data) if kind in (1, 10)]
    places = ips + [start + dice.randrange(length) for start, length in maps if length < 1 << 30] + [0, 8]

    def branch():
        flags = dice.choice([1, 2, 2 | 4, 2 | 8]) | dice.choice([0, 3, 300]) << 4
        return struct.pack('<QQQ', dice.choice(places), dice.choice(places), flags)
    out = b''
    for kind, misc, body in sizes_and_records(data):
        if kind == 9:
            branches = b''.join(branch() for _ in range(dice.randrange(6)))
            body = (body[:24] + struct.pack('<Q', dice.choice(places)) + body[24:]
                    + struct.pack('<Q', len(branches) // 24) + branches
                    + struct.pack('<5Q', dice.choice([0, 1, 17, 400]), dice.choice(DATA_SOURCES),
                                  dice.choice(TRANSACTIONS), dice.choice([0, 0x1234000]), dice.choice([4096, 1 << 21])))
        out += struct.pack('<IHH', kind, misc, 8 + len(body)) + body
    start, size = struct.unpack_from('<QQ', data, 0x28)
    head, tail = bytearray(data[:start]), bytearray(data[start + size:])
    struct.pack_into('<Q', head, 0x30, len(out))
    for i in range(sum(bin(word).count('1') for word in struct.unpack_from('<4Q', data, 0x48))):
        offset, length = struct.unpack_from('<QQ', tail, 16 * i)
        struct.pack_into('<QQ', tail, 16 * i, offset + len(out) - size, length)
    more = ADDR | BRANCH_STACK | WEIGHT | DATA_SRC | TRANSACTION | PHYS_ADDR | DATA_PAGE_SIZE
    struct.pack_into('<Q', head, attrs_at + 24, PLAIN | more)
    struct.pack_into('<Q', head, attrs_at + 72, 1 << 3)  # branch_sample_type: any
    return bytes(head) + out + bytes(tail)


@pytest.fixture(scope='module')
def recording(perf, tmp_path_factory):
    path = tmp_path_factory.mktemp('enriched') / 'perf.data'
    for times in 1, 4, 16, 64:  # a small system has few files to list; more processes would share fewer addresses
        folders = '/usr/include /usr/lib ' * times
        perf('record', '-q', '-F', '5000', '-e', 'cpu-clock', '-o', path, '--',
             'sh', '-c', f'for round in 1 2 3; do ls -R {folders}; done')
        if sum(kind == 9 for kind, *_ in sizes_and_records(path.read_bytes())) > 1500:
            break
    path.write_bytes(enriched(path.read_bytes(), random.Random(7)))
    return path


def rows(text):
    """
    Without the columns that perf adds to all words that begin with "symbol", the distance of data from its symbol,
    which perf knows of data objects alone, and levels of addresses: perf's are those of the sample.
    """
    text = re.sub(r'  IPC   .IPC Coverage.|  -      -  +$|[+-]0x[0-9a-f]+', '', text, flags=re.M)
    lines = [' '.join(re.sub(r'\[.\] ', '', line).split()) for line in text.splitlines()]
    return [line for line in lines if line.strip('# .') and not line.startswith(('# (Tip', '# Sort'))]


# perf 6.1 crashes with the words of symbols alone.
BRANCHES = ['', 'dso_from', 'dso_to,dso_from', 'addr_from', 'addr_to,addr_from', 'cycles', 'weight', 'overhead,dso_to',
            'comm,dso_to,cycles']
MEMORY = ['', 'mem', 'tlb', 'locked,blocked', 'dso_daddr', 'phys_daddr', 'data_page_size,mem', 'local_weight,dso',
          'transaction', 'weight,mem', 'ins_lat,mem', 'dso,symbol_daddr,symbol', 'symbol_iaddr,symbol']
PLAIN_KEYS = ['transaction', 'transaction,comm', 'symbol_size,symbol', 'dso_size,dso', 'weight', 'local_weight,comm',
              'weight,dso']


@pytest.mark.parametrize('mode, keys', [('-b', keys) for keys in BRANCHES] + [('--mem-mode', keys) for keys in MEMORY]
                         + [('--no-branch-stack', keys) for keys in PLAIN_KEYS])
def test_table(millrace, perf, recording, mode, keys):
    command = ['report', '--stdio', '-i', recording, mode, *(['-s', keys] if keys else [])]
    if mode == '--mem-mode':
        command += ['--no-branch-stack']
    theirs, ours = (rows(tool(*command).out) for tool in (perf, millrace))
    assert len(theirs) > 5
    assert ours == theirs


@pytest.mark.parametrize('keys', ['mispredict', 'in_tx,abort'])
def test_flags_of_branches(millrace, perf, recording, keys):
    """perf's comparison of flags has no order, so that a row may come more than once."""
    def shares(text):
        found = collections.Counter()
        for share, flags in re.findall(r'^ +([\d.]+)%  (.*?) *$', text, re.M):
            found[flags.replace(' ', '')] += float(share)
        return found
    command = ['report', '--stdio', '-i', recording, '-b', '-s', keys]
    theirs, ours = (shares(tool(*command).out) for tool in (perf, millrace))
    assert ours.keys() == theirs.keys() != set()
    assert all(abs(ours[flags] - theirs[flags]) < 0.1 for flags in ours)


def test_json(millrace, recording):
    shown = json.loads(millrace('report', '--json', '-i', recording, '-s', 'mispredict,cycles,addr_from,symbol_to').out)
    entries = shown['events'][0]['entries']
    assert {entry['mispredicted'] for entry in entries} == {True, False}
    assert {entry['cycles'] for entry in entries} == {0, 3, 300}
    assert sum(entry['samples'] for entry in entries) == shown['events'][0]['samples'] > 1000


@pytest.mark.parametrize('fields', ['ip,brstack', 'ip,sym,dso,brstack', 'ip,brstacksym', 'ip,sym,dso,brstacksym',
                                    'addr,data_src,weight,ip', 'data_src,phys_addr'])
def test_script_fields(millrace, perf, recording, fields):
    """perf makes data_src as wide as the widest before it."""
    command = ['script', '-i', recording, '-F', f'comm,tid,{fields}']
    theirs, ours = ([line.split() for line in tool(*command).out.splitlines()] for tool in (perf, millrace))
    assert len(theirs) > 1000 and ours == theirs


def test_script_offsets_of_branches(millrace, recording):
    """Of programs inside their object, as in call chains; addresses of the kernel are what they are."""
    offsets, addresses = (
        re.findall(r'0x(\w+)\(/\S+/libc.so.6\)', millrace('script', '-i', recording, '-F', f'{field},dso').out)
        for field in ('brstackoff', 'brstack'))
    assert len(offsets) == len(addresses) > 100
    pages = [(int(address, 16) - int(offset, 16)) % 4096 for address, offset in zip(addresses, offsets)]
    assert not any(pages) and max(int(offset, 16) for offset in offsets) < 1 << 24


@pytest.mark.parametrize('command, reason', [
    (['-s', 'symbol_from', '--no-branch-stack'], 'symbol_from is about branches'),
    (['-s', 'mem', '-b'], 'mem is about accesses to memory'),
    (['--mem-mode', '-b'], 'not branches'),
])
def test_keys_of_what_is_not_counted(run, program, recording, command, reason):
    assert reason in run([program, 'report', '-i', recording, *command], status=None).err


def test_nothing_to_count(run, program, perf, tmp_path):
    path = tmp_path / 'perf.data'
    perf('record', '-q', '-e', 'cpu-clock', '-o', path, '--', 'true')
    assert 'no branches to count' in run([program, 'report', '-b', '-i', path], status=None).err
    assert 'no accesses to memory to count' in run([program, 'report', '--mem-mode', '-i', path], status=None).err
