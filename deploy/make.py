"""Write the kustomize files and the Helm chart out of what the code makes: ``python deploy/make.py``.

Rules kept here:

1. Nothing is written by hand twice: every object comes from ``numawise.cli.cluster_objects``; here are the
   places where an installation differs from another one, and nothing else.
2. A word that stands for such a place is put into the objects, and becomes an expression of Helm in the text.
3. What is in Helm's own language (``values.yaml``, ``_helpers.tpl``, ``NOTES.txt``) is written by hand.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from numawise.apps.heal.manifest import HealWish, heal_objects
from numawise.apps.scheduler.certificate_objects import manager_objects
from numawise.apps.scheduler.manifest import (
    AUTHORITY,
    CERTIFICATE,
    CLIENT_SECRET,
    KEY,
    SERVER_SECRET,
    WAITS,
    SchedulerWish,
    StockWish,
    scheduler_objects,
    stock_objects,
)
from numawise.cli.cluster_objects import ClusterWish, agent_objects, frame_objects
from numawise.codec.hardware.nrt_definition import topology_definition
from numawise.codec.output import comment_lines, manifest_yaml
from numawise.service.manifest import NAME_LABEL, PART, PART_LABEL, Json, critical_quota
from numawise.values import replace
from numawise.version import __version__
from numawise.web.manifest import PageWish, page_objects

FOLDER = Path(__file__).parent
MADE = "Made by deploy/make.py; change the code that it is made of, or an overlay."
IMAGE, STOCK_IMAGE = "registry.invalid/numawise", "registry.k8s.io/kube-scheduler"
RELEASE = "v1.36.4"
DEFINITION = "noderesourcetopologies.yaml"


def texts(objects: Sequence[Json], head: Sequence[str] = (MADE,)) -> str:
    """Objects as one file."""
    return comment_lines(head) + "---\n".join(map(manifest_yaml, objects))


# --- kustomize ------------------------------------------------------------------------------------


def kustomize_parts() -> dict[str, tuple[Json, ...]]:
    """Folder → its objects."""
    wish = ClusterWish(IMAGE, stock_image=STOCK_IMAGE)
    return {
        "definition": (topology_definition(),),
        "namespace": frame_objects(wish),
        "agent": agent_objects(wish),
        "scheduler": scheduler_objects(SchedulerWish(IMAGE, stock=True)),
        "kube-scheduler": stock_objects(StockWish(STOCK_IMAGE)),
        "heal": heal_objects(HealWish(IMAGE)),
        "heal-applies": heal_objects(HealWish(IMAGE, apply=True)),
        "page": page_objects(PageWish(IMAGE)),
        "cert-manager": manager_objects("numawise"),
    }


def kustomization(resources: Sequence[str], **more: object) -> str:
    """A kustomization.yaml."""
    value = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(resources),
        **more,
    }
    return texts((value,))


PARTS = ("namespace", "agent", "scheduler", "kube-scheduler", "heal")
IMAGES = [
    {"name": IMAGE, "newName": "registry.example.com/numawise", "newTag": __version__},
    {"name": STOCK_IMAGE, "newTag": RELEASE},
]


def overlays() -> dict[str, str]:
    """Overlay → its kustomization.yaml."""
    parts = [f"../../{part}" for part in PARTS]

    def secret(name: str, side: str) -> Json:
        files = {AUTHORITY: "ca.crt", CERTIFICATE: f"{side}.crt", KEY: f"{side}.key"}
        return {
            "name": name,
            "namespace": "numawise",
            "type": "kubernetes.io/tls",
            "files": [f"{key}=certificates/{file}" for key, file in files.items()],
            "options": {"labels": {NAME_LABEL: "numawise-scheduler", PART_LABEL: PART}},
        }

    secrets = [secret(SERVER_SECRET, "server"), secret(CLIENT_SECRET, "client")]
    return {
        "cluster": kustomization(parts, images=IMAGES, secretGenerator=secrets),
        "cluster-with-definition": kustomization(["../../definition", "../cluster"]),
        "cert-manager": kustomization([*parts, "../../cert-manager"], images=IMAGES),
        "cert-manager-with-definition": kustomization(["../../definition", "../cert-manager"]),
    }


def kustomize_files() -> Iterator[tuple[str, str]]:
    """Path → text."""
    for part, objects in kustomize_parts().items():
        yield f"kustomize/{part}/kustomization.yaml", kustomization(["objects.yaml"])
        yield f"kustomize/{part}/objects.yaml", texts(objects)
    for name, text in overlays().items():
        yield f"kustomize/overlays/{name}/kustomization.yaml", text
    yield "kustomize/overlays/cluster/.gitignore", "certificates/\n"


# --- Helm -----------------------------------------------------------------------------------------

WORDS = {
    "XX-namespace-XX": ".Release.Namespace",
    "XX-image-XX": 'required "set image: there is no published image" .Values.image',
    "XX-kube-scheduler-image-XX": 'include "numawise.kubeScheduler" .',
    "XX-unpublished-XX": ".Values.scheduler.unpublished",
    "XX-stamp-XX": 'include "numawise.stamp" .',
    "XX-patience-XX": ".Values.scheduler.patience",
    "XX-kept-places-XX": ".Values.scheduler.keptPlaces",
    "XX-kept-seconds-XX": ".Values.scheduler.keptSeconds",
    "XX-promise-XX": ".Values.scheduler.promise",
}
"""Word in an object → expression (rule 2)."""
NUMBERS = {
    7001: ".Values.scheduler.replicas",
    7002: ".Values.kubeScheduler.replicas",
    7003: ".Values.heal.replicas",
}
NAMESPACE, HELM_IMAGE, HELM_STOCK, UNPUBLISHED, STAMP, *_ = WORDS
EACH, CHOSEN = "XX-each-XX", ".Values.heal.namespaces"
"""One of a list, and the list of namespaces that the healer looks after; an empty one: all."""
HELM_WAITS = tuple((option, f"XX-{option.removeprefix('--')}-XX") for option, _ in WAITS)


def templated(objects: Sequence[Json]) -> str:
    """Objects as a template."""
    text = "---\n".join(map(manifest_yaml, objects))
    assert "{{" not in text
    for word, expression in WORDS.items():
        text = re.sub(rf"(: |- ){word}$", rf"\1{{{{ {expression} | quote }}}}", text, flags=re.MULTILINE)
        text = text.replace(word, f"{{{{ {expression} }}}}")
    for number, expression in NUMBERS.items():
        text = text.replace(f": {number}\n", f": {{{{ {expression} | int }}}}\n")
    return text


def when(condition: str, text: str, otherwise: str = "") -> str:
    """A template that is there under a condition."""
    other = f"{{{{- else }}}}\n{otherwise}" if otherwise else ""
    return f"{{{{- if {condition} }}}}\n{text}{other}{{{{- end }}}}\n"


def healer(*, apply: bool, holds: bool) -> str:
    """The healer of all namespaces, or of those that are chosen: other bindings, and other words."""
    everywhere = HealWish(HELM_IMAGE, NAMESPACE, 7003, apply=apply, holds=holds)
    texts = []
    for value, inside in zip(
        heal_objects(everywhere), heal_objects(replace(everywhere, namespaces=(EACH,))), strict=True
    ):
        text, chosen = templated((value,)), templated((inside,)).replace(f": {EACH}", ": {{ . | quote }}")
        chosen = chosen.replace(f"- {EACH}", "- {{ . | quote }}")
        if value["kind"] == "Deployment":
            words = re.compile(r'( *- "--in"\n *- \{\{ \. \| quote \}\}\n)')
            text = words.sub(rf"{{{{- range {CHOSEN} }}}}\n\1{{{{- end }}}}\n", chosen)
        elif chosen != text:
            text = when(
                CHOSEN,
                f"{{{{- range {CHOSEN} }}}}\n---\n{chosen.replace('.Release', '$.Release')}{{{{- end }}}}\n",
                text,
            )
        texts.append(text)
    return "---\n".join(texts)


STOCK, CALLERS = ".Values.kubeScheduler.enabled", ".Values.scheduler.from"
PEERS = re.compile(
    rf"( *from:\n)( *- podSelector:\n(?: {{6,}}.*\n)+)( *- ipBlock:\n *cidr: {EACH}\n)", re.MULTILINE
)


def callers(text: str) -> str:
    """The extender, for whoever is named: the second kube-scheduler where there is one, and networks."""
    ((head, stock, network),) = PEERS.findall(text)
    each = f"{{{{- range {CALLERS} }}}}\n{network.replace(EACH, '{{ . | quote }}')}{{{{- end }}}}\n"
    peers = when(f"or {STOCK} {CALLERS}", head + when(STOCK, stock) + each)
    return PEERS.sub(lambda _: peers, text)


POLICIES_KNOWN = '.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"'


def helm_templates() -> dict[str, str]:
    """File → text."""
    wish = ClusterWish(HELM_IMAGE, namespace=NAMESPACE)
    extender = SchedulerWish(
        HELM_IMAGE, NAMESPACE, 7001, UNPUBLISHED, HELM_WAITS, STAMP, stock=True, callers=(EACH,)
    )
    acting = when(POLICIES_KNOWN, healer(apply=True, holds=True), healer(apply=True, holds=False))
    watching = healer(apply=False, holds=False)
    stock = when(
        ".Values.kubeScheduler.enabled",
        templated(stock_objects(StockWish(HELM_STOCK, NAMESPACE, 7002, STAMP))),
    )
    return {
        "quota.yaml": templated((critical_quota(NAMESPACE),)),
        "agent.yaml": when(".Values.agent.enabled", templated(agent_objects(wish))),
        "scheduler.yaml": when(".Values.scheduler.enabled", callers(templated(scheduler_objects(extender)))),
        "kube-scheduler.yaml": when("and .Values.scheduler.enabled .Values.kubeScheduler.enabled", stock),
        "heal.yaml": when(".Values.heal.enabled", when(".Values.heal.apply", acting, watching)),
        "page.yaml": when(".Values.page.enabled", templated(page_objects(PageWish(HELM_IMAGE, NAMESPACE)))),
        "certificates.yaml": when(".Values.scheduler.enabled", certificate_template()),
    }


def certificate_template() -> str:
    """Secrets that Helm makes once and keeps, or what cert-manager makes them of."""

    def secret(name: str, side: str) -> str:
        labels = f"    {NAME_LABEL}: numawise-scheduler\n    {PART_LABEL}: {PART}\n"
        keys = {AUTHORITY: "authority", CERTIFICATE: f"{side}Certificate", KEY: f"{side}Key"}
        data = "".join(f"  {key}: {{{{ .Values.certificates.{value} }}}}\n" for key, value in keys.items())
        head = f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\n"
        head += f"  namespace: {{{{ .Release.Namespace | quote }}}}\n  labels:\n{labels}"
        return f"{head}type: kubernetes.io/tls\ndata:\n{data}"

    made = '{{- include "numawise.certificates" . }}\n'
    made += f"{secret(SERVER_SECRET, 'server')}---\n{secret(CLIENT_SECRET, 'client')}"
    managed = when('eq .Values.tls "cert-manager"', templated(manager_objects(NAMESPACE)))
    return when('eq .Values.tls "made"', made) + managed


CHART = {
    "apiVersion": "v2",
    "name": "numawise",
    "description": "Pods go where the kubelet will let them in: agent, scheduler, healer and a page.",
    "type": "application",
    "version": __version__,
    "appVersion": __version__,
    "kubeVersion": ">=1.30.0-0",
}


def helm_files() -> Iterator[tuple[str, str]]:
    """Path → text."""
    chart = "helm/numawise"
    yield f"{chart}/Chart.yaml", texts((CHART,))
    yield f"{chart}/crds/{DEFINITION}", texts((topology_definition(),))
    for name, text in helm_templates().items():
        yield f"{chart}/templates/{name}", text


def files() -> Mapping[str, str]:
    """Everything: path below this folder → text."""
    return dict([*kustomize_files(), *helm_files()])


def main() -> None:
    """Write it."""
    for path, text in files().items():
        file = FOLDER / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    main()
