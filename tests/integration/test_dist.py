# SPDX-License-Identifier: MIT
"""What tools/dist makes depends on the commit only."""
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
