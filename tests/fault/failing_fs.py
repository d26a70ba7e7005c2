# SPDX-License-Identifier: MIT
"""A file system in user space whose writes fail: failing_fs.py DIRECTORY ERRNO BYTES [SECONDS [STALL_AT
STALL_SECONDS [all]]]. Ends when it is unmounted.

Each file takes BYTES bytes; a write behind them fails with ERRNO. BYTES 0: writes are fine, close(2) fails, as on a
remote disk that turns out to be full, and fsync(2) of a directory. With SECONDS each write takes so long; the first
that ends behind STALL_AT takes STALL_SECONDS more, and other requests wait for its end. With "all" no write succeeds
after the first that failed, into any file and at any offset, as on a disk that is full and copied on write. Files live
in memory.
"""
import errno
import stat
import sys
import time

from fusepy import FUSE, FuseOSError, Operations


class FailingFs(Operations):
    def __init__(self, error, limit, seconds=0, stall_at=0, stall_seconds=0, how=''):
        self.error, self.limit, self.seconds, self.files = int(error), int(limit), float(seconds), {}
        self.stall_at, self.stall_seconds = int(stall_at), float(stall_seconds)
        self.all, self.failed, self.directories = how == 'all', False, {'/'}

    def getattr(self, path, fh=None):
        if path in self.directories:
            return {'st_mode': stat.S_IFDIR | (0o755 if path == '/' else 0o700), 'st_nlink': 2}
        if path not in self.files:
            raise FuseOSError(errno.ENOENT)
        return {'st_mode': stat.S_IFREG | 0o600, 'st_nlink': 1, 'st_size': len(self.files[path]),
                'st_mtime': time.time()}

    def readdir(self, path, fh):
        front = path.rstrip('/') + '/'
        return ['.', '..', *(other[len(front):] for other in [*self.files, *self.directories]
                             if other.startswith(front) and other != '/' and '/' not in other[len(front):])]

    def mkdir(self, path, mode):
        self.directories.add(path)

    def rmdir(self, path):
        self.directories.remove(path)

    def create(self, path, mode, fi=None):
        self.files[path] = bytearray()
        return 0

    def read(self, path, size, offset, fh):
        return bytes(self.files[path][offset:offset + size])

    def truncate(self, path, length, fh=None):
        file = self.files[path]
        del file[length:]
        file.extend(bytes(length - len(file)))

    def write(self, path, data, offset, fh):
        time.sleep(self.seconds)
        if offset + len(data) > self.stall_at:
            time.sleep(self.stall_seconds)
            self.stall_seconds = 0
        if self.failed or (self.limit and offset + len(data) > self.limit):
            self.failed = self.all
            raise FuseOSError(self.error)
        file = self.files[path]
        file.extend(bytes(max(0, offset - len(file))))
        file[offset:offset + len(data)] = data
        return len(data)

    def fsyncdir(self, path, datasync, fh):
        return self.flush(path, fh)

    def flush(self, path, fh):
        if not self.limit:
            raise FuseOSError(self.error)
        return 0

    def chmod(self, path, mode):
        return 0

    def rename(self, old, new):
        if old in self.directories:
            self.directories = {new if path == old else path for path in self.directories}
            self.files = {new + path[len(old):] if path.startswith(old + '/') else path: file
                          for path, file in self.files.items()}
        else:
            self.files[new] = self.files.pop(old)

    def unlink(self, path):
        del self.files[path]


if __name__ == '__main__':
    FUSE(FailingFs(*sys.argv[2:]), sys.argv[1], foreground=True, nothreads=True, big_writes=True)
