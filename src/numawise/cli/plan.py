"""``numawise plan``: kubelet configurations, policy switches and pods that will be aligned."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from numawise.cli.options import node_options, node_spec, output_option, pods_argument, say_remarks

if TYPE_CHECKING:
    from numawise.inputs.spec import NodeInput, NodeSpec
    from numawise.results.plan import KubeletPlace, SwitchPlan

GOALS = ("training", "inference", "latency")
PLATFORMS = (
    "openshift", "openshift-performance", "eks", "eks-bootstrap", "eksctl", "karpenter", "bottlerocket",
    "gke", "aks", "talos", "k3s", "rke2", "cluster-api", "kubeadm",
)  # fmt: skip


@click.group()
def command() -> None:
    """Make a kubelet configuration, the steps of a switch, a pod that will be aligned."""


@command.command(
    "kubelet",
    epilog="""\b
Examples:
  numawise plan kubelet --machine this --goal training > kubelet.yaml
  numawise plan kubelet --machine this --kubelet-config /var/lib/kubelet/config.yaml --out new.yaml
  numawise plan kubelet --machine machine.yaml --goal latency --kube 1.31
  numawise plan kubelet --machine dgx-h100 --goal inference --reserve-cpus 8 --reserve-memory 32Gi
  numawise plan kubelet --machine '2s 4n 64c 2t 8gpu' --goal training --hugepages 1Gi=16 -o json

\b
Exit status: 0; 2 bad input.""",
)
@node_options("config_dir", "kubelet_flags", "state", "match_devices", "node_object", "node_name")
@click.option(
    "--goal", type=click.Choice(GOALS), default="training", show_default=True, help="What the node is for."
)
@click.option(
    "--reserve-cpus",
    type=int,
    metavar="N",
    help="Keep at least this many CPUs for the system, as whole cores.",
)
@click.option(
    "--reserve-memory",
    metavar="SIZE",
    help="Keep this much memory for the system, the eviction threshold included.",
)
@click.option(
    "--hugepages",
    multiple=True,
    metavar="SIZE=COUNT",
    help="Plan with this many huge pages on every NUMA node, such as 1Gi=16.",
)
@click.option("--alpha", is_flag=True, help="Use options that are alpha in the release, with their gates.")
@output_option(
    "yaml", "json", words="The configuration with its reasons as comments, or all of the plan as JSON."
)
@click.option("--out", metavar="FILE", help="Write to this file, atomically, instead of printing.")
def kubelet(
    goal: str,
    reserve_cpus: int | None,
    reserve_memory: str | None,
    hugepages: Sequence[str],
    alpha: bool,
    output: str,
    out: str | None,
    **named: Any,  # noqa: ANN401 - the options of a node
) -> int:
    """Print a KubeletConfiguration for a machine, each line with its reason.

    The reservations add up as the kubelet demands it, the options are those that the release has, and the
    simulated kubelet has started with it.  With --kubelet-config, the node's own configuration, every other
    field of it is kept.
    """
    from numawise.apps.plan.kubelet import plan_kubelet  # noqa: PLC0415
    from numawise.apps.plan.reserve import pages_given  # noqa: PLC0415
    from numawise.codec.output import to_json  # noqa: PLC0415
    from numawise.quantity import parse_size  # noqa: PLC0415
    from numawise.render.plan import kubelet_plan_data, kubelet_plan_yaml  # noqa: PLC0415
    from numawise.results.plan import PlanGoal  # noqa: PLC0415

    node = _node(node_spec(named))
    plan_goal = PlanGoal(
        goal=goal,
        version=node.version,
        cpus=reserve_cpus,
        memory=None if reserve_memory is None else parse_size(reserve_memory, "--reserve-memory"),
        alpha=alpha,
        hugepages=pages_given(hugepages),
    )
    given = node.config_input if node.spec.has_config else None
    own = given.raw(node.version) if given is not None else None
    plan = plan_kubelet(node.machine, plan_goal, node.hardware, own)
    if output == "yaml":
        _print(kubelet_plan_yaml(plan, node.hardware), out)
    else:
        _print(to_json(kubelet_plan_data(plan, node.hardware)), out)
    return 0


def _node(spec: "NodeSpec", *, started: bool = False) -> "NodeInput":
    from numawise.inputs.spec import read_node  # noqa: PLC0415 - keeps --help quick

    node = read_node(spec)
    say_remarks(node.remarks_of_start if started else node.remarks)
    return node


def _print(text: str, out: str | None) -> None:
    if out is None:
        click.echo(text, nl=False)
        return
    from numawise.codec.outfile import write_whole  # noqa: PLC0415

    write_whole(out, text)


@command.command(
    "switch",
    epilog="""\b
Examples:
  numawise plan switch old.yaml new.yaml --state /var/lib/kubelet --machine this --node gpu7
  numawise plan switch old.yaml new.yaml --state node7/ --machine node7.yaml --script switch.sh pods.yaml
  kubectl get pods -A -o yaml --field-selector spec.nodeName=gpu7 |
      numawise plan switch old.yaml new.yaml --state node7/ --machine node7.yaml -
  numawise plan switch node7.tar.gz new.yaml
  numawise plan switch ec2nodeclass.yaml new.yaml --config-out new-ec2nodeclass.yaml
  numawise plan switch configz.json new.yaml --platform openshift --pool gpu

\b
Exit status: 0; 1 a pod would be refused afterwards, the kubelet does not start, or the platform cannot set a
field; 2 bad input.""",
)
@node_options("kubelet_config", "config_dir", "kubelet_flags", "node_name")
@click.option(
    "--node-name",
    "--node",
    default="",
    metavar="NAME",
    help="The node's name in the cluster, for the commands.",
)
@click.option(
    "--kubelet-dir",
    default="/var/lib/kubelet",
    show_default=True,
    metavar="DIR",
    help="Its directory on the node.",
)
@click.option(
    "--config-path",
    default="/var/lib/kubelet/config.yaml",
    show_default=True,
    metavar="FILE",
    help="Path of its configuration on the node.",
)
@click.option("--service", default="kubelet", show_default=True, metavar="NAME", help="Its systemd service.")
@click.option(
    "--platform",
    default="auto",
    show_default=True,
    metavar="NAME",
    help=f"Who writes the node's configuration: {', '.join(PLATFORMS)}; auto: as OLD, the bundle or the Node "
    "object shows; none: nobody, it is edited on the node.",
)
@click.option(
    "--pool", default="", metavar="NAME", help="The node's pool, for the platform's object and commands."
)
@click.option(
    "--script", metavar="FILE", help="Write the steps as a shell script; - prints it, and nothing else."
)
@click.option(
    "--config-out",
    metavar="FILE",
    help="Write the configuration that the node gets, NEW laid over OLD; on a platform its own object.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Take NEW as the whole configuration, and drop what OLD has besides.",
)
@output_option("text", "json", "yaml")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@pods_argument
@click.pass_context
def switch(
    context: click.Context,
    /,
    kubelet_dir: str,
    config_path: str,
    service: str,
    platform: str,
    pool: str,
    script: str | None,
    config_out: str | None,
    replace: bool,
    output: str,
    old: str,
    new: str,
    pods: Sequence[str],
    **named: Any,  # noqa: ANN401 - the options of a node
) -> int:
    """Steps from one kubelet configuration to another, without a kubelet that refuses to start.

    Which state files must be removed is asked of the simulated kubelet; so is which of the PODS would be
    refused afterwards.  OLD and NEW are configurations in any form; OLD may be a bundle of the node.

    NEW is laid over OLD: what it does not name stays as it is, but for options of a policy that it names.

    Where a platform writes the kubelet's configuration, an edited file would be written again: the steps are
    the platform's own, with its own object, and fields that it cannot set are named.

    PODS are files or folders with Pods, Deployments, Jobs, Lists or any object with pod templates, such as
    those of Ray, Kubeflow and Volcano, or names of pods of the bundle; - reads standard input.
    """
    from numawise.apps.plan.switch import load_switch, switch_script  # noqa: PLC0415 - keeps --help quick
    from numawise.codec.bundle.archive import is_bundle  # noqa: PLC0415
    from numawise.codec.outfile import EXECUTABLE, write_whole  # noqa: PLC0415
    from numawise.codec.output import to_json, to_yaml  # noqa: PLC0415
    from numawise.render.plan import switch_plan_data  # noqa: PLC0415
    from numawise.results.plan import KubeletPlace  # noqa: PLC0415

    if is_bundle(old) and not named["bundle"]:
        named["bundle"] = old
    given = _node(node_spec(named, *pods))
    place = KubeletPlace(given.name, kubelet_dir.rstrip("/") or "/", config_path, service)
    loaded = load_switch(old, new, given, pods, whole=replace, platform=platform, pool=pool, place=place)
    say_remarks(loaded.remarks)
    plan = loaded.switch
    if script is not None:
        loaded.check_editable()
    if (script is not None or config_out is not None) and not plan.refusal:
        loaded.check_whole()
    if config_out is not None and not plan.refusal:
        write_whole(config_out, loaded.new_text)
    new = config_out or ("new.yaml" if plan.kept else new)
    bad = bool(plan.refusal) or any(one.refused for one in plan.pods)
    bad = bad or (plan.platform is not None and bool(plan.platform.refused))
    if script is not None and not plan.refusal:
        text = switch_script(plan, place, loaded.new_text, loaded.old_sum)
        if script == "-":
            click.echo(text, nl=False)
            return 1 if bad else 0
        write_whole(script, text, EXECUTABLE)
    if output != "text":
        data = switch_plan_data(plan, place, new)
        click.echo(to_json(data) if output == "json" else to_yaml(data), nl=False)
        return 1 if bad else 0
    _show_switch(plan, place, new, context.color)
    if script is not None and not plan.refusal:
        click.echo(f"\nThe script is {script}; try it with: sh {script} --dry-run")
    return 1 if bad else 0


def _show_switch(plan: "SwitchPlan", place: "KubeletPlace", new: str, color: bool | None) -> None:
    from numawise.render.plan import COMMAND, POD_COLUMNS, pod_rows, switch_lines  # noqa: PLC0415
    from numawise.render.table import sentences, table  # noqa: PLC0415

    if plan.refusal:
        what = "The kubelet does not start with the new configuration, whatever its files say"
        sentences(f"{what}: {plan.refusal}\nsee numawise check and numawise why for more", sys.stdout)
        return
    for line in switch_lines(plan, place, new):
        if line.startswith(COMMAND):  # to be pasted whole
            click.echo(line)
        else:
            sentences(line, sys.stdout)
    if plan.pods:
        click.echo()
        table(POD_COLUMNS, pod_rows(plan), sys.stdout, color=color)
        refused = sum(one.refused for one in plan.pods)
        click.echo(f"\n{refused} of {len(plan.pods)} pods would be refused")
    for remark in plan.remarks:
        sentences(f"\n{remark}", sys.stdout)


@command.command(
    "pod",
    epilog="""\b
Examples:
  numawise plan pod --machine dgx-h100 --gpus 1 --image train:1 --command 'python train.py' > pod.yaml
  numawise plan pod --machine machine.yaml --kubelet-config kubelet.yaml --gpus 4 --cpus 32 \\
      --memory 128Gi --shm 64Gi --image train:1 --command 'torchrun --nproc_per_node=4 train.py'
  numawise plan pod --machine this --goal inference --gpus 1 --cpus 8 --memory 32Gi \\
      --image serve:1 --port 8080 --health /health
  numawise plan pod --machine machine.yaml deployment.yaml | kubectl apply -f -

\b
Exit status: 0 admitted and aligned, as far as the node aligns (or not tried), 1 not, 2 bad input.""",
)
@click.option("--name", metavar="NAME", help="Name of a new pod.  [default: the goal]")
@click.option("--image", metavar="IMAGE", help="Image of a new pod.")
@click.option("--command", "words", metavar="TEXT", help="Command of a new pod, quoted as one argument.")
@click.option("--namespace", default="", metavar="NAME", help="Namespace of a new pod.")
@click.option("--replicas", type=click.IntRange(0), default=1, metavar="N", help="Replicas of a new service.")
@click.option("--cpus", type=click.IntRange(1), metavar="N", help="CPUs of its own.  [default: its share]")
@click.option("--memory", metavar="SIZE", help="Memory, shared memory included.  [default: its share]")
@click.option("--gpus", type=click.IntRange(0), metavar="N", help="GPUs.")
@click.option("--resource", metavar="NAME", help="Resource name of the GPUs.  [default: the machine's]")
@click.option("--shm", metavar="SIZE", help="Size of /dev/shm; it counts against the memory.  0: none.")
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="PORT", help="Port of a service, for its probes."
)
@click.option("--health", default="", metavar="PATH", help="Path of the service's health check.")
@click.option("--goal", type=click.Choice(GOALS), help="What the pod is for.  [default: by its kind]")
@node_options("node_object", "node_name")
@output_option("yaml", "json", words="Manifests with comments, or all of the plan as JSON.")
@click.option("--out", metavar="FILE", help="Write to this file, atomically, instead of printing.")
@click.argument("files", nargs=-1, metavar="[FILES]...")
def pod(
    name: str | None,
    image: str | None,
    words: str | None,
    namespace: str,
    replicas: int,
    cpus: int | None,
    memory: str | None,
    gpus: int | None,
    resource: str | None,
    shm: str | None,
    port: int | None,
    health: str,
    goal: str | None,
    output: str,
    out: str | None,
    files: Sequence[str],
    **named: Any,  # noqa: ANN401 - the options of a node
) -> int:
    """Turn flags, or manifests, into pods that get CPUs, memory and GPUs of the same NUMA nodes.

    FILES are files or folders with Pods, Deployments, Jobs, Lists or any object with pod templates, or what
    kubectl describe pod prints; without any, a new pod is made of the flags.
    What was changed, why, and what came of a trial on the machine stands in comments.
    """
    from numawise.apps.plan.pod import PodFlags, load_pod_plan  # noqa: PLC0415 - keeps --help quick
    from numawise.codec.output import to_json  # noqa: PLC0415
    from numawise.render.plan import pod_plan_data, pod_plan_text  # noqa: PLC0415

    flags = PodFlags(
        name=name,
        image=image,
        command=words,
        namespace=namespace,
        replicas=replicas,
        cpus=cpus,
        memory=memory,
        gpus=gpus,
        resource=resource,
        shm=shm,
        port=port,
        health=health,
        goal=goal,
    )
    node = _node(node_spec(named, *files), started=True)
    plan = load_pod_plan(flags, files, node)
    _print(pod_plan_text(plan) if output == "yaml" else to_json(pod_plan_data(plan)), out)
    return 0 if plan.good else 1
