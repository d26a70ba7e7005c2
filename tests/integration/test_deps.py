# SPDX-License-Identifier: MIT
"""`tools/deps`: names the packages that are missing."""
import os

from conftest import ROOT


def test_a_node_from_elsewhere_is_taken(run, tmp_path):
    """As no package, it conflicts with those of the distribution."""
    stubs = {'dpkg-query': 'exit 1', 'dpkg': 'echo amd64', 'apt-cache': 'exit 0', 'id': 'echo 1000'}
    for name, text in stubs.items():
        (tmp_path / name).write_text(f'#!/bin/sh\n{text}\n')
        (tmp_path / name).chmod(0o755)
    for name in 'grep', 'tr':
        os.symlink(f'/usr/bin/{name}', tmp_path / name)

    def missing():
        return run(['/bin/sh', ROOT / 'tools' / 'deps', 'readers'], env={'PATH': str(tmp_path)}, status=1).err.split()
    assert {'nodejs', 'npm', 'sqlite3'} <= set(missing())
    for name in 'node', 'npm':
        (tmp_path / name).write_text('')
        (tmp_path / name).chmod(0o755)
    found = missing()
    assert 'sqlite3' in found and not {'nodejs', 'npm'} & set(found)
