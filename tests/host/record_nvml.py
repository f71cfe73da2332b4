"""Record what NVML answers on this machine: ``python tests/host/record_nvml.py OUT.json``.

The recording holds each call with its arguments and its answer or error, so that ``replayed`` can stand
in for the library where there is no GPU.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "src"))


class Recorder:
    """Passes calls on to NVML and writes them down."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.NVMLError = nvml.NVMLError
        self.calls: list[dict[str, Any]] = []
        self.handles: dict[int, str] = {}
        self.kept: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.nvml, name)

        def call(*arguments: Any) -> Any:
            told = [self.handles.get(id(a), a) if not isinstance(a, int) else a for a in arguments]
            row: dict[str, Any] = {"call": name, "arguments": told}
            self.calls.append(row)
            try:
                answer = function(*arguments)
            except self.NVMLError as error:
                row["error"] = str(error)
                raise
            row["answer"] = self.plain(answer, name, arguments)
            return answer

        return call

    def plain(self, answer: Any, name: str, arguments: tuple[Any, ...]) -> Any:
        if "Handle" in name:
            self.kept.append(answer)
            self.handles[id(answer)] = "/".join([name, *map(str, arguments[-1:])])
            return {"handle": self.handles[id(answer)]}
        if isinstance(answer, bytes):
            return answer.decode()
        if isinstance(answer, str | int | float | None):
            return answer
        if hasattr(answer, "_fields_") and not hasattr(answer, "__getitem__"):
            found = {field[0]: getattr(answer, field[0]) for field in answer._fields_}
            return {
                "struct": {
                    k: v.decode() if isinstance(v, bytes) else v
                    for k, v in found.items()
                    if isinstance(v, bytes | str | int)
                }
            }
        return {"list": [int(word) for word in answer]}


class Replayed:
    """Answers as the recording says."""

    class NVMLError(Exception):
        """What NVML raises."""

    def __init__(self, recording: dict[str, Any]) -> None:
        self.answers = {(row["call"], json.dumps(row["arguments"])): row for row in recording["calls"]}

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            row = self.answers.get((name, json.dumps(list(arguments))))
            if row is None or "error" in row:
                raise self.NVMLError(row["error"] if row else "not recorded")
            answer = row["answer"]
            if isinstance(answer, dict):
                if "struct" in answer:
                    return SimpleNamespace(**answer["struct"])
                return answer.get("list", answer.get("handle"))
            return answer

        return call


def main() -> None:
    from numawise.host.nvml import read_gpus  # noqa: PLC0415
    from numawise.host.nvml_library import load  # noqa: PLC0415

    recorder = Recorder(load())
    hardware = read_gpus(recorder)
    driver = recorder.nvml.nvmlSystemGetDriverVersion()
    recording = {"driver": str(driver), "calls": recorder.calls}
    Path(sys.argv[1]).write_text(json.dumps(recording, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{hardware}\n")


if __name__ == "__main__":
    main()
