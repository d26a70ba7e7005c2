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


class Node:
    """A file, or with names, {name: Node}, a directory."""

    def __init__(self, names=None):
        self.names, self.bytes, self.synced = names, bytearray(), None

    def sync(self):
        self.synced = bytes(self.bytes) if self.names is None else dict(self.names)

    def after_power_cut(self):
        if self.names is None:
            node = Node()
            node.bytes = self.synced or b''
            return node
        return Node({name: node.after_power_cut() for name, node in (self.synced or {}).items()})


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
        return {'st_mode': stat.S_IFREG | 0o600, 'st_nlink': 1, 'st_size': len(node.bytes), 'st_mtime': time.time()}

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
        return bytes(self.find(path).bytes[offset:offset + size])

    def truncate(self, path, length, fh=None):
        file = self.find(path).bytes
        del file[length:]
        file.extend(bytes(length - len(file)))

    def write(self, path, data, offset, fh):
        file = self.find(path).bytes
        file.extend(bytes(max(0, offset - len(file))))
        file[offset:offset + len(data)] = data
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
