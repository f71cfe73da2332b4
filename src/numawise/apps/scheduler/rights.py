"""What ``numawise scheduler`` needs at the API server: it reads, and changes nothing."""

from numawise.service.rights import VIEW_RIGHTS

SCHEDULER_RIGHTS = VIEW_RIGHTS
