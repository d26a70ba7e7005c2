# SPDX-License-Identifier: MIT
"""Every option of perf's record, report and script is known, and those that are taken mean the same."""
import re
import shutil
import subprocess
import sys

import pytest

import return_addresses
from conftest import MILLRACE, ROOT, run_command

CODE = '''
#include <cstdio>
namespace deep {
	struct Hash {
		unsigned long value;
		__attribute__((always_inline)) inline void step(unsigned i) { value = (value ^ i) * 31; }
	};
	__attribute__((noinline)) void spin(Hash &hash) { for (unsigned i = 0; i < 400000000; i++) hash.step(i); }
}
int main() { deep::Hash hash{1}; deep::spin(hash); std::printf("%lu\\n", hash.value); }
'''


def test_no_option_of_perf_is_unknown(perf):
    """docs/perf-options.md is what the two programs say: tools/perf-options > docs/perf-options.md makes it anew."""
    if not perf('--version').out.startswith('perf version 6.1.'):
        pytest.skip('the page is about perf 6.1')
    done = run_command([sys.executable, ROOT / 'tools' / 'perf-options', '--check'],
                       env={'MILLRACE': str(MILLRACE)}, status=None)
    assert done.status == 0, done.out


@pytest.fixture(scope='module')
def details(perf, millrace, need_root, tmp_path_factory):
    """Samples with weights, cgroups and page sizes."""
    path = tmp_path_factory.mktemp('details') / 'perf.data'
    perf('record', '-q', '--all-cgroups', '-W', '-d', '--code-page-size', '-e', 'cpu-clock', '-g', '-o', path,
         '--', 'ls', '-R', '/usr/include', '/usr/lib')
    return_addresses.move_into_calls(path, perf, millrace)
    return path


def rows(text):
    # perf ends with a tip, of which some have a percentage.
    return [line.rstrip() for line in text.splitlines() if '%' in line and not line.startswith('#')]


@pytest.mark.parametrize('keys', ['cgroup', 'weight', 'local_weight', 'ins_lat', 'local_ins_lat', 'code_page_size',
                                  'addr', 'comm,code_page_size,weight,sym', 'dso,cgroup,addr'])
def test_keys(millrace, perf, details, keys):
    command = ['report', '-i', details, '--stdio', '--no-children', '-g', 'none', '-s', keys]
    theirs = rows(perf(*command).out)
    assert theirs and rows(millrace(*command).out) == theirs


def test_key_is_refused_with_what_to_use(millrace, details):
    done = millrace('report', '-i', details, '-s', 'symbol_daddr', status=129)
    assert 'symbol_daddr is about accesses to memory: count those with --mem-mode' in done.err


def test_fields(millrace, perf, details):
    command = ['script', '-i', details, '-F', 'comm,tid,time,weight,ins_lat,ip,sym,code_page_size']
    ours, theirs = (re.sub(r' +', ' ', done.out) for done in (millrace(*command), perf(*command)))
    assert ours.count('\n') == theirs.count('\n') > 100
    groups = set(millrace('script', '-i', details, '-G', '-F', 'cgroup').out.split())
    assert groups and all(path.startswith('/') for path in groups)


def test_chain_ends_at_a_function(millrace, perf, details):
    inner = perf('script', '-i', details, '-F', 'ip,sym').out
    # With a caller, which is left out: of a function of libc the chain may end there anyway.
    name = next(match for match in re.findall(r'^\t *[0-9a-f]+ (\w+)\n(?=\t)', inner, re.M) if 'sys' in match)
    command = ['script', '-i', details, '-F', 'comm,time,ip,sym', '--stop-bt', name]
    ours = millrace(*command).out
    assert ours == perf(*command).out and ours != millrace(*command[:-2]).out


def test_samples_without_a_symbol_are_left_out(millrace, perf, details):
    command = ['report', '-i', details, '--stdio', '--no-children', '-g', 'none', '-s', 'dso,sym', '-U']
    theirs = rows(perf(*command).out)
    assert theirs and rows(millrace(*command).out) == theirs


@pytest.fixture(scope='module')
def cplusplus(perf, tmp_path_factory):
    if not shutil.which('g++'):
        pytest.skip('g++ is not installed')
    path = tmp_path_factory.mktemp('cplusplus')
    subprocess.run(['g++', '-O2', '-g', '-x', 'c++', '-', '-o', path / 'spin'], input=CODE, text=True, check=True)
    perf('record', '-q', '-F', '500', '-e', 'cpu-clock:u', '--call-graph', 'dwarf,1024', '-o', path / 'perf.data',
         '--', path / 'spin')
    return path / 'perf.data'


@pytest.mark.parametrize('options', [['--no-inline'], ['--no-demangle'], ['--no-inline', '--no-demangle'],
                                     ['--demangle']], ids=' '.join)
def test_names_of_functions(millrace, perf, cplusplus, options):
    command = ['script', '-i', cplusplus, *options, '-F', 'ip,sym']
    ours, theirs = (set(re.findall(r'\S*(?:spin|step)\S*', done.out))
                    for done in (millrace(*command), perf(*command)))
    assert ours and ours == theirs


@pytest.mark.parametrize('options', ['--no-branch-stack', '--no-hierarchy', '--no-source', '--inline',
                                     '--ignore-vmlinux', '-m', '--skip-empty', '--percent-type=local-period'])
def test_what_is_so_anyway_is_taken(millrace, perf, details, options):
    command = ['report', '-i', details, '--stdio', '--no-children', '-g', 'none', '-s', 'comm', options]
    assert rows(millrace(*command).out) == rows(perf(*command).out) != []


def test_spellings_of_the_manual(millrace, details):
    """The installed perf does not know them, perf-report(1) has them."""
    command = ['report', '-i', details, '--no-children', '-s', 'comm']
    assert millrace(*command, '--no-raw-trace').out == millrace(*command).out
    assert millrace(*command, '--showcpuutilization').out == millrace(*command, '--show-cpu-utilization').out
