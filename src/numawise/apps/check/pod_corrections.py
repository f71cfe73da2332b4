"""How what is found in a pod is mended in its manifest: amounts, names of resources, variables."""

from collections.abc import Mapping

from numawise.codec.document import Part
from numawise.codec.edits import Edits, correction, remove, rename_key, set_value
from numawise.codec.lines import Steps
from numawise.explain.guaranteed import GuaranteedAmount
from numawise.request.model import CPU, MEMORY
from numawise.results.correction import Correction

KINDS = ("requests", "limits")
SHM = "shm"
HOST_NAME = "kubernetes.io/hostname"


def amount_set(part: Part, resource: str, amount: str, *, certain: bool = True) -> Correction | None:
    """Ask for another amount of a resource, in requests and limits, wherever it is written."""
    edits = [
        set_value(part, ("resources", kind, resource), amount)
        for kind in KINDS
        if part.at("resources", kind, resource).value is not None
    ]
    title = f'set {resource} to "{amount}"'
    return correction(title, *edits, certain=certain) if edits else None


def resource_renamed(part: Part, name: str, near: str) -> Correction | None:
    """Ask for the resource that is meant."""
    edits = [
        rename_key(part, ("resources", kind, name), near)
        for kind in KINDS
        if part.at("resources", kind, name).value is not None
    ]
    return correction(f"rename {name} to {near}", *edits) if edits else None


def guaranteed(part: Part, name: str, amounts: Mapping[str, GuaranteedAmount | None]) -> Correction | None:
    """Limits, and requests equal to them; a choice, for less or more may be meant."""
    cpu, memory = amounts[CPU], amounts[MEMORY]
    if cpu is None or memory is None:
        return None
    wanted = {CPU: str(cpu.value), MEMORY: str(memory.value)}
    edits: list[Edits] = []
    for kind in KINDS:
        written = part.at("resources", kind).value
        if not written and kind == "limits":
            steps: Steps = ("resources", kind) if part.at("resources").value else ("resources",)
            edits.append(set_value(part, steps, wanted if len(steps) > 1 else {kind: wanted}))
        elif isinstance(written, Mapping):
            edits += [
                set_value(part, ("resources", kind, resource), amount)
                for resource, amount in wanted.items()
                if (resource in written or kind == "limits") and str(written.get(resource)) != amount
            ]
    title = f'make {name} Guaranteed: cpu "{wanted[CPU]}", memory {wanted[MEMORY]}'
    return correction(title, *edits, certain=False) if edits else None


def shared_memory(spec: Part, part: Part) -> Correction | None:
    """Memory at /dev/shm, where neither the container nor the pod has volumes yet; how much is a choice."""
    if part.at("volumeMounts").value is not None or spec.at("volumes").value is not None:
        return None
    mount = set_value(part, ("volumeMounts",), [{"name": SHM, "mountPath": "/dev/shm"}])  # noqa: S108 - inside
    volume = set_value(spec, ("volumes",), [{"name": SHM, "emptyDir": {"medium": "Memory"}}])
    return correction("mount memory at /dev/shm", mount, volume, certain=False)


def selected_by_name(spec: Part, node: str) -> Correction | None:
    """A node selector instead of ``nodeName``, so that the scheduler has its say."""
    gone = remove(spec, ("nodeName",))
    selector = set_value(spec, ("nodeSelector", HOST_NAME), node)
    return correction(f"select the node by its label {HOST_NAME}", gone, selector, certain=False)


def part_removed(part: Part, what: str) -> Correction | None:
    """The pod without something, for somebody to choose."""
    return correction(f"remove {what}", remove(part, ()), certain=False)


def entry_removed(entry: Part | None, name: str) -> Correction | None:
    """A container without one of its variables, for somebody to choose."""
    return correction(f"remove {name}", remove(entry, ()), certain=False) if entry is not None else None


def entry_set(entry: Part | None, name: str, value: str) -> Correction | None:
    """Another value of a variable, for somebody to choose."""
    if entry is None:
        return None
    return correction(f'set {name} to "{value}"', set_value(entry, ("value",), value), certain=False)
