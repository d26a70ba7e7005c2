# SPDX-License-Identifier: MIT
"""
What record does without being asked where there are many CPUs: an emulated machine of 16 CPUs in 2 NUMA nodes.
Run with: make static && make check-lab (see test_threads.py)
"""
import os
import re
import subprocess

import pytest

from conftest import MILLRACE, ROOT

LAB = os.environ.get('LAB') or ROOT / 'tools' / 'lab'
STATIC = ROOT / 'build-static' / 'millrace'
SYSCALLS = MILLRACE.parent / 'tests' / 'programs' / 'syscalls'
CPUS, CALLS = 16, 500

pytestmark = [pytest.mark.lab,
              pytest.mark.skipif(not STATIC.exists(), reason='make static was not run')]

CASES = {  # name: options, where the threads run
    'default': ('-a', ['0-7', '8-15']),
    'command': ('', ['0-7', '8-15']),
    'packed': ('-a -z', ['0-7', '8-15']),
    'mapped': ('-a --writer=mmap', ['0-7', '8-15']),
    'switched': ('-a --switch-output=1000s', ['0-7', '8-15']),
    'one': ('-a --no-threads', ['0-15']),
    'few': ('-C 0-5,9,10', ['0-15']),
    'nine': ('-C 0-5,8,9,10', ['0-5', '8-10']),
}
SCRIPT = r'''
cd /out
cat >/bin/crowd <<'END'
#!/bin/sh
for cpu in $(seq 0 15); do
	taskset -c $cpu /bin/syscalls -t 1 -n $1 >/dev/null &
done
wait
END
chmod +x /bin/crowd
record() {
	name=$1; shift
	/bin/millrace record -v -e raw_syscalls:sys_enter --filter id==110 -o $name "$@" 2>$name.err
	echo $? >$name.status
}
'''


@pytest.fixture(name='out', scope='module')
def fixture_out(tmp_path_factory):
    out = tmp_path_factory.mktemp('many')
    lines = [SCRIPT, *(f'record {name} {options} -- crowd {CALLS}' for name, (options, _) in CASES.items()),
             f'/bin/millrace record -v -e raw_syscalls:sys_enter --filter id==110 -a -o - -- crowd {CALLS} 2>pipe.err '
             '>pipe',
             'echo all >ended']
    done = subprocess.run([LAB, 'run', '--cpus', str(CPUS), '--sockets', '2', '--threads', '2', '--nodes', '2',
                           '--timeout', '600', '--add', f'{STATIC}:/bin/millrace', '--add', f'{SYSCALLS}:/bin/syscalls',
                           '--out', str(out), '--', '\n'.join(lines)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1200)
    assert (out / 'ended').exists(), done.stdout
    return out


def calls(perf, path, *options):
    script = perf('script', '-i', path, '-F', 'comm,cpu,event,trace', *options)
    assert 'out of order' not in script.err
    found = re.findall(r'^ *syscalls +\[(\d+)\] raw_syscalls:sys_enter: NR 110 \(([0-9a-f]+),', script.out, re.M)
    return sorted((int(cpu), int(number, 16)) for cpu, number in found)


def made(cpus):
    return sorted((cpu, number) for cpu in cpus for number in range(CALLS))


@pytest.mark.parametrize('name', CASES)
def test_as_many_threads_as_the_cpus_need(out, perf, name):
    options, threads = CASES[name]
    assert (out / f'{name}.status').read_text() == '0\n'
    err = (out / f'{name}.err').read_text()
    assert re.findall(r'thread \d+: rings [\d,]+; on CPUs (\S+); scheduling', err) == threads
    assert (f'{len(threads)} threads drain them into one file' in err) == (len(threads) > 1)
    cpus = {'few': [0, 1, 2, 3, 4, 5, 9, 10], 'nine': [0, 1, 2, 3, 4, 5, 8, 9, 10]}.get(name, range(CPUS))
    path = next(out.glob('switched.2*')) if name == 'switched' else out / name
    assert path.is_file()
    if '-z' not in options:
        assert calls(perf, path) == made(cpus)


def test_a_pipe_has_one_thread(out):
    err = (out / 'pipe.err').read_text()
    assert re.findall(r'thread \d+: rings [\d,]+; on CPUs (\S+); scheduling', err) == ['0-15']
