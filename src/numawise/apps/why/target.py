"""What ``why`` is asked about in a cluster: ``pod/train-0``, ``deploy/web``, ``sts db``, or a bare name.

Rules kept here:

1. Kinds are spelt as kubectl takes them: singular, plural or short, in any case, with or without the API
   group (``deployments.apps``).
2. A word is a file when there is one of that name, when it looks like one (``pod.yaml``, ``./web``), or
   when it is ``-``.
3. A kind and a name may be two words; names that follow are of the same kind.
4. A bare name is of the cluster where it cannot be anything else: no bundle lists such a pod.
"""

import re
from collections.abc import Callable, Sequence

from numawise.codec.infile import is_there
from numawise.errors import InputError, meant, quoted
from numawise.values import dataclass

KINDS = {
    "Pod": ("po", "pod", "pods"),
    "Deployment": ("deploy", "deployment", "deployments"),
    "ReplicaSet": ("rs", "replicaset", "replicasets"),
    "StatefulSet": ("sts", "statefulset", "statefulsets"),
    "DaemonSet": ("ds", "daemonset", "daemonsets"),
    "Job": ("job", "jobs"),
    "CronJob": ("cj", "cronjob", "cronjobs"),
    "ReplicationController": ("rc", "replicationcontroller", "replicationcontrollers"),
}
BY_WORD = {word: kind for kind, words in KINDS.items() for word in words}
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
ENDINGS = (".yaml", ".yml", ".json", ".txt", ".log", ".gz", ".tar", ".tgz")
WRITE_SO = "write pod/NAME, deployment/NAME, statefulset/NAME, job/NAME and so on"


@dataclass(frozen=True, slots=True)
class Target:
    """An object of a cluster that was named."""

    name: str
    kind: str = ""
    """'' when only the name was given."""

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}" if self.kind else self.name


def targets_of(
    words: Sequence[str], *, is_known: Callable[[str], bool] = lambda _: False, cluster: bool = False
) -> tuple[tuple[Target, ...], tuple[str, ...]]:
    """What is meant in a cluster, and the words that are something else.

    ``is_known``: whether a bundle lists a pod of that name; ``cluster``: options of a cluster were given.
    """
    targets: list[Target] = []
    others: list[str] = []
    waiting = ""
    for at, word in enumerate(words):
        kind, slash, name = word.partition("/")
        if word == "-" or is_there(word) or word.endswith(ENDINGS) or word.startswith((".", "/")):
            others.append(word)
        elif slash and (known := kind_named(kind)) and "/" not in name:
            targets.append(Target(_checked(name, word), known))
        elif slash:
            if cluster or not others:
                _check_kind(kind, name)
            others.append(word)
        elif kind_named(word) and at + 1 < len(words) and not is_known(word):
            waiting = kind_named(word)
        elif waiting:
            targets.append(Target(_checked(word, word), waiting))
        elif not is_known(word) and NAME.fullmatch(word):
            targets.append(Target(word))
        else:
            others.append(word)
    return tuple(targets), tuple(others)


def kind_named(word: str) -> str:
    """The kind that a word means; '' for any other word (rule 1)."""
    return BY_WORD.get(word.lower().partition(".")[0], "")


def _checked(name: str, word: str) -> str:
    if not NAME.fullmatch(name):
        what = f"{quoted(word)} does not name an object: {quoted(name)} is not a valid Kubernetes name"
        raise InputError(what, advice="lower-case letters, digits, '-' and '.'")
    return name


def _check_kind(kind: str, name: str) -> None:
    """A kind that is not known, where it looks like one and there is no such file."""
    near = meant(kind.lower(), tuple(BY_WORD))
    if near and NAME.fullmatch(name):
        what = f"{quoted(f'{kind}/{name}')} is neither a file nor an object of a kind that is known"
        raise InputError(what, advice=f"did you mean {near}/{name}? {WRITE_SO}")
