# SPDX-License-Identifier: MIT
"""
Options of perf record that change what is opened: both programs run under strace(1), and each event is compared field
by field, as in test_attrs.py, which has the events.
"""
import shlex

import pytest

import test_attrs
from test_attrs import MILLRACE, assert_same_attrs, fixture_task, run  # noqa: F401 (the fixture is used)

pytestmark = test_attrs.pytestmark

# None has --buildid-mmap for all CPUs: MMAP2 records of other recorders then say that they have a build-id, with device
# and inode in its place (seen on Linux 6.18), and perf, which believes them, aborts: in a test that runs beside.
COMMAND_LINES = """
-e cpu-clock --all-cgroups -- true
-e cpu-clock --all-cgroups -a -- true
-e cpu-clock --namespaces -- true
-e cpu-clock --namespaces -a -- true
-e cpu-clock --switch-events -- true
-e cpu-clock --switch-events -a -- true
-e cpu-clock --switch-events -p TASK -- true
-e cpu-clock --switch-events -D 10 -- true
-e dummy --switch-events -a -- true
-e cpu-clock --phys-data -- true
-e cpu-clock --phys-data -d -- true
-e cpu-clock --data-page-size -- true
-e cpu-clock --code-page-size -- true
-e cpu-clock --data-page-size --code-page-size --phys-data -a -- true
-e cpu-clock -I -- true
-e cpu-clock -I -a -g -- true
-e cpu-clock -IAX,bx,IP -- true
-e cpu-clock --intr-regs=R8,r15 -- true
-e cpu-clock --user-regs -- true
-e cpu-clock --user-regs=AX,IP,SP -- true
-e cpu-clock --user-regs=AX --call-graph dwarf -- true
-e cpu-clock --user-regs --call-graph fp -- true
-e cpu-clock -IAX --user-regs=BX -a -- true
-e cpu-clock -b -- true
-e cpu-clock -b -a -- true
-e cpu-clock -j any_call,u -- true
-e cpu-clock -j any,save_type -- true
-e cpu-clock -j any_ret,ind_call,cond,k,hv -- true
-e cpu-clock -j in_tx,no_tx,abort_tx -- true
-e cpu-clock -j ind_jmp,call,stack,priv -- true
-e cpu-clock -j u,k -- true
-e cpu-clock:u -j any -- true
-e cpu-clock -W -- true
-e cpu-clock --weight -d -- true
-e cpu-clock -W -a -- true
-e cpu-clock --transaction -- true
-e cpu-clock -W --transaction -s -g -- true
-e cpu-clock -k mono -- true
-e cpu-clock -k CLOCK_MONOTONIC_RAW -- true
-e cpu-clock --clockid raw -a -- true
-e cpu-clock -k boot -- true
-e cpu-clock -k tai -- true
-e cpu-clock -k 1 -- true
-e cpu-clock,sched:sched_switch -k mono -- true
-e cpu-clock --sample-cpu -- true
-e cpu-clock --sample-cpu -p TASK -- true
-e cpu-clock --sample-identifier -- true
-e cpu-clock --sample-identifier -a -- true
-e cpu-clock,cs --sample-identifier -- true
-e cpu-clock,sched:sched_switch --sample-identifier -- true
-e cpu-clock --buildid-all -- true
-e cpu-clock --buildid-mmap -- true
-e cpu-clock --buildid-mmap -p TASK -- true
-e cpu-clock -N -- true
-e cpu-clock -B -- true
-e cpu-clock --kernel-callchains -- true
-e cpu-clock -g --kernel-callchains -- true
-e cpu-clock -g --user-callchains -a -- true
-e cpu-clock --call-graph dwarf --user-callchains -- true
-e cpu-clock --all-kernel -- true
-e cpu-clock --all-user -- true
-e cpu-clock:u --all-kernel -- true
-e cpu-clock:k --all-user -- true
-e cpu-clock --all-user -a -- true
-e cpu-clock,sched:sched_switch --all-kernel -- true
-e cpu-clock --no-buffering -- true
-e cpu-clock --no-buffering -a -- true
-e cpu-clock --running-time -- true
-e cpu-clock:S --running-time -- true
-e cpu-clock --running-time -s -- true
-e cpu-clock --strict-freq -F 99 -- true
-e cpu-clock -r 5 -- true
-e cpu-clock --synth=no -- true
-e cpu-clock --synth=task -a -- true
-e cpu-clock --num-thread-synthesize 2 -a -- true
-e cpu-clock --proc-map-timeout 100 -- true
-e cpu-clock,dummy --group -- true
-e cpu-clock:u,dummy --group -a -- true
-e {cpu-clock,dummy},{cpu-clock:u,dummy:u} --group -- true
-e cpu-clock -G / -a -- true
-e cpu-clock,dummy:u -G / -a -- true
-e cpu-clock,task-clock -G ,/ -C 0 -a -- true
-e cpu-clock -G / -e task-clock -a -- true
-e cpu-clock --no-bpf-event -- true
-e cpu-clock --no-bpf-event -a -- true
""".strip().splitlines()

# Nothing is opened: the exit status tells.
ENDS_BEFORE = {
    "-e cpu-clock --dry-run -- true": 0,
    "-e cpu-clock -Ibogus -- true": 129,
    "-e cpu-clock -I? -- true": 129,
    "-e cpu-clock --user-regs=? -- true": 129,
    "-e cpu-clock -j bogus -- true": 129,
    "-e cpu-clock -b -j u -- true": 129,
    "-e cpu-clock -k bogus -- true": 129,
    "-e cpu-clock --synth=bogus -- true": 129,
    "-e cpu-clock --all-kernel --all-user -- true": 129,
    "-e cpu-clock -G / -- true": 129,
    "-e cpu-clock -G no-such-cgroup -a -- true": 129,
}

DIFFERENCES = {
    "-e cpu-clock:u,dummy --group -a -- true": "the event that tells of tasks is no member: it runs while the leader "
                                               "is off",
}


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_same_attrs(line, tmp_path, task):
    assert_same_attrs(line, DIFFERENCES, tmp_path, task)


@pytest.mark.parametrize("line", ENDS_BEFORE)
def test_same_end(line, tmp_path, task):
    for program in ["perf"], [MILLRACE]:
        done = run(program, shlex.split(line), tmp_path, task)
        assert done.status == ENDS_BEFORE[line] and not done.opened, (program, done.stderr)


def test_table_is_large_enough():
    assert len(set(COMMAND_LINES)) >= 60
    assert set(DIFFERENCES) <= set(COMMAND_LINES)
