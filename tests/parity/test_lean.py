# SPDX-License-Identifier: MIT
"""
--lean: what record leaves out of samples of tracepoints, readers do not miss. One recording in pipe layout, which has
no offsets, is read as it is and with the periods taken out of it: the same text.
"""
import struct

import pytest

from perfdata import HEADER_ATTR, IDENTIFIER, IP, PERIOD, RAW, SAMPLE, PerfData

TRACEPOINT, HEADER_FEATURE = 2, 80
BEFORE_PERIOD = IDENTIFIER | 0xff & ~0x30 | 1 << 9 | 1 << 7  # no READ, no CALLCHAIN
EVENTS = 'raw_syscalls:*,sched:sched_switch,sched:sched_stat_runtime'


def is_lean(attr):
    return attr.type == TRACEPOINT and not attr.sample_type & PERIOD


def without_periods(path):
    """What --lean would have recorded; and the number of samples that became shorter."""
    file, nr = PerfData(path), 0
    stat = {attr.config for attr in file.attrs for record in file.records() if record.type == SAMPLE
            if struct.unpack_from('<Q', record.body)[0] in attr.ids and attr.type == TRACEPOINT
            and period_of(attr, record) != 1}
    leave_out = [a for a in file.attrs if a.type == TRACEPOINT and a.sample_type & PERIOD and a.config not in stat]
    heads = [struct.pack('<QQQ', a.config, a.period, a.sample_type) for a in leave_out]
    out = [file.bytes[:file.start]]
    for record in file.records():
        body = record.body
        if record.type in (HEADER_ATTR, HEADER_FEATURE):
            for head in heads:
                body = body.replace(head, head[:16] + struct.pack('<Q', struct.unpack('<Q', head[16:])[0] & ~PERIOD))
        attr = file.by_id.get(struct.unpack_from('<Q', body)[0]) if record.type == SAMPLE else None
        if attr in leave_out:
            at = period_at(attr)
            body, nr = body[:at] + body[at + 8:], nr + 1
        out.append(struct.pack('<I2H', record.type, record.misc, 8 + len(body)) + body)
        after = record.offset + 8 + len(record.body)
        if record.type == 66:  # TRACING_DATA: the data stands behind the record
            out.append(file.bytes[after:after + struct.unpack_from('<I', body)[0]])
    return b''.join(out), nr


def period_at(attr):
    return 8 * bin(attr.sample_type & BEFORE_PERIOD).count('1')


def period_of(attr, record):
    return struct.unpack_from('<Q', record.body, period_at(attr))[0]


@pytest.fixture(name='recordings', scope='module')
def fixture_recordings(need_tracefs, millrace, tmp_path_factory):
    folder = tmp_path_factory.mktemp('lean')
    (folder / 'whole').write_bytes(millrace('record', '--no-lean', '-a', '-e', EVENTS, '-o', '-', '--', 'ls', '/',
                                            binary=True).out)
    lean, nr = without_periods(folder / 'whole')
    assert nr > 20
    (folder / 'lean').write_bytes(lean)
    return folder / 'whole', folder / 'lean'


@pytest.mark.parametrize('reader', ['perf', 'millrace'])
@pytest.mark.parametrize('args', [
    ['script'], ['script', '-F', 'comm,tid,cpu,time,period,event,ip,sym,dso,trace'], ['report', '--stdio', '-n'],
    ['report', '--stdio', '-F', 'overhead,period,sample,comm,trace'],
], ids=' '.join)
def test_readers_show_the_same(recordings, perf, millrace, reader, args):
    whole, lean = ([line for line in {'perf': perf, 'millrace': millrace}[reader](*args, '-i', path).out.splitlines()
                    if '(Tip: ' not in line] for path in recordings)
    assert whole == lean and len(whole) > 5


def attrs_of(millrace, tmp_path, *options):
    path = tmp_path / 'perf.data'
    millrace('record', '-a', '-e', EVENTS, *options, '-o', path, '--', 'true')
    return [attr for attr in PerfData(path).attrs if attr.type == TRACEPOINT]


def test_what_is_left_out(need_tracefs, millrace, tmp_path):
    by_default = attrs_of(millrace, tmp_path)
    assert [is_lean(attr) for attr in by_default] == [True, True, True, False], 'sched_stat_runtime counts time'
    assert all(attr.sample_type & IP and attr.sample_type & RAW for attr in by_default)
    assert not any(map(is_lean, attrs_of(millrace, tmp_path, '--no-lean') + attrs_of(millrace, tmp_path, '-P')))
    assert not any(attr.sample_type & IP for attr in attrs_of(millrace, tmp_path, '--lean=ip,period'))
    assert all(attr.sample_type & IP for attr in attrs_of(millrace, tmp_path, '--lean=ip', '-g'))


def test_words_that_are_none(millrace):
    assert '"time" is neither period nor ip' in millrace('record', '--lean=period,time', 'true', status=129).err
