# SPDX-License-Identifier: MIT
"""What tools/dist makes depends on the commit only; `make install` installs where it is told."""
import os
import re
import shutil
import subprocess
import tarfile

import pytest

from conftest import ROOT


def test_no_setting_of_git_changes_the_tarball(tmp_path):
    """Of a commit with what takes part in it: xz needs 8 s for all files, and has one setting."""
    if not (ROOT / '.git').exists() or not shutil.which('git'):
        pytest.skip('no checkout')
    run = {'check': True, 'stdout': subprocess.PIPE, 'text': True, 'timeout': 120}
    git = ['git', '-C', tmp_path / 'tree', '-c', 'user.name=test', '-c', 'user.email=test@localhost']
    for name in ('.gitattributes', 'meson.build', 'tools/commit-id', 'tools/dist'):
        (tmp_path / 'tree' / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / 'tree' / name)
    for command in (['init', '-q'], ['add', '.'], ['commit', '-q', '-m', 'what a tarball is made of']):
        subprocess.run([*git, *command], **run)
    settings = {'GIT_CONFIG_COUNT': '1', 'GIT_CONFIG_KEY_0': 'core.abbrev', 'GIT_CONFIG_VALUE_0': '5'}
    subprocess.run([tmp_path / 'tree' / 'tools' / 'dist'], env={**os.environ, **settings}, **run)
    head = subprocess.run(['git', '-C', tmp_path / 'tree', 'rev-parse', 'HEAD'], **run).stdout.strip()
    tarball, = (tmp_path / 'tree' / 'build-dist').glob('*.tar.xz')
    with tarfile.open(tarball) as packed:
        name = tarball.name.removesuffix('.tar.xz')
        text = packed.extractfile(f'{name}/tools/commit-id').read().decode()
    assert re.search(r"^exported='(.*)'$", text, re.M)[1] == head[:10]


MESON_BUILD = """
project('small', version: '1', meson_version: '>=1.0.0')
install_data('page', install_dir: get_option('datadir'))
configure_file(input: 'service', output: 'small.service', install_dir: 'lib', configuration: {
               'BINDIR': get_option('prefix') / get_option('bindir')})
"""


def test_make_install_obeys_prefix_and_destdir(tmp_path):
    """With the Makefile as it is, and a project of two files: what Meson does with ours is the same."""
    if not shutil.which('make') or not shutil.which('meson'):
        pytest.skip('no make or no meson')
    shutil.copy(ROOT / 'Makefile', tmp_path)
    (tmp_path / 'meson.build').write_text(MESON_BUILD)
    (tmp_path / 'page').write_text('text')
    (tmp_path / 'service').write_text('@BINDIR@')
    (tmp_path / 'tools').mkdir()
    (tmp_path / 'tools' / 'deps').symlink_to('/bin/true')

    def install(*words):
        subprocess.run(['make', '-C', tmp_path, 'install', *words], check=True, timeout=120, stdout=subprocess.PIPE,
                       env={name: value for name, value in os.environ.items() if name not in ('PREFIX', 'DESTDIR')})

    stage = tmp_path / 'stage'
    install(f'DESTDIR={stage}')
    assert (stage / 'usr/local/share/page').exists()
    install(f'DESTDIR={stage}', 'PREFIX=/opt/millrace')
    assert (stage / 'opt/millrace/share/page').exists()
    assert (stage / 'opt/millrace/lib/small.service').read_text() == '/opt/millrace/bin'
    install(f'PREFIX={tmp_path}/own')
    assert (tmp_path / 'own/share/page').exists()
