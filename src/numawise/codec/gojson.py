"""JSON the way Go writes and refuses it.

The kubelet's state files are compared byte by byte, and its complaints about them are what people
search for; both come from Go's ``encoding/json``.
"""

import json
import re
from typing import Any

from numawise.strconv import quote

PLAIN = re.compile(r"[^\x00-\x1f\"\\<>&\u2028\u2029\ud800-\udfff]*")
SPECIAL = re.compile(r"[<>&\u2028\u2029]")
SPACE = " \t\r\n"
LITERALS = {"t": "true", "f": "false", "n": "null"}
DEPTH = 10000


def text(value: str) -> str:
    """A string as Go's encoder writes it."""
    if PLAIN.fullmatch(value):
        return f'"{value}"'
    return SPECIAL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def kind_of(value: object) -> str:
    """What Go's decoder calls a value that it did not expect."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def decode(data: str) -> Any:  # noqa: ANN401 - JSON can be anything
    """Read JSON; raise ``ValueError`` in Go's words."""
    try:
        return json.loads(data, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("exceeded max depth") from None
    except ValueError:
        raise ValueError(complaint(data) or "unexpected end of JSON input") from None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def complaint(data: str) -> str:
    """What Go's scanner says about text that is not JSON; '' when it finds nothing wrong."""
    return _Scanner(data).run()


class _Scanner:
    """Walks the text until the first character that cannot stand there.

    At the end Go's scanner is shown one blank more, which ends numbers and is wrong inside a literal.
    """

    def __init__(self, data: str) -> None:
        self.data = data + " "
        self.at = 0

    def run(self) -> str:
        found = self.value("looking for beginning of value")
        if found is not None:
            return found
        self.skip()
        return self.bad("after top-level value") if self.at < len(self.data) else ""

    def skip(self) -> None:
        while self.at < len(self.data) and self.data[self.at] in SPACE:
            self.at += 1

    def bad(self, where: str) -> str:
        if self.at >= len(self.data):
            return "unexpected end of JSON input"
        return f"invalid character {_quoted(self.data[self.at])} {where}"

    def value(self, where: str) -> str | None:
        """Scan one value without recursion; a text is the complaint."""
        stack: list[str] = []
        expect = where
        while True:
            self.skip()
            char = self.data[self.at : self.at + 1]
            if char == "{":
                self.at += 1
                self.skip()
                if self.data[self.at : self.at + 1] != "}":
                    if found := self.key("looking for beginning of object key string"):
                        return found
                    stack.append("}")
                    expect = "looking for beginning of value"
                    continue
                self.at += 1
            elif char == "[":
                self.at += 1
                self.skip()
                if self.data[self.at : self.at + 1] != "]":
                    stack.append("]")
                    expect = "looking for beginning of value"
                    continue
                self.at += 1
            elif found := self.scalar(char, expect):
                return found
            while stack:
                self.skip()
                closing = stack[-1]
                after = "after object key:value pair" if closing == "}" else "after array element"
                char = self.data[self.at : self.at + 1]
                if char == ",":
                    self.at += 1
                    if closing == "}":
                        self.skip()
                        if found := self.key("looking for beginning of object key string"):
                            return found
                    break
                if char != closing:
                    return self.bad(after)
                self.at += 1
                stack.pop()
            if not stack:
                return None
            if len(stack) > DEPTH:
                return "exceeded max depth"
            expect = "looking for beginning of value"

    def key(self, where: str) -> str | None:
        if self.data[self.at : self.at + 1] != '"':
            return self.bad(where)
        if found := self.string():
            return found
        self.skip()
        if self.data[self.at : self.at + 1] != ":":
            return self.bad("after object key")
        self.at += 1
        return None

    def scalar(self, char: str, where: str) -> str | None:
        if char == '"':
            return self.string()
        if char in LITERALS and char:
            for wanted in LITERALS[char]:
                if self.data[self.at : self.at + 1] != wanted:
                    return self.bad(f"in literal {LITERALS[char]} (expecting {_quoted(wanted)})")
                self.at += 1
            return None
        if char == "-" or char.isdecimal():
            return self.number()
        return self.bad(where)

    def number(self) -> str | None:
        if self.data[self.at] == "-":
            self.at += 1
            if not self.digit():
                return self.bad("in numeric literal")
        if self.data[self.at] == "0":
            self.at += 1
        else:
            self.digits()
        if self.data[self.at] == ".":
            self.at += 1
            if not self.digit():
                return self.bad("after decimal point in numeric literal")
            self.digits()
        if self.data[self.at] in "eE":
            self.at += 1
            if self.data[self.at] in "+-":
                self.at += 1
            if not self.digit():
                return self.bad("in exponent of numeric literal")
            self.digits()
        return None

    def digit(self) -> bool:
        return "0" <= self.data[self.at] <= "9"

    def digits(self) -> None:
        while self.digit():
            self.at += 1

    def string(self) -> str | None:
        self.at += 1
        while self.at < len(self.data):
            char = self.data[self.at]
            if char == '"':
                self.at += 1
                return None
            if char == "\\":
                self.at += 1
                escape = self.data[self.at : self.at + 1]
                if escape == "u":
                    for _ in range(4):
                        self.at += 1
                        if self.data[self.at : self.at + 1] not in set("0123456789abcdefABCDEF"):
                            return self.bad("in \\u hexadecimal character escape")
                elif escape not in set('"\\/bfnrt'):
                    return self.bad("in string escape code")
            elif char < " ":
                return self.bad("in string literal")
            self.at += 1
        return "unexpected end of JSON input"


def _quoted(char: str) -> str:
    """A character as Go's complaints show it: of several bytes, only the first."""
    if char == "'":
        return r"'\''"
    if char == '"':
        return "'\"'"
    first = chr(char.encode(errors="surrogatepass")[0])
    return f"'{quote(first)[1:-1]}'"
