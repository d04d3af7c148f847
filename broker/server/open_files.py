"""The files that the daemon may have open: each line of a program is one.

The system lets a process have some 1,000 unless it asks for more. That is fewer than the lines that may wait to log in
at one address (`[limits] lines_per_address`), and where there is none left, nobody is accepted any more.
"""

from __future__ import annotations

import logging
from typing import Final

logger = logging.getLogger(__name__)

OTHERS: Final = 1000
"""Files that are no lines: of the store, of programs of the daemon's own."""


def allow_open_files(lines: int) -> None:
    """Let the process have files for so many lines open, and for as many that have not logged in, as far as the system
    lets it. Logs how many it has where they do not suffice for the lines.
    """
    try:
        import resource
    except ImportError:  # no Unix
        return
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * lines + OTHERS
    if allowed == resource.RLIM_INFINITY or allowed >= wanted:
        return
    target = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    try:
        if target > allowed:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, most))
            allowed = target
    except (OSError, ValueError) as error:
        logger.warning(
            "the number of open files cannot be raised to %d: %s",
            target,
            error,
            extra={"event": "open_files_not_raised"},
        )
    if allowed < lines + OTHERS:
        logger.warning(
            "open files limited to %d: too few for [limits] connections = %d; raise the limit (ulimit -n, LimitNOFILE)",
            allowed, lines, extra={"event": "open_files_limited"},
        )  # fmt: skip
