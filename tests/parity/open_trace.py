# SPDX-License-Identifier: MIT
"""What a recorder opens, seen through strace(1): a list of Opened, in the order of the calls."""
import functools
import re
import subprocess
from dataclasses import dataclass, field

from conftest import run_command

CALLS = "perf_event_open,ioctl,mmap,close"
LINE = re.compile(r"^(\d+)\s+(\w+)\((.*)\)\s+= (-?\w+)")
UNFINISHED = re.compile(r"^(\d+)\s+(.*) <unfinished \.\.\.>$")
RESUMED = re.compile(r"^(\d+)\s+<\.\.\. \w+ resumed>(.*)$")


def is_clock(attr):
    """millrace's look at the clock of events: a dummy of its own with a ring of its own; not in the recording."""
    return attr.get("config") == "PERF_COUNT_SW_DUMMY" and attr.get("sample_type") == "PERF_SAMPLE_TIME"


@dataclass
class Opened:
    attr: dict  # field name -> text as strace prints it, without fields that are 0
    pid: int
    cpu: int
    group: int  # -1, or the index of the leader in the list
    flags: str
    fd: int
    used: bool = False  # mapped, redirected into another ring, or enabled

    def is_bpf_side_thread(self):
        """perf's second event list, whose thread looks up BPF programs; it does not go into the recording."""
        return self.attr.get("wakeup_watermark") == "1" and self.attr.get("bpf_event") == "1"

    def is_ring_carrier(self):
        """millrace's owner of a ring: it counts nothing, and is not in the recording."""
        return self.attr.get("config") == "PERF_COUNT_SW_DUMMY" and self.attr.get("disabled") == "1" and \
            "sample_type" not in self.attr

    def is_clock(self):
        return is_clock(self.attr)

    def is_object_watch(self):
        """millrace's watch for files that are mapped, with rings of its own; not in the recording."""
        return self.attr.get("config") == "PERF_COUNT_SW_DUMMY" and "mmap2" in self.attr and "comm" not in self.attr


@dataclass
class Trace:
    opened: list = field(default_factory=list)
    refused: dict = None  # the attr of the last open that failed
    status: int = 0
    stderr: str = ""


def whole_lines(text):
    """strace lines with calls that another thread interrupted put together again."""
    begun = {}
    for line in text.splitlines():
        if match := UNFINISHED.match(line):
            begun[match[1]] = match[2]
        elif match := RESUMED.match(line):
            yield f"{match[1]}  {begun.pop(match[1], '')}{match[2]}"
        else:
            yield line


def attr_fields(text):
    text = re.sub(r" /\*.*?\*/", "", text)
    fields = dict(item.split("=", 1) for item in re.findall(r"\w+=[^,{}]+", text))
    for name in ("sample_type", "read_format", "branch_sample_type"):
        if name in fields:
            fields[name] = "|".join(sorted(fields[name].split("|")))
    fields.pop("size", None)
    return {name: value for name, value in fields.items() if value != "0"}


@dataclass
class Call:
    attr: dict
    pid: int
    cpu: int
    group: str
    flags: str


def calls(text):
    """Every perf_event_open(2) as it was called, whatever came of it."""
    for line in whole_lines(text):
        match = LINE.match(line)
        if match and match[2] == "perf_event_open":
            attr, rest = re.match(r"\{(.*)\}, (.*)$", match[3]).groups()
            pid, cpu, group, flags = [part.strip() for part in rest.split(",")]
            yield Call(attr_fields(attr), int(pid), int(cpu), group, flags)


def parse(text):
    """
    The events of the recording, and the attr of the last open that was refused. A probe is an fd that is closed again
    (or never returned) without having been mapped, given to SET_OUTPUT, or enabled: recorders try out what the kernel
    can with such events; they are left out.
    """
    opened, by_fd, tids, refused = [], {}, set(), None
    for line in whole_lines(text):
        match = LINE.match(line)
        if not match:
            continue
        tid, call, args, result = match.groups()
        if call == "perf_event_open":
            tids.add(tid)
            attr, rest = re.match(r"\{(.*)\}, (.*)$", args).groups()
            if result.startswith("-"):
                refused = attr_fields(attr)
                continue
            pid, cpu, group, flags = [part.strip() for part in rest.split(",")]
            leader = -1 if group == "-1" else opened.index(by_fd[int(group)])
            event = Opened(attr_fields(attr), int(pid), int(cpu), leader, flags, int(result))
            opened.append(event)
            by_fd[event.fd] = event
            continue
        if tid not in tids or result.startswith("-"):
            continue
        fd = args.split(",")[4].strip() if call == "mmap" else args.split(",")[0]
        event = by_fd.get(int(fd)) if re.fullmatch(r"\d+", fd) else None
        if event is None:
            continue
        if call == "close":
            del by_fd[event.fd]
        elif call == "mmap" or "SET_OUTPUT" in args or "IOC_ENABLE" in args:
            event.used = True
    others = Opened.is_bpf_side_thread, Opened.is_ring_carrier, Opened.is_clock, Opened.is_object_watch
    kept = [event for event in opened if event.used and not any(other(event) for other in others)]
    for event in kept:
        if event.group >= 0:
            event.group = kept.index(opened[event.group])
    return kept, refused


# perf reads the names of all functions of the kernel two or three times, which takes most of its time here; what it
# opens does not depend on them. In this mount namespace there are few.
SYMBOLS = "ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff82000000 T _etext\n"
WITH_FEW_SYMBOLS = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /proc/kallsyms && exec "$@"']


@functools.cache
def can_mount():
    done = subprocess.run([*WITH_FEW_SYMBOLS, "/proc/kallsyms", "true"], stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def trace(command, log):
    """Runs `command` under strace, which writes to the file `log`."""
    few_symbols = []
    if can_mount():
        symbols = log.with_name("kallsyms")
        symbols.write_text(SYMBOLS, encoding="ascii")
        few_symbols = [*WITH_FEW_SYMBOLS, symbols]
    done = run_command([*few_symbols, "strace", "-f", "--seccomp-bpf", "-v", "-qq", "-s", "256", "-e", "trace=" + CALLS,
                        "-e", "signal=none", "-o", log, *command], timeout=300, status=None)
    with open(log, encoding="utf-8", errors="replace") as lines:
        opened, refused = parse(lines.read())
    return Trace(opened, refused, done.status, done.err)
