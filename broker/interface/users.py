"""The user of this process, in whose name it puts messages where the program says nothing else."""

from __future__ import annotations

import os
import pwd
from functools import cache


def process_user() -> str:
    """The name of the user that the process runs as (its effective user), or the number of one without a name."""
    return _name(os.geteuid())


@cache
def _name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
