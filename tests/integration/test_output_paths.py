# SPDX-License-Identifier: MIT
"""Where outputs go: no other user can redirect what root writes, and links of root's own are followed."""
import os
import re
import stat
import subprocess

import pytest

from perfdata import PerfData

OTHER_USER = 65534
RECORD = ['record', '-e', 'cpu-clock', '-o']


@pytest.fixture(scope='module')
def recording(millrace, tmp_path_factory):
    path = tmp_path_factory.mktemp('paths') / 'perf.data'
    millrace(*RECORD, path, '--', 'true')
    return path


@pytest.fixture
def foreign_link(need_root, tmp_path):
    """A link of another user to a file of root's, in a directory of root's."""
    target = tmp_path / 'of_root'
    target.write_text('precious')
    link = tmp_path / 'out'
    link.symlink_to(target)
    os.lchown(link, OTHER_USER, OTHER_USER)
    return link


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def outputs(recording):
    """Each command that writes a file, but for its name."""
    return {
        'record': [*RECORD],
        'threads': ['record', '--threads', '-e', 'cpu-clock', '-o'],
        'switch': ['record', '--switch-output=100M', '-e', 'cpu-clock', '-o'],
        'flame': ['flame', '-i', recording, '-o'],
        'merge': ['merge', recording, '-o'],
        'recover': ['recover', recording, '-o'],
    }


def write(millrace, which, recording, output):
    command = ['--', 'true'] if which in ('record', 'threads', 'switch') else []
    return millrace(*outputs(recording)[which], output, *command)


@pytest.mark.parametrize('which', ['record', 'threads', 'switch', 'flame', 'merge', 'recover'])
def test_link_of_another_user_is_not_followed(millrace, recording, foreign_link, tmp_path, which):
    write(millrace, which, recording, foreign_link)
    assert (tmp_path / 'of_root').read_text() == 'precious' and not (tmp_path / 'of_root.old').exists()
    made = sorted(set(tmp_path.iterdir()) - {tmp_path / 'of_root', tmp_path / 'out.old'})
    assert len(made) == 1 and made[0].name.startswith('out') and not made[0].is_symlink()
    assert mode(made[0]) == (0o700 if which == 'threads' else 0o600)
    assert which == 'flame' or (tmp_path / 'out.old').is_symlink()  # as perf keeps it


@pytest.mark.parametrize('which', ['record', 'threads', 'switch', 'flame', 'merge', 'recover'])
def test_link_of_ones_own_is_followed(millrace, recording, tmp_path, which):
    (tmp_path / 'large').mkdir()
    real, link = tmp_path / 'large' / 'real', tmp_path / 'link'
    real.write_text('before')
    os.chmod(real, 0o644)
    link.symlink_to('large/real')
    write(millrace, which, recording, link)
    assert link.is_symlink() and [path.name for path in tmp_path.iterdir() if path.name.startswith('link')] == ['link']
    made = [path for path in (tmp_path / 'large').iterdir() if path.name != 'real.old']
    assert len(made) == 1 and made[0].name.startswith('real')
    assert mode(made[0]) == (0o700 if which == 'threads' else 0o600)
    if which != 'flame':
        assert (tmp_path / 'large' / 'real.old').read_text() == 'before'
        if which == 'threads':
            assert PerfData(made[0] / 'data').end > 0 and mode(made[0] / 'data') == 0o600
        else:
            assert PerfData(made[0]).end > 0


def test_directory_link_of_another_user_that_leads_elsewhere(millrace, need_root, tmp_path):
    (tmp_path / 'of_root').mkdir()
    (tmp_path / 'theirs').mkdir()
    os.chown(tmp_path / 'theirs', OTHER_USER, OTHER_USER)
    for name in ('of_root', 'theirs'):
        (tmp_path / f'to_{name}').symlink_to(name)
        os.lchown(tmp_path / f'to_{name}', OTHER_USER, OTHER_USER)
    done = millrace(*RECORD, tmp_path / 'to_of_root' / 'perf.data', '--', 'true', status=255)
    assert 'belongs to another user' in done.err and not list((tmp_path / 'of_root').iterdir())
    millrace(*RECORD, tmp_path / 'to_theirs' / 'perf.data', '--', 'true')
    assert mode(tmp_path / 'theirs' / 'perf.data') == 0o600


def test_empty_file_of_another_user_gives_nothing_away(millrace, need_root, tmp_path):
    """Who made it may have it open."""
    path = tmp_path / 'out'
    path.write_text('')
    os.chown(path, OTHER_USER, OTHER_USER)
    with open(path, 'rb') as theirs:
        millrace(*RECORD, path, '--', 'true')
        assert theirs.read() == b'' and os.stat(path).st_uid == 0 and PerfData(path).end > 0


def test_recover_does_not_follow_a_link_of_another_user(millrace, recording, foreign_link):
    os.unlink(foreign_link)
    foreign_link.symlink_to(recording)
    os.lchown(foreign_link, OTHER_USER, OTHER_USER)
    assert 'link of another user' in millrace('recover', foreign_link, status=255).err


def test_bundle_is_not_made_behind_a_link_or_where_others_write(millrace, need_root, tmp_path):
    (tmp_path / 'of_root').mkdir()
    (tmp_path / 'out.bundle').symlink_to('of_root')
    os.lchown(tmp_path / 'out.bundle', OTHER_USER, OTHER_USER)
    record = ['record', '--bundle', '-e', 'cpu-clock', '-o', tmp_path / 'out', '--', 'true']
    done = millrace(*record, status=255)
    assert 'out.bundle' in done.err and not list((tmp_path / 'of_root').iterdir())
    os.unlink(tmp_path / 'out.bundle')
    (tmp_path / 'out.bundle').mkdir()
    os.chown(tmp_path / 'out.bundle', OTHER_USER, OTHER_USER)
    assert 'others can write to it' in millrace(*record, status=255).err
    os.rmdir(tmp_path / 'out.bundle')
    millrace(*record)
    millrace(*record)  # into the bundle that is there
    assert mode(tmp_path / 'out.bundle') == 0o700


def test_failed_output_leaves_what_was_there(millrace, recording, tmp_path):
    """A directory with the name of the kept one stands in the way: the recording is where it was, and no other file."""
    path = tmp_path / 'out'
    path.write_text('before')
    (tmp_path / 'out.old' / 'deep').mkdir(parents=True)
    millrace(*RECORD, path, '--', 'true', status=255)
    assert path.read_text() == 'before' and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize('device', ['/dev/null', '/dev/stdout', '/proc/self/fd/1'])
def test_devices_and_descriptors_are_used(program, device, tmp_path):
    with open(tmp_path / 'out', 'w+b') as out:
        subprocess.run([program, *RECORD, device, '--', 'true'], stdout=out, check=True, stderr=subprocess.PIPE)
    assert device == '/dev/null' or PerfData(tmp_path / 'out').end > 0
    assert os.path.exists('/dev/null') and stat.S_ISCHR(os.stat('/dev/null').st_mode)


@pytest.mark.parametrize('mode', ['ab', 'r+b'])
@pytest.mark.parametrize('writer', ['auto', 'direct', 'mmap', 'aio', 'serial'])
def test_standard_output_is_appended_to(program, run, need_root, need_tracefs, programs, writer, mode, tmp_path):
    """Larger than what is allocated ahead of the writes: nothing of it is cut off, nor of what stood before."""
    before = b'before' * 100
    (tmp_path / 'out').write_bytes(before)
    with open(tmp_path / 'out', mode) as out:
        out.seek(0, os.SEEK_END)
        subprocess.run([program, 'record', '--writer', writer, '-c', '1', '-e', 'raw_syscalls:sys_enter', '-o', '-',
                        '--', programs / 'syscalls', '-t', '1', '-n', '100000'], stdout=out, check=True,
                       stderr=subprocess.PIPE)
        out.seek(0, os.SEEK_END)
        out.write(b'behind')
    found = (tmp_path / 'out').read_bytes()
    assert found.startswith(before + b'PERFILE2') and found.endswith(b'behind') and len(found) > 6 << 20
    (tmp_path / 'stream').write_bytes(found[len(before):-len(b'behind')])
    done = run([program, 'script', '-F', 'event', '-i', tmp_path / 'stream'])
    assert len(done.out.splitlines()) >= 100000 and not done.err


@pytest.mark.parametrize('mode', ['ab', 'r+b'])
@pytest.mark.parametrize('name', ['/dev/stdout', '/dev/fd/1', '/proc/self/fd/1'])
def test_descriptors_that_would_be_emptied_are_refused(program, name, mode, tmp_path):
    (tmp_path / 'out').write_bytes(b'before')
    with open(tmp_path / 'out', mode) as out:
        out.seek(0, os.SEEK_END)
        done = subprocess.run([program, *RECORD, name, '--', 'true'], stdout=out, check=False, stderr=subprocess.PIPE)
    assert done.returncode and b'what stands before in that file would be lost' in done.stderr
    assert (tmp_path / 'out').read_bytes() == b'before'


@pytest.mark.parametrize('options', [[], ['-z'], ['--threads']], ids=' '.join)
@pytest.mark.parametrize('command, name, words, status', [
    ('rm -r x', 'no file', 'x was removed while it was recorded', 255),
    ('mv x y', '/y', 'renamed', 0), ('mv x x.old; echo another >x', '/x.old', 'renamed', 0)])
def test_output_that_others_move(millrace, tmp_path, options, command, name, words, status):
    done = millrace('record', '-e', 'cpu-clock', '-o', 'x', *options, '--', 'sh', '-c', command, cwd=tmp_path,
                    status=status)
    place = re.search(r'captured \d+ samples, .* MB in (.*); lost 0', done.err)[1]
    assert place.endswith(name) and words in done.err, done.err
    assert place == 'no file' or millrace('report', '-i', place, cwd=tmp_path).out
    assert not list(tmp_path.iterdir()) or place != 'no file'


@pytest.mark.parametrize('options', [[], ['-z'], ['--threads', '--single-file']], ids=' '.join)
def test_output_that_others_empty(millrace, tmp_path, options):
    """Also when the header is written again behind that, which is done every second."""
    done = millrace('record', '-e', 'cpu-clock', '-o', 'x', *options, '--', 'sh', '-c', ': >x; sleep 1.3',
                    cwd=tmp_path, status=255)
    assert 'x: another program emptied it while it was recorded' in done.err, done.err
