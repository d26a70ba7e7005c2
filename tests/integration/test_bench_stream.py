# SPDX-License-Identifier: MIT
"""bench/stream: every writer, short runs; what it stores is what it made; slow storage is slow."""
import json
import os
import re

import pytest

from conftest import MILLRACE

USAGE = 129
STREAM = MILLRACE.parent / 'bench' / 'stream'
SMALL = ['--rings', '20', '--ring-size', '16K', '--duration', '0.3']
WRITERS = ['serial', 'mmap', 'mmap,window=64K', 'aio', 'aio,blocks=8',
           'direct']


@pytest.fixture
def run_stream(run):
    """run_stream(args) -> Done"""
    if not STREAM.exists():
        pytest.skip('is not installed: only in a build')

    def call(*args, **keywords):
        return run([STREAM, *args], **keywords)

    return call


def bench(run_stream, *args, **keywords):
    done = run_stream('--json', *SMALL, *args, **keywords)
    found = json.loads(done.out)
    if not found['writers']:
        pytest.skip(done.err.strip())
    return found


@pytest.fixture
def slow(run_stream):
    """Options for slow storage, where there can be one."""
    done = run_stream('--writer', 'serial', '--storage-rate', '100', '--duration', '0.01', status=None)
    if done.status:
        pytest.skip(done.err.strip())
    return ['--storage-rate', '20']


def refused(done):
    """A writer that this build or this kernel does not have."""
    if 'in this build' in done.err or 'not allowed here' in done.err:
        pytest.skip(done.err.strip())


@pytest.mark.parametrize('writer', WRITERS)
@pytest.mark.parametrize('load', [['--load', '20'], ['--rate', '2e5', '--record-size', '48', '--busy', '3']],
                         ids=['fits', 'overflows'])
def test_stored_is_what_was_made(run_stream, writer, load):
    done = run_stream('--json', *SMALL, '--verify', '--writer', writer, *load, status=None)
    refused(done)
    assert done.status == 0, done
    [row] = json.loads(done.out)['writers']
    [run] = row['runs']
    assert row['writer'] == writer
    assert run['made'] > 0 and run['bytes'] > 0
    assert 0 <= run['dropped'] < run['made']
    assert 0 <= run['lost_time_mean'] <= run['lost_time_any'] <= 1.001
    assert run['wait_p50_ms'] <= run['wait_p99_ms'] <= run['wait_max_ms']
    assert run['reader_cpu_s_per_gb'] > 0


@pytest.mark.parametrize('writer', ['serial', 'mmap', 'aio,blocks=2', 'direct'])
def test_slow_storage_stores_everything_too(run_stream, slow, writer):
    done = run_stream('--json', *SMALL, *slow, '--verify', '--writer', writer, '--load', '60',
                    status=None)
    refused(done)
    assert done.status == 0, done
    assert json.loads(done.out)['writers'][0]['runs'][0]['dropped'] > 0
    # Nothing stays behind: no mount, no file.
    assert 'millrace-storage' not in open('/proc/mounts').read()
    assert not [name for name in os.listdir(os.environ.get('TMPDIR', '/tmp')) if name.startswith('millrace-storage')]


@pytest.mark.alone
def test_slow_storage_has_its_rate(run_stream, slow):
    """Twice what it takes, in rings that hold little: half cannot be stored, and the rest takes its time."""
    found = bench(run_stream, *slow, '--writer', 'serial', '--load', '60', '--duration', '1')
    [run] = found['writers'][0]['runs']
    assert 8 < run['mb_per_s'] < 22, run


@pytest.mark.alone
def test_blocks_absorb_bursts(run_stream, slow):
    """Bursts above the rate of the storage, with less than it on the whole: memory makes the difference."""
    refused(run_stream(*SMALL, '--duration', '0.01', '--writer', 'aio', status=None))
    found = bench(run_stream, *slow, '--writer', 'serial', '--writer', 'aio,blocks=16', '--load', '40',
                  '--burst', '60/240', '--duration', '1.2', '--runs', '3')
    serial, aio = [sorted(run['dropped_percent'] for run in row['runs'])[1] for row in found['writers']]
    assert serial > 10, found
    assert aio < serial / 3, found


def test_output_is_kept(run_stream, tmp_path):
    file = tmp_path / 'out'
    found = bench(run_stream, '--writer', 'serial', '-o', file)
    assert file.stat().st_size == found['writers'][0]['runs'][0]['bytes']


def test_table(run_stream):
    done = run_stream(*SMALL, '--runs', '2', '--writer', 'serial', '--writer', 'null')
    head, empty, titles, units, *rows = done.out.splitlines()
    assert head.startswith('20 rings of 16 KiB') and not empty
    assert [row.split()[0] for row in rows] == ['serial', 'null']
    assert re.fullmatch(r'(\d+/\d+/\d+)', rows[0].split()[1])
    assert len(set(map(len, [titles] + rows))) == 1, 'columns are not aligned'


def test_json_has_every_run(run_stream):
    found = bench(run_stream, '--runs', '2', '--writer', 'serial', '--writer', 'null', '--burst', '10/10')
    assert [len(row['runs']) for row in found['writers']] == [2, 2]
    assert found['rings'] == 20 and found['ring_bytes'] == 16384 and found['on_ms'] == 10


@pytest.mark.parametrize('args, text', [
    (['report'], '"report"'),
    (['--rings', '0'], '0 is none'),
    (['--rings', '70000'], 'at most'),
    (['--busy', '300'], '272 rings'),
    (['--ring-size', '5000'], 'power of two'),
    (['--ring-size', '1G'], 'more than 4 GiB'),
    (['--record-size', '20'], 'multiple of 8'),
    (['--record-size', '4K', '--ring-size', '8K'], 'quarter of a ring'),
    (['--rate', '1', '--load', '1'], 'exclude each other'),
    (['--load', 'nan'], 'no number above 0'),
    (['--burst', '10'], 'ON/OFF'),
    (['--writer', 'auto'], 'name it'),
    (['--writer', 'zip'], 'zip'),
    (['--writer', 'null', '--verify'], 'null'),
])
def test_wrong_command_lines(run_stream, args, text):
    done = run_stream(*args, status=USAGE)
    assert done.out == '' and done.err.count('\n') == 1 and text in done.err


def test_missing_directory(run_stream, tmp_path):
    done = run_stream('-o', tmp_path / 'none' / 'out', status=1)
    assert done.out == '' and 'No such file' in done.err
