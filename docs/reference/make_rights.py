"""Write docs/reference/rights.md from the values of roles: ``python docs/reference/make_rights.py``."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from numawise.apps.heal.pod_policy import pod_policy
from numawise.apps.heal.rights import APPLYING, DEFRAGMENTING, READING
from numawise.apps.lab.rights import LAB_RIGHTS
from numawise.apps.scheduler.manifest import STOCK_RIGHTS, STOCK_ROLES
from numawise.apps.scheduler.rights import SCHEDULER_RIGHTS
from numawise.service.manifest import ProgramObjects
from numawise.service.rights import ApiRight
from numawise.web.manifest import PAGE_RIGHTS

PAGE = Path(__file__).parent / "rights.md"
INTRO = """# What programs may do in a cluster

Made from the values that roles are made of, by `python docs/reference/make_rights.py`. The agent's rights,
feature by feature, with its mounts and the policy that ties it to its node: [agent](agent-rights.md). How to
install: [install in a cluster](../how-to/install-in-a-cluster.md).

Every program has an account of its own and exactly the rights listed here. Tests run each of them against a
server that refuses everything else. None may read Secrets, change roles, act for somebody else, or run
anything in a container. Certificates reach programs as mounted files.

Containers of `scheduler`, `heal` and `serve` run as a user without a name (65532), with a read-only root, no
capabilities, no way to more and the runtime's seccomp profile; they mount nothing of their host. They fit Pod
Security's level `restricted`.
"""
CHOSEN = "cluster, or the namespaces of `--in`"
POLICY = """A role cannot say which pods. The ValidatingAdmissionPolicy `numawise-heal` does, for requests of
this account, from Kubernetes 1.30 on: the API server answers what it refuses with status 403 and one of these
sentences. Where a webhook changes pods on their way to the server, it refuses the healer's request too, and
the healer logs that it left the pod alone."""
HEAD = "| Where | Group | Resource | Verbs | For |\n|---|---|---|---|---|\n"


def rows(rights: Sequence[ApiRight]) -> str:
    """A table."""
    lines = []
    for right in rights:
        where = "own namespace" if right.own_namespace else CHOSEN if right.chosen else "cluster"
        resource = f"`{right.resource}`" + "".join(f" `{name}`" for name in right.names)
        group = f"`{right.group}`" if right.group else "core"
        lines.append(f"| {where} | {group} | {resource} | {', '.join(right.verbs)} | {right.why} |\n")
    return HEAD + "".join(lines)


def policy_lines() -> str:
    """A list of what the policy of the healer's account says to a request that it refuses."""
    policy, _ = pod_policy(ProgramObjects("numawise-heal", "numawise"))
    return "".join(f"- {validation['message']}\n" for validation in policy["spec"]["validations"])


def sections() -> Iterator[str]:
    """All programs."""
    yield f"## `numawise scheduler`\n\nIt reads, and changes nothing.\n\n{rows(SCHEDULER_RIGHTS)}"
    roles = " and ".join(f"`{role}`" for role in STOCK_ROLES)
    yield (
        "## The second kube-scheduler\n\n"
        f"The stock scheduler with an account of its own. It has the roles {roles}, which the API server "
        f"keeps for schedulers, and of its own namespace:\n\n{rows(STOCK_RIGHTS)}"
    )
    yield f"## `numawise heal`\n\nA dry run:\n\n{rows(READING)}"
    yield f"With `--apply` also:\n\n{rows(APPLYING)}"
    yield f"{POLICY}\n\n{policy_lines()}"
    yield f"With `--defrag --apply` also; no manifest has it:\n\n{rows(DEFRAGMENTING)}"
    yield f"## `numawise serve --cluster`\n\nIt reads, and changes nothing.\n\n{rows(PAGE_RIGHTS)}"
    yield (
        "## `numawise lab`\n\n"
        "The rights of many kubelets together: for clusters that may be played with. No manifest has it.\n\n"
        f"{rows(LAB_RIGHTS)}"
    )


def page() -> str:
    """The whole page."""
    return "\n".join([INTRO, *sections()])


if __name__ == "__main__":
    PAGE.write_text(page())
