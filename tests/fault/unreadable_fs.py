# SPDX-License-Identifier: MIT
"""A file system in user space with one file, as on a bad disk: unreadable_fs.py DIRECTORY FILE FROM TO [rw]. It has the
bytes of FILE; reads of those from FROM to TO fail. rw: it may be opened for writing, too."""
import errno
import stat
import sys

from fusepy import FUSE, FuseOSError, Operations


class UnreadableFs(Operations):
    def __init__(self, path, start, end):
        self.start, self.end = int(start), int(end)
        with open(path, 'rb') as file:
            self.bytes = file.read()

    def getattr(self, path, fh=None):
        if path == '/':
            return {'st_mode': stat.S_IFDIR | 0o755, 'st_nlink': 2}
        if path != '/file':
            raise FuseOSError(errno.ENOENT)
        return {'st_mode': stat.S_IFREG | 0o755, 'st_nlink': 1, 'st_size': len(self.bytes)}

    def read(self, path, size, offset, fh):
        if offset < self.end and offset + size > self.start:
            raise FuseOSError(errno.EIO)
        return self.bytes[offset:offset + size]


if __name__ == '__main__':
    FUSE(UnreadableFs(*sys.argv[2:5]), sys.argv[1], foreground=True, nothreads=True, ro=len(sys.argv) == 5)
