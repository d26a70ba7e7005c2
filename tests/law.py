# SPDX-License-Identifier: MIT
"""The law that every recording is held to: captured + lost = generated, and nothing twice."""
import json
import pathlib

from perfdata import PerfData, SAMPLE


def main_file(path):
    return path / 'data' if path.is_dir() else path


def loss_of(millrace, path, *options):
    """What report --loss tells."""
    return json.loads(millrace('report', '--loss', '--json', '-i', path, *options).out)


def counts_of(loss, event):
    """Captured and lost of the events with that in their names."""
    rows = [row for row in loss['events'] if event in row['event']]
    assert rows, loss
    return sum(row['captured'] for row in rows), sum(row['lost'] for row in rows)


def plain_samples(data):
    """Samples that stand in the file itself; None: in others, or compressed."""
    kinds = [kind for kind, *_ in data.headers()]
    return kinds.count(SAMPLE) if not {81, 83} & set(kinds) and SAMPLE in kinds else None


def check_law(millrace, path, event, made, attr=1):
    """
    Of a recording of an event that came so often, whose index is `attr`, behind a dummy, which has the lost records of
    task's lives: our own reader, the ledger and the LOST_SAMPLES records agree. Returns how much was lost.
    """
    path = pathlib.Path(path)
    loss, main = loss_of(millrace, path), PerfData(main_file(path))
    captured, lost = counts_of(loss, event)
    assert captured + lost == made, loss
    assert lost == main.lost_samples(main.attrs[attr]), loss
    if loss['ledger'] and loss['counted']:
        assert loss['lost_in_ledger'] == loss['lost'] == main.lost_samples(), loss
    assert plain_samples(main) in (None, loss['captured'])
    lines = millrace('script', '--ns', '-F', 'tid,time,event', '-i', path).out.splitlines()
    samples = [line for line in lines if event in line]
    assert len(samples) == captured and len(set(samples)) == captured
    return lost
