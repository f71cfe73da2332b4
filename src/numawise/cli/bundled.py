"""The option by which commands take a bundle."""

import click

bundle_option = click.option(
    "--bundle",
    metavar="FILE",
    help="A node as 'numawise bundle' collected it: machine, configuration, state files and release at once.",
)
