# SPDX-License-Identifier: MIT
"""Go programs without a symbol table: their functions have names all the same, by the table of Go's runtime."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import run_command

SOURCE = '''
package main

type counter struct{ n uint64 }

//go:noinline
func (c *counter) method(k uint64) {
        for i := uint64(0); i < 300000; i++ {
                c.n = c.n*6364136223846793005 + k
        }
}

func main() {
        c := &counter{1}
        closure := func() {
                for i := uint64(0); i < 300000; i++ {
                        c.n ^= c.n<<13 ^ i
                }
        }
        calls := []func(){closure, func() { c.method(3) }}
        for i := 0; i < 400; i++ {
                calls[i%2]()
        }
        println(c.n)
}
'''

BUILDS = {
    'plain': [],
    'linked by gcc': ['-ldflags=-linkmode=external'],  # code of C is before that of Go
}


@pytest.fixture(scope='module', params=BUILDS)
def go(request, tmp_path_factory):
    """A directory with `whole` and `stripped`, each with the file at the path of a program."""
    if not shutil.which('go'):
        pytest.skip('Go is not installed')
    place = tmp_path_factory.mktemp('go')
    (place / 'main.go').write_text(SOURCE)
    (place / 'go.mod').write_text('module counter\n')
    run_command(['go', 'build', *BUILDS[request.param], '-o', 'program', '.'], cwd=place, timeout=300,
                env={**os.environ, 'GOFLAGS': ''})
    for name in ['whole', 'stripped']:
        (place / f'{name}{place}').mkdir(parents=True)
    shutil.copy(place / 'program', f'{place}/whole{place}')
    subprocess.run(['strip', '-o', f'{place}/stripped{place}/program', 'program'], cwd=place, check=True)
    shutil.copy(f'{place}/stripped{place}/program', place / 'program')
    return place


@pytest.fixture
def own_home(monkeypatch, tmp_path):
    monkeypatch.setenv('HOME', str(tmp_path / 'own-home'))


@pytest.fixture
def data(millrace, go, own_home, tmp_path):
    millrace('record', '-q', '-e', 'cpu-clock:u', '-F', '999', '-g', '--bundle', '-o', tmp_path / 'data', '--',
             go / 'program', timeout=120)
    return tmp_path / 'data'


RECURSION = '''
package main

//go:noinline
func burn(k uint64) uint64 {
        for i := uint64(0); i < 700000000; i++ {
                k = k*6364136223846793005 + i
        }
        return k
}

//go:noinline
func deeper(left int, k uint64) uint64 {
        var room [8]uint64
        if left == 0 {
                return burn(k)
        }
        room[k%8] = deeper(left-1, k+1)
        return room[k%8] + room[0]
}

func main() { println(deeper(30, 1)) }
'''


@pytest.mark.skipif(not shutil.which('go'), reason='Go is not installed')
@pytest.mark.parametrize('linked', [[], ['-ldflags=-s']], ids=['whole', 'stripped'])
def test_frame_pointers_complete_chains(millrace, need_root, tmp_path, linked):
    """Its code keeps them, up to where a goroutine begins: what does not fit into a copy is not missing."""
    (tmp_path / 'main.go').write_text(RECURSION)
    (tmp_path / 'go.mod').write_text('module deeper\n')
    run_command(['go', 'build', *linked, '-o', 'program', '.'], cwd=tmp_path, timeout=300,
                env={**os.environ, 'GOFLAGS': ''})
    done = millrace('record', '-v', '-e', 'cpu-clock:u', '-F', '499', '--call-graph', 'unwind,1024', '-o',
                    tmp_path / 'data', '--', tmp_path / 'program', timeout=120)
    continued = int(re.search(r'(\d+) of \d+ stacks are continued by frame pointers', done.err)[1])
    cut = re.search(r'(\d+) of \d+ stacks did not fit', done.err)
    assert continued > 50 and int(cut[1] if cut else 0) < continued // 10, done.err


def test_same_names_as_with_symbols(millrace, go, data):
    """Assembly lacks ".abi0", which only the linker knows; some versions of Go leave out type parameters."""
    def text_of(kind):
        text = millrace('script', '-i', data, '-F', 'ip,sym,dso', '--symfs', go / kind).out
        return re.sub(r'\[.*\]', '[...]', re.sub(r'\.abi0\b', '', text)).replace('·', '.')

    texts = [text_of(kind) for kind in ['whole', 'stripped']]
    ours = [[line for line in text.split('\n') if line.rstrip().endswith('program)')] for text in texts]
    assert ours[0] == ours[1]
    for name in ['main.main', 'main.(*counter).method', 'main.main.func1', 'runtime.main']:
        assert any(line.split()[1] == name for line in ours[1])


def test_no_hint_that_it_is_stripped(millrace, go, data):
    done = millrace('report', '--stdio', '-g', 'none', '-s', 'sym', '-i', data)
    assert 'main.(*counter).method' in done.out and 'program is stripped' not in done.err


def test_elsewhere(millrace, go, data):
    """By its copy, which came with the recording."""
    (go / 'program').rename(go / 'hidden')
    try:
        assert 'main.(*counter).method' in millrace('report', '--stdio', '-s', 'sym', '-i', data).out
    finally:
        (go / 'hidden').rename(go / 'program')
