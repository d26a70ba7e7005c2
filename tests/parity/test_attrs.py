# SPDX-License-Identifier: MIT
"""
The same command line opens the same events: perf record and millrace record run under strace(1), and what stays
open is compared field by field, with the task, CPU, group leader and flags of each call, in order.
"""
import os
import shlex
import shutil
import subprocess
import sys

import pytest

import open_trace

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MILLRACE = os.path.abspath(os.environ.get("MILLRACE", os.path.join(ROOT, "build", "millrace")))

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: perf_event_open of all kinds"),
    pytest.mark.skipif(not shutil.which("perf"), reason="needs perf, which this compares with"),
    pytest.mark.skipif(not shutil.which("strace"), reason="needs strace"),
    pytest.mark.skipif(not os.path.isdir("/sys/kernel/tracing/events"), reason="needs tracefs"),
    pytest.mark.skipif(not os.access(MILLRACE, os.X_OK), reason=f"{MILLRACE} is not built"),
]

# No clock ticks every few microseconds: where an interrupt takes as long, as in some virtual machines, `true` comes to
# no end. With -D -1 it is never enabled.
# TASK: a process with three threads. System-wide no cs or faults: since Linux 6.3 they would give others wrong ids.
COMMAND_LINES = """
-- true
-a -- true
-g -- true
-F 99 -a -g -- true
-e cycles -- true
-e cycles:u -- true
-e cycles:k -- true
-e cycles:pp -- true
-e cycles/period=1000003/u -- true
-e cpu-clock -- true
-e cpu-clock -a -- true
-e cpu-clock -C 0 -- true
-e cpu-clock -C 0 -a -- true
-e cpu-clock -a -i -- true
-e cpu-clock -i -- true
-e cpu-clock --per-thread -- true
-e cpu-clock --per-thread -T -- true
-e cpu-clock --per-thread -d -- true
-e cpu-clock -p TASK -- true
-e cpu-clock,cs -p TASK -- true
-e cpu-clock -t TASK -- true
-e cpu-clock --per-thread -p TASK -- true
-e cpu-clock --per-thread -t TASK -- true
-e cpu-clock -D 10 -- true
-e cpu-clock -D 10 -p TASK -- true
-e cpu-clock -D 10 -a -- true
-e cpu-clock -F max -D -1 -- true
-e cpu-clock -F 99 -- true
-e cpu-clock -F 99999999 -D -1 -- true
-e cpu-clock -c 1000000 -- true
-e cpu-clock -c 1000000 -P -- true
-e cpu-clock -c 1000000 -a -- true
-e cpu-clock -F 10 -a -- true
-e cpu-clock -c 100 -n -- true
-e cpu-clock --call-graph dwarf -- true
-e cpu-clock --call-graph dwarf,1001 -- true
-e cpu-clock --call-graph dwarf -a -- true
-e cpu-clock -d -- true
-e cpu-clock -d -a -- true
-e cpu-clock -g -d -- true
-e cpu-clock -s -- true
-e cpu-clock -s -a -- true
-e cpu-clock -n -- true
-e cpu-clock -n -a -- true
-e cpu-clock -R -- true
-e cpu-clock -R -a -- true
-e cpu-clock -T -- true
-e cpu-clock -P -- true
-e cpu-clock --no-timestamp -- true
-e cpu-clock --no-timestamp -R -- true
-e cpu-clock -o - -- true
-e cpu-clock,cs,dummy -- true
-e cpu-clock -e cs -- true
-e cpu-clock,sched:sched_switch -- true
-e sched:sched_switch,alignment-faults -a -- true
-e dummy -a -- true
-e dummy,alignment-faults -a -- true
-e alignment-faults,dummy -a -- true
-e dummy -D 10 -- true
-e sched:sched_switch -- true
-e sched:sched_switch -F 100 -- true
-e sched:sched_switch -c 2 -- true
-e sched:sched_switch -R -g -- true
-e sched:sched_switch -n -s -- true
-e sched:sched_switch --no-timestamp -- true
-e sched:sched_switch:u -- true
-e sched:sched_switch --call-graph dwarf -d -- true
-e sched:sched_switch/call-graph=fp/ -- true
-e sched:sched_switch/inherit,max-stack=3/ -- true
-e sched:sched_switch/no-inherit/u -- true
-e sched:sched_switch/stack-size=512,call-graph=dwarf/ -c 3 -- true
-e sched:* -- true
-e raw_syscalls:* -a -- true
-e sche?:sched_*wake* -- true
-e cpu-clock:u,cs:k,faults:uk -- true
-e cpu-clock:H,cpu-clock:G,cpu-clock:GH,cpu-clock:uG,cpu-clock:h,cpu-clock:ukh -- true
-e cpu-clock:I,cpu-clock:e,cpu-clock:D,cpu-clock:W,cpu-clock:pG -- true
-e cpu-clock:p,cpu-clock:P,cpu-clock:pP,cpu-clock:uP -- true
-e cpu-clock:ukhGHIpDe -- true
-e cpu-clock:S -- true
-e 'cpu-clock u' -- true
-e cpu-clock/period=7700000/ -F 100 -- true
-e cpu-clock/freq=77/ -c 1000000 -- true
-e cpu-clock/period=7700000,freq=10/ -- true
-e cpu-clock/freq=77,period=10000000/ -- true
-e cpu-clock/freq=7/ -n -- true
-e cpu-clock/freq=10/ -a -- true
-e cpu-clock/time=0/ -- true
-e cpu-clock/time=1/ --no-timestamp -- true
-e cpu-clock/call-graph=fp/,cs -- true
-e cpu-clock/call-graph=dwarf,stack-size=1000/ -- true
-e cs,cpu-clock/call-graph=dwarf/ -- true
-e cpu-clock/call-graph=dwarf/ -a -- true
-e cpu-clock/call-graph=no/ -g -- true
-e cpu-clock/max-stack=5/ -- true
-e cpu-clock/max-stack=5/ -g -- true
-e cpu-clock/max-stack=7,call-graph=no/ -- true
-e cpu-clock/stack-size=512/ -- true
-e cpu-clock/inherit/,cs/no-inherit/ -- true
-e cpu-clock/config=3/ -- true
-e software/config=3/u -- true
-e "software/config=0,config1=5,config2=7,period=3000000,name='a:b,c'/ukD" -- true
-e 1:3 -- true
-e 1:0x3:u -- true
-e 2:300 -- true
-e mem:0x1000 -- true
-e mem:0x1000/8:w -- true
-e mem:0x1000:x:u -- true
-e mem:4096 -P -a -- true
-e instructions -- true
-e branch-misses:u -- true
-e r1a8 -- true
-e L1-dcache-load-misses -- true
-e LLC-stores:k -- true
-e dTLB-prefetch-misses -- true
-e iTLB-loads -- true
-e node-store-misses -- true
-e cpu-clock/call-graph=fp/ --call-graph dwarf -- true
-e cpu-clock/call-graph=no/,cs --call-graph dwarf,512 -- true
-e cpu-clock/max-stack=7/ --call-graph dwarf -- true
-e cpu-clock/stack-size=512/ --call-graph dwarf -- true
-e cpu-clock --no-period -- true
-e cpu-clock -a --no-period -- true
-e '{cpu-clock,cs,faults}' -- true
-e '{cpu-clock,cs}:S' -- true
-e '{cpu-clock,cs}:S' -a -- true
-e 'grp{cpu-clock,cs}:u' -- true
-e '{cpu-clock,cs},faults' -- true
-e 'faults,{cpu-clock,cs}' -- true
-e '{cpu-clock,cs},{faults,task-clock}:S' -- true
-e '{cpu-clock:D,cs:D}' -- true
-e '{cpu-clock,cs}:De' -- true
-e '{cpu-clock,cs:S}' -- true
-e '{cpu-clock:S,cs}' -- true
-e '{cpu-clock/period=5000000/,cs/period=7/}:S' -- true
-e '{cpu-clock,sched:*wake*}' -- true
-e '{cpu-clock}' -- true
-e '{cpu-clock,cs}:W' -- true
-e '{cpu-clock,cs}:P' -- true
-e '{cpu-clock,cs}:k' -- true
-e '{cpu-clock:k,cs:u}:G' -- true
-e '{cpu-clock:p,cs:u}:p' -- true
-e '{cpu-clock,cs}:Sp' -c 1000000 -- true
-e '{cpu-clock,cs}' -D 10 -- true
-e '{cpu-clock,cs}:S' -g -d -- true
-e '{cpu-clock,cs}:S' --per-thread -- true
-e '{cpu-clock,cs}:S' -i -s -- true
-e '{cpu-clock,cs}' -e faults -- true
-e '{sched:sched_switch,cs}:S' -- true
-e '{dummy,cs}:S' -a -- true
-e '{cpu-clock,cs}: u' -- true
-e '{cpu-clock,cs} :u' -- true
-e ' { cpu-clock , cs } ' -- true
-e 'cpu-clock:b,cs:b' -- true
-e 'cpu-clock:bW' -- true
-e cpu-clock/overwrite/ -- true
-e cpu-clock/overwrite/,cs/no-overwrite/ -- true
--overwrite -e cpu-clock,cs/no-overwrite/ -- true
--overwrite -e cpu-clock -a -- true
""".strip().splitlines()

# Where we mean to differ.
DIFFERENCES = {
    "-e cpu-clock/call-graph=fp/ --call-graph dwarf -- true":
        "perf keeps exclude_callchain_user and the registers of the option: the user's part of the chain is lost",
    "-e cpu-clock/call-graph=no/,cs --call-graph dwarf,512 -- true":
        "perf keeps registers, addresses and data maps for an event whose term asks for no call graph",
    "-e cpu-clock/max-stack=7/ --call-graph dwarf -- true":
        "perf drops registers and stack: what remains is a chain of the kernel only",
    "-e cpu-clock/stack-size=512/ --call-graph dwarf -- true":
        "perf drops the call graph; a stack size is about the dwarf call graph that the option asks for",
    **dict.fromkeys(["-e '{cpu-clock:D,cs:D}' -- true", "-e '{cpu-clock,cs:S}' -- true",
                     "-e '{cpu-clock:S,cs}' -- true"],
                    "refused by the kernel: perf then tries without features that are not missing"),
}


@pytest.fixture(name="task", scope="module")
def fixture_task():
    code = "import threading as t, time as s\nfor _ in range(2): t.Thread(target=s.sleep, args=(3000,)).start()\n" \
           "print(flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield str(process.pid)
        process.kill()


def run(program, arguments, tmp_path, task):
    output = tmp_path / f"{program[0].rsplit('/', 1)[-1]}.data"
    return open_trace.trace([*program, "record", "-o", str(output), *(a.replace("TASK", task) for a in arguments)],
                            tmp_path / "strace.log")


def normal(opened):
    """The calls with tasks numbered by their first appearance: their ids differ from run to run."""
    tasks = {}
    def whose(event):
        if "PID_CGROUP" in event.flags:
            return "cgroup"
        return f"task {tasks.setdefault(event.pid, len(tasks))}" if event.pid > 0 else event.pid

    return [{**event.attr, "(pid)": whose(event),
             "(cpu)": event.cpu, "(group)": event.group, "(flags)": event.flags} for event in opened]


def differences(ours, theirs):
    lines = []
    for index, (mine, yours) in enumerate(zip(ours, theirs)):
        for name in sorted(mine.keys() | yours.keys()):
            if mine.get(name) != yours.get(name):
                lines.append(f"open {index}: {name}: millrace {mine.get(name, 0)}, perf {yours.get(name, 0)}")
    if len(ours) != len(theirs):
        lines.append(f"millrace opens {len(ours)}, perf {len(theirs)}")
    return lines


def assert_same_attrs(line, known, tmp_path, task):
    """`known`: lines that differ, and why."""
    arguments = shlex.split(line)
    theirs = run(["perf"], arguments, tmp_path, task)
    ours = run([MILLRACE], ["--side-channel=off", "--no-lean", *arguments], tmp_path, task)
    assert theirs.opened or theirs.refused, f"perf opened nothing: {theirs.stderr}"
    assert ours.opened or ours.refused, f"millrace opened nothing: {ours.stderr}"
    if theirs.opened:
        found = differences(normal(ours.opened), normal(theirs.opened))
    else:  # an event that no PMU here counts: what was asked for is the same
        found = differences([ours.refused], [theirs.refused])
    if line in known:
        assert found, f"no longer different: {known[line]}"
    else:
        assert not found, "\n".join([*found, ours.stderr])


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_same_attrs(line, tmp_path, task):
    assert_same_attrs(line, DIFFERENCES, tmp_path, task)


# Where the first event of perf carries what tasks do; with the side channel a dummy of ours does.
WITH_SIDE_CHANNEL = """
-- true
-g -- true
-e cpu-clock -- true
-e cpu-clock -o - -- true
-e cpu-clock --call-graph dwarf -- true
-e cpu-clock -p TASK -- true
-e cpu-clock -t TASK -- true
-e cpu-clock --per-thread -p TASK -- true
-e cpu-clock:u,cs -- true
-e sched:sched_switch,cs -- true
""".strip().splitlines()
TRACKING = {"mmap", "mmap2", "mmap_data", "comm", "comm_exec", "task", "ksymbol", "bpf_event"}
HOW_IDS_ARE_FOUND = ("PERF_SAMPLE_ID", "PERF_SAMPLE_IDENTIFIER")


def without(attr, names):
    """The attr without fields, and without the bit by which a record tells its event, which a second event brings."""
    kept = {name: value for name, value in attr.items() if name not in names}
    kept["sample_type"] = "|".join(b for b in attr["sample_type"].split("|") if b not in HOW_IDS_ARE_FOUND)
    return kept


@pytest.mark.parametrize("line", WITH_SIDE_CHANNEL)
def test_side_channel_moves_the_tracking_bits_only(line, tmp_path, task):
    arguments = shlex.split(line)
    theirs = normal(run(["perf"], arguments, tmp_path, task).opened)
    ours = normal(run([MILLRACE], ["--no-lean", *arguments], tmp_path, task).opened)
    dummies = [attr for attr in ours if "DUMMY" in attr["config"] or attr["config"] == "0x9"]
    others = [attr for attr in ours if attr not in dummies]
    assert [without(attr, ()) for attr in others] == [without(attr, TRACKING) for attr in theirs]
    carried = {name for attr in theirs for name in attr if name in TRACKING}
    assert dummies
    for dummy in dummies:
        assert {name for name in dummy if name in TRACKING} == carried
        assert "exclude_kernel" in dummy, "an ordinary user may open it"
    # One for each task and CPU that the first event is opened for.
    first = {(attr["(pid)"], attr["(cpu)"]) for attr in theirs if TRACKING & attr.keys()}
    assert {(attr["(pid)"], attr["(cpu)"]) for attr in dummies} == first and len(dummies) == len(first)


def test_table_is_large_enough():
    assert len(set(COMMAND_LINES)) >= 45
    assert set(DIFFERENCES) <= set(COMMAND_LINES)
