# SPDX-License-Identifier: MIT
"""
What other programs make of `millrace script`: the lines that stackcollapse-perf.pl and speedscope look for, as small
grammars, and the sums that they would come to.
"""
import collections
import re

import pytest

# stackcollapse-perf.pl: the line of an event, its name at the end, a frame; an empty line ends a sample.
COLLAPSE_EVENT = re.compile(r'^(\S.+?)\s+(\d+)/*(\d+)*\s+')
COLLAPSE_NAME = re.compile(r':\s*(\d+)*\s+(\S+):\s*$')
COLLAPSE_FRAME = re.compile(r'^\s*(\w+)\s*(.+) \((.*)\)')
# speedscope's import of "perf script": the same and a time; a frame's object has no blanks.
SCOPE_TIME = re.compile(r'\s+(\d+\.\d+):\s+')
SCOPE_NAME = re.compile(r'(\S+):\s*$')
SCOPE_FRAME = re.compile(r'^\s*(\w+)\s*(.+) \((\S*)\)')
OFFSET = re.compile(r'\+0x[\da-f]+$')


def blocks(text):
    return [block.splitlines() for block in text.split('\n\n') if block.strip()]


def collapse(text):
    counts = collections.Counter()
    for head, *frames in blocks(text):
        assert COLLAPSE_EVENT.match(head) and COLLAPSE_NAME.search(head), head
        stack = []
        for line in frames:
            _, name, _ = COLLAPSE_FRAME.match(line).groups()
            stack.append(OFFSET.sub('', name))
        counts[tuple(reversed(stack))] += 1
    return counts


def scope(text):
    counts, last = collections.Counter(), 0
    for head, *frames in blocks(text):
        assert COLLAPSE_EVENT.match(head) and SCOPE_NAME.search(head), head
        time = float(SCOPE_TIME.search(head).group(1))
        assert time >= last
        last = time
        counts[tuple(reversed([OFFSET.sub('', SCOPE_FRAME.match(line).group(2)) for line in frames]))] += 1
    return counts


@pytest.fixture(scope='module', params=['fp', 'dwarf', 'pipe'])
def data(request, need_root, millrace, programs, tmp_path_factory):
    path = tmp_path_factory.mktemp('texts') / 'perf.data'
    options = {'fp': ['-g'], 'dwarf': ['--call-graph', 'dwarf,4096'], 'pipe': ['-g']}[request.param]
    output = millrace('record', '-e', 'cpu-clock', *options, '-o', '-' if request.param == 'pipe' else path, '--',
                      programs / 'spin', '-t', '2', '-m', '100', binary=True).out
    if request.param == 'pipe':
        path.write_bytes(output)
    return path


def test_text(data, millrace):
    text = millrace('script', '-i', data, '-F', 'comm,pid,tid,time,period,event,ip,sym,dso').out
    counts = collapse(text)
    assert sum(counts.values()) == len(blocks(text)) > 10
    assert scope(text) == counts
    assert any('spin_left' in stack or 'spin_right' in stack for stack in counts)


def test_default_text(data, millrace):
    text = millrace('script', '-i', data).out
    if '([' not in text and ' (' not in text:
        pytest.skip('as in perf a pipe shows no objects: -F has them')
    assert collapse(text) == scope(text)


def test_folded(data, millrace):
    """flamegraph.pl and speedscope: "frame;frame count"."""
    lines = millrace('script', '--folded', '-i', data).out.splitlines()
    assert lines and all(re.fullmatch(r'[^;]+(;[^;]+)* \d+', line) for line in lines)
    folded = collections.Counter()
    for line in lines:
        stack, _, count = line.rpartition(' ')
        folded[tuple(stack.split(';'))[1:]] += int(count)
    text = collapse(millrace('script', '-i', data, '-F', 'comm,pid,tid,time,period,event,ip,sym,dso').out)
    known = {stack: count for stack, count in text.items() if '[unknown]' not in stack}
    assert known and sum(text.values()) == sum(folded.values())
    for stack, count in known.items():
        assert folded[stack] == count
