"""GPUs as NVIDIA's management library tells them: identity, places, links, MIG instances.

Rules kept here:

1. The library is an argument, so that a recording can stand in for it; ``load`` finds the real one.
2. A call that a GPU, a driver or a sandbox does not support leaves its field unknown, with one remark.
3. A link is told as ``nvidia-smi topo -m`` prints it: ``NV`` and the number of NVLinks between two GPUs,
   else how far apart they are on PCIe.  Over NVSwitch every pair has the fewer of the two GPUs' links.
4. The NUMA node of a GPU is that of the *CPUs* near to it.  Grace and POWER give a GPU's memory a node of
   its own; that is ``own_numa``, and never mistaken for the first.
"""

import importlib
from collections.abc import Callable
from typing import Any

from numawise.errors import HostError
from numawise.machine.hardware import UNKNOWN, Gpu, Hardware, Matrix, Remark
from numawise.sets import format_ids, ids_of

NODE_SCOPE = 0
WORD = 64
WORDS = 32
"""CPU masks of up to 2,048 CPUs."""
NODE_WORDS = 16
ANCESTORS = {0: "PSB", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
MOST_LINKS = 18
TO_GPU, TO_SWITCH = 0, 2


def load() -> Any:  # noqa: ANN401 - a module without types
    """The NVML bindings, ready for use; raise ``HostError`` when they, or the driver, are missing."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        raise HostError("NVML is not there", advice="install numawise[nvidia]") from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise HostError(
            f"NVML cannot be used: {error}", advice="check the NVIDIA driver with nvidia-smi"
        ) from None
    return nvml


def read_gpus(nvml: Any) -> Hardware:  # noqa: ANN401
    """All GPUs that NVML shows, as the part of a machine that it knows."""
    asker = _Asker(nvml)
    count = asker.ask("nvmlDeviceGetCount") or 0
    handles = [asker.ask("nvmlDeviceGetHandleByIndex", i) for i in range(count)]
    found = [(f"GPU{i}", handle) for i, handle in enumerate(handles) if handle is not None]
    gpus: list[Gpu] = []
    for name, handle in found:
        gpu = _gpu(asker, name, handle)
        gpus.append(gpu)
        gpus += _mig_instances(asker, gpu, handle)
    whole = {gpu.name: gpu for gpu in gpus if not gpu.parent}
    links = _links(asker, dict(found), whole)
    matrix = Matrix(
        gpus=tuple(whole),
        links=links,
        cpu_affinity={n: None if g.cpus is None else format_ids(g.cpus) for n, g in whole.items()},
        numa_affinity={n: None if g.numa is None else ",".join(map(str, g.numa)) for n, g in whole.items()},
        gpu_numa_id={n: None if g.own_numa is None else str(g.own_numa) for n, g in whole.items()},
    )
    return Hardware(
        gpus=tuple(gpus),
        matrix=matrix if whole else None,
        sources=("nvml",),
        remarks=tuple(dict.fromkeys(asker.remarks)),
    )


class _Asker:
    """Calls NVML, and keeps a remark for what it does not answer."""

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401
        self.nvml = nvml
        self.remarks: list[Remark] = []

    def ask(self, function: str, *arguments: Any, quiet: bool = False) -> Any:  # noqa: ANN401
        """The answer of a call; None when there is none."""
        call: Callable[..., Any] | None = getattr(self.nvml, function, None)
        if call is None:
            return None
        try:
            return call(*arguments)
        except self.nvml.NVMLError as error:
            if not quiet:
                self.remarks.append(Remark(UNKNOWN, function, f"NVML does not tell it: {error}"))
            return None


def _gpu(asker: _Asker, name: str, handle: Any) -> Gpu:  # noqa: ANN401
    pci = asker.ask("nvmlDeviceGetPciInfo", handle)
    memory = asker.ask("nvmlDeviceGetMemoryInfo", handle)
    cpus = asker.ask("nvmlDeviceGetCpuAffinityWithinScope", handle, WORDS, NODE_SCOPE)
    nodes = asker.ask("nvmlDeviceGetMemoryAffinity", handle, NODE_WORDS, NODE_SCOPE)
    own = asker.ask("nvmlDeviceGetNumaNodeId", handle, quiet=True)
    near = _mask(nodes)
    return Gpu(
        name=name,
        uuid=_text(asker.ask("nvmlDeviceGetUUID", handle)),
        address=_address(_text(getattr(pci, "busId", ""))),
        model=_text(asker.ask("nvmlDeviceGetName", handle)),
        memory=getattr(memory, "total", None),
        cpus=_mask(cpus),
        numa=None if near is None else tuple(ids_of(near)),
        own_numa=own if isinstance(own, int) and own >= 0 else None,
    )


def _mig_instances(asker: _Asker, gpu: Gpu, handle: Any) -> list[Gpu]:  # noqa: ANN401
    mode = asker.ask("nvmlDeviceGetMigMode", handle, quiet=True)
    if not mode or not mode[0]:
        return []
    found = []
    for at in range(asker.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        instance = asker.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, at, quiet=True)
        if instance is None:
            continue
        memory = asker.ask("nvmlDeviceGetMemoryInfo", instance)
        found.append(
            Gpu(
                name=f"{gpu.name}:{at}",
                uuid=_text(asker.ask("nvmlDeviceGetUUID", instance)),
                address=gpu.address,
                model=_text(asker.ask("nvmlDeviceGetName", instance)),
                memory=getattr(memory, "total", None),
                cpus=gpu.cpus,
                numa=gpu.numa,
                own_numa=gpu.own_numa,
                parent=gpu.name,
            )
        )
    return found


def _links(asker: _Asker, handles: dict[str, Any], gpus: dict[str, Gpu]) -> dict[str, dict[str, str]]:
    by_address = {gpu.address: name for name, gpu in gpus.items() if gpu.address}
    peers: dict[str, dict[str, int]] = {}
    switched: dict[str, int] = {}
    for name, handle in handles.items():
        peers[name], switched[name] = _nvlinks(asker, handle, by_address)
    links: dict[str, dict[str, str]] = {}
    for one, handle in handles.items():
        row: dict[str, str] = {}
        for other, peer in handles.items():
            if one == other:
                row[other] = "X"
                continue
            lines = peers[one].get(other, 0) or min(switched[one], switched[other])
            if lines:
                row[other] = f"NV{lines}"
            else:
                level = asker.ask("nvmlDeviceGetTopologyCommonAncestor", handle, peer)
                if level in ANCESTORS:
                    row[other] = ANCESTORS[level]
        links[one] = row
    return links


def _nvlinks(asker: _Asker, handle: Any, by_address: dict[str, str]) -> tuple[dict[str, int], int]:  # noqa: ANN401
    """NVLinks of one GPU: how many lead to which GPU, and how many to a switch."""
    peers: dict[str, int] = {}
    switched = 0
    for link in range(MOST_LINKS):
        if not asker.ask("nvmlDeviceGetNvLinkState", handle, link, quiet=True):
            continue
        kind = asker.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link, quiet=True)
        if kind == TO_SWITCH:
            switched += 1
            continue
        remote = asker.ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link, quiet=True)
        name = by_address.get(_address(_text(getattr(remote, "busId", ""))))
        if name is not None:
            peers[name] = peers.get(name, 0) + 1
        elif kind is None:
            switched += 1
    return peers, switched


def _mask(words: Any) -> int | None:  # noqa: ANN401
    if words is None:
        return None
    bits = 0
    for at, word in enumerate(words):
        bits |= int(word) << at * WORD
    return bits


def _text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "" if value is None else str(value)


def _address(bus_id: str) -> str:
    """``00000000:17:00.0`` as the kernel writes it: ``0000:17:00.0``."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest else ""
