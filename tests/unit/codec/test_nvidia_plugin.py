"""Configurations of NVIDIA's device plugin: values, refusals, misspellings, and where they are found."""

import json
from pathlib import Path
from textwrap import indent

import pytest

from numawise.codec.document import read_documents
from numawise.codec.nvidia_forms import PluginSource, plugin_source
from numawise.codec.nvidia_plugin import PluginReading
from numawise.errors import InputError
from numawise.gpus.nvidia_plugin import PluginConfig, Replicas
from numawise.results.finding import Finding
from tests.fidelity import trace_lines

RECORDED = Path(__file__).parent.parent.parent / "recorded" / "preference" / "config.jsonl.gz"
SHARING = """\
version: v1
sharing:
  timeSlicing:
    renameByDefault: true
    resources:
    - name: nvidia.com/gpu
      replicas: 4
"""
SHARED = PluginConfig(
    sharing="time-slicing", replicas=(Replicas("nvidia.com/gpu", 4, "nvidia.com/gpu.shared"),)
)


def reading(text: str) -> PluginReading:
    return PluginReading(read_documents(text, "plugin.yaml")[0].root)


def source(text: str) -> PluginSource:
    found = plugin_source(read_documents(text, "plugin.yaml"))
    assert found is not None
    return found


def brief(findings: tuple[Finding, ...]) -> list[str]:
    return [f"{one.line} {one.code} {one.message}; {one.fix}" for one in findings]


def config_map(**entries: str) -> str:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n"
    return head + "".join(f"  {name}: |-\n{indent(text, '    ')}" for name, text in entries.items())


def test_configurations_are_refused_and_read_as_the_plugin_does() -> None:
    cases = [json.loads(line) for line in trace_lines(RECORDED)]
    assert len(cases) > 600
    for case in cases:
        found = reading(case["text"])
        assert bool(found.refusals) == ("error" in case), case
        if "error" in case:
            continue
        flags, sharing = case["config"]["flags"], case["config"]["sharing"]
        shared = sharing.get("mps") or sharing.get("timeSlicing") or {}
        replicas: dict[tuple[str, str], int] = {}
        for entry in shared.get("resources") or ():
            key = entry["name"], entry.get("rename") or entry["name"]
            replicas[key] = max(entry["replicas"], replicas.get(key, 0))
        config = found.config
        assert config.mig_strategy == flags["migStrategy"]
        assert config.pass_device_specs == bool(flags["plugin"]["passDeviceSpecs"])
        assert list(config.strategies) == flags["plugin"]["deviceListStrategy"]
        assert config.policy == (flags["plugin"]["sharedDevicesAllocationPolicy"] or "distributed")
        assert {(one.resource, one.offered_as): one.count for one in config.replicas} == replicas
        assert config.refuses_several == bool(shared.get("failRequestsGreaterThanOne"))


@pytest.mark.parametrize(("text", "expected"), [
    ("flags: {migStategy: none}",         "1 NW702 unknown field 'migStategy'; did you mean 'migStrategy'?"),
    ("flags: {passDeviceSpecs: true}",    ("1 NW702 unknown field 'passDeviceSpecs'; "
                                          "'passDeviceSpecs' belongs to flags.plugin")),
    ("flags: {plugin: {cdiEnabled: true}}", ("1 NW702 'cdiEnabled' is no longer a field; since v0.14 "
                                          "deviceListStrategy cdi-annotations or cdi-cri switches CDI on")),
    ("flags: {migStrategy: singel}",      "1 NW701 unknown value \"singel\"; did you mean 'single'?"),
    ("flags: {failOnInitError: 'true'}",  '1 NW701 must be true or false, not "true"; write it without quotes'),
    ("version: v2",                       '1 NW701 unknown version: "v2"; write v1'),
    ("flags: {gfd: {sleepInterval: 60}}", ""),
    ("flags: {gfd: {sleepInterval: 60x}}", ('1 NW701 time: unknown unit "x" in duration "60x"; '
                                          "write a number with a unit, such as 60s")),
    ("flags: {plugin: {deviceListStrategy: [envvar, cdi-cri]}}", ""),
    ("flags: {plugin: {deviceListStrategy: 'envvar,cdi-cri'}}",
     '1 NW701 invalid strategy "envvar,cdi-cri"; write several as a list'),
    ("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpus, replicas: 2}]}}",
     ("1 NW703 the plugin offers no nvidia.com/gpus, so nothing is shared by this entry; "
     "did you mean 'nvidia.com/gpu'?")),
    ("sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.5gb, replicas: 2}]}}",
     ("1 NW703 under migStrategy none there is no nvidia.com/mig-1g.5gb, so it is not shared; "
     "set flags.migStrategy to mixed")),
    ("sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}\nflags: {migStrategy: mixed}",
     ("1 NW701 using --mig-strategy=mixed is not supported with MPS; "
     "set flags.migStrategy to none, or share by timeSlicing")),
])  # fmt: skip
def test_findings(text: str, expected: str) -> None:
    assert brief(tuple(reading(text).findings)) == ([expected] if expected else [])


def test_lines_are_those_of_the_file() -> None:
    found = source(config_map(a100="version: v1\nflags:\n  migStategy: mixed\n"))
    assert [one.line for one in found.every_finding] == [8]


def test_the_config_map_of_the_source_document() -> None:
    text = config_map(**{
        "config.yaml": 'version: v1\nflags:\n  migStrategy: "none"   # MIG\n  failOnInitError: true\n'
        '  nvidiaDriverRoot: "/"\n  plugin:\n    passDeviceSpecs: false\n    deviceListStrategy: "envvar"\n'
        '    deviceIDStrategy: "uuid"\n'
    })  # fmt: skip
    found = source(text)
    assert found.every_finding == ()
    assert found.config(found.selected()[1]) == PluginConfig()


@pytest.mark.parametrize("text", [
    SHARING,
    config_map(any=SHARING),
    f"config:\n  map:\n    default: |-\n{indent(SHARING, '      ')}",
    (f"kind: HelmRelease\nspec:\n  values:\n    config:\n      map:\n        default: |-\n"
    f"{indent(SHARING, '          ')}"),
])  # fmt: skip
def test_forms(text: str) -> None:
    found = source(text)
    assert found.every_finding == ()
    assert found.config(found.selected()[1]) == SHARED


def test_the_gpu_operator() -> None:
    policy = (
        "kind: ClusterPolicy\nspec:\n  mig: {strategy: mixed}\n  devicePlugin:\n"
        "    config: {name: c, default: sliced}\n---\n"
    )
    found = source(policy + config_map(sliced=SHARING, whole="version: v1\nflags: {migStrategy: single}\n"))
    name, chosen = found.selected()
    assert name == "sliced"
    config = found.config(chosen)
    assert (config.mig_strategy, config.pass_device_specs, config.replicas) == (
        "mixed",
        True,
        SHARED.replicas,
    )
    assert [one.message for one in found.every_finding] == [
        'migStrategy is "mixed" by the ClusterPolicy, which goes before this'
    ]


def test_values_of_the_chart_go_before_the_file() -> None:
    found = source(
        "migStrategy: single\ncompatWithCPUManager: true\ndeviceListStrategy: envvar,cdi-cri\n"
        f"config:\n  defalt: a\n  map:\n    a: |-\n{indent(SHARING, '      ')}"
    )
    config = found.config(found.selected()[1])
    assert (config.mig_strategy, config.pass_device_specs) == ("single", True)
    assert config.strategies == ("envvar", "cdi-cri")
    assert brief(found.every_finding) == ["5 NW702 unknown field 'defalt'; did you mean 'default'?"]


def test_which_of_several() -> None:
    found = source(config_map(whole="version: v1\nflags: {migStrategy: none}\n", sliced=SHARING))
    assert found.selected("sliced")[0] == "sliced"
    with pytest.raises(InputError, match="nothing says which one the node uses"):
        found.selected()
    with pytest.raises(
        InputError, match="is 'slice', and there is no such configuration; known are whole, sl"
    ):
        found.selected("slice")
    named = source(config_map(default="version: v1\nflags: {migStrategy: none}\n", sliced=SHARING))
    assert named.selected()[0] == "default"


@pytest.mark.parametrize("text", [
    "kind: Pod\nspec: {}",
    "version: v1\nmig-configs: {all-disabled: []}",
    "kind: ConfigMap\ndata: {a: hello}",
    "kind: ConfigMap\ndata: {config.yaml: 'version: v1\n\n    mig-configs: {}'}",
    "resources: {limits: {cpu: 1}}\nversion: v1\nname: x",
    "[1]",
])  # fmt: skip
def test_other_documents_are_left_alone(text: str) -> None:
    assert plugin_source(read_documents(text, "x")) is None
