# SPDX-License-Identifier: MIT
"""A second reader of perf.data, for tests only: small, slow, and independent of the program that is tested."""
import functools
import operator
import struct
from collections import namedtuple

MAGIC = b'PERFILE2'
MMAP, LOST, COMM, EXIT, THROTTLE, UNTHROTTLE, FORK, SAMPLE, MMAP2, LOST_SAMPLES = 1, 2, 3, 4, 5, 6, 7, 9, 10, 13
NAMESPACES = 16
HEADER_ATTR, TRACING_DATA, FINISHED_ROUND, FINISHED_INIT = 64, 66, 68, 82
IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD, STREAM_ID, RAW = (1 << n for n in range(11))
IDENTIFIER = 1 << 16
ATTR_SAMPLE_ID_ALL = 1 << 18

Attr = namedtuple('Attr', 'type config period sample_type read_format bits ids')
Record = namedtuple('Record', 'type misc body offset')
Sample = namedtuple('Sample', 'ip pid tid time addr id stream cpu period raw')


STOCK_FEATURES = 32  # perf 6.1 knows the bits before this one
EXTENT_INDEX, LEDGER = 132, 134  # numbers of private sections


def sections_of(data):
    """{number: (offset, bytes)} of the features of a file, and of millrace's private sections, which stand behind the
    table."""
    start, size = struct.unpack_from('<QQ', data, 0x28)
    words = struct.unpack_from('<4Q', data, 0x48)
    bits = [bit for bit in range(256) if words[bit // 64] >> bit % 64 & 1]
    found = {bit: struct.unpack_from('<QQ', data, start + size + 16 * i) for i, bit in enumerate(bits)}
    at = start + size + 16 * len(bits)
    if data[at:at + 8] == b'MILLRACE':
        version, nr, size, checksum = struct.unpack_from('<IIQQ', data, at + 8)
        wanted = 0xcbf29ce484222325
        for byte in data[at:at + 24] + data[at + 32:at + size]:
            wanted = (wanted ^ byte) * 0x100000001b3 % (1 << 64)
        assert version == 1 and checksum == wanted
        for i in range(nr):
            number, offset, size = struct.unpack_from('<QQQ', data, at + 32 + 24 * i)
            assert number not in found
            found[number] = (at + offset, size)
    return found


RECORD_HEADER = struct.Struct('<I2H')
RAW_LENGTH = struct.Struct('<I')
# Fields of a sample that have a fixed size, in their order.
FIXED_FIELDS = (('id', IDENTIFIER, 'Q'), ('ip', IP, 'Q'), ('pid', TID, 'I'), ('tid', TID, 'I'), ('time', TIME, 'Q'),
                ('addr', ADDR, 'Q'), ('id', ID, 'Q'), ('stream', STREAM_ID, 'Q'), ('cpu', CPU, 'I'),
                ('reserved', CPU, 'I'), ('period', PERIOD, 'Q'))


@functools.cache
def fixed_fields(sample_type):
    """A struct of those that samples have, and what takes those of Sample from their values, behind which is None."""
    there = [(name, form) for name, bit, form in FIXED_FIELDS if sample_type & bit]
    places = {name: place for place, (name, _) in enumerate(there)}
    form = '<' + ''.join(form for _, form in there)
    return struct.Struct(form), operator.itemgetter(*[places.get(name, -1) for name in Sample._fields[:-1]])


def decoded(data, at, end, sample_type):
    """The Sample whose fields stand there."""
    fields, pick = fixed_fields(sample_type)
    values, raw = fields.unpack_from(data, at) + (None,), None
    at += fields.size
    assert not sample_type & READ
    if sample_type & CALLCHAIN:
        at += 8 + 8 * struct.unpack_from('<Q', data, at)[0]
    if sample_type & RAW:
        start, at = at + 4, at + 4 + RAW_LENGTH.unpack_from(data, at)[0]
        raw = data[start:at]
    assert at <= end, 'a sample ends behind its record'
    return Sample(*pick(values), raw)


class PerfData:
    """attrs, and records(): of a file or a pipe that was saved to a file."""

    def __init__(self, path):
        with open(path, 'rb') as file:
            self.bytes = file.read()
        assert self.bytes[:8] == MAGIC, 'not a perf.data file'
        size = struct.unpack_from('<Q', self.bytes, 8)[0]
        self.pipe = size == 16
        self.attrs = []
        if self.pipe:
            self.start, self.end = 16, len(self.bytes)
            self.attrs = [self._attr(r.body, 0, None) for r in self.records() if r.type == HEADER_ATTR]
        else:
            stride, at, length, self.start, data_size = struct.unpack_from('<5Q', self.bytes, 16)
            self.end = self.start + data_size
            self.features = sum(word << 64 * i for i, word in enumerate(struct.unpack_from('<4Q', self.bytes, 72)))
            for offset in range(at, at + length, stride):
                ids_at, ids_len = struct.unpack_from('<2Q', self.bytes, offset + stride - 16)
                self.attrs.append(self._attr(self.bytes, offset, self.bytes[ids_at:ids_at + ids_len]))
        self.by_id = {id: attr for attr in self.attrs for id in attr.ids}

    @staticmethod
    def _attr(data, at, ids):
        kind, size, config, period, sample_type, read_format, bits = struct.unpack_from('<2I5Q', data, at)
        ids = data[at + size:] if ids is None else ids
        return Attr(kind, config, period, sample_type, read_format, bits, struct.unpack(f'<{len(ids) // 8}Q', ids))

    def headers(self):
        """(type, misc, offset, size) of each record."""
        data, at, end, header = self.bytes, self.start, self.end, RECORD_HEADER.unpack_from
        while at < end:
            kind, misc, size = header(data, at)
            assert size >= 8 and at + size <= end, f'record at {at:#x}: size {size}'
            yield kind, misc, at, size
            at += size
            if kind == TRACING_DATA:
                at += struct.unpack_from('<I', data, at - size + 8)[0]

    def records(self):
        return (Record(kind, misc, self.bytes[at + 8:at + size], at) for kind, misc, at, size in self.headers())

    def sample(self, record, attr=None):
        """A SAMPLE up to its RAW part, of the first event or `attr`; fields that are not there are None."""
        return decoded(record.body, 0, len(record.body), (attr or self.attrs[0]).sample_type)

    def samples(self):
        return (decoded(self.bytes, at + 8, at + size, self.attrs[0].sample_type)
                for kind, _, at, size in self.headers() if kind == SAMPLE)

    def lost_samples(self, attr=None):
        """What the recorder says the kernel dropped: over all events, or of one (which needs IDENTIFIER)."""
        records = [self.bytes[at + 8:at + size] for kind, _, at, size in self.headers() if kind == LOST_SAMPLES]
        if attr is not None:
            assert attr.sample_type & IDENTIFIER
            records = [body for body in records if struct.unpack_from('<Q', body, len(body) - 8)[0] in attr.ids]
        return sum(struct.unpack_from('<Q', body)[0] for body in records)
