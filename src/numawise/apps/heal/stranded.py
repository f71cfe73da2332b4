"""Pods that were let go to nodes which have no room any more; nobody can widen an affinity, so it is told.

Rules kept here:

1. A pod is stranded when it was sent to nodes, has waited for ``PATIENCE`` seconds without a gate, and none
   of the nodes that it may go to would let it in.
2. Each is told once; it counts until it is bound or gone.
3. Of a namespace no more than ``MOST_STEPS`` pods are asked about in one look, those first that were asked
   about longest ago.
"""

from collections.abc import Callable, Mapping

from numawise.apps.heal.refused import STEERED, is_held
from numawise.apps.heal.steering import steered_to
from numawise.apps.heal.taking_turns import MOST_STEPS, by_namespace
from numawise.codec.document import mapping
from numawise.errors import cut
from numawise.kube.client import Object
from numawise.render.words import clean

PATIENCE = 60.0
LONGEST_NAMES = 200


class StrandedPods:
    """Watches pods that were let go."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._told: set[str] = set()

    @property
    def count(self) -> int:
        """How many are stranded."""
        return len(self._told)

    def look(
        self, unbound: Mapping[str, Object], has_room: Callable[[Object], bool], now: float
    ) -> list[Object]:
        """The pods that are stranded since the last look (rule 1)."""
        going = {uid: pod for uid, pod in unbound.items() if steered_to(pod) and not is_held(pod)}
        self._since = {uid: self._since.get(uid, now) for uid in going}
        self._told &= set(going)
        late = [
            uid for uid, since in self._since.items() if now - since >= PATIENCE and uid not in self._told
        ]
        late.sort(key=lambda uid: self._asked.get(uid, self._since[uid]))
        lanes = by_namespace(late, lambda uid: str(mapping(going[uid].get("metadata")).get("namespace")))
        asked = [uid for lane in lanes for uid in lane[:MOST_STEPS]]
        self._asked = {uid: at for uid, at in self._asked.items() if uid in going} | dict.fromkeys(asked, now)
        news = [uid for uid in asked if not has_room(going[uid])]
        self._told |= set(news)
        return [going[uid] for uid in news]


def stranded_note(pod: Object) -> str:
    """What people are told."""
    annotations = mapping(mapping(pod.get("metadata")).get("annotations"))
    nodes = cut(clean(str(annotations.get(STEERED) or "")), LONGEST_NAMES)
    return (
        f"it may only go to nodes that had room when it was let go ({nodes}), and they have none now; it "
        "goes when one of them has, or delete it: its owner makes another, which may go to other nodes"
    )
