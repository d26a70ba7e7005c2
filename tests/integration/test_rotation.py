# SPDX-License-Identifier: MIT
"""--switch-output and what belongs to it: all files together hold each record once, and each is whole by itself."""
import json
import os
import pathlib
import re
import sys
from collections import Counter

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from perfdata import COMM, FINISHED_INIT, MMAP2, NAMESPACES, PerfData  # noqa: E402

# As in test_exactly_once.py: the second event has lost nothing but samples.
COUNTED = 'dummy,syscalls:sys_enter_getppid'
CALLS = 8000


class Part(PerfData):
    """One data.N of a directory, whose records have no header of their own."""

    def __init__(self, main, path):
        self.bytes = path.read_bytes()
        self.start, self.end, self.attrs, self.by_id = 0, len(self.bytes), main.attrs, main.by_id


def regions(path):
    """[main, part...]: the files of a recording."""
    if not path.is_dir():
        return [PerfData(path)]
    main = PerfData(path / 'data')
    return [main] + [Part(main, part) for part in sorted(path.glob('data.*'))]


def parts_of(file):
    return sorted(file.parent.glob(file.name + '.2*'))


def lost_in(part):
    main = regions(part)[0]
    return main.lost_samples(main.attrs[1])


def check(file, made):
    """Every record once in all files together; what was lost is told in them; no other file is left."""
    found = []
    for part in parts_of(file):
        main, *others = regions(part)
        found += [sample for region in (main, *others) for sample in region.samples()]
        assert any(record.type == FINISHED_INIT for record in main.records())
    calls = Counter(sample.tid for sample in found)
    keys = [(s.tid, s.cpu, s.time, s.raw) for s in found if calls[s.tid] > 1]  # a shell calls getppid() once
    lost = sum(map(lost_in, parts_of(file)))
    assert len(set(keys)) == len(keys) and len(keys) + lost == made
    assert sorted(file.parent.glob(file.name + '*')) == parts_of(file)
    return len(found), lost


def load(programs, times, between=''):
    """Each of 2 threads makes CALLS calls, `times` times, with the command `between` behind each."""
    line = f'{programs}/syscalls -t 2 -n {CALLS} >/dev/null; {between}'
    return ['sh', '-c', f'for i in {" ".join(map(str, range(times)))}; do {line} done'], 2 * CALLS * times


# The recorder is the parent of its command. Signals that come while one is dealt with are one.
SIGNALS = 'kill -USR2 $PPID; sleep 0.05;'
WRITERS = [[], ['--writer=mmap'], ['--writer=aio,blocks=2'], ['-z'], ['--threads'], ['--threads', '-z'],
           ['--threads', '--writer=mmap'], ['--threads', '--single-file']]
MORE_WRITERS = [['--writer=aio'], ['--writer=aio,blocks=4'], ['-z', '--writer=aio'], ['--threads', '--writer=aio'],
                ['--threads=numa', '-z'], ['--threads', '--single-file', '-z', '--writer=aio']]


def rotate(millrace, programs, tmp_path, how, options, times=4):
    file = tmp_path / 'p.data'
    command, made = load(programs, times, SIGNALS if how == 'signal' else '')
    when = '--switch-output' if how == 'signal' else f'--switch-output={how}'
    done = millrace('record', when, *options, '-e', COUNTED, '-o', file, '--', *command)
    compressed = '-z' in options
    assert len(parts_of(file)) >= (2 if how == 'signal' else 1), done.err
    if not compressed:
        captured, lost = check(file, made)
        assert f'captured {captured} samples' in done.err and f'lost {lost}' in done.err
    reported = re.findall(r'wrote (\S+): (\d+) samples', done.err)
    assert [pathlib.Path(name) for name, _ in reported] == parts_of(file)
    return file, made, reported


def perf_reads(perf, reported, made):
    """Each file by itself, with no word of complaint; and all of them everything that was not lost."""
    total = 0
    for name, samples in reported:
        script = perf('script', '-i', name, '-F', 'tid,time')
        assert not script.err.strip() or 'lost' in script.err.lower()  # what was lost is told, and is no complaint
        assert script.out.count(':') == int(samples)
        total += int(samples) + lost_in(pathlib.Path(name))
    assert made <= total <= made + 1  # the shell's own


@pytest.mark.parametrize('options', WRITERS, ids=' '.join)
def test_by_signal(millrace, perf, programs, need_tracefs, tmp_path, options):
    _, made, reported = rotate(millrace, programs, tmp_path, 'signal', options)
    perf_reads(perf, reported, made)


@pytest.mark.parametrize('options', [[], ['--threads'], ['--threads', '--writer=mmap']], ids=' '.join)
def test_a_small_file_before_a_large_one(millrace, programs, need_tracefs, tmp_path, options):
    """What was found in the one is not told of the other."""
    file, calls = tmp_path / 'p.data', f'{programs}/syscalls -t 2 >/dev/null -n'
    done = millrace('record', '--switch-output', *options, '-e', COUNTED, '-o', file, '--', 'sh', '-c',
                    f'{calls} 50; {SIGNALS} for i in {" ".join("x" * 20)}; do /bin/true; done; {calls} {CALLS}')
    captured, lost = check(file, 2 * (50 + CALLS))
    assert f'captured {captured} samples' in done.err and f'lost {lost}' in done.err


@pytest.mark.parametrize('options', [[], ['--threads']], ids=' '.join)
def test_by_size(millrace, perf, programs, need_tracefs, tmp_path, options):
    _, made, reported = rotate(millrace, programs, tmp_path, '200K', [*options, '-m', '64'], 8)
    assert len(reported) > 1
    perf_reads(perf, reported, made)


def test_by_time(millrace, perf, programs, need_tracefs, tmp_path):
    file, _, reported = rotate(millrace, programs, tmp_path, '1s', [], 2)
    millrace('record', '--switch-output=1s', '-e', 'cpu-clock', '-o', file, '--', 'sleep', '2.2')
    assert len(parts_of(file)) >= len(reported) + 2


@pytest.mark.lab
@pytest.mark.parametrize('how', ['signal', '100K', '1M', '1s'])
@pytest.mark.parametrize('ring', ['-m1', '-m32', '-m512'])
@pytest.mark.parametrize('options', WRITERS + MORE_WRITERS, ids=' '.join)
def test_matrix(millrace, perf, programs, need_tracefs, tmp_path, options, how, ring):
    _, made, reported = rotate(millrace, programs, tmp_path, how, [*options, ring], 12)
    perf_reads(perf, reported, made)


def test_losses_are_reported_in_the_file_that_has_them(millrace, programs, need_tracefs, tmp_path):
    file, *_ = rotate(millrace, programs, tmp_path, 'signal', ['-m', '1'])
    end = 0
    for part in parts_of(file):
        loss = json.loads(millrace('report', '--loss', '--json', '-i', part).out)
        assert loss['ledger'] and loss['lost'] == regions(part)[0].lost_samples()
        assert loss['started_ns'] >= end  # of its own time, and of no other's
        end = loss['started_ns'] + loss['elapsed_ns']


def test_each_file_has_the_initial_state(millrace, programs, spawn, tmp_path):
    """A task that began before the first file, and is sampled in each, has its name and its maps in each."""
    target = spawn([programs / 'spin', '-t', '1', '-m', '100000'])
    file = tmp_path / 'p.data'
    millrace('record', '--switch-output', '-e', 'cpu-clock', '-p', target.pid, '-o', file, '--', 'sh', '-c',
             'for i in 1 2 3; do sleep 0.3; kill -USR2 $PPID; done; sleep 0.3')
    with_samples = [part for part in map(PerfData, parts_of(file)) if any(True for _ in part.samples())]
    assert len(with_samples) >= 2
    for data in with_samples:
        assert any(record.type == COMM and b'spin' in record.body for record in data.records())
        assert data.features >> 2 & 1  # BUILD_ID


def test_namespaces_are_once_in_each_file(millrace, spawn, tmp_path):
    """And tell no name or map of a task a second time."""
    target = spawn(['sleep', '60'])
    file = tmp_path / 'p.data'
    millrace('record', '--switch-output', '--namespaces', '-e', 'dummy', '-p', target.pid, '-o', file, '--', 'sh', '-c',
             'for i in 1 2 3; do sleep 0.3; kill -USR2 $PPID; done; sleep 0.3')
    assert len(parts_of(file)) >= 2
    counted = [Counter((record.type, record.body) for record in PerfData(part).records()
                       if record.type in (COMM, MMAP2, NAMESPACES)) for part in parts_of(file)]
    for counts in counted:
        assert set(counts.values()) == {1} and {kind for kind, _ in counts} == {COMM, MMAP2, NAMESPACES}


@pytest.mark.parametrize('options', [[], ['--overwrite'], ['-z']], ids=' '.join)
def test_tasks_that_end_around_a_switch(millrace, tmp_path, options):
    """Each begins as the output switches, calls into a library and ends: /proc knows nothing of it by the time it is
    asked."""
    file = tmp_path / 'p.data'
    task = 'kill -USR2 $PPID; exec awk "BEGIN { for (i = 0; i < 2e5; i++) x += sin(i) }"'
    millrace('record', '--switch-output', *options, '-m', '64', '-c', '100000', '-e', 'cpu-clock:u', '-o', file, '--',
             'sh', '-c', f'for i in 1 2 3 4 5 6; do ({task}); sleep 0.05; done')
    lines = [line for part in parts_of(file) for line in millrace('script', '-i', part).out.splitlines()]
    assert len(parts_of(file)) >= 2
    assert any(line.split()[0] == 'awk' and 'libm' in line for line in lines)
    assert not [line for line in lines if line.startswith(':') or '([unknown])' in line]


@pytest.mark.parametrize('options', [[], ['-z'], ['--threads']], ids=' '.join)
def test_names_around_a_switch(millrace, programs, need_tracefs, tmp_path, options):
    """A file may begin with samples of before the last names that were given while the output switched. Each thread
    has another name at each call."""
    file = tmp_path / 'p.data'
    done = millrace('record', '--switch-output', *options, '-m', '512', '-e', 'syscalls:sys_enter_prctl', '-o', file,
                    '--', 'sh', '-c', f'for i in 1 2 3 4; do (sleep 0.05; kill -USR2 $PPID) & '
                    f'{programs}/taskstorm -p 0 -t 8 -n 10000 >/dev/null; wait; done')
    if re.search(r'lost [1-9]', done.err):
        pytest.skip('records were lost')
    names = Counter()
    for part in parts_of(file):
        script = millrace('script', '-i', part, '-F', 'comm,tid')
        assert not script.err
        names.update(tuple(line.split()[:2]) for line in script.out.splitlines() if line.split()[0].startswith('n'))
    assert set(names.values()) == {1} and len(names) == 4 * 8 * 9999


# Runs a copy of a program until the recorder holds it, deletes it, and goes on until the recorder lets it go.
DELETED = '''
held() { ls -l /proc/$PPID/fd | grep -q "$1 (deleted)"; }
parts() { ls $FILE.*[0-9] 2>/dev/null | wc -l; }
next() { n=$(parts); kill -USR2 $PPID; until [ $(parts) -gt $n ]; do sleep 0.02; done; }
ticks() { read -r line </proc/$1/stat; set -- ${line##*) }; echo ${12}; }
run() { until=$(($(ticks $1) + 10)); until [ $(ticks $1) -ge $until ]; do sleep 0.02; done; }
cp $SPIN lasting; ./lasting -t 1 -m 600000 & lasting=$!
cp $SPIN gone; ./gone -t 1 -m 600000 & gone=$!
run $lasting; run $gone; rm lasting gone
until held lasting && held gone; do sleep 0.02; done
kill $gone; next
held gone && echo "the file that is recorded may need it"
next; next
while held gone; do sleep 0.02; done
held lasting && echo "one that runs is held"
run $lasting; kill $lasting
'''


def test_deleted_programs_are_let_go(millrace, programs, tmp_path, need_root):
    """Their disk has their room again while the recording goes on; and each file has the names of what ran in it."""
    file, home = tmp_path / 'data', {**os.environ, 'HOME': str(tmp_path / 'home')}
    done = millrace('record', '-q', '-e', 'cpu-clock:u', '-F', '999', '-o', file, '--switch-output',
                    '--', 'sh', '-c', DELETED, cwd=tmp_path,
                    env={**home, 'FILE': str(file), 'SPIN': str(programs / 'spin')})
    assert done.out.splitlines() == ['the file that is recorded may need it', 'one that runs is held']
    first, *_, last = parts_of(file)
    for part, runs in ((first, {'gone', 'lasting'}), (last, {'lasting'})):
        out = millrace('report', '-i', part, '-g', 'none', '-s', 'dso,sym', '--dsos', 'gone,lasting', env=home).out
        assert set(re.findall(r'% +(\w+) +\[\.\] spin_', out)) == runs and '0x' not in out, out


def test_what_is_kept(millrace, tmp_path):
    file = tmp_path / 'p.data'
    done = millrace('record', '--switch-output', '--switch-max-files', '2', '-e', 'cpu-clock', '-o', file, '--', 'sh',
                    '-c', 'for i in 1 2 3 4 5; do kill -USR2 $PPID; sleep 0.2; done')
    assert len(parts_of(file)) == 2 and done.err.count('wrote ') > 2
    assert all(str(part) in done.err for part in parts_of(file))
    assert f' in {done.err.count("wrote ")} files {file}.* (2 are kept);' in done.err


@pytest.mark.parametrize('options', [['--switch-output'], ['--flight=9s']], ids=lambda options: options[0])
def test_one_file_is_kept(millrace, tmp_path, options):
    """The samples of all files are not said to be in it."""
    file = tmp_path / 'p.data'
    done = millrace('record', *options, '--switch-max-files=1', '-e', 'cpu-clock', '-o', file, '--', 'sh', '-c',
                    f'kill -USR2 $PPID; until ls {file}.*[0-9]; do :; done; kill -USR2 $PPID; exec sleep 0.1')
    assert len(parts_of(file)) == 1
    assert f' in {done.err.count("wrote ")} files {file}.* (1 are kept);' in done.err


def test_names(millrace, tmp_path):
    file = tmp_path / 'p.data'
    millrace('record', '--timestamp-filename', '-e', 'cpu-clock', '-o', file, '--', 'true')
    assert [re.fullmatch(r'p\.data\.20\d{14}', part.name) is not None for part in tmp_path.iterdir()] == [True]


def test_size_limit(millrace, programs, need_tracefs, tmp_path):
    file = tmp_path / 'p.data'
    done = millrace('record', '--max-size=300K', '-m', '16', '-e', COUNTED, '-o', file, '--', programs / 'syscalls',
                    '-t', '1', '-n', '100000000', status=None)
    assert 'size limit' in done.err and file.stat().st_size >= 300 * 1024
    assert any(True for _ in PerfData(file).samples())


def test_initial_state_at_the_end(millrace, perf, programs, tmp_path):
    file = tmp_path / 'p.data'
    millrace('record', '--tail-synthesize', '-e', 'cpu-clock', '-o', file, '--', programs / 'spin', '-t', '1',
             '-m', '50')
    types = [record.type for record in PerfData(file).records()]
    assert types.index(9) < types.index(FINISHED_INIT)
    assert not perf('script', '-i', file).err.strip()


def test_snapshot_by_command(millrace, tmp_path):
    file = tmp_path / 'p.data'
    for name in ('ctl', 'ack'):
        os.mkfifo(tmp_path / name)
    millrace('record', '--switch-output', f'--control=fifo:{tmp_path}/ctl,{tmp_path}/ack', '-e', 'cpu-clock',
             '-o', file, '--', 'sh', '-c', f'exec 3<>{tmp_path}/ctl 4<>{tmp_path}/ack; for i in 1 2 3; do echo '
                                           'snapshot >&3; '
             'read line <&4; [ "$line" = ack ] || exit 9; sleep 0.1; done')
    assert len(parts_of(file)) >= 2


@pytest.mark.parametrize('options', [[], ['-a'], ['--threads'], ['--overwrite', '--call-graph=dwarf']], ids=' '.join)
def test_by_event(millrace, programs, need_tracefs, tmp_path, options):
    """Each round goes on when the file is there that its call asked for. The event itself is in none."""
    file = tmp_path / 'p.data'
    again = f'until [ $(ls -d {file}.2*[0-9] 2>/dev/null | wc -l) -ge $i ]; do sleep 0.02; done'
    millrace('record', '--switch-output-event', 'syscalls:sys_enter_getppid', *options, '-e', 'cpu-clock', '-o', file,
             '--', 'sh', '-c', f'for i in 1 2 3; do {programs}/syscalls -t 1 -n 1 >/dev/null; {again}; done')
    assert len(parts_of(file)) >= 4
    tracepoints = [attr for part in parts_of(file) for attr in regions(part)[0].attrs if attr.type == 2]
    assert not tracepoints


def test_an_event_that_is_none(millrace):
    done = millrace('record', '--switch-output-event', 'no-such-event', '-e', 'cpu-clock', '--', 'true', status=129)
    assert 'no-such-event' in done.err


@pytest.mark.parametrize('options', WRITERS, ids=' '.join)
def test_last_moments_at_each_switch(millrace, perf, programs, need_tracefs, tmp_path, options):
    """Rings that overwrite are written at each switch: what was sampled between two of them, each once."""
    file = tmp_path / 'p.data'
    command, made = load(programs, 3, SIGNALS)
    done = millrace('record', '--switch-output', '--overwrite', '-m', '1024', *options,
                    '-e', 'syscalls:sys_enter_getppid', '-o', file, '--', *command)
    keys = []
    for part in parts_of(file):
        keys += [(s.tid, s.cpu, s.time) for region in regions(part) for s in region.samples()]
        assert not perf('script', '-i', part).err.strip()
    assert len(set(keys)) == len(keys) and made <= len(keys) <= made + 1, done.err


def test_directory_that_vanishes(millrace, tmp_path):
    """One message, an end, and a status that tells."""
    (tmp_path / 'd').mkdir()
    done = millrace('record', '--switch-output', '-e', 'cpu-clock', '-o', tmp_path / 'd' / 'p.data', '--', 'sh', '-c',
                    f'rm -r {tmp_path}/d; kill -USR2 $PPID; exec sleep 1000', status=255)
    assert done.err.count('switching the output') == 1


@pytest.mark.parametrize('command', ['kill -USR2 $PPID; exec sleep 1000', 'true'])
@pytest.mark.parametrize('options', [[], ['--threads']], ids=' '.join)
@pytest.mark.parametrize('change, word', [('mv x y', 'renamed'), ('rm -r x', 'removed')])
def test_another_file_in_its_place(millrace, tmp_path, options, command, change, word):
    """It is not renamed, nor told of as a part of the recording."""
    done = millrace('record', '--switch-output', '-e', 'cpu-clock', '-o', 'x', *options, '--', 'sh', '-c',
                    f'{change}; echo of another >x; {command}', cwd=tmp_path, status=255)
    assert (tmp_path / 'x').read_text() == 'of another\n' and f'x was {word} while' in done.err, done.err
    assert 'wrote' not in done.err and not parts_of(tmp_path / 'x')
    place = re.search(r'captured \d+ samples, .* MB in (.*); lost', done.err)[1]
    assert place == 'no file' if word == 'removed' else place.endswith('/y')
    assert word == 'removed' or regions(tmp_path / 'y')


def test_disk_that_fills(millrace, programs, need_tracefs, tmpfs):
    disk = tmpfs('2m')
    done = millrace('record', '--switch-output=400K', '-m', '32', '-e', COUNTED, '-o', disk / 'p.data', '--',
                    programs / 'syscalls', '-t', '1', '-n', '100000000', status=255)
    assert 'No space left' in done.err
    assert sum(any(True for _ in PerfData(part).samples()) for part in parts_of(disk / 'p.data')) >= 2


@pytest.mark.parametrize('when', ['100', '100X', 'x', '-1M', '0s', '99999999999999999999G'])
def test_times_that_are_none(millrace, when):
    assert '100M' in millrace('record', f'--switch-output={when}', '--', 'true', status=129).err


def test_not_for_pipes(millrace):
    done = millrace('record', '--switch-output', '-e', 'cpu-clock', '-o', '-', '--', 'true', status=255, binary=True)
    assert b'for files' in done.err
