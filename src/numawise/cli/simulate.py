"""``numawise simulate``: what a kubelet would do with these pods on this machine."""

import sys
from collections.abc import Sequence

import click

from numawise.apps.node import Files, boot
from numawise.apps.simulate import Simulated, simulate
from numawise.apps.sources import load_kubelet_config, load_machine, load_pods, load_state
from numawise.codec.kubeletfields import configuration_of
from numawise.codec.output import to_json, to_yaml
from numawise.codec.simulation import API_VERSION, findings, hint_lines, pod_data
from numawise.errors import InputError
from numawise.render.terminal import DIM, GREEN, RED, YELLOW, table
from numawise.request.defaults import defaulted
from numawise.rules.check import Refusal
from numawise.rules.options import MOST_NUMA, TOPOLOGY_MATURITY, maturity
from numawise.rules.versions import REFERENCE, Version, known_version

COLUMNS = ("POD", "CONTAINER", "VERDICT", "CPUS", "MEMORY", "DEVICES", "AFFINITY", "PREFERRED")
STYLES = {"admitted": GREEN, "rejected": RED, "crashed": RED}


@click.command(
    epilog="""\b
Examples:
  numawise simulate --machine examples/8gpu-server/machine.yaml \\
      --kubelet-config examples/8gpu-server/kubelet.yaml examples/8gpu-server/pods/*.yaml
  kubectl get pod train-0 -o yaml | numawise simulate --machine m.yaml --kubelet-config k.yaml -
  numawise simulate --machine m.yaml --kubelet-config k.yaml --state /var/lib/kubelet -o json pod.yaml

\b
Exit status: 0 all admitted, 1 some not, 2 bad input (also: the kubelet would not start)."""
)
@click.option(
    "--machine", required=True, metavar="FILE", help="The machine: CPUs, NUMA nodes, devices (YAML or JSON)."
)
@click.option(
    "--kubelet-config", required=True, metavar="FILE", help="A KubeletConfiguration (YAML or JSON)."
)
@click.option(
    "--state", metavar="DIR", help="State files of a kubelet to begin with; their pods are taken as running."
)
@click.option(
    "--kube",
    metavar="VERSION",
    default=".".join(map(str, REFERENCE)),
    show_default=True,
    help="The Kubernetes release of the kubelet, such as 1.31.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Form of the answer.",
)
@click.argument("pods", nargs=-1, required=True, metavar="PODS...")
@click.pass_context
def command(
    context: click.Context,
    machine: str,
    kubelet_config: str,
    state: str | None,
    kube: str,
    output: str,
    pods: Sequence[str],
) -> int:
    """Admit the pods in order, exactly as the kubelet's managers would, and show who gets what.

    PODS are files with Pods, Deployments, StatefulSets, DaemonSets, Jobs or Lists of them, several documents
    in a file if need be; - reads standard input.
    """
    if sum(path == "-" for path in (machine, kubelet_config, *pods)) > 1:
        raise InputError("standard input (-) can be read only once", advice="save one of them to a file")
    version = _version(kube)
    hardware = load_machine(machine)
    config = load_kubelet_config(kubelet_config)
    for name in sorted(config.given - configuration_of(version).fields.keys()):
        advice = f"remove it; the kubelet of {kube} would ignore it with a warning"
        raise InputError(f'unknown field "{name}"', file=kubelet_config, advice=advice)
    files = load_state(state) if state else Files()
    node = boot(hardware, config, files, version=version)
    if isinstance(node, Refusal):
        place = state if state and node.stage.endswith("-start") else kubelet_config
        message = f"the kubelet would not start ({node.stage}): {node.message}"
        raise InputError(message, file=place, advice=_advice(node, len(hardware.numa), version))
    if node.files.forgotten:
        click.echo(f"numawise: warning: {state}: {node.files.forgotten}", err=True)
    node.plugins_registered(hardware.plugins)
    requests = [defaulted(pod, pod_level=node.rules.pod_level_resources) for pod in load_pods(pods)]
    outcomes = simulate(node, requests)
    rows = [pod_data(one.pod, one.decision, one.steps, one.started, one.granted) for one in outcomes]
    admitted = sum(row["verdict"] == "admitted" for row in rows)
    if output == "text":
        _show(rows, outcomes, context)
    else:
        found = {
            "apiVersion": API_VERSION,
            "kind": "Simulation",
            "admitted": admitted,
            "rejected": len(requests) - admitted,
            "pods": rows,
        }
        click.echo(to_json(found) if output == "json" else to_yaml(found), nl=False)
    return 0 if admitted == len(requests) else 1


def _version(text: str) -> Version:
    try:
        return known_version(text)
    except ValueError as error:
        raise InputError(str(error), field="--kube") from None


def _advice(refusal: Refusal, numas: int, version: Version) -> str:
    """What helps against a refusal, where that is not plain from it."""
    if not refusal.message.startswith("unsupported on machines with more than"):
        return ""
    if maturity(TOPOLOGY_MATURITY[MOST_NUMA], version) is None:
        return "this release has no option for more; set topologyManagerPolicy: none"
    return (
        f'set max-allowable-numa-nodes: "{numas}" in topologyManagerPolicyOptions; the kubelet then compares '
        f"up to {float(2**numas - 1) ** 3:.1e} combinations of hints for a container with CPUs, memory and "
        "one device"
    )


def _show(rows: Sequence[dict], outcomes: Sequence[Simulated], context: click.Context) -> None:  # type: ignore[type-arg]
    cells = []
    for row in rows:
        for container in row["containers"]:
            cells.append(_cells(row["name"], container))
    table(COLUMNS, cells, sys.stdout, color=context.color)
    notes = []
    for row, one in zip(rows, outcomes, strict=True):
        if row["verdict"] == "rejected":
            notes.append(f"{row['name']}: {row['reason']}: {row['message']}")
            notes += [f"    {line}" for line in hint_lines(one.steps)]
        elif row["verdict"] == "crashed":
            notes.append(f"{row['name']}: the kubelet crashes: {row['message']}")
        for container in row["containers"]:
            if "start_error" in container:
                notes.append(
                    f"{row['name']}: container {container['name']} cannot start: {container['start_error']}"
                )
        notes += [f"{row['name']}: {code}: {text}" for code, text in findings(one.steps)]
    if notes:
        click.echo()
    for note in notes:
        click.echo(note)
    admitted = sum(row["verdict"] == "admitted" for row in rows)
    click.echo(f"\n{admitted} of {len(rows)} pods admitted")


def _cells(pod: str, container: dict) -> list[tuple[str, str] | str]:  # type: ignore[type-arg]
    verdict = container["verdict"]
    cells: list[tuple[str, str] | str] = [pod, container["name"], (verdict, STYLES[verdict])]
    affinity = container["affinity"]
    numa = "any" if affinity is None or affinity["numa"] is None else ",".join(map(str, affinity["numa"]))
    preferred = "-" if affinity is None else "yes" if affinity["preferred"] else ("no", YELLOW)
    if verdict != "admitted":
        return [*cells, "-", "-", "-", numa if affinity else "-", preferred]
    cpus = container["cpus"] or "any"
    devices = " ".join(f"{name}={','.join(ids)}" for name, ids in sorted(container["devices"].items()))
    return [
        *cells,
        cpus if container["exclusive"] else (f"shared ({cpus})", DIM),
        container["memory"]["numa"] or "any",
        devices or "-",
        numa,
        preferred,
    ]
