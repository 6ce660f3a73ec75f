"""Gives a process the pod's file system and host name: mounts in namespaces of its own, without root.

Three modes, the first that the system allows: `mount` (we may mount: root), `user` (an unprivileged user namespace),
`none` (nothing is changed; the node then maps mount paths below the pod's directory). A convenience, not a security
boundary: the process sees the machine's files and network, as its user does.

A mount path that does not exist on the machine is never created on it. The nearest directory that does exist is
replaced, for this pod alone, by a temporary one in which everything of the original is mounted, and which can be added
to.
"""

import ctypes
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

MODES = ("mount", "user", "none")

_NEWNS, _NEWUTS, _NEWUSER = 0x00020000, 0x04000000, 0x10000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_DETACH = 2
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_BORING_DEVICES = ("tty", "vcs", "loop", "ram")
"""Of /dev, consoles and block devices are left out of a replacement: there are many and no pod has use for them."""

_libc = ctypes.CDLL(None, use_errno=True)


class Mount(NamedTuple):
    source: str
    target: str
    read_only: bool = False


def _call(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [os.fsencode(word) if word is not None else None for word in (source, target, kind, data)]
    result = _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    _call(f"mount {source} on {target}", result)


def die_with_parent(signal_number: int) -> None:
    """To be called after the namespaces are entered: a change of credentials clears it."""
    _call("prctl", _libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0))


def adopt_orphans() -> None:
    """Descendants whose parent ends become our children and not init's, so that none escapes us."""
    _call("prctl", _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def enter(mode: str, hostname: str, mounts: Sequence[Mount], scratch: str) -> None:
    """Give this process (a fresh child) its own view. `scratch` is an empty directory, used when a new root is
    needed.
    """
    if mode == "none":
        return
    _unshare(mode)
    _mount("none", "/", None, _REC | _PRIVATE)
    name = os.fsencode(hostname)
    _call("sethostname", _libc.sethostname(name, len(name)))
    _View(scratch).apply(mounts)


def join(mode: str, pid: int) -> None:
    """Enter the view of a running process."""
    if mode == "none":
        return
    kinds = ("mnt", "uts") if mode == "mount" else ("user", "mnt", "uts")
    fds = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in kinds]
    for kind, fd in zip(kinds, fds, strict=True):
        _call(f"setns {kind}", _libc.setns(fd, 0))
        os.close(fd)


def best_mode(allowed: Iterable[str] = MODES) -> tuple[str, str]:
    """The first mode that works here, and why the ones before it do not."""
    refused: list[str] = []
    for mode in allowed:
        why = _attempt(lambda mode=mode: enter(mode, "probe", [Mount("/proc", "/sys")], ""))  # type: ignore[misc]
        if not why:
            return mode, "; ".join(refused)
        refused.append(f"{mode}: {why}")
    raise OSError("no allowed mode works: " + "; ".join(refused))


def _attempt(action: Callable[[], None]) -> str:
    """Run in a child of its own; what went wrong, or nothing."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        why = ""
        try:
            action()
        except BaseException as error:
            why = str(error)
        finally:
            os.write(writer, why.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        why = answer.read()
    os.waitpid(pid, 0)
    return why


def _unshare(mode: str) -> None:
    user, group = os.geteuid(), os.getegid()
    _call("unshare", _libc.unshare(_NEWNS | _NEWUTS | (_NEWUSER if mode == "user" else 0)))
    if mode == "user":
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


class _View:
    """The file system as the pod will see it, changed from inside its own mount namespace."""

    def __init__(self, scratch: str) -> None:
        self._scratch = scratch
        self._ours: set[str] = set()
        """Directories that we made: things may be added to them, and not to any other."""
        self._volumes: list[str] = []

    def apply(self, mounts: Sequence[Mount]) -> None:
        ordered = sorted(mounts, key=lambda mount: (mount.target.count("/"), mount.target))
        if any(not os.path.lexists("/" + mount.target.split("/")[1]) for mount in ordered):
            self._new_root()
        # By descriptor: once a directory on the way is replaced, the path no longer leads there.
        sources = [os.open(mount.source, os.O_PATH) for mount in ordered]
        for source, mount in zip(sources, ordered, strict=True):
            self._place(source, mount)

    def _place(self, source: int, mount: Mount) -> None:
        is_directory = stat.S_ISDIR(os.fstat(source).st_mode)
        target = os.path.realpath(mount.target)
        self._make(target, is_directory)
        _mount(f"/proc/self/fd/{source}", target, None, _BIND | _REC)
        self._volumes.append(target)
        if mount.read_only:
            # Flags that the machine's administrator set may not be dropped in a user namespace: repeat them.
            flags = os.statvfs(target).f_flag & (_NOSUID | _NODEV | _NOEXEC)
            _mount("none", target, None, _REMOUNT | _BIND | _RDONLY | flags)

    def _make(self, target: str, is_directory: bool) -> None:
        """Make sure that there is something to mount on."""
        if os.path.lexists(target):
            return
        ancestor, missing = os.path.dirname(target), [target]
        while not os.path.lexists(ancestor):
            missing.append(ancestor)
            ancestor = os.path.dirname(ancestor)
        if ancestor not in self._ours and not any(_inside(ancestor, volume) for volume in self._volumes):
            self._replace(ancestor)
        for path in reversed(missing[1:]):
            os.mkdir(path)
            self._ours.add(path)
        if is_directory:
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))

    def _replace(self, directory: str) -> None:
        original = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        mode = stat.S_IMODE(os.fstat(original).st_mode)
        names = os.listdir(original)
        _mount("tmpfs", directory, "tmpfs", _NOSUID | _NODEV, f"mode={mode:o},size=1m")
        for name in names:
            if directory != "/dev" or not name.startswith(_BORING_DEVICES) or name == "tty":
                _mirror(f"/proc/self/fd/{original}/{name}", f"{directory}/{name}")
        os.close(original)
        self._ours.add(directory)

    def _new_root(self) -> None:
        _mount("tmpfs", self._scratch, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
        for name in os.listdir("/"):
            _mirror(f"/{name}", f"{self._scratch}/{name}")
        os.chdir(self._scratch)
        _call("pivot_root", _libc.pivot_root(b".", b"."))
        _call("umount", _libc.umount2(b".", _DETACH))
        os.chdir("/")
        self._ours.add("/")


def _mirror(source: str, target: str) -> None:
    """The same thing at another place: a link as a link, the rest as a mount."""
    try:
        mode = os.lstat(source).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(source), target)
            return
        if stat.S_ISDIR(mode):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
        _mount(source, target, None, _BIND | _REC)
    except FileNotFoundError:  # gone since the directory was listed
        return


def _inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
