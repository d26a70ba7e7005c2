# SPDX-License-Identifier: MIT
"""
Return addresses behind the last instruction of a function, a call that does not return: of such a caller perf prints
the function that begins there, or [unknown], and millrace the one that ends there (docs/differences-from-perf.md).
"""
import re
import struct

from perfdata import MMAP, MMAP2, SAMPLE, PerfData

USER = (1 << 64) - 512  # PERF_CONTEXT_USER
# Lines of a chain: at the first byte of a function, or without a name in an object; behind the first byte.
AT_START = re.compile(r'\t +([0-9a-f]+) (?:(?!\[unknown\]).*\+0x0|\[unknown\]) \((.+)\)')
BEHIND_START = re.compile(r'\t +([0-9a-f]+) .*\+0x(?!0 )[0-9a-f]+ \((.+)\)')
NAME_OFFSETS = {MMAP: 32, MMAP2: 64}


def file_offsets(data):
    """{name: what is to be added to an offset in the file} of all maps of programs."""
    found = {}
    for record in data.records():
        if record.type in NAME_OFFSETS:
            start, _, pgoff = struct.unpack_from('<3Q', record.body, 8)
            name = record.body[NAME_OFFSETS[record.type]:].split(b'\0')[0].decode()
            found.setdefault(name, set()).add(start - pgoff)
    return found


def addresses_that_differ(path, perf, millrace):
    """{(address in the object, its name)} of what perf has at the start of a function, or no name for, but millrace."""
    ours, theirs = (tool('script', '-i', path, '--no-inline', '-F', 'ip,sym,symoff,dso').out.splitlines()
                    for tool in (millrace, perf))
    found = set()
    for our, their in zip(ours, theirs):
        left, right = (BEHIND_START.fullmatch(our), AT_START.fullmatch(their)) if our != their else (None, None)
        if left and right and left.groups() == right.groups():
            found.add((int(left[1], 16), left[2]))
    return found


def move_into_calls(path, perf, millrace):
    """
    Makes of these addresses in the chains of a file those of the calls' last bytes, of which perf, too, prints the
    function that ends there. No other addresses, and none that is innermost; and only where the two programs differ.
    Not of a compressed file or a directory.
    """
    differ = addresses_that_differ(path, perf, millrace)
    if not differ:
        return
    data = PerfData(path)
    offsets = file_offsets(data)
    behind = {address + offset for address, name in differ for offset in offsets.get(name, ())}
    changed = bytearray(data.bytes)
    for record in data.records():
        if record.type != SAMPLE:
            continue
        words = struct.unpack_from(f'<{len(record.body) // 8}Q', record.body)
        callers = words.index(USER) + 2 if USER in words else len(words)
        for place in range(callers, len(words)):
            if words[place] in behind:
                struct.pack_into('<Q', changed, record.offset + 8 + 8 * place, words[place] - 1)
    path.write_bytes(changed)
