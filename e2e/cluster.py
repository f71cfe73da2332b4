"""The control plane on this machine's loopback, in a network of its own, and questions to its API.

The guest reaches this network's 127.0.0.1 as 10.0.2.2.  The API server wants to reach the kubelet by the address of its
node, which no route leads to: the address is given to the loopback here, and what comes to it is passed on to the port
that the virtual machine publishes.
"""

import contextlib
import http.client
import json
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from numawise.codec.hardware.nrt_definition import topology_definition

API_PORT, ETCD_PORT, PEER_PORT = 16443, 12379, 12380
KUBELET_PORT, PUBLISHED = 10250, 11250
NODE_ADDRESS, HOST_ADDRESS = "10.0.2.15", "10.0.2.2"
TOKEN = "kubelet-in-a-virtual-machine"
NODE = "numa-vm"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"


def kubeconfig(address: str) -> str:
    """A configuration for clients at an address."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "vm",
                    "cluster": {"server": f"https://{address}:{API_PORT}", "insecure-skip-tls-verify": True},
                }
            ],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "vm", "context": {"cluster": "vm", "user": "admin"}}],
            "current-context": "vm",
        }
    )


class Api:
    """Plain requests to the API server, over a connection for each thread."""

    def __init__(self, address: str, token: str = TOKEN) -> None:
        self.address, self.token = address, token
        self.trust = ssl._create_unverified_context()
        self.own = threading.local()

    def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        """Status and answer; a connection that the server has closed meanwhile is made anew once."""
        data = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        kept = getattr(self.own, "connection", None) is not None
        try:
            response, text = self._asked(method, path, data, headers)
        except (ConnectionError, http.client.HTTPException):
            if not kept:
                raise
            response, text = self._asked(method, path, data, headers)
        try:
            return response.status, json.loads(text or b"null")
        except ValueError:
            return response.status, text.decode(errors="replace")

    def _asked(
        self, method: str, path: str, data: str | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = getattr(self.own, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection(self.address, API_PORT, context=self.trust, timeout=60)
            self.own.connection = connection
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            return response, response.read()
        except BaseException:
            connection.close()
            self.own.connection = None
            raise

    def lines(self, path: str) -> Iterator[dict[str, Any]]:
        """What a watch tells, until the server ends it."""
        connection = http.client.HTTPSConnection(self.address, API_PORT, context=self.trust, timeout=3600)
        try:
            connection.request("GET", path, None, {"Authorization": f"Bearer {self.token}"})
            for line in connection.getresponse():
                yield json.loads(line)
        finally:
            connection.close()

    def node(self) -> dict[str, Any]:
        status, found = self.ask("GET", f"/api/v1/nodes/{NODE}")
        return found if status == 200 else {}

    def pods(self) -> list[dict[str, Any]]:
        found = self.ask("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{NODE}")[1]
        return list(found["items"])


def wait_for(what: str, seconds: float, condition: Callable[[], Any]) -> Any:
    """What a condition gives once it gives something; an error when it does not in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found = condition()
        except (OSError, http.client.HTTPException):
            found = None
        if found:
            return found
        time.sleep(0.3)
    raise TimeoutError(f"{what} did not come about in {seconds:.0f} s")


class ControlPlane:
    """etcd, the API server, the controllers and the scheduler, each under a name by which it is stopped and started again."""

    def __init__(
        self, programs: Path, folder: Path, *, scheduler: bool = True, controllers: tuple[str, ...] = ()
    ) -> None:
        self.programs, self.folder = programs, folder
        self.scheduler, self.controllers = scheduler, controllers
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.commands: dict[str, list[str]] = {}

    @property
    def children(self) -> list["subprocess.Popen[bytes]"]:
        """All that was started and not stopped."""
        return list(self.running.values())

    @property
    def kubeconfig(self) -> Path:
        """For clients on this machine."""
        return self.folder / "kubeconfig"

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        addresses = subprocess.run(["ip", "-o", "addr"], check=True, capture_output=True, text=True).stdout
        if NODE_ADDRESS not in addresses:
            subprocess.run(["ip", "addr", "add", f"{NODE_ADDRESS}/32", "dev", "lo"], check=True)
            threading.Thread(target=_pass_on, daemon=True).start()
        key, public = self.folder / "sa.key", self.folder / "sa.pub"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        subprocess.run(
            ["openssl", "rsa", "-in", key, "-pubout", "-out", public], check=True, capture_output=True
        )
        (self.folder / "tokens").write_text(f"{TOKEN},admin,admin,system:masters\n")
        self.kubeconfig.write_text(kubeconfig("127.0.0.1"))
        etcd, peer = (f"http://127.0.0.1:{port}" for port in (ETCD_PORT, PEER_PORT))
        self.start(
            "etcd",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        )
        self.start(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            f"--cert-dir={self.folder}/certificates",
            f"--secure-port={API_PORT}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder}/tokens",
            "--disable-admission-plugins=ServiceAccount",
            "--kubelet-preferred-address-types=InternalIP",
        )
        api = Api("127.0.0.1")
        self.wait_for_server()
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        status, answer = api.ask("POST", definitions, topology_definition())
        assert status == 201, answer
        wait_for("the definition of topologies", 120, lambda: api.ask("GET", TOPOLOGIES)[0] == 200)
        clients = [f"--kubeconfig={self.folder}/kubeconfig", "--leader-elect=false"]
        self.start("kube-controller-manager", *clients, "--secure-port=10357", *self.controllers)
        if self.scheduler:
            self.start("kube-scheduler", *clients, "--secure-port=10359")

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self.running)):
            self.stop(name)

    def wait_for_server(self) -> None:
        """Until the API server is ready."""
        wait_for("the API server", 120, lambda: Api("127.0.0.1").ask("GET", "/readyz")[0] == 200)

    def start(
        self,
        name: str,
        *arguments: str,
        program: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Start a program; its words go to ``NAME.log``."""
        self.commands[name] = [str(program or self.programs / name), *arguments]
        return self.start_again(name, environment)

    def start_again(self, name: str, environment: dict[str, str] | None = None) -> "subprocess.Popen[bytes]":
        """Start what was stopped, or ended by itself, as it was started before."""
        with (self.folder / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                self.commands[name],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=None if environment is None else {**os.environ, **environment},
            )
        self.running[name] = child
        return child

    def stop(self, name: str, *, kill: bool = False) -> None:
        """End a program; ``kill``: it has no say in it."""
        child = self.running.pop(name)
        if kill:
            child.kill()
        else:
            child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _pass_on() -> None:
    """Connections to the node's address go to the port that the virtual machine publishes."""
    with socket.create_server((NODE_ADDRESS, KUBELET_PORT)) as listener:
        while True:
            near, _ = listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", PUBLISHED), 10)
            except OSError:
                near.close()
                continue
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while piece := source.recv(65536):
            sink.sendall(piece)
    except OSError:
        pass
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
