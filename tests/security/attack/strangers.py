"""Attacks on the login, by those who have no user: all that they may come to is to be refused."""

from __future__ import annotations

import asyncio
import socket
import ssl
from itertools import count, cycle
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.mqi import MQRC
from broker.mqi.security_parameters import CredentialKind
from broker.wire import Endpoint, Role, Verb
from tests.security.attack.scene import SPRAYED
from tests.security.network.served import HOST_NAME, PORT
from tests.wire.ends import HELLO

if TYPE_CHECKING:
    from tests.security.attack.attacker import Attacker

_HANDSHAKES: Final = 50
_SPRAYING: Final = 30
_FORGING: Final = 30  # as many lines of one address as are let be
_RESUMING: Final = 4
_TRIES: Final = 4  # on one line
_KEPT: Final = 10
_PATIENCE_SECONDS: Final = 5.0


async def handshake_flood(attacker: Attacker) -> None:
    """Shake hands, and hang up."""
    context = attacker.context()

    async def shake() -> None:
        (await attacker.dial(context)).close()
        attacker.seen["handshakes"] += 1

    await attacker.repeat(_HANDSHAKES, shake)


async def spray(attacker: Attacker) -> None:
    """Try a wrong password of each of a thousand names, again and again."""
    context = attacker.context()
    names = cycle(SPRAYED)

    async def guess() -> None:
        program = await attacker.program(context)
        try:
            for number in range(_TRIES):
                name = next(names)
                frame = await program.connect(name, f"guess {number} of {name}")
                _must_be_refused(attacker, frame, f"the password of {name}")
                attacker.seen["wrong passwords"] += 1
        finally:
            program.close()

    await attacker.repeat(_SPRAYING, guess)


async def tokens(attacker: Attacker) -> None:
    """Bring tokens that have ended, that others have signed, and that nobody has."""
    context = attacker.context()
    forged = cycle(attacker.forged.items())
    names = count()

    async def forge() -> None:
        program = await attacker.program(context)
        try:
            what, token = next(forged)
            frame = await program.connect(f"forger {next(names)}", token, CredentialKind.TOKEN)  # who is not late
            _must_be_refused(attacker, frame, f"a token {what}")
            attacker.seen["forged tokens"] += 1
        finally:
            program.close()

    await attacker.repeat(_FORGING, forge)


def _must_be_refused(attacker: Attacker, frame: list[Any], what: str) -> None:
    if (frame[0], frame[3]) != (Verb.FAILED, MQRC.NOT_AUTHORIZED):
        attacker.complain(f"{what} was not refused: {frame}")


async def resumption(attacker: Attacker) -> None:
    """Shake hands, and resume the session on other lines: it is no login, and behind a reload of the certificates there
    is none any more.
    """
    contexts = cycle([attacker.context(version) for version in ("TLSv1_2", "TLSv1_3")])

    async def resume() -> None:
        if attacker.sessions and attacker.reloaded:
            context, session = attacker.sessions.pop()
            old = await asyncio.to_thread(_shaken, attacker.server, context, session)
            attacker.seen["sessions from before a reload"] += 1
            if old.resumed:
                attacker.complain(f"a session of {context.minimum_version.name} was resumed behind a reload")
            return
        context = next(contexts)
        first = await asyncio.to_thread(_shaken, attacker.server, context, None)
        if first.session is None:
            attacker.seen[f"no session of {context.minimum_version.name}"] += 1
            return
        again = await asyncio.to_thread(_shaken, attacker.server, context, first.session)
        attacker.seen["sessions resumed" if again.resumed else "sessions not resumed"] += 1
        if again.heard != Verb.FAILED:
            attacker.complain(f"a session that was resumed got {again.heard} without a login")
        if len(attacker.sessions) < _KEPT and not attacker.reloaded:
            attacker.sessions.append((context, first.session))

    await attacker.repeat(_RESUMING, resume)


class _Shaken(NamedTuple):
    """A handshake: its session, whether that is an old one, and the verb that answered a CONNECT without a secret."""

    session: ssl.SSLSession | None
    resumed: bool
    heard: int


def _shaken(address: str, context: ssl.SSLContext, session: ssl.SSLSession | None) -> _Shaken:
    """Shake hands, and ask to come in. Raises EOFError where the daemon hangs up."""
    end = Endpoint(Role.CLIENT)
    with (
        socket.create_connection((address, PORT), timeout=_PATIENCE_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=HOST_NAME, session=session) as line,
    ):
        frames: list[list[Any]] = []
        for said in (HELLO, (Verb.CONNECT, 1, 1, "", "stranger", "root")):
            line.sendall(end.send(*said))
            there = len(frames)
            while len(frames) == there:
                if not (data := line.recv(65_536)):
                    raise EOFError
                frames += end.receive(data)
        session = line.session if line.session and line.session.id else None
        shaken = _Shaken(session, bool(line.session_reused), frames[1][0])
        line.unwrap()  # OpenSSL forgets the session of a line that is cut
        return shaken
