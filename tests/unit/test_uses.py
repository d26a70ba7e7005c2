#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Holds the rooms of ARCHITECTURE.md: what a room may include, which of its headers others may include, that neither
rooms nor files include each other in a circle, and how large a room may be. Also: every header compiles alone.

Arguments: the source directory, then the compiler with its flags. Prints TAP.
"""
import collections
import pathlib
import re
import subprocess
import sys

# From the lowest to the highest: a room includes rooms above it in this list only (and within the limits of APART).
ROOMS = '''base perfdata sysinfo compress event/names event/parse stream tasks unwind
           record/setup record/drain record/adapt record/synth record/features record/build_ids record/order
           record/unwind record/off_cpu record/output record/run
           read analyze/dwarf analyze/symbols analyze/machine analyze/report analyze/code
           cmd/cli export store cmd/input cmd/text cmd/view cmd/page cmd/report cmd/diff cmd/script cmd/export
           cmd/record cmd/agent cmd'''.split()
# Recording and reading know nothing of each other: neither side includes a room of the other.
RECORDING = {room for room in ROOMS if room.split('/')[0] in ('event', 'stream', 'record')}
READING = {room for room in ROOMS if room.split('/')[0] in ('read', 'analyze')}

# Rooms that are collections of small independent modules: every header is public there.
TOOLBOXES = {'base', 'sysinfo', 'perfdata'}
# The headers that other rooms may include; the others are private to their room.
PUBLIC = {
    'compress': 'extent.h extent_index.h extent_stats.h index_builder.h stack_cut.h zlib_unpacker.h zstd.h',
    'event/names': 'names.h pmu_cpus.h registers.h',
    'event/parse': 'configure.h event.h inventory.h open.h',
    'stream': 'batch_pool.h pipeline.h producers.h relief.h ring.h stage.h stream.h writer.h',
    'tasks': 'map_history.h maps.h off_cpu.h raw_sample.h task_event.h task_table.h tasks.h',
    'unwind': 'unwind.h unwind_memory.h frame_pointers.h',
    'record/setup': 'eventset.h fd_closer.h memory_plan.h options.h perf_clock.h plan.h target.h trigger_events.h '
                    'workload.h',
    'record/drain': 'early_drain.h overwrite.h reader.h readers.h thread_spec.h',
    'record/adapt': 'steering.h task_pauser.h',
    'record/synth': 'synth.h',
    'record/features': 'bpf_programs.h features.h',
    'record/build_ids': 'collector.h object_cache.h object_watch.h',
    'record/unwind': 'unwinding.h user_chain.h',
    'record/order': 'ordered_stage.h ring_events.h time_queue.h',
    'record/off_cpu': 'off_cpu_stage.h',
    'record/output': '''damage.h data_files.h output_writer.h file_place.h finish.h joiner.h output_file.h output_path.h
                        prologue.h recover.h task_log.h''',
    'record/run': 'recording.h',
    'read': 'deferred_chains.h group_split.h prefetcher.h session.h',
    'analyze/dwarf': '''cache_files.h debug_ahead.h debug_functions.h dwarf.h elf_section.h go_table.h line_cache.h
                        line_table.h split_files.h''',
    'analyze/symbols': 'bpf_lines.h debug_info.h dso.h dso_kernel.h jit_code.h symbols.h',
    'analyze/machine': 'chains.h machine.h parallelism.h stacks.h use_list.h',
    'analyze/report': '''callers.h calltree.h count.h hierarchy.h hist.h hist_details.h shrink.h tally.h time_bins.h
                         tracepoint.h''',
    'analyze/code': 'annotation.h code.h',
    'cmd/cli': 'command.h json_writer.h option.h output.h result_file.h terminal.h',
    'export': 'cgroup_labels.h export.h sqlite.h stack_table.h',
    'store': 'store.h',
    'cmd/input': '''container_files.h event_pair.h input.h loss_data.h records.h sample_filter.h sample_key.h
                    sample_walk.h sandbox.h store_input.h''',
    'cmd/text': '''details_text.h dump.h header_text.h memory_text.h ordered_text.h place_text.h put_text.h
                   sample_details.h sample_text.h thread_values.h waker_chain.h''',
    'cmd/view': 'view.h',
    'cmd/page': 'page.h page_times.h page_tree.h',
    'cmd/export': 'feed.h send.h',
    'cmd/report': 'columns.h report_page.h report_read.h report_samples.h',
}
MOST_SOURCES = 25           # of a room, headers and .c files together, meson.build not counted
MOST_PUBLIC_LINES = 150     # of a public header
MOST_COLUMNS = 120

# Lines of more columns than MOST_COLUMNS, by the end of the name, in the whole tree.
MOST_WIDE = {('.c', '.h'): 0, ('.py',): 0}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
FIRST_INCLUDE = re.compile(r'\A(?:[^#\n][^\n]*\n|\n)*#include "([^"]+)"\n')
PRINTS = re.compile(r'\b(printf|puts|putchar|vprintf|perror)\s*\(|\bstdout\b')


def may_include(room, other):
    if room == '.':  # main.c
        return other == 'base' or other.startswith('cmd')
    if {room, other} & RECORDING and {room, other} & READING:
        return False
    return ROOMS.index(other) <= ROOMS.index(room)


def is_public(room, name):
    return room in TOOLBOXES or name in PUBLIC.get(room, '').split()


def bad_includes(rel, text):
    room = rel.rpartition('/')[0] or '.'
    for include in INCLUDE.findall(text):
        other, slash, name = include.rpartition('/')
        if include in ('config.h', 'version.h') or other == room:
            continue
        if not slash:
            yield f'#include "{include}" does not name its room'
        elif other not in ROOMS:
            yield f'#include "{include}": {other} is no room'
        elif not may_include(room, other):
            yield f'#include "{include}": {other} is not below {room}'
        elif not is_public(other, name):
            yield f'#include "{include}": private to {other}'


def code_of(text):
    """Without comments and strings."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(\\.|[^"\\\n])*"', '', text, flags=re.S)


def problems(rel, text):
    room = rel.rpartition('/')[0] or '.'
    if room not in ROOMS and room != '.':
        yield f'{room} is no room of the house'
        return
    if not text.startswith('/* SPDX-License-Identifier: MIT */'):
        yield 'no SPDX line on top'
    yield from bad_includes(rel, text)
    if not room.startswith('cmd') and room != '.' and PRINTS.search(code_of(text)):
        yield 'prints to stdout; only cmd does'
    if rel.endswith('.h') and '#pragma once' not in text:
        yield 'no #pragma once'
    lines = text.count('\n')
    if rel.endswith('.h') and room not in TOOLBOXES and is_public(room, rel.rpartition('/')[2]):
        if lines > MOST_PUBLIC_LINES:
            yield f'a public header of {lines} lines; {MOST_PUBLIC_LINES} are the most'


def circles(texts):
    """Sets of files (a .c and its .h are one) that include each other, as Tarjan finds them."""
    edges = collections.defaultdict(set)
    for rel, text in texts.items():
        stem = rel.rpartition('.')[0]
        for include in INCLUDE.findall(text):
            other = include.rpartition('.')[0]
            if include in texts and other != stem:
                edges[stem].add(other)
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in sorted(edges[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            members = set()
            while node not in members:
                members.add(stack.pop())
            on_stack.difference_update(members)
            if len(members) > 1:
                found.append(members)

    sys.setrecursionlimit(10000)
    for rel in sorted(texts):
        if rel.rpartition('.')[0] not in index:
            visit(rel.rpartition('.')[0])
    return found


def circle_problems(texts):
    for members in circles(texts):
        yield 'include each other: ' + ' '.join(sorted(members))


def size_problems(texts):
    count = collections.Counter(rel.rpartition('/')[0] for rel in texts)
    for room, nr in count.items():
        if nr > MOST_SOURCES:
            yield f'{room} has {nr} sources; {MOST_SOURCES} are the most'


def wide_lines(root, suffixes):
    for path in sorted(root.rglob('*')):
        if path.suffix in suffixes and not path.relative_to(root).parts[0].startswith(('build', '.')):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if len(line.expandtabs(8)) > MOST_COLUMNS:
                    yield f'{path.relative_to(root)}:{number}'


def width_problems(root):
    for suffixes, most in MOST_WIDE.items():
        wide = list(wide_lines(root, suffixes))
        if len(wide) > most:
            yield (f'{len(wide)} lines of {" ".join(suffixes)} files have more than {MOST_COLUMNS} columns, '
                   f'{most} may: {" ".join(wide[:20])}')


def compiled_first(texts):
    """Headers that a source includes before all else: that these compile alone the build has shown."""
    firsts = (FIRST_INCLUDE.search(text) for rel, text in texts.items() if rel.endswith('.c'))
    return {first[1] for first in firsts if first}


def compile_alone(compiler, path):
    # As an include of an otherwise empty file: a main file may not say #pragma once.
    done = subprocess.run(compiler + ['-fsyntax-only', '-x', 'c', '-'], input=f'#include "{path}"\n', text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout if done.returncode or done.stdout else ''


def self_test():
    """The checks must be able to fail."""
    assert list(bad_includes('stream/x.c', '#include "record/run/recording.h"\n'))
    assert list(bad_includes('read/x.c', '#include "stream/stream.h"\n'))
    assert list(bad_includes('stream/x.c', '# include "ring.h"\n'))
    assert list(bad_includes('cmd/x.c', '#include "stream/no_such_private.h"\n'))
    assert not list(bad_includes('stream/x.c', '#include "stream/y.h"\n#include "base/fd.h"\n#include <stdio.h>\n'))
    assert circles({'a/x.c': '#include "a/y.h"\n', 'a/x.h': '', 'a/y.h': '#include "a/x.h"\n'})
    assert not circles({'a/x.c': '#include "a/x.h"\n#include "a/y.h"\n', 'a/x.h': '', 'a/y.h': ''})
    assert compiled_first({'a/x.c': '/* x */\n#include "a/x.h"\n#include "a/y.h"\n', 'a/z.c': '#include <stdio.h>\n'
                           '#include "a/z.h"\n'}) == {'a/x.h'}
    assert PRINTS.search(code_of('x; printf("a");')) and not PRINTS.search(code_of('snprintf(a); /* stdout */'))


def main():
    self_test()
    root, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    files = sorted(list(root.rglob('*.c')) + list(root.rglob('*.h')))
    texts = {str(path.relative_to(root)): path.read_text() for path in files}
    headers = [path for path in files if path.suffix == '.h']
    results = [(f'{rel} keeps to its room', '\n'.join(problems(rel, text))) for rel, text in texts.items()]
    results.append(('no files include each other', '\n'.join(circle_problems(texts))))
    results.append(('no room is too large', '\n'.join(size_problems(texts))))
    results.append(('lines are not too wide', '\n'.join(width_problems(root.parent))))
    first = compiled_first(texts)
    alone = [path for path in headers if str(path.relative_to(root)) not in first]
    results += [(f'{path.relative_to(root)} compiles alone', compile_alone(compiler, path)) for path in alone]
    assert len(headers) > 10, 'the headers were not found'
    print(f'1..{len(results)}')
    for number, (name, why) in enumerate(results, 1):
        print(f'{"not ok" if why else "ok"} {number} - {name}')
        for line in why.splitlines():
            print(f'# {line}')
    return any(why for _, why in results)


if __name__ == '__main__':
    sys.exit(main())
