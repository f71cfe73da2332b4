"""What launchers say on standard error, beside their job's own words."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numawise.apps.launch.capacity import Site
    from numawise.apps.launch.no_room import NoRoom
    from numawise.apps.launch.run import Started


def say(text: str) -> None:
    """One line, at once."""
    print(f"numawise: {text}", file=sys.stderr, flush=True)  # noqa: T201 - click.echo is slower than the job


class Teller:
    """Tells a user how it goes with a job, unless that is not wanted."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet

    def started(self, started: "Started") -> None:
        """What the job got."""
        from numawise.render.holds import started_line  # noqa: PLC0415 - keeps --help quick

        if not self.quiet:
            say(started_line(started))
            for remark in started.remarks:
                say(f"  {remark}")

    def waiting(self, found: "NoRoom") -> None:
        """Why it does not start yet."""
        if not self.quiet:
            say(f"waiting: {found.reason}")

    def ended(self, ended: "int | NoRoom", site: "Site | None" = None) -> int:
        """The exit status of a job, or of there being no room for it, which is told with who holds what."""
        if isinstance(ended, int):
            return ended
        from numawise.apps.launch.run import this_site  # noqa: PLC0415 - keeps --help quick
        from numawise.host.settings import read_settings  # noqa: PLC0415
        from numawise.render.holds import no_room_lines  # noqa: PLC0415

        for line in no_room_lines(ended, site or this_site(read_settings())):
            say(line)
        return 1
