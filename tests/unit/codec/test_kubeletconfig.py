import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from numawise.codec.document import read_documents, read_file
from numawise.codec.kubelet.config import decode_kubelet_config, unknown_fields
from numawise.codec.kubelet.effective import differences
from numawise.quantity import Quantity
from numawise.rules.check import Refusal
from numawise.rules.eviction import Duration
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import NEWEST

REAL = Path(__file__).parents[4] / "shared" / "data" / "kubelet-config"
HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
DEFAULT_EVICTION = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}


def value(text: str) -> Mapping[str, Any]:
    found = read_documents(text, "kubelet.yaml")[0].value
    assert isinstance(found, Mapping)
    return found


def read(text: str) -> KubeletConfig:
    found = decode_kubelet_config(value(text))
    assert isinstance(found, KubeletConfig), found
    return found


def refusal(text: str) -> str:
    found = decode_kubelet_config(value(text))
    assert isinstance(found, Refusal), found
    assert found.stage == "decode-config"
    assert found.message.startswith(("failed to decode: ", "failed to cast object to "))
    return found.message.removeprefix("failed to decode: ")


def test_nothing_but_defaults() -> None:
    assert read(HEAD) == KubeletConfig(eviction_hard=DEFAULT_EVICTION)
    assert decode_kubelet_config({}) == read(HEAD)


def test_all_that_decisions_hang_on() -> None:
    found = read("""
        cpuManagerPolicy: static
        cpuManagerPolicyOptions: {full-pcpus-only: "true"}
        memoryManagerPolicy: Static
        reservedMemory:
        - {numaNode: 0, limits: {memory: 1124Mi}}
        - {numaNode: 1, limits: {memory: 1.5Gi, hugepages-1Gi: 2}}
        topologyManagerPolicy: restricted
        topologyManagerScope: pod
        topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}
        systemReserved: {cpu: "1"}
        kubeReserved: {memory: 1Gi}
        reservedSystemCPUs: 0-3
        systemReservedCgroup: /system
        kubeReservedCgroup: /kube
        evictionHard: {memory.available: 5%}
        enforceNodeAllocatable: [pods, kube-reserved]
        featureGates: {CPUManagerPolicyAlphaOptions: true}
        maxPods: 250
        syncFrequency: 1m
        cpuCFSQuotaPeriod: 10ms
    """)
    assert found.cpu_manager_policy == "static"
    assert found.cpu_manager_policy_options == {"full-pcpus-only": "true"}
    assert found.memory_manager_policy == "Static"
    assert [(entry.numa, dict(entry.limits)) for entry in found.reserved_memory] == [
        (0, {"memory": Quantity.parse("1124Mi")}),
        (1, {"memory": Quantity.parse("1.5Gi"), "hugepages-1Gi": Quantity.parse("2")}),
    ]
    assert found.topology_manager_policy == "restricted"
    assert found.topology_manager_scope == "pod"
    assert found.topology_manager_policy_options == {"prefer-closest-numa-nodes": "true"}
    assert (found.system_reserved, found.kube_reserved) == ({"cpu": "1"}, {"memory": "1Gi"})
    assert found.reserved_system_cpus == "0-3"
    assert (found.system_reserved_cgroup, found.kube_reserved_cgroup) == ("/system", "/kube")
    assert found.eviction_hard == {"memory.available": "5%"}
    assert found.enforce_node_allocatable == ("pods", "kube-reserved")
    assert found.feature_gates == {"CPUManagerPolicyAlphaOptions": True}
    assert found.other == {"maxPods": 250, "cpuCFSQuotaPeriod": Duration(10**7)}


# fmt: off
@pytest.mark.parametrize(("text", "field", "expected"), [
    ('cpuManagerPolicy: ""',                       "cpu_manager_policy",       "none"),
    ("cpuManagerPolicy: dynamic",                  "cpu_manager_policy",       "dynamic"),
    ('memoryManagerPolicy: ""',                    "memory_manager_policy",    "None"),
    ("topologyManagerPolicy:",                     "topology_manager_policy",  "none"),
    ('topologyManagerScope: ""',                   "topology_manager_scope",   "container"),
    ("enforceNodeAllocatable:",                    "enforce_node_allocatable", ("pods",)),
    ("enforceNodeAllocatable: []",                 "enforce_node_allocatable", ()),
    ("evictionHard:",                              "eviction_hard",            DEFAULT_EVICTION),
    ("evictionHard: {}",                           "eviction_hard",            {}),
    ("evictionHard: {nodefs.available: 5%}",       "eviction_hard",            {"nodefs.available": "5%"}),
    ("evictionHard: {memory.available: }",         "eviction_hard",            {"memory.available": ""}),
    ("{evictionHard: {nodefs.available: 5%}, mergeDefaultEvictionSettings: true}",
                                                   "eviction_hard",            {**DEFAULT_EVICTION, "nodefs.available": "5%"}),
    ("{evictionHard: {}, mergeDefaultEvictionSettings: true}",
                                                   "eviction_hard",            DEFAULT_EVICTION),
    ("maxPods: 0",                                 "other",                    {}),
    ("healthzPort: 0",                             "other",                    {"healthzPort": 0}),
    ("healthzPort:",                               "other",                    {}),
    ("port: 10.0",                                 "other",                    {"port": 10}),
    ("port: 1e3",                                  "other",                    {"port": 1000}),
    ("imageMinimumGCAge: 0s",                      "other",                    {}),
    ("cpuCFSQuotaPeriod: 0s",                      "other",                    {"cpuCFSQuotaPeriod": 0}),
    ("logging: {flushFrequency: 5}",               "other",                    {"logging": {"flushFrequency": 5}}),
    ("registerWithTaints: [{key: a, effect: NoSchedule}]",
                                                   "other",                    {"registerWithTaints": ({"key": "a", "effect": "NoSchedule"},)}),
    ("registerWithTaints: [{timeAdded: 2026-01-02T03:04:05.5+01:00}]",
                                                   "other",                    {"registerWithTaints": ({"timeAdded": "2026-01-02 02:04:05.5 +0000 UTC"},)}),
    ("reservedMemory: [{limits: {memory: }}]",     "reserved_memory[0].limits", (("memory", Quantity()),)),
    ("reservedMemory: [{limits: {memory: ' 1Gi '}}]", "reserved_memory[0].limits", (("memory", Quantity.parse("1Gi")),)),
    ("reservedMemory: [{limits: {memory: 1e3}}]",  "reserved_memory[0].limits", (("memory", Quantity.parse("1000")),)),
    ("reservedMemory: [ ]",                        "reserved_memory",          ()),
])
def test_defaults_and_zeros(text: str, field: str, expected: object) -> None:
    found = read(text)
    if field.startswith("reserved_memory["):
        assert found.reserved_memory[0].limits == expected
    else:
        assert getattr(found, field) == expected


FIELD = "json: cannot unmarshal {} into Go struct field {} of type {}"
FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@pytest.mark.parametrize(("text", "what", "place", "go"), [
    ("cpuManagerPolicy: 1",                       "number",      "KubeletConfiguration.cpuManagerPolicy",           "string"),
    ("cpuManagerPolicy: on",                      "bool",        "KubeletConfiguration.cpuManagerPolicy",           "string"),
    ("cpuManagerPolicyOptions: {a: true}",        "bool",        "KubeletConfiguration.cpuManagerPolicyOptions",    "string"),
    ("cpuManagerPolicyOptions: [a]",              "array",       "KubeletConfiguration.cpuManagerPolicyOptions",    "map[string]string"),
    ("kubeReserved: {cpu: 1}",                    "number",      "KubeletConfiguration.kubeReserved",               "string"),
    ("featureGates: {A: 'true'}",                 "string",      "KubeletConfiguration.featureGates",               "bool"),
    ("enforceNodeAllocatable: pods",              "string",      "KubeletConfiguration.enforceNodeAllocatable",     "[]string"),
    ("enforceNodeAllocatable: [1]",               "number",      "KubeletConfiguration.enforceNodeAllocatable",     "string"),
    ("port: ten",                                 "string",      "KubeletConfiguration.port",                       "int32"),
    ("port: 1.5",                                 "number 1.5",  "KubeletConfiguration.port",                       "int32"),
    ("port: 3000000000",                          "number 3000000000", "KubeletConfiguration.port",                 "int32"),
    ("port: 12345678901234567890",                "number 12345678901234567890", "KubeletConfiguration.port",      "int32"),
    ("enableServer: 1",                           "number",      "KubeletConfiguration.enableServer",               "bool"),
    ("memoryThrottlingFactor: x",                 "string",      "KubeletConfiguration.memoryThrottlingFactor",     "float64"),
    ("syncFrequency: 5",                          "number",      "KubeletConfiguration.syncFrequency",              "string"),
    ("cpuCFSQuotaPeriod: {}",                     "object",      "KubeletConfiguration.cpuCFSQuotaPeriod",          "string"),
    ("reservedMemory: {}",                        "object",      "KubeletConfiguration.reservedMemory",             "[]v1beta1.MemoryReservation"),
    ("reservedMemory: [1]",                       "number",      "KubeletConfiguration.reservedMemory",             "v1beta1.MemoryReservation"),
    ("reservedMemory: [{numaNode: zero}]",        "string",      "MemoryReservation.reservedMemory.numaNode",       "int32"),
    ("reservedMemory: [{limits: []}]",            "array",       "MemoryReservation.reservedMemory.limits",         "v1.ResourceList"),
    ("authentication: x",                         "string",      "KubeletConfiguration.authentication",             "v1beta1.KubeletAuthentication"),
    ("authentication: {x509: {clientCAFile: 1}}", "number",      "KubeletX509Authentication.authentication.x509.clientCAFile", "string"),
    ("authorization: {mode: 1}",                  "number",      "KubeletAuthorization.authorization.mode",         "v1beta1.KubeletAuthorizationMode"),
    ("logging: {verbosity: -1}",                  "number -1",   "LoggingConfiguration.logging.verbosity",          "v1.VerbosityLevel"),
    ("logging: {options: {text: {splitStream: 1}}}", "number",   "TextOptions.logging.options.text.OutputRoutingOptions.splitStream", "bool"),
    ("tracing: {endpoint: 1}",                    "number",      "TracingConfiguration.tracing.endpoint",           "string"),
    ("registerWithTaints: [{effect: 1}]",         "number",      "Taint.registerWithTaints.effect",                 "v1.TaintEffect"),
    ("staticPodURLHeader: {a: b}",                "string",      "KubeletConfiguration.staticPodURLHeader",         "[]string"),
])
def test_wrong_types(text: str, what: str, place: str, go: str) -> None:
    assert refusal(text) == FIELD.format(what, place, go)


@pytest.mark.parametrize(("text", "message"), [
    pytest.param("syncFrequency: 5x",                       'time: unknown unit "x" in duration "5x"', id="duration"),
    pytest.param("syncFrequency:",                          'time: invalid duration ""',              id="a plain duration is never null"),
    pytest.param("logging: {flushFrequency: 1.5}",
                 'invalid duration "1.5": json: cannot unmarshal number 1.5 into Go value of type time.Duration', id="loose duration"),
    pytest.param("logging: {flushFrequency: {a: 1}}",
                 'invalid duration "{\\"a\\":1}": json: cannot unmarshal object into Go value of type time.Duration', id="no duration at all"),
    pytest.param("reservedMemory: [{limits: {memory: 1K}}]", "unable to parse quantity's suffix",     id="quantity"),
    pytest.param("reservedMemory: [{limits: {memory: yes}}]", FORM,                                   id="no quantity at all"),
    pytest.param('reservedMemory: [{limits: {memory: "1Gi\\t"}}]', FORM,                              id="a tab is not trimmed"),
    pytest.param("registerWithTaints: [{timeAdded: x}]",
                 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',       id="time"),
    pytest.param("port: x\naddress: 1",                     FIELD.format("number", "KubeletConfiguration.address", "string"),
                 id="the first wrong type by name"),
    pytest.param("address: 1\nsyncFrequency: 5",            FIELD.format("number", "KubeletConfiguration.syncFrequency", "string"),
                 id="a duration ends the reading"),
    pytest.param("address: 1\nreservedMemory: [{limits: {memory: x}}]", FORM,                         id="so does a quantity"),
    pytest.param("kind: Pod\napiVersion: v1",
                 'no kind "Pod" is registered for version "v1" in scheme "pkg/kubelet/apis/config/scheme/scheme.go:33"', id="another kind"),
    pytest.param("apiVersion: kubelet.config.k8s.io/v1",
                 'no kind "KubeletConfiguration" is registered for version "kubelet.config.k8s.io/v1" in scheme "pkg/kubelet/apis/config/scheme/scheme.go:33"',
                 id="another version"),
    pytest.param("kind: CredentialProviderConfig",
                 "failed to cast object to KubeletConfiguration, unexpected type: kubelet.config.k8s.io/v1beta1, Kind=CredentialProviderConfig",
                 id="a kind of the same family"),
    pytest.param("apiVersion: a/b/c",                       "unexpected GroupVersion string: a/b/c",  id="no version at all"),
    pytest.param("kind: 5",
                 "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string",
                 id="kind of a wrong type"),
])
def test_refused(text: str, message: str) -> None:
    assert refusal(text) == message


@pytest.mark.parametrize(("text", "paths"), [
    ("cpuManagerPolicy: none",                                  []),
    ("cpuManagerPolicyy: static",                               ["cpuManagerPolicyy"]),
    ("CPUManagerPolicy: static",                                ["CPUManagerPolicy"]),
    ("zebra: 1\nape: 2",                                        ["ape", "zebra"]),
    ("reservedMemory: [{numaNode: 0}, {node: 0, limit: {}}]",   ["reservedMemory[1].limit", "reservedMemory[1].node"]),
    ("authentication: {webhook: {enable: true}}",               ["authentication.webhook.enable"]),
    ("logging: {options: {json: {x: 1}}}",                      ["logging.options.json.x"]),
    ("kubeReserved: {anything: goes}",                          []),
    ("reservedMemory: {not: a list}",                           []),
])
def test_unknown_fields(text: str, paths: list[str]) -> None:
    assert unknown_fields(value(text)) == tuple(f'unknown field "{path}"' for path in paths)
# fmt: on


def test_unknown_fields_are_passed_over() -> None:
    assert read("cpuManagerPolicyy: 5\nreservedMemory: [{numaNode: 1, node: x}]").reserved_memory[0].numa == 1


@pytest.mark.skipif(not REAL.is_dir(), reason="the recorded configurations are not beside this repository")
def test_real_files() -> None:
    """What people wrote: plain configurations have known fields only and say what the golden file says."""
    seen = 0
    for golden_file in sorted(REAL.glob("*.json")):
        golden = json.loads(golden_file.read_text())
        config_file = golden_file.with_suffix(".yaml")
        if golden.get("objects") != ["KubeletConfiguration"] or not config_file.exists():
            continue
        seen += 1
        (document,) = read_file(config_file)
        assert isinstance(document.value, Mapping)
        assert unknown_fields(document.value) == (), config_file.name
        (expected,) = golden["golden"]
        found = decode_kubelet_config(document.value)
        if isinstance(found, Refusal):
            options = expected["cpuManagerPolicyOptions"]  # one proposal had a structured option
            assert any(isinstance(option, dict) for option in options.values()), (config_file.name, found)
            continue
        assert found.cpu_manager_policy == expected.get("cpuManagerPolicy", "none")
        assert found.cpu_manager_policy_options == expected.get("cpuManagerPolicyOptions", {})
        assert found.memory_manager_policy == expected.get("memoryManagerPolicy", "None")
        assert found.topology_manager_policy == expected.get("topologyManagerPolicy", "none")
        assert found.topology_manager_scope == expected.get("topologyManagerScope", "container")
        assert found.reserved_system_cpus == expected.get("reservedSystemCPUs", "")
        assert found.kube_reserved == expected.get("kubeReserved", {})
        assert found.system_reserved == expected.get("systemReserved", {})
        assert found.eviction_hard == expected.get("evictionHard", DEFAULT_EVICTION)
        assert found.feature_gates == expected.get("featureGates", {})
        assert [
            {"numaNode": entry.numa, "limits": {name: str(amount) for name, amount in entry.limits}}
            for entry in found.reserved_memory
        ] == expected.get("reservedMemory", [])
    assert seen >= 9


# fmt: off
@pytest.mark.parametrize(("field", "since"), [
    ("memoryManagerPolicy",          21),
    ("cpuManagerPolicyOptions",      22),
    ("registerWithTaints",           23),
    ("tracing",                      25),
    ("topologyManagerPolicyOptions", 26),
    ("maxParallelImagePulls",        27),
    ("imageMaximumGCAge",            29),
    ("podLogsDir",                   30),
    ("failCgroupV1",                 31),
    ("crashLoopBackOff",             32),
    ("mergeDefaultEvictionSettings", 33),
    ("tlsCurvePreferences",          36),
    ("defaultPodSysctls",            37),
])
def test_fields_come_with_releases(field: str, since: int) -> None:
    assert unknown_fields({field: None}, (1, since - 1)) == (f'unknown field "{field}"',)
    assert unknown_fields({field: None}, (1, since)) == ()


@pytest.mark.parametrize(("number", "text", "message"), [
    (20, "logging: {verbosity: 1}",                          None),
    (22, "topologyManagerPolicyOptions: {a: 1}",             None),
    (27, "logging: {flushFrequency: 5s}",                    "json: cannot unmarshal string into Go struct field LoggingConfiguration.logging.flushFrequency of type time.Duration"),
    (28, "logging: {flushFrequency: 5s}",                    None),
    (24, "logging: {verbosity: -1}",                         "json: cannot unmarshal number -1 into Go struct field LoggingConfiguration.logging.verbosity of type uint32"),
    (34, "logging: {options: {text: {splitStream: 1}}}",     "json: cannot unmarshal number into Go struct field TextOptions.logging.options.text.splitStream of type bool"),
    (35, "logging: {options: {text: {splitStream: 1}}}",     "json: cannot unmarshal number into Go struct field TextOptions.logging.options.text.OutputRoutingOptions.splitStream of type bool"),
    (25, "kind: Pod\napiVersion: v1",                        'no kind "Pod" is registered for version "v1" in scheme "pkg/kubelet/apis/config/scheme/scheme.go:32"'),
])
def test_types_of_other_releases(number: int, text: str, message: str | None) -> None:
    found = decode_kubelet_config(value(text), (1, number))
    assert (found.message if isinstance(found, Refusal) else None) == (message and f"failed to decode: {message}")
# fmt: on


def test_what_a_release_does_not_know_is_passed_over() -> None:
    text = "evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true"
    old, new = (decode_kubelet_config(value(text), version) for version in ((1, 32), (1, 33)))
    assert isinstance(old, KubeletConfig)
    assert isinstance(new, KubeletConfig)
    assert old.eviction_hard == {"memory.available": "1Gi"}
    assert new.eviction_hard == {**DEFAULT_EVICTION, "memory.available": "1Gi"}
    assert old.given == new.given == {"evictionHard", "mergeDefaultEvictionSettings"}


def test_default_thresholds_of_other_releases() -> None:
    old = decode_kubelet_config({}, (1, 29))
    assert isinstance(old, KubeletConfig)
    assert DEFAULT_EVICTION.items() - old.eviction_hard.items() == {("imagefs.inodesFree", "5%")}


def test_cpus_that_a_kubelet_wrote_into_its_reservations_are_no_difference() -> None:
    written = {"reservedSystemCPUs": "0-1", "systemReserved": {"memory": "1Gi"}, "kubeReserved": {"cpu": "1"}}
    running = {"reservedSystemCPUs": "0-1", "systemReserved": {"cpu": "2", "memory": "1Gi"}}
    assert differences(running, written, NEWEST) == []
    assert differences({**running, "systemReserved": {"cpu": "2"}}, written, NEWEST) == ["systemReserved"]
    assert differences(running, {**written, "reservedSystemCPUs": ""}, NEWEST) == [
        "kubeReserved",
        "reservedSystemCPUs",
    ]
