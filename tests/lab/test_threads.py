# SPDX-License-Identifier: MIT
"""
--threads on machines with more CPUs than this one: what `make static` built, run in emulated machines of 8 CPUs in 2
sockets, SMT, and 2 or 4 NUMA nodes. A counted load runs there, N system calls on each CPU; perf script reads here what
was recorded. tools/lab boots them; LAB names another script that takes the same options.
Run with: make static && make check-lab
"""
import collections
import os
import re
import shlex
import signal
import subprocess

import pytest

from conftest import MILLRACE, ROOT

LAB = os.environ.get('LAB') or ROOT / 'tools' / 'lab'
STATIC = ROOT / 'build-static' / 'millrace'
SYSCALLS = MILLRACE.parent / 'tests' / 'programs' / 'syscalls'
CPUS = 8

pytestmark = [pytest.mark.lab,
              pytest.mark.skipif(not STATIC.exists(), reason='make static was not run')]

# Where threads run, by the number of nodes where that matters.
EACH = [str(cpu) for cpu in range(CPUS)]
CORES = ['0-1', '2-3', '4-5', '6-7']
SOCKETS = ['0-3', '4-7']
NODES = {2: SOCKETS, 4: CORES}
MASKS, MASK_THREADS = '0-3/3:4-7/4', ['3', '4']
DWARF = '-g --call-graph dwarf,4096'

Case = collections.namedtuple('Case', 'spec options threads')
CASES = {
    'default': Case('--threads', '', EACH),
    'empty': Case('--threads=', '', EACH),
    'cpu': Case('--threads=cpu', '', EACH),
    'core': Case('--threads=core', '', CORES),
    'socket': Case('--threads=socket', '', SOCKETS),
    'package': Case('--threads=package', '', SOCKETS),
    'numa': Case('--threads=numa', '', NODES),
    'masks': Case(f'--threads={MASKS}', '', MASK_THREADS),
    'masks-2,5': Case(f'--threads={MASKS}', '-C 2,5', MASK_THREADS),
    'masks-3,4': Case(f'--threads={MASKS}', '-C 3,4', MASK_THREADS),
    'masks-0,4,2,6': Case(f'--threads={MASKS}', '-C 0,4,2,6', MASK_THREADS),
    'core-0,4,2,6': Case('--threads=core', '-C 0,4,2,6', CORES),
    'cpu-2,5': Case('--threads=cpu', '-C 2,5', ['2', '5']),
    'dwarf': Case('--threads', DWARF, EACH),
    'dwarf-numa': Case('--threads=numa', DWARF, NODES),
    'all': Case('--threads', '-a', EACH),
    'all-masks': Case(f'--threads={MASKS}', '-a', MASK_THREADS),
    'all-numa-packed': Case('--threads=numa', '-a -z', NODES),
    'one-file': Case('--threads=numa --single-file', '-a', NODES),
}
WRONG = {  # --threads=, what else, words of the message
    'nothing': (':', '-a', '"" at column 1'),
    'no-cpus': ('/0', '-a', 'no CPUs before'),
    'no-affinity': ('0-3/', '-a', 'no CPUs after'),
    'empty-part': ('0-3/3::4-7/4', '-a', 'empty mask'),
    'no-mask': ('foo', '-a', '"foo"'),
    'open-range': ('0-/0', '-a', '"0-"'),
    'overlapping-cpus': ('0-4/3:4-7/4', '-a', 'CPU 4'),
    'overlapping-affinity': ('0-3/3:4-7/3', '-a', 'CPU 3'),
    'out-of-range': ('0-8/3', '-a', 'no CPU 8'),
    'far-out-of-range': ('0-7/99999', '-a', '99999'),
    'not-covered': ('0-3/3', '-a', 'CPU 4-7'),
    'none-recorded': ('0-1/0', '-C 5', '(5)'),
}
WRONG_OFFLINE = {
    'offline': ('0-3/3:4-7/4', '-a', 'CPU 7 is offline'),
    'offline-affinity': ('0-6/7', '-a', 'CPU 7 is offline'),
    'offline-cpus': ('cpu', '-C 6,7', 'CPU 7 is not online'),
}

PRELUDE = r'''
cd /out
cat >/bin/crowd <<'END'
#!/bin/sh
# crowd N: N counted calls on each CPU that is online
for cpu in $(seq 0 7); do
	case $(cat /sys/devices/system/cpu/cpu$cpu/online 2>/dev/null) in
	0) ;;
	*) taskset -c $cpu /bin/syscalls -t 1 -n $1 >/dev/null & ;;
	esac
done
wait
END
cat >/bin/cpu <<'END'
#!/bin/sh
# cpu N 0|1: takes a CPU off, or brings it back
echo $2 >/sys/devices/system/cpu/cpu$1/online
END
chmod +x /bin/crowd /bin/cpu
EVENTS='-e raw_syscalls:sys_enter --filter id==110'
t() { name=$1; shift; "$@" >$name.out 2>$name.err; echo $? >$name.status; }
record() { name=$1; shift; t $name /bin/millrace record -v $EVENTS -o $name "$@"; }
'''

UNPLUG = r'''
record unplug -a --threads=cpu -- sh -c 'crowd 500; cpu 5 0; crowd 500'
record unplug-numa -a --threads=numa --single-file -- sh -c 'crowd 500; cpu 4 0; crowd 500'
record comes -a --threads=cpu -- sh -c 'crowd 500; cpu 5 1; crowd 500'
cpu 4 1
cat >/bin/returns <<'END'
#!/bin/sh
# returns CPU FILE: takes a CPU off and brings it back; returns when the recorder has told of that in the FILE
nr=$(grep -c 'came online again' $2)
cpu $1 0
cpu $1 1
while [ $(grep -c 'came online again' $2) = $nr ]; do usleep 10000; done
END
chmod +x /bin/returns
record and-back -a --threads=cpu -- sh -c 'crowd 500; returns 3 and-back.err; crowd 500; returns 3 and-back.err
	crowd 500'
record and-back-other -C 2 -- sh -c 'returns 3 and-back-other.err; taskset -c 3 /bin/syscalls -t 1 -n 500'
t and-back-values /bin/millrace record -a -e '{raw_syscalls:sys_enter,raw_syscalls:sys_exit}:S' -o and-back-values \
	-- sh -c 'returns 3 and-back-values.err; taskset -c 3 /bin/syscalls -t 1 -n 500'
record and-back-command --threads=core -- sh -c 'crowd 500; cpu 3 0; cpu 3 1; crowd 500'
t back-loss /bin/millrace report --loss -i and-back
cpu 7 0
'''

CPUSET = r'''
mkdir -p /sys/fs/cgroup
mount -t cgroup2 cgroup /sys/fs/cgroup
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/some
echo 2-3 >/sys/fs/cgroup/some/cpuset.cpus
echo $$ >/sys/fs/cgroup/some/cgroup.procs
record cpuset -a --threads=core -- sh -c 'echo 0 >/sys/fs/cgroup/cgroup.procs; crowd 500'
echo $$ >/sys/fs/cgroup/cgroup.procs
'''

CONTROL = r'''
mkfifo commands answers
exec 3<>commands 4<>answers
crowd 300
/bin/millrace record -v $EVENTS -D -1 --control fd:10,11 --threads=numa -a -o control -- sleep 1000 \
	10<&3 11>&4 2>control.err &
ask() { echo $1 >&3; read answer <&4; echo $1 $answer >>control.answers; }
ask ping
crowd 300
ask enable
crowd 300
ask disable
crowd 300
echo stop >&3
wait $!
echo $? >control.status
rm commands answers
'''


def calls(options):
    return 90 if 'dwarf' in options else 2000  # what is recorded fits into the rings, however slow the machine


def single(options):
    """The name of the recording into one file that has the same records."""
    return 'single-' + re.sub(r'[^a-z0-9]+', '-', options.replace('-z', '').strip())


class Machine:
    def __init__(self, out, nodes):
        self.out, self.nodes = out, nodes

    def text(self, name):
        return (self.out / name).read_text()

    def done(self, name, status=0):
        assert self.text(f'{name}.status') == f'{status}\n', self.text(f'{name}.err')
        return self.text(f'{name}.err')


def refused(name, spec, options):
    threads = f'--threads={shlex.quote(spec)}'
    return f't wrong-{name} /bin/millrace record $EVENTS {threads} {options} -o wrong-{name} -- true'


def script_of(nodes):
    lines = [PRELUDE]
    for options in {case.options for case in CASES.values()}:
        lines.append(f'record {single(options)} {options} -- crowd {calls(options)}')
    for name, case in CASES.items():
        lines.append(f'record {name} {case.spec} {case.options} -- crowd {calls(case.options)}')
    for name, (spec, options, _) in WRONG.items():
        lines.append(refused(name, spec, options))
    lines += [CONTROL, CPUSET, UNPLUG]
    for name, (spec, options, _) in WRONG_OFFLINE.items():
        lines.append(refused(name, spec, options))
    lines.append('record without-7 -a --threads=socket -- crowd 500')
    lines.append('echo all >ended')
    return '\n'.join(lines)


@pytest.fixture(name='machine', scope='module', params=NODES, ids=lambda nodes: f'{nodes} nodes')
def fixture_machine(request, tmp_path_factory):
    nodes = request.param
    out = tmp_path_factory.mktemp('threads')
    done = subprocess.run([LAB, 'run', '--cpus', str(CPUS), '--sockets', '2', '--threads', '2', '--nodes', str(nodes),
                           '--timeout', '900', '--add', f'{STATIC}:/bin/millrace', '--add', f'{SYSCALLS}:/bin/syscalls',
                           '--out', str(out), '--', script_of(nodes)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
    assert (out / 'ended').exists(), done.stdout
    return Machine(out, nodes)


def records(perf, path):
    """[(CPU, number of the call)] of the load, sorted; of whom nothing may be missing, and nothing be there twice."""
    script = perf('script', '-i', path, '-F', 'comm,cpu,event,trace')
    assert 'out of order' not in script.err
    found = re.findall(r'^ *syscalls +\[(\d+)\] raw_syscalls:sys_enter: NR 110 \(([0-9a-f]+),', script.out, re.M)
    return sorted((int(cpu), int(number, 16)) for cpu, number in found)


def made(cpus, *counts):
    return sorted((cpu, number) for cpu in cpus for count in counts for number in range(count))


TASK_EVENTS = r'^ *(syscalls|taskset|crowd|:-1) .*PERF_RECORD_(COMM exec|COMM|FORK|EXIT|MMAP2)(?:.* (\S+)$)?'


def task_events(perf, path):
    """What tasks of the load did, without pids and addresses: perf knows them by their names in time."""
    script = perf('script', '-i', path, '-F', 'comm,cpu,event,trace', '--show-task-events', '--show-mmap-events')
    found = re.findall(TASK_EVENTS, script.out, re.M)
    return collections.Counter((comm, kind, what if kind == 'MMAP2' else '') for comm, kind, what in found)


@pytest.mark.parametrize('name', CASES)
def test_same_records_as_in_one_file(machine, perf, name):
    case = CASES[name]
    machine.done(name)
    one = single(case.options)
    machine.done(one)
    listed = re.search(r'-C (\S+)', case.options)
    cpus = [int(cpu) for cpu in listed[1].split(',')] if listed else range(CPUS)
    ours = records(perf, machine.out / name)
    assert ours == made(cpus, calls(case.options))
    assert ours == records(perf, machine.out / one)
    if not listed:
        assert task_events(perf, machine.out / name) == task_events(perf, machine.out / one)


@pytest.mark.parametrize('name', CASES)
def test_each_thread_is_reported(machine, name):
    case, err = CASES[name], machine.done(name)
    threads = case.threads[machine.nodes] if isinstance(case.threads, dict) else case.threads
    assert re.findall(r'thread \d+: rings [\d,]+; on CPUs (\S+); scheduling', err) == threads
    assert len(re.findall(r'thread \d+: \d+ bytes, \d+ wake-ups, [\d.]+ s of CPU, lost 0$', err, re.M)) == len(threads)
    rings = [int(ring) for row in re.findall(r': rings ([\d,]+);', err) for ring in row.split(',')]
    assert sorted(rings) == list(range(len(rings)))


@pytest.mark.parametrize('name', [*WRONG, *WRONG_OFFLINE])
def test_wrong_masks(machine, name):
    words = {**WRONG, **WRONG_OFFLINE}[name][2]
    err = machine.text(f'wrong-{name}.err')
    assert machine.text(f'wrong-{name}.status') in ('255\n', '129\n')
    assert len(err.splitlines()) == 1 and words in err, err
    assert not (machine.out / f'wrong-{name}').exists()


def test_controlled(machine, perf):
    machine.done('control', 128 + signal.SIGTERM)  # how its command ends
    assert machine.text('control.answers') == 'ping ack\nenable ack\ndisable ack\n'
    assert records(perf, machine.out / 'control') == made(range(CPUS), 300)


def test_cpuset(machine, perf):
    """All CPUs are recorded from a container that has two of them; threads run where they may."""
    err = machine.done('cpuset')
    where = re.findall(r'on CPUs (.*); scheduling', err)
    assert where == [f'2-3, not allowed on all of {core}' if core != '2-3' else core for core in CORES]
    assert records(perf, machine.out / 'cpuset') == made(range(CPUS), 500)


@pytest.mark.parametrize('name, cpu', [('unplug', 5), ('unplug-numa', 4)])
def test_a_cpu_goes(machine, perf, name, cpu):
    err = machine.done(name)
    assert f'CPU {cpu} went offline' in err and 'lost 0' in err
    others = [other for other in range(CPUS) if other not in (cpu, 5)]  # of the second recording, 5 is offline already
    assert records(perf, machine.out / name) == sorted(made(others, 500, 500) + made([cpu], 500))


def test_a_cpu_comes(machine, perf):
    err = machine.done('comes')
    assert 'CPU 5 came online: it is not recorded' in err
    assert records(perf, machine.out / 'comes') == made([0, 1, 2, 3, 6, 7], 500, 500)


def test_a_cpu_goes_and_comes_back(machine, perf):
    err = machine.done('and-back')
    assert 'CPU 3 went offline' in err and err.count('CPU 3 came online again: it is recorded from now on') == 2
    assert 'lost 0' in err
    assert records(perf, machine.out / 'and-back') == made(range(CPUS), 500, 500, 500)
    assert task_events(perf, machine.out / 'and-back')['syscalls', 'COMM exec', ''] == 3 * CPUS
    machine.done('back-loss')
    assert 'CPU came online' in machine.text('back-loss.out')


def test_task_events_of_another_cpu_that_comes_back(machine, perf):
    """With -C 2 names are recorded on all CPUs."""
    machine.done('and-back-other')
    assert records(perf, machine.out / 'and-back-other') == []
    assert task_events(perf, machine.out / 'and-back-other')['syscalls', 'COMM exec', ''] == 1


def test_names_where_a_cpu_comes_back_and_samples_have_values(machine, perf):
    err = machine.done('and-back-values')
    assert 'CPU 3 came online again: its samples are not recorded, its task events are from now on' in err
    assert task_events(perf, machine.out / 'and-back-values')['syscalls', 'COMM exec', ''] == 1


def test_a_command_goes_on_where_a_cpu_comes_back(machine, perf):
    err = machine.done('and-back-command')
    assert 'offline' not in err and 'online' not in err
    assert records(perf, machine.out / 'and-back-command') == made(range(CPUS), 500, 500)


def test_without_a_cpu(machine, perf):
    err = machine.done('without-7')
    assert re.findall(r'on CPUs (\S+); scheduling', err) == ['0-3', '4-6']
    assert records(perf, machine.out / 'without-7') == made(range(CPUS - 1), 500)
