"""Whatever stands in a file, there is an answer."""

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numawise.apps.check.lint import lint
from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.kubelet.fields import configuration_of
from numawise.errors import InputError
from numawise.render.findings import github, sarif
from numawise.results.finding import codes
from tests.check.examples import write
from tests.check.folder import named
from tests.check.traces import HEAD

FIELDS = sorted(configuration_of().fields)
WORDS = [
    "static", "Static", "none", "None", "restricted", "single-numa-node", "pod", "0", "0-1", "3-1", "0,x", "1", "1Gi",
    "1.5Gi", "100m", "-1", "5%", "100Mi", "memory", "cpu", "memory.available", "full-pcpus-only", "true", "", "$X",
    "nvidia.com/gpu", "hugepages-1Gi", "policyName", "entries", "numaNode", "limits", "containers", "spec", "name",
]  # fmt: skip
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 70),
    st.floats(-2, 2),
    st.sampled_from(WORDS),
    st.text(max_size=4),
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=8,
)
configs = st.dictionaries(st.sampled_from(FIELDS), anything, max_size=6)
containers = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b", "A!"]), "image": st.just("i")},
    optional={
        "resources": anything,
        "env": anything,
        "command": anything,
        "args": anything,
        "securityContext": anything,
    },
)
pods = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["Pod", "Deployment", "Other", "PodList", ""]),
        "metadata": st.just({"name": "p"}),
    },
    optional={
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(containers, max_size=2)},
            optional={
                "volumes": anything,
                "hostPID": anything,
                "resources": anything,
                "initContainers": anything,
            },
        )
    },
)
states = st.dictionaries(
    st.sampled_from(
        ["policyName", "defaultCpuSet", "entries", "checksum", "machineState", "Data", "Checksum", "data"]
    ),
    anything,
    max_size=5,
)


@settings(
    max_examples=120,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(config=configs, pod=pods, state=states, version=st.integers(20, 37), machine=st.booleans())
def test_there_is_an_answer(config: Any, pod: Any, state: Any, version: int, machine: bool) -> None:  # noqa: FBT001
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kubelet.yaml").write_text(json.dumps({**HEAD, **config}))
        (folder / "pod.yaml").write_text(json.dumps(pod))
        (folder / "state").mkdir()
        for file in (CPU_FILE, MEMORY_FILE, DEVICE_FILE):
            (folder / "state" / file).write_text(json.dumps(state))
        machines = ()
        if machine:
            write({"machine.yaml": "= 2s 4c 2t 2gpu 8g"}, folder)
            machines = (str(folder / "machine.yaml"),)
        try:
            report = lint(
                **named(
                    configs=(str(folder / "kubelet.yaml"),),
                    pods=(str(folder / "pod.yaml"),),
                    state=str(folder / "state"),
                    machines=machines,
                    version=(1, version),
                )
            )
        except InputError as problem:
            assert str(problem)  # noqa: PT017 - a sentence is an answer too
            return
    for one in report.findings:
        assert one.code in codes()
        assert one.message
        assert one.why
        assert one.fix
        assert one.line is None or one.line > 0


def test_forms_of_nothing() -> None:
    assert github([]) == ""
    assert sarif([], "0")["runs"][0]["results"] == []
