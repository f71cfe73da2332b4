"""Pods that were let go to nodes which have no room any more; nobody can widen an affinity, so it is told.

Rules kept here:

1. A pod is stranded when it was sent to nodes, has waited for ``PATIENCE`` seconds without a gate, and none
   of the nodes that it may go to would let it in.
2. Each is told once; it counts until it is bound or gone.
"""

from collections.abc import Callable, Mapping

from numawise.apps.heal.refused import STEERED, is_held
from numawise.apps.heal.steering import steered_to
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
        news = [uid for uid in late if not has_room(going[uid])]
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
