"""What an agent is going to offer, as data."""

from typing import Any

from numawise.apps.agent.answers import edits
from numawise.apps.agent.offer_plan import OfferPlan
from numawise.apps.agent.plugin import socket_name


def plan_data(plan: OfferPlan) -> dict[str, Any]:
    """A plan as JSON: resources with their devices, and what a container gets with each alone."""
    return {
        "resources": [
            {
                "name": offer.resource,
                "socket": str(plan.folder / socket_name(offer.resource, plan.folder)),
                "devices": [
                    {
                        "id": device.id,
                        "numa": list(device.numa),
                        "address": device.address,
                        "gets": _gets(edits(offer, (device.id,))),
                    }
                    for device in offer.devices
                ],
            }
            for offer in plan.offers
        ],
        "remarks": list(plan.remarks),
    }


def _gets(given: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "env": dict(given.envs),
        "cdi": list(given.cdi),
        "annotations": dict(given.annotations),
        "nodes": [inside for inside, _ in given.nodes],
        "mounts": [inside for inside, _ in given.mounts],
    }
