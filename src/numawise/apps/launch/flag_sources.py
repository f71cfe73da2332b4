"""Which placement ``flags`` tells of: that of a hold, or where a job would go, here or on another machine."""

from collections.abc import Iterable, Mapping

from numawise.apps.launch.capacity import NIC_RESOURCE, Site, make_site, pool_cpus, pool_of
from numawise.apps.launch.containers.setup import Gear
from numawise.apps.launch.decide import Nic, Placement, place
from numawise.apps.launch.flags import Asked, Text, asked_for
from numawise.apps.launch.no_room import NoRoom
from numawise.apps.launch.request import Wish
from numawise.apps.launch.run import open_holdings, this_site
from numawise.host import engines
from numawise.host.settings import Settings
from numawise.machine.near import near_nics
from numawise.render.holds import placement_data
from numawise.results.hold import Hold
from numawise.results.plain import API_VERSION


def found_placement(
    wish: Wish, hold: str, machine: str, settings: Settings, environment: Mapping[str, str]
) -> tuple[Site, Asked | NoRoom]:
    """The placement that is asked about: of a hold, or where a job would go, here or on another machine."""
    if machine:
        from numawise.inputs.machine import hardware_meant  # noqa: PLC0415 - reads every form of machine file

        site = make_site(hardware_meant([machine]), settings.reserved_cpus)
        found = place(site, (), wish, "flags")
        return site, found if isinstance(found, NoRoom) else asked_for(found, site.hardware)
    site = this_site(settings)
    holdings = open_holdings(site, environment, settings.ledger)
    holds = holdings.live()
    if hold:
        one = holdings.find(hold)
        return site, asked_for(placement_of(one, site, holds), site.hardware, one, gear_here())
    found = place(site, holds, wish, "flags")
    if isinstance(found, NoRoom):
        return site, found
    return site, asked_for(found, site.hardware, gear=gear_here())


def placement_of(hold: Hold, site: Site, holds: Iterable[Hold]) -> Placement:
    """What a hold of the ledger has, as it is now."""
    grant = hold.grant
    names = {name for _, ids in grant.devices for name in ids}
    gpus = tuple(gpu for name, gpu in zip(site.gpu_ids, site.gpus, strict=True) if name in names)
    granted = {name for resource, ids in grant.devices if resource == NIC_RESOURCE for name in ids}
    nics = near_nics(site.hardware, gpus) if gpus or granted else ()
    return Placement(
        grant=grant,
        cpus=grant.cpus or pool_cpus(site, pool_of(site, holds), grant.near),
        mems=grant.mems,
        memory=sum(part.size for part in grant.memory),
        gpus=gpus,
        nics=tuple(
            Nic(nic.name, nic.hca) for nic in nics if (nic.name in granted if granted else nic.nearest)
        ),
        policy=hold.policy,
    )


def gear_here() -> Gear:
    """How this very host gives GPUs to containers."""
    return Gear(cdi_devices=engines.cdi_devices(), groups=engines.group_of_file)


def flags_data(asked: Asked, written: Mapping[str, Text]) -> dict[str, object]:
    """All texts as JSON."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Flags",
        "placement": placement_data(asked.placement),
        "environment": dict(asked.environment),
        "formats": {
            name: {"text": str(text), "argv": list(text.argv) or None, "remarks": list(text.remarks)}
            for name, text in written.items()
        },
    }
