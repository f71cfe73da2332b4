"""A control group of version 2 that keeps its processes from some character devices.

Version 2 has no files for that: a small program is attached to the group, which the kernel asks whenever a
process in it opens or makes a device file.

Rules kept here:

1. The program refuses what is listed, all kinds of access to it, and allows everything else; what groups
   above refuse stays refused, because the kernel asks theirs, too.
2. It is the group's until that is removed; nothing of ours has to live on.  Others, such as systemd's own for
   the unit, stay beside it.
3. The kernel's answer is raised as ``HostError``.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Sequence

from numawise.errors import HostError
from numawise.host.plan import DeviceNumber

SYSCALLS = {
    "x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351, "armv7l": 386, "i686": 357
}  # fmt: skip
LOAD, ATTACH, QUERY = 5, 8, 16
PROGRAM_TYPE, ATTACH_TYPE = 15, 6
"""``BPF_PROG_TYPE_CGROUP_DEVICE`` and ``BPF_CGROUP_DEVICE``."""
BESIDE_OTHERS = 2
"""``BPF_F_ALLOW_MULTI``"""
ATTRIBUTES = 128
"""Bytes of ``union bpf_attr`` that are passed; what is not used is zero."""
INSTRUCTION = struct.Struct("=BBhi")
LOAD_WORD, AND, MOVE, UNEQUAL, EXIT = 0x61, 0x57, 0xB7, 0x55, 0x95
RESULT, CONTEXT, KIND, MAJOR, MINOR = range(5)
"""Registers."""
CHARACTER, KIND_BITS = 2, 0xFFFF
MOST_RULES = 1000
"""A jump reaches 32,767 instructions, and the kernel takes 4,096 from those without all rights."""
MOST_PROGRAMS = 64
NAME = b"numawise_gpus"


def program(refused: Sequence[DeviceNumber]) -> bytes:
    """The instructions (rule 1)."""
    rules: list[bytes] = []
    for number in refused:
        if number.minor < 0:
            rules += [_jump(UNEQUAL, MAJOR, number.major, 2), _set(RESULT, 0), _do(EXIT)]
        else:
            rules += [
                _jump(UNEQUAL, MAJOR, number.major, 3),
                _jump(UNEQUAL, MINOR, number.minor, 2),
                _set(RESULT, 0),
                _do(EXIT),
            ]
    head = [
        INSTRUCTION.pack(LOAD_WORD, _registers(KIND, CONTEXT), 0, 0),
        INSTRUCTION.pack(AND, _registers(KIND, 0), 0, KIND_BITS),
        INSTRUCTION.pack(LOAD_WORD, _registers(MAJOR, CONTEXT), 4, 0),
        INSTRUCTION.pack(LOAD_WORD, _registers(MINOR, CONTEXT), 8, 0),
        _jump(UNEQUAL, KIND, CHARACTER, len(rules)),
    ]
    return b"".join((*head, *rules, _set(RESULT, 1), _do(EXIT)))


def _registers(target: int, source: int) -> int:
    """Both registers in a byte; which comes first depends on the machine's byte order."""
    little = struct.pack("=H", 1)[0] == 1
    return target | source << 4 if little else target << 4 | source


def _jump(condition: int, register: int, value: int, over: int) -> bytes:
    return INSTRUCTION.pack(condition, _registers(register, 0), over, value)


def _set(register: int, value: int) -> bytes:
    return INSTRUCTION.pack(MOVE, _registers(register, 0), 0, value)


def _do(code: int) -> bytes:
    return INSTRUCTION.pack(code, 0, 0, 0)


def problem() -> str:
    """Why no such program can be used here, as a clause; '' when one can."""
    try:
        os.close(_load(program(())))
    except HostError as refused:
        return refused.message
    return ""


def attach(folder: str, refused: Sequence[DeviceNumber]) -> None:
    """Keep everything in a group from these devices, from now on."""
    if len(refused) > MOST_RULES:
        raise HostError(f"{len(refused)} devices are more than device rules can name")
    handle = _load(program(refused))
    try:
        group = _open(folder)
        try:
            _bpf(ATTACH, struct.pack("=IIII", group, handle, ATTACH_TYPE, BESIDE_OTHERS), f"for {folder}")
        finally:
            os.close(group)
    finally:
        os.close(handle)


def attached(folder: str) -> int | None:
    """How many programs decide on the devices of a group itself; None when we may not ask."""
    try:
        group = _open(folder)
    except HostError:
        return None
    try:
        ids = (ctypes.c_uint32 * MOST_PROGRAMS)()
        head = struct.pack("=IIIIQI", group, ATTACH_TYPE, 0, 0, ctypes.addressof(ids), MOST_PROGRAMS)
        answer = _bpf(QUERY, head, "")
    except HostError:
        return None
    finally:
        os.close(group)
    return int(struct.unpack_from("=I", answer, 24)[0])


def _open(folder: str) -> int:
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(f"the control group {folder} cannot be opened: {error.strerror}") from error


def _load(instructions: bytes) -> int:
    code = ctypes.create_string_buffer(instructions, len(instructions))
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    count = len(instructions) // INSTRUCTION.size
    head = struct.pack(
        "=IIQQIIQII16s",
        PROGRAM_TYPE, count, ctypes.addressof(code), ctypes.addressof(licence), 0, 0, 0, 0, 0, NAME,
    )  # fmt: skip
    return _call(LOAD, head, "")[0]


def _bpf(command: int, head: bytes, what: str) -> bytes:
    return _call(command, head, what)[1]


def _call(command: int, head: bytes, what: str) -> tuple[int, bytes]:
    """The system call ``bpf``: its result, and the attributes as it left them."""
    number = SYSCALLS.get(platform.machine())
    if number is None:
        raise HostError(f"device rules are not known for processors of kind {platform.machine()}")
    attributes = ctypes.create_string_buffer(head, ATTRIBUTES)
    library = ctypes.CDLL(None, use_errno=True)
    result = int(library.syscall(number, command, attributes, ATTRIBUTES))
    if result < 0:
        why = os.strerror(ctypes.get_errno())
        raise HostError(f"the kernel refuses device rules {what}".rstrip() + f" ({why})")
    return result, attributes.raw
