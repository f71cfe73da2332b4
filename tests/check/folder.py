"""Write a few files, check them, and look at what was found."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numawise.apps.check.lint import lint
from numawise.apps.check.sources import Given
from numawise.results.finding import CheckReport, Finding
from numawise.rules.versions import parse_version
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


def check(folder: Path, files: Mapping[str, str], kube: str = "1.36", **given: Any) -> CheckReport:
    """Check the files; pods, configurations, machine and state are told by their names."""
    write(files, folder)
    with inside(folder):
        return lint(
            Given(
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
