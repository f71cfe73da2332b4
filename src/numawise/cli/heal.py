"""``numawise heal``: pods that kubelets refuse, explained, held and removed by rule."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from numawise.cli.agent_node import instance_name
from numawise.cli.placing import duration
from numawise.cli.serving import cluster_options, listen_address, listen_option, log_option, service_log
from numawise.errors import InputError, quoted

if TYPE_CHECKING:
    from numawise.apps.heal.run import HealPlan
    from numawise.apps.heal.terms import HealRules
    from numawise.service.log import ServiceLog

LISTEN = "127.0.0.1:9800"
NAMESPACE = "numawise"
TIME = "write it like 30s, 10m or 1h"


@click.command(
    epilog="""\b
Examples:
  numawise heal --once
  numawise heal --policy | kubectl apply -f -
  numawise heal --apply
  numawise heal --defrag trainer-0
  numawise heal --apply --keep 3 --older-than 1h --owners ReplicaSet,Job --audit heal.jsonl

\b
Exit status: 0 ended by SIGTERM or SIGINT, with --once nothing is refused, with --defrag there is a plan;
1 with --once some pod is refused, with --defrag no restart helps; 2 bad options, 5 cluster."""
)
@click.option("--apply", is_flag=True, help="Do it; without this only what would be done is said.")
@click.option("--once", is_flag=True, help="Look once, print or do what there is to do, and end.")
@click.option(
    "--keep",
    type=click.IntRange(0, 10_000),
    default=1,
    show_default=True,
    metavar="N",
    help="Refused pods of each owner and revision that are left, the newest.",
)
@click.option(
    "--older-than",
    default="5m",
    show_default=True,
    metavar="TIME",
    help="Remove refused pods only when they are older than this.",
)
@click.option(
    "--owners",
    default="ReplicaSet",
    show_default=True,
    metavar="KIND,...",
    help="Kinds of owners whose refused pods are removed: ReplicaSet, ReplicationController, StatefulSet, "
    "DaemonSet, Job; Pod for pods without an owner; none for nobody's.",
)
@click.option(
    "--in",
    "namespaces",
    multiple=True,
    metavar="NAMESPACE",
    help="Look after pods of this namespace alone; may be given several times.  [default: all]",
)
@click.option(
    "-l",
    "--selector",
    multiple=True,
    metavar="LABEL=VALUE",
    help="Look after pods with this label alone; may be given several times.",
)
@click.option(
    "--per-minute",
    type=click.IntRange(0, 10_000),
    default=60,
    show_default=True,
    metavar="N",
    help="Remove no more pods than this in a minute.",
)
@click.option(
    "--first-hold",
    default="30s",
    show_default=True,
    metavar="TIME",
    help="How long an owner is held at first; each time twice as long.",
)
@click.option(
    "--longest-hold",
    default="1h",
    show_default=True,
    metavar="TIME",
    help="After this long a pod is tried in any case.",
)
@click.option(
    "--namespace",
    default=NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="Where the Lease and the list of holds are kept.",
)
@click.option("--audit", default="", metavar="FILE", help="Append the audit log to FILE.  [default: the log]")
@click.option(
    "--defrag",
    default="",
    metavar="[NAMESPACE/]POD",
    help="Show the fewest pods whose restart elsewhere lets this waiting pod in, and end; with --apply, "
    "evict them.",
)
@click.option("--policy", is_flag=True, help="Print the admission policy that holds pods, and end.")
@cluster_options
@listen_option(LISTEN)
@log_option
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    defrag: str,
    once: bool,
    namespace: str,
    audit: str,
    policy: bool,
    kubeconfig: str,
    cluster: str,
    listen: str,
    log_form: str,
    **given: Any,  # noqa: ANN401 - the options of the rules
) -> int:
    """End runaway pods: say why kubelets refuse them, hold their owners until a node lets them in, clean up.

    It runs until SIGTERM or SIGINT, and changes nothing without --apply.
    """
    from numawise.apps.heal.run import HealPlan, run, run_once  # noqa: PLC0415 - keeps --help quick
    from numawise.extras import needed  # noqa: PLC0415
    from numawise.kube.client import NAME, access_to  # noqa: PLC0415

    if not NAME.fullmatch(namespace):
        raise InputError(f"{quoted(namespace)} is not the name of a namespace", field="--namespace")
    if policy:
        _show_policy(namespace)
        return 0
    needed("cluster", "lightkube")
    rules = _rules(given)
    at = listen_address(listen, LISTEN)
    access = access_to(kubeconfig, cluster)
    if defrag:
        if once:
            raise InputError("--once and --defrag do not go together", field="--defrag")
        audited = HealPlan(access, rules, namespace, instance_name(), audit)
        return _defrag(audited, defrag, service_log(log_form), color=context.color)
    plan = HealPlan(access, rules, namespace, instance_name(), audit, at)
    if once:
        return run_once(plan, service_log("text" if log_form == "auto" else log_form, sys.stdout))
    return run(plan, service_log(log_form))


def _rules(given: dict[str, Any]) -> "HealRules":
    from numawise.apps.heal.cleaning import CleaningRules, PodSelection  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.heal.holds import HoldSettings  # noqa: PLC0415
    from numawise.apps.heal.terms import HealRules  # noqa: PLC0415

    first = duration(given["first_hold"], "--first-hold", TIME)
    longest = duration(given["longest_hold"], "--longest-hold", TIME)
    if first <= 0 or longest < first:
        raise InputError(
            f"{quoted(given['longest_hold'])} is shorter than --first-hold {quoted(given['first_hold'])}",
            field="--longest-hold",
            advice="both are more than nothing, and the longest no shorter",
        )
    cleaning = CleaningRules(
        given["keep"],
        duration(given["older_than"], "--older-than", TIME),
        _kinds(given["owners"]),
        PodSelection(_names(given["namespaces"]), _labels(given["selector"])),
        given["per_minute"],
    )
    return HealRules(given["apply"], cleaning, HoldSettings(first, longest))


def _kinds(text: str) -> tuple[str, ...]:
    from numawise.apps.heal.cleaning import OWNER_KINDS  # noqa: PLC0415 - keeps --help quick

    if text == "none":
        return ()
    kinds = tuple(part.strip() for part in text.split(","))
    for kind in kinds:
        if kind not in OWNER_KINDS:
            raise InputError(
                f"{quoted(kind)} is no kind of owner whose pods are removed",
                field="--owners",
                advice=f"one of {', '.join(OWNER_KINDS)}, or none",
            )
    return kinds


def _names(names: Sequence[str]) -> tuple[str, ...]:
    from numawise.kube.client import NAME  # noqa: PLC0415 - keeps --help quick

    for name in names:
        if not NAME.fullmatch(name):
            raise InputError(f"{quoted(name)} is not the name of a namespace", field="--in")
    return tuple(names)


def _labels(wishes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for wish in wishes:
        key, equals, value = wish.partition("=")
        if not key or not equals:
            raise InputError(
                f"{quoted(wish)} is not a label and its value",
                field="--selector",
                advice="write it like app=web",
            )
        pairs.append((key, value))
    return tuple(pairs)


def _show_policy(namespace: str) -> None:
    from numawise.apps.heal.hold_list import hold_objects  # noqa: PLC0415 - keeps --help quick
    from numawise.codec.output import to_yaml  # noqa: PLC0415

    click.echo("---\n".join(to_yaml(one) for one in hold_objects(namespace)), nl=False)


def _defrag(plan: "HealPlan", pod: str, log: "ServiceLog", *, color: bool | None) -> int:
    from numawise.apps.heal.audit import AuditLog  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.heal.changing import HealWriter  # noqa: PLC0415
    from numawise.apps.heal.restarting import evict_all, restart_search  # noqa: PLC0415
    from numawise.kube.client import NAME, Cluster  # noqa: PLC0415
    from numawise.render import restart as words  # noqa: PLC0415
    from numawise.render.table import sentences, table  # noqa: PLC0415

    namespace, slash, name = pod.rpartition("/")
    if not NAME.fullmatch(name) or (slash and not NAME.fullmatch(namespace)):
        raise InputError(f"{quoted(pod)} is not the name of a pod", field="--defrag")
    with Cluster(plan.access) as cluster:
        search = restart_search(cluster, namespace or cluster.namespace, name)
        sentences(f"{words.restart_sentence(search)}.", sys.stdout)
        if search.plan is None:
            return 1
        if search.plan.steps:
            table(words.COLUMNS, words.restart_rows(search.plan), sys.stdout, color=color)
            sentences("\n".join(f"{note}." for note in words.restart_notes(search)), sys.stdout)
        if plan.rules.apply:
            audit = AuditLog(plan.audit, log, plan.instance)
            try:
                evict_all(search, HealWriter(cluster, plan.namespace, audit))
            finally:
                audit.close()
    return 0
