"""Identifiers that stand for none, and the tags of accounting and security identifiers.

They are plain `bytes` of the length of their field, because ordinary identifiers are.
"""

from enum import IntEnum
from typing import Final

MQMI_NONE: Final = bytes(24)
"""No message identifier: the queue manager makes one on a put, any will do on a get."""

MQCI_NONE: Final = bytes(24)
"""No correlation identifier; on a get, any will do."""

MQCI_NEW_SESSION: Final = b"AMQ!NEW_SESSION_CORRELID"
"""The correlation identifier that starts a session with the CICS bridge."""

MQGI_NONE: Final = bytes(24)
"""No group identifier; on a get, any will do."""

MQMTOK_NONE: Final = bytes(16)
"""No message token; on a get, any will do."""

MQACT_NONE: Final = bytes(32)
"""No accounting token."""

MQSID_NONE: Final = bytes(40)
"""No security identifier."""

MQCONNID_NONE: Final = bytes(24)
"""No connection identifier."""

MQCT_NONE: Final = bytes(128)
"""No connection tag."""


class MQACTT(IntEnum):
    """The kind of an accounting token: its last byte."""

    UNKNOWN = 0
    CICS_LUOW_ID = 1
    OS2_DEFAULT = 4
    DOS_DEFAULT = 5
    UNIX_NUMERIC_ID = 6
    OS400_ACCOUNT_TOKEN = 8
    WINDOWS_DEFAULT = 9
    NT_SECURITY_ID = 11
    AZUREAD_SECURITY_ID = 12
    MS_ACC_AUTH_SECURITY_ID = 13
    USER = 25


class MQSIDT(IntEnum):
    """The kind of a security identifier: its second byte."""

    NONE = 0
    NT_SECURITY_ID = 1
    WAS_SECURITY_ID = 2
