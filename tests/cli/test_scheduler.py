"""``numawise scheduler`` as typed, right and wrong."""

from pathlib import Path

import pytest
import yaml

from tests.cli.run import program
from tests.kube.server import kubeconfig


# fmt: off
@pytest.mark.parametrize(("words", "status", "said"), [
    (["--listen", "80"],                                       2, "--listen '80' is not an address and a port"),
    (["--listen", "off"],                                      2, "'off' is not an address"),
    (["--listen", "0.0.0.0:9443"],                             2, "0.0.0.0 would be answered in the clear; give --tls-cert"),
    (["--listen", "example.com:9443"],                         2, "example.com would be answered in the clear"),
    (["--pages", "x"],                                         2, "--pages 'x' is not an address and a port"),
    (["--tls-cert", "c.pem"],                                  2, "--tls-cert needs --tls-key; give both"),
    (["--tls-key", "k.pem"],                                   2, "--tls-key needs --tls-cert; give both"),
    (["--client-ca", "ca.pem"],                                2, "--client-ca needs --tls-cert and --tls-key"),
    (["--tls-cert", "/nowhere/c", "--tls-key", "/nowhere/k"],  3, "/nowhere/c cannot be read: No such file or directory"),
    (["--patience", "nan"],                                    2, "--patience nan is not a number of seconds"),
    (["--kept-seconds", "nan"],                                2, "--kept-seconds nan is not a number of seconds"),
    (["--kept-places", "9"],                                   2, "9 is not in the range 0<=x<=8"),
    (["--promise", "0"],                                       2, "0.0 is not in the range 1<=x<=3600"),
    (["--unpublished", "maybe"],                               2, "'maybe' is not one of 'pass', 'hold'"),
    (["--kubeconfig", "/nowhere/config"],                      5, "/nowhere/config: there is no such file"),
    (["extra"],                                                2, "Got unexpected extra argument (extra)"),
])
def test_typed_wrong(words: list[str], status: int, said: str) -> None:
    ran = program("scheduler", *words)
    assert ran.status == status
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_files_that_are_no_certificates(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("no certificate\n")
    ran = program("scheduler", "--tls-cert", tmp_path / "c", "--tls-key", tmp_path / "c")
    assert ran.status == 3
    assert "cannot be used" in ran.err


def test_the_configuration_for_kube_scheduler() -> None:
    ran = program("scheduler", "--print-config")
    assert ran.status == 0
    (extender,) = yaml.safe_load(ran.out)["extenders"]
    assert extender["urlPrefix"] == "http://127.0.0.1:9443"
    assert not extender["enableHTTPS"]
    words = ["--tls-cert", "c", "--tls-key", "k", "--client-ca", "a", "--listen", "[::1]:7000"]
    (extender,) = yaml.safe_load(program("scheduler", "--print-config", *words).out)["extenders"]
    assert extender["urlPrefix"] == "https://[::1]:7000"
    assert set(extender["tlsConfig"]) == {"caFile", "certFile", "keyFile"}


def test_what_would_be_done(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path / "config", "https://api.example.com:6443")
    ran = program("scheduler", "--dry-run", "--kubeconfig", config, "--unpublished", "hold")
    assert ran.status == 0
    text = " ".join(line.removeprefix("# ") for line in ran.out.splitlines() if line.startswith("#"))
    assert "Would answer kube-scheduler at 127.0.0.1:9443, in the clear" in text
    assert "Would read from https://api.example.com:6443, and change nothing: nodes (list, watch)" in text
    assert "Nodes that publish nothing: hold" in text
    assert yaml.safe_load(ran.out)["kind"] == "KubeSchedulerConfiguration"
