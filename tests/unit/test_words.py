#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Holds the language of the tree: names use the field's words, and texts say who does a thing.

Argument: the top of the tree. Prints TAP.
"""
import pathlib
import re
import sys

# Words that a reader cannot look up anywhere; the glossary of ARCHITECTURE.md has the words that are used instead.
# A name (of a file, too) must not have one of them between two underscores.
NOT_IN_NAMES = set('''
    sideline sidelines outlet outlets keeper keepers guardian guardians bell bells crew crews lookout lookouts lane
    lanes survey surveys sight sights wish wishes deed deeds roomy ticket tickets hits restless shed hurry hurries
    pace paces pour poured pours settle settled settles pressed memo memos recall recalled told tell tells
    presses freezer freezers world worlds tight stuck gates arrive arrives depart departs departed meant fed reaps
    retire retires retired sinks books hands engines'''.split())
# Likewise, in src: there a name with them says not who asks, what holds, or which news there are.
NOT_IN_SOURCES = set('ask asked asks asking held news lives flight'.split())
# Of libc and of Python.
OTHER_PEOPLES = {'tell'}    # file.tell()
# Words that hide who does something, or when. They stand nowhere, neither in texts nor in names.
NOWHERE = re.compile(r'\b(nobody|somebody|whoever|meanwhile)\b', re.I)

FOLDERS = 'src tests bench tools docs man completion'.split()
NAME = re.compile(r'[A-Za-z_][A-Za-z0-9_]*')
COMMENT_OR_STRING = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
PYTHON_TEXT = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|#[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def words_of(name):
    return set(name.lower().split('_'))


def names_of(path, text):
    """The names in a source without its comments and strings, and the words of its own name."""
    names = {path.stem.replace('-', '_')}
    if path.suffix in ('.c', '.h'):
        names.update(NAME.findall(COMMENT_OR_STRING.sub(' ', text)))
    elif path.suffix == '.py':
        names.update(NAME.findall(PYTHON_TEXT.sub(' ', text)))
    return names


def bad_names(names, words=frozenset(NOT_IN_NAMES)):
    return sorted(name for name in names if words_of(name) & words and name not in OTHER_PEOPLES)


def words_for(path):
    """The words that no name in this file may have."""
    in_sources = path.as_posix().startswith('src/')
    return NOT_IN_NAMES | NOT_IN_SOURCES if in_sources else NOT_IN_NAMES


def bad_lines(text):
    for number, line in enumerate(text.splitlines(), 1):
        found = NOWHERE.search(line.replace('_', ' '))
        if found:
            yield f'line {number}: {found.group()}'


def texts_of(top):
    """Path below the top -> its text, without what is no text."""
    paths = [path for folder in FOLDERS for path in (top / folder).rglob('*')] + list(top.glob('*.md'))
    texts = {}
    for path in sorted(paths):
        rel = path.relative_to(top)
        if path.is_file() and not {'__pycache__', 'corpus'} & set(rel.parts) and rel.name != 'test_words.py':
            try:
                texts[rel] = path.read_text()
            except UnicodeDecodeError:
                continue
    return texts


def self_test():
    """The checks must be able to fail."""
    assert bad_names(names_of(pathlib.Path('x.c'), 'int was_told(int lane);')) == ['lane', 'was_told']
    assert not bad_names(names_of(pathlib.Path('x.c'), '/* a lane */ int y = ftell("told");'))
    assert bad_names(names_of(pathlib.Path('x.py'), 'def settle(x): "told"')) == ['settle']
    assert bad_names(names_of(pathlib.Path('bell.c'), '')) == ['bell']
    assert not bad_names({'tell'})
    source, other = pathlib.Path('src/read/x.c'), pathlib.Path('tests/x.c')
    assert bad_names({'ask_rows', 'task', 'was_held'}, words_for(source)) == ['ask_rows', 'was_held']
    assert not bad_names({'held'}, words_for(other)) and bad_names({'bell'}, words_for(other))
    assert list(bad_lines('a\nNobody knows')) == ['line 2: Nobody']
    assert list(bad_lines('as_nobody(x)')) and not list(bad_lines('somebodys'))


def main():
    self_test()
    texts = texts_of(pathlib.Path(sys.argv[1]).resolve())
    results = []
    for path, text in texts.items():
        why = [f'the name {name}' for name in bad_names(names_of(path, text), words_for(path))]
        why += list(bad_lines(text))
        results.append((path, why))
    assert len(results) > 400, 'the tree was not found'
    print(f'1..{len(results)}')
    for number, (path, why) in enumerate(results, 1):
        print(f'{"not ok" if why else "ok"} {number} - {path}')
        for line in why:
            print(f'# {line}')
    return any(why for _, why in results)


if __name__ == '__main__':
    sys.exit(main())
