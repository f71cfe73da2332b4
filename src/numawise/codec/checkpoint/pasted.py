"""State files as people paste them: out of a terminal, with prompts, commands and what tools say around them.

Rules kept here:

1. A text that is one JSON value is left alone, whatever is wrong with it; so is one in which anything around
   the values looks like neither a prompt nor a tool's word: the kubelet would refuse such a file.
2. Several files may stand one after the other.
3. Line ends that a terminal put into a long line are taken out, when that makes it JSON.
"""

import json
import re
from collections.abc import Iterator

STEERING = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))|\r")
PROMPT = re.compile(r"\(?[\w.@:~/\\ \-\[\]()+=,]{0,200}[$#>%\u276f\u279c](?:\s.{0,500})?")
COMMAND = re.compile(
    r"\s*(?:sudo\s+|\+\s+)?(?:cat|jq|ssh|kubectl|oc|talosctl|crictl|docker|chroot|cd|exit|logout|less|head)\b.{0,500}"
)
NOISE = re.compile(
    r"\s*(?:Defaulted container .*|Unable to use a TTY.*|Warning: Permanently added .*"
    r"|Connection to .* closed\.?|Starting pod/.*|Creating debug(?:ging)? pod .*|Removing debug pod.*"
    r"|To use host binaries, run .*"
    r"|Pod IP: .*|If you don't see a command prompt.*|All commands and output from this session .*"
    r"|Last login: .*|command terminated with exit code \d+|-{3,}|={3,}|`{3}\w*"
    r"|(?:==> )?\S*(?:cpu_manager_state|memory_manager_state|kubelet_internal_checkpoint)\S*:?(?: <==)?)\s*"
)
OPENING = re.compile(r'\{\s*"')
MOST_VALUES = 20


def pasted(text: str) -> tuple[str, ...]:
    """The state files in a text that was pasted; none when it is not such a text (rule 1)."""
    stripped = text.strip()
    if _ends(stripped, 0) == len(stripped):
        return ()
    text = STEERING.sub("", text)
    values: list[str] = []
    around: list[str] = []
    for piece, is_value in _pieces(text):
        (values if is_value else around).append(piece)
        if len(values) > MOST_VALUES:
            return ()
    lines = [line for piece in around for line in piece.split("\n") if line.strip()]
    known = all(any(kind.fullmatch(line) for kind in (PROMPT, COMMAND, NOISE)) for line in lines)
    return tuple(values) if values and known else ()


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Values and what stands between them, in order."""
    at = 0
    while at < len(text):
        opening = OPENING.search(text, at)
        if opening is None:
            break
        start = opening.start()
        end = _ends(text, start)
        joined = ""
        if end is None:
            joined = _unwrapped(text, start)
            end = text.rfind("}") + 1 if joined else None
        if end is None:
            break
        yield text[at:start], False
        yield joined or text[start:end], True
        at = end
    yield text[at:], False


def _ends(text: str, start: int) -> int | None:
    """Where the JSON object that begins here ends; None: it is none."""
    if text[start : start + 1] != "{":
        return None
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None


def _unwrapped(text: str, start: int) -> str:
    """The rest up to the last brace without its line ends; '' where that is not JSON (rule 3)."""
    joined = text[start : text.rfind("}") + 1].replace("\n", "")
    return joined if _ends(joined, 0) == len(joined) else ""
