"""Which machine a person names after ``--machine``, as the kubelet sees it and as it can be drawn.

Rules kept here:

1. A machine file is taken to the letter, as ``simulate`` takes it; ``-`` is one on standard input.  So is the
   machine of a bundle.
2. Anything else is what ``show`` takes: a saved discovery, prints, a name of the catalogue, words.
3. ``this`` is the machine we run on; write ``./this`` for a file of that name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from numawise.codec.document import read_documents, read_file
from numawise.codec.machine import decode_machine
from numawise.errors import InputError
from numawise.inputs.bundle import is_bundle, open_bundle
from numawise.inputs.machine import hardware_meant
from numawise.machine.hardware import Hardware, hardware_of
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.model import Machine

THIS = "this"


@dataclass(frozen=True, slots=True)
class GivenMachine:
    """A machine, seen twice."""

    machine: Machine
    """What the kubelet is told."""
    hardware: Hardware
    """What is known about it."""


def machine_given(text: str) -> GivenMachine:
    """The machine that is meant."""
    if is_bundle(text):
        bundle = open_bundle(text)
        return GivenMachine(bundle.machine(), bundle.hardware())
    if text == "-" or _is_machine_file(text):
        documents = read_file(text)
        if len(documents) != 1:
            raise InputError("holds several documents, and one machine is wanted", file=documents[0].file)
        machine = decode_machine(documents[0])
        path = Path(text)
        name = "" if text == "-" else path.resolve().parent.name if path.stem == "machine" else path.stem
        return GivenMachine(machine, hardware_of(machine, name))
    hardware = hardware_meant(() if text == THIS else (text,))
    seen = kubelet_view(hardware)
    if isinstance(seen, tuple):
        missing = "; ".join(remark.text for remark in seen)
        advice = "give a machine file; numawise discover --machine --assume makes one of what is known"
        raise InputError(f"a kubelet could not be told this machine: {missing}", file=text, advice=advice)
    return GivenMachine(seen, hardware)


def _is_machine_file(text: str) -> bool:
    """Whether there is a file that holds ``cpus`` and ``numa`` and is nothing else that we know."""
    path = Path(text)
    try:
        if not path.is_file():
            return False
        head = path.read_bytes()[: 64 << 20]
        if b"cpus" not in head or b"numa" not in head:
            return False
        documents = read_documents(head, text)
    except (OSError, ValueError, InputError):
        return path.suffix in (".yaml", ".yml") and b"cpus:" in path.read_bytes()
    value = documents[0].value
    return isinstance(value, Mapping) and {"cpus", "numa"} <= set(value) and "kind" not in value
