"""The stand-in server allows what roles allow, and nothing beside it."""

import pytest
from tests.kube.rbac import exact_rules

from numawise.service.rights import ApiRight

RULES = (
    ApiRight("", "pods", ("list", "delete"), ""),
    ApiRight("coordination.k8s.io", "leases", ("get", "update"), "", own_namespace=True, names=("ours",)),
    ApiRight("coordination.k8s.io", "leases", ("create",), "", own_namespace=True),
    ApiRight("x.k8s.io", "policies", ("get",), "", names=("ours",)),
)
LEASES = "/apis/coordination.k8s.io/v1/namespaces"


@pytest.mark.parametrize(("method", "path", "allowed"), [
    ("GET",    "/api/v1/pods",                        True),
    ("GET",    "/api/v1/pods?watch=true",             False),
    ("DELETE", "/api/v1/namespaces/a/pods/b",         True),
    ("DELETE", "/api/v1/namespaces/a/pods",           False),
    ("GET",    "/api/v1/namespaces/a/pods/b",         False),
    ("PUT",    f"{LEASES}/own/leases/ours",           True),
    ("PUT",    f"{LEASES}/own/leases/theirs",         False),
    ("PUT",    f"{LEASES}/kube-system/leases/ours",   False),
    ("POST",   f"{LEASES}/own/leases",                True),
    ("POST",   f"{LEASES}/kube-system/leases",        False),
    ("GET",    "/apis/x.k8s.io/v1/policies/ours",     True),
    ("GET",    "/apis/x.k8s.io/v1/policies/theirs",   False),
    ("GET",    "/apis/x.k8s.io/v1/policies",          False),
    ("GET",    "/api/v1/namespaces/own/secrets/ours", False),
])  # fmt: skip
def test_what_is_allowed(method: str, path: str, *, allowed: bool) -> None:
    rules = exact_rules(RULES, "own")
    assert rules.allow(method, path) is allowed
    assert bool(rules.refused) is not allowed
