"""The names of users and groups (security 2.2)."""

from __future__ import annotations

import re
from typing import Final

ENTITY_LENGTH: Final = 12
"""The most characters of a name, as many as the UserIdentifier of a message has."""

_NAME: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{ENTITY_LENGTH}}}")


def is_entity(name: str) -> bool:
    """True for what can be the name of a user or a group; upper and lower case are different names."""
    return _NAME.fullmatch(name) is not None
