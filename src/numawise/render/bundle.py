"""A bundle in a few lines, and as data."""

from collections.abc import Mapping

from numawise.apps.bundle.pack import what_is
from numawise.codec.bundle.archive import MANIFEST
from numawise.codec.bundle.manifest import KIND, PODS, README, STATE, Manifest, manifest_data
from numawise.codec.checkpoint.look import Look, look
from numawise.inputs.bundle import Bundle
from numawise.results.plain import API_VERSION

MEMBERS = ("FILE", "BYTES", "WHAT")


def head_lines(bundle: Bundle) -> list[str]:
    """Whose it is, when it was made, and where its parts come from."""
    manifest = bundle.manifest
    versions = ", ".join(f"{name} {value}" for name, value in manifest.versions.items())
    names = "names replaced" if manifest.anonymised else "names kept"
    return [
        f"Node {manifest.node or 'without a name'}, collected {manifest.collected}, {names}",
        f"versions: {versions or 'none known'}",
        *(f"{what}: {where}" for what, where in manifest.sources.items()),
    ]


def member_rows(bundle: Bundle) -> list[tuple[str, str, str]]:
    """The members: sizes, what they are, how many pods, whether checksums are right."""
    looks = _looks(bundle)
    rows = []
    for name, content in sorted(bundle.members.items()):
        if name in (MANIFEST, README):
            continue
        told = what_is(name)
        if name == PODS:
            told = f"{len(bundle.pods())} pods, {len(bundle.refused())} of them refused by the kubelet"
        elif name.startswith(f"{STATE}/"):
            told = _state(looks.get(name.partition("/")[2]), told)
        rows.append((name, str(len(content)), told))
    return rows


def notes_lines(manifest: Manifest) -> list[str]:
    """What is not inside, and what else there is to know."""
    return [*(f"not inside: {one.what}: {one.why}" for one in manifest.absent), *manifest.remarks]


def shown_data(bundle: Bundle) -> dict[str, object]:
    """A bundle as JSON: its manifest, with the number of pods and verdicts on the state files."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        **manifest_data(bundle.manifest, bundle.members),
        "pods": len(bundle.pods()),
        "refused": [pod.name for pod in bundle.refused()],
        "state": {
            name: {"policy": found.policy, "format": found.format, "checksum": found.fits}
            for name, found in _looks(bundle).items()
        },
    }


def _looks(bundle: Bundle) -> Mapping[str, Look]:
    return {name: look(name, text) for name, text in bundle.texts.items()}


def _state(found: Look | None, otherwise: str) -> str:
    if found is None:
        return otherwise
    if found.problem:
        return f"damaged: {found.problem}"
    policy = f"policy {found.policy}, " if found.policy else ""
    return f"{policy}checksum {'right' if found.fits else 'wrong'}"
