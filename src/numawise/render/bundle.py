"""A bundle in a few lines."""

from collections.abc import Sequence

from numawise.codec.bundle.manifest import PODS, README, STATE
from numawise.results.bundle import AbsentPart, BundledState, BundleSummary

MEMBERS = ("FILE", "BYTES", "WHAT")


def head_lines(bundle: BundleSummary) -> list[str]:
    """Whose it is, when it was made, and where its parts come from."""
    versions = ", ".join(f"{name} {value}" for name, value in bundle.versions.items())
    names = "names replaced" if bundle.key else "names kept"
    return [
        f"Node {bundle.node or 'without a name'}, collected {bundle.collected}, {names}",
        f"versions: {versions or 'none known'}",
        *(f"{what}: {where}" for what, where in bundle.sources.items()),
    ]


def member_rows(bundle: BundleSummary) -> list[tuple[str, str, str]]:
    """The members: sizes, what they are, how many pods, whether checksums are right."""
    rows = []
    for member in bundle.members:
        if member.name == README:
            continue
        about = member.about
        if member.name == PODS:
            about = f"{bundle.pods} pods, {len(bundle.refused)} of them refused by the kubelet"
        elif member.name.startswith(f"{STATE}/"):
            state = bundle.state.get(member.name.partition("/")[2])
            about = _state(state) if state else about
        rows.append((member.name, str(member.size), about))
    return rows


def notes_lines(absent: Sequence[AbsentPart], remarks: Sequence[str]) -> list[str]:
    """What is not inside, and what else there is to know."""
    return [*(f"not inside: {part.what}: {part.why}" for part in absent), *remarks]


def _state(state: BundledState) -> str:
    if state.problem:
        return f"damaged: {state.problem}"
    policy = f"policy {state.policy}, " if state.policy else ""
    return f"{policy}checksum {'right' if state.checksum else 'wrong'}"
