"""Who, besides the user and root, can change what is at a path.

Another user changes a file by writing to it, or by putting another one in its place, which takes
the right to write in one of the folders above it. In a sticky folder (/tmp) nobody can replace
what the user or root owns, but anyone can add files: such a folder is safe above another, not as
the last one. Whoever acts on a path of which nobody else can change anything is safe from others.

Runs inside the measured process, too: built-in modules only.
"""

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike

_TYPE, _LINK = 0o170000, 0o120000
_GROUP_WRITES, _OTHERS_WRITE, _STICKY = 0o020, 0o002, 0o1000
_MOST_LINKS = 40  # as in the kernel
_UNMAPPED = 65534
"""The owner that the kernel shows for users without a number in this user namespace."""


def user() -> int:
    """The user whose files are trusted, besides root's. Asked here only."""
    return posix.geteuid()


def others(path: str, *, spares_own_group: bool = False) -> str:
    """Who besides the user and root can change or replace what is at this path; "" if nobody
    can.

    Links are followed, and count like folders. For what does not exist: who could create it.

    Args:
        spares_own_group: the right to write of a group that has no member but the user, as many
            systems create it for each user, is nobody else's.
    """
    me = user()
    if not path.startswith("/"):
        path = f"{posix.getcwd()}/{path}"
    place, left, links = "/", _names(path), 0
    try:
        status = posix.lstat(place)
        while left:
            name = left.pop()
            if name == "..":
                place = place.rpartition("/")[0] or "/"
                status = posix.lstat(place)
                continue
            inside = f"{place.rstrip('/')}/{name}"
            try:
                entry = posix.lstat(inside)
            except FileNotFoundError:
                break
            if why := _replacers(place, status, entry, me, spares_own_group):
                return why
            if entry.st_mode & _TYPE != _LINK:
                place, status = inside, entry
                continue
            links += 1
            if links > _MOST_LINKS:
                return f"{path} has too many links"
            target = posix.readlink(inside)
            left += _names(target)
            if target.startswith("/"):
                place = "/"
                status = posix.lstat(place)
    except OSError as problem:
        return f"{path} cannot be inspected ({problem.strerror})"
    return _writers(place, status, me, spares_own_group)


def owner(place: str) -> str:
    """That this file or folder, or link, belongs to another user, neither this one nor root; ""
    if it does not."""
    try:
        uid = posix.lstat(place).st_uid
    except OSError as problem:
        return f"{place} cannot be inspected ({problem.strerror})"
    if uid in (user(), 0) or (uid == _UNMAPPED and not _is_root_mapped()):
        return ""
    return f"{place} belongs to {name_of(uid)}"


def _names(path: str) -> list[str]:
    """The components of a path, the first one last."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _writers(place: str, status: posix.stat_result, me: int, spares: bool) -> str:
    """Who can write to a file, or into a folder."""
    if status.st_uid not in (me, 0):
        return f"{place} belongs to {name_of(status.st_uid)}"
    if status.st_mode & _OTHERS_WRITE:
        return f"all users may write to {place}"
    if status.st_mode & _GROUP_WRITES:
        if _has_acl(place):
            return f"those in the access control list of {place} may write to it"
        if not (spares and _is_own_group(status.st_gid, me)):
            return f"group {status.st_gid} may write to {place}"
    return ""


def _replacers(
    place: str, status: posix.stat_result, entry: posix.stat_result, me: int, spares: bool
) -> str:
    """Who can replace an entry of a folder."""
    trusted = (me, 0)
    if status.st_uid == _UNMAPPED and not _is_root_mapped():
        return ""  # in such containers (Apptainer), root's folders look like this
    if status.st_uid in trusted and status.st_mode & _STICKY and entry.st_uid in trusted:
        return ""
    return _writers(place, status, me, spares)


def _has_acl(place: str) -> bool:
    """Whether rights are given to users or groups by name, which the mode shows as the group's."""
    try:
        return bool(posix.getxattr(place, "system.posix_acl_access"))
    except OSError:
        return False  # it has none, or the file system knows none


def _is_own_group(gid: int, me: int) -> bool:
    """Whether it is the group of this user alone. That of root has other members."""
    import grp
    import pwd

    try:
        account, group = pwd.getpwuid(me), grp.getgrgid(gid)
    except KeyError:
        return False
    is_own = account.pw_gid == gid and group.gr_name == account.pw_name
    return me != 0 and is_own and set(group.gr_mem) <= {account.pw_name}


def _is_root_mapped() -> bool:
    """Whether root has a number in this user namespace."""
    try:
        descriptor = posix.open("/proc/self/uid_map", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return True
    try:
        lines = posix.read(descriptor, 4096).splitlines()
    finally:
        posix.close(descriptor)
    return any(line.split()[:1] == [b"0"] for line in lines)


def link_of_another(path: "str | PathLike[str]") -> str:
    """Why a path may lead to any of the user's files: what it is, and what to do; "" unless it is a
    link of neither the user nor root."""
    try:
        status = posix.lstat(path)
    except OSError:
        return ""
    if status.st_mode & _TYPE != _LINK or status.st_uid in (user(), 0):
        return ""
    return f"a link of {name_of(status.st_uid)}; name the file that you mean"


def name_of(uid: int) -> str:
    """A user's name for messages."""
    import pwd

    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
