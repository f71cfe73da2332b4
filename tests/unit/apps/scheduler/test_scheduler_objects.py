"""The objects that run the extender: few rights, certificates on both sides, one pod for each client."""

from typing import Any

import yaml

from numawise.apps.scheduler.configuration import ExtenderWish, scheduler_configuration
from numawise.apps.scheduler.manifest import (
    SchedulerWish,
    StockWish,
    control_plane_configuration,
    scheduler_objects,
    server_names,
    stock_objects,
)


def made(namespace: str = "apart") -> dict[str, Any]:
    return {value["kind"]: value for value in scheduler_objects(SchedulerWish("x", namespace))}


def stock(namespace: str = "apart") -> list[dict[str, Any]]:
    return list(stock_objects(StockWish("stock:1", namespace)))


def test_a_client_without_a_certificate_is_not_answered() -> None:
    (container,) = made()["Deployment"]["spec"]["template"]["spec"]["containers"]
    words = container["args"]
    files = {name: words[words.index(name) + 1] for name in ("--tls-cert", "--tls-key", "--client-ca")}
    (mount,) = container["volumeMounts"]
    assert all(file.startswith(f"{mount['mountPath']}/") for file in files.values())
    assert mount["readOnly"] is True


def test_one_client_one_pod() -> None:
    objects = made()
    assert objects["Service"]["spec"]["sessionAffinity"] == "ClientIP"
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert objects["Service"]["spec"]["selector"].items() <= labels.items()
    ports = {port["name"] for port in objects["Deployment"]["spec"]["template"]["spec"]["containers"][0]["ports"]}  # fmt: skip
    assert {port["targetPort"] for port in objects["Service"]["spec"]["ports"]} <= ports
    doors = {port["port"] for rule in objects["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]}
    assert doors == ports


def test_the_second_scheduler_asks_the_extender_by_a_name_in_its_certificate() -> None:
    (config,) = [value for value in stock() if value["kind"] == "ConfigMap"]
    configuration = yaml.safe_load(config["data"]["config.yaml"])
    (entry,) = configuration["extenders"]
    host, _, port = entry["urlPrefix"].removeprefix("https://").rpartition(":")
    assert host in server_names("apart")
    assert int(port) == made()["Service"]["spec"]["ports"][0]["port"]
    assert configuration["profiles"] == [{"schedulerName": "numawise"}]
    (deployment,) = [value for value in stock() if value["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    folders = {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    for name in ("caFile", "certFile", "keyFile"):
        assert entry["tlsConfig"][name].rpartition("/")[0] in folders


def test_the_second_scheduler_competes_for_its_own_lease() -> None:
    (config,) = [value for value in stock() if value["kind"] == "ConfigMap"]
    election = yaml.safe_load(config["data"]["config.yaml"])["leaderElection"]
    (role,) = [value for value in stock() if value["kind"] == "Role"]
    (named,) = [rule for rule in role["rules"] if "resourceNames" in rule]
    assert named["resourceNames"] == [election["resourceName"]]
    assert election["resourceName"] != "kube-scheduler"  # the control plane's
    assert role["metadata"]["namespace"] == election["resourceNamespace"] == "apart"


def test_both_ways_ask_in_the_same_manner() -> None:
    (config,) = [value for value in stock() if value["kind"] == "ConfigMap"]
    (one,) = yaml.safe_load(config["data"]["config.yaml"])["extenders"]
    (other,) = control_plane_configuration("apart", "https://10.96.0.4:9443")["extenders"]
    (plain,) = scheduler_configuration(ExtenderWish())["extenders"]
    apart = ("urlPrefix", "tlsConfig")
    values = [
        {name: value for name, value in entry.items() if name not in apart} for entry in (one, other, plain)
    ]
    assert values[0] == values[1] == values[2]


def test_pods_are_as_restricted_as_pod_security_wants() -> None:
    pods = [
        value["spec"]["template"]["spec"]
        for value in (*scheduler_objects(SchedulerWish("x")), *stock())
        if value["kind"] == "Deployment"
    ]
    assert len(pods) == 2
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert not any("hostPath" in volume for volume in pod["volumes"])
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
