# SPDX-License-Identifier: MIT
"""Writes small perf.data files with any attrs and features, sound or not: what no recorder would write."""
import struct

FIELDS = {  # of perf_event_attr: offset, format
    'type': (0, 'I'), 'size': (4, 'I'), 'config': (8, 'Q'), 'sample_period': (16, 'Q'), 'sample_type': (24, 'Q'),
    'read_format': (32, 'Q'), 'bits': (40, 'Q'), 'wakeup': (48, 'I'), 'bp_type': (52, 'I'), 'config1': (56, 'Q'),
    'config2': (64, 'Q'), 'branch': (72, 'Q'), 'regs_user': (80, 'Q'), 'stack_user': (88, 'I'), 'clockid': (92, 'i'),
    'regs_intr': (96, 'Q'), 'aux_watermark': (104, 'I'), 'max_stack': (108, 'H'), 'aux_sample_size': (112, 'I'),
    'sig_data': (120, 'Q'),
}
FINISHED_ROUND = struct.pack('<IHH', 68, 0, 8)


def attr(**values):
    data = bytearray(128)
    for name, value in {'size': 128, **values}.items():
        offset, form = FIELDS[name]
        struct.pack_into('<' + form, data, offset, value)
    return bytes(data)


def string(text):
    raw = text.encode() + b'\0'
    size = (len(raw) + 63) // 64 * 64
    return struct.pack('<I', size) + raw.ljust(size, b'\0')


def strings(*texts):
    return struct.pack('<I', len(texts)) + b''.join(map(string, texts))


def event_desc(*events):
    """Of (name, attr, ids)."""
    out = struct.pack('<2I', len(events), 128)
    for name, data, ids in events:
        out += data + struct.pack('<I', len(ids)) + string(name) + struct.pack(f'<{len(ids)}Q', *ids)
    return out


def sample(misc, *words):
    """A SAMPLE record of 64-bit words."""
    return struct.pack(f'<IHH{len(words)}Q', 9, misc, 8 + 8 * len(words), *words)


def build(attrs, payloads, ids=(), records=FINISHED_ROUND):
    """payloads: bit -> bytes. ids: a list for each attr."""
    ids = list(ids) or [[] for _ in attrs]
    at = 104
    id_bytes, entries = b'', b''
    for data, numbers in zip(attrs, ids):
        entries += data + struct.pack('<2Q', at + len(id_bytes), 8 * len(numbers))
        id_bytes += struct.pack(f'<{len(numbers)}Q', *numbers)
    start = at + len(id_bytes) + len(entries)
    bitmap = sum(1 << bit for bit in payloads)
    words = [bitmap >> 64 * word & (1 << 64) - 1 for word in range(4)]
    header = b'PERFILE2' + struct.pack('<12Q', 104, 144, at + len(id_bytes), len(entries), start,
                                       len(records), 0, 0, *words)
    next_at = start + len(records) + 16 * len(payloads)
    table, tail = b'', b''
    for bit in sorted(payloads):
        table += struct.pack('<2Q', next_at + len(tail), len(payloads[bit]))
        tail += payloads[bit]
    return header + id_bytes + entries + records + table + tail


def features(path):
    """bit -> payload of a file."""
    with open(path, 'rb') as file:
        data = file.read()
    start, size = struct.unpack_from('<2Q', data, 40)
    bitmap = sum(word << 64 * i for i, word in enumerate(struct.unpack_from('<4Q', data, 72)))
    found = {}
    for index, bit in enumerate(bit for bit in range(256) if bitmap >> bit & 1):
        offset, length = struct.unpack_from('<2Q', data, start + size + 16 * index)
        found[bit] = data[offset:offset + length]
    return found
