"""Which texts of a node may stand in a bundle as they are.

Rules kept here:

1. What may stand is listed, or has a form that holds nothing but a number, an amount or a time.
   Whoever asks gets a yes or the harmless part; what became of the rest is the caller's affair.
2. Words are those of Kubernetes, of installers, of kernels and of device makers: ``data/words.txt``.
3. A kubelet's sentence stands when it is one of ``data/sentences.txt`` and every variable in it has its form.
"""

import re
from collections.abc import Collection, Mapping
from functools import cache
from itertools import takewhile

from numawise.codec.kubeletlog.hints import REJECTED_PREFIXES
from numawise.datafile import data_lines
from numawise.errors import meant

AMOUNT = r"[+-]?[0-9]{1,20}(?:\.[0-9]{0,12})?(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?"
QUANTITY = re.compile(AMOUNT, re.ASCII)
SCALAR = re.compile(
    rf"<?{AMOUNT}%?|(?:[0-9]{{1,9}}(?:\.[0-9]{{1,9}})?(?:ns|us|µs|ms|s|m|h))+|[0-9]{{1,5}}(?:[,-][0-9]{{0,5}})*",
)
"""An amount, a percentage, a duration, a list of CPUs; also misspelt ones."""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
RESOURCE = re.compile(
    rf"cpu|memory|ephemeral-storage|storage|pods|hugepages-{AMOUNT}|attachable-volumes-[a-z-]{{1,20}}"
    rf"|{LABEL}(?:\.{LABEL})*/[A-Za-z0-9](?:[\w.-]{{0,61}}[A-Za-z0-9])?",
    re.ASCII,
)
SUFFIX = re.compile(r"(.+?)(\.(?:slice|service|scope|sock|yaml|yml|json|conf|env|d))?", re.DOTALL)
NUMBERED = re.compile(r"([A-Za-z_-]*?)[-_]?[0-9]{1,5}", re.ASCII)
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII | re.IGNORECASE)
VERSION_PART = re.compile(r"[^\s()+~:/_.-]+|.", re.ASCII | re.DOTALL)
RELEASE = re.compile(
    r"v?[0-9]{1,9}[a-z]?|[0-9a-f]{7,12}|(?:el|fc|rke2r|k3s|r|rc|deb|u)[0-9]{1,4}(?:_[0-9]{1,3})?", re.ASCII
)
LONGEST_VERSION, LONGEST_VALUE, MISSPELT, LARGEST_AMOUNT = 80, 400, 0.85, 10**20
LONGEST_SENTENCE, LONGEST_NUMBER, VERSION_SIGNS = 2000, 5, frozenset("()+~:/_.-")
VALUE, NUMBER = re.compile(r"[\w\s,:;{}()\[\]=+*/-]*", re.ASCII), re.compile(r"[0-9]+")
WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*", re.ASCII)
MAC = re.compile(r"(?:[0-9A-Fa-f]{2}[:-]){5}", re.ASCII)
FAILURES, UNKNOWN_FAILURE = (
    "[failures]",
    re.compile(r"Allocate failed due to .*, which is unexpected", re.DOTALL),
)
CODE = (
    "Canceled|Unknown|InvalidArgument|DeadlineExceeded|NotFound|AlreadyExists|PermissionDenied|ResourceExhausted"
    "|FailedPrecondition|Aborted|OutOfRange|Unimplemented|Internal|Unavailable|DataLoss|Unauthenticated"
)
REPORTED = re.compile(rf"rpc error: code = (?:{CODE})\b", re.ASCII)
VARIABLES = {
    "{n}": r"-?[0-9]{1,20}",
    "{resource}": r"(\S+?)",
    "{condition}": r"(?:(?:Memory|Disk|PID)Pressure ?){1,3}",
    "{code}": rf"(?:{CODE})",
}
ALWAYS = ("cpu", "memory", "pods", "ephemeral-storage")


@cache
def words(kind: str) -> frozenset[str]:
    """The listed words of a kind (rule 2)."""
    return _table().get(kind, frozenset())


@cache
def _table() -> Mapping[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for line in data_lines(__file__, "words.txt"):
        kind, *rest = line.split()
        table.setdefault(kind, set()).update(rest)
    return {kind: frozenset(members) for kind, members in table.items()}


def is_amount(value: object) -> bool:
    """Whether a value is an amount of a resource."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return abs(value) < LARGEST_AMOUNT  # false for a float that is not a number
    return isinstance(value, str) and QUANTITY.fullmatch(value) is not None


def is_resource(name: object) -> bool:
    """Whether a text is the name of a resource, as the API server would take it."""
    return isinstance(name, str) and len(name) <= 253 and RESOURCE.fullmatch(name) is not None


def is_time(value: object) -> bool:
    """Whether a text is a time as the API server writes it."""
    return isinstance(value, str) and TIME.fullmatch(value) is not None


def is_scalar(text: str) -> bool:
    """Whether a text of a configuration tells nothing but an amount, a duration or a list of CPUs."""
    return len(text) <= LONGEST_VALUE and (not text or SCALAR.fullmatch(text) is not None)


def is_path_part(part: str) -> bool:
    """Whether part of a path is one that installers or the system use."""
    known = words("path")
    return part in ("", ".", "..", *known) or _numbered(part, known) or ADDRESS.fullmatch(part) is not None


def is_device_file(path: str) -> bool:
    """Whether a path below ``/dev`` is one that a kernel or a driver makes."""
    known = words("device")
    return all(
        part in known or part.isdigit() or _numbered(part, known) for part in path.split("/")[2:] if part
    )


def is_device_id(form: str) -> bool:
    """Whether an id of a device, ``U`` in place of its UUID, is one of a usual form."""
    if re.fullmatch(
        r"(?:(?:MIG-)?GPU-|MIG-)?U(?:/[0-9]{1,3}/[0-9]{1,3})?(?:(?:::|[_-])[0-9]{1,4})?", form, re.ASCII
    ):
        return True
    return ADDRESS.fullmatch(form) is not None or len(form) < 3 or _numbered(form, words("id"), letter=True)


def _numbered(text: str, known: Collection[str], *, letter: bool = False) -> bool:
    found = NUMBERED.fullmatch(text)
    return found is not None and (not found[1] or found[1] in known or (letter and len(found[1]) == 1))


def is_like(name: str, known: Collection[str]) -> bool:
    """Whether a name is known, or is one of them misspelt: that is a finding, and must stay to be one."""
    return name in known or bool(meant(name, known, MISSPELT))


def is_value(text: str) -> bool:
    """Whether the value of a variable has nothing but numbers, signs and the words that such values take."""
    if len(text) > LONGEST_VALUE or not VALUE.fullmatch(text) or MAC.search(text):
        return False
    small = all(len(number) <= LONGEST_NUMBER for number in NUMBER.findall(text))
    return small and words("meant").issuperset(WORD.findall(text))


def version_text(text: str) -> str:
    """A version or a system's name, each word up to the first part that is not known."""
    kept = (
        takewhile(_is_version_part, VERSION_PART.findall(word)) for word in text[:LONGEST_VERSION].split()
    )
    known = " ".join(filter(None, ("".join(parts).rstrip("-+~._:/(") for parts in kept)))
    return known if known.count("(") == known.count(")") else known.replace("(", "").replace(")", "")


def _is_version_part(part: str) -> bool:
    return part in VERSION_SIGNS or part in words("version") or RELEASE.fullmatch(part) is not None


def kubelet_sentence(message: str, resources: Collection[str]) -> str:
    """What a kubelet said, when it is one of its own sentences (rule 3); '' for anything else.

    ``resources``: those that the pod asks for.  Of an error that something else reported its code remains.
    """
    text = message.strip()
    if len(text) > LONGEST_SENTENCE:
        return ""
    prefix = next((one for one in REJECTED_PREFIXES if text.startswith(one)), "")
    if _stands(text, resources):
        prefix = ""
    text = text[len(prefix) :]
    if not _stands(text, resources):
        if not UNKNOWN_FAILURE.fullmatch(text):
            return ""
        code = REPORTED.search(text)
        text = f"Allocate failed{f' due to {code[0]}' if code else ''}, which is unexpected"
    return prefix + text


def _stands(text: str, resources: Collection[str]) -> bool:
    for pattern in _sentences():
        found = pattern.fullmatch(text)
        if found and all(name is None or name in resources or name in ALWAYS for name in found.groups()):
            return True
    return False


@cache
def _sentences() -> tuple[re.Pattern[str], ...]:
    lines = data_lines(__file__, "sentences.txt")
    middle = lines.index(FAILURES)
    failures = "|".join(_pattern(line) for line in lines[:middle])
    return tuple(
        re.compile(_pattern(line).replace(re.escape("{failure}"), f"(?:{failures})"), re.ASCII)
        for line in lines[middle + 1 :]
    )


def _pattern(sentence: str) -> str:
    text = re.escape(sentence)
    for name, form in VARIABLES.items():
        text = text.replace(re.escape(name), form)
    return text
