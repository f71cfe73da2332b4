"""NVIDIA's library by its C interface: a stand-in with the same functions, called through real pointers."""

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from numawise.errors import HostError
from numawise.host import nvml_library as subject
from numawise.host.nvml import COMPUTES, GpuUse, nvml_users, read_gpus
from numawise.host.nvml_library import (
    INSUFFICIENT_SIZE,
    ComputeProcess,
    Nvml,
    NVMLError,
    OldComputeProcess,
    PciInfo,
    load,
)

NOT_SUPPORTED = 3
BYTES = 1 << 37
UNKNOWN_BYTES = (1 << 64) - 1
POINTER = ctypes.c_void_p
NUMBER = ctypes.c_uint


def at(address: int, kind: Any) -> Any:
    """What a pointer leads to."""
    return ctypes.cast(address, ctypes.POINTER(kind)).contents


def c_function(result: Any, *kinds: Any) -> Callable[[Callable[..., Any]], Any]:
    return ctypes.CFUNCTYPE(result, *kinds)


class Words:
    """What an error is called; a callback cannot give text back, so this one is called without C."""

    restype: Any = None

    def __call__(self, status: int) -> bytes:
        assert self.restype is ctypes.c_char_p
        return {NOT_SUPPORTED: b"Not Supported", 13: b"Function Not Found"}.get(status, b"Unknown Error")


class FakeLibrary:
    """Functions as ``ctypes`` gives them: pointers in, a status out."""

    def __init__(
        self, processes: dict[int, list[tuple[int, int]]] | None = None, *, old: bool = False
    ) -> None:
        self.processes = processes or {}
        form, suffix = (OldComputeProcess, "") if old else (ComputeProcess, "_v3")
        listed = c_function(ctypes.c_int, POINTER, POINTER, POINTER)(
            lambda device, count, rows: self.list_processes(form, device, count, rows)
        )
        setattr(self, f"nvmlDeviceGetComputeRunningProcesses{suffix}", listed)
        self.nvmlInit_v2 = c_function(ctypes.c_int)(lambda: 0)
        self.nvmlErrorString = Words()
        self.nvmlDeviceGetCount_v2 = c_function(ctypes.c_int, POINTER)(lambda to: self.number(to, 2))
        self.nvmlDeviceGetHandleByIndex_v2 = c_function(ctypes.c_int, NUMBER, POINTER)(self.handle)
        self.nvmlDeviceGetUUID = c_function(ctypes.c_int, POINTER, POINTER, NUMBER)(
            lambda device, to, room: self.text(to, room, f"GPU-{device}")
        )
        self.nvmlDeviceGetPciInfo_v3 = c_function(ctypes.c_int, POINTER, POINTER)(self.pci)
        self.nvmlDeviceGetCpuAffinityWithinScope = c_function(ctypes.c_int, POINTER, NUMBER, POINTER, NUMBER)(
            self.cpus
        )
        self.nvmlDeviceGetMigMode = c_function(ctypes.c_int, POINTER, POINTER, POINTER)(
            lambda _, now, later: self.number(now, 0) or self.number(later, 1)
        )
        self.nvmlDeviceGetTopologyCommonAncestor = c_function(ctypes.c_int, POINTER, POINTER, POINTER)(
            lambda _device, _other, to: self.number(to, 20)
        )

    @staticmethod
    def number(to: int, value: int) -> int:
        at(to, NUMBER).value = value
        return 0

    @staticmethod
    def handle(index: int, to: int) -> int:
        at(to, POINTER).value = index + 100
        return 0

    @staticmethod
    def text(to: int, room: int, text: str) -> int:
        assert room > len(text)
        ctypes.memmove(to, text.encode() + b"\0", len(text) + 1)
        return 0

    @staticmethod
    def pci(device: int, to: int) -> int:
        at(to, PciInfo).busId = f"00000000:{device - 100 + 16:02X}:00.0".encode()
        return 0

    @staticmethod
    def cpus(device: int, words: int, to: int, scope: int) -> int:
        assert scope == 0
        at(to, ctypes.c_ulong * words)[device - 100] = 0xFF
        return 0

    def list_processes(self, form: Any, device: int, count: int, rows: int | None) -> int:
        wanted = self.processes.get(device - 100)
        if wanted is None:
            return NOT_SUPPORTED
        room = at(count, NUMBER).value
        self.number(count, len(wanted))
        if room < len(wanted):
            return INSUFFICIENT_SIZE
        for place, (pid, size) in enumerate(wanted):
            assert rows
            row = at(rows + place * ctypes.sizeof(form), form)
            row.pid, row.bytes = pid, size
        return 0


def test_gpus() -> None:
    found = read_gpus(Nvml(FakeLibrary()))
    assert [(gpu.name, gpu.uuid, gpu.address, gpu.cpus) for gpu in found.gpus] == [
        ("GPU0", "GPU-100", "0000:10:00.0", 0xFF),
        ("GPU1", "GPU-101", "0000:11:00.0", 0xFF << 64),
    ]
    assert found.matrix
    assert found.matrix.links["GPU0"] == {"GPU0": "X", "GPU1": "PXB"}


def test_a_function_that_an_old_driver_lacks_leaves_its_field_unknown() -> None:
    found = read_gpus(Nvml(FakeLibrary()))
    assert [gpu.memory for gpu in found.gpus] == [None, None]
    texts = {remark.place: remark.text for remark in found.remarks}
    assert texts["nvmlDeviceGetMemoryInfo"] == "NVML does not report it: Function Not Found"


@pytest.mark.parametrize("driver", ["since 470", "before 470"])
def test_processes(driver: str) -> None:
    rows = {0: [(7, BYTES), (8, UNKNOWN_BYTES)], 1: []}
    library = Nvml(FakeLibrary(rows, old=driver == "before 470"))
    assert nvml_users(library) == (
        GpuUse(7, "0000:10:00.0", COMPUTES, "", BYTES),
        GpuUse(8, "0000:10:00.0", COMPUTES, "", None),
    )


def test_gpus_whose_processes_are_not_listed_are_named() -> None:
    unlisted: list[str] = []
    assert nvml_users(Nvml(FakeLibrary({0: []})), unlisted) == ()
    assert unlisted == ["0000:11:00.0"]


def test_processes_that_come_faster_than_they_are_read_end_in_an_error() -> None:
    library = FakeLibrary()
    library.nvmlDeviceGetComputeRunningProcesses_v3 = c_function(ctypes.c_int, POINTER, POINTER, POINTER)(
        lambda _device, count, _rows: library.number(count, at(count, NUMBER).value + 99) or INSUFFICIENT_SIZE
    )
    with pytest.raises(NVMLError, match="Unknown Error"):
        Nvml(library).nvmlDeviceGetComputeRunningProcesses(ctypes.c_void_p(100))


def test_a_missing_library_is_named_with_what_to_do() -> None:
    with pytest.raises(
        HostError, match=r"cannot be loaded \(libnvidia-ml-gone.*\); install .* NVIDIA driver"
    ):
        load(("libnvidia-ml-gone.so.1", "/nowhere/libnvidia-ml-gone.so.1"))


def test_a_library_without_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeLibrary()
    library.nvmlInit_v2 = c_function(ctypes.c_int)(lambda: 9)
    monkeypatch.setattr(subject.ctypes, "CDLL", lambda _: library)
    with pytest.raises(HostError, match=r"NVML cannot be used \(Unknown Error\); check the NVIDIA driver"):
        load()
