"""The program that decides on devices: what it says to every device, worked out as the kernel would."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as some

from numawise.host.device_program import INSTRUCTION, program
from numawise.host.plan import DeviceNumber

BLOCK, CHARACTER = 1, 2
MAKE, READ, WRITE = 1, 2, 4


def decided(code: bytes, kind: int, access: int, major: int, minor: int) -> int:
    """The answer of a program: a machine of as many instructions as it needs."""
    context = struct.pack("=III", access << 16 | kind, major, minor)
    steps = [INSTRUCTION.unpack_from(code, at) for at in range(0, len(code), INSTRUCTION.size)]
    registers = [0] * 10
    at = 0
    while True:
        operation, both, offset, value = steps[at]
        target = both & 15 if struct.pack("=H", 1)[0] else both >> 4
        at += 1
        if operation == 0x61:  # a word of the context
            registers[target] = struct.unpack_from("=I", context, offset)[0]
        elif operation == 0x57:
            registers[target] &= value
        elif operation == 0xB7:
            registers[target] = value
        elif operation == 0x55:
            at += offset if registers[target] != value else 0
        elif operation == 0x95:
            return registers[0]
        else:
            pytest.fail(f"unknown instruction {operation:#x}")


DEVICES = some.builds(DeviceNumber, some.integers(0, 5), some.integers(-1, 5))


@given(some.lists(DEVICES, max_size=8), some.integers(0, 5), some.integers(0, 5), some.integers(1, 7))
def test_it_refuses_what_is_listed_and_nothing_else(
    refused: Sequence[DeviceNumber], major: int, minor: int, access: int
) -> None:
    code = program(refused)
    listed = any(one.major == major and one.minor in (-1, minor) for one in refused)
    assert decided(code, CHARACTER, access, major, minor) == (0 if listed else 1)
    assert decided(code, BLOCK, access, major, minor) == 1


def test_large_numbers() -> None:
    code = program((DeviceNumber(4095, (1 << 20) - 1),))
    assert decided(code, CHARACTER, READ, 4095, (1 << 20) - 1) == 0
    assert decided(code, CHARACTER, MAKE | WRITE, 4095, 0) == 1
