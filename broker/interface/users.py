"""Users: that of this process, in whose name it puts messages where the program says nothing else; and what the queue
manager lets a user do, and why.
"""

from __future__ import annotations

import os
import pwd
from functools import cache
from typing import TYPE_CHECKING

from broker.interface.port import answer
from broker.mqi.constants.objects import MQOT

if TYPE_CHECKING:
    from broker.interface.port import Port
    from broker.mqi.access import Access, OwnUser


def process_user() -> str:
    """The name of the user that the process runs as (its effective user), or the number of one without a name."""
    return _name(os.geteuid())


@cache
def _name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


class AccessQuestions:
    """A part of `Connection`: whose it is, and why somebody may do something or not. Nothing is changed by a question.

    Each user may ask about itself, and administrators about others: NOT_AUTHORIZED (2035).
    """

    port: Port

    async def own_user(self) -> OwnUser:
        """Return the user that the calls of this connection are judged as, with its groups, and whether it has proved
        who it is.
        """
        return await answer(self.port.own_user())

    async def explain_open(
        self, name: str, *, for_: str, as_user: str = "", q_mgr_name: str = "", object_type: int = MQOT.Q
    ) -> Access:
        """Explain whether `as_user`, the user of this connection if none is named, may open an object `for_` the rights
        of these words, "put,get" for example, or do to it what needs them.

        `steps` of the answer has a line for each rule, and `grant` the commands that would allow it where it is
        refused. The names are resolved as by an open: what that would raise for somebody who has the rights, such as
        UNKNOWN_OBJECT_NAME (2085), is raised here. OPTIONS_ERROR (2046) for a word that is no right.
        """
        return await answer(self.port.explain_open(name, q_mgr_name, object_type, as_user, for_))

    async def explain_connect(
        self, user: str, *, from_: str, channel: str = "", subject: str = "", issuer: str = "", plain: bool = False
    ) -> Access:
        """Explain whether `user` may connect from an address, by a channel or the usual one: with TLS unless the line
        is `plain`, with a certificate of this `subject` and `issuer` ("CN=app1, O=Example") if one is given. It is
        taken to know its password.

        The answer is as that of `explain_open`. OPTIONS_ERROR (2046) for what is no address, SSL_PEER_NAME_ERROR (2399)
        for what is no distinguished name.
        """
        return await answer(self.port.explain_connect(user, from_, channel, subject, issuer, plain))
