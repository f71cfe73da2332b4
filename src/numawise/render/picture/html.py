"""A picture of a machine as one HTML file: the drawing, the tables as tables, and what else is to be said.

Rules kept here:

1. One file: no scripts, no fonts, no images, nothing is fetched.  A content security policy says so, and
   names the one style sheet by its hash.
2. Whatever comes from outside is escaped.
3. It reads well in light, dark and print, and without the drawing.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape

from numawise.render.picture.boxes import LEGEND, TABLE, Box, Picture
from numawise.render.picture.svg import DARK, FONTS, LIGHT, SHADES, ascii_markup, stylesheet, svg
from numawise.render.picture.tables import Table
from numawise.values import replace

LIGHT_PAGE = {"body": "#ffffff", "ink": "#1b1f24", "pre": "#f3f5f7"}
DARK_PAGE = {"body": "#0f1419", "ink": "#e6e9ed", "pre": "#1d242c"}
PAGE_STYLE = (
    ":root{color-scheme:light dark}"
    "body{margin:2rem auto;max-width:80rem;padding:0 1rem;line-height:1.5}"
    "svg{max-width:100%;height:auto}h2{font-size:1.1rem;margin:0 0 .5rem}"
    "section{overflow-x:auto;max-width:100%}"
    ".told{display:flex;flex-wrap:wrap;gap:2rem 3rem;padding:0 24px}.more{padding:1.5rem 24px 0}"
    "table{border-collapse:separate;border-spacing:2px;font-size:.85rem}"
    "th{font-weight:400;text-align:left;padding:.2rem .6rem .2rem 0}thead th{text-align:center}"
    "td{text-align:center;padding:.2rem .6rem;border-radius:3px}"
    "dl{margin:0;max-width:40rem}dt{font-weight:600;float:left;clear:left;min-width:5rem}dd{margin-left:6rem}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;padding:.75rem;border-radius:6px}"
)


def html(picture: Picture, sections: Sequence[tuple[str, Sequence[str]]] = ()) -> str:
    """The page; ``sections`` are further headings with lines of text below the tables."""
    style = page_style()
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    drawn = [box for box in picture.box.boxes if box.kind not in (TABLE, LEGEND)]
    tables = [box for box in picture.box.boxes if box.kind in (TABLE, LEGEND)]
    drawing = replace(picture, box=replace(picture.box, boxes=tuple(drawn)))
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="generator" content="numawise">',
        f"<title>{escape(picture.name)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        svg(drawing, style=False).rstrip(),
        f'<div class="told">{"".join(map(_section, tables))}</div>',
    ]
    for title, lines in sections:
        told_lines = escape("\n".join(lines))
        parts.append(f'<section class="more"><h2>{escape(title)}</h2><pre>{told_lines}</pre></section>')
    parts += ["</body>", "</html>"]
    return ascii_markup("\n".join(parts) + "\n")


def page_style() -> str:
    """The one style sheet: the page's and the drawing's, light and dark."""
    light, dark = _colours(LIGHT_PAGE, LIGHT), _colours(DARK_PAGE, DARK)
    body = f"body{{font-family:{FONTS}}}"
    return f"{PAGE_STYLE}{body}{light}@media (prefers-color-scheme:dark){{{dark}}}{stylesheet()}"


def _colours(page: Mapping[str, str], drawing: Mapping[str, str]) -> str:
    cells = "".join(f"td.{shade}{{background:{drawing[shade]}}}" for shade in SHADES)
    return f"body{{background:{page['body']};color:{page['ink']}}}pre{{background:{page['pre']}}}{cells}"


def _section(box: Box) -> str:
    if box.table:
        return _table(box.title, box.table)
    entries = "".join(
        f"<dt>{escape(entry.title)}</dt><dd>{escape(' '.join(entry.lines))}</dd>" for entry in box.boxes
    )
    return f"<section><h2>{escape(box.title)}</h2><dl>{entries}</dl></section>"


def _table(title: str, table: Table) -> str:
    if not table.columns:
        return f"<section><h2>{escape(title)}</h2><p>{escape(table.note)}</p></section>"
    shades = dict(table.shades)
    heads = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    rows = "".join(
        f'<tr><th scope="row">{escape(row.label)}</th>'
        + "".join(f'<td class="{shades.get(cell, "none")}">{escape(cell)}</td>' for cell in row.cells)
        + "</tr>"
        for row in table.rows
    )
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    corner = f'<th scope="col">{escape(table.corner)}</th>'
    head = f"<thead><tr>{corner}{heads}</tr></thead>"
    return f"<section><h2>{escape(title)}</h2><table>{head}<tbody>{rows}</tbody></table>{note}</section>"
