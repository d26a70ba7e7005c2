# SPDX-License-Identifier: MIT
"""`millrace diff` prints what `perf diff` does, and what is right where perf's rows hang on the order of samples."""
import re
import shutil

import pytest


@pytest.fixture(scope='module')
def recordings(need_root, perf, programs, tmp_path_factory):
    """Of programs that do more each time, each by perf."""
    base, paths = tmp_path_factory.mktemp('diff'), []
    for i in range(3):
        paths.append(base / f'{i}.data')
        script = f'{programs}/spin -t 2 -m {60 + 40 * i}; for i in 1 2 3; do ls /usr/lib > /dev/null; done; ' \
                 f'gzip -c /bin/bash > /dev/null'
        perf('record', '-q', '-e', 'cpu-clock,page-faults', '-F', '2000', '-g', '-o', paths[-1], '--', 'bash', '-c',
             script)
    return [str(path) for path in paths]


# perf takes a second or two each time, for the symbols of the kernel: each option once, and how many files.
OPTIONS = [('', 2), ('-p -F', 3), ('-c delta', 2), ('-c ratio -p -F', 3), ('-c ratio -t ,', 3), ('-c wdiff:3,-4 -F', 2),
           ('-c wdiff:1,2', 3), ('-b -p', 2), ('-o 0', 2), ('-t ,', 2),
           ('-q -s comm,dso', 3), ('-s symbol', 2), ('-d libc.so.6', 2), ('-b -d libc.so.6', 3),
           ('-S malloc,_int_free', 2), ('--percentage relative -C ls -s comm,dso,symbol', 2)]


@pytest.mark.parametrize('options,nr', OPTIONS)
def test_same_text(recordings, perf, millrace, options, nr):
    words = options.split() + recordings[:nr]
    theirs = perf('diff', *words).out
    if 'nan%' in theirs:
        pytest.skip('a recording has no sample of this command: perf divides by 0')
    assert comparable(millrace('diff', *words).out, options) == comparable(theirs, options)


def comparable(text, options):
    """Without objects the row of all code without a symbol has any of its addresses in perf, and a place by that."""
    if options != '-s symbol':
        return text
    return sorted(re.sub(r' 0x[0-9a-f]+ *', ' 0x', line) for line in text.splitlines())


def test_order_of_a_file(recordings, perf, millrace):
    assert millrace('diff', '-o', '2', *recordings).out == perf('diff', '-o', '2', *recordings).out
    assert '--order 3' in millrace('diff', '-o', '3', *recordings, status=129).err


@pytest.mark.parametrize('options', ['-s comm,dso,symbol', '-s dso,symbol -t ,', '-s comm,dso,symbol -d app,libc.so.6'])
def test_objects_without_symbols(need_root, perf, millrace, run, tmp_path, options):
    """Whose names are short: the column is wider than they are."""
    (tmp_path / 'app.c').write_text('#include <stdlib.h>\n#include <string.h>\n'
                                    'int main(int argc, char **argv) { memset(malloc(argc << 20), 1, argc << 20); }\n')
    run(['gcc', '-O1', '-static', '-s', '-o', tmp_path / 'app', tmp_path / 'app.c'])
    files = []
    for more in [], ['x']:
        files.append(tmp_path / str(len(files)))
        perf('record', '-q', '-e', 'page-faults:u', '-c', '1', '-o', files[-1], '--', tmp_path / 'app', *more)
    words = [*options.split(), *files]
    theirs = perf('diff', *words).out
    assert 'app' in theirs or '-d' in options
    assert comparable(millrace('diff', *words).out, options) == comparable(theirs, options)


def test_default_files(recordings, millrace, tmp_path):
    shutil.copy(recordings[0], tmp_path / 'perf.data.old')
    shutil.copy(recordings[1], tmp_path / 'perf.data')
    assert millrace('diff', cwd=tmp_path).out == millrace('diff', *recordings[:2]).out
    assert millrace('diff', recordings[2], cwd=tmp_path).out == millrace('diff', recordings[1], recordings[2]).out


def test_hidden_samples_are_in_no_row(recordings, millrace):
    """Also where the command is no key: the rows of one command are what it has by itself."""
    def rows(*words):
        out = millrace('diff', '-q', '-c', 'delta', *words, *recordings[:2]).out
        return [re.sub(r'^( *\S*%)? *(\S+%)? *', r'\1 \2 ', line) for line in out.splitlines() if line.strip()]
    alone = rows('-C', 'ls', '-s', 'comm,dso')  # as in perf, the column of a single command is left out
    assert alone and rows('-C', 'ls', '-s', 'dso') == alone


def test_refused(recordings, millrace, tmp_path):
    for words, why in ((['-c', 'foo'], 'none of delta'), (['-c', 'wdiff'], 'weights'), (['-c', 'cycles'], 'perf diff'),
                       (['-s', 'nothing'], 'none of pid'), (['-i', 'x'], '-i'), (['--stream'], 'perf diff')):
        assert why in millrace('diff', *words, *recordings[:2], status=129).err
    (tmp_path / 'empty').touch()
    (tmp_path / 'cut').write_bytes(open(recordings[0], 'rb').read()[:5000])
    for path in ('none', 'empty', 'cut'):
        done = millrace('diff', recordings[0], tmp_path / path, status=255)
        assert done.err.startswith('millrace: ') and not done.out


def test_cpus_that_were_not_recorded(recordings, millrace):
    for words in [], ['--json']:
        done = millrace('diff', '--cpu', '0', *words, *recordings[:2], status=255)
        assert 'does not have the CPUs' in done.err and done.err.count('\n') == 1 and not done.out


def test_events_of_other_modifiers(recordings, perf, millrace, programs, tmp_path):
    """As in perf cpu-clock and cpu-clock:u are one event; without any in common a line says what there is."""
    for name, event in (('user', 'cpu-clock:u'), ('other', 'sched:sched_process_exec')):
        perf('record', '-q', '-e', event, '-o', tmp_path / name, '--', 'bash', '-c', f'{programs}/spin -t 2 -m 60')
    words = [recordings[0], str(tmp_path / 'user')]
    out = millrace('diff', *words).out
    assert out.startswith("# Event 'cpu-clock") and out == perf('diff', *words).out
    done = millrace('diff', recordings[0], tmp_path / 'other')
    assert done.out == perf('diff', recordings[0], tmp_path / 'other').out and done.err.count('\n') == 1
    assert 'no event has samples' in done.err and 'sched:sched_process_exec' in done.err and 'cpu-clock' in done.err
