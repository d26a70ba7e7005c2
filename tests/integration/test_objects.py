# SPDX-License-Identifier: MIT
"""Two files under one path: each is named by its own functions, or not at all. What is gone is kept, but for -N."""
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import threading

import pytest

from conftest import run_command, wait_until, while_it_runs
from screen import Screen

SOURCE = '''
#include <stdlib.h>
#include <time.h>
/* Runs for 0.3 s of CPU time, or for as many seconds as its argument says. */
static volatile unsigned long n;
__attribute__((noinline)) void pad(void) { for (int i = 0; i < PAD; i++) n -= i; }
__attribute__((noinline)) void NAME(void) { for (int i = 0; i < 500000; i++) n += i * (PAD + 1); }
int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 0.3;
    while (clock() < seconds * CLOCKS_PER_SEC)
        NAME();
    pad();
}
'''
MODES = [[], ['--buildid-mmap'], ['--no-buildid']]
APP = f'app{os.getpid()}'  # not the one of a test beside this one, which -a records too
# And not beside each other: -a records the programs of all of them, and a report has hints about each.
pytestmark = pytest.mark.xdist_group('objects')


@pytest.fixture(scope='module')
def builds(tmp_path_factory, need_root):
    place = tmp_path_factory.mktemp('builds')
    (place / 'hot.c').write_text(SOURCE)
    for nr, name in enumerate(['hot_v1_a', 'hot_v2_a_longer_name']):
        # Without a PLT: a sample there has an address in what is compared with perf (names_of_the_plt).
        subprocess.run(['gcc', '-O1', '-fno-plt', '-Wl,--build-id', f'-DNAME={name}', f'-DPAD={nr}',
                        *(['-falign-functions=64'] if nr else []), '-o', place / f'v{nr + 1}', place / 'hot.c'],
                        check=True)
        subprocess.run(['objcopy', '-R', '.note.gnu.build-id', place / f'v{nr + 1}', place / f'n{nr + 1}'], check=True)
    subprocess.run(['gcc', '-O1', '-static', '-Wl,--build-id', '-DNAME=hot_v1_a', '-DPAD=0', '-o', place / 'v1.static',
                    place / 'hot.c'], check=True)
    return place


@pytest.fixture(autouse=True)
def own_home(monkeypatch, tmp_path):
    """A recording of all CPUs that another test made beside these may have kept their objects in the one for all."""
    monkeypatch.setenv('HOME', str(tmp_path / 'own-home'))


def record(millrace, builds, tmp_path, script, *options, keep=('-N',)):
    data = tmp_path / 'data'
    done = millrace('record', '-q', *keep, *options, '-e', 'cpu-clock', '-F', '1999', '-o', data, '--', 'sh', '-ec',
                    script, cwd=tmp_path, env={**os.environ, 'A': APP, 'B': str(builds)})
    assert done.status == 0
    return data


def of_own_files(err, place):
    """Without the hints at files of programs of tests beside this one, which -a records too."""
    lines = [(line, re.search(r' (/[^ ]+)', line)) for line in err.splitlines(keepends=True)]
    return ''.join(line for line, path in lines if not path or path[1].startswith(f'{place}/'))


def report(millrace, data, *options):
    done = millrace('report', '-i', data, '-s', 'dso,sym', '--dsos', APP, *options)
    share = {'hot_v1_a': 0, 'hot_v2_a_longer_name': 0, 'address': 0}
    for part, name in re.findall(r'^ *([\d.]+)%.*\[\.\] (\S+)', done.out, re.M):
        name = 'address' if name.startswith('0x') else name
        share[name] = share.get(name, 0) + float(part)
    return share, of_own_files(done.err, data.parent)


@pytest.mark.parametrize('mode', MODES, ids=' '.join)
def test_deploy(millrace, builds, tmp_path, mode):
    data = record(millrace, builds, tmp_path, 'cp $B/v1 $A; ./$A; cp $B/v2 $A.new; mv $A.new $A', *mode)
    share, said = report(millrace, data)
    assert share['hot_v2_a_longer_name'] == share['hot_v1_a'] == 0 < share['address']
    assert len(re.findall('its functions are not named', said)) == 1, said
    assert ('build-id' in said) and ('has changed' in said) == ('--no-buildid' not in mode), said


@pytest.mark.parametrize('mode', MODES, ids=' '.join)
def test_deploy_in_a_recording_that_is_cut_off(millrace, builds, tmp_path, mode):
    """Without its features it tells neither its machine nor build-ids: the inode is another one."""
    data = record(millrace, builds, tmp_path, 'cp $B/v1 $A; ./$A; cp $B/v2 $A.new; mv $A.new $A', *mode)
    start, size = struct.unpack_from('<2Q', data.read_bytes(), 40)
    os.truncate(data, start + size)
    out = millrace('report', '-i', data, '-s', 'dso,sym', '--dsos', APP, status=255).out
    assert re.search(r'%.*\[\.\] 0x', out) and 'hot_v2' not in out


def test_file_system_can_be_unmounted(millrace, builds, tmp_path):
    """The recorder keeps the files of programs open, but not what they are mounted on: they are named as well."""
    (tmp_path / 'mnt').mkdir()
    script = 'mount -t tmpfs none mnt; trap "umount -l mnt" EXIT; cp $B/v1 mnt/$A; mnt/$A; umount mnt; trap - EXIT'
    data = record(millrace, builds, tmp_path, script, keep=())
    share, _ = report(millrace, data)
    assert share['hot_v1_a'] > 90


@pytest.mark.parametrize('mode', MODES, ids=' '.join)
def test_both_builds(millrace, perf, builds, tmp_path, mode):
    """The old one is kept where the caches of perf are; with --no-buildid nothing tells that it is the one."""
    data = record(millrace, builds, tmp_path, 'cp $B/v1 $A; ./$A; cp $B/v2 $A.new; mv $A.new $A; ./$A', *mode)
    share, _ = report(millrace, data)
    assert share['hot_v1_a'] == 0 < share['hot_v2_a_longer_name'] and share['address'] > 0
    for reader in ['report', 'script', 'buildid-list']:
        perf(reader, '-i', data)
    perf('inject', '-i', data, '-o', tmp_path / 'injected')
    home = tmp_path / 'home'
    build_id = re.search('Build ID: ([0-9a-f]+)', subprocess.run(['readelf', '-n', builds / 'v1'],
                                                                 stdout=subprocess.PIPE, text=True,
                                                                 check=True).stdout).group(1)
    place = home / '.debug' / '.build-id' / build_id[:2] / build_id[2:]
    place.mkdir(parents=True)
    (place / 'elf').write_bytes((builds / 'v1').read_bytes())
    done = millrace('report', '-i', data, '-s', 'dso,sym', env={**os.environ, 'HOME': str(home)})
    assert 'hot_v2_a_longer_name' in done.out
    assert ('hot_v1_a' in done.out) == ('--no-buildid' not in mode)


@pytest.mark.parametrize('mode', MODES, ids=' '.join)
def test_namespace(millrace, builds, tmp_path, mode):
    script = ('cp $B/v2 $A; unshare -m sh -ec "mount --make-rprivate /; mount --bind $B/v1 $A; ./$A" & ./$A; wait')
    # With -a, the MMAP2 records of all other recorders would say that they have build-ids; see test_option_attrs.py.
    options = mode if '--buildid-mmap' in mode else ['-a', *mode]
    share, said = report(millrace, record(millrace, builds, tmp_path, script, *options))
    assert share['hot_v1_a'] == 0 < share['hot_v2_a_longer_name'] and share['address'] > 0
    assert 'its functions are not named' in said and 'is not the file that was recorded' in said, said
    assert '--no-buildid' in mode or 'has changed since, or was in another mount namespace' in said, said


@pytest.fixture
def container(builds, tmp_path):
    """Starts a program in a mount namespace of its own, under a path of the host's; ends with the test."""
    started = []

    def start(build, here=None):
        (tmp_path / 'place').mkdir(exist_ok=True)
        if here:
            shutil.copy(builds / here, tmp_path / 'place' / APP)
        script = ('mount --make-rprivate /; mount -t tmpfs none place; cp "$1" place/$2; '
                  'exec place/$2 1000')
        started.append(subprocess.Popen(['unshare', '-m', 'sh', '-ec', script, 'sh', builds / build, APP],
                                        cwd=tmp_path, stdout=subprocess.DEVNULL))
        pid = started[-1].pid
        wait_until(lambda: pathlib.Path(f'/proc/{pid}/comm').read_text() == f'{APP}\n', 'it runs')
        return pid

    yield start
    for process in started:
        process.kill()
        process.wait()


# Nothing is kept, so that its file is only below the root of its process, as long as that lives.
UNKEPT = [['-B'], ['-N'], ['--buildid-mmap', '-B']]
SHARES = ['report', '--stdio', '-s', 'dso,sym', '--dsos', APP, '--percentage', 'relative']


def record_container(millrace, pid, data, *options):
    millrace('record', '-q', '-a', *options, '-e', 'cpu-clock', '-F', '1999', '-o', data, '--',
             *while_it_runs(pid, 0.2))


@pytest.mark.parametrize('options', UNKEPT, ids=' '.join)
@pytest.mark.parametrize('here', [None, 'v2'])
@pytest.mark.parametrize('build', ['v1', 'n1'], ids=['build-id', 'no build-id'])
def test_container_that_lives(millrace, container, tmp_path, build, here, options):
    pid = container(build, here)
    record_container(millrace, pid, tmp_path / 'data', *options)
    share, said = report(millrace, tmp_path / 'data', '--percentage', 'relative')
    assert share['hot_v1_a'] > 95 and share['address'] == share['hot_v2_a_longer_name'] == 0 and said == '', share
    os.kill(pid, 9)
    wait_until(lambda: not os.path.exists(f'/proc/{pid}/root/'), 'its end')
    share, said = report(millrace, tmp_path / 'data')  # it is gone
    assert share['hot_v1_a'] == share['hot_v2_a_longer_name'] == 0 < share['address']
    assert 'its functions are not named' in said or not here, said


@pytest.mark.parametrize('options', [['-B'], ['--buildid-mmap', '-B']], ids=' '.join)
@pytest.mark.parametrize('build', 'vn', ids=['build-id', 'no build-id'])
def test_container_has_another_file_since(millrace, builds, container, tmp_path, build, options):
    """It may also be another container, whose process has the number now. The last one may have the same inode."""
    pid = container(f'{build}1')
    record_container(millrace, pid, tmp_path / 'data', *options)
    for change in ['mv place/new place/$A', 'rm place/$A; mkfifo place/$A', 'rm place/$A; ln -s new place/$A',
                   f'mount -t tmpfs none place; cp $B/{build}2 place/$A']:
        change = f'cp $B/{build}2 place/new; {change}'
        subprocess.run(['nsenter', '-t', str(pid), '-m', 'sh', '-ec', f'cd "$1"; {change}', 'sh', tmp_path],
                       env={**os.environ, 'A': APP, 'B': str(builds)}, check=True)
        share, _ = report(millrace, tmp_path / 'data')
        assert share['hot_v1_a'] == share['hot_v2_a_longer_name'] == 0 < share['address'], change


def test_container_has_written_to_it_since(millrace, container, tmp_path):
    """By the time of the recording, which is of some time before."""
    pid = container('n1')
    data = tmp_path / 'data'
    record_container(millrace, pid, data, '-B')
    assert report(millrace, data)[0]['hot_v1_a'] > 0
    os.utime(data, (data.stat().st_atime - 1, data.stat().st_mtime - 1))
    os.utime(f'/proc/{pid}/root/{tmp_path}/place/{APP}')
    share, _ = report(millrace, data)
    assert share['hot_v1_a'] == 0 < share['address']


@pytest.mark.parametrize('options', [[], *UNKEPT, ['--buildid-mmap']], ids=' '.join)
def test_container_in_a_recording_of_perf(millrace, perf, container, tmp_path, options):
    pid = container('v1', 'v2')
    perf('record', '-q', '-a', *options, '-e', 'cpu-clock', '-F', '1999', '-o', tmp_path / 'data', '--',
         *while_it_runs(pid, 0.2), env={**os.environ, 'HOME': str(tmp_path / 'other-home')})
    share, said = report(millrace, tmp_path / 'data', '--percentage', 'relative')
    assert share['hot_v1_a'] > 95 and share['address'] == share['hot_v2_a_longer_name'] == 0 and said == ''


@pytest.mark.parametrize('options', [[], ['-B']], ids=' '.join)
@pytest.mark.parametrize('over', ['| $M {} -i -', '>pipe; $M {} -i pipe', '>pipe; $M {} -i - <pipe'],
                         ids=['pipe', 'file', 'file as input'])
def test_container_in_a_pipe(program, run, container, tmp_path, over, options):
    pid = container('v1', 'v2')
    while_run = shlex.join(map(str, while_it_runs(pid, 0.2)))
    line = ' '.join(['$M record -q -a', *options, '-e cpu-clock -F 1999 -o - --', while_run,
                     over.format(' '.join(SHARES))])
    done = run(['sh', '-ec', line], cwd=tmp_path, env={**os.environ, 'M': str(program)})
    assert 'hot_v1_a' in done.out and 'hot_v2' not in done.out and '] 0x' not in done.out, done.out + done.err


READ_BY = {
    'script': 'script -F comm,ip,sym',
    'query': 'query "SELECT * FROM top_functions"',
    'export': 'export --format=folded -o -',
    'diff': f'diff -s dso,sym --dsos {APP} data',
    'unwind': f'unwind -o unwound && $M {" ".join(SHARES)} -i unwound --no-children',
    'srcline': 'script -F +srcline',
    'annotate': f'report --stdio -s dso,sym --dsos {APP} --no-children -g none',
}


@pytest.mark.parametrize('command', READ_BY)
def test_every_reader_names_a_container(program, millrace, run, container, tmp_path, command):
    pid = container('v1', 'v2')
    record_container(millrace, pid, tmp_path / 'data', '-B',
                     *(['--call-graph', 'dwarf'] if command == 'unwind' else ['-g']))
    line = READ_BY[command]
    word = line.split()[0]
    done = run(['sh', '-ec', f'$M {word} ' + ('' if word == 'diff' else '-i data ') + line[len(word):] +
                (' data' if word == 'diff' else '')], cwd=tmp_path, env={**os.environ, 'M': str(program)})
    assert 'hot_v1_a' in done.out and 'hot_v2' not in done.out, done.err


def test_top_names_a_container(container, tmp_path):
    pid = container('v1', 'v2')
    with Screen(['top', '-p', pid, '-e', 'cpu-clock', '-d', '0.2'], cwd=tmp_path) as screen:
        screen.wait('hot_v1_a')


def test_container_of_others(millrace, program, container, tmp_path):
    """An ordinary user may not look at it, and is told no more than of any file."""
    pid = container('v1')
    record_container(millrace, pid, tmp_path / 'data', '-B')
    (tmp_path / 'data').chmod(0o644)
    with open(tmp_path / 'data', 'rb') as data:
        done = subprocess.run(['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups', program, *SHARES,
                               '-i', '/dev/stdin'], stdin=data, capture_output=True, text=True, check=True, cwd='/')
    assert '] 0x' in done.stdout and 'hot_v1' not in done.stdout
    assert re.fullmatch(f'.* of samples: .*/{APP} cannot be read: Permission denied\n', done.stderr)


def test_two_living_builds_have_their_build_ids(millrace, perf, builds, tmp_path):
    """Both still run when the recording ends: one is found in the root of its process, the other under the path."""
    script = ('exec >/dev/null 2>&1; cp $B/v2 $A\n'
              'unshare -m sh -ec "mount --make-rprivate /; mount --bind $B/v1 $A; exec ./$A 1000" & one=$!\n'
              './$A 1000 & two=$!; ran() { read -r line </proc/$1/stat; set -- ${line##*) }; [ ${12} -ge 10 ]; }\n'
              'for i in $one $two; do until [ "$(cat /proc/$i/comm)" = $A ] && ran $i; do sleep 0.02; done; done')
    data = record(millrace, builds, tmp_path, script, '-a')
    reported = re.findall(f'build id event received for .*/{APP}: (.*)', perf('buildid-list', '-v', '-i', data).err)
    assert len(set(reported)) == 2, reported
    for reader in ['report', 'script']:
        perf(reader, '-i', data)


@pytest.mark.parametrize('mode', MODES, ids=' '.join)
def test_written_in_place(millrace, builds, tmp_path, mode):
    """The inode stays, what is in it does not."""
    data = record(millrace, builds, tmp_path, 'cp $B/v1 $A; ./$A; sleep 0.3; cat $B/v2 >$A; $B/v2', *mode)
    share, said = report(millrace, data)
    assert share['hot_v2_a_longer_name'] == share['hot_v1_a'] == 0 < share['address']
    assert 'its functions are not named' in said


REWRITES = {
    'at once': ('./$A 0.004; cat $B/{}2 >$A', ''),
    'before a pause': ('./$A 0.004; cat $B/{}2 >$A; sleep 1', ''),
    'time set back': ('./$A; cp -p $B/{}2 $A', ''),
    'time set back at once': ('./$A 0.004; cp -p $B/{}2 $A', ''),
    'behind the recording': ('./$A 0.004', 'cat $B/{}2 >$A'),
    'behind it, time set back': ('./$A', 'cp -p $B/{}2 $A'),
}


@pytest.mark.parametrize('kind', 'vn', ids=['build-id', 'no build-id'])
@pytest.mark.parametrize('when', REWRITES)
def test_written_in_place_with_any_time(millrace, builds, tmp_path, kind, when):
    """The recorder sees the file while it is mapped, or when; the reader what it is since."""
    run, behind = [part.format(kind) for part in REWRITES[when]]
    data = record(millrace, builds, tmp_path, f'cp $B/{kind}1 $A; {run}')
    subprocess.run(['sh', '-ec', behind], cwd=tmp_path, env={**os.environ, 'A': APP, 'B': str(builds)}, check=True)
    share, said = report(millrace, data)
    assert share['hot_v2_a_longer_name'] == share['hot_v1_a'] == 0 < share['address']
    assert 'its functions are not named' in said


def test_written_in_place_and_run_again(millrace, builds, tmp_path):
    """Two programs with one inode: the build-id of the first, of which there is a copy, is not that of the other."""
    home = tmp_path / 'own-home'
    deleted = record(millrace, builds, tmp_path, 'cp $B/v1 $A; ./$A; cp $B/v2 $A.n; mv $A.n $A', keep=())
    assert report(millrace, deleted)[0]['hot_v1_a'] > 50 and home.exists()
    data = record(millrace, builds, tmp_path, 'rm $A; cp $B/v1 $A; ./$A; cat $B/v2 >$A; ./$A', keep=())
    share, said = report(millrace, data)
    assert share['hot_v2_a_longer_name'] == share['hot_v1_a'] == 0 < share['address']
    assert 'its functions are not named' in said


@pytest.mark.parametrize('recorder', ['perf', 'no build-ids', 'pipe'])
def test_written_in_place_behind_a_recording_that_says_nothing_of_it(millrace, perf, builds, tmp_path, recorder):
    """By the time of the recording, which is of some time before."""
    app, data = tmp_path / APP, tmp_path / 'data'
    shutil.copy2(builds / 'n1', app)
    options = ['record', '-q', '-e', 'cpu-clock', '-F', '1999', '-o', '-' if recorder == 'pipe' else data]
    if recorder == 'perf':
        perf(*options, '--', app)
    elif recorder == 'pipe':
        data.write_bytes(millrace(*options, '--', app, binary=True).out)
    else:
        millrace(*options, '-B', '--', app)
    assert report(millrace, data)[0]['hot_v1_a'] > 50
    app.write_bytes((builds / 'n2').read_bytes())
    os.utime(data, (data.stat().st_atime - 1, data.stat().st_mtime - 1))
    share, said = report(millrace, data)
    assert share['hot_v2_a_longer_name'] == share['hot_v1_a'] == 0 < share['address']
    assert 'its functions are not named' in said


def test_touched(millrace, builds, tmp_path):
    """Its build-id was read while it ran, and is the same."""
    data = record(millrace, builds, tmp_path, 'cp $B/v1 $A; ./$A; touch $A')
    share, said = report(millrace, data, '--percentage', 'relative')
    assert share['hot_v1_a'] > 95 and share['address'] == 0 and said == ''


OVERLAY = ('mkdir low all own; cp $B/v1 low/$A; mount -t tmpfs none own; mkdir own/up own/work; '
           'mount -t overlay none -o lowerdir=low,upperdir=own/up,workdir=own/work all; cd all')
# With --call-graph unwind their tables come from the file that was touched, too.
TOUCHED = {
    'touch': 'cp $B/v1 $A; ./$A; touch $A; ./$A',
    'copy': 'cp $B/v1 $A; ./$A; cp $B/v1 $A; ./$A',
    'two at a time': 'cp $B/v1 $A; ./$A 1 & ./$A 1 & sleep 0.3; touch $A; ./$A; wait',
    'overlay, touch': f'{OVERLAY}; ./$A; touch $A; ./$A',
    'overlay, copy': f'{OVERLAY}; ./$A; cp $B/v1 $A; ./$A',
}


@pytest.mark.parametrize('options', [[], ['--call-graph', 'unwind']], ids=' '.join)
@pytest.mark.parametrize('what', TOUCHED)
def test_touched_and_run_again(program, builds, tmp_path, what, options):
    """Written to, but not changed: the build-id is the same at each start."""
    (tmp_path / 'record').write_text(TOUCHED[what])
    read = f'{program} report -i data -s dso,sym --dsos {APP} --no-children -g none --percentage relative'
    done = run_command(['unshare', '-m', 'sh', '-ec', 'mount --make-rprivate /; cd $0; B=$1 A=$2; export A B; shift 2; '
                        f'"$@" -o data -- sh -e record; {read}', tmp_path, builds, APP, program, 'record', '-q', '-N',
                        '-a', '-e', 'cpu-clock', '-F', '1999', *options])
    share = re.findall(r'^ *([\d.]+)%.*\[\.\] hot_v1_a$', done.out, re.M)
    assert share and float(share[0]) > 95 and '] 0x' not in done.out, (done.out, done.err)
    assert of_own_files(done.err, tmp_path) == ''


@pytest.mark.parametrize('mode', [[], ['--buildid-mmap']], ids=' '.join)
def test_copy_of_another_file_with_the_build_id(millrace, builds, tmp_path, mode):
    """As patchelf leaves it equal in what it rewrites. The file is there: what was kept of another is not asked."""
    build_id = 'ab' * 20
    for nr, name in enumerate(['hot_v1_a', 'hot_v2_a_longer_name']):
        subprocess.run(['gcc', '-O1', '-fno-plt', f'-Wl,--build-id=0x{build_id}', f'-DNAME={name}', f'-DPAD={nr}',
                        *(['-falign-functions=256'] if nr else []), '-o', tmp_path / f'same{nr}', builds / 'hot.c'],
                       check=True)
    data = record(millrace, builds, tmp_path, 'cp same1 $A; ./$A', *mode)
    place = tmp_path / 'own-home' / '.debug' / '.build-id' / build_id[:2] / build_id[2:]
    place.mkdir(parents=True)
    shutil.copy(tmp_path / 'same0', place / 'elf')
    share, _ = report(millrace, data)
    assert share['hot_v2_a_longer_name'] > 90 and share['hot_v1_a'] == share['address'] == 0
    (tmp_path / APP).unlink()
    assert report(millrace, data)[0]['hot_v2_a_longer_name'] == 0, 'the copy is what there is'


@pytest.mark.parametrize('options', [[], ['--bundle']], ids=' '.join)
@pytest.mark.parametrize('gone', ['1 2', '2', ''])
def test_two_files_with_one_build_id(millrace, builds, tmp_path, gone, options):
    """Of those that go while they run, that go later, or are read elsewhere, each has its own names, or none."""
    if not options and not gone:
        pytest.skip('no copy is made of what is under its path')
    for nr, name in enumerate(['hot_v1_a', 'hot_v2_a_longer_name'], 1):
        subprocess.run(['gcc', '-O1', '-fno-plt', f'-Wl,--build-id=0x{"cd" * 20}', f'-DNAME={name}', '-DPAD=1', '-o',
                        tmp_path / f'{APP}-{nr}', builds / 'hot.c'], check=True)
    (tmp_path / 'run').write_text(RUN)
    remove = ' '.join(f'{APP}-{nr}' for nr in gone.split()) or '/dev/null/none'
    data = record(millrace, builds, tmp_path, 'export HELD=y RECORDER=$PPID; '
                  f'for nr in 1 2; do A=$A-$nr sh run ./$A-$nr; done; rm -f {remove}', *options, keep=())
    for nr in 1, 2:
        (tmp_path / f'{APP}-{nr}').unlink(missing_ok=True)
    for nr, name in enumerate(['hot_v1_a', 'hot_v2_a_longer_name'], 1):
        out = millrace('report', '-i', data, '-s', 'dso,sym', '--dsos', f'{APP}-{nr}', '--percent-limit', '1').out
        assert re.findall(r'\[\.\] (\S+)', out) == [name], out


def test_a_bundle_has_what_ran(millrace, builds, tmp_path):
    """Not what another recording has kept of another file with that build-id."""
    build_id = 'ef' * 20
    for nr, name in enumerate(['hot_v1_a', 'hot_v2_a_longer_name'], 1):
        subprocess.run(['gcc', '-O1', '-fno-plt', f'-Wl,--build-id=0x{build_id}', f'-DNAME={name}', '-DPAD=1', '-o',
                        tmp_path / f'same{nr}', builds / 'hot.c'], check=True)
    place = tmp_path / 'own-home' / '.debug' / '.build-id' / build_id[:2] / build_id[2:]
    place.mkdir(parents=True)
    shutil.copy(tmp_path / 'same1', place / 'elf')
    (tmp_path / 'run').write_text(RUN)
    data = record(millrace, builds, tmp_path, 'cp same2 $A; export HELD=y RECORDER=$PPID; sh run ./$A; rm $A',
                  '--bundle', keep=())
    share, _ = report(millrace, data)
    assert share['hot_v2_a_longer_name'] > 0 and share['hot_v1_a'] == share['address'] == 0


@pytest.mark.parametrize('build_id', ['0xabcdef0123', '0x' + 'ab' * 27])
def test_build_id_of_any_length(millrace, builds, tmp_path, build_id):
    """As of a commit; linkers do not pad it."""
    subprocess.run(['gcc', '-O1', '-fno-plt', f'-Wl,--build-id={build_id}', '-DNAME=hot_v1_a', '-DPAD=0', '-o',
                    tmp_path / 'odd', builds / 'hot.c'], check=True)
    share, said = report(millrace, record(millrace, builds, tmp_path, 'cp odd $A; ./$A'))
    assert share['hot_v1_a'] > 90 and share['address'] == 0 and not said


def test_programs_outside_of_the_process_namespace(run, program, tmp_path):
    """Their processes have the number 0 there. Several of them map the same files, which are open by then."""
    recorder = ['unshare', '-p', '-f', '--mount-proc', program, 'record', '-q', '-a', '-e', 'dummy',
                '-o', tmp_path / 'data', '--', 'sleep', '0.5']
    run(['sh', '-ec', 'for i in $(seq 300); do sleep 0.001; done & "$@"; wait', 'sh', *recorder], timeout=60)


@pytest.mark.parametrize('last', [1, 2])
def test_another_build_for_a_while(millrace, builds, tmp_path, last):
    """Its build-id is the first one's again at the end, but not what ran in between."""
    data = record(millrace, builds, tmp_path, f'cp $B/v1 $A; ./$A; cat $B/v2 >$A; ./$A; cat $B/v{last} >$A; ./$A')
    share, said = report(millrace, data)
    assert share['hot_v2_a_longer_name'] == share['hot_v1_a'] == 0 < share['address']
    assert 'its functions are not named' in said


@pytest.mark.parametrize('mode', MODES, ids=' '.join)
def test_unchanged(millrace, builds, tmp_path, mode):
    data = record(millrace, builds, tmp_path, 'cp $B/v1 $A; ./$A', *mode)
    # Of the program's own code: sh and cp may take a tenth of so short a recording.
    share, said = report(millrace, data, '--percentage', 'relative')
    assert share['hot_v1_a'] > 95 and share['address'] == 0 and said == ''


# A file that is nowhere to be found when the recording has ended; OWN: in a mount namespace.
OWN = 'mount --make-rprivate /; mount -t tmpfs none own; '
GONE = {
    'deploy': 'cp $B/v1 $A; sh run ./$A; cp $B/v2 $A.new; mv $A.new $A',
    'deleted': 'cp $B/v1 $A; sh run ./$A; rm $A',
    'namespace': f'unshare -m sh -ec "{OWN} cp $B/v1 own/$A; sh run own/$A"',
    'short': f'unshare -m sh -ec "{OWN} cp $B/v1 own/$A; own/$A 0.01; own/$A 0.01; own/$A 0.01"',
    'namespace and here': f'cp $B/v2 $A; unshare -m sh -ec "{OWN} cp $B/v1 own/$A; mount --bind own/$A $A; '
                          'sh run ./$A"; ./$A',
    'overlay': f'mkdir low all; unshare -m sh -ec "{OWN} mkdir own/up own/work; mount -t overlay none -o lowerdir=low,'
               'upperdir=own/up,workdir=own/work all; cp $B/v1 all/$A; sh run all/$A"',
    'chroot': 'mkdir -p own/bin; cp $B/v1.static own/bin/$A; sh run chroot own /bin/$A; rm -r own',
    'memfd': 'sh run python3 memfd.py',
}
OF_OURS = 'cp $B/v1 own/$A; own/$A'
MEMFD = """
import os
import sys
fd = os.memfd_create(os.environ['A'])
os.write(fd, open(os.environ['B'] + '/v1', 'rb').read())
os.execve(f'/proc/self/fd/{fd}', [os.environ['A'], *sys.argv[1:]], os.environ)
"""
# Runs a program. With $HELD, it ends as soon as it has had 0.3 s of CPU time and the recorder has its file open: on a
# busy machine the recorder may look later than that, and then the file of a program that has ended is not found.
RUN = """
[ "$HELD" ] || exec "$@"
"$@" 1000 & pid=$!
is_it() { case $(readlink /proc/$pid/exe) in *$A*) ;; *) false ;; esac; }
is_held() { stat -L -c %d:%i /proc/$RECORDER/fd/* 2>/dev/null | grep -qx "$(stat -L -c %d:%i /proc/$pid/exe)"; }
ran() { read -r line </proc/$pid/stat; set -- ${line##*) }; [ ${12} -ge $(($(getconf CLK_TCK) * 3 / 10)) ]; }
until is_it && ran && is_held; do sleep 0.02; done
kill $pid
wait $pid || :
"""


@pytest.fixture
def record_what_goes(program, builds, tmp_path):
    def run(what, *options, within=(), status=0, held=False, **environ):
        """held: the recorder has the file open before the program ends."""
        (tmp_path / 'own').mkdir(exist_ok=True)
        (tmp_path / 'memfd.py').write_text(MEMFD)
        (tmp_path / 'run').write_text(RUN)
        return run_command([*within, program, 'record', *options, '-e', 'cpu-clock', '-F', '4999', '-o',
                            tmp_path / 'data', '--', 'sh', '-ec', 'export RECORDER=$PPID; ' + GONE.get(what, OF_OURS)],
                           cwd=tmp_path, status=status,
                           env={**os.environ, **environ, 'A': APP, 'B': str(builds), 'HELD': 'y' if held else ''})
    return run


@pytest.mark.parametrize('what', GONE)
def test_kept_while_it_lived(millrace, perf, record_what_goes, tmp_path, what):
    """Named by its own functions, by perf as well."""
    home = {'HOME': str(tmp_path / 'home')}
    done = record_what_goes(what, '-a', held=True, **home)
    assert f'into {tmp_path}/home/.debug, because' in done.err
    for reader in [millrace] + [perf] * ('here' not in what):  # of two files under one path perf knows one
        out = reader('report', '-i', tmp_path / 'data', '-s', 'dso,sym', '--dsos', f'{APP},memfd:{APP} (deleted)',
                      '--percent-limit', '0', env={**os.environ, **home}).out
        assert 'hot_v1_a' in out and ('hot_v2_a_longer_name' in out) == ('here' in what), (out, done.err)
        assert not re.search(r'\[\.\] 0x', out), out


# Files of the recorder's own mount namespace, in which it is itself. An ordinary user needs a user namespace for one.
OURS = {
    'mount': ['unshare', '-m'],
    'user': ['unshare', '-U', '-r', '-m'],
    'process 1': ['unshare', '-p', '-f', '--mount-proc', 'sh', '-c', 'unshare -m "$@"; exit $?', 'sh'],
}


@pytest.mark.parametrize('kind', OURS)
def test_kept_of_our_own_mount_namespace(millrace, record_what_goes, tmp_path, kind):
    """Also when it ends and its file is still under its path; what others have there, too, is not copied."""
    home = {'HOME': str(tmp_path / 'home')}
    (tmp_path / 'home').mkdir()
    done = record_what_goes('ours', within=[*OURS[kind], 'sh', '-ec', OWN + 'exec "$@"', 'sh'], **home)
    assert 'copied 1 object' in done.err, done.err
    out = millrace('report', '-i', tmp_path / 'data', '-s', 'dso,sym', '--dsos', APP, '--percent-limit', '0',
                   env={**os.environ, **home}).out
    assert 'hot_v1_a' in out and not re.search(r'\[\.\] 0x', out), out


def test_not_kept_with_no_buildid_cache(record_what_goes, tmp_path):
    done = record_what_goes('deleted', '-N', HOME=str(tmp_path / 'home'))
    assert 'copied' not in done.err and not (tmp_path / 'home').exists()


def test_objects_that_were_gone_are_reported(millrace, record_what_goes, tmp_path):
    """With as few descriptors as are needed none is held open for it."""
    home = {'HOME': str(tmp_path / 'home')}
    def record(most_fds, status):
        within = ['setpriv', '--bounding-set=-sys_resource', 'prlimit', f'--nofile={most_fds}:{most_fds}']
        return record_what_goes('deleted', within=within, status=status, **home)
    needed = int(re.search(r'needs (\d+) file descriptors', record(12, 255).err)[1])
    done = record(needed, 0)
    assert '1 object was removed, written to, or not accessible, before it could be read: ' \
           f'code in {tmp_path}/{APP} has no names\n' in done.err
    said = millrace('report', '-i', tmp_path / 'data', '-s', 'dso,sym', env={**os.environ, **home}).err
    assert f'{tmp_path}/{APP} is not here: it was removed, or not accessible, before record could read it' in said, said
    assert 'could be read' not in record_what_goes('deleted', held=True, **home).err


def test_objects_that_were_written_to_are_reported(program, builds, tmp_path):
    """Whether it is the same code that ran is not known then."""
    copy = f'cp {builds}/n1 {APP}; ./{APP} 0.3; touch {APP}'
    done = run_command([program, 'record', '-N', '-e', 'cpu-clock', '-o', 'data', '--', 'sh', '-ec', copy],
                       cwd=tmp_path)
    assert '1 object was removed, written to, or not accessible, before it could be read: ' \
           f'code in {tmp_path}/{APP} has no names\n' in done.err, done.err


@pytest.mark.parametrize('goes', ['rm $A', 'cp $B/v2 $A.n; mv $A.n $A', ''])
def test_a_pipe_says_what_is_not_kept(program, builds, tmp_path, goes):
    """Nothing that came through it is read back."""
    said = []
    for options in [], ['-N'], ['-B']:
        run = f'cp $B/v1 $A; ./$A 0.3; {goes}'
        done = run_command([program, 'record', *options, '-e', 'cpu-clock', '-o', '-', '--', 'sh', '-ec', run],
                           cwd=tmp_path, binary=True, env={**os.environ, 'A': APP, 'B': str(builds)})
        said += re.findall('.*under (?:its|their) path.*', done.err.decode())
    assert said == ['millrace: 1 mapped object is not under its path here any more, and a recording into a pipe keeps '
                    'no copies: code in it will have no names, but where a container that lives has the file'
                    ] * bool(goes)


def test_the_limit_is_that_of_all_files(program, builds, tmp_path):
    """With --switch-output: a recorder that goes on for weeks fills no disk."""
    run = ''.join(f'cp {builds}/{name} {name}; truncate -s 600M {name}; sleep 0.1; ./{name} 0.3; rm {name}; '
                  'kill -USR2 $PPID; sleep 0.3; ' for name in ('v1', 'v2'))
    done = run_command([program, 'record', '--switch-output', '--buildid-dir', 'cache', '-e', 'cpu-clock', '-o', 'data',
                        '--', 'sh', '-ec', run], cwd=tmp_path)
    kept = [path for path in (tmp_path / 'cache').glob('.build-id/*/*/elf') if path.stat().st_size == 600 << 20]
    for path in kept:
        path.unlink()
    assert len(kept) == 1, done.err
    assert '1 object to which its path does not lead is not kept: all together would be larger than 1073 MB' in done.err


def test_kept_once_in_a_directory_of_choice(record_what_goes, builds, tmp_path):
    cache = tmp_path / 'cache'
    inodes = set()
    for nr in range(2):
        said = record_what_goes('deleted', '--buildid-dir', cache, held=True).err
        assert nr or 'copied' in said
        # A recorder in a mount namespace of its own keeps libraries there, too, each when it is first sampled.
        elf, = (path for path in cache.glob('.build-id/*/*/elf') if APP in path.resolve().parts)
        inodes.add(elf.stat().st_ino)
    assert len(inodes) == 1, 'it was copied again'
    assert elf.read_bytes() == (builds / 'v1').read_bytes() and elf.resolve().is_relative_to(cache)
    assert [path for path in cache.rglob('*') if path.name.startswith('.elf')] == []


def test_a_directory_of_choice_is_read(millrace, perf, record_what_goes, tmp_path):
    """As by perf; and the kernel's symbols, too."""
    cache, data = tmp_path / 'cache', tmp_path / 'data'
    record_what_goes('deleted', '--buildid-dir', cache, held=True)
    options = ['-i', data, '-s', 'dso,sym', '--dsos', APP]
    assert 'hot_v1_a' in perf('--buildid-dir', cache, 'report', *options).out
    for options_of_choice in [['--buildid-dir', cache], [f'--buildid-dir={cache}', '--symfs', tmp_path / 'nothing']]:
        done = millrace('report', *options, *options_of_choice)
        assert 'hot_v1_a' in done.out and not re.search(r'\[\.\] 0x', done.out), done.out
    assert 'hot_v1_a' in millrace('script', '-i', data, '-F', 'comm,ip,sym', '--buildid-dir', cache).out
    done = millrace('report', *options)
    assert 'hot_v1_a' not in done.out
    assert "no copy of it: record with --bundle, or name record's --buildid-dir" in done.err


@pytest.mark.parametrize('option', ['-B', '--buildid-mmap'])
def test_options_that_keep_no_copies_are_named(millrace, record_what_goes, tmp_path, option):
    """With them --bundle is refused, and --buildid-dir has no effect."""
    record_what_goes('deleted', option)
    said = millrace('report', '-i', tmp_path / 'data', '--buildid-dir', tmp_path / 'none').err
    assert f'{APP} is not here, and record keeps no copies with -B or --buildid-mmap: leave them out' in said
    assert '--bundle' not in said


def test_why_a_directory_is_not_used(record_what_goes, tmp_path):
    """Others could put a copy there that readers believe."""
    cache = tmp_path / 'cache'
    cache.mkdir()
    cache.chmod(0o1777)
    said = record_what_goes('deleted', '--buildid-dir', cache, held=True).err
    assert re.search(f': cannot keep a copy in {cache}: other users can write to it\n', said), said
    cache.chmod(0o700)
    os.chown(cache, 65534, 65534)
    said = record_what_goes('deleted', '--buildid-dir', cache, held=True).err
    assert re.search(f': cannot keep a copy in {cache}: it does not belong to the user who records\n', said), said


@pytest.mark.parametrize('what', ['namespace', 'deleted'])
def test_bundle_has_what_goes(millrace, record_what_goes, tmp_path, what):
    """Elsewhere there is no ~/.debug."""
    home = {'HOME': str(tmp_path / 'home')}
    record_what_goes(what, '-a', '--bundle', held=True, **home)
    assert not (tmp_path / 'home').exists()
    out = millrace('report', '-i', tmp_path / 'data', '-s', 'dso,sym', '--dsos', APP, env={**os.environ, **home}).out
    assert 'hot_v1_a' in out and not re.search(r'\[\.\] 0x', out), out


def test_names_of_what_debuginfod_has_downloaded(millrace, builds, tmp_path):
    """Stripped, and its debug file only where debuginfod-find(1) keeps it."""
    data = record(millrace, builds, tmp_path, 'cp $B/v1 $A; strip $A; ./$A')
    share, _ = report(millrace, data)
    assert share['hot_v1_a'] == 0 < share['address']
    text = subprocess.run(['readelf', '-n', builds / 'v1'], stdout=subprocess.PIPE, text=True, check=True).stdout
    place = tmp_path / 'debuginfod' / re.search('Build ID: ([0-9a-f]+)', text).group(1)
    place.mkdir(parents=True)
    subprocess.run(['objcopy', '--only-keep-debug', builds / 'v1', place / 'debuginfo'], check=True)
    found = millrace('report', '-i', data, '-s', 'dso,sym',
                     env={**os.environ, 'DEBUGINFOD_CACHE_PATH': str(place.parent)})
    assert 'hot_v1_a' in found.out


DWZ = SOURCE.replace('__attribute__((noinline)) void NAME(void)', """
static inline __attribute__((always_inline)) void inlined(void) { for (int i = 0; i < 1000; i++) n += i; }
__attribute__((noinline)) void NAME(void)""").replace('NAME();', '{ NAME(); for (int i = 0; i < 100; i++) inlined(); }')


def test_fifo_in_place_of_alternate_debug_information(millrace, builds, tmp_path):
    """dwz(1) moves what two programs have in common into a third file, which may be a fifo."""
    if not shutil.which('dwz'):
        pytest.skip('dwz is not installed')
    (tmp_path / 'app.c').write_text(DWZ)
    for name in ['app', 'other']:
        subprocess.run(['gcc', '-g', '-O1', '-DNAME=hot', '-DPAD=0', '-Wl,--build-id', '-o', name, 'app.c'],
                       cwd=tmp_path, check=True)
    subprocess.run(['dwz', '-m', 'common', '-M', tmp_path / 'common', 'app', 'other'], cwd=tmp_path, check=True)
    data = tmp_path / 'data'
    millrace('record', '-q', '--call-graph', 'dwarf,1024', '-e', 'cpu-clock', '-F', '999', '-o', data, '--', './app',
             cwd=tmp_path)
    assert re.search(r'inlined\+0x\S+ \(inlined\)', millrace('script', '-i', data).out)
    (tmp_path / 'common').unlink()
    os.mkfifo(tmp_path / 'common')
    script = millrace('script', '-i', data, timeout=30)  # with inlined functions of the libc where its debug file is
    assert re.search(r'\bhot\+', script.out) and not re.search(r'\binlined\+', script.out)


def test_object_is_cut_while_it_is_read(millrace, builds, tmp_path):
    """Objects are read, not mapped: one that gets shorter ends neither the recorder nor the reader by SIGBUS."""
    (tmp_path / 'app.c').write_text(DWZ)
    subprocess.run(['gcc', '-g', '-O1', '-DNAME=hot', '-DPAD=0', '-Wl,--build-id', '-o', APP, 'app.c'], cwd=tmp_path,
                   check=True)
    whole = (tmp_path / APP).read_bytes()
    data, over, nr_cuts = tmp_path / 'data', threading.Event(), 0

    def cut_again_and_again():
        nonlocal nr_cuts
        while not over.is_set():
            try:
                with open(tmp_path / APP, 'r+b') as app:
                    app.truncate(len(whole) * (nr_cuts % 16) // 16)
                    nr_cuts += 1
                    app.write(whole)
            except OSError:  # it still runs: ETXTBSY
                over.wait(0.01)

    thread = threading.Thread(target=cut_again_and_again)
    thread.start()
    try:
        for graph in ['unwind', 'dwarf,1024']:
            millrace('record', '-q', '--bundle', '--call-graph', graph, '-e', 'cpu-clock', '-F', '999', '-o', data,
                     '--', 'sh', '-c', f'until ./{APP} 0.2 2>/dev/null; do :; done; sleep 0.2', cwd=tmp_path)
        for _ in range(10):
            millrace('report', '-i', data, '-s', 'sym,srcline', '--inline')
    finally:
        over.set()
        thread.join()
    assert nr_cuts > 100


KERNEL_CODE = ['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=64k', 'count=20000']


@pytest.fixture
def kernel_data(millrace, tmp_path, need_root):
    """A recording of kernel code, and what was kept of the kernel's symbols."""
    data, cache = tmp_path / 'data', tmp_path / 'own-home' / '.debug' / '[kernel.kallsyms]'
    millrace('record', '-q', '-e', 'cpu-clock', '-F', '4999', '-g', '-o', data, '--', *KERNEL_CODE)
    kept, = cache.glob('*/kallsyms')
    return data, kept


def named(run, program, tmp_path, data):
    """The report, and whether it had to ask the kernel."""
    calls = tmp_path / 'calls'
    # Looking for leaks takes ptrace(2), as strace does.
    without_leaks = {'ASAN_OPTIONS': f'{os.environ.get("ASAN_OPTIONS", "")}:detect_leaks=0'}
    done = run(['strace', '-f', '-o', calls, '-e', 'trace=openat', program, 'report', '-i', data], env=without_leaks)
    assert 'kernel' not in done.err
    return done.out, '"/proc/kallsyms"' in calls.read_text()


def test_a_copy_of_the_kernels_symbols(run, program, tmp_path, kernel_data):
    data, kept = kernel_data
    assert kept.read_bytes() == pathlib.Path('/proc/kallsyms').read_bytes()
    before = kept.stat().st_ino
    by_copy, asked = named(run, program, tmp_path, data)
    assert not asked and re.search(r'\[k\] [a-z_]*read', by_copy)
    run([program, 'record', '-q', '-e', 'cpu-clock', '-o', tmp_path / 'second', '--', *KERNEL_CODE])
    assert kept.stat().st_ino == before, 'it was copied again'
    text = kept.read_text()
    # Of a boot at which the kernel was elsewhere.
    kept.write_text(re.sub('^ffff[0-9a-f]+', lambda found: f'{int(found[0], 16) + 0x1200000:016x}', text, flags=re.M))
    assert named(run, program, tmp_path, data) == (by_copy, False)
    # What does not tell where it was, or hides it, or was cut, is not used.
    for wrong in (text[:len(text) // 2], text[:text.index(' _etext') + 4],
                  re.sub('^.* _s?text$', '', text, flags=re.M), re.sub('^[0-9a-f]+', '0' * 16, text, flags=re.M), ''):
        kept.write_text(wrong)
        assert named(run, program, tmp_path, data) == (by_copy, True)
    kept.unlink()
    assert named(run, program, tmp_path, data) == (by_copy, True)


def test_no_copy_of_the_kernels_symbols(millrace, tmp_path, need_root):
    millrace('record', '-q', '-N', '-e', 'cpu-clock', '-g', '-o', tmp_path / 'data', '--', *KERNEL_CODE)
    assert not (tmp_path / 'own-home').exists()
