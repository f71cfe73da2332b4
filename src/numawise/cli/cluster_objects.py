"""All objects of an installation, put together from what each part says it needs.

``numawise manifest`` prints them; ``deploy/make.py`` writes the kustomize files and the Helm chart of them.
The namespace stands once, first; the definition of NodeResourceTopology objects comes before what uses it.
"""

from numawise.apps.agent.manifest import ManifestWish, manifest
from numawise.apps.agent.rights import EXPORT
from numawise.apps.heal.manifest import HealWish, heal_objects
from numawise.apps.scheduler.certificate_objects import manager_objects, secret_objects, stamp_of
from numawise.apps.scheduler.manifest import (
    WAITS,
    SchedulerWish,
    StockWish,
    scheduler_objects,
    stock_objects,
)
from numawise.codec.hardware.nrt_definition import topology_definition
from numawise.host.certificates import MadeCertificates
from numawise.service.manifest import Json, critical_quota, namespace_object
from numawise.values import dataclass
from numawise.web.manifest import PageWish, page_objects

AGENT, SCHEDULER, HEAL, PAGE = PARTS = ("agent", "scheduler", "heal", "page")
USUAL = (AGENT, SCHEDULER, HEAL)
"""What is installed where nobody says what; the page is for people, who ask for it."""
AGENT_PAGES = ("--listen", "0.0.0.0:9797")


@dataclass(frozen=True, slots=True)
class ClusterWish:
    """What shall run in a cluster."""

    image: str
    parts: tuple[str, ...] = USUAL
    namespace: str = "numawise"
    definition: bool = False
    stock_image: str = ""
    """Of a second kube-scheduler; empty: none."""
    unpublished: str = "pass"
    callers: tuple[str, ...] = ()
    """Networks that may connect to the extender, beside the second kube-scheduler."""
    waits: tuple[tuple[str, str], ...] = WAITS
    heal_applies: bool = False
    heal_holds: bool = True
    """The cluster knows MutatingAdmissionPolicies."""
    heal_in: tuple[str, ...] = ()
    """Namespaces that the healer looks after; none: all."""
    managed: bool = False
    """cert-manager makes the certificates."""


def cluster_objects(wish: ClusterWish, certificates: MadeCertificates | None = None) -> tuple[Json, ...]:
    """All of it, in an order in which it can be applied."""
    return (
        *frame_objects(wish),
        *(agent_objects(wish) if AGENT in wish.parts else ()),
        *(extender_objects(wish, certificates) if SCHEDULER in wish.parts else ()),
        *(_heal_objects(wish) if HEAL in wish.parts else ()),
        *(page_objects(PageWish(wish.image, wish.namespace)) if PAGE in wish.parts else ()),
    )


def frame_objects(wish: ClusterWish) -> tuple[Json, ...]:
    """The namespace: the agent mounts folders of the host, which is allowed where it is told so."""
    level = "privileged" if AGENT in wish.parts else "restricted"
    return (
        *((topology_definition(),) if wish.definition else ()),
        namespace_object(wish.namespace, level),
        critical_quota(wish.namespace),
    )


def agent_objects(wish: ClusterWish) -> tuple[Json, ...]:
    """An agent that publishes; ``numawise agent --manifest`` makes those that do more."""
    made = manifest(ManifestWish((EXPORT,), wish.image, AGENT_PAGES, wish.namespace))
    return tuple(value for value in made if value["kind"] != "Namespace")


def extender_objects(wish: ClusterWish, certificates: MadeCertificates | None) -> tuple[Json, ...]:
    """The extender, its certificates, and a kube-scheduler that asks it."""
    stamp = stamp_of(certificates) if certificates else ""
    stock = StockWish(wish.stock_image, wish.namespace, stamp=stamp)
    extender = SchedulerWish(
        wish.image,
        wish.namespace,
        unpublished=wish.unpublished,
        waits=wish.waits,
        stamp=stamp,
        stock=bool(wish.stock_image),
        callers=wish.callers,
    )
    return (
        *(secret_objects(certificates, wish.namespace) if certificates else ()),
        *(manager_objects(wish.namespace) if wish.managed else ()),
        *scheduler_objects(extender),
        *(stock_objects(stock) if wish.stock_image else ()),
    )


def _heal_objects(wish: ClusterWish) -> tuple[Json, ...]:
    return heal_objects(
        HealWish(
            wish.image,
            wish.namespace,
            apply=wish.heal_applies,
            holds=wish.heal_holds,
            namespaces=wish.heal_in,
        )
    )
