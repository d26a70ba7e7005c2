#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The functions that ARCHITECTURE.md names exist, and its walks are short. Argument: the top of the tree. Prints
TAP."""
import pathlib
import re
import sys

MOST_LINES = 40


def problems(text, code):
    for name in sorted(set(re.findall(r'`(\w+)\(\)`', text))):
        if not re.search(rf'^[a-z][^;\n]*\b{name}\(', code, re.M):
            yield f'{name}() is not in src'
    walks = re.findall(r'^## (How .*?)\n(.*?)(?=^## )', text, re.M | re.S)
    if len(walks) < 3:
        yield 'a walk is missing'
    for title, body in walks:
        if body.count('\n') > MOST_LINES:
            yield f'{title}: more than {MOST_LINES} lines'
    for room in re.findall(r'`(\w+(?:/\w+)?/\w+\.[ch])`', text):
        if f'\0{room}\0' not in code:
            yield f'src/{room} is not there'


def main():
    assert 'nothing() is not in src' in list(problems('`nothing()`', 'int something(void)'))
    top = pathlib.Path(sys.argv[1])
    paths = sorted(path for path in (top / 'src').rglob('*') if path.suffix in ('.c', '.h'))
    code = '\n'.join(path.read_text() for path in paths) + ''.join(f'\0{path.relative_to(top / "src")}\0'
                                                                   for path in paths)
    why = list(problems((top / 'ARCHITECTURE.md').read_text(), code))
    print(f'1..1\n{"not ok" if why else "ok"} 1 - ARCHITECTURE.md names what there is')
    for line in why:
        print(f'# {line}')
    return bool(why)


if __name__ == '__main__':
    sys.exit(main())
