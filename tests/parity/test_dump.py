# SPDX-License-Identifier: MIT
"""The raw dump is that of `perf report -D`, byte for byte, up to the statistics at its end."""
import re

import pytest

from conftest import plain_names

CASES = {
    'chains': ['-e', 'cpu-clock', '-g', '-a'],
    'sched': ['-e', 'sched:*', '-a'],
    'dwarf': ['-e', 'cpu-clock', '--call-graph', 'dwarf'],
    'addresses': ['-e', 'page-faults', '-c', '1', '-d'],
    'per-thread': ['-e', 'cpu-clock', '--per-thread'],
    'everything': ['-e', 'cpu-clock', '-a', '-c', '1000000', '--namespaces', '--all-cgroups', '--switch-events'],
}


def records(text):
    """From the first record to the last; what stands around them is the report's."""
    found = re.search(rb'\n0[0-9a-fx]*@.*?(?=\n\nAggregated stats|\Z)', text, re.DOTALL)
    return found[0].rstrip(b'\n') if found else b''


@pytest.fixture
def report(millrace):
    if 'report' not in millrace('--complete').out.split():
        pytest.skip('millrace report is not there yet')
    return lambda *args, **keywords: millrace('report', *args, **keywords)


@pytest.mark.parametrize('case', CASES)
def test_file(case, need_root, need_tracefs, perf, report, tmp_path):
    data = tmp_path / 'perf.data'
    with plain_names():
        perf('record', *CASES[case], '-o', data, '--', 'ls', '-l', '/usr/share/doc')
    theirs = records(perf('report', '-D', '-i', data, binary=True).out)
    ours = records(report('-D', '-i', data, binary=True).out)
    assert theirs.count(b'PERF_RECORD_') > 10
    for number, (left, right) in enumerate(zip(ours.splitlines(), theirs.splitlines()), 1):
        assert left == right, f'line {number}'
    assert ours == theirs
