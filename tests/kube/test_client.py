"""The API server as numawise asks it: what comes back, and one sentence for all that can go wrong."""

import base64
import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numawise.errors import ClusterError
from numawise.kube.client import ApiRefused, Cluster, access_to
from numawise.kube.credentials import issued
from tests import needs
from tests.kube.server import TOKEN, Server, State, kubeconfig, make_certificate, serving

openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"nodeName": "n1", **spec}}


@pytest.fixture
def server() -> Iterator[Server]:
    state = State(
        pods=[pod("a", somethingNew={"x": 1}), pod("b"), pod("c", nodeName="n2")],
        nodes={"n1": {"metadata": {"name": "n1"}, "status": {"nodeInfo": {"kubeletVersion": "v1.36.4"}}}},
        configz={"n1": {"cpuManagerPolicy": "static"}},
        events=[
            {"metadata": {"namespace": "ns", "name": "e"}, "involvedObject": {"kind": "Pod", "name": "a"}}
        ],
    )
    with serving(state) as running:
        yield running


def cluster(server: Server, folder: Path, **more: Any) -> Cluster:
    path = kubeconfig(folder / "config", server.address, **more)
    return Cluster(access_to(str(path), "", {}))


def test_objects_come_as_the_server_wrote_them(server: Server, tmp_path: Path) -> None:
    with cluster(server, tmp_path) as found:
        assert found.pod("ns", "a") == server.state.pods[0]
        assert found.pod("ns", "missing") is None
        assert found.node("n1") == server.state.nodes["n1"]
        assert found.node("n9") is None
        assert found.configz("n1") == {"kubeletconfig": {"cpuManagerPolicy": "static"}}
        assert found.configz("n2") is None


def test_lists_are_filtered_by_the_server_and_read_page_by_page(server: Server, tmp_path: Path) -> None:
    server.state.page = 1
    with cluster(server, tmp_path) as found:
        assert [one["metadata"]["name"] for one in found.pods_on("n1")] == ["a", "b"]
        assert [one["metadata"]["name"] for one in found.pods("ns")] == ["a", "b", "c"]
        assert len(found.events("ns", "a")) == 1
        assert found.events("ns", "b") == ()
    assert any("fieldSelector=spec.nodeName%3Dn1" in path for path in server.state.asked)
    assert all(path.startswith("/api/v1/") for path in server.state.asked)


def refused(found: Cluster, *words: str, kind: type[ClusterError] = ClusterError) -> None:
    with pytest.raises(kind) as caught, found:
        found.pod("ns", "a")
    assert caught.value.exit_code == 5
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text, text


@pytest.mark.parametrize(("change", "words"), [
    pytest.param({"token": "other"},         ["401", "does not know who you are", "log in again"],     id="401"),
    pytest.param({"forbidden": {"/pods/a"}}, ["403", "you may not get pod a in namespace ns"],         id="403"),
])  # fmt: skip
def test_who_we_are_does_not_suffice(
    server: Server, tmp_path: Path, change: dict[str, Any], words: list[str]
) -> None:
    for name, value in change.items():
        setattr(server.state, name, value)
    refused(cluster(server, tmp_path), *words, kind=ApiRefused if "403" in words else ClusterError)


PATH = "/api/v1/namespaces/ns/pods/a"


@pytest.mark.parametrize(("answer", "words"), [
    pytest.param((500, "application/json", b'{"kind":"Status","message":"etcd is down","code":500}'), ["500", "etcd is down"], id="500"),
    pytest.param((502, "text/html", b"<html>Bad Gateway</html>"),  ["502"],                                id="a proxy in between"),
    pytest.param((404, "text/html", b"<html>no</html>"),           ["does not answer as an API server"],   id="another server"),
    pytest.param((200, "text/html", b"<html>Welcome</html>"),      ["does not answer as an API server"],   id="a web page"),
    pytest.param((200, "application/json", b"[]"),                 ["does not answer as an API server"],   id="a list of nothing"),
    pytest.param((403, "", b""),                                   ["does not answer as an API server"],   id="no content type"),
])  # fmt: skip
def test_servers_that_answer_badly(
    server: Server, tmp_path: Path, answer: tuple[int, str, bytes], words: list[str]
) -> None:
    server.state.answers[PATH] = answer
    refused(cluster(server, tmp_path), server.address, *words)


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    path = kubeconfig(tmp_path / "config", f"http://127.0.0.1:{port}")
    refused(Cluster(access_to(str(path), "", {})), f"http://127.0.0.1:{port} cannot be reached", "refused")


def test_names_do_not_lead_elsewhere(server: Server, tmp_path: Path) -> None:
    with cluster(server, tmp_path) as found, pytest.raises(ClusterError, match="not a valid Kubernetes name"):
        found.pod("ns", "../../../nodes/n1")
    assert server.state.asked == []


# --- TLS ------------------------------------------------------------------------------------


@openssl
def test_tls_with_a_certificate_of_ones_own(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with serving(State(pods=[pod("a")]), certificate) as server:
        authority = {"certificate-authority": certificate[0].name}  # relative to the kubeconfig
        with cluster(server, tmp_path, **authority) as found:
            assert found.pod("ns", "a") is not None
        inline = {"certificate-authority-data": base64.b64encode(certificate[0].read_bytes()).decode()}
        with cluster(server, tmp_path, **inline) as found:
            assert found.pod("ns", "a") is not None
        with cluster(server, tmp_path, **{"insecure-skip-tls-verify": True}) as found:
            assert found.pod("ns", "a") is not None
        refused(cluster(server, tmp_path), "certificate", "certificate-authority")


@openssl
def test_a_certificate_for_another_name(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "DNS:kubernetes")
    with serving(State(pods=[pod("a")]), certificate) as server:
        authority = {"certificate-authority": str(certificate[0])}
        refused(cluster(server, tmp_path, **authority), "certificate")
        with cluster(server, tmp_path, **authority, **{"tls-server-name": "kubernetes"}) as found:
            assert found.pod("ns", "a") is not None


# --- credentials ----------------------------------------------------------------------------

PLUGIN = """\
import json, os, sys
told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert told["kind"] == "ExecCredential" and os.environ["REGION"] == "here", told
if sys.argv[1:] == ["fail"]:
    sys.exit(3)
if sys.argv[1:] == ["babble"]:
    sys.exit(print("hello"))
print(json.dumps({"apiVersion": told["apiVersion"], "kind": "ExecCredential", "status": {"token": sys.argv[1]}}))
"""


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_program_that_issues_tokens(server: Server, tmp_path: Path, version: str) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    user = {
        "exec": {
            "apiVersion": f"client.authentication.k8s.io/{version}",
            "command": sys.executable,
            "args": [str(tmp_path / "plugin.py"), TOKEN],
            "env": [{"name": "REGION", "value": "here"}],
        }
    }
    with cluster(server, tmp_path, user=user) as found:
        assert found.pod("ns", "a") is not None


@needs.ROOT
@pytest.mark.parametrize(("owner", "mode", "sudo", "runs"), [
    pytest.param(0,    0o600, "",     True,  id="root's own"),
    pytest.param(4242, 0o600, "4242", True,  id="of who called sudo"),
    pytest.param(4242, 0o600, "",     False, id="another user's"),
    pytest.param(4242, 0o600, "4343", False, id="neither's"),
    pytest.param(0,    0o666, "",     False, id="everybody's"),
    pytest.param(4242, 0o660, "4242", True,  id="of the group of who called sudo"),
    pytest.param(4242, 0o660, "4243", False, id="of another group"),
])  # fmt: skip
def test_root_runs_no_program_that_others_name(
    tmp_path: Path, owner: int, mode: int, sudo: str, *, runs: bool
) -> None:
    file, proof = tmp_path / "config", tmp_path / "was-run"
    file.write_text("")
    os.chown(file, owner, owner)
    file.chmod(mode)
    user = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(proof)]}
    }
    message = "answers with no credentials" if runs else "others may change that file; do this as its owner"
    with pytest.raises(ClusterError, match=message):
        issued(
            user,
            file,
            {
                **os.environ,
                **(
                    {"SUDO_UID": "4242", "SUDO_GID": sudo}
                    if mode == 0o660
                    else {"SUDO_UID": sudo}
                    if sudo
                    else {}
                ),
            },
        )
    assert proof.exists() == runs


@needs.ROOT
@pytest.mark.parametrize("other", [0, 4242])
def test_the_file_that_names_the_program_is_looked_at(tmp_path: Path, other: int) -> None:
    """Of several kubeconfigs: the first is root's own, and a later one may be anybody's."""
    proof = tmp_path / "was-run"
    login = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(proof)]}
    cluster_part = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "current-context": "c",
    }
    context = {"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
    files = [tmp_path / "first", tmp_path / "second"]
    for file, value in zip(
        files, (cluster_part | context, {"users": [{"name": "u", "user": {"exec": login}}]}), strict=True
    ):
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **value}))
    os.chown(files[1], other, other)
    access = access_to("", "", {"KUBECONFIG": os.pathsep.join(map(str, files))})
    message = (
        "second names a program that logs in, and others may change"
        if other
        else "answers with no credentials"
    )
    with Cluster(access) as found, pytest.raises(ClusterError, match=message):
        found.pod("ns", "a")
    assert proof.exists() == (other == 0)


@pytest.mark.parametrize(("change", "words"), [
    pytest.param({"args": ["plugin.py", "fail"]},       ["ends with status 3"],                     id="it fails"),
    pytest.param({"args": ["plugin.py", "babble"]},     ["answers with no credentials"],            id="it babbles"),
    pytest.param({"command": "no-such-login"},          ["'no-such-login', which is not installed", "dnf install it"], id="it is not there"),
    pytest.param({"command": ""},                       ["names no command"],                       id="no command"),
    pytest.param({"apiVersion": "example.com/v9"},      ["example.com/v9", "not known"],            id="another protocol"),
])  # fmt: skip
def test_a_program_that_does_not(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugin.py").write_text(PLUGIN)
    wanted = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "env": [{"name": "REGION", "value": "here"}],
        "installHint": "dnf install it",
        **change,
    }
    refused(cluster(server, tmp_path, user={"exec": wanted}), *words)


def test_a_token_in_a_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    with cluster(server, tmp_path, user={"tokenFile": "token"}) as found:
        assert found.pod("ns", "a") is not None


def test_certificates_that_are_none(server: Server, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    user = {"client-certificate": "key", "client-key": "key"}
    refused(cluster(server, tmp_path, user=user), "config: cannot be used", "check certificates")


def test_inside_a_pod(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "namespace").write_text("ns\n")
    environment = {
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "HOME": "/nowhere",
    }
    access = access_to("", "", environment, str(tmp_path))
    assert (access.server, access.namespace) == ("https://10.96.0.1:443", "ns")
    with pytest.raises(ClusterError, match="no cluster is known here"):
        access_to("", "", {"HOME": "/nowhere"}, str(tmp_path))
