"""Turn a pod into one that will be aligned, and say what was changed and why.

Rules kept here:

1. CPUs of its own, pinned memory and hints for both are for pods of the class Guaranteed alone: every
   container, init containers too, has CPU and memory with request equal to limit.
2. Containers with devices get whole CPUs, and whole cores where the kubelet gives those; where none has
   devices, the containers with a CPU or more do.  CPUs are what was requested, memory what it was limited to:
   less CPU is slower, less memory is killed.
3. The others stay in the shared pool: as much as they had, request equal to limit.
4. Nothing else is touched, but for what ``podextras`` changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from numawise.apps.plan.manifest import (
    CPU,
    MEMORY,
    Object,
    amount,
    containers,
    devices,
    gpus,
    set_both,
    text_of,
)
from numawise.apps.plan.podextras import Change, PodWish, environment, probes, shared_memory
from numawise.errors import InputError
from numawise.quantity import Quantity

ASKED = "as asked for"
HELPER = {CPU: "100m", MEMORY: "128Mi"}
"""For a container that asks for nothing."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a GPU's share of the machine is; None: not known."""

    cpus: int | None = None
    memory: int | None = None
    threads: int = 1
    """CPUs come in multiples of this."""


@dataclass(slots=True)
class _Fix:
    spec: Object
    wish: PodWish
    share: Share
    changes: list[Change] = field(default_factory=list)

    def say(self, where: str, text: str) -> None:
        self.changes.append(Change(where, text))

    def run(self) -> None:
        if self.spec.pop("resources", None) is not None:
            self.say(
                "spec.resources",
                "removed: with resources for the whole pod, no container gets CPUs of its own",
            )
        main = self.main()
        if self.wish.gpus is not None and main:
            self.set_gpus(main[0])
        for container in containers(self.spec):
            if any(container is one for one in main):
                self.cpus(container)
                self.memory(container)
                self.same_devices(container)
            else:
                self.helper(container)
            self.changes += environment(container)
        for container in main:
            self.changes += shared_memory(self.spec, container, self.wish)
        if self.wish.service:
            for container in self.spec.get("containers") or ():
                self.changes += probes(container, self.wish)

    def main(self) -> list[Object]:
        """The containers that the pod is about (rule 2)."""
        every = containers(self.spec)
        found = [one for one in every if devices(one)]
        if not found:
            apps = self.spec.get("containers") or []
            found = [one for one in apps if (_most(one, CPU) or Quantity()).milli >= 1000] or list(apps[:1])
        return found

    def set_gpus(self, container: Object) -> None:
        name = next(iter(devices(container)), self.wish.resource)
        if devices(container).get(name) != self.wish.gpus:
            set_both(container, name, self.wish.gpus)
            self.say(container["name"], f"{name}: {self.wish.gpus}, as asked for")

    # --- amounts --------------------------------------------------------------------------

    def cpus(self, container: Object) -> None:
        name, threads = container["name"], self.share.threads
        asked, limit = amount(container, "requests", CPU), amount(container, "limits", CPU)
        found = asked or limit
        if self.wish.cpus is not None and container in self.main()[:1]:
            wanted, why = self.wish.cpus, ASKED
        elif found is not None and found.milli > 0:
            wanted, why = -(-found.milli // 1000), ""
        else:
            many = max(1, gpus(container))
            if self.share.cpus is None:
                raise InputError(
                    f"container {name} does not say how many CPUs it needs",
                    field="--cpus",
                    advice="give --cpus, or --machine to have its share worked out",
                )
            wanted, why = (
                self.share.cpus * many,
                f"the share of {many} GPU{'' if many == 1 else 's'} on this machine",
            )
        whole = -(-wanted // threads) * threads
        if whole != wanted:
            raised = f"raised from {wanted}: cores have {threads} threads, and come whole"
            why = f"{why}; {raised}" if why else raised
        elif found is not None and found.milli % 1000 and not why:
            why = f"raised from {found}: CPUs of its own come whole"
        if asked is not None and limit is not None and asked.nano != limit.nano and not why:
            why = f"instead of up to {limit}: CPUs of its own cannot be exceeded"
        if (asked is None) != (limit is None) and not why:
            why = "request and limit must be the same"
        same = asked is not None and limit is not None and asked.milli == limit.milli == whole * 1000
        if not same:
            set_both(container, CPU, text_of(whole, CPU))
            if why != ASKED or found is not None:
                self.say(name, f"cpu: {whole}, {why}" if why else f"cpu: {whole}")

    def memory(self, container: Object) -> None:
        name = container["name"]
        asked, limit = amount(container, "requests", MEMORY), amount(container, "limits", MEMORY)
        if self.wish.memory is not None and container in self.main()[:1]:
            wanted, why = self.wish.memory, ASKED
        elif self.wish.by_request and asked is not None:
            wanted, why = asked.value, "the request: the limit does not fit"
        elif limit is not None or asked is not None:
            wanted, why = (limit or asked or Quantity()).value, ""
            if asked is not None and limit is not None and asked.nano != limit.nano:
                why = f"its limit, instead of {asked}: with less it could be killed"
            elif limit is None:
                why = "request and limit must be the same"
        else:
            many = max(1, gpus(container))
            if self.share.memory is None:
                raise InputError(
                    f"container {name} does not say how much memory it needs",
                    field="--memory",
                    advice="give --memory, or --machine to have its share worked out",
                )
            wanted = self.share.memory * many
            why = f"the share of {many} GPU{'' if many == 1 else 's'} on this machine"
        same = asked is not None and limit is not None and asked.value == limit.value == wanted
        if not same:
            text = text_of(wanted, MEMORY)
            set_both(container, MEMORY, text)
            if why != ASKED or asked is not None or limit is not None:
                self.say(name, f"memory: {text}, {why}" if why else f"memory: {text}")

    def same_devices(self, container: Object) -> None:
        for resource, count in devices(container).items():
            asked, limit = (amount(container, side, resource) for side in ("requests", "limits"))
            if asked is None or limit is None:
                set_both(container, resource, count)
            if limit is None:
                self.say(
                    container["name"], f"{resource}: {count}, as a limit too: devices are never shared out"
                )

    def helper(self, container: Object) -> None:
        """A container beside the main ones (rule 3)."""
        for resource, least in HELPER.items():
            asked, limit = amount(container, "requests", resource), amount(container, "limits", resource)
            if asked is not None and limit is not None and asked.nano == limit.nano:
                continue
            kept = limit if limit is not None else asked
            text = str(kept) if kept is not None and kept.nano else least
            set_both(container, resource, text)
            why = (
                "so that the pod is Guaranteed"
                if kept is not None
                else "assumed, so that the pod is Guaranteed"
            )
            self.say(container["name"], f"{resource}: {text}, {why}")


def fixed(spec: Object, wish: PodWish, share: Share) -> tuple[Change, ...]:
    """Change a pod spec in place, and say what was changed."""
    work = _Fix(spec, wish, share)
    work.run()
    return tuple(work.changes)


def _most(container: Object, name: str) -> Quantity | None:
    return amount(container, "requests", name) or amount(container, "limits", name)


def claims(spec: Object) -> Iterator[str]:
    """Names of resource claims: their devices take no part in the alignment."""
    for claim in spec.get("resourceClaims") or ():
        yield str(claim.get("name", ""))
