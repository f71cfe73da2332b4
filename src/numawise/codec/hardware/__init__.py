"""Hardware as other programs print or save it, one module for each format: text in, value out."""
