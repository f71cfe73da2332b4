"""Install the wheel with each extra in an environment of its own, and run every command there.

Needs a network for what numawise needs.  Exit status: 0 all do what they should, 1 some do not.
"""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cli.run import ROOT
from tests.extras import CORE, ENVIRONMENTS, UNREACHABLE, cases, kubeconfig, run_all

PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def made(folder: Path, extra: str, wheel: Path) -> Path:
    """The interpreter of an environment."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    interpreter = folder / "bin" / "python"
    wish = str(wheel) if extra == CORE else f"{wheel}[{extra}]"
    subprocess.run([interpreter, *PIP, "install", wish], check=True)
    return interpreter


def followed(interpreter: Path, folder: Path) -> None:
    """What the sentence in the environment without extras says is done, and then it asks the cluster."""
    place = folder / "kubeconfig"
    place.write_text(kubeconfig())
    why = [str(interpreter.with_name("numawise")), "why", "pod/x", "--kubeconfig", str(place)]
    said = subprocess.run(why, capture_output=True, text=True, check=False)
    assert said.returncode == 2, said
    subprocess.run(
        shlex.split(said.stderr.partition("install it: ")[2]), check=True, stdout=subprocess.DEVNULL
    )
    said = subprocess.run(why, capture_output=True, text=True, check=False)
    assert said.returncode == 5, said
    assert UNREACHABLE in said.stderr


def main() -> int:
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        subprocess.run([sys.executable, *PIP, "wheel", "--no-deps", "-w", str(folder), str(ROOT)], check=True)
        (wheel,) = folder.glob("*.whl")
        for extra in ENVIRONMENTS:
            interpreter = made(folder / extra, extra, wheel)
            scratch = folder / f"{extra}-files"
            scratch.mkdir()
            environment = run_all(extra, str(interpreter), scratch)
            for case in cases():
                try:
                    environment.check(case)
                except AssertionError as problem:
                    wrong += 1
                    sys.stdout.write(f"{extra}: numawise {case.name}: {problem}\n")
            sys.stdout.write(f"{extra}: {len(cases())} command lines\n")
        followed(folder / CORE / "bin" / "python", folder)
        sys.stdout.write(
            f"{CORE}: the sentence that says how to install an extra is followed, and it works\n"
        )
    sys.stdout.write(f"{wrong} do not what they should\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
