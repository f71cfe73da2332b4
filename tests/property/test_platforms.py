"""What is written for a platform is read back by the one loader as the configuration that was planned."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numawise.apps.plan.kubelet import laid_over, plan_kubelet
from numawise.apps.plan.platforms import LOST, MANAGED, OPTIONS, OldObject, old_object, written_for
from numawise.codec.kubelet.config import decode_kubelet_config
from numawise.codec.kubelet.platforms import platforms
from numawise.codec.kubelet.written import DEFAULTS, WRITERS
from numawise.inputs.config import config_in, read_config
from numawise.inputs.machine import read_machine
from numawise.machine.catalog import CATALOG
from numawise.results.plan import GOALS, PlanGoal
from numawise.rules.versions import DEFAULT
from numawise.values import replace

EXAMPLES = Path(__file__).parents[2] / "examples" / "platforms"
ADDED = {
    "openshift-performance": ("evictionHard", "kubeReserved", "systemReserved", "cpuManagerPolicyOptions"),
    "cluster-api": ("evictionHard",),
    "karpenter": ("evictionHard",),
    "eks": ("evictionHard",),
}
"""Where a platform adds members of its own to a mapping."""
OVERRIDDEN = ("cluster-api.yaml",)
"""Where a flag in a file that is not touched has the last word; the field is named then."""


def decoded(fields: dict[str, Any]) -> Any:
    return decode_kubelet_config(fields, DEFAULT)


@cache
def old_forms(platform: str) -> tuple[tuple[str, OldObject, dict[str, Any]], ...]:
    """No old object, and the examples of the platform's own form, each with what it amounts to."""
    forms: list[tuple[str, OldObject, dict[str, Any]]] = [("", OldObject(), {})]
    for path in sorted(EXAMPLES.iterdir()):
        old = old_object(str(path), platform)
        if old != OldObject():
            forms.append((path.name, old, dict(read_config(str(path)).raw(DEFAULT))))
    return tuple(forms)


def check_round_trip(platform: str, fields: dict[str, Any]) -> None:
    for name, old, before in old_forms(platform):
        after = laid_over(before, fields)
        written = written_for(platform, before, after, fields, old, DEFAULT, cpus=(1 << 256) - 1)
        if all(field in written.refused or says_nothing(field, one) for field, one in fields.items()):
            continue
        read = config_in(written.text, written.file)
        read.config(DEFAULT)  # nothing in it is refused
        found = read.raw(DEFAULT)
        if name not in OVERRIDDEN:
            assert LOST not in written.refused.values(), (written.text, written.refused)
        assert set(written.refused) <= set(fields)
        for field in set(fields) - set(written.refused):
            now, planned = found.get(field, DEFAULTS.get(field)), after[field]
            if field in ADDED.get(platform, ()) and isinstance(now, dict):
                now = {key: one for key, one in now.items() if key in planned}
            assert without_false(decoded({field: planned})) == without_false(decoded({field: now})), (
                written.text
            )


def says_nothing(field: str, value: Any) -> bool:
    """Whether a field may be left out with the same effect."""
    off = field in OPTIONS and isinstance(value, dict) and all(one == "false" for one in value.values())
    return off or DEFAULTS.get(field) == value


def without_false(config: Any) -> Any:
    """An option that is off is as good as none."""
    kept = {name: on for name, on in config.cpu_manager_policy_options.items() if on != "false"}
    return replace(config, cpu_manager_policy_options=kept, given=frozenset())


@pytest.mark.parametrize("platform", WRITERS)
@pytest.mark.parametrize("goal", GOALS)
def test_plans_for_machines(platform: str, goal: str) -> None:
    for name in list(CATALOG)[::4]:
        plan = plan_kubelet(read_machine((name,)).machine, PlanGoal(goal=goal, version=DEFAULT))
        check_round_trip(platform, {field: plan.config[field] for field in MANAGED if field in plan.config})


amounts = st.sampled_from(["100Mi", "1Gi", "1536Mi", "2G"])
options = st.dictionaries(
    st.sampled_from(["full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket"]),
    st.sampled_from(["true", "false"]),
)
managed = st.fixed_dictionaries(
    {},
    optional={
        "cpuManagerPolicy": st.sampled_from(["none", "static"]),
        "cpuManagerPolicyOptions": options,
        "cpuManagerReconcilePeriod": st.sampled_from(["5s", "10s"]),
        "topologyManagerPolicy": st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"]),
        "topologyManagerScope": st.sampled_from(["container", "pod"]),
        "topologyManagerPolicyOptions": st.fixed_dictionaries(
            {},
            optional={
                "prefer-closest-numa-nodes": st.just("true"),
                "max-allowable-numa-nodes": st.just("12"),
            },
        ),
        "memoryManagerPolicy": st.sampled_from(["None", "Static"]),
        "reservedMemory": st.lists(amounts, min_size=1, max_size=3).map(
            lambda sizes: [{"numaNode": at, "limits": {"memory": size}} for at, size in enumerate(sizes)]
        ),
        "reservedSystemCPUs": st.sampled_from(["0", "0-1", "0,2-3,64"]),
        "kubeReserved": st.fixed_dictionaries({"memory": amounts}, optional={"cpu": st.just("500m")}),
        "systemReserved": st.fixed_dictionaries({"memory": amounts}, optional={"cpu": st.just("1")}),
        "evictionHard": st.fixed_dictionaries(
            {"memory.available": amounts}, optional={"nodefs.available": st.just("10%")}
        ),
        "featureGates": st.just({"CPUManagerPolicyAlphaOptions": True}),
    },
)


@pytest.mark.parametrize("platform", WRITERS)
@given(fields=managed)
@settings(deadline=None, max_examples=40)
def test_any_fields(platform: str, fields: dict[str, Any]) -> None:
    check_round_trip(platform, fields)


def test_every_platform_can_be_written() -> None:
    assert set(WRITERS) == set(platforms())
