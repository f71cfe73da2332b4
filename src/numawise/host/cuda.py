"""Copies between host memory and a GPU, timed through NVIDIA's driver library.

Rules kept here:

1. The library is loaded in a child process that sees this one GPU only; the caller never touches CUDA.
2. Host memory is bound to a NUMA node, put in place, and then pinned (``cuMemHostRegister``), so it is known
   where it lies; memory that the driver allocates itself is not.
3. Rates are of plain copies, the best of several rounds, in bytes per second.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numawise.errors import HostError
from numawise.host.bandwidth import PATIENCE, Buffer, best_rate, in_child, run_on

LIBRARY = "libcuda.so.1"
STARTING = 20.0
"""Seconds that CUDA may need to start on a machine with many GPUs."""


@dataclass(frozen=True, slots=True)
class CopyRate:
    """Copies between the memory of a NUMA node and a GPU; bytes per second."""

    numa: int
    """-1: wherever the kernel put the memory."""
    to_gpu: float = 0.0
    from_gpu: float = 0.0
    problem: str = ""


def measure_copies(
    address: str, uuid: str, cpu: int, sizes: Sequence[tuple[int, int]], seconds: float
) -> tuple[CopyRate, ...]:
    """Rates of copies to and from a GPU; ``sizes`` has each NUMA node and the bytes of a buffer there.

    Raises ``HostError`` when CUDA cannot be used.
    """

    def work() -> list[dict[str, Any]]:
        run_on(cpu)
        # With this variable set the GPU is the only one, and CUDA starts quicker.
        os.environ["CUDA_VISIBLE_DEVICES"] = uuid or "all"
        if not uuid:
            del os.environ["CUDA_VISIBLE_DEVICES"]
        driver = _Driver()
        device = driver.device(address, only=bool(uuid))
        driver.use(device)
        largest = max(size for _, size in sizes)
        there = driver.allocate(largest)
        each = seconds / max(len(sizes), 1)
        return [_measure(driver, there, numa, size, each) for numa, size in sizes]

    rows = in_child(work, seconds + STARTING + PATIENCE)
    return tuple(CopyRate(**row) for row in rows)


def _measure(driver: "_Driver", there: int, numa: int, size: int, seconds: float) -> dict[str, Any]:
    try:
        buffer = Buffer(size, numa)
        driver.call("cuMemHostRegister_v2", buffer.address, size, 0)
    except HostError as problem:
        return {"numa": numa, "problem": problem.message}
    here = buffer.address
    found = {
        "numa": numa,
        "to_gpu": best_rate(lambda: driver.call("cuMemcpyHtoD_v2", there, here, size), size, seconds / 2),
        "from_gpu": best_rate(lambda: driver.call("cuMemcpyDtoH_v2", here, there, size), size, seconds / 2),
    }
    driver.call("cuMemHostUnregister", here)
    buffer.close()
    return found


class _Driver:
    """The calls that are needed, each checked."""

    def __init__(self) -> None:
        import ctypes  # noqa: PLC0415 - costs time, and only measuring needs it

        self._types = ctypes
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError:
            raise HostError(f"CUDA is not there ({LIBRARY} cannot be loaded)") from None
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:  # noqa: ANN401 - integers and pointers
        """Make a call; raise ``HostError`` with CUDA's own word when it fails."""
        function: Callable[..., int] | None = getattr(self._library, name, None)
        if function is None:
            raise HostError(f"this CUDA driver has no {name}")
        # Everything is passed as a full register: a bare int would be cut to 32 bits.
        passed = [self._types.c_uint64(item) if isinstance(item, int) else item for item in arguments]
        code = function(*passed)
        if code:
            raise HostError(f"CUDA refused {name}: {self._name_of(code)}")

    def device(self, address: str, *, only: bool) -> int:
        """The device at a PCI address, or the only one."""
        found = self._types.c_int()
        if only:
            self.call("cuDeviceGet", self._types.byref(found), 0)
        else:
            self.call("cuDeviceGetByPCIBusId", self._types.byref(found), address.encode())
        return found.value

    def use(self, device: int) -> None:
        """Make the device's context the current one."""
        context = self._types.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", self._types.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def allocate(self, size: int) -> int:
        """Memory on the GPU."""
        found = self._types.c_uint64()
        self.call("cuMemAlloc_v2", self._types.byref(found), size)
        return found.value

    def _name_of(self, code: int) -> str:
        text = self._types.c_char_p()
        known = getattr(self._library, "cuGetErrorName", None)
        if known is None or known(code, self._types.byref(text)) or not text.value:
            return f"error {code}"
        return text.value.decode(errors="replace")
