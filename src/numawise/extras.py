"""Extras: libraries that only some commands need, and how to install those that are missing.

Rules kept here:

1. A command asks for its libraries before it begins; without them it ends with one sentence.
2. The sentence names what this installation was made of, if that is still there: an index of packages may
   give the name of this package to anybody.
3. A folder or a wheel is named only where root, this user or the owner of the installation has put it.
"""

import json
import os
import shlex
import sys
from importlib import import_module
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from numawise.errors import MissingExtra

RECORD = "direct_url.json"
"""Where an installer writes what it has installed a package from (PEP 610)."""


def needed(extra: str, *libraries: str) -> None:
    """Raise ``MissingExtra`` if one of these libraries, which come with an extra, is not installed.

    ``extra``: its name, or several with a comma between them.
    """
    for library in libraries:
        try:
            import_module(library)
        except ImportError as problem:
            raise MissingExtra(
                f"{problem.name or library} is not installed, which comes with the extra {extra}",
                how_to_install(extra),
            ) from None


def how_to_install(extra: str) -> str:
    """The command that adds an extra to this installation, or what to do where its source is not known."""
    try:
        package = distribution("numawise")
    except PackageNotFoundError:
        source = ""
    else:
        source = _source(package)
    if source:
        options = "--editable " if source.endswith("/") else ""
        wish = shlex.quote(f"{source.rstrip('/')}[{extra}]")
        return f"install it: {shlex.quote(sys.executable or 'python3')} -m pip install {options}{wish}"
    return (
        f"in the folder of numawise's sources: pip install '.[{extra}]'; in that of its wheel: "
        f"pip install './numawise-VERSION-py3-none-any.whl[{extra}]'"
    )


def _source(package: Distribution) -> str:
    """The folder or file a package was installed from, if it is there; an editable one ends with a slash."""
    try:
        record = json.loads(package.read_text(RECORD) or "{}")
        url = urlsplit(record["url"])
        path = Path(unquote(url.path))
        if url.scheme != "file" or url.netloc not in ("", "localhost") or not path.is_absolute():
            return ""
        owners = {0, os.geteuid(), Path(str(package.locate_file(""))).stat().st_uid}
        if path.stat().st_uid not in owners:
            return ""  # rule 3
        is_edited = record.get("dir_info", {}).get("editable") is True
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        return ""
    return f"{path}/" if is_edited else str(path)
