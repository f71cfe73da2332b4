"""The objects that run the agent in a cluster: as few rights as its features need."""

from typing import Any

import pytest

from numawise.apps.agent.manifest import ManifestWish, manifest
from numawise.apps.agent.rights import FEATURES, RIGHTS, api_of, mounts_of
from tests.kube.rbac import Rules, right_of

ALWAYS = ("Namespace", "ServiceAccount", "DaemonSet")
ACCESS = ("ClusterRole", "ClusterRoleBinding")
POLICY = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def made(*features: str, **more: Any) -> dict[str, dict[str, Any]]:
    wish = ManifestWish(features, "example/numawise:1", ("--listen", "0.0.0.0:9797"), **more)
    return {one["kind"]: one for one in manifest(wish)}


def pod(*features: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = made(*features, **more)["DaemonSet"]["spec"]["template"]["spec"]
    return found


def mounts(*features: str, **more: Any) -> dict[str, bool]:
    """Path → whether it may be written."""
    spec = pod(*features, **more)
    (container,) = spec["containers"]
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    assert all(
        mount["mountPath"] == paths[mount["name"]]
        for mount in container["volumeMounts"]
        if mount["name"] in paths
    )
    return {
        paths[mount["name"]]: not mount["readOnly"]
        for mount in container["volumeMounts"]
        if mount["name"] in paths
    }


@pytest.mark.parametrize(("features", "kinds"), [
    (["device-plugin"],                     ALWAYS),
    (["watch"],                             (*ALWAYS, *ACCESS)),
    (["export"],                            (*ALWAYS, *ACCESS, *POLICY)),
    (["export", "startup-taint"],           (*ALWAYS, *ACCESS, *POLICY)),
])  # fmt: skip
def test_objects(features: list[str], kinds: tuple[str, ...]) -> None:
    assert sorted(made(*features)) == sorted(kinds)


@pytest.mark.parametrize("feature", FEATURES)
def test_the_container_can_do_nothing_else(feature: str) -> None:
    spec = pod(feature)
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert spec["automountServiceAccountToken"] == bool(RIGHTS[feature].api)
    assert made(feature)["ServiceAccount"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize(("features", "expected"), [
    (["device-plugin"],           {"/var/lib/kubelet/device-plugins": True, "/var/lib/kubelet/pod-resources": False}),
    (["export"],                  {"/var/lib/kubelet": False}),
    (["device-plugin", "export"], {"/var/lib/kubelet": False, "/var/lib/kubelet/device-plugins": True}),
    (["watch"],                   {"/sys/fs/cgroup": False, "/var/lib/kubelet": False, "/var/log/containers": False}),
    (["watch", "repair"],         {"/sys/fs/cgroup": True, "/var/lib/kubelet": False, "/var/log/containers": False}),
])  # fmt: skip
def test_mounts(features: list[str], expected: dict[str, bool]) -> None:
    assert mounts(*features) == expected


def test_mounts_that_the_configuration_needs() -> None:
    assert mounts("export", kubelet_dir="/data/kubelet", files=("/etc/kubelet.yaml",)) == {
        "/data/kubelet": False,
        "/etc/kubelet.yaml": False,
    }
    assert "/dev" in mounts("device-plugin", devices=True)
    assert pod("device-plugin", nvidia=True)["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in pod("device-plugin")
    config = made("device-plugin", config="agent: v1\n")
    assert config["ConfigMap"]["data"] == {"config.yaml": "agent: v1\n"}


def test_nobody_may_do_more_than_read_but_what_is_listed() -> None:
    rights = Rules(made(*(set(FEATURES) - {"configz"}))["ClusterRole"]["rules"]).rights
    assert not any("*" in part for right in rights for part in right)
    writes = {right for right in rights if right[2] not in ("get", "list", "watch")}
    assert writes == {
        ("", "nodes", "patch"),
        ("", "nodes/status", "patch"),
        ("events.k8s.io", "events", "create"),
        ("events.k8s.io", "events", "patch"),
        ("topology.node.k8s.io", "noderesourcetopologies", "create"),
        ("topology.node.k8s.io", "noderesourcetopologies", "patch"),
    }
    assert not any(resource.startswith(("secrets", "nodes/proxy", "pods/")) for _, resource, _ in rights)


def test_what_is_written_about_nodes_is_under_the_policy() -> None:
    spec = made("export", "startup-taint")["ValidatingAdmissionPolicy"]["spec"]
    under = {(rule["apiGroups"][0], resource) for rule in spec["matchConstraints"]["resourceRules"] for resource in rule["resources"]}  # fmt: skip
    writes = {
        (right.group, right.resource)
        for right in api_of(("export", "startup-taint"))
        if {"create", "patch", "update"} & set(right.verbs) and right.resource != "events"
    }
    assert under == writes
    assert spec["failurePolicy"] == "Fail"
    messages = [one["message"] for one in spec["validations"]]
    assert any("removes taints alone" in text for text in messages)
    assert any("belongs to its own node" in text for text in messages)
    assert not any(
        "taints" in one["message"]
        for one in made("export")["ValidatingAdmissionPolicy"]["spec"]["validations"]
    )


def test_mounts_of_several_features_are_joined() -> None:
    (cgroup,) = [mount for mount in mounts_of(("watch", "repair")) if mount.path == "/sys/fs/cgroup"]
    assert cgroup.writes
    assert "put right" in cgroup.why


@pytest.mark.parametrize(("method", "path", "right"), [
    ("GET",   "/api/v1/nodes/n1",                                   ("", "nodes", "get")),
    ("GET",   "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1",      ("", "pods", "list")),
    ("GET",   "/api/v1/pods?watch=1",                               ("", "pods", "watch")),
    ("GET",   "/api/v1/namespaces/a/pods/b",                        ("", "pods", "get")),
    ("GET",   "/api/v1/namespaces/a",                               ("", "namespaces", "get")),
    ("GET",   "/api/v1/nodes/n1/proxy/configz",                     ("", "nodes/proxy", "get")),
    ("PATCH", "/api/v1/nodes/n1/status?fieldManager=x",             ("", "nodes/status", "patch")),
    ("POST",  "/apis/events.k8s.io/v1/namespaces/default/events",   ("events.k8s.io", "events", "create")),
    ("PATCH", "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/n1",
     ("topology.node.k8s.io", "noderesourcetopologies", "patch")),
    ("GET",   "/healthz",                                           None),
    ("GET",   "/apis/topology.node.k8s.io/v1alpha2",                None),
])  # fmt: skip
def test_which_right_a_request_needs(method: str, path: str, right: tuple[str, str, str] | None) -> None:
    assert right_of(method, path) == right
