"""What NVIDIA's driver reports of a GPU while it runs: Xids, and GPUs that no longer answer.

Rules kept here:

1. The library is an argument, as in ``nvml``.  A GPU that supports no events is passed over, and named.
2. An event has the GPU's PCI address; '' means that the driver did not say which GPU it was.
3. When waiting itself fails, each GPU is asked whether it still answers: those that do not are lost.
"""

import contextlib
from typing import Any

from numawise.host.nvml import address_of
from numawise.values import dataclass

XID = 0x8
"""``nvmlEventTypeXidCriticalError``"""


@dataclass(frozen=True, slots=True)
class GpuEvent:
    """An Xid, or a GPU that is lost."""

    address: str
    xid: int = 0
    """0: the GPU does not answer any more."""


class GpuEvents:
    """Listens to the driver; ``wait`` blocks, so it belongs into a thread."""

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401 - or a recording
        self.nvml = nvml
        self.handles: dict[str, Any] = {}
        self.silent: tuple[str, ...] = ()
        """Addresses of GPUs without events (rule 1)."""
        self.events = nvml.nvmlEventSetCreate()
        silent = []
        for at in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(at)
                address = address_of(nvml.nvmlDeviceGetPciInfo(handle))
            except nvml.NVMLError:
                continue
            self.handles[address] = handle
            try:
                supported = nvml.nvmlDeviceGetSupportedEventTypes(handle) & XID
                nvml.nvmlDeviceRegisterEvents(handle, supported, self.events)
            except nvml.NVMLError:
                supported = 0
            if not supported:
                silent.append(address)
        self.silent = tuple(silent)

    def wait(self, milliseconds: int) -> tuple[GpuEvent, ...]:
        """What happened; nothing when the time is over.  ``NVMLError``: the driver cannot be asked."""
        try:
            data = self.nvml.nvmlEventSetWait(self.events, milliseconds)
        except self.nvml.NVMLError:
            lost = tuple(GpuEvent(address) for address in self.handles if not self._answers(address))
            if not lost:
                raise
            return lost
        if data is None or not data.eventType & XID:
            return ()
        return (GpuEvent(self._address(data.device), int(data.eventData)),)

    def modes(self) -> tuple[bool, ...]:
        """Which GPUs have MIG switched on: nothing but the driver says so."""
        modes = []
        for handle in self.handles.values():
            try:
                modes.append(bool(self.nvml.nvmlDeviceGetMigMode(handle)[0]))
            except (self.nvml.NVMLError, AttributeError):  # it has no MIG, or the driver does not know of it
                modes.append(False)
        return tuple(modes)

    def close(self) -> None:
        """Listen no more, and let go of the driver."""
        with contextlib.suppress(self.nvml.NVMLError):
            self.nvml.nvmlEventSetFree(self.events)
        self.nvml.close()

    def _address(self, device: int | None) -> str:
        try:
            return address_of(self.nvml.nvmlDeviceGetPciInfo(self.nvml.handle(device)))
        except self.nvml.NVMLError:
            return ""

    def _answers(self, address: str) -> bool:
        try:
            self.nvml.nvmlDeviceGetUUID(self.handles[address])
        except self.nvml.NVMLError:
            return False
        return True
