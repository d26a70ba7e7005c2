# SPDX-License-Identifier: MIT
"""Who asks for an event that a recording does not have reads which it has."""
import perf_file
import pytest

EVENT_DESC = 12


def recording(path, *names):
    attr = perf_file.attr(type=1, sample_period=1, sample_type=1 << 16 | 1 | 2 | 4)
    described = perf_file.event_desc(*((name, attr, [number]) for number, name in enumerate(names, 1)))
    path.write_bytes(perf_file.build([attr] * len(names), {EVENT_DESC: described},
                                     [[number] for number, _ in enumerate(names, 1)],
                                     perf_file.sample(2, 1, 4096, 7 << 32 | 7, 1000)))
    return path


@pytest.mark.parametrize('names,wanted', [
    (['cpu-clock:pppH', 'faults'], 'cpu-clock:pppH, faults'),
    ([f'event-{number:03}' for number in range(300)], 'event-017 and 282 other events'),
    (['a' * 300], '1 events'),
], ids=['few', 'many', 'long'])
@pytest.mark.parametrize('words', [['export', '-e', 'cpu-clock', '--format=folded', '-o', 'OUT'],
                                   ['script', '--switch-on', 'cpu-clock']],
                         ids=['export', 'switch'])
def test_names_of_events_that_there_are(millrace, tmp_path, names, wanted, words):
    path = recording(tmp_path / 'perf.data', *names)
    done = millrace(*(tmp_path / 'out' if word == 'OUT' else word for word in words), '-i', path, status=255)
    assert done.err.count('\n') == 1 and ', but ' in done.err and wanted in done.err
    assert ('--header-only lists them' in done.err) == (len(names) != 2)
