#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Holds the "uses" table of ARCHITECTURE.md: which room may include which. Also: every header compiles alone.

Arguments: the source directory, then the compiler with its flags. Prints TAP.
"""
import pathlib
import re
import subprocess
import sys

USES = {
    'base': '',
    'format': 'base',
    'event': 'base',
    'ring': 'base',
    'pack': 'base format',
    'stream': 'base ring format pack',
    'record': 'base event ring stream format pack',
    'read': 'base format pack',
    'analyze': 'base format read',
    'cmd': 'base format event ring pack stream record read analyze',
    '.': 'base cmd',  # main.c
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
PRINTS = re.compile(r'\b(printf|puts|putchar|vprintf|perror)\s*\(|\bstdout\b')


def bad_includes(room, text):
    allowed = set(USES[room].split()) | {room}
    for name in INCLUDE.findall(text):
        other, slash, _ = name.partition('/')
        if name == 'config.h':
            continue
        if not slash:
            yield f'#include "{name}" does not name its room'
        elif other not in allowed:
            yield f'#include "{name}": {room} may use {USES[room] or "nothing but libc"}'


def code_of(text):
    """Without comments and strings."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(\\.|[^"\\\n])*"', '', text, flags=re.S)


def problems(root, path):
    text = path.read_text()
    room = path.relative_to(root).parts[0] if path.parent != root else '.'
    if room not in USES:
        yield f'{room} is no room of the house'
        return
    if not text.startswith('/* SPDX-License-Identifier: MIT */'):
        yield 'no SPDX line on top'
    yield from bad_includes(room, text)
    if room not in ('cmd', '.') and PRINTS.search(code_of(text)):
        yield 'prints to stdout; only cmd does'
    if path.suffix == '.h' and '#pragma once' not in text:
        yield 'no #pragma once'


def compile_alone(compiler, path):
    # As an include of an otherwise empty file: a main file may not say #pragma once.
    done = subprocess.run(compiler + ['-fsyntax-only', '-x', 'c', '-'], input=f'#include "{path}"\n', text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout if done.returncode or done.stdout else ''


def self_test():
    """The checks must be able to fail."""
    assert list(bad_includes('ring', '#include "stream/stream.h"\n'))
    assert list(bad_includes('ring', '# include "ring.h"\n'))
    assert not list(bad_includes('ring', '#include "ring/ring.h"\n#include "base/fd.h"\n#include <stdio.h>\n'))
    assert PRINTS.search(code_of('x; printf("a");')) and not PRINTS.search(code_of('snprintf(a); /* stdout */'))


def main():
    self_test()
    root, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    files = sorted(list(root.rglob('*.c')) + list(root.rglob('*.h')))
    headers = [path for path in files if path.suffix == '.h']
    results = [(f'{path.relative_to(root)} keeps to its room', '\n'.join(problems(root, path))) for path in files]
    results += [(f'{path.relative_to(root)} compiles alone', compile_alone(compiler, path)) for path in headers]
    assert len(headers) > 10, 'the headers were not found'
    print(f'1..{len(results)}')
    for number, (name, why) in enumerate(results, 1):
        print(f'{"not ok" if why else "ok"} {number} - {name}')
        for line in why.splitlines():
            print(f'# {line}')
    return any(why for _, why in results)


if __name__ == '__main__':
    sys.exit(main())
