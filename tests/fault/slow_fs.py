# SPDX-License-Identifier: MIT
"""A file system in user space with one file, each read of which takes a while: slow_fs.py DIRECTORY BYTES SECONDS."""
import errno
import stat
import sys
import time

from fusepy import FUSE, FuseOSError, Operations


class SlowFs(Operations):
    def __init__(self, size, seconds):
        self.size, self.seconds = int(size), float(seconds)

    def getattr(self, path, fh=None):
        if path == '/':
            return {'st_mode': stat.S_IFDIR | 0o755, 'st_nlink': 2}
        if path != '/file':
            raise FuseOSError(errno.ENOENT)
        return {'st_mode': stat.S_IFREG | 0o644, 'st_nlink': 1, 'st_size': self.size}

    def read(self, path, size, offset, fh):
        time.sleep(self.seconds)
        return bytes(min(size, max(0, self.size - offset)))


if __name__ == '__main__':
    FUSE(SlowFs(*sys.argv[2:]), sys.argv[1], foreground=True, nothreads=True, ro=True)
