"""The standard streams, where whoever started the program has closed them, as `evermq get Q >&-` does.

A descriptor from 0 to 2 that is closed would be given to the next thing that is opened: a socket, the event loop's own
pipes, which refuse it, or the database, into which a traceback would then be written. So each is taken before that, by
the null device opened the wrong way round: what reads or writes there fails, and a command whose output had nowhere to
go does not claim success. Standard error is thrown away: there is nobody to complain to.
"""

from __future__ import annotations

import os
import sys
from typing import Final

_WRONG_WAY: Final = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_WRONLY}


def open_closed() -> None:
    """Take the closed ones among the descriptors 0 to 2. Harmless when there are none."""
    for descriptor, flags in _WRONG_WAY.items():
        try:
            os.fstat(descriptor)
        except OSError:
            taken = os.open(os.devnull, flags)  # the lowest one that is free
            assert taken == descriptor
            os.set_inheritable(taken, True)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # as long as the program
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # so too
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115  # so too


def throw_output_away() -> None:
    """Let whatever is or was written to standard output go nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def output_is_closed() -> bool:
    """True if standard output cannot be written to."""
    try:
        os.write(1, b"")
    except OSError:
        return True
    return False
