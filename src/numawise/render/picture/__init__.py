"""The machine drawn: one layout, as text, SVG and HTML."""
