"""Inside the guest: ``guest.py PROGRAMS FOLDER node|switch|ROUND``, under a systemd of its own."""

import json
import os
import sys
import traceback
from pathlib import Path

from tests.vm import scopes

from e2e.hand import serve
from e2e.node import Node
from e2e.rounds import record
from e2e.switching import trial
from e2e.watching import watch_trial


def main(programs: str, out: str, what: str) -> int:
    folder = Path(out) / what
    folder.mkdir(parents=True, exist_ok=True)
    node = Node(Path(programs), folder)
    failed = False
    try:
        if what == "node":
            serve(node)
            return 0
        if what not in ("switch", "watch"):
            record(node, what, folder)
            return 0
        for name, right, said in trial(node, folder) if what == "switch" else watch_trial(node):
            print(json.dumps([name, "ok" if right else "failed", said]), flush=True)  # noqa: T201
            failed = failed or not right
    except Exception:  # noqa: BLE001 - said outside
        print(json.dumps(["it went on", "failed", traceback.format_exc()]), flush=True)  # noqa: T201
        failed = True
    return int(failed)


if __name__ == "__main__":
    if os.environ.get(scopes.INSIDE) is None:
        sys.exit(scopes.under_systemd([sys.executable, "-m", "e2e.guest", *sys.argv[1:]]))
    sys.exit(main(*sys.argv[1:]))
