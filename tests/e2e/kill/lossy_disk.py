"""A file system that forgets what was not synced, for power cuts of the real program.

    lossy_disk.py FOLDER

Mounts itself on FOLDER and obeys lines on its standard input:

    cut SEED    the power goes: of what was not synced some survives, drawn from the seed; nobody
                may have a file open
    end         unmounts

It speaks the kernel's FUSE protocol by itself, so nothing has to be installed; whoever may mount
(root, also of a user namespace) may use it. A file's bytes survive once the file was synced, a name
once its folder was: a disk promises no more. Of unsynced writes any sectors may survive, of unsynced
changes of names the first ones.
"""

import ctypes
import errno
import os
import random
import select
import stat
import struct
import sys

ROOT = 1
SECTOR = 512
MAX_WRITE = 1 << 20
# Large enough for a request of the largest write.
REQUEST_BYTES = MAX_WRITE + 4096

IN = struct.Struct("<IIQQIIII")
OUT = struct.Struct("<IiQ")
ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
FATTR_MODE, FATTR_SIZE = 1 << 0, 1 << 3
FLAGS = (1 << 0) | (1 << 3) | (1 << 5) | (1 << 22)  # async reads, O_TRUNC, big writes, max pages


class Inode:
    def __init__(self, number, mode):
        self.number = number
        self.mode = mode
        self.cached = bytearray()
        self.kept = bytearray()
        # Writes as (place, bytes), lengths as (length, None), in order.
        self.unsynced = []

    def apply(self, content, change):
        place, data = change
        if data is None:
            grow(content, place)
            del content[place:]
        else:
            grow(content, place + len(data))
            content[place : place + len(data)] = data

    def change(self, place, data):
        self.apply(self.cached, (place, data))
        self.unsynced.append((place, data))

    def sync(self):
        for change in self.unsynced:
            self.apply(self.kept, change)
        self.unsynced.clear()

    def cut(self, dice):
        for change in self.unsynced:
            place, data = change
            fate = dice.randrange(4)
            if fate == 1 or (fate > 1 and data is None):
                self.apply(self.kept, change)
            elif fate > 1:
                for at in range(0, len(data), SECTOR):
                    if dice.randrange(2):
                        self.apply(self.kept, (place + at, data[at : at + SECTOR]))
        self.unsynced.clear()
        self.cached = bytearray(self.kept)


def grow(content, length):
    if len(content) < length:
        content.extend(bytes(length - len(content)))


class Disk:
    """Inodes, and names as they are and as they would survive: (folder, name) to inode."""

    def __init__(self):
        self.inodes = {ROOT: Inode(ROOT, stat.S_IFDIR | 0o755)}
        self.names = {}
        self.kept_names = {}
        # Unsynced changes of names: (name that goes, name that comes, its inode).
        self.moves = []
        self.next = ROOT + 1

    def make(self, folder, name, mode):
        inode = Inode(self.next, mode)
        self.next += 1
        self.inodes[inode.number] = inode
        self.move(None, (folder, name), inode.number)
        return inode

    def find(self, folder, name):
        number = self.names.get((folder, name))
        if number is None:
            raise OSError(errno.ENOENT, name)
        return self.inodes[number]

    def move(self, gone, come, number):
        change = (gone, come, number)
        apply_move(self.names, change)
        self.moves.append(change)

    def sync_folder(self, folder):
        """Keeps the changes in the folder, and those before them that they build on."""
        touched, kept = set(), set()
        for place in range(len(self.moves) - 1, -1, -1):
            names = [name for name in self.moves[place][:2] if name]
            if any(name[0] == folder or name in touched for name in names):
                touched.update(names)
                kept.add(place)
        for place in sorted(kept):
            apply_move(self.kept_names, self.moves[place])
        self.moves = [move for place, move in enumerate(self.moves) if place not in kept]

    def cut(self, seed):
        dice = random.Random(seed)
        for number in sorted(self.inodes):
            self.inodes[number].cut(dice)
        for move in self.moves[: dice.randrange(len(self.moves) + 1)]:
            apply_move(self.kept_names, move)
        self.moves.clear()
        self.names = dict(self.kept_names)
        named = set(self.names.values())
        self.inodes = {n: inode for n, inode in self.inodes.items() if n == ROOT or n in named}


def apply_move(names, change):
    gone, come, number = change
    if gone:
        names.pop(gone, None)
    if come:
        names[come] = number


class Fuse:
    """Answers the kernel's requests."""

    def __init__(self, folder):
        self.folder = folder
        self.disk = Disk()
        self.fd = os.open("/dev/fuse", os.O_RDWR)
        # As whoever we are inside of a user namespace.
        options = f"fd={self.fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        mount(b"lossy", os.fsencode(folder), options.encode())

    def serve(self):
        """Until told to end, or unmounted."""
        while True:
            ready, _, _ = select.select([self.fd, sys.stdin.fileno()], [], [])
            if self.fd in ready and not self.answer():
                return
            if sys.stdin.fileno() in ready and not self.obey(sys.stdin.readline().split()):
                return

    def obey(self, words):
        if words[:1] != ["cut"]:
            return False
        self.drain()
        self.disk.cut(int(words[1]))
        print("cut", flush=True)
        return True

    def drain(self):
        """Takes what the kernel still has to write for a process that is gone."""
        while select.select([self.fd], [], [], 0.02)[0]:
            self.answer()

    def answer(self):
        try:
            request = os.read(self.fd, REQUEST_BYTES)
        except OSError as error:
            # An interrupted request is none; any other error means that we are unmounted.
            return error.errno in (errno.ENOENT, errno.EINTR)
        _, opcode, unique, node, *_ = IN.unpack_from(request)
        handler = HANDLERS.get(opcode)
        if handler is None:
            self.reply(unique, -errno.ENOSYS, b"")
            return True
        try:
            body = handler(self.disk, node, memoryview(request)[IN.size :])
        except OSError as error:
            self.reply(unique, -error.errno, b"")
            return True
        if body is not None:
            self.reply(unique, 0, body)
        return True

    def reply(self, unique, error, body):
        try:
            os.write(self.fd, OUT.pack(OUT.size + len(body), error, unique) + body)
        except OSError as gone:
            # Whoever asked was killed.
            if gone.errno != errno.ENOENT:
                raise


def text(data):
    return bytes(data).split(b"\0", 1)[0].decode()


def attributes(inode):
    size = len(inode.cached)
    links = 2 if stat.S_ISDIR(inode.mode) else 1
    return ATTR.pack(
        inode.number, size, -(-size // 512), 0, 0, 0, 0, 0, 0,
        inode.mode, links, os.getuid(), os.getgid(), 0, 4096, 0,
    )


def entry(inode):
    return struct.pack("<QQQQII", inode.number, 0, 0, 0, 0, 0) + attributes(inode)


OPENED = struct.pack("<QII", 0, 0, 0)


def init(_disk, _node, data):
    major, _minor, readahead, flags = struct.unpack_from("<IIII", data)
    return struct.pack(
        "<IIIIHHIIHHI28x", major, 31, readahead, flags & FLAGS, 16, 12, MAX_WRITE, 1,
        MAX_WRITE // 4096, 0, 0,
    )


def lookup(disk, node, data):
    return entry(disk.find(node, text(data)))


def getattr_(disk, node, _data):
    return struct.pack("<QII", 0, 0, 0) + attributes(disk.inodes[node])


def setattr_(disk, node, data):
    valid, _, _, size = struct.unpack_from("<IIQQ", data)
    inode = disk.inodes[node]
    if valid & FATTR_SIZE:
        inode.change(size, None)
    if valid & FATTR_MODE:
        (mode,) = struct.unpack_from("<I", data, 68)
        inode.mode = stat.S_IFMT(inode.mode) | stat.S_IMODE(mode)
    return getattr_(disk, node, data)


def mkdir(disk, node, data):
    mode, _umask = struct.unpack_from("<II", data)
    return entry(disk.make(node, text(data[8:]), stat.S_IFDIR | stat.S_IMODE(mode)))


def create(disk, node, data):
    flags, mode = struct.unpack_from("<II", data)
    name = text(data[16:])
    number = disk.names.get((node, name))
    if number is not None and flags & os.O_EXCL:
        raise OSError(errno.EEXIST, name)
    inode = disk.inodes[number] if number else disk.make(node, name, stat.S_IFREG | mode & 0o7777)
    if flags & os.O_TRUNC and inode.cached:
        inode.change(0, None)
    return entry(inode) + OPENED


def unlink(disk, node, data):
    name = text(data)
    disk.move((node, name), None, disk.find(node, name).number)
    return b""


def rename(disk, node, data, names_at=8):
    (folder,) = struct.unpack_from("<Q", data)
    old, new = (name.decode() for name in bytes(data[names_at:]).split(b"\0")[:2])
    disk.move((node, old), (folder, new), disk.find(node, old).number)
    return b""


def rename2(disk, node, data):
    return rename(disk, node, data, names_at=16)


def open_(disk, node, data):
    (flags,) = struct.unpack_from("<I", data)
    if flags & os.O_TRUNC and disk.inodes[node].cached:
        disk.inodes[node].change(0, None)
    return OPENED


def opendir(_disk, _node, _data):
    return OPENED


def read(disk, node, data):
    _, offset, size = struct.unpack_from("<QQI", data)
    return bytes(disk.inodes[node].cached[offset : offset + size])


def write(disk, node, data):
    _, offset, size = struct.unpack_from("<QQI", data)
    disk.inodes[node].change(offset, bytes(data[40 : 40 + size]))
    return struct.pack("<II", size, 0)


def statfs(_disk, _node, _data):
    blocks = 1 << 20
    return struct.pack("<QQQQQIIII24x", *[blocks] * 5, 4096, 255, 4096, 0)


def nothing(_disk, _node, _data):
    return b""


def no_answer(_disk, _node, _data):
    return None


def fsync(disk, node, _data):
    disk.inodes[node].sync()
    return b""


def fsyncdir(disk, node, _data):
    disk.sync_folder(node)
    return b""


def readdir(disk, node, data):
    _, offset, size = struct.unpack_from("<QQI", data)
    listed = sorted(name for folder, name in disk.names if folder == node)
    out = b""
    for place, name in enumerate(listed[offset:], offset + 1):
        number = disk.names[(node, name)]
        kind = stat.S_IFMT(disk.inodes[number].mode) >> 12
        raw = name.encode()
        record = struct.pack("<QQII", number, place, len(raw), kind) + raw
        record += bytes(-len(record) % 8)
        if len(out) + len(record) > size:
            break
        out += record
    return out


def fallocate(disk, node, data):
    _, offset, length, mode = struct.unpack_from("<QQQI", data)
    if mode:
        raise OSError(errno.EOPNOTSUPP, "only plain allocation")
    inode = disk.inodes[node]
    if len(inode.cached) < offset + length:
        inode.change(offset + length, None)
    return b""


HANDLERS = {
    1: lookup, 2: no_answer, 3: getattr_, 4: setattr_, 9: mkdir, 10: unlink, 11: unlink,
    12: rename, 14: open_, 15: read, 16: write, 17: statfs, 18: nothing, 20: fsync, 25: nothing,
    26: init, 27: opendir, 28: readdir, 29: nothing, 30: fsyncdir, 34: nothing, 35: create,
    36: no_answer, 38: nothing, 42: no_answer, 43: fallocate, 45: rename2,
}


LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source, folder, options):
    nosuid_nodev = 2 | 4
    if LIBC.mount(source, folder, b"fuse", ctypes.c_ulong(nosuid_nodev), options):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fsdecode(folder))


def main():
    folder = sys.argv[1]
    fuse = Fuse(folder)
    print("mounted", flush=True)
    try:
        fuse.serve()
    finally:
        detach = 2
        LIBC.umount2(os.fsencode(folder), detach)


if __name__ == "__main__":
    main()
