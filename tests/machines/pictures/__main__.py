"""Draw the kept pictures anew; look at them before you commit them."""

from tests.machines.pictures import drawn

for path, content in drawn().items():
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
