# SPDX-License-Identifier: MIT
"""
Call graphs of reports with a limit of branches per node. Where the last branch within the limit has the same period as
one beyond it, in another object, perf shows the one whose object lies first in its memory. Either is right then, and
nothing else is.
"""
import collections
import re

ROW = re.compile(r' +\d.*')
MARGIN = 12  # of each line of a graph; below a trunk, which has no share of its own, 3 more
LEVEL = re.compile(r'[| ] {10}')
HEAD = re.compile(r'[| ]--(\d+)--(.*)')


class Branch:
    """A row of the table, or a run of frames below it, with the branches below that."""
    def __init__(self, text, count=None):
        self.count, self.lines, self.branches = count, [text], []
        self.period = self.objects = None

    def walk(self):
        yield self
        for branch in self.branches:
            yield from branch.walk()


def parse(text):
    """The lines that are of no row; the rows."""
    rest, rows, path, margin = [], [], [], None
    for line in text.splitlines():
        if ROW.fullmatch(line) and not line.startswith(' ' * MARGIN):
            rows.append(Branch(line))
            path, margin = [rows[-1]], MARGIN
            continue
        if not path or not line:
            rest.append(line)
            path = []
            continue
        assert not line[:margin].strip(), line
        at, depth = margin, 0
        if line.startswith('---', at):  # the trunk
            margin += 3
            path[0].lines.append(line[margin:])
            continue
        while level := LEVEL.match(line, at):
            at, depth = level.end(), depth + 1
        if head := HEAD.fullmatch(line, at):
            branch = Branch(head[2], int(head[1]))
            path[depth + 1:] = [branch]
            path[depth].branches.append(branch)
        elif line[at:].strip(' |'):
            assert depth == len(path) - 1, line
            path[depth].lines.append(line[at:])
    return rest, rows


def objects_of(script):
    """
    {function: objects}, from a script with the fields ip, sym and dso. Of addresses without a function perf compares
    some with those in memory and some with those in the file: their order is none.
    """
    found = collections.defaultdict(set)
    for name, path in re.findall(r'^\s+[0-9a-f]+ (.*) \((.*)\)$', script, re.M):
        if name != '[unknown]':
            found[name].add(path)
    return found


def with_periods(counts, periods, script):
    """The rows of a report without a limit and with numbers of samples, which have the periods of the other one."""
    (rest, rows), (its_rest, its_rows) = parse(counts), parse(periods)
    assert rest == its_rest
    ours, its = ([branch for row in some for branch in row.walk()] for some in (rows, its_rows))
    assert [branch.lines for branch in ours] == [branch.lines for branch in its]
    objects = objects_of(script)
    for branch, other in zip(ours, its):
        branch.period = other.count
        branch.objects = objects.get(branch.lines[0], set())
    return rows


def is_limited(branch, whole, limit):
    """Is this what a limit leaves of a branch without one?"""
    trunk = whole.lines[:1 + limit] if whole.count is None else whole.lines
    return (branch.count, branch.lines) == (whole.count, trunk) and are_limited(branch.branches, whole.branches, limit)


def comes_first(branch, other):
    """Of two branches without a limit, in their order: has the first one to be shown before the other one is?"""
    return branch.period > other.period or len(branch.objects) == 1 and branch.objects == other.objects


def are_limited(branches, whole, limit):
    """Are these the first ones, in their order? Of equal ones in several objects any may be first."""
    if len(branches) != min(limit, len(whole)):
        return False
    left = list(whole)
    for branch in branches:
        found = next((nr for nr, other in enumerate(left) if is_limited(branch, other, limit)), None)
        if found is None or any(comes_first(other, left[found]) for other in left[:found]):
            return False
        del left[found]
    return True


def assert_limited(text, rows, limit):
    """The report with a limit has all rows, and of the branches of each the first ones."""
    left = list(rows)
    for row in parse(text)[1]:
        found = next((other for other in left if is_limited(row, other, limit)), None)
        assert found, f'not the first branches of {row.lines[0]}'
        left.remove(found)
    assert not left, left[0].lines[0]
