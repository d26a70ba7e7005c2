# SPDX-License-Identifier: MIT
"""A file system in user space that shows what a power cut would leave: sync_fs.py DIRECTORY. Ends when it is unmounted.

DIRECTORY/synced has the files as they were at their last fsync(2) or fdatasync(2), under the names that each directory
had at its last fsync(2).
"""
import errno
import stat
import sys
import time

from fusepy import FUSE, FuseOSError, Operations

SYNCED = 'synced'


BLOCK = 1 << 14


class Contents:
    """Of a file: blocks of bytes that never change, so that copies share them; those that are not there are zeroes."""

    def __init__(self, size=0, blocks=None):
        self.size, self.blocks, self.changed = size, blocks or {}, set()  # changed: numbers of blocks, since the sync

    def read(self, offset, size):
        end = min(offset + size, self.size)
        first, zeroes = offset // BLOCK, bytes(BLOCK)
        blocks = [self.blocks.get(number, zeroes) for number in range(first, (end + BLOCK - 1) // BLOCK)]
        return b''.join(blocks)[offset - first * BLOCK:end - first * BLOCK]

    def write(self, offset, data):
        self.size = max(self.size, offset + len(data))
        at = 0
        while at < len(data):
            number, begin = divmod(offset + at, BLOCK)
            part = data[at:at + BLOCK - begin]
            if len(part) < BLOCK:
                old = self.blocks.get(number, bytes(BLOCK))
                part = b''.join((old[:begin], part, old[begin + len(part):]))
            self.blocks[number] = part
            self.changed.add(number)
            at += BLOCK - begin

    def truncate(self, size):
        if size < self.size:
            whole, rest = divmod(size, BLOCK)
            gone = [number for number in self.blocks if number > whole or (number == whole and not rest)]
            for number in gone:
                del self.blocks[number]
            self.changed.update(gone)
            if rest and whole in self.blocks:
                self.blocks[whole] = self.blocks[whole][:rest].ljust(BLOCK, b'\0')
                self.changed.add(whole)
        self.size = size

    def sync_to(self, synced):
        """Only what has changed is copied: a file of 64 MiB may be synced ten times in a second."""
        for number in self.changed:
            if number in self.blocks:
                synced.blocks[number] = self.blocks[number]
            else:
                synced.blocks.pop(number, None)
        self.changed.clear()
        synced.size = self.size


class Node:
    """A file, or with names, {name: Node}, a directory."""

    def __init__(self, names=None, contents=None):
        self.names, self.contents = names, contents or Contents()
        self.synced = Contents() if names is None else {}

    def sync(self):
        if self.names is None:
            self.contents.sync_to(self.synced)
        else:
            self.synced = dict(self.names)

    def after_power_cut(self):
        """Not to be written to."""
        if self.names is None:
            return Node(contents=self.synced)
        return Node({name: node.after_power_cut() for name, node in self.synced.items()})


class SyncFs(Operations):
    def __init__(self):
        self.root = Node({})

    def find(self, path):
        names = [name for name in path.split('/') if name]
        node = self.root
        if names[:1] == [SYNCED]:
            node, names = node.after_power_cut(), names[1:]
        for name in names:
            node = (node.names or {}).get(name)
            if not node:
                raise FuseOSError(errno.ENOENT)
        return node

    def parent(self, path):
        above, _, name = path.rpartition('/')
        return self.find(above).names, name

    def getattr(self, path, fh=None):
        node = self.find(path)
        if node.names is not None:
            return {'st_mode': stat.S_IFDIR | 0o700, 'st_nlink': 2, 'st_mtime': time.time()}
        return {'st_mode': stat.S_IFREG | 0o600, 'st_nlink': 1, 'st_size': node.contents.size, 'st_mtime': time.time()}

    def readdir(self, path, fh):
        return ['.', '..', *self.find(path).names]

    def create(self, path, mode, fi=None):
        names, name = self.parent(path)
        names[name] = Node()
        return 0

    def mkdir(self, path, mode):
        names, name = self.parent(path)
        names[name] = Node({})

    def unlink(self, path):
        names, name = self.parent(path)
        del names[name]

    rmdir = unlink

    def rename(self, old, new):
        names, name = self.parent(old)
        to, new_name = self.parent(new)
        to[new_name] = names.pop(name)

    def read(self, path, size, offset, fh):
        return self.find(path).contents.read(offset, size)

    def truncate(self, path, length, fh=None):
        self.find(path).contents.truncate(length)

    def write(self, path, data, offset, fh):
        self.find(path).contents.write(offset, data)
        return len(data)

    def fsync(self, path, datasync, fh):
        self.find(path).sync()
        return 0

    def fsyncdir(self, path, datasync, fh):
        return self.fsync(path, datasync, fh)

    def chmod(self, path, mode):
        return 0


if __name__ == '__main__':
    FUSE(SyncFs(), sys.argv[1], foreground=True, nothreads=True, big_writes=True, attr_timeout=0, entry_timeout=0)
