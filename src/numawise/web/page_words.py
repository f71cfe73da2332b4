"""What commands say about their options, in the words of the page.

Rules kept here:

1. Whoever reads an answer has no command line: the field of an error is a member of the body, and neither
   its advice nor a remark names an option of ours.
2. Options of other programs, and commands that are written out, stay as they are.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from numawise.codec.web.body import members_of
from numawise.codec.web.given import NodeGiven
from numawise.errors import InputError, NumawiseError
from numawise.values import dataclass

BODY = "$"
MISSING = "is missing"


@dataclass(frozen=True, slots=True)
class BodyMember:
    """What stands for an option in a body."""

    names: tuple[str, ...]
    """The first of these that a body has."""
    words: str
    advice: str


FILES = ("files",)
OPTIONS = {
    "--machine": BodyMember(("machine",), "a machine", "name one, or drop a machine or a bundle"),
    "--kubelet-config": BodyMember(
        ("config", *FILES),
        "a kubelet configuration",
        "write one, or drop the kubelet's configuration or a bundle",
    ),
    "--config-dir": BodyMember(FILES, "drop-ins", "drop one configuration"),
    "--kubelet-flags": BodyMember(FILES, "flags of a kubelet", "drop one file of flags"),
    "--bundle": BodyMember(FILES, "a bundle", "drop one bundle"),
    "--state": BodyMember(FILES, "state files", "drop the state files of one node"),
    "--match-devices": BodyMember(("match_devices",), "matchDevices", "drop what nvidia-smi -L prints"),
    "--kube": BodyMember(("release",), "a release", "give a release such as 1.36"),
    "--node-object": BodyMember(FILES, "a Node object", "drop the Node object"),
    "--node-name": BodyMember(FILES, "a node's name", "drop what is of one node"),
    "--pod-resources": BodyMember(FILES, "what the PodResources socket answers", "drop it"),
    "--device-plugin-config": BodyMember(FILES, "the device plugin's configuration", "drop it"),
    "--reserve-cpus": BodyMember(("reserve_cpus",), "CPUs to keep", "keep fewer"),
    "--reserve-memory": BodyMember(("reserve_memory",), "memory to keep", "keep less"),
    "--hugepages": BodyMember(("hugepages",), "huge pages", "ask for fewer"),
}
"""Options of ours that readers of nodes and plans name."""
KUBELETS = ("--config-dir",)
"""Of these, what a kubelet calls so, too."""
_OPTION = rf"(?:{'|'.join(name for name in OPTIONS if name not in KUBELETS)})(?![\w-])"
OPTION = re.compile(_OPTION)
COMMAND = re.compile(r"('numawise [^']*'|\bnumawise [a-z][^,;]*)")
INNER = re.compile(r"[.\[]")
PHRASES = (
    (re.compile(rf"\bas {_OPTION} names another"), "as another is named"),
    (re.compile(rf"{_OPTION} names one"), "name one"),
    (re.compile(rf" \({_OPTION}\)"), ""),
    (re.compile(rf",? with {_OPTION}(?=$|[,;.:])"), ""),
)
"""Clauses that name an option beside what they say."""


def said_here(text: str) -> str:
    """A sentence without options of ours (rule 1)."""
    if not OPTION.search(text):
        return text
    return "".join(part if COMMAND.match(part) else _without_options(part) for part in COMMAND.split(text))


def all_said_here(texts: Iterable[str]) -> tuple[str, ...]:
    """Several sentences, each once."""
    return tuple(dict.fromkeys(map(said_here, texts)))


@contextmanager
def in_body(form: type | None, place: str = BODY) -> Iterator[None]:
    """Errors inside name members of a body of this form, or of the part of it at ``place``."""
    try:
        yield
    except NumawiseError as problem:
        if isinstance(problem, InputError):
            _rename(problem, form, place)
        problem.advice = said_here(problem.advice)
        raise


def _without_options(text: str) -> str:
    for phrase, instead in PHRASES:
        text = phrase.sub(instead, text)
    return OPTION.sub(lambda found: OPTIONS[found[0]].words, text)


def _rename(problem: InputError, form: type | None, place: str) -> None:
    option = OPTIONS.get(problem.field)
    own = members_of(form) if form is not None else {}
    if option is not None:
        if problem.message.startswith(MISSING):
            what = option.words.removeprefix("a ")
            problem.message = f"no {what} is known{problem.message.removeprefix(MISSING)}"
        if not problem.advice or OPTION.search(problem.advice):
            problem.advice = option.advice
        problem.field = _member(option, own, place)
    elif problem.field.startswith("--"):
        problem.field = ""
    elif not problem.file and INNER.split(problem.field)[0] in own.values():
        problem.field = f"{place}.{problem.field}"


def _member(option: BodyMember, own: Mapping[str, str], place: str) -> str:
    """The member that stands for an option; '' where there is none."""
    known = {name: f"{place}.{key}" for name, key in own.items()}
    if "node" in own:
        known |= {name: f"{place}.{own['node']}.{key}" for name, key in members_of(NodeGiven).items()}
    return next((known[name] for name in option.names if name in known), "")
