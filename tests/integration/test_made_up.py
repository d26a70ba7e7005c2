# SPDX-License-Identifier: MIT
"""Recordings that no recorder would write end in bounded time. Each of these took minutes, or would take hours."""
import struct

import perf_file


def record(kind, misc, body):
    return struct.pack('<IHH', kind, misc, 8 + len(body)) + body


def write(path, records, attr=None, features=None):
    attr = attr or perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2)
    path.write_bytes(perf_file.build([attr], features or {}, records=records + perf_file.FINISHED_ROUND))


def output_bytes(run, program, data, *words):
    """Of a command that needs little CPU time; the recording is deleted."""
    done = run(['sh', '-c', 'prlimit --cpu=10 "$@" | wc -c', 'sh', program, *words, '-i', data])
    data.unlink()
    assert not done.err, done.err
    return int(done.out)


def test_chain_of_forks(run, program, tmp_path):
    """Tasks that each the one before has forked: names stand at most 1,024 columns further to the right."""
    nr = 200000
    tids = sorted(range(1, nr + 1), key=lambda tid: (tid % 256, tid))  # as they are printed: the ancestors first
    write(tmp_path / 'data', b''.join(record(7, 0, struct.pack('<4IQ', tid, parent, tid, parent, 0))
                                      for parent, tid in zip([0] + tids, tids)))
    found = output_bytes(run, program, tmp_path / 'data', 'report', '--tasks')
    indents = sum(min(level, 1024) for level in range(nr + 1))  # of task 0, and its descendants
    names = len('swapper\n') * (nr + 1)
    assert found == len('#      pid      tid     ppid  comm\n') + (nr + 1) * len('  12345678 12345678 12345678 |') + \
        indents + names
