"""``numawise podman``: see ``docker``."""

from numawise.cli.docker import container_command

command = container_command("podman")
