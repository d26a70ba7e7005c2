# SPDX-License-Identifier: MIT
"""Code compiled at run time: whose /tmp/perf-PID.map is believed, and how long its names last."""
import contextlib
import functools
import os
import pathlib
import re
import shutil
import signal
import stat
import struct

import pytest

import perf_file


class Recorded:
    """A program with code of its own, recorded; and its map."""

    def __init__(self, data, pid):
        self.data, self.pid = data, pid
        self.map = pathlib.Path(f'/tmp/perf-{pid}.map')


def record(recorder, programs, tmp_path, *options, more=()):
    data = tmp_path / 'data'
    done = recorder('record', *options, '-e', 'cpu-clock', '-F', '999', '-o', data, '--',
                    programs / 'jit', '0.3', '/tmp', *more)
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


@pytest.mark.parametrize('name', ['jit_hot', 'jit_later'])
def test_map_of_memory_that_was_used_again(millrace, recorded_by_perf, name):
    """A map has no times: of two functions that were at an address one would be a guess."""
    start, size, _ = recorded_by_perf.map.read_text().split()
    with recorded_by_perf.map.open('a') as written:
        written.write(f'{int(start, 16) + 2:x} {size} {name}\n{int(start, 16) - 16:x} ffffffffffffffff jit_wrong\n')
    found, said = names(millrace, recorded_by_perf)
    assert found[0].startswith('0x') == (name == 'jit_later') and not {'jit_later', 'jit_wrong'} & set(found)
    assert ('those of several functions, as memory was used again' in said) == (name == 'jit_later')


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


@pytest.fixture
def recorded(millrace, programs, tmp_path, need_root):
    recorded = record(millrace, programs, tmp_path)
    yield recorded
    recorded.map.unlink(missing_ok=True)


def test_map_is_kept_with_the_recording(millrace, recorded):
    """What lies in /tmp later may be of another process with that number."""
    line = recorded.map.read_text()
    recorded.map.write_text(line.replace('jit_hot', 'of_another_process'))
    found, _ = names(millrace, recorded)
    assert found[0] == 'jit_hot' and 'of_another_process' not in found
    recorded.map.unlink()
    assert names(millrace, recorded)[0][0] == 'jit_hot'
    os.mkfifo(recorded.map)
    assert names(millrace, recorded, timeout=30)[0][0] == 'jit_hot'


@pytest.mark.parametrize('kind', ['memfd', 'shm'])
def test_code_in_memory_that_has_a_name(millrace, programs, tmp_path, need_root, kind):
    """It is no ELF file; .NET maps its code like this."""
    recorded = record(millrace, programs, tmp_path, more=[kind])
    recorded.map.unlink()
    found, said = names(millrace, recorded)
    assert found[0] == 'jit_hot' and not re.search('perf-|doublemapper', said), said


@pytest.mark.parametrize('recorder', ['millrace', 'perf'])
def test_code_of_the_parent_of_a_process(request, millrace, programs, tmp_path, need_root, recorder):
    """As workers run it that a server forks; the map is that of the process that had compiled it."""
    forked = record(request.getfixturevalue(recorder), programs, tmp_path, more=['fork'])
    found, said = names(millrace, forked)
    forked.map.unlink()
    assert found[0] == 'jit_hot' and 'perf-' not in said


@pytest.mark.parametrize('recorder', ['millrace', 'perf'])
def test_code_in_memory_of_the_parent(request, millrace, programs, tmp_path, need_root, recorder):
    """As of workers that compile into what they had before their fork; which of two names it had then is not known."""
    forked = record(request.getfixturevalue(recorder), programs, tmp_path, more=['workers'])
    found = {}
    for pid, name in re.findall(r'^ *(\d+) +[0-9a-f]+ (jit_\w+|\[unknown\]) \(/tmp/perf-',
                                millrace('script', '-i', forked.data, '-F', 'pid,ip,sym,dso').out, re.M):
        found.setdefault(int(pid), set()).add(name)
    for pid in found:
        pathlib.Path(f'/tmp/perf-{pid}.map').unlink()
    assert found.pop(forked.pid) == {'jit_parent', 'jit_same'}
    assert list(found.values()) == [{'[unknown]', 'jit_same', 'jit_alone'}]


def test_other_readers_take_a_file_with_maps(millrace, perf, recorded, tmp_path):
    for reader in ['report', 'script', 'buildid-list', 'evlist']:
        perf(reader, '-i', recorded.data)
    perf('inject', '-i', recorded.data, '-o', tmp_path / 'injected')
    assert names(millrace, Recorded(tmp_path / 'injected', recorded.pid))[0][0] == 'jit_hot'  # by /tmp


def record_all(millrace, tmp_path, script, comm='jit'):
    data = tmp_path / 'data'
    done = millrace('record', '-a', '-e', 'cpu-clock', '-F', '999', '-o', data, '--', 'sh', '-ec', script,
                    cwd=tmp_path)
    done.names, _ = names(millrace, Recorded(data, 0), '--comms', comm, '--percent-limit', '0')
    return done


# A /tmp of its own, with the program.
OWN_TMP = 'mount --make-rprivate /; mkdir own; mount -t tmpfs none own; cp {} own; chmod 1777 own; '\
          'mount --move own /tmp; '


# As a user of a large directory service: its /proc/PID/status has 66 KB.
IN_MANY_GROUPS = "/usr/bin/python3 -c 'import os, sys; os.setgroups(range(1000000000, 1000006000)); "\
                 "os.execv(sys.argv[1], sys.argv[1:])'"


@pytest.mark.parametrize('prefix', ['', IN_MANY_GROUPS], ids=['plain', 'groups'])
def test_map_in_a_container(prefix, millrace, programs, tmp_path, need_root):
    """Its own /tmp, where it is process 1; all is gone when the recording ends."""
    own = OWN_TMP.format(programs / 'jit')
    done = record_all(millrace, tmp_path, f'unshare -m -p -f sh -ec "{own} exec {prefix} /tmp/jit 0.3 /tmp"')
    assert done.out.startswith('1 ') and 'jit_hot' in done.names


@pytest.mark.parametrize('owner,mode', [('65534', '600'), ('65533', '644'), ('0', '644'), ('0', '640')])
def test_map_of_the_user_whose_process_it_is(millrace, programs, tmp_path, need_root, owner, mode):
    """Or one of root; but not if that user cannot read it, who may have given the name to any file of a directory."""
    own = f'jit{os.getpid()}'  # a test beside this one has another that is named
    (tmp_path / 'run').write_text(OWN_TMP.format(programs / 'jit') + f"""
        mv /tmp/jit /tmp/{own}
        setpriv --reuid 65534 --clear-groups /tmp/{own} 0.5 /tmp &
        until grep -q jit_hot /tmp/perf-$!.map; do sleep 0.01; done
        chown {owner}:0 /tmp/perf-$!.map
        chmod {mode} /tmp/perf-$!.map
        wait""")
    done = record_all(millrace, tmp_path, 'unshare -m sh -e run 2>/dev/null', own)
    said = millrace('report', '-i', tmp_path / 'data', '--comms', own).err
    name = f'perf-{done.out.split()[0]}.map'
    is_kept = owner == '65534' or (owner, mode) == ('0', '644')
    assert ('jit_hot' in done.names) == is_kept
    assert (f'the {name} of a process is not kept, and its code has no names: it belongs to another user' not in
            done.err) == is_kept, done.err
    assert (f'{name}: it belongs to another user; code compiled at run time is not named' not in said) == is_kept, said


def test_file_of_root_that_a_user_mounts_as_a_map_is_not_kept(millrace, programs, tmp_path, need_root):
    """Any user can make a mount namespace, and is root there: what only root can read stays out of the recording."""
    (tmp_path / 'secret').write_text('1000 7ffffffff000 of_root_alone\n')
    own = f'jit{os.getpid()}'
    (tmp_path / 'run').write_text(OWN_TMP.format(programs / 'jit') + f"""
        mv /tmp/jit /tmp/{own}
        /tmp/{own} 0.6 /tmp &
        until grep -qs jit_hot /tmp/perf-$!.map; do sleep 0.01; done
        mount --bind secret /tmp/perf-$!.map
        wait
        sleep 2""")  # the mount lasts until the map was read
    done = record_all(millrace, tmp_path, 'unshare -m sh -e run', own)
    name = f'perf-{done.out.split()[0]}.map'
    assert f'the {name} of a process is not kept, and its code has no names: Invalid cross-device link' in done.err
    assert done.names and 'jit_hot' not in done.names
    assert b'of_root_alone' not in (tmp_path / 'data').read_bytes()


@pytest.mark.parametrize('kind', ['', 'memfd'])
def test_map_is_read_when_its_process_ends(millrace, programs, tmp_path, need_root, kind):
    """Later, but before the recording ends, the name is another process's."""
    done = record_all(millrace, tmp_path, f'''{programs}/jit 0.3 /tmp {kind} >said; read pid address <said; sleep 2
                                              echo "$address 10 of_another_process" >/tmp/perf-$pid.map''')
    assert 'jit_hot' in done.names and 'of_another_process' not in done.names


@pytest.mark.parametrize('age,is_kept', [('1 hour', False), ('2 sec', True)])
def test_map_that_is_older_than_its_process(millrace, programs, tmp_path, need_root, age, is_kept):
    """A former process with the number left it; a little older it may be, for clocks are set."""
    done, name, said = record_left(millrace, programs, tmp_path, 0.3, 'wait', age)
    assert ('of_former' in done.names) == is_kept and done.names
    assert (f'the {name} of a process is not kept, and its code has no names: it is older than the process' not in
            done.err) == is_kept, done.err
    assert (f'without a map of it, as /tmp/{name} was older than the process: make its runtime write' not in
            said) == is_kept, said


def test_map_that_is_older_than_a_recording_that_did_not_see_its_process(run, program, programs, tmp_path, need_root):
    """There is no room to look at a process while it lives."""
    def limited(limit, *arguments, **keywords):
        return run(['sh', '-c', f'ulimit -n {limit}; exec "$@"', 'sh', 'setpriv', '--bounding-set', '-sys_resource',
                    '--inh-caps', '-sys_resource', program, *arguments], **keywords)
    refused = limited(12, 'record', '-a', '-e', 'cpu-clock', '-o', tmp_path / 'data', '--', 'true', status=255)
    needed = re.search(r'needs (\d+) file', refused.err)[1]
    done, name, said = record_left(functools.partial(limited, needed), programs, tmp_path, 0.3, 'wait', '1 hour')
    assert 'of_former' not in done.names and done.names
    assert f'the {name} of a process is not kept, and its code has no names: it is older than the recording' in done.err
    assert f'without a map of it, as /tmp/{name} was older than the recording: make its runtime write' in said, said


def test_map_that_seems_older_than_the_process_that_has_it_open(millrace, programs, tmp_path, need_root):
    """The clock was set, or the machine stood still."""
    ran_100_ms = 'until [ $(cut -d" " -f14 /proc/$!/stat) -gt 10 ]; do sleep 0.01; done'
    done, name, said = record_left(millrace, programs, tmp_path, 60, ran_100_ms, '1 hour', '9<left')
    assert 'of_former' in done.names and name not in done.err + said


def test_file_systems_of_a_process_with_an_older_map_are_not_asked(millrace, programs, tmp_path, fuse_fs):
    """One that does not answer would stop the recorder."""
    directory = fuse_fs(4096, 0, program='slow_fs.py')
    server = next(int(path.parent.name) for path in pathlib.Path('/proc').glob('[0-9]*/cmdline')
                  if os.fsencode(directory) in path.read_bytes())
    stopped = f'kill -STOP {server}; sleep 1.1'  # what it answered is kept for a second
    try:
        done, name, _ = record_left(millrace, programs, tmp_path, 60, stopped, '1 hour', f'9<{directory}/file')
    finally:
        os.kill(server, signal.SIGCONT)
    assert f'the {name} of a process is not kept' in done.err


def record_left(millrace, programs, tmp_path, seconds, until, age, redirect=''):
    """Of a program whose map is of this age: as record_all(), its map's name, and what a report says. The recording
    ends after the commands `until`."""
    own = f'jit{os.getpid()}'
    shutil.copy(programs / 'jit', tmp_path / own)
    (tmp_path / 'left').write_text('1000 7ffffffff000 of_former\n')
    try:
        done = record_all(millrace, tmp_path, f'''
            ./{own} {seconds} {redirect} >said 2>&1 &
            until grep -q . said; do sleep 0.01; done
            mv left /tmp/perf-$!.map
            touch -d '{age} ago' /tmp/perf-$!.map
            {until}''', own)
    finally:
        pid = int((tmp_path / 'said').read_text().split()[0])
        pathlib.Path(f'/tmp/perf-{pid}.map').unlink(missing_ok=True)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return done, f'perf-{pid}.map', millrace('report', '-i', tmp_path / 'data', '--comms', own).err


def test_map_that_is_missing_is_not_looked_for_again(millrace, programs, tmp_path, need_root):
    done = record_all(millrace, tmp_path, f'{programs}/jit 0.3')
    pid, address = re.search(r'^(\d+) ([0-9a-f]+)$', done.out, re.M).groups()
    later = pathlib.Path(f'/tmp/perf-{pid}.map')
    later.write_text(f'{address} 10 of_another_process\n')
    try:
        found, _ = names(millrace, Recorded(tmp_path / 'data', pid), '--comms', 'jit')
    finally:
        later.unlink()
    assert found and 'of_another_process' not in found


@pytest.mark.parametrize('words', [[], ['-o', 'copy']], ids=['in place', 'a copy'])
@pytest.mark.parametrize('later', [False, True], ids=['of the end', 'written later'])
def test_map_of_a_recovered_recording(millrace, recorded, tmp_path, later, words):
    """A process that got the number later may have written it: a wrong name is worse than an address."""
    data = bytearray(recorded.data.read_bytes())
    data[72:104] = bytes(32)  # no features: the recorder did not get to its end
    recorded.data.write_bytes(data)
    ended = recorded.map.stat().st_mtime
    os.utime(recorded.data, (ended - 60 * later,) * 2)
    said = millrace('recover', *words, recorded.data, cwd=tmp_path).err
    found = Recorded(tmp_path / words[1], recorded.pid) if words else recorded
    assert ('it is newer than the recording' in said) == later
    assert ('jit_hot' in names(millrace, found)[0]) != later


def test_processes_of_two_recordings_with_one_number(millrace, recorded, tmp_path):
    once, twice = (Recorded(tmp_path / name, recorded.pid) for name in ['once', 'twice'])
    millrace('merge', '-o', once.data, recorded.data)
    assert names(millrace, once)[0][0] == 'jit_hot'
    millrace('merge', '-o', twice.data, recorded.data, recorded.data)
    assert 'jit_hot' not in names(millrace, twice)[0]


def record_dump(recorder, programs, tmp_path, *options):
    """Half of the time one function is at the address, then another one; what is known of the one of line 7."""
    done = recorder('record', *options, '-e', 'cpu-clock', '-F', '1999', '-o', tmp_path / 'data', '--',
                    programs / 'jit', '0.4', tmp_path, 'dump')
    return Recorded(tmp_path / 'data', int(re.search(r'^(\d+) [0-9a-f]+$', done.out, re.M).group(1)))


def shares(text):
    return {name: float(part) for part, name in re.findall(r'([\d.]+)%.* (jit_\w+|second\.js:\d+|0x\w+)', text)}


@pytest.mark.parametrize('recorder', ['millrace', 'perf'])
def test_jitdump_is_read_with_its_times(request, millrace, perf, programs, tmp_path, need_root, recorder):
    """As perf names it when it has written a file for each function."""
    recorded = record_dump(request.getfixturevalue(recorder), programs, tmp_path, '-k', 'mono')
    # With names of the PLT: others than of code that was compiled at run time do not count.
    ours = shares(millrace('report', '-i', recorded.data, '-s', 'sym', env={'LD_PRELOAD': ''}).out)
    perf('inject', '--jit', '-i', recorded.data, '-o', tmp_path / 'injected', cwd=tmp_path)
    theirs = shares(perf('report', '-i', tmp_path / 'injected', '-s', 'sym', '--stdio').out)
    assert set(ours) == {'jit_first', 'jit_second'} and min(ours.values()) > 20
    assert all(abs(ours[name] - theirs[name]) < 0.2 for name in ours), (ours, theirs)
    injected = millrace('report', '-i', tmp_path / 'injected', '-s', 'sym', env={'LD_PRELOAD': ''})
    assert 'not the file' not in injected.err
    found = shares(injected.out)
    assert all(abs(found[name] - theirs[name]) < 0.2 for name in ours), (found, theirs)
    lines = shares(millrace('report', '-i', recorded.data, '-s', 'srcline').out)
    assert lines['second.js:7'] == ours['jit_second']
    script = millrace('script', '-i', recorded.data, '-F', 'ip,sym').out
    assert re.search('jit_first.*jit_second', script, re.S) and not re.search('jit_second.*jit_first', script, re.S)


def test_jitdumps_of_two_containers(millrace, programs, tmp_path, need_root):
    """Each in a file system of its own, where the files have one inode, and those one device after another."""
    (tmp_path / 'own').mkdir()
    code = (programs / 'jit').read_bytes()
    home = {**os.environ, 'HOME': str(tmp_path / 'home'), 'LD_PRELOAD': ''}
    for name in ('jit', 'jot'):
        (tmp_path / name).write_bytes(code.replace(b'jit_first', name.encode() + b'_first')
                                      .replace(b'jit_second', name.encode() + b'_second'))
        (tmp_path / name).chmod(0o700)
        millrace('record', '-k', 'mono', '-e', 'cpu-clock', '-F', '1999', '-o', f'{name}.data', '--', 'unshare', '-m',
                 'sh', '-ec', f'mount -t tmpfs none own; ./{name} 0.3 own dump', cwd=tmp_path, env=home)
    for name in ('jit', 'jot'):
        out = millrace('report', '-i', tmp_path / f'{name}.data', '-s', 'sym', '-g', 'none', env=home).out
        assert set(re.findall(r'j[io]t_\w+', out)) == {f'{name}_first', f'{name}_second'}, out


def test_jitdump_without_its_clock_names_nothing_that_moved(millrace, programs, tmp_path, need_root):
    recorded = record_dump(millrace, programs, tmp_path)
    found = shares(millrace('report', '-i', recorded.data, '-s', 'sym').out)
    assert not {'jit_first', 'jit_second'} & set(found) and any(name.startswith('0x') for name in found)


def test_jitdump_that_is_a_fifo_now(millrace, programs, tmp_path, need_root):
    recorded = record_dump(millrace, programs, tmp_path, '-k', 'mono')
    dump = tmp_path / f'jit-{recorded.pid}.dump'
    dump.unlink()
    os.mkfifo(dump)
    assert not shares(millrace('report', '-i', recorded.data, '-s', 'sym', timeout=30).out).get('jit_first')


def record_of(kind, misc, body):
    return struct.pack('<IHH', kind, misc, 8 + len(body)) + body


def mapped(pid, start, name, file=b''):
    """An MMAP record; MMAP2 with `file`: device, inode and what stands behind them."""
    name = name.encode() + b'\0'
    return record_of(10 if file else 1, 2, struct.pack('<2I3Q', pid, pid, start, 0x1000, 0) + file +
                     name.ljust((len(name) + 7) & ~7, b'\0'))


CODE = 0x7f0000001000


@pytest.fixture
def of_host(tmp_path):
    """of_host(name) -> a recording without maps, as perf makes them, of code that was compiled at run time.
    Without a name as one that was cut off before it."""
    pid = 2_000_000_000 + os.getpid()  # of no process
    recorded = Recorded(tmp_path / 'data', pid)
    recorded.dump = tmp_path / 'own' / f'jit-{pid}.dump'

    def write(host, dump=False, file=b''):
        records = [mapped(pid, CODE, '//anon'), mapped(pid, 0x500000, str(recorded.dump), file) if dump else b'',
                   perf_file.sample(2, CODE + 4, pid << 32 | pid), perf_file.FINISHED_ROUND]
        attr = perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2)
        recorded.data.write_bytes(perf_file.build([attr], {3: perf_file.string(host)} if host else {},
                                                  records=b''.join(records)))
        return recorded
    yield write
    recorded.map.unlink(missing_ok=True)


def test_map_that_is_too_large_is_not_read(millrace, programs, tmp_path, need_root):
    """A file with holes costs who writes it nothing; of 512 MiB, the most that is read, nothing may be read here."""
    data, at = tmp_path / 'data', tmp_path / 'at'
    script = '"$0" 0.5 > "$1" & until [ -s "$1" ]; do :; done; truncate -s 1T /tmp/perf-$!.map; wait'
    done = millrace('record', '-e', 'cpu-clock', '-F', '999', '-o', data, '--', 'sh', '-c', script,
                    programs / 'jit', at)
    pathlib.Path(f'/tmp/perf-{at.read_text().split()[0]}.map').unlink()
    assert 'it is too large' in done.err
    said = millrace('report', '--loss', '-i', data).out
    assert int(re.search(r'peak memory bytes +(\d+)', said).group(1)) < 200_000_000


def test_map_of_another_machine(millrace, of_host, tmp_path):
    """A process of this machine with that number has other code; a copy below --symfs is that of the other machine."""
    recorded = of_host('another')
    recorded.map.write_text(f'{CODE:x} 100 of_this_machine\n')
    found, said = names(millrace, recorded)
    assert 'of_this_machine' not in found and f'without a map of it: copy {recorded.map} from there to DIR' in said
    assert 'of_this_machine' not in names(millrace, recorded, '--symfs', tmp_path)[0]
    (tmp_path / 'tmp').mkdir()
    (tmp_path / 'tmp' / recorded.map.name).write_text(f'{CODE:x} 100 of_the_other\n')
    assert names(millrace, recorded, '--symfs', tmp_path)[0] == ['of_the_other']
    found, said = names(millrace, of_host(os.uname().nodename))
    assert found == ['of_this_machine'] and not said


LOAD = struct.pack('<2I4Q', 1, 1, CODE, CODE, 0x100, 1) + b'of_this_machine\0'
DUMP = struct.pack('<6I2Q', 0x4a695444, 1, 40, 62, 0, 1, 0, 0) + struct.pack('<2IQ', 0, 16 + len(LOAD), 1) + LOAD


def test_jitdump_of_another_machine(millrace, of_host):
    recorded = of_host('another', dump=True)
    recorded.dump.parent.mkdir()
    recorded.dump.write_bytes(DUMP)
    assert 'of_this_machine' not in names(millrace, recorded)[0]
    assert names(millrace, recorded, '--symfs=/.')[0] == ['of_this_machine'], 'the user says that it is the same'
    assert names(millrace, of_host(os.uname().nodename, dump=True))[0] == ['of_this_machine']


@pytest.mark.parametrize('host', [os.uname().nodename, None], ids=['of this machine', 'cut off'])
def test_jitdump_of_a_later_process(millrace, of_host, host):
    """What has its name now is another file: a process has the number of the one that was recorded."""
    recorded = of_host(host)
    recorded.dump.parent.mkdir()
    recorded.dump.write_bytes(DUMP)
    status = recorded.dump.stat()
    for inode, found in (status.st_ino, True), (status.st_ino ^ 1, False):
        file = struct.pack('<2I2Q2I', os.major(status.st_dev), os.minor(status.st_dev), inode, 0, 5, 2)
        assert ('of_this_machine' in names(millrace, of_host(host, dump=True, file=file))[0]) == found


def test_jitdump_that_is_not_read(millrace, of_host):
    """It is told why, unless a map has the names."""
    recorded = of_host(os.uname().nodename, dump=True)
    recorded.dump.parent.mkdir()
    for content, size, why in ((b'no dump', 7, 'it is no jitdump of this byte order'),
                               (struct.pack('<6I2Q', 0x4a695444, 1, 40, 62, 0, 1, 0, 0), 2 << 30,
                                'it has more than 1024 MiB, or more than 16777216 functions')):
        recorded.dump.write_bytes(content)
        os.truncate(recorded.dump, size)
        found, said = names(millrace, recorded)
        assert found[0].startswith('0x') and said.count(f'is not read: {why}') == 1, said
        assert f'is not read: {why}' in millrace('script', '-i', recorded.data).err
        recorded.map.write_text(f'{CODE:x} 100 of_the_map\n')
        assert names(millrace, recorded) == (['of_the_map'], '')
        recorded.map.unlink()


# Of perf inject --jit: the mode of the file as prot, and no maps of memory without a file.
@pytest.mark.parametrize('prot, nr', [(stat.S_IFREG | 0o644, 3), (stat.S_IFREG | 0o600, 3), (5, 1)])
def test_chain_through_code_that_perf_inject_left_out(millrace, tmp_path, prot, nr):
    """The frame pointer leads from a function of a jitdump through one that the jitdump does not have to a third."""
    function, left_out, stack = CODE + 0x10, CODE + 0x100000, 0x7ffe00001000
    file = struct.pack('<2I2Q2I', 0, 0, 0, 1, prot, 1)
    frames = [stack + 16, left_out, 0, function + 8]  # RSP and RBP point there: a RBP, an address, and again
    registers = {6: stack, 7: stack, 8: function}  # of RBP, RSP, RIP; the others are 0
    mask = 0xff0fff
    words = [registers.get(register, 0) for register in range(24) if mask >> register & 1]
    sampled = perf_file.sample(2, function, 1 << 32 | 1, 0, 2, *words, 32, *frames, 32)
    attr = perf_file.attr(type=1, sample_period=1000, sample_type=1 | 2 | 1 << 5 | 1 << 12 | 1 << 13,
                          regs_user=mask, stack_user=32)
    (tmp_path / 'data').write_bytes(perf_file.build(
        [attr], {6: perf_file.string('x86_64')},
        records=mapped(1, CODE, str(tmp_path / 'jitted-1-0.so'), file) + sampled + perf_file.FINISHED_ROUND))
    addresses = millrace('script', '-i', tmp_path / 'data', '-F', 'ip').out.split()
    assert len(addresses) == nr, addresses


NODE = '''
function hotFib(n) { return n < 2 ? n : hotFib(n - 1) + hotFib(n - 2); }
const until = Date.now() + 400;
while (Date.now() < until)
    hotFib(20);
'''


@pytest.mark.parametrize('option', ['--perf-prof', '--perf-basic-prof'])
def test_functions_of_node(millrace, tmp_path, need_root, option):
    if not shutil.which('node'):
        pytest.skip('node is not installed')
    (tmp_path / 'hot.js').write_text(NODE)
    millrace('record', '-k', 'mono', '-e', 'cpu-clock', '-F', '1999', '-o', 'data', '--', 'node', option, 'hot.js',
             cwd=tmp_path)
    assert re.search(r'JS:[*^~]?hotFib .*hot\.js:2', millrace('report', '-i', tmp_path / 'data', '-s', 'sym').out)


@pytest.fixture
def two_programs(programs, tmp_path, need_root):
    """./first and ./second: as jit, of other names."""
    for name in ('first', 'second'):
        code = (programs / 'jit').read_bytes().replace(b'jit_hot', name[:3].encode() + b'_hot')
        (tmp_path / name).write_bytes(code)
        (tmp_path / name).chmod(0o755)

    def run(recorder, script, *options):
        data = tmp_path / 'data'
        done = recorder('record', *options, '-e', 'cpu-clock', '-F', '999', '-o', data, '--', 'sh', '-c', script,
                        cwd=tmp_path, env={**os.environ, 'LD_PRELOAD': ''})
        pids = {line.split()[0] for line in done.out.splitlines()}
        recorded = Recorded(data, int(pids.pop()))
        assert not pids
        recorded.map.unlink(missing_ok=True)
        return recorded, done.err
    return run


def names_by_command(millrace, recorded):
    """{command: the names of its functions, an address as "0x"}; and what is said."""
    done = millrace('report', '-i', recorded.data, '-s', 'comm,dso,sym', '--percent-limit', '3',
                    env={**os.environ, 'LD_PRELOAD': ''})
    found = {}
    for comm, name in re.findall(r'^ +[\d.]+% +(\w+) .*\[JIT\].* \[\.\] (0x|\S+)', done.out, re.M):
        found.setdefault(comm, set()).add(name)
    return found, done.err


OTHERS_MAP = 'was written by another program that the process ran before or later'


def test_names_end_with_the_program_that_wrote_them(millrace, two_programs):
    """The next one of the process has no map; nor does the one before."""
    recorded, _ = two_programs(millrace, 'exec ./first 0.3 /tmp -- ./second 0.6 -')
    found, said = names_by_command(millrace, recorded)
    assert found == {'first': {'fir_hot'}, 'second': {'0x'}}
    assert said.count(f'{recorded.map} {OTHERS_MAP}') == 1


def test_map_of_a_later_program_does_not_name_code_of_the_one_before(millrace, two_programs):
    recorded, _ = two_programs(millrace, 'exec ./first 0.3 /tmp -- sh -c "sleep 0.2; exec ./second 0.6 /tmp"')
    found, said = names_by_command(millrace, recorded)
    assert found == {'first': {'0x'}, 'second': {'sec_hot'}}
    assert said.count(f'{recorded.map} {OTHERS_MAP}') == 1


def test_map_that_two_programs_may_have_written_names_nothing(millrace, two_programs):
    """The second one writes it as it starts: times of files are not that exact."""
    recorded, noted = two_programs(millrace, 'exec ./first 0.3 /tmp -- ./second 0.6 /tmp')
    found, _ = names_by_command(millrace, recorded)
    assert not any('fir_hot' in names or names == {'sec_hot'} for name, names in found.items() if name == 'first')
    assert found['second'] in ({'0x'}, {'sec_hot'})
    assert ('which one wrote it is not known' in noted) == (found['second'] == {'0x'}), noted


def test_map_of_a_program_that_a_launcher_starts(millrace, two_programs):
    recorded, _ = two_programs(millrace, 'exec env -i sh -c "exec ./first 0.3 /tmp -- true"')
    found, said = names_by_command(millrace, recorded)
    assert found['first'] == {'fir_hot'} and not said


LAUNCHER = """
import os
fd = os.memfd_create('launcher')
os.write(fd, open('/bin/sh', 'rb').read())
os.execve(f'/proc/self/fd/{fd}', ['sh', '-c', 'sleep 0.2; exec ./first 0.3 /tmp'], os.environ)
"""


def test_map_of_a_program_that_a_launcher_in_memory_starts(millrace, two_programs, tmp_path):
    """As runc, it runs from a file in memory, which is an ELF file: no code that was compiled at run time."""
    (tmp_path / 'launcher.py').write_text(LAUNCHER)
    recorded, _ = two_programs(millrace, 'exec /usr/bin/python3 launcher.py')
    found, said = names_by_command(millrace, recorded)
    assert found['first'] == {'fir_hot'} and 'perf-' not in said, said


def test_jitdump_ends_with_the_program_that_wrote_it(millrace, two_programs):
    recorded, _ = two_programs(millrace, 'exec ./first 0.3 . dump -- ./second 0.6 -', '-k', 'mono')
    found, _ = names_by_command(millrace, recorded)
    assert found == {'first': {'jit_first', 'jit_second'}, 'second': {'0x'}}


def test_jitdump_and_the_map_of_the_next_program(millrace, two_programs):
    recorded, _ = two_programs(millrace, 'exec ./first 0.3 . dump -- ./second 0.6 /tmp', '-k', 'mono')
    found, said = names_by_command(millrace, recorded)
    assert found['first'] == {'jit_first', 'jit_second'} and found['second'] in ({'sec_hot'}, {'0x'})
    assert 'first' not in said and (found['second'] == {'0x'}) == ('which one wrote it is not known' in said), said


@pytest.mark.parametrize('options', [['-k', 'mono'], []], ids=' '.join)
def test_map_names_what_the_jitdump_of_the_process_has_not(millrace, two_programs, options):
    """Code of another compiler. What the dump has is not named by the map, also where the time is not known."""
    recorded, _ = two_programs(millrace, 'exec ./first 0.4 . both', *options)
    found, _ = names_by_command(millrace, recorded)
    assert found['first'] == {'fir_hot'} | ({'jit_first', 'jit_second'} if options else {'0x'})
    lines = millrace('report', '-i', recorded.data, '-s', 'srcline', '-c', 'first').out
    assert ('second.js:7' in lines) == bool(options) and 'jit_hot' not in lines


def test_jitdump_that_is_gone(millrace, programs, tmp_path, need_root):
    """Its runtime did write one."""
    recorded = record_dump(millrace, programs, tmp_path, '-k', 'mono')
    dump = tmp_path / f'jit-{recorded.pid}.dump'
    dump.unlink()
    _, said = names(millrace, recorded)
    assert f'whose jitdump {dump} is not here any more: record with --bundle keeps it' in said
    assert 'make its runtime write' not in said
