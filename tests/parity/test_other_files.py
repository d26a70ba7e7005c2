# SPDX-License-Identifier: MIT
"""What other projects' recordings have shown (make check-corpus), on recordings that are made here."""
import re
import struct

import pytest


def rows(text):
    return [line.rstrip() for line in text.splitlines() if '%' in line]


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


@pytest.mark.parametrize('text', ['sys', 'path'])
@pytest.mark.parametrize('children', ['--children', '--no-children'])
def test_symbol_filter_is_about_entries(millrace, perf, chains, text, children):
    command = ['report', '-i', chains, '--stdio', children, '-g', 'none', '--symbol-filter', text]
    ours, theirs = (sorted(re.sub(r' +', ' ', row) for row in rows(tool(*command).out)) for tool in (millrace, perf))
    assert theirs and ours == theirs
    assert all(text in row for row in ours)
