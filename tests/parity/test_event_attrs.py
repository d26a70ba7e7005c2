# SPDX-License-Identifier: MIT
"""
Each event of the grammar of -e becomes the same attr as in perf. Hundreds of them in a few runs: strace(1) lets every
perf_event_open(2) succeed without the kernel, so that hardware events are compared on any machine; both recorders
give up when they want to map a ring. What the kernel takes is compared by test_attrs.py.
"""
import itertools
import os
import shutil
import subprocess

import pytest

import open_trace
from test_attrs import MILLRACE, differences

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: tracefs"),
    pytest.mark.skipif(not shutil.which("perf"), reason="needs perf, which this compares with"),
    pytest.mark.skipif(not shutil.which("strace"), reason="needs strace"),
    pytest.mark.skipif(not os.path.isdir("/sys/kernel/tracing/events"), reason="needs tracefs"),
]

HARDWARE = """cpu-cycles cycles instructions cache-references cache-misses branch-instructions branches branch-misses
bus-cycles stalled-cycles-frontend idle-cycles-frontend stalled-cycles-backend idle-cycles-backend ref-cycles""".split()

SOFTWARE = """cpu-clock task-clock page-faults faults context-switches cs cpu-migrations migrations minor-faults
major-faults
alignment-faults emulation-faults dummy bpf-output cgroup-switches""".split()

CACHES = """L1-dcache l1-d l1d L1-data L1-icache l1-i l1i L1-instruction LLC L2 dTLB d-tlb Data-TLB iTLB i-tlb
Instruction-TLB branch bpu btb bpc node""".split()
CACHE_ENDINGS = "loads load-misses stores store-misses prefetches prefetch-misses".split()
CACHE_OPS = "load loads read store stores write prefetch prefetches speculative-read speculative-load".split()
CACHE_RESULTS = "refs Reference ops access misses miss".split()
LOADS_ONLY = {"iTLB", "i-tlb", "Instruction-TLB", "branch", "bpu", "btb", "bpc"}
NO_STORES = {"L1-icache", "l1-i", "l1i", "L1-instruction"}


def caches():
    for name in CACHES:
        for ending in CACHE_ENDINGS:
            if not (name in LOADS_ONLY and not ending.startswith("load") or
                    name in NO_STORES and ending.startswith("store")):
                yield f"{name}-{ending}"
    yield from (f"L1-dcache-{op}-{result}" for op in CACHE_OPS for result in CACHE_RESULTS)
    yield from (f"LLC-{op}" for op in CACHE_OPS)
    yield from (f"dTLB-{result}" for result in CACHE_RESULTS)
    yield from ("L1-dcache", "node", "L1-dcache-misses-loads", "node-access-store")


def modifiers():
    letters = "ukhGHIpPDeSWb"
    for count in (1, 2):
        for some in itertools.combinations(letters, count):
            yield "cycles:" + "".join(some)
    yield from ("cycles:" + some for some in ("ukh", "pp", "ppp", "uppp", "kGHpp", "ukhGHIpDe", "pkp", "Pu", "Hpu"))
    yield from ("cs:u", "cs u", "faults: k".replace(": ", ":"), "L1-dcache-loads:uk", "r1a8:kp", "1:3:G",
                "mem:0x10:w:u", "sched:sched_switch:k", "software/config=3/uG", "cs/period=3/kH",
                "sched:sched_switch/nr=2/u")


TERMS = """
cs/period=5/ cs/period=0/ cs/period=0x10/ cs/period=010/ cs/period/ cs/freq=5/ cs/freq=0/ cs/freq/ cs/freq=08/
cs/period=5,freq=7/ cs/freq=7,period=5/ cs/time=0/ cs/time=1/ cs/time/ cs/inherit/ cs/inherit=0/ cs/inherit=1/
cs/no-inherit/
cs/no-inherit=0/ cs/no-inherit=1/ cs/call-graph=fp/ cs/call-graph=dwarf/ cs/call-graph=lbr/ cs/call-graph=no/
cs/call-graph=dwarf,stack-size=512/ cs/call-graph=dwarf,stack-size=1001/ cs/call-graph=fp,max-stack=5/ cs/max-stack=7/
cs/stack-size=64/ cs/name=x/ cs/name=a.b-c/ cs/name=a:b:c/ cs/name='x:y,z'/ cs/config=2/ cs/config1=2/ cs/config2=3/
cs/config=2,config1=3,config2=4/ cs/branch_type=any/ cs/branch_type=no/ cs/branch_type=any_call/ cs/branch_type=any_ret/
cs/branch_type=ind_call/ cs/branch_type=cond/ cs/branch_type=call/ cs/branch_type=u/ cs/branch_type='any,u'/
cs/branch_type='any_call,k,hv'/ cs/branch_type='ind_jmp,save_type'/ cs/branch_type='abort_tx,in_tx,no_tx'/ cs/nr=5/
cs/percore/
cs/percore=1/ cs/metric-id=x/ cs// cs//u cs/no-overwrite/ cs/period=3,name=n,time=0,no-inherit/uD
cycles/period=1000/pp cycles/freq=10/P L1-dcache-loads/period=9/u r1a8/period=3/ r1a8/name=raw,freq=4/k 1:3/period=4/
1:3 1:0x3 0:0 0:1:u 2:300 3:0x10002 4:0x1a8:u 6:0x123 0x1:3
r1 rABC rabcdef r0123456789abcdef r1a8:u rffffffffffffffff
mem:0x1000 mem:4096 mem:0x1000:r mem:0x1000:w mem:0x1000:rw mem:0x1000:wr mem:0x1000:x mem:0x1000:u mem:0x1000/1:w
mem:0x1000/2 mem:0x1000/4:rw mem:0x1000/8:r mem:0x1000:x:u mem:0x1000:rw:k mem:0xffffffff81000000:x:k mem:0x1000/8:w:uD
software/config=0/ software/config=3/u software/config=0x3/ software// software/config/ software/name=n/
software/config=3,freq=7/
software/config=0x3,period=1,name=cs/Duk software/config=1,config1=2,config2=3/ software/period=1,name=cs,config=0x3/Duk
software/config=3,overwrite=0/ software/config=3,call-graph=dwarf/ software/config=3,percore/ software/name='a:b,c'/u
software/config=18446744073709551615/
sched:sched_switch sched:sched_wakeup:u sched:sched_switch// sched:sched_switch/call-graph=fp/
sched:sched_switch/stack-size=64/
sched:sched_switch/call-graph=dwarf,stack-size=128/ sched:sched_switch/max-stack=3/ sched:sched_switch/inherit/
sched:sched_switch/no-inherit/k sched:sched_switch/nr=3/ sched:sched_[sw]* sched:*wake* sche?:sched_switch
raw_syscalls:*
*sched:sched_process_exec syscalls:sys_enter_open*
""".split() + ["cs/ period=7 /", "cs/period = 7 , name=n/u", "software/ config=3 , period=5 /", "cs/ /u"]

UNITS = {
    "msr": ["msr/tsc/", "msr/event=0/", "msr/event=0x123/u", "msr/tsc,period=5/", "tsc", "tsc:u",
            "msr/TSC/", "msr/Tsc,period=5/u", "TSC", "tSc:u", "msr/event=tsc/", "msr/period=5,Event=TSC/u",
            "msr/tsc,name=n,freq=3/k", "msr/event=0xffffffffffffffff/", "msr/event/"],
    "uprobe": ["uprobe/retprobe/", "uprobe/retprobe=1/", "uprobe/retprobe=0,config1=1,config2=2/",
               "uprobe/ref_ctr_offset=5/u", "uprobe/ref_ctr_offset=0xffffffff,retprobe,name=u/", "uprobe/config=3/"],
    "kprobe": ["kprobe/retprobe/", "kprobe/retprobe=1,config1=4096/", "kprobe/config=1,name=k/u"],
    "tracepoint": ["tracepoint/config=300/", "tracepoint/config=300,period=4/"],
}

GROUPS = """
{cs} {cs,faults} {cs,faults,cpu-clock}:u {cs:u,faults:k}:k {cs:p,faults}:pp {cs:H,faults}:G {cs,faults}:S {cs,faults}:SD
{cs,faults}:De {cs:De,faults} {cs,faults}:P {cs,faults}:W {cs,faults}:b {cs,faults:u}:uk {cs:I,faults}:h g{cs,faults}
g{cs}:S
{cs/period=5/,faults/period=7/}:S {cs/freq=5/,faults/freq=7/}:S {cs/freq=5/,faults}:S {cs,faults/period=7/}:S
{cycles,instructions}:S {cycles:pp,instructions,branch-misses}:Su {cycles,L1-dcache-loads,L1-dcache-load-misses}:k
{cs,sched:*wake*} {sched:*wake*,cs}:S {raw_syscalls:*}:S {mem:0x1000:w,cs}:S {r1a8,r1a9}:u
{cs/call-graph=dwarf/,faults}:S
{cs,faults/call-graph=fp/}:S {dummy,cs}:S {software/config=3/u,1:2}:S {cs:S,faults} {cs,faults:S} {cs/time=0/,faults}:S
""".split() + ["{ cs , faults }", "{cs,faults} :u", "{cs,faults}: u"]

# What test_attrs.py lists as different: a term of the event beside an option that says the same for all.
BESIDE_OPTIONS = ("stack-size", "call-graph", "max-stack", "branch_type")
OPTIONS = ["-a", "-g", "-c 100", "-F 50 -d", "--call-graph dwarf -i", "-n -s", "-R --no-period -b"]


def lists():
    """(name, events, options): the events of one run. The first of each is one that carries what tasks do."""
    units = [text for unit, texts in UNITS.items() if os.path.isdir(f"/sys/bus/event_source/devices/{unit}")
             for text in texts]
    single = {"names": HARDWARE + SOFTWARE + units, "caches": list(caches()), "modifiers": list(modifiers()),
              "terms": TERMS, "groups": GROUPS}
    for name, events in single.items():
        yield name, events, ""
    mixed = HARDWARE[:3] + ["cs", "bpf-output"] + TERMS[::5] + units[::4] + GROUPS[::5]
    mixed = [event for event in mixed if not any(word in event for word in BESIDE_OPTIONS)]
    for options in OPTIONS:
        yield "mixed " + options, mixed, options


def opens(program, events, options, log):
    arguments = [word for event in events for word in ("-e", event)]
    done = subprocess.run(["strace", "-f", "--seccomp-bpf", "-v", "-qq", "-s", "256", "-e",
                           "trace=perf_event_open,ioctl", "-e", "inject=perf_event_open:retval=1000", "-e",
                           "inject=ioctl:retval=0", "-e", "signal=none", "-o", str(log),
                           *program, "record", "-o", "/dev/null", *arguments, *options.split(), "--", "true"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          errors="replace", timeout=120, check=False)
    with open(log, encoding="utf-8", errors="replace") as lines:
        calls = list(open_trace.calls(lines.read()))
    # Recorders try out what the kernel can with events that would sample nothing.
    kept = [call for call in calls if call.attr.get("sample_type") and call.attr.get("sample_id_all") and
            not open_trace.is_clock(call.attr)]
    assert kept, done.stderr
    return [{**call.attr, "(pid)": min(call.pid, 1), "(cpu)": call.cpu, "(group)": call.group != "-1",
             "(flags)": call.flags}
            for call in kept]


LISTS = list(lists())


@pytest.mark.parametrize("name, events, options", LISTS, ids=[name for name, _, _ in LISTS])
def test_same_attrs(name, events, options, tmp_path):
    theirs = opens(["perf"], events, options, tmp_path / "perf.log")
    ours = opens([MILLRACE], events, options + " --side-channel=off --no-lean", tmp_path / "millrace.log")
    found = differences(ours, theirs)
    assert not found, "\n".join(found)


def test_tables_are_large_enough():
    assert len({(event, options) for _, events, options in LISTS for event in events}) >= 250
