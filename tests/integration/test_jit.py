# SPDX-License-Identifier: MIT
"""Code compiled at run time: whose /tmp/perf-PID.map is believed, and how long its names last."""
import os
import pathlib
import re

import pytest


class Recorded:
    """A program with code of its own, recorded; and its map."""

    def __init__(self, data, pid):
        self.data, self.pid = data, pid
        self.map = pathlib.Path(f'/tmp/perf-{pid}.map')


def record(recorder, programs, tmp_path, *options):
    data = tmp_path / 'data'
    done = recorder('record', *options, '-e', 'cpu-clock', '-F', '999', '-o', data, '--', programs / 'jit', '0.3', '/tmp')
    return Recorded(data, int(re.search(r'^(\d+) [0-9a-f]+$', done.out, re.M).group(1)))


@pytest.fixture
def recorded_by_perf(perf, programs, tmp_path, need_root):
    recorded = record(perf, programs, tmp_path)
    yield recorded
    recorded.map.unlink(missing_ok=True)


def names(millrace, recorded, *options, **keywords):
    done = millrace('report', '-i', recorded.data, '-s', 'sym', *options, **keywords)
    return re.findall(r'\[\.\] (\S+)', done.out), done.err


def test_map_of_root_names_its_code(millrace, recorded_by_perf):
    found, said = names(millrace, recorded_by_perf)
    assert found[0] == 'jit_hot' and 'perf-' not in said


def test_map_of_another_user_is_not_believed(millrace, recorded_by_perf):
    os.chown(recorded_by_perf.map, 65534, 65534)
    found, said = names(millrace, recorded_by_perf)
    assert 'jit_hot' not in found and found[0].startswith('0x')
    assert f'{recorded_by_perf.map} is not read' in said


@pytest.mark.parametrize('kind', ['fifo', 'link', 'directory', 'device'])
def test_map_that_is_no_regular_file_is_not_opened(millrace, recorded_by_perf, tmp_path, kind):
    path = recorded_by_perf.map
    moved = tmp_path / 'moved'
    moved.write_bytes(path.read_bytes())
    path.unlink()
    {'fifo': lambda: os.mkfifo(path), 'link': lambda: path.symlink_to(moved), 'directory': path.mkdir,
     'device': lambda: os.mknod(path, 0o20600, os.makedev(1, 5))}[kind]()  # that of /dev/zero has no end
    try:
        found, said = names(millrace, recorded_by_perf, timeout=30)
    finally:
        if kind == 'directory':
            path.rmdir()
    assert 'jit_hot' not in found and 'is not read' in said
