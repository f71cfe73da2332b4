"""Rights of all programs together: nobody has more than it does."""

import pytest

from numawise.apps.agent.rights import FEATURES, api_of
from numawise.apps.heal.rights import heal_rights
from numawise.apps.lab.rights import LAB_RIGHTS
from numawise.apps.scheduler.rights import SCHEDULER_RIGHTS
from numawise.service.rights import ApiRight
from numawise.web.manifest import PAGE_RIGHTS

PROGRAMS = {
    "agent": api_of(FEATURES),
    "scheduler": SCHEDULER_RIGHTS,
    "serve": PAGE_RIGHTS,
    "lab": LAB_RIGHTS,
    "heal": heal_rights(),
    "heal, dry run": heal_rights(apply=False, defrag=False),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_nobody_reads_secrets_or_acts_for_others(program: str) -> None:
    kinds = {right.resource.partition("/")[0] for right in PROGRAMS[program]}
    assert not kinds & {"secrets", "serviceaccounts", "users", "groups", "roles", "clusterroles"}
    assert not {verb for right in PROGRAMS[program] for verb in right.verbs} & {
        "*", "impersonate", "bind", "escalate", "deletecollection",
    }  # fmt: skip


def writes(rights: tuple[ApiRight, ...]) -> set[tuple[str, str]]:
    return {(right.resource, verb) for right in rights for verb in right.verbs if verb not in ("get", "list", "watch")}  # fmt: skip


@pytest.mark.parametrize("program", ["scheduler", "serve", "heal, dry run"])
def test_who_only_reads_changes_nothing(program: str) -> None:
    assert writes(PROGRAMS[program]) == set()


def test_what_heal_keeps_for_itself_is_in_its_namespace_under_known_names() -> None:
    own = [right for right in heal_rights() if right.resource in ("holdlists", "leases")]
    assert own
    assert all(right.own_namespace for right in own)
    assert all(right.names or right.verbs == ("create",) for right in own)
