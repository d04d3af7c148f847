"""The security parameters of a connection (MQCSP), with the channel that it comes in by."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, unique
from typing import Final


@unique
class CredentialKind(IntEnum):
    """The kind of what proves a user."""

    NONE = 0
    PASSWORD = 1
    TOKEN = 2


@dataclass(frozen=True, slots=True)
class SecurityParameters:
    """The channel that a program names, "" for the default one, and the secret of this kind that proves its user. The
    secret is in no `repr`.
    """

    channel: str = ""
    kind: int = CredentialKind.NONE
    secret: bytes = field(default=b"", repr=False)


NO_SECURITY_PARAMETERS: Final = SecurityParameters()
"""A connection that names no channel and proves no user."""
