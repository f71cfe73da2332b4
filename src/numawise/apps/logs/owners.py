"""Who makes a pod, by its name alone.

Rules kept here:

1. Controllers name pods by fixed rules: a StatefulSet by number; a ReplicaSet, Job or DaemonSet by five
   letters out of an alphabet without vowels; a ReplicaSet of a Deployment has a hash of such letters before.
2. A name is no proof: what it shows is said only of pods that came again.
"""

import re
from dataclasses import dataclass

LETTERS = "[bcdfghjklmnpqrstvwxz2456789]"
NUMBERED = re.compile(r"(.+)-(0|[1-9]\d{0,8})", re.ASCII)
MADE = re.compile(rf"(.+)-{LETTERS}{{5}}", re.ASCII)
HASHED = re.compile(rf"(.+)-{LETTERS}{{6,10}}", re.ASCII)
TIMED = re.compile(r"(.+)-\d{8,10}", re.ASCII)

STATEFUL, REPLICA, JOB, UNKNOWN = "StatefulSet", "ReplicaSet", "Job", ""


@dataclass(frozen=True, slots=True)
class Owner:
    """What a pod's name says about who made it."""

    name: str
    kind: str = UNKNOWN
    above: str = ""
    """The Deployment of a ReplicaSet, the CronJob of a Job."""
    numbered: bool = False
    made: bool = False
    """The pod's name is made up, so that the next one will have another."""


def owner_of(pod: str) -> Owner:
    """The owner that a pod's name shows; the pod itself when it shows none."""
    made = MADE.fullmatch(pod)
    if made:
        hashed, timed = HASHED.fullmatch(made[1]), TIMED.fullmatch(made[1])
        if hashed and any(letter.isdigit() for letter in made[1][len(hashed[1]) :]):
            return Owner(made[1], REPLICA, hashed[1], made=True)
        if timed:
            return Owner(made[1], JOB, timed[1], made=True)
        return Owner(made[1], made=True)
    numbered = NUMBERED.fullmatch(pod)
    if numbered:
        return Owner(numbered[1], STATEFUL, numbered=True)
    return Owner(pod)
