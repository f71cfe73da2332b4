"""Write a few files, check them, and look at what was found."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numawise.apps.check.lint import lint
from numawise.inputs.spec import NodeSpec
from numawise.results.finding import CheckReport, Finding
from numawise.rules.versions import DEFAULT, Version, parse_version
from tests.check.examples import inside, write

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
STATIC = f'{HEAD}cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n'


def pod(resources: str = "", container: str = "", spec: str = "", name: str = "train") -> str:
    """A pod of one container; ``container`` and ``spec`` are more lines of these."""
    lines = ["apiVersion: v1", "kind: Pod", f"metadata: {{name: {name}}}", "spec:"]
    lines += [f"  {line}" for line in spec.splitlines()]
    lines += ["  containers:", "  - name: main", "    image: train"]
    lines += [f"    {line}" for line in container.splitlines()]
    lines += [f"    resources: {resources}"] if resources else []
    return "\n".join(lines) + "\n"


def named(
    configs: Sequence[str] = (),
    machines: Sequence[str] = (),
    state: str = "",
    pods: Sequence[str] = (),
    version: Version = DEFAULT,
    flags: str = "",
    config_dir: str = "",
    bundle: str = "",
) -> dict[str, Any]:
    """What ``lint`` and ``sources`` take."""
    spec = NodeSpec(
        machine=tuple(machines),
        kubelet_config=tuple(configs),
        config_dir=config_dir,
        kubelet_flags=flags,
        state=(state,) if state else (),
        bundle=bundle,
    )
    return {"spec": spec, "pods": tuple(pods), "version": version}


def check(folder: Path, files: Mapping[str, str], kube: str = "1.36", **given: Any) -> CheckReport:
    """Check the files; pods, configurations, machine and state are told by their names."""
    write(files, folder)
    with inside(folder):
        return lint(
            **named(
                configs=tuple(name for name in files if name.startswith("kubelet")),
                machines=tuple(name for name in files if name.startswith("machine")),
                state="state" if any(name.startswith("state/") for name in files) else "",
                pods=tuple(name for name in files if name.startswith("pod")),
                version=parse_version(kube),
                **given,
            )
        )


def one(report: CheckReport, code: str) -> Finding:
    """The only finding of a code."""
    (found,) = (finding for finding in report.findings if finding.code == code)
    return found


def codes(report: CheckReport) -> set[str]:
    """All codes that were found."""
    return {finding.code for finding in report.findings}
