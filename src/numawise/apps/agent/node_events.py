"""Events of the agent's duties, sent by the one writer."""

import asyncio
from collections.abc import Mapping

from numawise.kube.events import EventWriter, ObjectReference


class NodeEvents:
    """Sends Events without making anybody wait for the server but the caller."""

    def __init__(self, events: EventWriter) -> None:
        self.events = events

    async def event(self, about: Mapping[str, str], *, kind: str, reason: str, message: str) -> bool:
        """Send one; ``about``: kind, namespace, name and uid.  Whether it was sent, or is one too many.

        ``ClusterError``: it was not taken.
        """
        reference = ObjectReference(
            about.get("kind", "Pod"), about["name"], about.get("namespace", ""), about.get("uid", "")
        )
        return await asyncio.to_thread(self.events.tell, reference, reason, message, kind)
