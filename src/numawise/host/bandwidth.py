"""How fast memory is reached, measured: each NUMA node from one core, and copies to a GPU.

Rules kept here:

1. A child process does it, so that neither the policy nor the CPU of the caller changes, and so that whatever
   goes wrong (a node without memory, a memory limit) ends the child alone.
2. The child runs on one CPU, and its buffers are bound to the node before they are touched.  Where the pages
   really are is asked afterwards: what did not come to lie there is a problem, not a figure.
3. Buffers are larger than the last cache.  What is read is one buffer (``memchr`` for a byte that is not in
   it); what is copied goes from one to another on the same node.  Rates count bytes read, and bytes copied
   once.
4. The best of several rounds counts: everything else on the machine only makes a round slower.
5. Never more than half of what a node has free is taken, and the child is ended when its time is over.
"""

import errno
import json
import mmap
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from numawise.errors import HostError
from numawise.host import mempolicy
from numawise.values import dataclass

SMALLEST, LARGEST = 16 << 20, 1 << 30
"""Bytes of a buffer."""
PATIENCE = 20.0
"""Seconds beyond its own that a child is given to end."""
SAMPLE = 64
"""Pages that are looked up."""
FILL, ABSENT = 1, 2


@dataclass(frozen=True, slots=True)
class Rate:
    """What one round of measuring found; bytes per second."""

    numa: int
    """NUMA node of the memory; -1: wherever the kernel put it."""
    read: float = 0.0
    copy: float = 0.0
    problem: str = ""
    """Why there is no figure."""


def buffer_size(cache: int, free: int) -> int:
    """Bytes of one of two buffers: twice the last cache, and what a node can spare; 0: that is too little."""
    wanted = min(max(2 * cache, 4 * SMALLEST), LARGEST)
    room = free // 4
    return min(wanted, room) >> 20 << 20 if room >= max(min(cache * 3 // 2, LARGEST), SMALLEST) else 0


def measure_memory(cpu: int, sizes: Sequence[tuple[int, int]], seconds: float) -> tuple[Rate, ...]:
    """Rates from a CPU to NUMA nodes; ``sizes`` has each node and the bytes of a buffer there."""
    each = seconds / max(len(sizes), 1)

    def work() -> list[dict[str, Any]]:
        run_on(cpu)
        return [_measure(numa, size, each) for numa, size in sizes]

    try:
        rows = in_child(work, seconds + PATIENCE)
    except HostError as problem:
        return tuple(Rate(numa, problem=problem.message) for numa, _ in sizes)
    return tuple(Rate(**row) for row in rows)


def run_on(cpu: int) -> None:
    """Keep this process on one CPU."""
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as error:
        raise HostError(f"CPU {cpu} may not be used from here ({error.strerror})") from error


def _measure(numa: int, size: int, seconds: float) -> dict[str, Any]:
    try:
        source, target = Buffer(size, numa), Buffer(size, numa)
    except HostError as problem:
        return {"numa": numa, "problem": problem.message}
    import ctypes  # noqa: PLC0415 - costs time, and only measuring needs it

    libc = ctypes.CDLL(None)
    libc.memchr.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    libc.memchr.restype = ctypes.c_void_p
    found = {
        "numa": numa,
        "read": best_rate(lambda: libc.memchr(source.address, ABSENT, size), size, seconds / 2),
        "copy": best_rate(lambda: ctypes.memmove(target.address, source.address, size), size, seconds / 2),
    }
    source.close()
    target.close()
    return found


def best_rate(work: Callable[[], object], size: int, seconds: float) -> float:
    """Bytes per second of the fastest round; three at least, and more while there is time."""
    best = float("inf")
    until = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < until:
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
        rounds += 1
    return size / best if best else 0.0


class Buffer:
    """Memory that is all in place on one NUMA node; -1: wherever the kernel puts it."""

    __slots__ = ("_memory", "_view", "address", "size")

    def __init__(self, size: int, numa: int) -> None:
        import ctypes  # noqa: PLC0415

        self.size = size
        try:
            self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise HostError(f"{size >> 20} MiB of memory cannot be allocated ({error.strerror})") from error
        self._view: ctypes.Array[ctypes.c_char] = (ctypes.c_char * size).from_buffer(self._memory)
        self.address = ctypes.addressof(self._view)
        if numa >= 0:
            mempolicy.mbind(self.address, size, mempolicy.BIND, 1 << numa)
        try:
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a kernel without huge pages
                raise
        ctypes.memset(self.address, FILL, size)
        if numa >= 0:
            self._look(numa)

    def _look(self, numa: int) -> None:
        page = mmap.PAGESIZE
        step = max(self.size // SAMPLE // page, 1) * page
        places = mempolicy.move_pages(0, tuple(range(self.address, self.address + self.size, step)))
        astray = [place for place in places if place != numa]
        if astray:
            raise HostError(f"memory bound to NUMA {numa} ended up on NUMA {astray[0]}")

    def close(self) -> None:
        """Give the memory back."""
        del self._view
        self._memory.close()


def in_child(work: Callable[[], Any], seconds: float) -> Any:  # noqa: ANN401 - whatever JSON can carry
    """Do something in a child process; raise ``HostError`` when it fails, dies or takes too long."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(work, reading, writing)
    os.close(writing)
    data = b""
    try:
        until = time.monotonic() + seconds
        while select.select([reading], [], [], max(until - time.monotonic(), 0))[0]:
            part = os.read(reading, 1 << 16)
            if not part:
                break
            data += part
        else:
            os.kill(child, signal.SIGKILL)
            raise HostError(f"measuring took longer than {seconds:.0f} s and was ended")
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)
    if not data:
        why = f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "ended early"
        raise HostError(f"the process that measures was {why}", "check memory limits")
    answer = json.loads(data)
    if "problem" in answer:
        raise HostError(answer["problem"])
    return answer["found"]


def _answer(work: Callable[[], Any], reading: int, writing: int) -> None:
    """The child's whole life."""
    try:
        os.close(reading)
        try:
            answer = {"found": work()}
        except HostError as error:
            answer = {"problem": error.message}
        except Exception as error:  # noqa: BLE001 - sent to the parent, which raises it
            answer = {"problem": f"{type(error).__name__}: {error}"}
        data = json.dumps(answer).encode()
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


# --------------------------------------------------------------------------------------------------
# Copies between host memory and a GPU, timed through NVIDIA's driver library.
#
# Rules kept here:
#
# 1. The library is loaded in a child process that sees this one GPU only; the caller never touches CUDA.
# 2. Host memory is bound to a NUMA node, put in place, and then pinned (``cuMemHostRegister``), so it is
#    known where it lies; memory that the driver allocates itself is not.
# 3. Rates are of plain copies, the best of several rounds, in bytes per second.


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
        return [_measure_copies(driver, there, numa, size, each) for numa, size in sizes]

    rows = in_child(work, seconds + STARTING + PATIENCE)
    return tuple(CopyRate(**row) for row in rows)


def _measure_copies(driver: "_Driver", there: int, numa: int, size: int, seconds: float) -> dict[str, Any]:
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
            raise HostError(f"CUDA is not installed ({LIBRARY} cannot be loaded)") from None
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
