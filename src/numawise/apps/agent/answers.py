"""What the kubelet is answered: which devices are preferred, and what a container gets with its devices.

Rules kept here:

1. Preferred are the devices that the launcher would give to a job: ``gpus.choose``, the same function.  The
   preference is a value (``gpus.preference``), which the agent can publish.
2. A question that cannot be answered has an empty answer, which leaves the choice to the kubelet.  An error
   would fail the pod: one lost device must not keep the others from being used.
3. Allocate refuses devices that are not offered, and more than one where the configuration says so.  Devices
   that have become unhealthy meanwhile are given: the kubelet has decided, and it knows their health.
"""

from collections.abc import Sequence

from numawise.apps.agent.offers import OfferedDevice, ResourceOffer
from numawise.errors import quoted
from numawise.kube.deviceplugin import ContainerEdits, PreferenceQuestion
from numawise.kube.grpc import CallRefused

NOTHING = "/dev/null"
ANNOTATION = "numawise"
LONGEST_ANNOTATION = 63
"""Characters of an annotation's name behind its prefix."""


def preferred(offer: ResourceOffer, question: PreferenceQuestion) -> tuple[str, ...]:
    """The devices that are preferred; none: the kubelet is to choose (rule 2)."""
    preference, place = offer.preference, {device.id: at for at, device in enumerate(offer.devices)}
    must = dict.fromkeys(question.must)
    free = dict.fromkeys((*must, *(name for name in question.available if name in place)))
    if preference is None or not must.keys() <= place.keys():
        return ()
    if not max(1, len(must)) <= question.size <= len(free):
        return ()
    ids = preference.answer(list(place), list(free), list(must), question.size).ids
    return tuple(sorted(ids, key=place.__getitem__))


def edits(offer: ResourceOffer, ids: Sequence[str]) -> ContainerEdits:
    """What a container gets with these devices; ``CallRefused``: it does not get them (rule 3)."""
    known = {device.id: device for device in offer.devices}
    for name in ids:
        if name not in known:
            raise CallRefused(
                f"{offer.resource} has no device {quoted(name)}; numawise offers {len(known)} others"
            )
    if offer.refuses_several and len(ids) > 1:
        raise CallRefused(
            f"{offer.resource} is shared: a container gets one, not {len(ids)} (failRequestsGreaterThanOne)"
        )
    devices = [known[name] for name in dict.fromkeys(ids)]
    form = offer.answer
    told = list(dict.fromkeys(device.told for device in devices))
    cdi = tuple(f"{form.cdi_kind}={name}" for name in told) if form.cdi_kind else ()
    return ContainerEdits(
        envs={form.env: form.listed_below or ",".join(told)} if form.env else {},
        mounts=tuple((f"{form.listed_below}/{name}", NOTHING) for name in told if form.listed_below),
        nodes=_files(offer, devices),
        annotations={_annotation(form.cdi_annotations, ids): ",".join(cdi)}
        if cdi and form.cdi_annotations
        else {},
        cdi=cdi if form.cdi_field else (),
    )


def _files(offer: ResourceOffer, devices: Sequence[OfferedDevice]) -> tuple[tuple[str, str], ...]:
    if not offer.answer.own_nodes:
        return tuple(dict.fromkeys(offer.extra_files))
    return tuple(dict.fromkeys((*offer.extra_files, *(file for device in devices for file in device.files))))


def _annotation(prefix: str, ids: Sequence[str]) -> str:
    """A name of its own for every container: several in a pod must not overwrite each other."""
    word = "".join(c if c.isalnum() and c.isascii() else "-" for c in min(ids, default=""))
    return f"{prefix}{ANNOTATION}_{word}"[: len(prefix) + LONGEST_ANNOTATION].rstrip("-")
