# SPDX-License-Identifier: MIT
"""`millrace export`: each format holds what `report` counts, as programs tell that we did not write."""
import collections
import contextlib
import json
import math
import os
import pathlib
import re
import shutil
import sqlite3
import struct

import pytest

import browser
import perf_file
from conftest import wait_until


@pytest.fixture(scope='module')
def data(need_root, millrace, programs, tmp_path_factory):
    """Two events, threads, a program that starts others."""
    path = tmp_path_factory.mktemp('export') / 'perf.data'
    load = f"""{programs / 'spin'} -t 2 -m 120
               python3 -c 'import time\nwhile time.process_time() < 0.3: sum(i * i for i in range(9999))'
               ls -lR /usr/include > /dev/null"""
    millrace('record', '-e', 'cpu-clock,page-faults', '-F', '4999', '--call-graph', 'unwind', '--sample-cpu',
             '-o', path, '--', 'sh', '-c', load)
    return path


def reported(millrace, data, sort, *args):
    """{event: {key: (samples, period)}} as `report` has it."""
    report = json.loads(millrace('report', '-i', data, '--json', '--no-children', '-g', 'none', '-s', sort, *args).out)
    found = {event['event']: collections.defaultdict(lambda: (0, 0)) for event in report['events']}
    for event in report['events']:
        for entry in event['entries']:
            rows = found[event['event']]
            rows[entry[sort]] = (rows[entry[sort]][0] + entry['samples'], rows[entry[sort]][1] + entry['period'])
    return found


def totals(millrace, data):
    report = json.loads(millrace('report', '-i', data, '--json', '--no-children', '-g', 'none', '-s', 'comm').out)
    return {event['event']: (event['samples'], event['period']) for event in report['events'] if event['samples']}


def folded_lines(text):
    lines = collections.Counter()
    for line in text.splitlines():
        stack, _, number = line.rpartition(' ')
        lines[stack] += int(number)
    return lines


def test_folded_is_what_report_counts(data, millrace):
    for event, (samples, period) in totals(millrace, data).items():
        by_comm = collections.Counter()
        for stack, number in folded_lines(millrace('export', '-i', data, '--format=folded', '-e', event,
                                                   '-o', '-').out).items():
            by_comm[stack.partition(';')[0]] += number
        assert sum(by_comm.values()) == period
        assert by_comm == {comm: counts[1] for comm, counts in reported(millrace, data, 'comm')[event].items()}
        counted = folded_lines(millrace('export', '-i', data, '--format=folded', '-e', event, '--count=samples',
                                        '-o', '-').out)
        assert sum(counted.values()) == samples


def test_folded_has_the_lines_of_script(data, millrace):
    """But for inlined functions, and what has no name: those stand once for each frame."""
    def without_brackets(text):
        return {stack: number for stack, number in folded_lines(text).items() if '[' not in stack}
    ours = without_brackets(millrace('export', '-i', data, '--format=folded', '--no-inline', '--count=samples',
                                     '-e', 'cpu-clock', '-o', '-').out)
    theirs = without_brackets(millrace('script', '-i', data, '--no-inline', '--folded').out)
    common = set(ours) & set(theirs)
    assert len(common) > 20 and all(ours[stack] <= theirs[stack] for stack in common)


def test_folded_of_the_first_event_that_has_samples(need_root, millrace, programs, tmp_path):
    file = tmp_path / 'perf.data'
    millrace('record', '-q', '-e', 'dummy,page-faults,cpu-clock', '-o', file, '--', programs / 'spin', '-m', '2')
    numbers = [sum(folded_lines(millrace(*args, '-i', file).out).values())
               for args in (['script', '--folded'], ['export', '--format=folded', '--count=samples', '-o', '-'])]
    assert numbers == [millrace('script', '-F', 'event', '-i', file).out.count('page-faults')] * 2 and numbers[0]


def test_folded_says_what_it_leaves_out(data, millrace, tmp_path):
    result = millrace('export', '-i', data, '--format=folded', '-o', tmp_path / 'out')
    assert 'samples of other events are left out: folded has one event' in result.err
    first = millrace('export', '-i', data, '--format=folded', '-e', 'cpu-clock', '-o', '-').out
    assert (tmp_path / 'out').read_text() == first


def test_messages_name_standard_output(data, run, program):
    done = run(['sh', '-c', f'exec {program} export -i {data} --format=folded -o - > /dev/full'], status=255)
    assert 'millrace: standard output: No space left on device' in done.err.splitlines()


def test_speedscope(data, millrace, tmp_path):
    out = tmp_path / 'out.speedscope.json'
    millrace('export', '-i', data, '--format=speedscope', '-o', out)
    found = json.loads(out.read_text())
    by_event = collections.Counter()
    for profile in found['profiles']:
        assert profile['type'] == 'sampled' and len(profile['samples']) == len(profile['weights'])
        assert profile['endValue'] == sum(profile['weights'])
        assert all(0 <= frame < len(found['shared']['frames']) for stack in profile['samples'] for frame in stack)
        by_event[profile['name'].split()[-1]] += profile['endValue']
    assert by_event == {event: period for event, (_, period) in totals(millrace, data).items()}
    assert {'spin-0', 'spin-1'} <= {profile['name'].split()[0] for profile in found['profiles']}
    assert any(frame.get('file', '').endswith('/spin') for frame in found['shared']['frames'])


def formats(millrace):
    """Those of this build."""
    return re.search(r'this build has (.*)', millrace('export', '--format=?', status=129).err).group(1).split(', ')


@pytest.fixture(scope='module')
def profile(data, millrace, tmp_path_factory):
    """The recording as a file in a format, which this build may not have."""
    def make(name, *args):
        if name not in formats(millrace):
            pytest.skip(f'this build cannot write {name}')
        out = tmp_path_factory.mktemp(name) / 'profile'
        millrace('export', '-i', data, f'--format={name}', '-o', out, *args)
        return out
    return make


@pytest.fixture
def reader(run):
    """A program that we did not write, run on a file."""
    def read(program, *args):
        if not shutil.which(program):
            pytest.skip(f'{program} is not installed: tools/deps readers')
        return run([program, *args]).out
    return read


def pprof_samples(text):
    """(types, [(values, [location], {label: value})]) of `go tool pprof -raw`."""
    types = re.search(r'^Samples:\n(.*)', text, re.M).group(1).split()
    samples = []
    for line in text.partition('Samples:\n')[2].partition('Locations\n')[0].splitlines()[1:]:
        if values := re.match(r'([\d ]+): ([\d ]*)', line):
            samples.append(([int(value) for value in values.group(1).split()], values.group(2).split(), {}))
        else:
            samples[-1][2].update(re.findall(r'(\w+):\[([^]]*)\]', line))
    return types, samples


def test_pprof_totals(data, millrace, profile, reader):
    types, samples = pprof_samples(reader('go', 'tool', 'pprof', '-raw', profile('pprof')))
    assert types == ['samples/count', 'cpu/nanoseconds[dflt]', 'page-faults_samples/count', 'page-faults/count']
    found = [sum(values[i] for values, _, _ in samples) for i in range(len(types))]
    expected = totals(millrace, data)
    assert found == [*expected['cpu-clock'], *expected['page-faults']]
    by_comm = collections.Counter()
    for values, _, labels in samples:
        by_comm[labels['comm']] += values[1]
    assert +by_comm == {comm: counts[1] for comm, counts in reported(millrace, data, 'comm')['cpu-clock'].items()}
    assert all({'comm', 'pid', 'thread', 'cpu'} <= set(labels) for _, _, labels in samples)


def test_pprof_events_have_names_of_their_own(need_root, millrace, programs, tmp_path, reader):
    """Readers choose one by its name."""
    data, out = tmp_path / 'perf.data', tmp_path / 'out.pb.gz'
    millrace('record', '-q', '-e', 'cpu-clock:u,cpu-clock:k,task-clock', '-o', data, '--', programs / 'spin', '-m',
             '50')
    millrace('export', '-i', data, '--format=pprof', '-o', out)
    types, _ = pprof_samples(reader('go', 'tool', 'pprof', '-raw', out))
    assert types == ['samples/count', 'cpu/nanoseconds[dflt]', 'cpu-clock:k_samples/count', 'cpu-clock:k/nanoseconds',
                     'task-clock_samples/count', 'task-clock/nanoseconds']


def test_pprof_functions(data, millrace, profile, reader):
    """Each function has what report gives it; where it is not named, its object does."""
    text = reader('go', 'tool', 'pprof', '-top', '-nodecount=10000', '-nodefraction=0', '-unit=ns',
                  profile('pprof', '--no-inline'))
    flat = {}
    for line in text.partition('cum%\n')[2].splitlines():
        number, _, _, _, _, name = line.split(None, 5)
        flat[name] = int(number.removesuffix('ns'))
    for name, (_, period) in reported(millrace, data, 'sym', '--no-inline')['cpu-clock'].items():
        if name and not name.startswith('0x') and '@' not in name and '(' not in name:
            assert flat[name] == period


def test_pprof_mappings(profile, reader):
    text = reader('go', 'tool', 'pprof', '-raw', profile('pprof')).partition('Mappings\n')[2]
    assert re.search(r'/libc\.so\.6 [0-9a-f]{40}\b', text) and '/spin' in text and '[kernel.kallsyms]' in text


def test_pprof_names_the_program(millrace, tmp_path, programs, reader):
    """Not what was sampled first, such as the dynamic linker or the kernel: the first mapping is shown above all."""
    data, out = tmp_path / 'perf.data', tmp_path / 'out.pb.gz'
    millrace('record', '-q', '-g', '-e', 'cpu-clock', '-c', '20000', '-o', data, '--', programs / 'spin', '-m', '50')
    millrace('export', '-i', data, '--format=pprof', '-o', out)
    assert reader('go', 'tool', 'pprof', '-top', out).startswith('File: spin\n')


PROTO = pathlib.Path(__file__).resolve().parent.parent.parent / 'src' / 'export' / 'proto'


@pytest.fixture
def decode(profile, run):
    """What protoc makes of a format; numbers without a name are fields that the schema does not have."""
    def read(name, message):
        if not shutil.which('protoc'):
            pytest.skip('protoc is not installed: tools/deps readers')
        command = f'protoc -I{PROTO} --decode={name}.{message} {PROTO / name}.proto < {profile(name)}'
        text = run(['sh', '-c', command]).out
        assert not re.search(r'^ *[0-9]+[:{ ]', text, re.M)
        return text
    return read


def test_perfetto(data, millrace, decode):
    text = decode('perfetto', 'Trace')
    samples = collections.Counter()
    for packet in text.split('\npacket {'):
        if '  perf_sample {' in packet and 'callstack_iid' in packet:
            samples[int(re.search(r'trusted_packet_sequence_id: (\d+)', packet).group(1))] += 1
    names = re.findall(r'timebase {[^}]*name: "(.*)"', text)
    assert {name: samples[i + 1] for i, name in enumerate(names) if samples[i + 1]} == {
        event: nr for event, (nr, _) in totals(millrace, data).items()}
    stacks = {int(iid) for iid in re.findall(r'callstacks {\s*iid: (\d+)', text)}
    assert {int(iid) for iid in re.findall(r'callstack_iid: (\d+)', text)} == stacks
    frames = {int(iid) for iid in re.findall(r'frames {\s*iid: (\d+)', text)}
    assert {int(iid) for iid in re.findall(r'frame_ids: (\d+)', text)} <= frames
    assert 'name: "spin-0"' in text and re.search(r'mapping_paths {[^}]*/spin"', text)


def test_perfetto_thread_names_have_perfettos_number(profile, run):
    """By perfetto's own process_tree.proto: Trace.packet 1, .process_tree 2, .threads 2: tid 1, name 2, tgid 3."""
    if not shutil.which('protoc'):
        pytest.skip('protoc is not installed: tools/deps readers')
    text = run(['sh', '-c', f'protoc --decode_raw < {profile("perfetto")}']).out
    assert re.search(r'^1 {\n  2 {\n    2 {\n      1: \d+\n      2: "spin-0"\n      3: \d+\n    }\n', text, re.M)


def otlp_profiles(text):
    """The strings, and {sample type: [sum of its values]}."""
    strings = [json.loads(f'"{value}"') for value in re.findall(r'^  string_table: "(.*)"$', text, re.M)]
    found = collections.defaultdict(list)
    for profile in text.split('\nresource_profiles {'):
        if kind := re.search(r'sample_type {\s*type_strindex: (\d+)', profile):
            found[strings[int(kind.group(1))]].append(sum(map(int, re.findall(r' values: (\d+)', profile))))
    return strings, found


def test_otlp_events_have_names_of_their_own(millrace, run, tmp_path):
    """Of several that count a time the first is "cpu", and of all the first's count is "samples", as with pprof."""
    if 'otlp' not in formats(millrace) or not shutil.which('protoc'):
        pytest.skip('no otlp, or no protoc: tools/deps readers')
    data, out = tmp_path / 'perf.data', tmp_path / 'out'
    attrs = [perf_file.attr(type=1, config=config, sample_period=10, sample_type=1 << 16 | 1 | 2 | 256, bits=bits)
             for config, bits in ((0, 1 << 5), (0, 1 << 4), (1, 0))]
    records = b''.join(perf_file.sample(2, i, 4096, 7 << 32 | 7, 100 * i) for i in (1, 2, 3))
    names = ['cpu-clock:u', 'cpu-clock:k', 'task-clock']
    description = perf_file.event_desc(*((name, attr, [i + 1]) for i, (name, attr) in enumerate(zip(names, attrs))))
    data.write_bytes(perf_file.build(attrs, {12: description}, ids=[[1], [2], [3]],
                                     records=records + perf_file.FINISHED_ROUND))
    millrace('export', '-i', data, '--format=otlp', '-o', out)
    text = run(['sh', '-c', f'protoc -I{PROTO} --decode=otlp.ProfilesData {PROTO}/otlp.proto < {out}']).out
    assert otlp_profiles(text)[1] == {'cpu': [100], 'cpu-clock:k': [200], 'task-clock': [300], 'samples': [1],
                                      'cpu-clock:k_samples': [1], 'task-clock_samples': [1]}


def test_otlp(data, millrace, decode):
    """Also with the schema of opentelemetry-proto 1.11.0: bench/results/export.md."""
    text = decode('otlp', 'ProfilesData')
    strings, found = otlp_profiles(text)
    expected = totals(millrace, data)
    assert found == {'cpu': [expected['cpu-clock'][1]], 'page-faults': [expected['page-faults'][1]],
                     'samples': [expected['cpu-clock'][0]], 'page-faults_samples': [expected['page-faults'][0]]}
    stacks = len(re.findall(r'^  stack_table {', text, re.M))
    assert all(0 < int(index) < stacks for index in re.findall(r'stack_index: (\d+)', text))
    assert strings[0] == '' and 'process.executable.build_id.gnu' in strings and '"spin-0"' in text


def test_firefox(data, millrace, profile):
    """References lead somewhere, and sums are those of report; the profiler itself: bench/results/export.md."""
    found = json.loads(profile('firefox').read_text())
    shared = found['shared']
    for name, table in shared.items():
        if name != 'stringArray':
            assert all(len(column) == table['length'] for key, column in table.items() if key != 'length'), name
    lengths = {name: table['length'] for name, table in shared.items() if name != 'stringArray'}
    assert all(0 <= frame < lengths['frameTable'] for frame in shared['stackTable']['frame'])
    assert all(prefix is None or prefix < i for i, prefix in enumerate(shared['stackTable']['prefix']))
    assert all(0 <= func < lengths['funcTable'] for func in shared['frameTable']['func'])
    assert all(0 <= name < len(shared['stringArray']) for name in shared['funcTable']['name'])
    assert all(-1 <= resource < lengths['resourceTable'] for resource in shared['funcTable']['resource'])
    sums, names = collections.defaultdict(lambda: (0, 0)), collections.Counter()
    for thread in found['threads']:
        samples, markers = thread['samples'], thread['markers']
        for table in (samples, markers):
            assert all(len(column) == table['length'] for column in table.values() if isinstance(column, list))
        assert all(0 <= stack < lengths['stackTable'] for stack in samples['stack'])
        names.update(shared['stringArray'][name] for name in markers['name'])
        if samples['length']:
            event = re.search(r'\((.*)\)', thread['name']).group(1)
            unit = 1000000 if samples['weightType'] == 'tracing-ms' else 1
            nr, period = sums[event]
            sums[event] = nr + samples['length'], period + sum(round(weight * unit) for weight in samples['weight'])
    assert dict(sums) == totals(millrace, data)
    assert names['fork'] and names['exit'] and names['exec']


def test_firefox_events_of_a_pipe(need_root, millrace, tmp_path):
    """They are named once more, behind the first maps."""
    pipe = tmp_path / 'pipe'
    pipe.write_bytes(millrace('record', '-q', '-e', 'cpu-clock,page-faults', '-o', '-', '--', 'sh', '-c', ':',
                              binary=True).out)
    found = json.loads(millrace('export', '-i', pipe, '--format=firefox', '-o', '-').out)
    names = {thread['name'].partition(' (')[2] for thread in found['threads']}
    assert 'page-faults)' in names
    assert names <= {'', 'cpu-clock)', 'page-faults)'}


DEEP = 1200


@pytest.fixture
def deep_data(tmp_path):
    """A chain as deep as kernel.perf_event_max_stack may make it, of functions without names."""
    data = tmp_path / 'perf.data'
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4 | 32, bits=1 << 18, max_stack=DEEP)
    record = perf_file.sample(2, 4096, 7 << 32 | 7, 1000, 1 + DEEP, (1 << 64) - 512, *range(4096, 4096 + DEEP))
    data.write_bytes(perf_file.build([attr], {}, records=record + perf_file.FINISHED_ROUND))
    return data


def test_a_deep_chain_has_all_callers(deep_data, millrace, run, tmp_path):
    assert millrace('script', '--folded', '-i', deep_data).out.count(';') == DEEP
    assert millrace('export', '--format=folded', '-i', deep_data, '-o', '-').out.count(';') == DEEP
    scope = json.loads(millrace('export', '--format=speedscope', '-i', deep_data, '-o', '-').out)
    assert [len(stack) for profile in scope['profiles'] for stack in profile['samples']] == [DEEP]
    one = millrace('export', '--format=folded', '--max-stack=1', '-i', deep_data, '-o', '-').out
    assert one.count(';') == 1
    none = millrace('export', '--format=folded', '--max-stack=0', '-i', deep_data, '-o', '-', status=129)
    assert not none.out and 'at least 1' in none.err
    if 'perfetto' in formats(millrace) and shutil.which('protoc'):
        out = tmp_path / 'out'
        millrace('export', '--format=perfetto', '-i', deep_data, '-o', out)
        text = run(['sh', '-c', f'protoc -I{PROTO} --decode=perfetto.Trace {PROTO}/perfetto.proto < {out}']).out
        assert len(re.findall(r' frame_ids: ', text)) == DEEP


def rows(text):
    """[{column: text}] of `query`."""
    lines = [line.split('\t') for line in text.splitlines()]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def test_sqlite_totals(data, millrace, profile, reader):
    """As sqlite3 reads them."""
    select = 'SELECT e.name, count(*), sum(s.period) FROM samples s JOIN events e ON e.id = s.event GROUP BY e.id'
    found = reader('sqlite3', '-json', profile('sqlite'), select)
    assert {row['name']: (row['count(*)'], row['sum(s.period)']) for row in json.loads(found)} == totals(millrace, data)
    assert reader('sqlite3', profile('sqlite'), 'PRAGMA integrity_check; PRAGMA foreign_key_check') == 'ok\n'


def test_sqlite_samples_without_chains(millrace, tmp_path, reader):
    """Exact whatever their times and periods are, and the file is five times smaller than the text."""
    if 'sqlite' not in formats(millrace):
        pytest.skip('this build has no SQLite')
    start = 300000 * 10**9  # of a machine that is up for days
    wanted = []
    for i in range(30000):
        time = start + 104729 * (i - i % 10 // 9)  # a tenth are at the time of another one
        wanted.append((time, i * 7 % 5 % 2, 100 + i % 20, 100010 + (i % 50 == 0) * i))
    records = b''.join(perf_file.sample(1, 0xffffffff81000000 + 64 * (i % 300), tid << 32 | tid, time, cpu, period)
                       for i, (time, cpu, tid, period) in enumerate(wanted))
    data, out = tmp_path / 'perf.data', tmp_path / 'out.db'
    attr = perf_file.attr(type=1, sample_period=9999, sample_type=1 | 2 | 4 | 128 | 256)
    data.write_bytes(perf_file.build([attr], {}, records=records + perf_file.FINISHED_ROUND))
    millrace('export', '-i', data, '--format=sqlite', '-o', out)
    found = millrace('query', '-i', out, '--no-header',
                     'SELECT time, cpu, tid, period FROM samples s JOIN threads h ON h.id = s.thread').out
    assert [tuple(map(int, line.split('\t'))) for line in found.splitlines()] == wanted
    assert reader('sqlite3', out, 'PRAGMA integrity_check; PRAGMA foreign_key_check') == 'ok\n'
    text = millrace('script', '-i', data).out
    assert text.count('cpu-clock') == len(wanted) and len(text) > 5 * out.stat().st_size


def task_record(kind, misc, body, pid, time):
    """With the sample_id of an event with TID and TIME."""
    return struct.pack('<IHH', kind, misc, 8 + len(body) + 16) + body + struct.pack('<2IQ', pid, pid, time)


def test_named_after_its_samples(millrace, tmp_path):
    """A task whose first records do not name it has two names, one after the other."""
    data = tmp_path / 'perf.data'
    records = (perf_file.sample(2, 4096, 7 << 32 | 7, 100) +
               task_record(3, 0, struct.pack('<2I8s', 7, 7, b'late'), 7, 200) +
               perf_file.sample(2, 4096, 7 << 32 | 7, 300) * 2 + perf_file.FINISHED_ROUND)
    attr = perf_file.attr(type=1, sample_period=10, sample_type=1 | 2 | 4, bits=1 << 18)
    data.write_bytes(perf_file.build([attr], {}, records=records))
    folded = folded_lines(millrace('export', '-i', data, '--format=folded', '-o', '-').out)
    assert {stack.partition(';')[0]: period for stack, period in folded.items()} == {':7': 10, 'late': 20}


def test_periods_beyond_the_integers_of_sqlite(millrace, tmp_path):
    """Of a damaged record: they were negative."""
    data, large = tmp_path / 'perf.data', 3 << 62
    attr = perf_file.attr(type=1, sample_period=large, sample_type=1 | 2 | 4 | 256, bits=1 << 18)
    records = b''.join(perf_file.sample(2, 4096, 7 << 32 | 7, 100 + i, period) for i, period in
                       enumerate([large, 1, large]))
    data.write_bytes(perf_file.build([attr], {}, records=records + perf_file.FINISHED_ROUND))
    for query, wanted in (('SELECT period FROM samples', [large, 1, large]),
                          ('SELECT period FROM top_functions', [2 * large]), ('SELECT period FROM events', [large])):
        found = millrace('query', '-i', data, '--no-header', query).out.split()
        assert [float(number) for number in found] == pytest.approx(wanted, rel=1e-12), query


@pytest.mark.parametrize('form', ['folded', 'firefox', 'pprof', 'sqlite'])
def test_cpus_that_were_not_recorded(millrace, tmp_path, form):
    data, out = tmp_path / 'perf.data', tmp_path / 'out'
    records = perf_file.sample(2, 4096, 7 << 32 | 7, 100) + perf_file.FINISHED_ROUND
    attr = perf_file.attr(type=1, sample_period=10, sample_type=1 | 2 | 4, bits=1 << 18)
    data.write_bytes(perf_file.build([attr], {}, records=records))
    done = millrace('export', '-i', data, f'--format={form}', '-o', out, '-C', '0', status=255)
    assert 'does not have the CPUs' in done.err and done.err.count('\n') == 1 and not out.exists()


def test_an_event_without_times(millrace, tmp_path):
    """Beside one with times: its samples count with the first of those, and move none."""
    data, start = tmp_path / 'perf.data', 5 * 10**9
    timed, other = (perf_file.attr(type=1, config=config, sample_period=10, sample_type=1 << 16 | 1 | 2 | has_time)
                    for config, has_time in ((0, 4), (2, 0)))
    without = perf_file.sample(2, 2, 4096, 7 << 32 | 7)
    rounds = [without + perf_file.sample(2, 1, 4096, 7 << 32 | 7, start + i * 10**7) + perf_file.FINISHED_ROUND
              for i in range(3)]
    data.write_bytes(perf_file.build([timed, other], {}, ids=[[1], [2]], records=b''.join(rounds)))
    found = json.loads(millrace('export', '-i', data, '--format=firefox', '-o', '-').out)
    assert sorted(thread['samples']['time'] for thread in found['threads']) == [[0, 0, 0], [0, 10, 20]]
    steps = millrace('query', '-i', data, '--no-header',
                     'SELECT ms, sum(samples) FROM thread_timeline GROUP BY event, ms ORDER BY event, ms').out
    assert steps == '0\t1\n10\t1\n20\t1\n0\t3\n'


def test_perfetto_leaves_out_samples_without_a_time(millrace, run, tmp_path):
    """They stood at 0, the start of the system."""
    if 'perfetto' not in formats(millrace) or not shutil.which('protoc'):
        pytest.skip('no perfetto, or no protoc: tools/deps readers')
    data, out, start = tmp_path / 'perf.data', tmp_path / 'out', 5 * 10**9
    timed, other = (perf_file.attr(type=1, config=config, sample_period=10, sample_type=1 << 16 | 1 | 2 | has_time)
                    for config, has_time in ((0, 4), (2, 0)))
    records = (perf_file.sample(2, 2, 4096, 7 << 32 | 7) * 3 +
               perf_file.sample(2, 1, 4096, 7 << 32 | 7, start) * 2 + perf_file.FINISHED_ROUND)
    data.write_bytes(perf_file.build([timed, other], {}, ids=[[1], [2]], records=records))
    done = millrace('export', '-i', data, '--format=perfetto', '-o', out)
    assert '3 samples without a time are left out: perfetto shows each at its time' in done.err
    assert f'{out}: 2 samples' in done.err
    text = run(['sh', '-c', f'protoc -I{PROTO} --decode=perfetto.Trace {PROTO}/perfetto.proto < {out}']).out
    assert re.findall(r'^  timestamp: (\d+)', text, re.M) == [str(start)] * 2 and text.count('perf_sample {') == 2
    assert 'without a time' not in millrace('export', '-i', data, '--format=folded', '-o', out).err


def test_firefox_times_before_the_first_sample(millrace, tmp_path):
    """A task event may come first: its time is 0 then, and the time of day at which the profile starts is its."""
    data, start, day = tmp_path / 'perf.data', 300000 * 10**9, 1700000000 * 10**9
    clock = struct.pack('<2I2Q', 1, 1, day + start, start)
    attr = perf_file.attr(type=1, sample_period=10, sample_type=1 | 2 | 4, bits=1 << 18)
    comm = struct.pack('<2I8s', 7, 7, b'early')
    sample = perf_file.sample(2, 4096, 7 << 32 | 7, start + 8 * 10**6)
    for records, markers, samples, first in (
            (task_record(3, 1 << 13, comm, 7, start + 5 * 10**6) + sample, [('exec', 0)], [3], 5),
            (sample + task_record(3, 0, comm, 7, start + 9 * 10**6), [('new name', 1)], [0], 8)):
        data.write_bytes(perf_file.build([attr], {29: clock}, records=records + perf_file.FINISHED_ROUND))
        found = json.loads(millrace('export', '-i', data, '--format=firefox', '-o', '-').out)
        names, threads = found['shared']['stringArray'], found['threads']
        assert [(names[name], time) for thread in threads
                for name, time in zip(thread['markers']['name'], thread['markers']['startTime'])] == markers
        assert [time for thread in threads for time in thread['samples']['time']] == samples
        assert found['meta']['startTime'] == (day + start) / 10**6 + first


def short_tasks(nr):
    """nr tasks, each forked, executed and ended: its records, and what the tables say of them."""
    objects = [(b'/usr/bin/true', 0x5000, 0x2000), (b'/usr/lib/x86_64-linux-gnu/libc.so.6', 0x155000, 0x26000),
               (b'/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2', 0x26000, 0x1000), (b'[vdso]', 0x2000, 0)]
    records, maps, events, time = b'', [], [], 300000 * 10**9
    for pid in range(1000, 1000 + nr):
        records += task_record(7, 0, struct.pack('<4IQ', pid, 999, pid, 999, time), pid, time)
        records += task_record(3, 1 << 13, struct.pack('<2I8s', pid, pid, b'true'), pid, time + 5)
        events += [(time, 'fork', pid, ':' + str(pid)), (time + 5, 'exec', pid, 'true')]
        for i, (path, size, offset) in enumerate(objects):
            # The third is at the time of the one before.
            at, start = time + 10 + i - (i == 2), (0x7f0000000000 + pid * 0x1234000 + i * 0x1000000)
            name = path + bytes(8 - len(path) % 8)
            fixed = struct.pack('<2I3Q2I2Q2I', pid, pid, start, size, offset, 8, 1, 0, 0, 5, 2)  # of no known inode
            records += task_record(10, 2, fixed + name, pid, at)
            maps.append((at, pid, start, start + size, offset, path.decode()))
        records += perf_file.sample(2, maps[-4][2] + 64, pid << 32 | pid, time + 50)
        records += task_record(4, 0, struct.pack('<4IQ', pid, 999, pid, 999, time + 60), pid, time + 60)
        events.append((time + 60, 'exit', pid, 'true'))
        time += 1000003
    return records + perf_file.FINISHED_ROUND, maps, events


def test_sqlite_many_tasks(millrace, tmp_path, reader):
    """Each row of maps and task_events is exact; the file is small although each task has a sample of its own."""
    if 'sqlite' not in formats(millrace):
        pytest.skip('this build has no SQLite')
    data, out = tmp_path / 'perf.data', tmp_path / 'out.db'
    records, maps, events = short_tasks(3000)
    attr = perf_file.attr(type=1, sample_period=9999, sample_type=1 | 2 | 4, bits=1 << 18 | 1 << 23 | 1 << 24)
    data.write_bytes(perf_file.build([attr], {}, records=records))
    millrace('export', '-i', data, '--format=sqlite', '-o', out)
    found = reader('sqlite3', '-separator', '\t', out, 'SELECT time, pid, start, end, offset, path FROM maps m JOIN '
                   'objects o ON o.id = m.object ORDER BY m.time, start')
    assert found.splitlines() == ['\t'.join(map(str, row)) for row in maps]
    found = reader('sqlite3', '-separator', '\t', out,
                   'SELECT time, kind, tid, name FROM task_events e JOIN threads h ON h.id = e.thread')
    assert found.splitlines() == ['\t'.join(map(str, row)) for row in events]
    assert reader('sqlite3', out, 'PRAGMA integrity_check; PRAGMA foreign_key_check') == 'ok\n'
    text = millrace('script', '-i', data, '--show-task-events', '--show-mmap-events').out
    assert text.count('PERF_RECORD_MMAP2') == len(maps) and len(text) > 4.3 * out.stat().st_size


def test_sqlite_addresses(millrace, tmp_path, query):
    """Maps are told where they were, also of the kernel, between pages, or at an address that no process has."""
    starts = [0, 1, 0x400000, 0x7fffffff000, 0x7ffffffffff, 0x80000000000, 0x7f1234567000, 0x7fffffffe000, 2**63 - 4096,
              2**63, 2**63 + 1, 0xffffffff81000000, 2**64 - 8192]
    records = b''.join(
        task_record(10, 2, struct.pack('<2I3Q2I2Q2I8s', 7, 7 + i, start, 4095, 0, 8, 1, 77, 0, 5, 2, b'/a'), 7, 10 + i)
        for i, start in enumerate(starts))
    data = tmp_path / 'perf.data'
    attr = perf_file.attr(type=1, sample_period=9999, sample_type=1 | 2 | 4, bits=1 << 18 | 1 << 23 | 1 << 24)
    data.write_bytes(perf_file.build([attr], {}, records=records + perf_file.FINISHED_ROUND))
    found = millrace('query', '-i', data, '--no-header', 'SELECT time, start, end - start FROM maps').out.splitlines()
    assert [line.split('\t') for line in found] == [
        [str(10 + i), str(start - 2**64 if start >= 2**63 else start), '4095'] for i, start in enumerate(starts)]


def test_names_of_memory_have_one_pair_of_brackets(millrace, tmp_path):
    """Where nothing is known of an address but the map: "[stack]", "[sum]" for a program of that name."""
    data, page = tmp_path / 'perf.data', tmp_path / 'page'
    maps = b''.join(task_record(1, misc, struct.pack('<2I3Q', 7, 7, start, 4096, 0) + name.ljust(16, b'\0'), 7, 1)
                    for misc, start, name in [(2, 0x10000, b'/nowhere/sum'), (2 | 1 << 13, 0x20000, b'[stack]')])
    attr = perf_file.attr(type=1, sample_period=5, sample_type=1 | 2 | 4 | 32, bits=1 << 18)
    sample = perf_file.sample(2, 0x20010, 7 << 32 | 7, 9, 3, (1 << 64) - 512, 0x20010, 0x10010)
    data.write_bytes(perf_file.build([attr], {}, records=maps + sample + perf_file.FINISHED_ROUND))
    assert ';[sum];[stack] 1\n' in millrace('script', '--folded', '-i', data).out
    assert ';[sum];[stack] 5\n' in millrace('export', '--format=folded', '-i', data, '-o', '-').out
    millrace('flame', '--base=none', '-i', data, '-o', page)
    found = browser.content(page)
    paths = [browser.path_of(found, node) for _, node, *_ in browser.weights(found['series'][0])]
    assert paths == [['[sum]', '[stack]']]
    if 'sqlite' in formats(millrace):
        assert ';[/nowhere/sum];[stack]\n' in millrace('query', '-i', data, 'SELECT stack FROM flame').out


@pytest.mark.parametrize('times', [
    [0, 0, 0],
    [5, 0, 6, 2**63 - 1, 2**63 - 1, 7, 7],
    [2**63 - 1, 1, 2**62 + 5, 2**62 - 1],
    [2**64 - 1, 2**63, 1, 2**63 + 1],
])
def test_sqlite_times(query, millrace, tmp_path, times):
    """In a file without an order, as of a damaged or hostile recording."""
    data = tmp_path / 'perf.data'
    data.write_bytes(perf_file.build([perf_file.attr(type=1, sample_period=1, sample_type=1 | 2 | 4)], {},
                                     records=b''.join(perf_file.sample(2, 4096, 7 << 32 | 7, time) +
                                                      perf_file.FINISHED_ROUND * 3 for time in times)))
    found = millrace('query', '-i', data, '--no-header', 'SELECT time FROM samples').out.split()
    assert sorted(int(time) % 2**64 for time in found) == sorted(times)


@pytest.fixture(scope='module')
def query(data, millrace):
    if 'sqlite' not in formats(millrace):
        pytest.skip('this build has no SQLite')
    return lambda *args, **more: millrace('query', '-i', data, *args, **more)


def test_sqlite_functions_and_threads(data, millrace, query):
    by_comm = rows(query("SELECT h.comm, count(*) AS samples, sum(s.period) AS period FROM samples s JOIN threads h "
                         "ON h.id = s.thread JOIN events e ON e.id = s.event WHERE e.name = 'cpu-clock' "
                         "GROUP BY h.comm").out)
    assert ({row['comm']: (int(row['samples']), int(row['period'])) for row in by_comm} ==
            reported(millrace, data, 'comm')['cpu-clock'])
    names = collections.Counter()
    for row in rows(query('--no-inline', "SELECT function, period FROM top_functions WHERE event = 'cpu-clock'").out):
        names[row['function']] += int(row['period'])
    for name, (_, period) in reported(millrace, data, 'sym', '--no-inline')['cpu-clock'].items():
        if name and not name.startswith('0x'):
            assert names[name] == period


def test_sqlite_views(data, millrace, query):
    flame = rows(query("SELECT stack, sum(period) AS period FROM flame WHERE event = 'cpu-clock' GROUP BY stack").out)
    folded = folded_lines(millrace('export', '-i', data, '--format=folded', '-e', 'cpu-clock', '-o', '-').out)
    named = {row['stack']: int(row['period']) for row in flame if '[' not in row['stack']}
    assert named and named.items() <= dict(folded).items()
    timeline = rows(query("SELECT sum(samples) AS samples FROM thread_timeline").out)
    assert int(timeline[0]['samples']) == sum(samples for samples, _ in totals(millrace, data).values())
    top = rows(query('SELECT function, samples FROM total_functions LIMIT 1000').out)
    assert {'spin_thread', 'spin_outer'} <= {row['function'] for row in top}
    shares = rows(query('SELECT sum(percent) AS percent FROM top_functions GROUP BY event').out)
    assert all(abs(float(row['percent']) - 100) < 5 for row in shares)
    hashed = query('--no-header', 'SELECT count(*) FROM stacks WHERE hash IS NOT NULL;'
                   'SELECT count(DISTINCT stack) FROM samples;'
                   'SELECT count(*) FROM samples s JOIN stacks k ON k.id = s.stack WHERE k.hash IS NULL').out.split()
    assert int(hashed[0]) == int(hashed[1]) > 0 and hashed[2] == '0'
    assert query('--no-header', 'SELECT count(DISTINCT stack) FROM stack_functions').out.strip() == hashed[0]
    kinds = rows(query('SELECT kind, count(*) AS nr FROM task_events GROUP BY kind').out)
    assert {row['kind'] for row in kinds} >= {'fork', 'exit', 'exec'}
    assert 'spin' in query('SELECT DISTINCT path FROM maps JOIN objects ON id = object').out


def test_query_prints(data, query, profile, millrace):
    assert query('SELECT 1 AS a, 2.5 AS b, NULL AS c, char(27) AS d').out == 'a\tb\tc\td\n1\t2.5\t\t\\x1b\n'
    assert query('--no-header', 'SELECT 1; SELECT 2').out == '1\n2\n'
    assert json.loads(query('--json', 'SELECT 1 AS a, NULL AS b, \'<"\' AS c').out) == [{'a': 1, 'b': None, 'c': '<"'}]
    wide = query('SELECT ' + ', '.join(f'{i} AS c{i}' for i in range(300))).out.split()
    assert wide == [f'c{i}' for i in range(300)] + [str(i) for i in range(300)]
    large = query('--json', 'SELECT 9e999 AS a, -9e999 AS b').out
    assert json.loads(large, parse_constant=pytest.fail) == [{'a': math.inf, 'b': -math.inf}]
    kept = millrace('query', '-i', profile('sqlite'), 'SELECT count(*) FROM samples').out
    assert kept == query('SELECT count(*) FROM samples').out


@pytest.mark.parametrize('text, said', [
    ('DELETE FROM samples', 'only SELECT may be used'),
    ("ATTACH '/tmp/millrace-attached.db' AS a", 'only SELECT may be used'),
    ('PRAGMA writable_schema = 1', 'only SELECT may be used'),
    ('SELECT * FROM samplers', 'no such table'),
    ('SELEKT', 'syntax error'),
])
def test_query_refuses(query, profile, millrace, text, said):
    assert said in query(text, status=255).err
    assert said in millrace('query', '-i', profile('sqlite'), text, status=255).err


def test_query_of_a_part_of_a_database(profile, millrace):
    """Its samples are all there: none are left out, so that --time would give the numbers of all of them."""
    result = millrace('query', '-i', profile('sqlite'), '--time=10%-20%', 'SELECT count(*) FROM samples', status=129)
    assert '--time is for recordings' in result.err and result.err.count('\n') == 1 and not result.out


def test_query_of_a_database_that_cannot_be_read_without_writing(profile, millrace, tmp_path):
    """A reader of the WAL mode makes a file beside it, which readers of millrace cannot, nor others in some places."""
    path = tmp_path / 'kept.db'
    shutil.copy(profile('sqlite'), path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute('PRAGMA journal_mode = WAL').fetchall() == [('wal',)]
    result = millrace('query', '-i', path, 'SELECT count(*) FROM samples', status=255)
    assert "in WAL mode" in result.err and "sqlite3 FILE 'PRAGMA journal_mode = DELETE'" in result.err
    assert result.err.count('\n') == 1
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute('PRAGMA journal_mode = DELETE')
    assert millrace('query', '-i', path, 'SELECT count(*) FROM samples').out.startswith('count(*)\n')


def test_query_of_a_damaged_database(query, profile, millrace, tmp_path):
    whole = profile('sqlite').read_bytes()
    torn = whole[:20000] + bytes(len(whole) - 20000)
    for name, content in (('cut', whole[:40000]), ('head', whole[:100]), ('torn', torn)):
        path = tmp_path / name
        path.write_bytes(content)
        result = millrace('query', '-i', path, 'SELECT count(*) FROM samples', status=255)
        assert result.err.count('\n') == 1


@pytest.mark.parametrize('args, said', [
    ([], 'needs a format'),
    (['--format=svg'], 'there is no format "svg"'),
    (['--format=clickhouse'], '--to=clickhouse://HOST'),
    (['--format=folded', '--count=bytes'], 'it must be period or samples'),
    (['--format=folded', 'perf.data'], 'a file is given with -i'),
])
def test_wrong_words(data, millrace, args, said):
    result = millrace('export', '-i', data, *args, status=129)
    assert said in result.err


def test_unknown_event(data, millrace, tmp_path):
    result = millrace('export', '-i', data, '--format=folded', '-e', 'cycles', '-o', tmp_path / 'out', status=255)
    assert 'there is no event "cycles"' in result.err and not list(tmp_path.iterdir())


@pytest.mark.parametrize('name', ['folded', 'speedscope', 'firefox', 'pprof', 'perfetto', 'otlp', 'sqlite'])
def test_broken_input_and_full_disk(data, millrace, tmp_path, tmpfs, name):
    if name not in formats(millrace):
        pytest.skip(f'this build cannot write {name}')
    cut = tmp_path / 'cut.data'
    cut.write_bytes(data.read_bytes()[:60000])
    for source in (cut, '/dev/null'):
        result = millrace('export', '-i', source, f'--format={name}', '-o', tmp_path / 'out', status=255)
        assert result.err.startswith('millrace: ')
    # Less than any of them: the event that has the first sample, which folded takes, may have few.
    small = tmpfs('4k')
    result = millrace('export', '-i', data, f'--format={name}', '-e', 'cpu-clock', '-o', small / 'out', status=255)
    assert 'No space left on device' in result.err or 'disk is full' in result.err
    assert not list(small.iterdir())
    result = millrace('export', '-i', data, f'--format={name}', '-o', tmp_path / 'none' / 'out', status=255)
    assert 'none' in result.err


@pytest.fixture
def cgroup(need_root):
    """A cgroup, as docker makes them, on the hierarchy that samples tell of."""
    for line in pathlib.Path('/proc/mounts').read_text().splitlines():
        if line.split()[2] == 'cgroup2':
            path = pathlib.Path(line.split()[1]) / 'system.slice' / f'docker-{"7" * 60}{os.getpid() % 65536:04x}.scope'
            path.mkdir(parents=True)
            yield path
            wait_until(lambda: not (path / 'cgroup.procs').read_text(), 'an empty cgroup')
            path.rmdir()
            return
    pytest.skip('no cgroup2 is mounted')


def test_cgroups_are_labels(cgroup, millrace, programs, tmp_path, reader):
    data, out = tmp_path / 'perf.data', tmp_path / 'out'
    millrace('record', '-e', 'cpu-clock', '--all-cgroups', '-o', data, '--', 'sh', '-c',
             f'echo $$ > {cgroup}/cgroup.procs && exec {programs}/spin -m 60')
    container = cgroup.name.removeprefix('docker-').removesuffix('.scope')
    if 'sqlite' in formats(millrace):
        select = 'SELECT path, unit, container FROM samples s JOIN cgroups c ON c.id = s.cgroup GROUP BY c.id'
        assert [container] in [line.split('\t')[2:] for line in millrace('query', '-i', data, select).out.splitlines()]
    if 'pprof' in formats(millrace):
        millrace('export', '-i', data, '--format=pprof', '-o', out)
        _, found = pprof_samples(reader('go', 'tool', 'pprof', '-raw', out))
        assert container in {labels.get('container') for _, _, labels in found}


@pytest.mark.parametrize('form, status', [('sqlite', 255), ('pprof', 0)])
def test_without_proc(need_root, run, program, data, tmp_path, form, status):
    out = tmp_path / 'out'
    done = run(['unshare', '-m', 'sh', '-c', 'umount -l /proc; exec "$@"', 'sh', program, 'export', '-i', data,
                f'--format={form}', '-o', out], status=status)
    assert out.exists() == (status == 0) and [path for path in tmp_path.iterdir() if path != out] == []
    assert ('needs /proc, is it mounted?' in done.err) == (status != 0)
