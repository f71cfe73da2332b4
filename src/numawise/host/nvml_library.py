"""NVIDIA's management library, called by its C interface: nothing has to be installed but the driver.

Rules kept here:

1. The library comes with the driver (``libnvidia-ml.so.1``).  It is looked for where the system's loader
   looks, then where container hosts, WSL and NixOS keep it.
2. A function has its name in C without the version; the newest version that the driver has is called, of
   those whose arguments have the same form.
3. Every failure is an ``NVMLError`` in the library's own words, also that a driver is too old for a call.
"""

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any

from numawise.errors import HostError

NAME = "libnvidia-ml.so.1"
FOLDERS = (
    "",
    "/usr/local/nvidia/lib64/",
    "/run/nvidia/driver/usr/lib64/",
    "/usr/lib/wsl/lib/",
    "/run/opengl-driver/lib/",
)
NAMES = tuple(f"{folder}{NAME}" for folder in FOLDERS)
DRIVER_ADVICE = "check the NVIDIA driver with nvidia-smi"
LIBRARY_ADVICE = f"install the part of the NVIDIA driver that has {NAME} (the one with nvidia-smi)"
SUCCESS, INSUFFICIENT_SIZE, TIMEOUT, FUNCTION_NOT_FOUND = 0, 7, 10, 13
TEXT = 96
"""Room for a name or a UUID, as the library's header has it."""
NOT_AVAILABLE = (1 << 64) - 1
MORE_PROCESSES, MOST_PROCESSES = 8, 1 << 16
TRIES = 4
Handle = ctypes.c_void_p
Number = ctypes.c_uint


class NVMLError(Exception):
    """A call that the library refused."""


class PciInfo(ctypes.Structure):
    """``nvmlPciInfo_t``."""

    _fields_ = (
        ("busIdLegacy", ctypes.c_char * 16),
        ("domain", Number),
        ("bus", Number),
        ("device", Number),
        ("pciDeviceId", Number),
        ("pciSubSystemId", Number),
        ("busId", ctypes.c_char * 32),
    )


class Memory(ctypes.Structure):
    """``nvmlMemory_t``."""

    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class ComputeProcess(ctypes.Structure):
    """``nvmlProcessInfo_t`` since driver 470."""

    _fields_ = (
        ("pid", Number),
        ("bytes", ctypes.c_ulonglong),
        ("gpuInstanceId", Number),
        ("computeInstanceId", Number),
    )

    @property
    def usedGpuMemory(self) -> int | None:  # noqa: N802 - the library's word
        """Bytes of the GPU's memory; None where the driver does not count them."""
        return None if self.bytes == NOT_AVAILABLE else int(self.bytes)


class OldComputeProcess(ctypes.Structure):
    """``nvmlProcessInfo_t`` before driver 470."""

    _fields_ = (("pid", Number), ("bytes", ctypes.c_ulonglong))
    usedGpuMemory = ComputeProcess.usedGpuMemory  # noqa: N815


class EventData(ctypes.Structure):
    """``nvmlEventData_t``."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("eventType", ctypes.c_ulonglong),
        ("eventData", ctypes.c_ulonglong),
        ("gpuInstanceId", Number),
        ("computeInstanceId", Number),
    )


ProcessRow = ComputeProcess | OldComputeProcess


def load(names: tuple[str, ...] = NAMES) -> "Nvml":
    """The library, ready for use; raise ``HostError`` when it is missing or cannot reach the driver."""
    problem = ""
    for name in names:
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            problem = problem or str(error)
            continue
        nvml = Nvml(library)
        try:
            nvml.nvmlInit()
        except NVMLError as error:
            raise HostError(f"NVML cannot be used ({error})", advice=DRIVER_ADVICE) from None
        return nvml
    raise HostError(f"NVML cannot be loaded ({problem})", advice=LIBRARY_ADVICE)


class Nvml:
    """The functions of the library that are used here, by their names in C."""

    NVMLError = NVMLError

    def __init__(self, library: Any) -> None:  # noqa: ANN401 - an opened library
        self.library = library

    def nvmlInit(self) -> None:  # noqa: N802
        self._call(("nvmlInit_v2", "nvmlInit"))

    def nvmlShutdown(self) -> None:  # noqa: N802
        self._call("nvmlShutdown")

    def close(self) -> None:
        """Let go of the driver: loaded afresh, the library sees GPUs that are new."""
        with contextlib.suppress(NVMLError):
            self.nvmlShutdown()

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return self._text("nvmlSystemGetDriverVersion")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self._number(("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"))

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle:  # noqa: N802
        handle = Handle()
        names = ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")
        self._call(names, Number(index), ctypes.byref(handle))
        return handle

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Handle, index: int) -> Handle:  # noqa: N802
        handle = Handle()
        self._call("nvmlDeviceGetMigDeviceHandleByIndex", device, Number(index), ctypes.byref(handle))
        return handle

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Handle:  # noqa: N802
        handle = Handle()
        self._call("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(uuid.encode()), ctypes.byref(handle))
        return handle

    def nvmlDeviceGetGpuInstanceId(self, device: Handle) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetGpuInstanceId", device)

    def nvmlDeviceGetComputeInstanceId(self, device: Handle) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetComputeInstanceId", device)

    def nvmlDeviceGetUUID(self, device: Handle) -> str:  # noqa: N802
        return self._text("nvmlDeviceGetUUID", device)

    def nvmlDeviceGetName(self, device: Handle) -> str:  # noqa: N802
        return self._text("nvmlDeviceGetName", device)

    def nvmlDeviceGetPciInfo(self, device: Handle) -> PciInfo:  # noqa: N802
        info = PciInfo()
        self._call("nvmlDeviceGetPciInfo_v3", device, ctypes.byref(info))
        return info

    def nvmlDeviceGetNvLinkRemotePciInfo(self, device: Handle, link: int) -> PciInfo:  # noqa: N802
        info = PciInfo()
        self._call("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, Number(link), ctypes.byref(info))
        return info

    def nvmlDeviceGetMemoryInfo(self, device: Handle) -> Memory:  # noqa: N802
        memory = Memory()
        self._call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
        return memory

    def nvmlDeviceGetCpuAffinityWithinScope(self, device: Handle, words: int, scope: int) -> list[int]:  # noqa: N802
        return self._words("nvmlDeviceGetCpuAffinityWithinScope", device, words, scope)

    def nvmlDeviceGetMemoryAffinity(self, device: Handle, words: int, scope: int) -> list[int]:  # noqa: N802
        return self._words("nvmlDeviceGetMemoryAffinity", device, words, scope)

    def nvmlDeviceGetNumaNodeId(self, device: Handle) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetNumaNodeId", device)

    def nvmlDeviceGetMigMode(self, device: Handle) -> list[int]:  # noqa: N802
        now, later = Number(), Number()
        self._call("nvmlDeviceGetMigMode", device, ctypes.byref(now), ctypes.byref(later))
        return [now.value, later.value]

    def nvmlDeviceGetMaxMigDeviceCount(self, device: Handle) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetMaxMigDeviceCount", device)

    def nvmlDeviceGetTopologyCommonAncestor(self, device: Handle, other: Handle) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetTopologyCommonAncestor", device, other)

    def nvmlDeviceGetNvLinkState(self, device: Handle, link: int) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetNvLinkState", device, Number(link))

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, device: Handle, link: int) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetNvLinkRemoteDeviceType", device, Number(link))

    def nvmlDeviceGetComputeRunningProcesses(self, device: Handle) -> list[ProcessRow]:  # noqa: N802
        """The processes that compute on a GPU; asked again when more have come meanwhile."""
        name = "nvmlDeviceGetComputeRunningProcesses"
        kind: type[ProcessRow] = ComputeProcess
        function = self._function((f"{name}_v3", f"{name}_v2"))
        if function is None:
            kind, function = OldComputeProcess, self._function((name,))
        room = 0
        for _ in range(TRIES):
            count = Number(room)
            rows = (kind * room)() if room else None
            status = FUNCTION_NOT_FOUND if function is None else function(device, ctypes.byref(count), rows)
            if status != INSUFFICIENT_SIZE:
                self._check(status)
                return list(rows[: count.value]) if rows is not None else []
            room = min(count.value + MORE_PROCESSES, MOST_PROCESSES)
        raise NVMLError(self._words_for(INSUFFICIENT_SIZE))

    @staticmethod
    def handle(value: int | None) -> Handle:
        """A device as events name it."""
        return Handle(value)

    def nvmlEventSetCreate(self) -> Handle:  # noqa: N802
        events = Handle()
        self._call("nvmlEventSetCreate", ctypes.byref(events))
        return events

    def nvmlEventSetFree(self, events: Handle) -> None:  # noqa: N802
        self._call("nvmlEventSetFree", events)

    def nvmlDeviceGetSupportedEventTypes(self, device: Handle) -> int:  # noqa: N802
        kinds = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetSupportedEventTypes", device, ctypes.byref(kinds))
        return kinds.value

    def nvmlDeviceRegisterEvents(self, device: Handle, kinds: int, events: Handle) -> None:  # noqa: N802
        self._call("nvmlDeviceRegisterEvents", device, ctypes.c_ulonglong(kinds), events)

    def nvmlEventSetWait(self, events: Handle, milliseconds: int) -> EventData | None:  # noqa: N802
        """The next event; None when none came in that time."""
        data = EventData()
        function = self._function(("nvmlEventSetWait_v2", "nvmlEventSetWait"))
        status = FUNCTION_NOT_FOUND
        if function is not None:
            status = function(events, ctypes.byref(data), Number(milliseconds))
        if status == TIMEOUT:
            return None
        self._check(status)
        return data

    # --- how they are called -----------------------------------------------------------------------

    def _function(self, names: tuple[str, ...]) -> Callable[..., int] | None:
        return next((f for f in (getattr(self.library, name, None) for name in names) if f is not None), None)

    def _call(self, names: str | tuple[str, ...], *arguments: Any) -> None:  # noqa: ANN401
        function = self._function((names,) if isinstance(names, str) else names)
        self._check(FUNCTION_NOT_FOUND if function is None else function(*arguments))

    def _check(self, status: int) -> None:
        if status != SUCCESS:
            raise NVMLError(self._words_for(status))

    def _words_for(self, status: int) -> str:
        function = self._function(("nvmlErrorString",))
        if function is None:
            return f"error {status}"
        function.restype = ctypes.c_char_p  # type: ignore[attr-defined]
        words: Any = function(status)
        return words.decode(errors="replace") if words else f"error {status}"

    def _number(self, names: str | tuple[str, ...], *arguments: Any) -> int:  # noqa: ANN401
        number = Number()
        self._call(names, *arguments, ctypes.byref(number))
        return number.value

    def _text(self, name: str, *arguments: Any) -> str:  # noqa: ANN401
        text = ctypes.create_string_buffer(TEXT)
        self._call(name, *arguments, text, Number(TEXT))
        return text.value.decode(errors="replace")

    def _words(self, name: str, device: Handle, words: int, scope: int) -> list[int]:
        found = (ctypes.c_ulong * words)()
        self._call(name, device, Number(words), found, Number(scope))
        return list(found)
