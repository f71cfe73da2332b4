"""Settings changed in the text of a configuration: nothing else of the text changes."""

import difflib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from numawise.codec.kubelet.edited import edited
from numawise.errors import InputError

ALONE = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
# top
cpuManagerPolicy: static  # why static
featureGates:
  # of gates
  CPUManagerPolicyAlphaOptions: true  # alpha
  Other: false
kubeReserved: {cpu: "1", memory: 1Gi}  # kube
reservedMemory:
# first
- numaNode: 0
  limits:
    memory: 1Gi  # half
- numaNode: 1
  limits: {memory: 1Gi}
"""


def in_config_map(text: str, scalar: str = "|") -> str:
    inside = "".join(f"    {line}\n" for line in text.splitlines())
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kubelet-config}  # of kubeadm\ndata:\n"
    return f"{head}  # inside\n  kubelet: {scalar}\n{inside}"


def memory(*sizes: str) -> list[dict[str, Any]]:
    return [{"numaNode": numa, "limits": {"memory": size}} for numa, size in enumerate(sizes)]


@pytest.mark.parametrize(("setting", "value", "lines"), [
    pytest.param("cpuManagerPolicy", "none", ["-cpuManagerPolicy: static  # why static", "+cpuManagerPolicy: none  # why static"], id="value"),
    pytest.param("topologyManagerPolicy", "restricted", ["+topologyManagerPolicy: restricted"], id="new"),
    pytest.param("featureGates", {"CPUManagerPolicyAlphaOptions": True, "Other": True}, ["-  Other: false", "+  Other: true"], id="member"),
    pytest.param("featureGates", {"CPUManagerPolicyAlphaOptions": True, "Other": False, "New": True}, ["+  New: true"], id="new member"),
    pytest.param("featureGates", {"Other": False}, ["-  CPUManagerPolicyAlphaOptions: true  # alpha"], id="member goes"),
    pytest.param("kubeReserved", {"cpu": "2", "memory": "1Gi"}, ['-kubeReserved: {cpu: "1", memory: 1Gi}  # kube', '+kubeReserved: {cpu: "2", memory: 1Gi}  # kube'], id="flow"),
    pytest.param("reservedMemory", memory("2Gi", "1Gi"), ["-    memory: 1Gi  # half", "+    memory: 2Gi  # half"], id="inside a list"),
    pytest.param("reservedMemory", memory("1Gi", "1Gi", "3Gi"), ["+- numaNode: 2", "+  limits:", "+    memory: 3Gi"], id="longer list"),
    pytest.param("reservedMemory", memory("1Gi"), ["-- numaNode: 1", "-  limits: {memory: 1Gi}"], id="shorter list"),
    pytest.param("reservedMemory", memory("1Gi", "1Gi")[1:], ["-- numaNode: 0", "-  limits:", "-    memory: 1Gi  # half"], id="without the first"),
])  # fmt: skip
@pytest.mark.parametrize("scalar", ["", "|", "|-"])
def test_nothing_else_changes(setting: str, value: object, lines: list[str], scalar: str) -> None:
    text = in_config_map(ALONE, scalar) if scalar else ALONE
    found = edited(text, [((setting,), value)])
    assert not found.rewritten
    _, _, *rows = difflib.unified_diff(text.splitlines(), found.text.splitlines(), n=0, lineterm="")
    changed = [row for row in rows if not row.startswith("@@")]
    space = " " * 4 if scalar else ""
    assert changed == [f"{line[0]}{space}{line[1:]}" for line in lines]
    read = yaml.safe_load(found.text)
    inner = yaml.safe_load(read["data"]["kubelet"]) if scalar else read
    assert inner == yaml.safe_load(ALONE) | {setting: value}


def test_in_an_object_it_is_written_anew_inside_of_it() -> None:
    text = in_config_map(ALONE.replace("kubeReserved: {", "kubeReserved: &own {"))
    found = edited(text, [(("kubeReserved",), {"cpu": "2", "memory": "1Gi"}), (("cpuManagerPolicy",), None)])
    read = yaml.safe_load(found.text)
    assert read["kind"] == "ConfigMap"
    wanted = yaml.safe_load(ALONE)
    del wanted["cpuManagerPolicy"]
    assert yaml.safe_load(read["data"]["kubelet"]) == wanted | {"kubeReserved": {"cpu": "2", "memory": "1Gi"}}


def test_what_is_packed_is_not_changed() -> None:
    inside = ALONE.encode().hex()
    files = [
        {
            "path": "/etc/kubernetes/kubelet.conf",
            "contents": {
                "source": "data:," + "".join(f"%{inside[i : i + 2]}" for i in range(0, len(inside), 2))
            },
        }
    ]
    value = {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": "m"},
    }
    text = yaml.safe_dump(
        value | {"spec": {"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": files}}}}
    )
    with pytest.raises(InputError, match="packed inside, where it cannot be changed"):
        edited(text, [(("cpuManagerPolicy",), "none")])


AMOUNTS = st.sampled_from(["1", "500m", "1Gi", "on: off", "2 # two", "", "yes", "0x1f"])
NAMES = st.sampled_from(["cpu", "memory", "ephemeral-storage", "pid", "x/y", "no"])
TABLES = st.dictionaries(NAMES, AMOUNTS, min_size=1, max_size=4)
LISTS = st.lists(TABLES, min_size=1, max_size=4)


@given(
    old=st.one_of(TABLES, LISTS),
    new=st.one_of(TABLES, LISTS),
    flow=st.sampled_from([True, False]),
    inside=st.booleans(),
)
def test_whatever_is_set_is_what_is_read(old: object, new: object, flow: bool, inside: bool) -> None:  # noqa: FBT001
    kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    body = {**kind, "kubeReserved": old, "cpuManagerPolicy": "static"}
    text = yaml.safe_dump(body, default_flow_style=flow, sort_keys=False)
    text = in_config_map(text) if inside else text
    found = edited(text, [(("kubeReserved",), new)])
    read = yaml.safe_load(found.text)
    read = yaml.safe_load(read["data"]["kubelet"]) if inside else read
    assert read == body | {"kubeReserved": new}
