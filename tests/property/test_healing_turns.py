"""Whatever one namespace adds, the pods of another are let go as before: counted in turns and requests, not in seconds."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from numawise.apps.heal.refused import STEERED
from numawise.apps.heal.taking_turns import MOST_STEPS
from numawise.results.pending import HOLD_GATE
from tests.property.test_healing import HealingMember, World

VICTIM, OTHER = "default", "other"
OWNERS, PODS, TURNS = 2, 2, 6
MOST_BEFORE = 4 * MOST_STEPS
"""Requests of a turn that another namespace may come first with: whether an owner is there, its hold, an owner's
state and a release, each for as many as have a turn; not for as many as there are."""
OWN, FOREIGN = {"name": HOLD_GATE}, {"name": "example.com/quota"}


class Recorded(World):
    """An API server that notes what was asked in which turn; a pod of the victim is bound once it is let go."""

    def __init__(self, folder: Any) -> None:
        super().__init__(random.Random(0), folder)
        self.room = dict.fromkeys(("n1", "n2"), 1000)
        self.number = 0
        self.asked = 0
        self.turn = 0
        self.released: dict[str, tuple[int, int]] = {}
        """Name → the turn, and how many requests of this turn came before."""

    def answer(self, request: httpx2.Request, who: str) -> httpx2.Response:
        name = request.url.path.rsplit("/", 1)[1]
        if request.method == "PATCH" and "/pods/" in request.url.path:
            self.released.setdefault(name, (self.turn, self.asked))
        self.asked += 1
        return super().answer(request, who)

    def pod(
        self,
        namespace: str,
        name: str,
        owner: str = "",
        *,
        gates: Sequence[Any] = (),
        refused: bool = False,
        uid: str = "",
        annotations: dict[str, str] | None = None,
        hour: int = 1,
    ) -> None:
        self.number += 1
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": uid or f"u-{owner}", "controller": True}  # fmt: skip
        failed = {"phase": "Failed", "reason": "TopologyAffinityError", "message": "no"}
        self.put(
            f"p-{name}",
            {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "uid": f"p-{name}",
                    "labels": {"pod-template-hash": "r0"},
                    "annotations": annotations or {},
                    "creationTimestamp": f"2026-01-01T{hour:02}:{self.number // 60 % 60:02}:{self.number % 60:02}Z",
                    "ownerReferences": [reference] if owner else [],
                },
                "spec": {
                    "containers": [],
                    **({"schedulingGates": list(gates)} if gates else {}),
                    **({"nodeName": "n1"} if refused else {}),
                },
                "status": failed if refused else {"phase": "Pending"},
            },
        )

    def bind(self) -> None:
        for uid, pod in list(self.pods.items()):
            waits = pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates")
            if pod["metadata"]["namespace"] == VICTIM and not waits:
                bound = {**pod["spec"], "nodeName": "n1"}
                self.put(uid, {**pod, "spec": bound, "status": {"phase": "Running"}})


def litter(world: Recorded, kind: str, count: int) -> None:
    """What a tenant makes in a namespace of his own."""
    for number in range(count):
        name, owner = f"{kind}-{number}", f"{kind}-owner-{number % 50}"
        match kind:
            case "second-gate":
                world.pod(OTHER, name, owner, gates=(OWN, FOREIGN), hour=0)
            case "never-bound":
                world.pod(OTHER, name, owner, gates=(OWN,), hour=0)
            case "of-nobody":
                world.pod(OTHER, name, gates=(OWN,), hour=0)
            case "forged":
                world.pod(OTHER, name, "replicaset-0", gates=(OWN,), hour=0)
            case "refused":
                world.pod(OTHER, name, owner, refused=True, uid=f"forged-{number}", hour=0)
            case "steered":
                world.pod(OTHER, name, annotations={STEERED: "n1"}, hour=0)


KINDS = ("second-gate", "never-bound", "of-nobody", "forged", "refused", "steered")


def played(folder: Any, added: Sequence[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """When the victim's pods were let go, with what others have added."""
    world = Recorded(folder)
    world.revisions = dict.fromkeys(_owners(), 0)
    member = HealingMember(world, "a")
    world.healers = [member]
    for kind, count in added:  # their owners are held first
        if kind in ("second-gate", "never-bound"):
            for number in range(min(count, 50)):
                world.pod(OTHER, f"first-{kind}-{number}", f"{kind}-owner-{number}", refused=True)
    member.turn()
    for kind, count in added:
        litter(world, kind, count)
    for number in range(OWNERS):
        world.pod(VICTIM, f"first-{number}", f"replicaset-{number}", refused=True)
        for waiting in range(PODS):
            world.pod(VICTIM, f"waits-{number}-{waiting}", f"replicaset-{number}", gates=(OWN,))
    for turn in range(TURNS):
        world.turn, world.asked = turn, 0
        member.turn()
        world.bind()
        world.now += 1.0
    member.close()
    return {name: when for name, when in world.released.items() if name.startswith("waits-")}


def _owners() -> Iterator[tuple[str, str]]:
    yield from (("ReplicaSet", f"replicaset-{number}") for number in range(OWNERS))
    yield from (("ReplicaSet", f"{kind}-owner-{number}") for kind in KINDS for number in range(50))


def compared(folder: pytest.TempPathFactory, added: Sequence[tuple[str, int]]) -> None:
    alone, beside = (played(folder.mktemp("audit"), what) for what in ((), added))
    assert len(alone) == OWNERS * PODS, "all are let go"
    assert {name: turn for name, (turn, _) in beside.items()} == {
        name: turn for name, (turn, _) in alone.items()
    }
    for name, (turn, asked) in beside.items():
        assert asked <= alone[name][1] + MOST_BEFORE, f"{name}, turn {turn}"


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_of_litter(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    compared(tmp_path_factory, [(kind, 60)])


@given(counts=st.lists(st.integers(0, 60), min_size=len(KINDS), max_size=len(KINDS)))
@settings(max_examples=3, phases=(Phase.explicit, Phase.generate))
def test_all_kinds_of_litter(tmp_path_factory: pytest.TempPathFactory, counts: list[int]) -> None:
    added = list(zip(KINDS, counts, strict=True))
    compared(tmp_path_factory, added)
