# SPDX-License-Identifier: MIT
"""The ledger: what was lost is told at the end, stored in the file, and shown by report --loss, never twice."""
import os
import re
import signal
import subprocess
import sys
import pathlib
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from conftest import child_of, stat_of, wait_until  # noqa: E402
from law import check_law, loss_of  # noqa: E402
from perfdata import LEDGER, LOST, STOCK_FEATURES, PerfData, sections_of  # noqa: E402

pytestmark = pytest.mark.alone

COUNTED = 'dummy,syscalls:sys_enter_getppid'
MADE = 4 * 50000


@pytest.fixture(scope='module')
def lossy(millrace, programs, need_tracefs, tmp_path_factory):
    """A recording that lost something, and what its recorder said."""
    file = tmp_path_factory.mktemp('lossy') / 'p.data'
    for _ in range(10):
        done = millrace('record', '-m1', '-o', file, '-e', COUNTED, '--', programs / 'syscalls', '-t', '4',
                        '-n', '50000')
        data = PerfData(file)
        if data.lost_samples():
            return file, data, done.err
    pytest.skip('ten recordings with the smallest rings lost nothing')


def test_reported_at_the_end(lossy):
    _, data, err = lossy
    assert f'lost {data.lost_samples()} ' in err
    assert '% of CPU time' in err and 'worst gap: ' in err and 'what would have prevented it' in err


def test_the_end_claims_no_more_than_the_file(millrace, lossy):
    """Coverage at the end is that of the file; where the last record before each gap is not known, it says so."""
    file, _, err = lossy
    loss = loss_of(millrace, file)
    words = re.search(r'covered (at least )?([\d.]+) % of CPU time', err)
    worst = re.search(r'worst gap: (within )?([\d.]+) ms', err)
    longest_ms = max(gap['to_ns'] - gap['from_ns'] for gap in loss['gaps'] if gap['cause'] == 'ring full') / 1e6
    assert bool(words[1]) == bool(worst[1]), err
    assert float(words[2]) <= loss['covered_percent'] + 0.01 and float(worst[2]) >= longest_ms - 0.001
    if not words[1]:
        assert float(words[2]) >= loss['covered_percent'] - 0.01 and float(worst[2]) <= longest_ms + 0.001


@pytest.mark.parametrize('mode, pages, enough', [('dwarf', 1, 16), ('dwarf', 2, 16), ('unwind', 1, 32),
                                                 ('unwind', 4, 32)])
def test_stacks_that_no_ring_holds(mode, pages, enough, millrace, programs, tmp_path):
    """It is told at the start, and what is recommended is enough."""
    def record(ring):
        return millrace('record', '-e', 'cpu-clock', '-F', '200', '--call-graph', mode, '-m', ring, '-o',
                        tmp_path / 'p.data', '--', programs / 'spin', '-t', '1', '-m', '200').err

    first, *rest = record(str(pages)).splitlines()
    assert re.search(rf'samples with {enough // 2} KiB of a stack \(--call-graph {mode}\) do not fit into rings of '
                     rf'{4 * pages} KiB, and are all lost: -m {enough}K has room', first)
    assert f'what would have prevented it: larger rings, -m {enough}K' in '\n'.join(rest)
    assert 'captured 0 samples' in '\n'.join(rest)
    err = record(f'{enough}K')
    assert 'do not fit' not in err and not re.search('captured 0 samples', err), err


def test_report(millrace, lossy):
    file, data, _ = lossy
    check_law(millrace, file, 'getppid', MADE)
    loss = loss_of(millrace, file)
    assert LEDGER in sections_of(data.bytes) and not data.features >> STOCK_FEATURES
    assert loss['ledger'] and loss['counted']
    assert loss['lost'] == data.lost_samples() == sum(row['lost'] for row in loss['events'])
    assert 0 < loss['lost_time_ns'] <= loss['elapsed_ns'] and 0 < loss['covered_percent'] < 100
    assert all(loss['started_ns'] <= gap['from_ns'] <= gap['to_ns'] <= loss['started_ns'] + loss['elapsed_ns']
               for gap in loss['gaps'] if gap['cause'] == 'ring full')
    assert loss['cost']['drained bytes'] > 0 and loss['cost']['drain cpu ns'] > 0
    text = millrace('report', '--loss', '-i', file).out
    assert 'lost_time/elapsed_time' in text and 'Timeline' in text and 'ring full' in text


STAGES = ['start cpu ns', 'drain cpu ns', 'drain wake-ups', 'drain sleeps', 'drain preemptions', 'drain visits',
          'drained bytes', 'housekeeping cpu ns', 'all cpu ns', 'write calls', 'written bytes', 'end cpu ns']


@pytest.mark.parametrize('options', [[], ['-z'], ['--threads'], ['-z', '--threads', '--single-file']], ids=' '.join)
def test_what_recording_used(millrace, programs, need_tracefs, tmp_path, options):
    """The same numbers at the end and in the file, of each stage that there is."""
    file = tmp_path / 'p.data'
    done = millrace('record', '-v', *options, '-o', file, '-e', COUNTED, '--', programs / 'syscalls', '-t', '2',
                    '-n', '50000')
    cost = loss_of(millrace, file)['cost']
    assert all(name in cost for name in STAGES), cost
    for name in ('drained bytes', 'drain visits', 'drain wake-ups'):
        assert re.search(rf' {name} +{cost[name]}$', done.err, re.MULTILINE), done.err
    assert cost['drain cpu ns'] > 0 and cost['drained bytes'] > 100000 * 8
    assert cost['start cpu ns'] + cost['drain cpu ns'] + cost['housekeeping cpu ns'] <= cost['all cpu ns']
    assert 'write cpu ns' in cost and ('compress cpu ns' in cost) == ('-z' in options)
    threads = [cost[name] for name in cost if name.startswith('drain thread ')]
    assert bool(threads) == ('--threads' in options and os.cpu_count() > 1)
    assert not threads or sum(threads) == cost['drain cpu ns']
    assert ' what recording used:' in done.err and re.search(r' end cpu +[\d.]+ s$', done.err, re.MULTILINE)


def test_each_file_has_what_it_cost(millrace, programs, need_tracefs, tmp_path):
    done = millrace('record', '-v', '--switch-output=1M', '-o', tmp_path / 'p', '-e', COUNTED, '--',
                    programs / 'syscalls', '-t', '2', '-n', '200000')
    costs = [loss_of(millrace, file)['cost'] for file in tmp_path.glob('p.*')]
    # A switch that is under way at the end is made when draining has ended: the last file then costs no draining.
    assert all(cost['end cpu ns'] > 0 for cost in costs) and any(cost['drain cpu ns'] > 0 for cost in costs)
    for name in ('drained bytes', 'drain visits', 'drain wake-ups'):
        assert re.search(rf' {name} +{sum(cost[name] for cost in costs)}$', done.err, re.MULTILINE), (done.err, costs)


def test_old_readers_do_not_stumble(lossy, perf, tmp_path):
    file, data, _ = lossy
    samples = sum(1 for _ in data.samples())
    assert 'HOSTNAME' not in perf('report', '--header-only', '-i', file).err
    assert len(perf('script', '-i', file).out.splitlines()) == samples
    perf('inject', '-i', file, '-o', tmp_path / 'injected')
    assert len(perf('script', '-i', tmp_path / 'injected').out.splitlines()) == samples


def test_of_perf(perf, millrace, programs, need_tracefs, tmp_path):
    """perf's files tell the same sums, from its LOST_SAMPLES or LOST records."""
    perf('record', '-m1', '-o', tmp_path / 'p.data', '-e', COUNTED, '--', programs / 'syscalls', '-t', '2',
         '-n', '50000')
    data = PerfData(tmp_path / 'p.data')
    loss = loss_of(millrace, tmp_path / 'p.data')
    assert not loss['ledger'] and loss['captured'] == sum(1 for _ in data.samples())
    assert loss['lost'] + loss['lost_task_events'] == data.lost_samples() or not loss['counted']


def test_pipe_and_directory(millrace, programs, need_tracefs, tmp_path):
    work = ['-m1', '-e', COUNTED, '--', programs / 'syscalls', '-t', '2', '-n', '50000']
    pipe = millrace('record', '-o', '-', *work, binary=True)
    (tmp_path / 'pipe').write_bytes(pipe.out)
    millrace('record', '--threads', '-o', tmp_path / 'dir', *work)
    for file in ('pipe', 'dir'):
        check_law(millrace, tmp_path / file, 'getppid', 100000)


def test_a_directory_that_lacks_a_file(millrace, need_root, tmp_path):
    millrace('record', '-a', '--threads', '-e', 'cpu-clock', '-o', tmp_path / 'd', '--', 'true')
    assert 'missing' not in millrace('report', '--loss', '-i', tmp_path / 'd').out
    (tmp_path / 'd' / 'data.0').unlink()
    done = millrace('report', '--loss', '-i', tmp_path / 'd')
    assert 'd has no file data.0: its records are missing\n' in done.err
    assert '# Not counted: the records of 1 file of the directory that is missing' in done.out
    assert 'covered: at most ' in done.out
    assert 'd lacks 1 of the files data.0 to data.' in millrace('recover', tmp_path / 'd').err


def test_fail_on_loss(millrace, programs, need_tracefs, tmp_path):
    file = tmp_path / 'p.data'
    work = ['-e', COUNTED, '-o', file, '--', programs / 'syscalls', '-t', '4', '-n', '50000']
    done = millrace('record', '-m1', '--fail-on-loss', *work, status=None)
    assert done.status == (3 if PerfData(file).lost_samples() else 0)
    assert millrace('record', '-m1', '--fail-on-loss=100', *work).status == 0
    assert millrace('record', '-m1', '--fail-on-loss', '-o', file, '--', 'false', status=1).status == 1
    millrace('record', '--fail-on-loss=101', 'true', status=129)


def test_a_gap_that_no_record_ends(recorder, millrace, spawn, need_root, need_tracefs, tmp_path):
    """The recorder is stopped, the rings fill, and what filled one of them goes to another CPU: no record comes there
    any more."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip('one CPU only')
    load = spawn(['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=1'], stderr=subprocess.DEVNULL)
    os.sched_setaffinity(load.pid, {cpus[1]})
    file = tmp_path / 'p.data'
    process = recorder(['-m', '64K', '-e', 'raw_syscalls:sys_enter', '-p', str(load.pid), '-o', file])
    time.sleep(0.5)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1)
    os.sched_setaffinity(load.pid, {cpus[0]})
    time.sleep(0.3)
    process.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    loss = loss_of(millrace, file)
    gaps = [gap for gap in loss['gaps'] if gap['cause'] == 'ring full']
    assert sum(gap['records'] for gap in gaps) == loss['lost'] > 0
    of_first = sum(gap['to_ns'] - gap['from_ns'] for gap in gaps if gap['cpu'] == cpus[1])
    assert of_first > 900e6 and loss['lost_time_ns'] >= of_first and loss['covered_percent'] < 90, (err, loss['gaps'])
    assert int(re.search(r'larger rings, -m (\d+)M', err)[1]) >= 1


SLEEPERS = """
import os, sys, threading, time
os.sched_setaffinity(0, [int(sys.argv[1])])
def work():
    time.sleep(0.2)
while True:
    threading.Thread(target=work).start()
    time.sleep(0.005)
"""


def test_a_gap_beside_times_off_the_cpu(recorder, millrace, spawn, need_root, need_tracefs, tmp_path):
    """
    The recorder is stopped, and the ring of one CPU is full. Tasks that had run there end, which is in a ring of its
    own: how long they waited is not known, and such a sample is no record of the ring that was full.
    """
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.skip('one CPU only')
    load = spawn(['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=1'], stderr=subprocess.DEVNULL)
    os.sched_setaffinity(load.pid, {cpus[1]})
    spawn([sys.executable, '-c', SLEEPERS, str(cpus[1])])
    file = tmp_path / 'p.data'
    # The ring of the other CPU must not be full: that has no calls of other programs.
    process = recorder(['-m', '1M', '-e', 'raw_syscalls:sys_enter', '--filter', f'common_pid == {load.pid}',
                        '--no-call-graph', '--off-cpu', '-a', '-o', file])
    time.sleep(0.7)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1)
    process.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    gaps = [gap for gap in loss_of(millrace, file)['gaps'] if gap['cause'] == 'ring full' and gap['cpu'] == cpus[1]]
    assert gaps and sum(gap['to_ns'] - gap['from_ns'] for gap in gaps) > 600e6, (err, gaps)


def test_a_gap_that_ends_in_the_next_file(recorder, millrace, programs, need_tracefs, tmp_path):
    """
    The rings are full until there is another output, where the LOST records are then: what they count is in the former
    file, as gap and as number, and in no other.
    """
    file, fifos, threads = tmp_path / 'p', [tmp_path / 'a', tmp_path / 'b'], str(len(os.sched_getaffinity(0)))
    for fifo in fifos:
        os.mkfifo(fifo)
    script = 'read x <"$2"; "$1" -t $4 -c 1 -n 20000; : >"$5"; read x <"$3"; "$1" -t $4 -c 1 -n 10'
    process = recorder(['-m', '64K', '--switch-output', '-e', 'dummy', '-e', 'syscalls:sys_enter_getppid', '-o', file,
                        '--', 'sh', '-ec', script, 'sh', programs / 'syscalls', *fifos, threads, tmp_path / 'full'],
                       stdout=subprocess.DEVNULL)
    process.send_signal(signal.SIGSTOP)
    fifos[0].write_text('\n')
    wait_until((tmp_path / 'full').exists, 'the rings are full')
    process.send_signal(signal.SIGUSR2)
    process.send_signal(signal.SIGCONT)
    former = wait_until(lambda: [path for path in tmp_path.glob('p.*') if re.fullmatch(r'p\.\d+', path.name)],
                        'another file')[0]
    fifos[1].write_text('\n')
    process.communicate()
    assert process.returncode == 0
    later = [path for path in tmp_path.glob('p.*') if path != former]
    losses = [loss_of(millrace, path) for path in (former, *later)]
    for loss in losses:
        assert sum(gap['records'] for gap in loss['gaps']) == loss['lost']
    assert len(later) == 1 and losses[0]['lost'] > 10000 and losses[0]['covered_percent'] < 100
    assert losses[1]['lost'] == 0 and losses[1]['covered_percent'] == 100 and losses[1]['captured'] == int(threads) * 10
    assert LOST in [kind for kind, *_ in PerfData(later[0]).headers()]


GATE = 'import os, sys; open(sys.argv[1]).read(); os.execv(sys.argv[2], sys.argv[2:])'


@pytest.fixture(name='gated')
def fixture_gated(recorder, programs, tmp_path):
    """gated(options, file, calls) -> (recorder, gate): it makes twice so many calls when the gate is opened."""
    def start(options, file, calls):
        gate = tmp_path / 'gate'
        os.mkfifo(gate)
        process = recorder([*options, '-e', COUNTED, '-o', file, '--', sys.executable, '-c', GATE, gate,
                            programs / 'syscalls', '-t', '2', '-n', str(calls)], stdout=subprocess.DEVNULL)
        return process, gate
    return start


def miss_all_calls(process, gate):
    """The calls behind the gate are made while the recorder is stopped; then it ends."""
    command = child_of(process)
    process.send_signal(signal.SIGSTOP)
    gate.write_text('')
    wait_until(lambda: stat_of(command)[0] == 'Z', 'all calls are made')
    process.send_signal(signal.SIGCONT)
    process.communicate()


@pytest.mark.parametrize('options', [[], ['-z'], ['--threads'], ['--threads', '--single-file', '-z']], ids=' '.join)
def test_a_recorder_that_is_stopped_counts_what_it_missed(gated, millrace, need_tracefs, tmp_path, options):
    """All calls are made while it is stopped: most are lost, none is forgotten."""
    file = tmp_path / 'p.data'
    process, gate = gated(['-m', '64K', *options], file, 100000)
    miss_all_calls(process, gate)
    assert process.returncode == 0
    check_law(millrace, file, 'getppid', 200000)
    assert loss_of(millrace, file)['lost'] > 100000


@pytest.mark.parametrize('options', [[], ['--mmap-output'], ['-z'], ['--threads']], ids=' '.join)
def test_both_say_the_same_when_not_all_was_written(recorder, millrace, programs, need_tracefs, tmpfs, tmp_path,
                                                    options):
    """How much was covered: what could not be written is not counted, so it is at most that."""
    file, gate, made = tmpfs('8m') / 'p.data', tmp_path / 'gate', tmp_path / 'made'
    os.mkfifo(gate)
    calls = programs / 'syscalls'
    process = recorder(['-m', '64K', *options, '-e', COUNTED, '-o', file, '--', 'sh', '-c',
                        f'read line <{gate}; {calls} -t 2 -n 100000; : >{made}; exec {calls} -t 2 -n 2000000000'],
                       stdout=subprocess.DEVNULL)
    process.send_signal(signal.SIGSTOP)
    gate.write_text('')
    wait_until(made.exists, 'calls are made')
    process.send_signal(signal.SIGCONT)
    err = process.communicate()[1]
    assert process.returncode == 255 and 'bytes of records could not be written' in err
    ended = re.search(r'covered (.*?)([\d.]+) % of CPU time', err)
    shown = re.search(r'covered: (.*?)([\d.]+) % of their time', millrace('report', '--loss', '-i', file).out)
    assert ended[1] == shown[1] == 'at most ' and float(ended[2]) < 100, (err, shown[0])
    assert abs(float(ended[2]) - float(shown[2])) < 0.0051, (err, shown[0])


def test_a_pipe_does_not_claim_to_cover_what_it_lost(recorder, millrace, programs, need_tracefs, tmp_path):
    """It has no ledger, and no record comes after the loss: how much was lost is known, but not when."""
    file, fifo = tmp_path / 'p.data', tmp_path / 'fifo'
    os.mkfifo(fifo)
    with file.open('wb') as out:
        process = recorder(['-m', '64K', '-e', COUNTED, '-o', '-', '--', sys.executable, '-c', GATE, fifo,
                            programs / 'syscalls', '-t', '2', '-n', '100000'], stdout=out)
        miss_all_calls(process, fifo)
    loss = loss_of(millrace, file)
    in_gaps = sum(gap['records'] for gap in loss['gaps'])
    assert loss['lost'] > 100000 and loss['lost_untimed'] == loss['lost'] - in_gaps > 0, loss
    text = millrace('report', '--loss', '-i', file).out
    assert 'covered: at most ' in text and 'lost_time/elapsed_time: at least ' in text
    assert f'# Of these, {loss["lost_untimed"]} were lost at times that are not known\n' in text


def test_a_killed_recorder_leaves_open_what_was_lost(recorder, millrace, need_root, tmp_path):
    file = tmp_path / 'p.data'
    process = recorder(['-a', '-e', 'cpu-clock', '-o', file])
    process.kill()
    process.communicate()
    millrace('recover', file)
    text = millrace('report', '--loss', '-i', file).out
    assert '# Not known: whether more was lost' in text and 'covered: at most ' in text, text
    file.unlink()
    millrace('record', '-a', '-e', 'cpu-clock', '-o', file, '--', 'true')
    text = millrace('report', '--loss', '-i', file).out
    assert 'Not known' not in text and 'covered: 100.0000 %' in text, text


def test_recordings_come_and_go_beside(gated, millrace, need_tracefs, tmp_path):
    """20 recordings of all CPUs, one after the other, beside one that counts."""
    file = tmp_path / 'p.data'
    process, gate = gated([], file, 500000)
    gate.write_text('')
    for _ in range(20):
        millrace('record', '-a', '-B', '--synth=no', '-e', COUNTED, '-o', tmp_path / 'other',
                 '--', 'true')
        PerfData(tmp_path / 'other')
    process.communicate()
    assert process.returncode == 0
    check_law(millrace, file, 'getppid', 1000000)
