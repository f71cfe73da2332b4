"""The one ``-o``: in which form a command answers."""

from collections.abc import Callable
from typing import Any

import click


def output_option(*forms: str, words: str = "Form of the answer.") -> Callable[[Any], Any]:
    """``-o`` with these forms, the first unless another is asked for."""
    return click.option(
        "-o", "--output", type=click.Choice(forms), default=forms[0], show_default=True, help=words
    )
