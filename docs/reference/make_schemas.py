"""Write docs/reference/schemas/ from the types of documents: ``python docs/reference/make_schemas.py``."""

import json
from pathlib import Path

from numawise.results.schema import DOCUMENTS, schema

FOLDER = Path(__file__).parent / "schemas"


def pages() -> dict[str, str]:
    """Name → text of every schema."""
    return {
        f"{kind}.json": json.dumps(schema(kind), indent=2, ensure_ascii=False) + "\n" for kind in DOCUMENTS
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
