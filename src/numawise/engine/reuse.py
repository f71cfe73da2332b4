"""Which containers hand on what they had to later containers of their pod."""

from numawise.request.model import ContainerRequest, Role
from numawise.rules.model import Rules


def hands_on(rules: Rules, container: ContainerRequest) -> bool:
    """True for ordinary init containers; for sidecars only in releases that forget they go on running."""
    if container.role is Role.SIDECAR:
        return not rules.behaviour.sidecars_keep_their_share
    return container.role is Role.INIT
