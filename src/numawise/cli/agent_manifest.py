"""``numawise agent --manifest``: the objects that run the agent, as it was just typed, on all nodes."""

import re
from typing import TYPE_CHECKING

import click

from numawise.errors import InputError, quoted

if TYPE_CHECKING:
    from numawise.apps.agent.manifest import ManifestWish

IMAGE = re.compile(r"[a-zA-Z0-9][\w.:/@-]{0,499}", re.ASCII)
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
ELSEWHERE = frozenset(
    {"manifest", "image", "namespace", "config", "fake", "listen", "dry_run", "output", "log_form", "root"}
    | {"kubeconfig", "cluster", "node", "definition"}
)
"""Options that are about here and now, or that the manifest has in its own way."""
PAGES = "0.0.0.0:9797"
HEAD = (
    "The agent of every node: 'numawise agent {words}'.",
    "What it needs and why: docs/reference/agent-rights.md.",
)
POLICY = (
    "The ValidatingAdmissionPolicy ties each agent to its own node. It needs Kubernetes 1.30; on an older "
    "cluster leave it out, and know that the account may then write the objects of all nodes."
)
RUNTIME = (
    "runtimeClassName nvidia gives the container NVIDIA's library; leave it out where that runtime is the "
    "default one."
)


def show_manifest(context: click.Context, image: str, namespace: str) -> None:
    """Print the objects."""
    from numawise.apps.agent.manifest import manifest  # noqa: PLC0415 - keeps --help quick
    from numawise.codec.output import comment_lines, manifest_yaml  # noqa: PLC0415

    wish = _wish(context, image, namespace)
    objects = manifest(wish)
    head = [HEAD[0].format(words=" ".join(_typed(context))), HEAD[1]]
    if any(one["kind"] == "ValidatingAdmissionPolicy" for one in objects):
        head.append(POLICY)
    if wish.nvidia:
        head.append(RUNTIME)
    click.echo(comment_lines(head) + "---\n".join(map(manifest_yaml, objects)), nl=False)


def check_image(image: str, option: str = "--image") -> None:
    """Raise ``InputError`` where that is no image."""
    if not image:
        raise InputError(
            "a manifest needs an image", advice=f"give {option} NAME; deploy/Containerfile makes one"
        )
    if not IMAGE.fullmatch(image):
        raise InputError(
            f"{option} {quoted(image)} is not the name of an image",
            advice="write it like registry.example.com/numawise:1",
        )


def check_namespace(namespace: str, option: str = "--namespace") -> None:
    """Raise ``InputError`` where that is no namespace."""
    if not NAMESPACE.fullmatch(namespace):
        raise InputError(
            f"{option} {quoted(namespace)} is not the name of a namespace",
            advice="lower-case letters, digits and '-'",
        )


def _wish(context: click.Context, image: str, namespace: str) -> "ManifestWish":
    from numawise.apps.agent.manifest import CONFIG_FOLDER, CONFIG_KEY, ManifestWish  # noqa: PLC0415
    from numawise.apps.agent.offer_plan import config_file, read_config  # noqa: PLC0415
    from numawise.apps.agent.rights import DEVICE_PLUGIN, FEATURES, KUBELET_DIR  # noqa: PLC0415
    from numawise.codec.fake_devices import read_fakes  # noqa: PLC0415
    from numawise.codec.infile import read_raw  # noqa: PLC0415

    check_image(image)
    check_namespace(namespace)
    given = context.params
    features = tuple(name for name in FEATURES if given.get(name.replace("-", "_")))
    config, fake = given.get("config") or "", given.get("fake") or ""
    words = _typed(
        context, ELSEWHERE | {name.replace("-", "_") for name in features if name != "startup-taint"}
    )
    words += ["--listen", PAGES if _is_default(context, "listen") else str(given["listen"])]
    text, nvidia, devices = "", False, False
    if fake and config:
        raise InputError("--fake and --config are both given", advice="take one of the two")
    if fake:
        read_fakes(fake)
        text = read_raw(fake)[0].decode()
        words += ["--fake", f"{CONFIG_FOLDER}/{CONFIG_KEY}"]
    elif DEVICE_PLUGIN in features:
        rules = read_config(config).resources
        nvidia = any(rule.nvidia is not None for rule in rules)
        devices = any(rule.paths or rule.answer.own_nodes for rule in rules)
        if config:
            file, name = config_file(config)
            text = read_raw(file)[0].decode()
            words += ["--config", f"{CONFIG_FOLDER}/{CONFIG_KEY}" + (f":{name}" if name else "")]
    kubelet_dir = str(given.get("kubelet_dir") or KUBELET_DIR).rstrip("/")
    file = str(given.get("kubelet_config") or "")
    return ManifestWish(
        features=features,
        image=image,
        words=tuple(words),
        namespace=namespace,
        kubelet_dir=kubelet_dir,
        config=text,
        files=(file,) if file and not file.startswith(f"{kubelet_dir}/") else (),
        devices=devices,
        nvidia=nvidia,
    )


def _is_default(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE


def _typed(
    context: click.Context, without: frozenset[str] | set[str] = frozenset({"manifest", "image"})
) -> list[str]:
    """The options that were given, as words, but for some."""
    words: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        value = context.params.get(name)
        if name in without or _is_default(context, name) or value in (None, False, ""):
            continue
        words.append(max(option.opts, key=len))
        if value is not True:
            words += [str(value)]
    return words
