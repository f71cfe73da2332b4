"""The extender, the healer and the page as their pods run them: the words of the manifest, the account's files, a read-only root, no capabilities."""

import contextlib
import http.client
import json
import shlex
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.heal.manifest import HealWish, heal_objects
from numawise.apps.heal.rights import heal_rights
from numawise.apps.scheduler.manifest import SERVER_FOLDER, SchedulerWish, scheduler_objects
from numawise.apps.scheduler.rights import SCHEDULER_RIGHTS
from numawise.host.certificates import make_certificates
from numawise.service.manifest import Json
from numawise.web.manifest import DROPPED_FOLDER, PAGE_RIGHTS, PageWish, page_objects
from tests import needs
from tests.kube.confined import WITHOUT_RIGHTS
from tests.kube.healers import HealedCluster
from tests.kube.rbac import exact_rules
from tests.kube.server import TOKEN, Server, make_certificate, serving
from tests.kube.test_agent_rights import NO_RIGHTS, WALLS
from tests.kube.test_scheduler import question, state
from tests.waiting import PATIENCE, until

pytestmark = [needs.MOUNTS, needs.PROC, needs.OPENSSL, WALLS]
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
OWN_PORTS = ("0.0.0.0:9443", "0.0.0.0:9797", "127.0.0.1:9801")


class PodProcess:
    """A program behind these walls."""

    def __init__(self, folder: Path, server: Server, objects: tuple[Json, ...], **places: str) -> None:
        (deployment,) = [value for value in objects if value["kind"] == "Deployment"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        words = [self._placed(word, places) for word in container["args"]]
        host, _, port = server.address.removeprefix("https://").partition(":")
        room = folder / "room"
        room.mkdir()
        mounts = [mount["mountPath"] for mount in container.get("volumeMounts", ())]
        empty = [f"mount -t tmpfs none {room}"] if DROPPED_FOLDER in mounts else []
        steps = [
            "set -e",
            "mount --make-rprivate /",
            "mount -t tmpfs none $(readlink -f /var/run)",
            f"mkdir -p {ACCOUNT}",
            f"cp {folder}/cert.pem {ACCOUNT}/ca.crt",
            f"printf %s {TOKEN} > {ACCOUNT}/token",
            f"printf %s numawise > {ACCOUNT}/namespace",
            "mount -o remount,bind,ro $(readlink -f /var/run)",
            "mount -o remount,bind,ro /",
            *empty,
            f"exec {shlex.join([*WITHOUT_RIGHTS, sys.executable, '-B', '-m', 'numawise', *words])}",
        ]
        self.log = folder / "log"
        environment = {
            "PATH": "/usr/bin:/bin",
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "POD_NAME": "pod-1",
            "TMPDIR": str(room),
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["unshare", "-m", "sh", "-c", "\n".join(steps)], env=environment, stderr=log, cwd="/"
            )

    @staticmethod
    def _placed(word: str, places: dict[str, str]) -> str:
        if word in OWN_PORTS:
            return "127.0.0.1:0"
        return word.replace(SERVER_FOLDER, places["keys"]) if "keys" in places else word

    def said(self, words: str) -> list[dict[str, Any]]:
        lines = [line for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]
        assert all(line.startswith("{") for line in lines), self.log.read_text()
        return [value for value in map(json.loads, lines) if words in value["message"]]

    def ready(self) -> None:
        until(lambda: self.process.poll() is not None or self.said("listening"), "it listens")
        assert self.process.poll() is None, self.log.read_text()
        host, _, port = str(self.said("listening")[0]["address"]).rpartition(":")

        def page() -> bool:
            with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=PATIENCE)) as asked:
                asked.request("GET", "/readyz")
                return asked.getresponse().status == 200

        until(page, "it is ready")

    def rights(self) -> dict[str, str]:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        lines = dict(line.split(":", 1) for line in text.splitlines())
        return {name: lines[name].strip() for name in NO_RIGHTS}


@contextlib.contextmanager
def in_pod(folder: Path, server: Server, objects: tuple[Json, ...], **places: str) -> Iterator[PodProcess]:
    running = PodProcess(folder, server, objects, **places)
    try:
        running.ready()
        assert running.rights() == NO_RIGHTS
        yield running
        running.process.terminate()
        assert running.process.wait(PATIENCE) == 0
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait(PATIENCE)


def test_the_extender(tmp_path: Path) -> None:
    made = make_certificates(("127.0.0.1",), "kube-scheduler")
    files = {"ca.crt": made.authority, "tls.crt": made.server.certificate, "tls.key": made.server.key}
    for name, text in {**files, "own.crt": made.client.certificate, "own.key": made.client.key}.items():
        (tmp_path / name).write_text(text)
    cluster = state("a")
    cluster.rules = exact_rules(SCHEDULER_RIGHTS, "numawise")
    with serving(cluster, make_certificate(tmp_path)) as server:
        objects = scheduler_objects(SchedulerWish("x"))
        with in_pod(tmp_path, server, objects, keys=str(tmp_path)) as running:
            trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
            trust.check_hostname = False
            trust.load_cert_chain(tmp_path / "own.crt", tmp_path / "own.key")
            host, _, port = (
                str(running.said("answering")[0]["address"]).removeprefix("https://").rpartition(":")
            )
            client = http.client.HTTPSConnection(host, int(port), timeout=PATIENCE, context=trust)
            with contextlib.closing(client) as connection:
                connection.request("POST", "/filter", json.dumps(question("p", 4, "a")))
                assert json.loads(connection.getresponse().read())["NodeNames"] == ["a"]
    assert cluster.rules.refused == []
    assert cluster.written == []


def test_the_page(tmp_path: Path) -> None:
    cluster = state("a")
    cluster.rules = exact_rules(PAGE_RIGHTS, "numawise")
    with (
        serving(cluster, make_certificate(tmp_path)) as server,
        in_pod(tmp_path, server, page_objects(PageWish("x"))) as running,
    ):
        (line,) = running.said("the page is at")
        host, _, port = str(line["address"]).removeprefix("http://").rstrip("/").rpartition(":")

        def answer(method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
            with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=PATIENCE)) as asked:
                content = json.dumps(body) if body is not None else None
                asked.request(method, f"/api/v1/{path}", content, {"Content-Type": "application/json"})
                response = asked.getresponse()
                return response.status, json.loads(response.read())

        until(lambda: answer("GET", "cluster")[1]["rows"], "the cluster is followed")
        _, overview = answer("GET", "overview")
        assert (overview["first"], overview["node"], overview["host"]) == ("cluster", False, False)
        dropped = {
            "name": "kubelet.yaml",
            "text": "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n",
        }
        assert answer("POST", "check", {"files": [dropped]})[0] == 200, "what is dropped has a place"
        assert answer("POST", "map", {"node": {"machine": "this"}})[0] == 422, "nothing of the host"
    assert cluster.rules.refused == []
    assert cluster.written == []


@pytest.mark.parametrize("apply", [False, True])
def test_the_healer(tmp_path: Path, *, apply: bool) -> None:
    cluster = HealedCluster("a")
    owner = cluster.owner("web")
    cluster.state.rules = rules = exact_rules(heal_rights(apply=apply, defrag=False), "numawise")
    objects = heal_objects(HealWish("x", apply=apply))
    with (
        serving(cluster.state, make_certificate(tmp_path)) as server,
        in_pod(tmp_path, server, objects) as running,
    ):
        until(lambda: running.said("leads") or not apply, "it leads: what others were to hold is not its own")
        cluster.refuse(cluster.make(owner), "a")
        until(lambda: running.said("hold ReplicaSet default/web"), "it is held, or would be")
        assert bool(cluster.holds) == apply
    assert rules.refused == []
    assert bool(cluster.state.written) == apply
