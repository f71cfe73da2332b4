"""``numawise schema``: the JSON Schema of a document that ``-o json`` prints."""

import click


@click.command(
    epilog="""\b
Examples:
  numawise schema
  numawise schema Simulation > simulation.schema.json

\b
Exit status: 0; 2 an unknown kind."""
)
@click.argument("kind", required=False, metavar="[KIND]")
def command(kind: str | None) -> int:
    """Print the JSON Schema of a kind of document; without KIND, the kinds and what they are."""
    from numawise.codec.output import to_json  # noqa: PLC0415 - keeps --help quick
    from numawise.results.schema import DOCUMENTS, schema  # noqa: PLC0415

    if kind is not None:
        click.echo(to_json(schema(kind)), nl=False)
        return 0
    width = max(map(len, DOCUMENTS))
    for name in DOCUMENTS:
        click.echo(f"{name:<{width}}  {schema(name)['description']}".replace("``", "`"))
    return 0
