# SPDX-License-Identifier: MIT
"""The event offcpu-time as the bytes of a file tell it, read by no code of the program that is tested."""
import bisect
import pathlib
import re
import struct
from collections import defaultdict, namedtuple

import perf_file
from perfdata import ADDR, CALLCHAIN, LEDGER, PERIOD, RAW, SAMPLE, TID, TIME, PerfData

SOFTWARE, CONTEXT_SWITCHES, TRACEPOINT = 1, 3, 2
SWITCH, SWITCH_CPU_WIDE, SWITCH_OUT = 14, 15, 1 << 13
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


class Tracepoint:
    """Number and fields of an event of sched, as tracefs has them."""

    def __init__(self, name):
        directory = pathlib.Path('/sys/kernel/tracing/events/sched') / name
        self.number = int((directory / 'id').read_text())
        text = (directory / 'format').read_text()
        self.fields = {field: (int(offset), int(size)) for field, offset, size
                       in re.findall(r'(\w+)(?:\[\d+\])?;\toffset:(\d+);\tsize:(\d+);', text)}

    def number_of(self, raw, field):
        offset, size = self.fields[field]
        return int.from_bytes(raw[offset:offset + size], 'little')


class Switches:
    """
    What the kernel tells of tasks in the same recording, from events of their own: when each left the CPU and came
    back (PERF_RECORD_SWITCH), also by the record of the task before it (`followed`), and its sched_switch and
    sched_waking. Times in nanoseconds, each list in their order.
    """

    def __init__(self, path):
        self.outs, self.ins, self.followed, self.left, self.came, self.woken = (defaultdict(list) for _ in range(6))
        data = PerfData(path)
        switch, waking = Tracepoint('sched_switch'), Tracepoint('sched_waking')
        for record in data.records():
            if record.type in (SWITCH, SWITCH_CPU_WIDE):
                _, tid, time = struct.unpack_from('<IIQ', record.body, len(record.body) - 32)  # TID TIME CPU IDENTIFIER
                (self.outs if record.misc & SWITCH_OUT else self.ins)[tid].append(time)
                if record.type == SWITCH_CPU_WIDE and record.misc & SWITCH_OUT:
                    self.followed[struct.unpack_from('<II', record.body)[1]].append(time)
            if record.type != SAMPLE:
                continue
            attr = data.by_id[struct.unpack_from('<Q', record.body)[0]]
            if attr.type != TRACEPOINT:
                continue
            sample = data.sample(record, attr)
            if attr.config == switch.number:
                previous = switch.number_of(sample.raw, 'prev_pid')
                self.left[previous].append(sample.time)
                if previous:  # of an idle CPU the recorder asks for no such event
                    self.came[switch.number_of(sample.raw, 'next_pid')].append(sample.time)
            elif attr.config == waking.number:
                self.woken[waking.number_of(sample.raw, 'pid')].append(sample.time)
        for lists in (self.outs, self.ins, self.followed, self.left, self.came, self.woken):
            for times in lists.values():
                times.sort()


def between(times, first, last):
    """Those of a list in order that are in this range, both ends included."""
    return times[bisect.bisect_left(times, first):bisect.bisect_right(times, last)]


def made_ledger(*disabled, cause=10):
    """From when to when events were disabled (11: overwritten), and nothing else: millrace-data(5)."""
    entries = b''.join(struct.pack('<2I2i3Q', 0xffffffff, cause, -1, -1, start, end, 0) for start, end in disabled)
    return struct.pack('<2I4Q', 1, 1, 1, 2, len(disabled), 0) + entries


def made_recording(path, *records, ledger=None, overwrites=False):
    """Of cpu-clock and offcpu-time, with context switches."""
    sample_type = 1 << 16 | 1 | 2 | 4 | 128 | 256
    values = {'type': SOFTWARE, 'sample_period': 1}
    clock = perf_file.attr(**values, config=0, sample_type=sample_type, bits=1 << 18 | 1 << 26)
    waits = perf_file.attr(**values, config=CONTEXT_SWITCHES, sample_type=sample_type | RAW,
                           bits=1 << 18 | overwrites << 27)  # write_backward
    names = perf_file.event_desc(('cpu-clock', clock, [5]), ('offcpu-time', waits, [6]))
    features = {12: names, LEDGER: ledger} if ledger else {12: names}
    path.write_bytes(perf_file.build([clock, waits], features, ids=[[5], [6]],
                                     records=b''.join(records) + perf_file.FINISHED_ROUND))


def made_fork(tid, time, cpu):
    body = struct.pack('<4IQ', tid, tid, tid, tid, time) + struct.pack('<4Q', tid << 32 | tid, time, cpu, 5)
    return struct.pack('<IHH', 7, 0, 8 + len(body)) + body


def made_sum(tid, time, cpu, waited, times):
    """Blocked, many times."""
    return perf_file.sample(2, 6, 0x1000, tid << 32 | tid, time, cpu, waited, 20 | (SUM | 1) << 32, 0, times, 0)


def made_exit(tid, time, cpu):
    return b'\4' + made_fork(tid, time, cpu)[1:]


def made_switch(tid, time, cpu, out):
    """tid -1: of a task that has ended."""
    task = tid & 0xffffffff
    return struct.pack('<IHH4Q', SWITCH, SWITCH_OUT if out else 0, 40, task << 32 | task, time, cpu, 5)


def made_sample(tid, time, cpu, period):
    return perf_file.sample(2, 5, 0x1000, tid << 32 | tid, time, cpu, period)


def made_wait(tid, time, cpu, waited, ready=0, flags=0):
    """Blocked, and able to run for the last part of it."""
    sleeping = struct.pack('<2IQ', 12, flags | 1, ready)
    return perf_file.sample(2, 6, 0x1000, tid << 32 | tid, time, cpu, waited, *struct.unpack('<2Q', sleeping))
