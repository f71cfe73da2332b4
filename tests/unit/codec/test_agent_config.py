"""Files that say what the agent offers: values, and every mistake with file, line, field, value and advice."""

from pathlib import Path

import pytest

from numawise.apps.agent.offer_plan import read_config
from numawise.codec.agent_values import IGNORED_XIDS, AnswerForm, FakeDevice, PciMatch, variable_of
from numawise.codec.fake_devices import read_fakes
from numawise.errors import InputError

ROOT = Path(__file__).parents[3]
GOOD = """\
agent: v1
resources:
- name: example.com/nic
  pci: {vendor: "0x15b3", device: "101b", class: "02", driver: mlx5_core}
- name: example.com/kvm
  paths: [/dev/kvm]
  replicas: 10
  answer: {env: KVM, nodes: [/dev/vhost-net]}
- name: example.com/gpu
  nvidia: {flags: {migStrategy: mixed, plugin: {deviceIDStrategy: index}}}
"""
DOCUMENT = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: nvidia-device-plugin-config
data:
  config.yaml: |
    version: v1
    flags:
      migStrategy: "none"
      failOnInitError: true
      nvidiaDriverRoot: "/"
      plugin:
        passDeviceSpecs: false
        deviceListStrategy: "envvar"
        deviceIDStrategy: "uuid"
"""


def written(folder: Path, text: str) -> str:
    path = folder / "f.yaml"
    path.write_text(text)
    return str(path)


def test_our_own(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, GOOD))
    nic, kvm, gpu = config.resources
    assert nic.pci == PciMatch(0x15B3, (0x101B,), "02", "mlx5_core")
    assert nic.answer == AnswerForm(env="EXAMPLE_COM_NIC")
    assert (kvm.paths, kvm.replicas) == (("/dev/kvm",), 10)
    assert kvm.answer == AnswerForm(env="KVM", own_nodes=True, nodes=("/dev/vhost-net",))
    assert gpu.name == "example.com/gpu"
    assert gpu.nvidia is not None
    assert gpu.nvidia.mig_strategy == "mixed"
    assert gpu.answer.ids == "index"
    assert config.ignored_xids == set(IGNORED_XIDS)


def test_the_examples() -> None:
    assert len(read_config(str(ROOT / "examples/agent/agent.yaml")).resources) == 2
    assert len(read_fakes(str(ROOT / "examples/agent/fake.yaml"))) == 5


def test_nvidias_own_unchanged(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, DOCUMENT))
    (rule,) = config.resources
    assert rule.name == "nvidia.com/gpu"
    assert rule.answer == AnswerForm(env="NVIDIA_VISIBLE_DEVICES", ids="uuid")
    assert rule.fails_without
    assert config.remarks == ()


def test_fields_that_are_not_acted_on_are_named(tmp_path: Path) -> None:
    text = """\
version: v1
flags:
  mpsRoot: /run/mps
  gdsEnabled: true
  mofedEnabled: false
  plugin: {nvidiaCTKPath: /usr/bin/nvidia-ctk}
  gfd: {oneshot: false}
imex: {channelIDs: [0]}
sharing:
  timeSlicing:
    resources:
    - {name: gpu, replicas: 2, rename: other, devices: 1}
"""
    path = written(tmp_path, text)
    remarks = read_config(path).remarks
    named = [remark.split(": ")[1] for remark in remarks]
    assert sorted(named) == [
        "flags.gdsEnabled",
        "flags.gfd",
        "flags.mpsRoot",
        "flags.plugin.nvidiaCTKPath",
        "imex",
        "sharing.timeSlicing.resources[0].devices",
        "sharing.timeSlicing.resources[0].rename",
    ]
    assert f"{path}:4: flags.gdsEnabled: is not acted on: its device files are not passed" in "\n".join(
        remarks
    )


RESOURCE = "agent: v1\nresources:\n- "


@pytest.mark.parametrize(("text", "said"), [
    ("agent: v2",                                    ':1: agent: unknown version: "v2"; write v1'),
    ("agent: v1",                                    "resources: is empty; list at least one resource"),
    ("agent: v1\nresource: []",                      ':2: resource: unknown field "resource"; did you mean "resources"?'),
    (RESOURCE + "{name: gpu, paths: [/dev/x]}",      ':3: resources[0].name: "gpu" is not the name of a resource; write DOMAIN/NAME'),
    (RESOURCE + "{name: a.kubernetes.io/b, paths: [/dev/x]}", "is in a domain of Kubernetes itself"),
    (RESOURCE + "{name: a.b/c}",                     "needs one of pci, paths and nvidia, and has none"),
    (RESOURCE + "{name: a.b/c, pci: {driver: x}, paths: [/x]}", "and has pci and paths"),
    (RESOURCE + "{name: a.b/c, pci: {}}",            "resources[0].pci: matches every PCI function"),
    (RESOURCE + "{name: a.b/c, pci: {vendor: 1234}}", "pci.vendor: must be hexadecimal digits in quotes, not the number 1234"),
    (RESOURCE + "{name: a.b/c, pci: {vendor: nvidia}}", 'must be up to 4 hexadecimal digits, not "nvidia"'),
    (RESOURCE + "{name: a.b/c, pci: {vendr: x}}",    'did you mean "vendor"?'),
    (RESOURCE + "{name: a.b/c, paths: [dev/x]}",     'paths[0]: must be an absolute path, not "dev/x"'),
    (RESOURCE + "{name: a.b/c, paths: [/dev/../x]}", "must be an absolute path"),
    (RESOURCE + "{name: a.b/c, paths: []}",          "paths: is empty"),
    (RESOURCE + "{name: a.b/c, paths: [/x], replicas: 0}", "replicas: must be an integer from 1 to 10000, not 0"),
    (RESOURCE + "{name: a.b/c, paths: [/x], answer: {env: A-B}}", '"A-B" is not the name of a variable'),
    (RESOURCE + "{name: a.b/c, paths: [/x], answer: {cdi: abc}}", '"abc" is not a CDI kind'),
    (RESOURCE + "{name: a.b/c, nvidia: {}, replicas: 2}", "share GPUs by nvidia.sharing.timeSlicing"),
    (RESOURCE + "{name: a.b/c, nvidia: {flags: {migStrategy: all}}}", 'nvidia.flags.migStrategy: unknown value "all"'),
    (RESOURCE + "{name: a.b/c, paths: [/x]}\n- {name: a.b/c, paths: [/y]}", ':4: resources[1].name: "a.b/c" is listed twice'),
    (RESOURCE + "{name: a.b/c, paths: [/x]}\nhealth: {ignoredXids: [x]}", "ignoredXids[0]: must be an integer"),
    ("version: v1\nflags: {migStrategy: mixd}",      ":2: flags.migStrategy: unknown value \"mixd\"; did you mean 'mixed'?"),
    ("version: v1\nflags: {migStrategi: none}",      "unknown field 'migStrategi'; did you mean 'migStrategy'?"),
    ("version: v1\nsharing: {mps: {resources: [{name: gpu, replicas: 2}]}}", "sharing.mps: GPUs are not shared by MPS here; share them by timeSlicing"),
    ("version: v1\nflags: {deviceDiscoveryStrategy: tegra}", "flags.deviceDiscoveryStrategy: Tegra's GPUs are not known here"),
    ("kind: Pod\napiVersion: v1",                    "is neither a configuration of the agent nor one of NVIDIA's device plugin"),
])  # fmt: skip
def test_mistakes(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as refused:
        read_config(path)
    assert str(refused.value).startswith(path)
    assert said in str(refused.value)
    assert refused.value.advice or "must be" in said


def test_made_up_devices(tmp_path: Path) -> None:
    text = "- {resource: a.b/c, ids: [x, 1], numa: [0, 1], env: V}\n- {resource: a.b/c, ids: [z], numa: -1, health: Unhealthy}\n"
    assert read_fakes(written(tmp_path, text)) == (
        FakeDevice("a.b/c", "x", (0, 1), env="V"),
        FakeDevice("a.b/c", "1", (0, 1), env="V"),
        FakeDevice("a.b/c", "z", (), healthy=False, env=variable_of("a.b/c")),
    )


@pytest.mark.parametrize(("text", "said"), [
    ("a: b",                                        "must be a list of entries with resource and ids, not a mapping"),
    ("- {resource: a.b/c}",                         "[0].ids: is empty"),
    ("- {resource: a.b/c, ids: gpu0}",              'must be a list of ids, not "gpu0"'),
    ("- {resource: a.b/c, ids: ['a b']}",           '"a b" is not an id of a device'),
    ("- {resource: a.b/c, ids: ['a,b']}",           '"a,b" is not an id of a device'),
    ("- {resource: a.b/c, ids: [a], numa: 64}",     "numa: must be an integer from 0 to 63, not 64"),
    ("- {resource: a.b/c, ids: [a], health: Sick}", 'health: unknown value "Sick"; known are Healthy, Unhealthy'),
    ("- {resource: a.b/c, ids: [a]}\n- {resource: a.b/c, ids: [a]}", ':2: [1].ids: "a" of a.b/c is listed twice'),
    ("- {resource: a.b/c, ids: [a], numas: 1}",     'did you mean "numa"?'),
])  # fmt: skip
def test_mistakes_in_made_up_devices(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as refused:
        read_fakes(path)
    assert str(refused.value).startswith(path)
    assert said in str(refused.value)
