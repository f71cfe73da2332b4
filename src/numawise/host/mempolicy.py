"""Where a task's memory may come from: the kernel's NUMA policies, by system call.

Rules kept here:

1. No libnuma: it is often missing in containers, and then binding silently does nothing.  The calls are made
   by number, for the processors the kernel's NUMA code runs on.
2. Nothing is a no-op.  A call that the kernel or a seccomp filter refuses raises ``HostError`` and says what
   to do.
3. A set of NUMA nodes is a packed int and may have any number of nodes.  The kernel reads one bit less than
   it is asked for, so one more is given.
4. A policy belongs to one thread; threads and processes made later inherit it, and exec keeps it.
"""

import errno
import os
from typing import TYPE_CHECKING

from numawise.errors import HostError
from numawise.sets import format_ids
from numawise.values import dataclass

if TYPE_CHECKING:
    import ctypes

DEFAULT, PREFERRED, BIND, INTERLEAVE, LOCAL, PREFERRED_MANY, WEIGHTED_INTERLEAVE = range(7)
MODES = ("default", "preferred", "bind", "interleave", "local", "preferred many", "weighted interleave")
STATIC_NODES, RELATIVE_NODES, BALANCING = 1 << 15, 1 << 14, 1 << 13
FLAGS = STATIC_NODES | RELATIVE_NODES | BALANCING
OF_ADDRESS = 1 << 1  # get_mempolicy: of the mapping at an address
STRICT, MOVE, MOVE_ALL = 1, 2, 4  # mbind and move_pages

WORD = 64
MOST_NODES = 1 << 12
"""Bits offered to the kernel for an answer: four times what it can be built for."""

# mbind, get_mempolicy, set_mempolicy, migrate_pages, move_pages
GENERIC = (235, 236, 237, 238, 239)
NUMBERS = {
    "x86_64": (237, 239, 238, 256, 279),
    "aarch64": GENERIC,
    "riscv64": GENERIC,
    "loongarch64": GENERIC,
    "ppc64le": (259, 260, 261, 258, 301),
    "ppc64": (259, 260, 261, 258, 301),
    "s390x": (268, 269, 270, 287, 310),
}
NAMES = ("mbind", "get_mempolicy", "set_mempolicy", "migrate_pages", "move_pages")
MBIND, GET, SET, MIGRATE, MOVE_PAGES = range(5)

REFUSED = {errno.EPERM, errno.EACCES, errno.ENOSYS}


@dataclass(frozen=True, slots=True)
class Policy:
    """A NUMA memory policy of a thread or a mapping."""

    mode: int = DEFAULT
    nodes: int = 0
    """NUMA nodes it names, packed."""
    flags: int = 0

    def __str__(self) -> str:
        name = MODES[self.mode] if self.mode < len(MODES) else f"mode {self.mode}"
        return f"{name}:{format_ids(self.nodes)}" if self.nodes else name


def read_mempolicy(address: int | None = None) -> Policy:
    """The policy of the calling thread, or of the mapping at an address of this process."""
    import ctypes  # noqa: PLC0415 - costs 3 ms, and most commands never need it

    mode = ctypes.c_int()
    mask = _words(0, MOST_NODES)
    _call(GET, ctypes.byref(mode), mask, MOST_NODES, address or 0, OF_ADDRESS if address is not None else 0)
    return Policy(mode.value & ~FLAGS, _bits(mask), mode.value & FLAGS)


def set_mempolicy(mode: int, nodes: int = 0, flags: int = 0) -> None:
    """Set the policy of the calling thread."""
    size = _size(nodes)
    mask = _words(nodes, size) if nodes else None
    _call(SET, mode | flags, mask, size + 1 if nodes else 0, about=nodes)


def bind_memory(nodes: int) -> None:
    """Let all memory of this thread, and of those it makes from now on, come from these NUMA nodes only."""
    set_mempolicy(BIND, nodes)


def prefer_memory(nodes: int) -> None:
    """Let new memory come from these NUMA nodes as long as they have some, then from others.

    Several are known to kernels from 5.15 on.  Older ones are left to their default, the node of the CPU that
    touches a page first: a job runs on CPUs of the nodes it was granted.
    """
    if not nodes & nodes - 1:
        set_mempolicy(PREFERRED, nodes)
        return
    try:
        set_mempolicy(PREFERRED_MANY, nodes)
    except HostError:
        set_mempolicy(DEFAULT)


def mbind(address: int, length: int, mode: int, nodes: int = 0, flags: int = 0) -> None:
    """Set the policy of a range of this process' memory; ``MOVE`` also moves what lies elsewhere."""
    size = _size(nodes)
    mask = _words(nodes, size) if nodes else None
    _call(MBIND, address, length, mode, mask, size + 1 if nodes else 0, flags, about=nodes)


def migrate_pages(pid: int, old: int, new: int) -> int:
    """Move a process' pages from one set of NUMA nodes to another; the number of pages that stayed."""
    size = _size(old | new)
    return _call(MIGRATE, pid, size + 1, _words(old, size), _words(new, size), about=new)


def move_pages(pid: int, pages: tuple[int, ...], nodes: tuple[int, ...] = (), flags: int = MOVE) -> list[int]:
    """The NUMA node of each page, after moving it to the node given for it (none given: where it lies).

    A negative number is the kernel's error for that page, such as ``-ENOENT`` where nothing was touched yet.
    """
    import ctypes  # noqa: PLC0415 - as above

    count = len(pages)
    if nodes and len(nodes) != count:
        raise ValueError(f"{len(nodes)} nodes for {count} pages")
    if not count:
        return []
    addresses = (ctypes.c_void_p * count)(*pages)
    wanted = (ctypes.c_int * count)(*nodes) if nodes else None
    status = (ctypes.c_int * count)()
    _call(MOVE_PAGES, pid, count, addresses, wanted, status, flags if nodes else 0)
    return list(status)


def problem() -> str:
    """Why this process may not bind memory, and what to do; '' when it may.

    Asked by setting the policy that is set already, so nothing changes.
    """
    try:
        now = read_mempolicy()
        set_mempolicy(now.mode, now.nodes, now.flags)
    except HostError as error:
        return str(error)
    return ""


def _size(nodes: int) -> int:
    return -(-max(nodes.bit_length(), 1) // WORD) * WORD


def _words(bits: int, size: int) -> "ctypes.Array[ctypes.c_uint64]":
    import ctypes  # noqa: PLC0415 - as above

    last = (1 << WORD) - 1
    words = [bits >> at & last for at in range(0, size, WORD)]
    return (ctypes.c_uint64 * len(words))(*words)


def _bits(mask: "ctypes.Array[ctypes.c_uint64]") -> int:
    bits = 0
    for at, word in enumerate(mask):
        bits |= word << at * WORD
    return bits


def _call(which: int, *arguments: object, about: int = 0) -> int:
    """Make one of the calls; ``about`` is the set of NUMA nodes that an error should name."""
    import ctypes  # noqa: PLC0415 - as above

    machine = os.uname().machine
    numbers = NUMBERS.get(machine)
    name = NAMES[which]
    if numbers is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise HostError(f"{name} is not known for this processor ({machine})")
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    # Everything is passed as a full register: a bare int would be cut to 32 bits.
    passed = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    done: int = syscall(ctypes.c_long(numbers[which]), *passed)
    if done < 0:
        raise _refusal(name, ctypes.get_errno(), about)
    return done


def _refusal(name: str, code: int, nodes: int) -> HostError:
    reason = os.strerror(code)
    if code in REFUSED:
        advice = "in a container add the capability SYS_NICE or let its seccomp profile permit the call"
        return HostError(f"{name} is not permitted here ({reason})", advice)
    if code == errno.EINVAL and nodes:
        what = f"NUMA node{'s' if nodes & nodes - 1 else ''} {format_ids(nodes)}"
        return HostError(
            f"the kernel refused {name} for {what} ({reason})",
            "each must exist, have memory, and be in Mems_allowed_list of /proc/self/status",
        )
    return HostError(f"{name} failed: {reason}")
