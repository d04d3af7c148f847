"""The check of what a program brings to prove its user."""

from __future__ import annotations

from math import inf

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.security_parameters import CredentialKind


def check_credentials(kind: int, secret: bytes) -> float:
    """Return the seconds until a proof ends, infinity for one that does not. NOT_AUTHORIZED (2035) for any secret: no
    user has a password.
    """
    if kind != CredentialKind.NONE or secret:
        raise MQError(MQRC.NOT_AUTHORIZED, "this queue manager checks no passwords yet")
    return inf
