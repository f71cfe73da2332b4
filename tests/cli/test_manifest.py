"""``numawise manifest`` as typed, right and wrong."""

import base64
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from numawise.apps.scheduler.manifest import WAITS
from numawise.cli.scheduler import command
from tests import needs
from tests.cli.run import program

IMAGE = ("--image", "registry.example.com/numawise:1")


def objects(*words: object) -> list[dict[str, Any]]:
    ran = program("manifest", *words)
    assert ran.status == 0, ran.err
    assert ran.err == ""
    return list(yaml.safe_load_all(ran.out))


def kinds(values: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(value["kind"], value["metadata"]["name"]) for value in values}


@pytest.mark.parametrize(("words", "said"), [
    ([],                                                    "a manifest needs an image; give --image NAME"),
    (["--image", "two words"],                              "--image 'two words' is not the name of an image"),
    ([*IMAGE, "--for", "agent,sheduler"],                   "--for 'sheduler' is no part of numawise; there are agent, scheduler, heal"),
    ([*IMAGE, "--for", ""],                                 "--for '' is no part of numawise"),
    ([*IMAGE, "--namespace", "Big"],                        "--namespace 'Big' is not the name of a namespace"),
    ([*IMAGE, "--kubernetes", "latest"],                    "--kubernetes 'latest' is not a release; write it like 1.36.4"),
    ([*IMAGE, "--for", "heal", "--kubernetes", "1.36.4"],   "--kubernetes: asks the extender; add scheduler to --for"),
    ([*IMAGE, "--kube-scheduler-image", "a b"],             "--kube-scheduler-image 'a b' is not the name of an image"),
    ([*IMAGE, "--heal-in", "Big"],                          "--heal-in 'Big' is not the name of a namespace"),
    ([*IMAGE, "--extender-from", "10.0.0.0/99"],            "--extender-from '10.0.0.0/99' is not a network; write it like 10.0.0.0/24"),
    (["--control-plane", "10.0.0.1"],                       "--control-plane '10.0.0.1' is not an address; write it like https://"),
    (["--control-plane", "http://10.0.0.1:9443"],           "is not an address"),
    (["--certificates", "no/such/folder"],                  "no/such/folder/ca.crt: cannot be written"),
])  # fmt: skip
def test_mistakes_are_one_sentence(words: list[str], said: str) -> None:
    ran = program("manifest", *words)
    assert ran.status == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""


def test_how_long_the_extender_waits_is_set_where_it_is_installed() -> None:
    def options(*words: str) -> dict[str, str]:
        (pods,) = [
            one
            for one in objects(*IMAGE, "--for", "scheduler", "--tls", "given", *words)
            if one["kind"] == "Deployment"
        ]
        (container,) = pods["spec"]["template"]["spec"]["containers"]
        words = container["args"]
        return dict(zip(words[1::2], words[2::2], strict=True))

    usual = {param.opts[0]: f"{param.default:g}" for param in command.params if param.opts[0] in dict(WAITS)}
    assert {name: options()[name] for name in usual} == usual == dict(WAITS)
    changed = {"--patience": "60", "--kept-places": "0", "--kept-seconds": "90.5", "--promise": "240"}
    made = options(*(word for option in changed.items() for word in option))
    assert made == {**options(), **changed}
    assert program("manifest", *IMAGE, "--promise", "nan").status == 2


@pytest.mark.parametrize(("words", "there", "missing"), [
    (("--for", "agent"),     {("DaemonSet", "numawise-agent")}, {("Deployment", "numawise-scheduler"), ("Secret", "numawise-scheduler-server")}),
    (("--for", "heal"),      {("Deployment", "numawise-heal")}, {("DaemonSet", "numawise-agent")}),
    (("--tls", "given"),     {("Deployment", "numawise-scheduler")}, {("Secret", "numawise-scheduler-server")}),
    (("--tls", "cert-manager"), {("Certificate", "numawise-scheduler-client")}, {("Secret", "numawise-scheduler-server")}),
    (("--tls", "given", "--kubernetes", "v1.36.4"), {("Deployment", "numawise-kube-scheduler")}, set()),
    (("--tls", "given", "--definition"), {("CustomResourceDefinition", "noderesourcetopologies.topology.node.k8s.io")}, set()),
    (("--for", "heal", "--heal-applies"), {("MutatingAdmissionPolicy", "numawise-hold"), ("CustomResourceDefinition", "holdlists.numawise.dev")}, set()),
    (("--for", "heal"),      set(), {("MutatingAdmissionPolicy", "numawise-hold"), ("ValidatingAdmissionPolicy", "numawise-heal")}),
    (("--for", "heal", "--heal-applies"), {("ValidatingAdmissionPolicy", "numawise-heal"), ("ClusterRoleBinding", "numawise-heal-chosen")}, set()),
    (("--for", "heal", "--heal-in", "a"), {("RoleBinding", "numawise-heal-chosen")}, {("ClusterRoleBinding", "numawise-heal-chosen")}),
    (("--tls", "given", "--heal-applies", "--kubernetes", "1.35.2"), {("Deployment", "numawise-heal")}, {("MutatingAdmissionPolicy", "numawise-hold")}),
    (("--tls", "given"),     set(), {("CustomResourceDefinition", "noderesourcetopologies.topology.node.k8s.io")}),
])  # fmt: skip
def test_parts(words: tuple[str, ...], there: set[tuple[str, str]], missing: set[tuple[str, str]]) -> None:
    made = kinds(objects(*IMAGE, *words))
    assert there <= made
    assert not missing & made


def test_everything_is_in_the_namespace_that_was_asked_for() -> None:
    values = objects(*IMAGE, "--namespace", "apart", "--tls", "cert-manager", "--kubernetes", "1.36.4")
    for value in values:
        assert value["metadata"].get("namespace", "apart") == "apart"
        for subject in value.get("subjects", ()):
            assert subject["namespace"] == "apart"
    text = yaml.safe_dump(values).replace("numawise-", "").replace("part-of: numawise", "")
    assert "numawise.svc" not in text
    assert ":numawise:" not in text


def test_the_namespace_allows_folders_of_the_host_only_where_the_agent_is() -> None:
    def level(*words: str) -> str:
        (namespace,) = [value for value in objects(*IMAGE, *words) if value["kind"] == "Namespace"]
        allowed: str = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        return allowed

    assert level("--for", "agent") == "privileged"
    assert level("--for", "scheduler,heal", "--tls", "given") == "restricted"


def test_the_healer_of_some_namespaces_has_no_rights_in_others() -> None:
    values = objects(
        *IMAGE, "--for", "heal", "--heal-applies", "--heal-in", "a", "--heal-in", "b", "--heal-in", "a"
    )
    bound = [value["metadata"]["namespace"] for value in values if value["kind"] == "RoleBinding" and value["metadata"]["name"] == "numawise-heal-chosen"]  # fmt: skip
    assert bound == ["a", "b"]
    (everywhere,) = [value for value in values if value["kind"] == "ClusterRoleBinding"]
    (role,) = [value for value in values if value["kind"] == "ClusterRole" and value["metadata"]["name"] == everywhere["roleRef"]["name"]]  # fmt: skip
    assert not {verb for rule in role["rules"] for verb in rule["verbs"]} - {"get", "list", "watch"}
    (pods,) = [value for value in values if value["kind"] == "Deployment"]
    words = pods["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [words[at + 1] for at, word in enumerate(words) if word == "--in"] == ["a", "b"]


@pytest.mark.parametrize(("words", "peers"), [
    ((),                                                    None),
    (("--kubernetes", "1.36.4"),                            ["numawise-kube-scheduler"]),
    (("--extender-from", "10.0.0.7"),                       ["10.0.0.7/32"]),
    (("--kubernetes", "1.36.4", "--extender-from", "10.0.0.1/24", "--extender-from", "2001:db8::/64"),
                                                            ["numawise-kube-scheduler", "10.0.0.0/24", "2001:db8::/64"]),
])  # fmt: skip
def test_who_may_connect_to_the_extender(words: tuple[str, ...], peers: list[str] | None) -> None:
    values = objects(*IMAGE, "--for", "scheduler", "--tls", "given", *words)
    (policy,) = [value for value in values if value["kind"] == "NetworkPolicy"]
    extender, pages = policy["spec"]["ingress"]
    assert [port["port"] for port in extender["ports"]] == ["extender"]
    assert "from" not in pages
    callers = extender.get("from")
    assert peers == (None if callers is None else [
        peer["ipBlock"]["cidr"] if "ipBlock" in peer else peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"]
        for peer in callers
    ])  # fmt: skip


def test_a_release_with_the_providers_name_behind_it() -> None:
    values = objects(*IMAGE, "--tls", "given", "--kubernetes", "v1.31.2")
    (stock,) = [v for v in values if v["kind"] == "Deployment" and v["metadata"]["name"] == "numawise-kube-scheduler"]  # fmt: skip
    (container,) = stock["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.k8s.io/kube-scheduler:v1.31.2"


def test_the_control_planes_scheduler() -> None:
    (value,) = objects("--control-plane", "https://10.96.0.40:9443")
    (entry,) = value["extenders"]
    assert entry["urlPrefix"] == "https://10.96.0.40:9443"
    assert entry["tlsConfig"]["serverName"] == "numawise-scheduler.numawise.svc"
    assert "profiles" not in value


@needs.OPENSSL
def test_certificates_are_new_each_time_and_pods_start_with_them(tmp_path: Path) -> None:
    def stamps(values: list[dict[str, Any]]) -> set[str]:
        return {
            value["spec"]["template"]["metadata"]["annotations"]["numawise.dev/certificates"]
            for value in values
            if value["kind"] == "Deployment" and "annotations" in value["spec"]["template"]["metadata"]
        }

    first, second = (objects(*IMAGE, "--for", "scheduler", "--kubernetes", "1.36.4") for _ in range(2))
    assert len(stamps(first)) == 1
    assert stamps(first) != stamps(second)
    secrets = {value["metadata"]["name"]: value["data"] for value in first if value["kind"] == "Secret"}
    assert set(secrets) == {"numawise-scheduler-server", "numawise-scheduler-client"}
    server, client = secrets["numawise-scheduler-server"], secrets["numawise-scheduler-client"]
    assert server["ca.crt"] == client["ca.crt"]
    for name, data in secrets.items():
        for key, text in data.items():
            (tmp_path / f"{name}-{key}").write_bytes(base64.b64decode(text))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / f"{name}-tls.crt", tmp_path / f"{name}-tls.key")


@needs.OPENSSL
def test_certificates_as_files(tmp_path: Path) -> None:
    place = tmp_path / "certificates"
    ran = program("manifest", "--certificates", place)
    assert (ran.status, ran.err) == (0, "")
    assert sorted(file.name for file in place.iterdir()) == [
        "ca.crt", "client.crt", "client.key", "server.crt", "server.key",
    ]  # fmt: skip
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in place.glob("*.key"))


def test_without_openssl_it_is_said(tmp_path: Path) -> None:
    ran = program("manifest", *IMAGE, PATH=str(tmp_path))
    assert ran.status == 3
    assert (
        "openssl is not installed, so no certificates can be made; install it, or let cert-manager" in ran.err
    )
    assert ran.out == ""
