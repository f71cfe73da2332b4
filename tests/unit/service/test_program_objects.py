"""What all programs in a cluster have in common: rights as values, and roles made of them."""

from typing import Any

import pytest

from numawise.service.manifest import ProgramObjects, container_security, pod_security
from numawise.service.rights import ApiRight, merged_rights, rules_of

OWN = ProgramObjects("numawise-thing", "apart")
PODS = ApiRight("", "pods", ("list", "watch"), "what there is")
LEASE = ApiRight("coordination.k8s.io", "leases", ("get", "update"), "who leads", own_namespace=True, names=("numawise-thing",))  # fmt: skip
NEW_LEASE = ApiRight("coordination.k8s.io", "leases", ("create",), "the first time", own_namespace=True)


def by_kind(*rights: ApiRight) -> dict[str, dict[str, Any]]:
    return {value["kind"]: value for value in OWN.access(rights)}


@pytest.mark.parametrize(("rights", "kinds"), [
    ((),                 []),
    ((PODS,),            ["ClusterRole", "ClusterRoleBinding"]),
    ((LEASE,),           ["Role", "RoleBinding"]),
    ((LEASE, PODS),      ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
])  # fmt: skip
def test_which_roles(rights: tuple[ApiRight, ...], kinds: list[str]) -> None:
    assert sorted(by_kind(*rights)) == kinds


def test_a_right_in_the_own_namespace_is_no_right_elsewhere() -> None:
    made = by_kind(LEASE, PODS, NEW_LEASE)
    assert made["ClusterRole"]["rules"] == rules_of([PODS])
    assert "namespace" not in made["ClusterRole"]["metadata"]
    role = made["Role"]
    assert role["metadata"]["namespace"] == "apart"
    assert role["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["numawise-thing"], "verbs": ["get", "update"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    ]  # fmt: skip
    for binding, kind in (("RoleBinding", "Role"), ("ClusterRoleBinding", "ClusterRole")):
        assert made[binding]["roleRef"]["kind"] == kind
        assert made[binding]["subjects"] == [
            {"kind": "ServiceAccount", "name": "numawise-thing", "namespace": "apart"}
        ]


def test_rights_of_one_place_are_joined_and_others_stay_apart() -> None:
    patch = ApiRight("", "pods", ("watch", "patch"), "gates")
    assert merged_rights([PODS, LEASE, patch, NEW_LEASE]) == (
        ApiRight("", "pods", ("list", "watch", "patch"), "what there is; gates"),
        LEASE,
        NEW_LEASE,
    )


@pytest.mark.parametrize(("group", "resource", "verb"), [
    ("",     "secrets",        "get"),
    ("",     "secrets/status", "get"),
    ("apps", "*",              "get"),
    ("*",    "pods",           "get"),
    ("",     "pods",           "*"),
])  # fmt: skip
def test_no_right_stands_for_everything_and_none_reads_secrets(group: str, resource: str, verb: str) -> None:
    with pytest.raises(AssertionError):
        ApiRight(group, resource, (verb,), "")


def test_every_object_is_known_by_its_labels() -> None:
    objects = (OWN.account(), *OWN.access((PODS, LEASE)))
    assert all(
        value["metadata"]["labels"]
        == {"app.kubernetes.io/name": "numawise-thing", "app.kubernetes.io/part-of": "numawise"}
        for value in objects
    )
    assert OWN.selector == {"app.kubernetes.io/name": "numawise-thing"}


def test_nobody_is_root_unless_files_of_the_host_are() -> None:
    assert pod_security()["runAsNonRoot"] is True
    assert pod_security()["runAsUser"] > 0
    assert pod_security(user=0) == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container_security()["readOnlyRootFilesystem"] is True
