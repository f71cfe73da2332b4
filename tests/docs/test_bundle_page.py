"""The pages about bundles show what the commands really print, and tell every field."""

import re
from pathlib import Path

import pytest
import yaml
from tests.cli.run import numawise
from tests.kube.server import State, kubeconfig, serving
from tests.kube.test_why_live import event, mirror, node
from tests.nodetree import CONFIG, grow_node, pod_list

from numawise.codec.bundle.config import PRIVATE
from numawise.codec.bundle.manifest import Manifest, manifest_document
from numawise.results.plain import plain

DOCS = Path(__file__).parents[2] / "docs"
HOW_TO, REFERENCE = (DOCS / "how-to/bundle-a-node.md").read_text(), (DOCS / "reference/bundle.md").read_text()
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def sessions() -> dict[str, str]:
    """Command → what the page shows of it."""
    found = {}
    for block in re.findall(r"```console\n(.*?)```", HOW_TO, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found[command] = output
    return found


def test_sessions_are_real(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    grow_node(tmp_path / "root")
    (tmp_path / "pods.json").write_text(pod_list())
    state = State(
        pods=[mirror(letter) for letter in "abcd"],
        nodes={"n1": node()},
        configz={"n1": yaml.safe_load(CONFIG)},
        events=[event("train-c-n1")],
    )
    shown = 0
    with serving(state) as server:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", server.address)))
        for command, output in sessions().items():
            if not output:
                continue
            words = command.removeprefix("sudo ").removeprefix("kubectl ").split()[1:]
            if words[0] == "bundle" and "show" not in words:
                words += ["--root", "root", "--kube", "1.36.4"]
            ran = numawise(capsys, *words)
            told = TIME.sub("2026-11-15T08:00:00Z", ran.out + ran.err)
            assert told == output, command
            shown += 1
    assert shown == 4


@pytest.mark.parametrize("name", list(plain(manifest_document(Manifest(), {}))))
def test_every_field_of_the_manifest_is_told(name: str) -> None:
    assert f"| `{name}` |" in REFERENCE


def test_fields_that_are_taken_out_are_told() -> None:
    told = {"tlsCertFile": "certificates", "tlsPrivateKeyFile": "keys", "clientCAFile": "certificates"}
    told |= {"endpoint": "endpoints", "preloadedImagesVerificationAllowlist": "allow-lists of images"}
    told |= {"staticPodURLHeader": "its header"}
    for name in PRIVATE:
        assert f"`{name}`" in REFERENCE or told[name] in REFERENCE, name
