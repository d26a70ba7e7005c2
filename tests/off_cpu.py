# SPDX-License-Identifier: MIT
"""The event offcpu-time as the bytes of a file tell it, read by no code of the program that is tested."""
import struct
from collections import defaultdict, namedtuple

from perfdata import ADDR, CALLCHAIN, PERIOD, RAW, SAMPLE, TID, TIME, PerfData

SOFTWARE, CONTEXT_SWITCHES = 1, 3
NO_STATE, STARTING, BEGAN_EARLIER, GOES_ON, UNKNOWN, SUM, NO_WAKE_UP, INTERRUPT = (1 << n for n in range(16, 24))

Wait = namedtuple('Wait', 'pid tid left_ns end_ns period ns ready_ns state flags waker times nr_frames cpu')


def attr_of(data):
    found = [attr for attr in data.attrs if (attr.type, attr.config) == (SOFTWARE, CONTEXT_SWITCHES)
             and attr.sample_type & RAW]
    assert len(found) == 1
    assert all(found[0].sample_type & bit for bit in (TID, TIME, PERIOD, CALLCHAIN))
    return found[0]


def decode(data, record):
    """A sample of a file whose samples begin with IDENTIFIER, IP, TID, TIME."""
    attr = attr_of(data)
    (ident,) = struct.unpack_from('<Q', record.body)
    if ident not in attr.ids:
        return None
    _, _, pid, tid, time = struct.unpack_from('<QQIIQ', record.body)
    at = 40 if attr.sample_type & ADDR else 32
    cpu, _, period, nr = struct.unpack_from('<IIQQ', record.body, at)
    at += 24 + 8 * nr
    size, state, ready = struct.unpack_from('<IIQ', record.body, at)
    raw = record.body[at + 4:at + 4 + size]
    flags, state = state & ~0xffff, state & 0xffff
    more = raw[12:20]
    ns = ready if flags & UNKNOWN else period
    assert period == (0 if flags & UNKNOWN else ns)
    return Wait(pid, tid, time - ns, time, period, ns, 0 if flags & UNKNOWN else ready, state, flags,
                struct.unpack('<II', more) if more and not flags & SUM else (0, 0),
                struct.unpack('<Q', more)[0] if flags & SUM else 1, nr, cpu)


def waits_of(path):
    data = PerfData(path)
    decoded = (decode(data, record) for record in data.records() if record.type == SAMPLE)
    return [wait for wait in decoded if wait]


def by_tid(waits):
    found = defaultdict(list)
    for wait in waits:
        found[wait.tid].append(wait)
    return found
