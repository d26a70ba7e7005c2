# SPDX-License-Identifier: MIT
"""The tables of `millrace report` are those of `perf report --stdio`, byte for byte but for perf's tip at the end."""
import collections
import itertools
import json
import os
import pathlib
import random
import re
import stat
import struct
import subprocess

import pytest

import limited_graphs
import perf_file
import return_addresses
from conftest import ALL_CPUS, plain_names
from perfdata import PerfData, SAMPLE

# The end of perf's report is a tip, another one each time, or a hint at debug files.
TIP = re.compile(r'\n#\n# \(.*\)\n#\n\Z')

# Each program at the same addresses each time: of chains through a stripped file at several places perf compares
# addresses in memory and in the file, and may have one caller twice, below the limit of what it prints.
STEADY = ['setarch', '-R']
PYTHON = [*STEADY, 'python3', '-c', 'import json; json.dumps([list(range(100)) for _ in range(2000)])']

CASES = {
    'clock': (['-e', 'cpu-clock'], PYTHON),
    'chains': (['-e', 'cpu-clock', '-g'], PYTHON),
    'all-cpus': ([*ALL_CPUS, '-g'], PYTHON),
    'events': (['-e', 'cpu-clock,context-switches,page-faults'], PYTHON),
    'events-chains': (['-e', 'cpu-clock,page-faults', '-g'], PYTHON),
    'sched': (['-e', 'sched:sched_switch,sched:sched_wakeup', '-a'], PYTHON),
    'forks': (['-e', 'cpu-clock', '-g'],
              [*STEADY, 'sh', '-c', 'for i in 1 2 3 4 5; do ls -lR /usr/share/doc | wc -l; done']),
    'threads': (['-e', 'cpu-clock', '-g', '-R'], None),
}

TABLES = [
    ['--no-children', '-g', 'none'],
    ['--no-children', '-g', 'none', '--sort', 'comm,dso,sym'],
    ['-g', 'none'],
    ['--no-children', '-g', 'none', '-s', 'dso,sym', '-n'],
    ['--no-children', '-g', 'none', '-s', 'pid,comm'],
    ['--no-children', '-g', 'none', '-s', 'cpu,dso'],
    ['--no-children', '-g', 'none', '--percent-limit', '2'],
    ['--no-children', '-g', 'none', '--comms', 'python3,ls'],
    ['--no-children', '-g', 'none', '--dsos', '[kernel.kallsyms]'],
    ['--no-children', '-g', 'none', '-q'],
    ['--no-children', '-g', 'none', '--header'],
    ['-s', 'comm', '-g', 'none'],
    ['--dsos', 'libc.so.6', '--no-children', '-g', 'none'],
    ['--symbols', 'do_syscall_64', '--no-children', '-g', 'none'],
    ['--tid', '1', '-g', 'none'],
    ['--no-children', '-g', 'none', '-s', 'time', '--time-quantum', '10ms'],
    ['--no-children', '-g', 'none', '-s', 'comm,time', '--ns'],
    ['--no-children', '-g', 'none', '-s', 'socket,cpu'],
    ['--no-children', '-g', 'none', '-s', 'trace,comm'],
    ['--no-children', '-g', 'none', '-s', 'comm,sample'],
    ['-g', 'none', '-F', 'comm,overhead', '-s', 'dso'],
    ['-g', 'none', '-F', 'overhead_children,overhead,overhead_sys,overhead_us,dso,sym'],
    ['-g', 'none', '-F', 'period,pid,overhead_guest_sys,overhead_guest_us'],
    ['-g', 'none', '--show-cpu-utilization', '-n', '--show-total-period', '-s', 'dso'],
    ['--hierarchy', '-g', 'none'],
    ['--tasks'],
    ['--mmaps'],
    ['--stats'],
    ['--stats', '--header'],
    ['--header-only'],
    ['--header-only', '-I'],
]


MOST_BRANCHES = 3
GRAPHS = [
    [],
    ['--no-children'],
    ['-g', 'callee'],
    ['-g', f'caller,0.2,{MOST_BRANCHES},count', '--no-children'],
    ['-g', 'fractal,5', '-G', '--no-children'],
    ['-g', 'flat', '--no-children'],
    ['-g', 'folded,0,period'],
    ['--percent-limit', '3', '-s', 'sym,dso'],
    ['--max-stack', '0'],
    ['--max-stack', '3'],
    ['--max-stack', '2', '-g', 'callee'],
    ['-U'],
    ['-p', 'do_syscall_64|^main$'],
    ['-p', 'a', '--no-children', '-F', 'overhead,sym'],
    ['-s', 'parent', '-p', 'page_fault', '-x', '--percentage', 'relative'],
    ['--ignore-callees', '^do_syscall_64$', '--no-children'],
    ['--hierarchy'],
    ['--hierarchy', '--no-children', '-s', '{comm,dso},sym', '-g', 'callee', '-n', '--percent-limit', '2'],
    ['--hierarchy', '-t', ',', '-g', 'none', '-s', 'pid,cpu,sym'],
]


RECORDINGS = [f'{case} of {recorder}' for case in CASES for recorder in ('perf', 'millrace')]


@pytest.fixture(scope='module')
def data(request, need_root, need_tracefs, perf, millrace, programs, tmp_path_factory):
    case, recorder = request.param.split(' of ')
    events, workload = CASES[case]
    path = tmp_path_factory.mktemp(case) / 'perf.data'
    with plain_names():
        {'perf': perf, 'millrace': millrace}[recorder]('record', *events, '-o', path, '--',
                                                       *(workload or [programs / 'spin', '-t', '4', '-m', '100']))
    if '-g' in events:
        return_addresses.move_into_calls(path, perf, millrace)
    return path


def theirs(perf, *args, **keywords):
    text = TIP.sub('\n', perf('report', '--stdio', *args, **keywords).out)
    return text.replace('[...] (inlined)', '[...]')  # memory that perf did not initialise


def unordered(text):
    """
    The lines without what is drawn left of them, sorted. perf orders branches of equal size in different objects by
    where these lie in its memory, millrace by when they became known.
    """
    return sorted(re.sub(r'^[ |]*-*', '', line) for line in text.splitlines())


# A row of an address in no object: junk of a chain through code without frame pointers. In a table without objects that
# of an address without a symbol, too: perf compares two of these by address, and one with a symbol by object, which is
# no order either.
JUNK = re.compile(r' +((?:[\d.]+%? +)+)(?:(.*) \[unknown\] +)?\[.\] (0x[0-9a-f]{16}|0{16}) *(.*)')


def without_junk(text):
    """
    A report without the rows of junk and what is drawn below them, and their numbers: {(table, text): [numbers]}. Of
    addresses of both halves each is before the next in a circle of perf's order: it may not find one in its tree, and
    prints it twice, with a part of the numbers each, and at the level of either.
    """
    rows, rest, table, junk = collections.defaultdict(list), [], 0, None
    for line in text.splitlines():
        table += line.startswith('# Samples:')
        if re.match(r' +\d', line):
            junk = JUNK.fullmatch(line)
        if not junk:
            rest.append(line)
        elif line == junk.string:
            rows[table, *junk.groups()[1:]].append([float(number) for number in junk[1].replace('%', '').split()])
    return '\n'.join(rest), rows


def assert_same(left, right):
    for number, (ours, its) in enumerate(zip(left.splitlines(), right.splitlines()), 1):
        assert ours == its, f'line {number}'
    assert left == right


def assert_same_junk(ours, expected):
    """Of two without_junk(). Names of threads are cut to the width of the column: ours may have a row twice, too."""
    assert ours.keys() == expected.keys()
    for row, rows in ours.items():
        (numbers, nr), (its, its_nr) = (([sum(column) for column in zip(*some)], len(some))
                                        for some in (rows, expected[row]))
        assert nr <= its_nr and numbers == pytest.approx(its, abs=0.00501 * (nr + its_nr)), row


def assert_same_rows(ours, expected):
    if ours != expected:
        (ours, ours_junk), (expected, its_junk) = map(without_junk, (ours, expected))
        assert_same(ours, expected)
        assert_same_junk(ours_junk, its_junk)


def assert_same_limited_graphs(table, data, tools, script):
    """Both reports are what the limit leaves of the report without one, which both have in common."""
    where = table.index('-g') + 1
    limit = f',{MOST_BRANCHES},count'

    def reports(values):
        mode = table[where].replace(limit, values)
        return [tool(*table[:where], mode, *table[where + 1:], '-i', data) for tool in tools]

    (counts, its_counts), (periods, its_periods) = reports(',count'), reports(',period')
    assert_same_graphs(counts, its_counts)
    assert_same_graphs(periods, its_periods)
    whole = limited_graphs.with_periods(without_junk(counts)[0], without_junk(periods)[0], script)
    (ours, ours_junk), (expected, its_junk) = map(without_junk, reports(limit))
    assert_same_junk(ours_junk, its_junk)
    assert limited_graphs.parse(ours)[0] == limited_graphs.parse(expected)[0]
    for text in ours, expected:
        limited_graphs.assert_limited(text, whole, MOST_BRANCHES)


def assert_same_graphs(ours, expected):
    if ours == expected or unordered(ours) == unordered(expected):
        return
    (ours_rest, ours_junk), (its_rest, its_junk) = map(without_junk, (ours, expected))
    if unordered(ours_rest) != unordered(its_rest):
        assert_same(ours, expected)
    assert_same_junk(ours_junk, its_junk)


# Each table of three or four of the recordings, each recording in six or seven tables.
@pytest.mark.parametrize('data, table', [(name, table) for number, name in enumerate(RECORDINGS)
                                         for table in TABLES[(number + 1) % 5::5]],
                         indirect=['data'], ids=lambda value: value if isinstance(value, str) else ' '.join(value))
def test_file(table, data, perf, millrace):
    expected, ours = theirs(perf, *table, '-i', data), millrace('report', '--stdio', *table, '-i', data).out
    assert len(expected) > 20
    if table == ['--tasks']:
        # Of a task that ended while the recording began there may be maps and its end alone: perf does not list it.
        expected, ours = (re.sub(r'.*\| *:\d+\n', '', text) for text in (expected, ours))
    if table == ['--mmaps']:
        # Of all that has no file in a process perf prints one inode, which is that of the first /dev/zero among them.
        expected, ours = (re.sub(r'\d+ (/tmp/perf-\d+\.map)', r'0 \1', text) for text in (expected, ours))
    assert_same_rows(ours, expected)


def has_unknown_marker(path):
    """Whether a chain has an address like a marker, as where code uses the frame pointer as any other register."""
    kernel, user = (1 << 64) - 128, (1 << 64) - 512  # PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER
    for record in PerfData(path).records():
        words = struct.unpack_from(f'<{len(record.body) // 8}Q', record.body) if record.type == SAMPLE else ()
        if any(word > (1 << 64) - 4096 and word not in (kernel, user) for word in words[3:]):  # behind the task
            return True
    return False


@pytest.fixture(scope='module', params=['perf chains', 'millrace events-chains'])
def graph_data(request, need_root, perf, millrace, tmp_path_factory):
    """Without a chain that is not trusted: of that perf takes a parent in the one order, and none in the other."""
    tool, name = request.param.split()
    path = tmp_path_factory.mktemp(name) / 'perf.data'
    for _ in range(20):
        {'perf': perf, 'millrace': millrace}[tool]('record', *CASES[name][0], '-o', path, '--', *CASES[name][1])
        if not has_unknown_marker(path):
            return_addresses.move_into_calls(path, perf, millrace)
            return path
    pytest.fail('each recording has a chain with an unknown marker')


@pytest.fixture(scope='module')
def unknown_marker(programs, tmp_path_factory):
    """A chain that has one behind a function."""
    path = tmp_path_factory.mktemp('marker') / 'perf.data'
    names = subprocess.run(['nm', programs / 'spin'], capture_output=True, text=True, check=True).stdout
    leaf = 0x1000000 + int(re.search(r'^(\w+) [Tt] spin_left$', names, re.M)[1], 16)
    sample = perf_file.sample(2, leaf, 5 << 32 | 5, 1, 4, (1 << 64) - 512, leaf, (1 << 64) - 1, 0x958980)
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 1 << 5 | 1 << 8)
    path.write_bytes(perf_file.build([attr], {}, records=comm_record(5, 'marker') + map_record(
        5, 0x1000000, programs / 'spin') + sample + perf_file.FINISHED_ROUND))
    return path


def test_no_parent_of_a_chain_that_is_not_trusted(unknown_marker, millrace):
    assert has_unknown_marker(unknown_marker)
    for order in 'callee', 'caller':
        table = millrace('report', '-p', 'spin', '--no-children', '-F', 'overhead,sym', '-g', order,
                         '-i', unknown_marker).out
        assert re.search(r'^ +100.00% +\[\.\] spin_left +\[other\] *$', table, re.M)


@pytest.mark.parametrize('table', GRAPHS, ids=' '.join)
def test_graphs(table, graph_data, perf, millrace):
    def ours(*args):
        return millrace('report', *args).out

    def its(*args):
        return theirs(perf, *args)

    if f',{MOST_BRANCHES},' in ' '.join(table):
        script = millrace('script', '-F', 'ip,sym,dso', '-i', graph_data).out
        assert_same_limited_graphs(table, graph_data, [ours, its], script)
    else:
        assert_same_graphs(ours(*table, '-i', graph_data), its(*table, '-i', graph_data))


@pytest.fixture(scope='module')
def equal_branches(programs, tmp_path_factory):
    """
    A function with callers in six objects, in one of them two functions: one caller has two samples, the others,
    with one, are equal, and a limit shows two of them.
    """
    base = tmp_path_factory.mktemp('branches')
    names = subprocess.run(['nm', '-v', programs / 'spin'], capture_output=True, text=True, check=True).stdout
    functions = {name: int(value, 16) for value, name in re.findall(r'^(\w+) [Tt] (\w+)$', names, re.M)}
    callers = {1: 'main', 2: '_start', 3: 'spin_outer', 4: 'spin_thread', 5: 'args_parse', 6: 'spin_right'}
    tid = (1 << 22) + 72
    records, samples = comm_record(tid, 'python3'), []
    for nr in callers:
        (base / str(nr)).write_bytes((programs / 'spin').read_bytes())
        records += map_record(tid, nr << 24, base / str(nr))
    for nr, name in [*callers.items(), (6, '_init'), (4, callers[4])]:
        leaf, caller = (1 << 24) + functions['spin_left'], (nr << 24) + functions[name]
        samples.append(perf_file.sample(2, leaf, tid << 32 | tid, 1, 3, (1 << 64) - 512, leaf, caller + 1))
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 1 << 5 | 1 << 8)
    path = base / 'perf.data'
    path.write_bytes(perf_file.build([attr], {}, records=records + b''.join(samples) + perf_file.FINISHED_ROUND))
    return path


LIMITED = ['-g', f'caller,0,{MOST_BRANCHES},count', '--no-children']


# perf's objects lie in its memory in another order with each of these.
@pytest.mark.parametrize('tunable', ['mmap_threshold=300', 'tcache_max=200'])
def test_equal_branches_at_a_limit(tunable, equal_branches, perf, millrace):
    script = millrace('script', '-F', 'ip,sym,dso', '-i', equal_branches).out
    assert_same_limited_graphs(LIMITED, equal_branches, [
        lambda *args: millrace('report', *args).out,
        lambda *args: theirs(perf, *args, env={'GLIBC_TUNABLES': f'glibc.malloc.{tunable}'})], script)


def test_other_branches_at_a_limit_are_seen(equal_branches, millrace):
    counts, periods, *others = (millrace('report', '-g', mode, '--no-children', '-i', equal_branches).out
                                for mode in ('caller,0,count', 'caller,0,period', 'caller,0,2,count',
                                             'caller,0,4,count'))
    script = millrace('script', '-F', 'ip,sym,dso', '-i', equal_branches).out
    whole = limited_graphs.with_periods(counts, periods, script)
    head = counts[:counts.index('            |')]

    def report(*callers):
        """A report as if these were the callers that are shown."""
        left = ' ' * 12 + '|'
        return head + ''.join(f'{left}          \n{left}--{nr}--{caller}\n{left}          spin_left\n'
                              for nr, caller in callers) + '\n\n'

    most, equal = (2, 'spin_thread'), re.findall('--1--(.*)', counts)
    assert len(equal) == 6 and equal.index('spin_right') < equal.index('_init')
    for one, other in itertools.permutations(equal, 2):
        text = report(most, (1, one), (1, other))
        if '_init' in (one, other) and (one, other) != ('spin_right', '_init'):  # in one object, at a lower address
            others.append(text)
        else:
            limited_graphs.assert_limited(text, whole, MOST_BRANCHES)
    others += [report(most, (1, 'main'), (1, 'main')), report((1, 'main'), most, (1, 'args_parse')),
               report((1, 'main'), (1, 'args_parse'), (1, '_start')), report(most, (1, 'main'), (1, 'spin_left')),
               report(most, (1, 'main'), (2, 'args_parse')),
               report(most, (1, 'main'), (1, '_start')).replace('   spin_left', '   spin_outer')]
    for text in others:
        with pytest.raises(AssertionError, match='not the first'):
            limited_graphs.assert_limited(text, whole, MOST_BRANCHES)


def test_values_of_threads(need_root, perf, millrace, tmp_path):
    file = tmp_path / 'stat.data'
    program = 'import threading; [threading.Thread(target=list, args=(range(9),)).start() for _ in "ab"]'
    perf('record', '-q', '-s', '-e', 'cpu-clock,page-faults', '-o', file, 'python3', '-c', program)
    ours = millrace('report', '--stdio', '-T', '-i', file).out.split('\n\n\n')[-1]
    assert ours == perf('report', '--stdio', '-T', '-i', file).out.split('\n#\n')[-1]
    # perf has no ends of lines between the values.
    ours = millrace('report', '--stdio', '-T', '--pretty=raw', '-i', file).out.split('\n\n\n')[-1]
    theirs = perf('report', '--stdio', '-T', '--pretty=raw', '-i', file).out.split('\n#\n')[-1]
    assert ours.split() == theirs.split() and ours.count('\n') > 2
    assert len(ours.splitlines()) >= 3
    millrace('record', '-q', '-s', '-e', 'cpu-clock', '-o', file, 'python3', '-c', program)
    assert re.fullmatch(r'# +PID +TID +cpu-clock\n(( +\d+){3}\n)+',
                        millrace('report', '--stdio', '-T', '-i', file).out.split('\n\n\n')[-1])


def test_recording_values_of_threads_says_that_it_loses_samples(need_root, millrace, tmp_path):
    """A thread that ends on one CPU writes into the rings of the others, and their heads stand still from then on."""
    if os.sysconf('SC_NPROCESSORS_ONLN') == 1:
        pytest.skip('one CPU: its ring has no other writers')
    for says, *options in [True], [True, '--threads'], [False, '-i'], [False, '-a'], [False, '-C', '0']:
        file = tmp_path / ''.join(['data', *options])
        done = millrace('record', '-s', *options, '-e', 'cpu-clock', '-o', file, '--', 'true')
        assert ('millrace: -s: a thread that ends' in done.err) == says, done.err


def comm_record(tid, name):
    return struct.pack('<IHHII', 3, 0, 16 + 16, tid, tid) + name.encode().ljust(16, b'\0')


def map_record(tid, start, path):
    name = str(path).encode() + b'\0'
    name = name.ljust((len(name) + 7) // 8 * 8, b'\0')
    return struct.pack('<IHHII3Q', 1, 2, 40 + len(name), tid, tid, start, 0x100000, 0) + name


@pytest.fixture(scope='module')
def equal_rows(programs, tmp_path_factory):
    """
    Samples whose rows have equal shares: in functions of two objects, between functions, in files that are gone and
    nowhere. A period of 4 is that of one sample, of two or of four. Each place is sampled once, no address is in two
    objects, nor are any in both halves: else perf may print a row twice. The tasks have numbers that the kernel gives
    to none (PID_MAX_LIMIT): perf looks for files in the mount namespace of a task that is there.
    """
    base = tmp_path_factory.mktemp('equal')
    (base / 'other').write_bytes((programs / 'spin').read_bytes())
    paths = programs / 'spin', base / 'other', base / 'gone', '/gone/too'
    names = subprocess.run(['nm', '-v', programs / 'spin'], capture_output=True, text=True, check=True).stdout
    functions = [int(line.split()[0], 16) for line in names.splitlines() if ' T ' in line or ' t ' in line]
    dice = random.Random(11)
    starts = [nr << 24 for nr in range(1, 5)]
    places = [start + offset for start in starts[:2] for offset in dice.sample(functions, 4)]
    places += [start + nr + offset for nr, start in enumerate(starts) for offset in range(0x10, 0x80, 0x10)]
    places += range(0x7000, 0x7400, 64)
    records, samples = b'', []
    tids = [(1 << 22) + 70, (1 << 22) + 71]
    for tid in tids:
        records += comm_record(tid, 'python3')
        records += b''.join(map_record(tid, start, path) for start, path in zip(starts, paths))
    for place in dice.sample(places, len(places)):
        tid, nr = dice.choice(tids), dice.choice([1, 2, 4])
        samples += [perf_file.sample(2, place, tid << 32 | tid, 4 // nr)] * nr
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 1 << 8)
    path = base / 'perf.data'
    path.write_bytes(perf_file.build([attr], {}, records=records + b''.join(samples) + perf_file.FINISHED_ROUND))
    return path


@pytest.mark.parametrize('table', [['-s', 'dso,sym', '-n'], ['-s', 'pid,sym', '-n'], ['-s', 'sym'], ['-s', 'sym,dso'],
                                   ['-s', 'sym,dso', '-n', '--show-total-period'], ['-s', 'sym', '-F', '+sample'],
                                   ['-F', 'overhead,sym'], ['-F', 'overhead,sym,sample'], ['-n'],
                                   ['--hierarchy', '-s', 'dso,sym', '-n'], ['-s', 'sym', '--show-cpu-utilization']],
                         ids=' '.join)
def test_order_of_equal_rows(table, equal_rows, perf, millrace):
    ours, expected = millrace('report', '--stdio', *table, '-i', equal_rows).out, theirs(perf, *table, '-i', equal_rows)
    assert len(expected.splitlines()) > 50
    assert_same(ours, expected)


@pytest.fixture(scope='module')
def switches(need_root, need_tracefs, perf, tmp_path_factory):
    file = tmp_path_factory.mktemp('switches') / 'perf.data'
    with plain_names():
        perf('record', '-q', '-e', 'sched:sched_switch,sched:sched_wakeup', '-a', '-o', file, 'sleep', '0.1')
    return file


@pytest.mark.parametrize('table', [['--hierarchy', '-s', 'comm,sched_switch.*'],
                                   ['--hierarchy', '-s', 'comm,next_comm'],
                                   ['--hierarchy', '-s', '{trace_fields}'], ['--hierarchy', '-c', 'swapper'],
                                   ['--socket-filter', '0', '-s', 'socket,comm'], ['--socket-filter', '1']],
                         ids=' '.join)
def test_tables_of_all_cpus(table, switches, perf, millrace):
    assert_same(millrace('report', '--stdio', *table, '-i', switches).out, theirs(perf, *table, '-i', switches))


def test_cgroup_namespaces(need_root, perf, millrace, tmp_path):
    file = tmp_path / 'perf.data'
    perf('record', '-q', '--namespaces', '-e', 'cpu-clock', '-o', file,
         'sh', '-c', 'i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; exec unshare -C "$@"', 'sh', *PYTHON)
    ours = millrace('report', '--stdio', '-s', 'cgroup_id,comm', '-i', file).out
    assert_same(ours, theirs(perf, '-s', 'cgroup_id,comm', '-i', file))
    assert len(set(re.findall(r'\d+/0x[0-9a-f]+', ours))) == 2


@pytest.mark.parametrize('words, why', [(['-s', '{comm'], 'closing'), (['-s', 'comm}'], 'braces'),
                                        (['-s', '{comm}dso'], 'braces'), (['-s', '{}'], 'none of'),
                                        (['-p', '('], 'Unmatched'), (['--ignore-callees', '['], 'regular'),
                                        (['-p', 'a', '-g', 'none'], ''), (['--hierarchy', '-F', 'comm'], '--sort')],
                         ids=str)
def test_trees_and_expressions_are_checked(words, why, small, millrace):
    assert why in millrace('report', '--stdio', *words, '-i', small, status=129 if why else 0).err


def test_a_tree_of_an_event_without_its_keys(need_tracefs, program, run, millrace, tmp_path):
    """Samples of cpu-clock have no next_comm: their table has no level."""
    file = tmp_path / 'perf.data'
    millrace('record', '-q', '-a', '-e', 'sched:sched_switch', '-e', 'cpu-clock', '-o', file, '--', 'sleep', '0.2')
    out = tmp_path / 'out'
    run(['sh', '-c', '"$0" report --stdio --hierarchy -s next_comm -i "$1" | head -c 1000000 >"$2"', program, file,
         out])
    text = out.read_text()
    assert "of event 'cpu-clock'" in text and re.search(r'^# Overhead +next_comm$', text, re.M)
    assert len(text) < 1000000 and max(map(len, text.splitlines())) < 1000


def test_pipe(need_root, perf, millrace):
    stream = perf('record', '-e', 'cpu-clock', '-g', '-o', '-', '--', 'sh', '-c', 'ls -lR /usr/share/doc >/dev/null',
                  binary=True).out
    for table in ['--no-children', '-g', 'none'], ['--stats'], ['--header-only']:
        expected = TIP.sub('\n', perf('report', '--stdio', *table, '-i', '-', input=stream, binary=True).out.decode())
        ours = millrace('report', *table, input=stream, binary=True).out.decode()
        # The time of a pipe is not that of the recording; perf shows it all the same.
        date = re.compile('^# captured on .*\n', re.M)
        assert_same(date.sub('', ours), date.sub('', expected))


@pytest.fixture(scope='module')
def small(need_root, perf, tmp_path_factory):
    path = tmp_path_factory.mktemp('report') / 'perf.data'
    perf('record', '-e', 'cpu-clock', '-g', '-o', path, '--', *PYTHON)
    return path


@pytest.mark.parametrize('words', [['--comms', 'wc', '-s', 'dso'], ['--dsos', '[kernel.kallsyms]', '-s', 'comm']],
                         ids=' '.join)
def test_a_filter_of_what_is_no_key(words, need_root, millrace, tmp_path):
    """Rows have the samples of that command or object alone. perf shows all of a row or none, as its first one is."""
    file = tmp_path / 'perf.data'
    millrace('record', '-q', '-e', 'cpu-clock', '-F', '5000', '-o', file, '--',
             'sh', '-c', 'ls -lR /usr/share/doc | wc; ls -lR /usr/share/doc | wc')

    def periods(*args):
        result = json.loads(millrace('report', '--json', '-i', file, *args).out)
        return [(row, row['period']) for row in result['events'][0]['entries']]

    both, key = periods(*words[:2], '-s', 'comm,dso'), words[-1]
    sums = collections.Counter()
    for row, period in both:
        sums[row[key]] += period
    assert len({row['comm'] for row, _ in periods('-s', 'comm')}) > 2
    assert {row[key]: period for row, period in periods(*words)} == sums and sums


def test_graphs_need_chains(need_root, perf, millrace, tmp_path):
    """Of a recording without call chains they are asked for in vain."""
    data = tmp_path / 'perf.data'
    perf('record', '-e', 'cpu-clock', '-o', data, '--', 'true')
    assert 'no call chains' in millrace('report', '-g', '-i', data, status=255).err
    assert millrace('report', '-i', data).out == millrace('report', '-g', 'none', '-i', data).out


def test_symbol_options(small, perf, millrace, tmp_path):
    """Other kernel symbols, and no files to take symbols from."""
    kallsyms = pathlib.Path('/proc/kallsyms').read_text(encoding='ascii').replace(' do_syscall_64\n', ' renamed\n')
    (tmp_path / 'kallsyms').write_text(kallsyms)
    for options in ['--kallsyms', tmp_path / 'kallsyms'], ['--symfs', tmp_path]:
        table = ['--no-children', '-g', 'none', '-i', small, *options]
        assert_same(millrace('report', *table).out, theirs(perf, *table))
    chains = millrace('script', '-i', small, '--kallsyms', tmp_path / 'kallsyms').out
    assert 'renamed+0x' in chains and 'do_syscall_64' not in chains


LINES = '''
static volatile unsigned long sum;
__attribute__((noinline)) static void leaf(int n)
{
        for (int i = 0; i < n; i++)
                sum += i * 3;
}
__attribute__((noinline)) static void middle(int n)
{
        leaf(n);
        sum++;
}
int main(void)
{
        for (int i = 0; i < 100; i++)
                middle(500000);
        return 0;
}
'''


@pytest.fixture(scope='module')
def lines(need_root, perf, tmp_path_factory):
    """A program with debug information of its own."""
    base = tmp_path_factory.mktemp('lines')
    (base / 'lines.c').write_text(LINES)
    subprocess.run(['gcc', '-g', '-O1', '-fno-omit-frame-pointer', '-o', base / 'lines', base / 'lines.c'], check=True)
    perf('record', '-e', 'cpu-clock:u', '-g', '-o', base / 'perf.data', '--', base / 'lines')
    return base / 'perf.data'


def test_source_lines(lines, perf, millrace):
    """In libraries and start files addr2line, which perf asks, and libdw may differ; so the program's own functions
    alone."""
    for table in (['-w', '0,60', '-s', 'srcline,sym'], ['-w', '0,0,60', '-s', 'srcfile,comm', '-n'],
                  ['-w', '90', '-F', 'srcline,overhead', '--full-source-path']):
        table = ['--no-children', '-g', 'none', '--dsos', 'lines', '--symbols', 'leaf,middle,main', '-i', lines, *table]
        expected = theirs(perf, *table)
        assert 'lines.c' in expected
        assert_same(millrace('report', *table).out, expected)


def test_source_lines_of_callers(lines, millrace):
    table = millrace('report', '-s', 'srcline,sym', '-g', 'none', '-i', lines).out
    assert re.search(r'^ +\d{2,3}\.\d\d% +0\.00%  lines\.c:1[567] +\[\.\] main', table, re.M)
    found = json.loads(millrace('report', '--json', '--no-children', '-s', 'srcline,srcfile,time', '-i', lines).out)
    best = found['events'][0]['entries'][0]
    assert re.match(r'lines\.c:[56]$', best['srcline'])
    assert best['srcfile'] == 'lines.c' and best['time_ns'] % 10 ** 8 == 0


@pytest.mark.parametrize('table', [['-s', '+cpu,pid'], ['-F', '+period,sample'], ['-n', '-F', '+pid', '-s', 'dso,sym'],
                                   ['-F', 'comm', '-s', '+cpu'], ['--hierarchy', '-s', '+{cpu,pid}'],
                                   ['-F', '+period', '-s', 'dso'], ['-F', '+overhead,pid', '--no-children']],
                         ids=' '.join)
def test_beside_the_default(table, small, perf, millrace):
    table = [*table, '-g', 'none', '-i', small]
    assert_same(millrace('report', '--stdio', *table).out, theirs(perf, *table))


def test_bare_call_graph_option(small, millrace):
    """-g takes a word of its own, unless an option follows or nothing."""
    table = millrace('report', '-i', small).out
    assert millrace('report', '-g', '-i', small).out == table
    assert millrace('report', '-i', small, '-g').out == table
    assert millrace('report', '-g', 'graph,0.5,caller', '-i', small).out == table
    assert millrace('report', '--call-graph', 'none', '-i', small).out != table
    assert millrace('report', '-g', '--no-children', '-i', small).out != table
    assert millrace('report', '-g', 'callee', '-n', '-g', 'caller', '-i', small).out == \
        millrace('report', '-n', '-i', small).out == millrace('report', '-ng', 'caller', '-i', small).out


def test_json(small, millrace):
    """The numbers of the table."""
    found = json.loads(millrace('report', '--json', '-g', 'none', '-i', small).out)
    table = millrace('report', '-g', 'none', '-n', '-i', small).out
    event, = found['events']
    assert found['version'] == 1 and found['children']
    rows = re.findall(r'^ +([\d.]+)% +([\d.]+)% +(\d+)  ', table, re.M)
    assert len(rows) == len(event['entries']) and sum(entry['samples']
                                                      for entry in event['entries']) == event['samples']
    for (children, own, samples), entry in zip(rows, event['entries']):
        assert f"{100 * entry['children_period'] / event['period']:.2f}" == children
        assert f"{100 * entry['period'] / event['period']:.2f}" == own and str(entry['samples']) == samples


def test_json_of_parents_and_namespaces(need_root, perf, millrace, tmp_path):
    file = tmp_path / 'perf.data'
    perf('record', '-q', '-g', '--namespaces', '-e', 'cpu-clock', '-o', file, *PYTHON)
    found = json.loads(millrace('report', '--json', '-s', 'cgroup_id', '-p', 'a', '-i', file).out)
    entries = found['events'][0]['entries']
    assert any(entry['parent'] for entry in entries)
    assert {(entry['cgroup_device'], entry['cgroup_inode']) for entry in entries} >= {
        (os.stat('/proc/self/ns/cgroup').st_dev, os.stat('/proc/self/ns/cgroup').st_ino)}


def test_cpus(need_root, perf, millrace, tmp_path):
    data = tmp_path / 'perf.data'
    with plain_names():
        perf('record', *ALL_CPUS, '-o', data, '--', *PYTHON)
    for cpus in '0', '0-1':
        table = ['--no-children', '-C', cpus, '-i', data]
        assert_same(millrace('report', *table).out, theirs(perf, *table))
    perf('record', '-q', '-e', 'cpu-clock', '-o', data, '--', *PYTHON)
    for command in 'report', 'script':
        assert 'does not have the CPUs' in millrace(command, '-C', '0', '-i', data, status=255).err


def test_cpus_of_some_events(need_root, need_tracefs, millrace, tmp_path):
    """What -C leaves out for want of a CPU is said; the event of the tasks' lives is none of them."""
    data = tmp_path / 'perf.data'
    millrace('record', '-q', '-e', 'cpu-clock,syscalls:sys_enter_execve', '-o', data, '--', *PYTHON)
    for command in ['report'], ['report', '--json'], ['script'], ['export', '--format=pprof', '-o', tmp_path / 'x']:
        said = [line for line in millrace(*command, '-C', '0-99', '-i', data).err.splitlines() if 'CPUs' in line]
        assert len(said) == 1 and said[0].startswith('millrace: cpu-clock: its samples do not have their CPUs'), said
        assert 'CPUs' not in millrace(*command, '-i', data).err
    data.write_bytes(millrace('record', '-q', '-e', 'cpu-clock', '-o', '-', '--', 'sh', '-c', ':', binary=True).out)
    for command in 'report', 'script':
        done = millrace(command, '-C', '0', '-i', data, status=255)
        assert 'does not have the CPUs' in done.err and 'cpu-clock' not in done.out


def test_wrong_words(small, millrace):
    for args, word in (
            (['-s', 'comm,what'], 'what'), (['-s', ''], 'none of'), (['-F', 'overhead,x'], 'x'),
            (['--time-quantum', '0ms'], 'time'), (['--time-quantum', '18446744073709551616ns'], 'time'),
            (['--percent-limit', 'x'], 'percentage'), (['-g', 'x'], 'mode'), (['name'], 'name')):
        done = millrace('report', '-i', small, *args, status=129)
        assert word in done.err and done.err.count('\n') == 1


def test_cut_off(small, millrace, tmp_path):
    cut = tmp_path / 'cut'
    whole = small.read_bytes()
    start, size = struct.unpack_from('<2Q', whole, 40)
    # Inside the last record: earlier, what says that it is python3 may be missing, which is in the ring of another CPU.
    cut.write_bytes(whole[:start + size - 4])
    done = millrace('report', '-g', 'none', '-i', cut, status=255)
    assert 'python3' in done.out
    assert str(cut) in done.err and 'offset 0x' in done.err


def test_no_file(millrace, tmp_path):
    done = millrace('report', '-i', tmp_path / 'none', status=255)
    assert done.out == '' and done.err.count('\n') == 1


def test_lost_is_reported(need_root, need_tracefs, perf, millrace, programs, tmp_path):
    """Rings of one page for all system calls of a program overflow."""
    data = tmp_path / 'perf.data'
    for _ in range(5):
        perf('record', '-m', '1', '-e', 'raw_syscalls:*', '-g', '-o', data, '--', programs / 'syscalls', '-t', '2',
             '-n', '100000', status=None)
        if 'LOST_SAMPLES' in perf('report', '--stats', '-i', data).out:
            break
    else:
        pytest.skip('nothing was lost')
    table = ['--no-children', '-g', 'none', '-s', 'comm,dso,sym']
    done = millrace('report', *table, '-i', data)
    assert_same(done.out, theirs(perf, *table, '-i', data))
    assert '# Total Lost Samples: 0\n' not in done.out
    assert re.search(r'^millrace: .*lost [1-9]\d* samples', done.err, re.M)
    assert_same(millrace('report', '--stats', '-i', data).out, theirs(perf, '--stats', '-i', data))


def test_stats_of_a_group_that_is_read_in_samples(need_root, perf, millrace, tmp_path):
    """A sample of the leader is one of each member that counted."""
    data = tmp_path / 'perf.data'
    perf('record', '-e', 'context-switches', '-e', '{cpu-clock,page-faults,minor-faults}:S', '-o', data, '--', 'sh',
         '-c', 'i=0; while [ $i -lt 9999 ]; do i=$((i + 1)); done; echo')
    done = millrace('report', '--stats', '-i', data)
    assert re.search('^minor-faults stats:\n *SAMPLE events: +[1-9]', done.out, re.M)
    assert_same(done.out, theirs(perf, '--stats', '-i', data))


def test_reader_goes_away(small, program):
    """As in `report | head`: quiet."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([program, 'report', '-g', 'none', '-i', small], stdout=writer, stderr=subprocess.PIPE,
                          text=True, timeout=60)
    os.close(writer)
    assert done.stderr == ''


def test_full_disk(small, program):
    with open('/dev/full', 'w', encoding='ascii') as full:
        done = subprocess.run([program, 'report', '-g', 'none', '-i', small], stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=60)
    assert done.returncode == 255 and 'No space left' in done.stderr


def test_perf_map(need_root, perf, millrace, tmp_path):
    """Code made at run time, whose names are in /tmp/perf-PID.map: here by a program that writes both."""
    source = tmp_path / 'jit.c'
    source.write_text('''
        #include <stdio.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        int main(void) {
                static const unsigned char loop[] = {0xb9, 0, 0, 0, 0x10, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
                char path[64];
                void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                memcpy(code, loop, sizeof(loop));
                snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
                FILE *map = fopen(path, "w");
                fprintf(map, "nonsense\\n%lx %zx made at run time\\n", (unsigned long)code, sizeof(loop));
                fclose(map);
                ((void (*)(void))code)();
                puts(path);
        }''')
    if os.uname().machine != 'x86_64':
        pytest.skip('the code is for x86-64')
    subprocess.run(['gcc', '-o', tmp_path / 'jit', source], check=True)
    data = tmp_path / 'perf.data'
    done = perf('record', '-e', 'cpu-clock', '-o', data, '--', tmp_path / 'jit')
    path = done.out.strip()
    try:
        table = millrace('report', '-i', data).out
        assert re.search(r'\[JIT\] tid \d+ +\[\.\] made at run time', table)
        assert_same(table, theirs(perf, '-i', data))
    finally:
        if stat.S_ISREG(os.stat(path).st_mode):
            os.unlink(path)


def test_shares_add_up(small, millrace):
    """A table whose numbers add up to a hundred."""
    table = millrace('report', '--no-children', '-i', small, '-s', 'comm').out
    shares = [float(share) for share in re.findall(r'^ +([\d.]+)%', table, re.M)]
    assert shares and abs(sum(shares) - 100) < 0.1
