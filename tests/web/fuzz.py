"""``make fuzz-api``: calls made up from the OpenAPI document, until one breaks a promise.

    python -m tests.web.fuzz [--examples N] [--seed K] [--tool FILE] [-- WORDS FOR SERVE]

A server is started, with a ledger of its own and with leave to change things; the tool (schemathesis, in an environment of
its own) reads the document from it and sends what that allows and what it forbids.  An answer that is the server's own
failure, that is not promised, or that does not come within ``SECONDS`` is a finding.  A server that does not end well, or that
has logged a mistake, is one, too.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOL = ROOT / ".venv-fuzz/bin/schemathesis"
SECONDS = 30
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "allow_header_conformance"
)
ADDRESS = re.compile(r"http://[0-9.]+:[0-9]+")
MISTAKE = re.compile(r'"level": "error"|Traceback')


def main() -> int:
    """Start a server, let the tool at it, and see how both end."""
    parser = argparse.ArgumentParser(prog="python -m tests.web.fuzz", description="Made-up calls of the API.")
    parser.add_argument("--examples", type=int, default=50, help="for each call")
    parser.add_argument("--seed", type=int, default=1, help="other calls")
    parser.add_argument("--tool", default=str(TOOL), help="where schemathesis is")
    parser.add_argument("words", nargs="*", help="what numawise serve is told, such as --machine 8gpu-server")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMAWISE_LEDGER": f"{folder}/ledger"}
        log = Path(folder, "log")
        with log.open("w") as stream:
            server = subprocess.Popen(
                [sys.executable, "-m", "numawise", "serve", "--listen", "127.0.0.1:0", "--allow-changes", *options.words],
                cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
            )  # fmt: skip
        try:
            status = _fuzz(options, _address(server, log), folder)
        finally:
            server.terminate()
        ended = server.wait()
        mistakes = [line for line in log.read_text().splitlines() if MISTAKE.search(line)]
    said = [f"the server ended with {ended}; mistakes in its log: {len(mistakes)}", *mistakes[:20]]
    sys.stdout.write("".join(f"{line}\n" for line in said))
    return status or ended or bool(mistakes)


def _fuzz(options: argparse.Namespace, address: str, folder: str) -> int:
    words = [
        options.tool, "run", f"{address}/api/v1/openapi.json", "--url", f"{address}/api/v1",
        "--checks", CHECKS, "--max-examples", str(options.examples), "--seed", str(options.seed),
        "--request-timeout", str(SECONDS), "--phases", "examples,coverage,fuzzing", "--continue-on-failure",
        "--exclude-path", "/events", "--suppress-health-check", "all", "--no-color", "--warnings", "off",
    ]  # fmt: skip
    return subprocess.run(words, cwd=folder, check=False).returncode


def _address(server: "subprocess.Popen[bytes]", log: Path) -> str:
    while server.poll() is None:
        found = ADDRESS.search(log.read_text())
        if found:
            return found[0]
    raise SystemExit(f"the server has ended: {log.read_text()}")


if __name__ == "__main__":
    sys.exit(main())
