"""CDI files of this host: whether a container runtime will find the devices that an agent names.

Rules kept here:

1. Container runtimes look into ``/etc/cdi`` and ``/var/run/cdi``, at files that end with .yaml and .json.
2. The files are somebody else's to write; they are read as text, for the words that must be in them.
3. Where neither folder is to be seen, nothing is known: an agent in a container may not have them.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from numawise.host.files import Tree

FOLDERS = ("etc/cdi", "var/run/cdi")
ENDINGS = (".yaml", ".yml", ".json")
MOST_FILES = 100
GENERATE = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"


def cdi_problem(root: Path, kind: str, names: Sequence[str]) -> str:
    """What is wrong with the CDI files for devices of a kind, with what to do; '': nothing, or not known."""
    tree = Tree(root)
    if not any(tree.leads_somewhere(folder) for folder in FOLDERS):
        return ""
    said = re.compile(rf"""["']?kind["']?\s*:\s*["']?{re.escape(kind)}(?:["'\s,]|$)""")
    texts = [text for text in _texts(tree) if said.search(text)]
    advice = f"make it with '{GENERATE}'" if kind == "nvidia.com/gpu" else "make one"
    if not texts:
        return (
            f"no CDI file of kind {kind} lies in /etc/cdi or /var/run/cdi: the container runtime will refuse "
            f"containers that get {kind} devices; {advice}"
        )
    absent = [name for name in names if not any(_names(text, name) for text in texts)]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        return (
            f"the CDI files of kind {kind} do not name {absent[0]}{more}: the container runtime will refuse "
            f"containers that get it; {advice}, again"
        )
    return ""


def _texts(tree: Tree) -> list[str]:
    texts = []
    for folder in FOLDERS:
        for name in sorted(tree.names(folder))[:MOST_FILES]:
            if name.endswith(ENDINGS):
                texts.append(tree.text(f"{folder}/{name}") or "")
    return texts


def _names(text: str, name: str) -> bool:
    return re.search(rf"""["']?name["']?\s*:\s*["']?{re.escape(name)}(?:["'\s,]|$)""", text) is not None
