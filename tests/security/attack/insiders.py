"""Attacks of a user who may connect, and has no other right: verbs with what others have opened, claimed and staged,
and floods from an address that is trusted since a user has logged in there.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from broker.wire import Verb
from broker.wire.verbs import BY_VERB
from tests.security.attack.attacker import HUNG_UP
from tests.security.attack.scene import INSIDER
from tests.security.attack.sockets import half_open
from tests.security.attack.strangers import handshake_flood
from tests.wire.test_golden_frames import CLIENT

if TYPE_CHECKING:
    from tests.security.attack.attacker import Attacker
    from tests.security.lines import Program

CONNECT_ALONE: Final = {
    Verb.BEGIN: "it changes nothing",
    Verb.COMMIT: "the unit of work is its own",
    Verb.BACKOUT: "the unit of work is its own",
    Verb.SERIALIZE: "a connection tag gives no right",
    Verb.SETTLE: "each delivery in it is refused",
    Verb.SINK: "a sink that is not there has no queue",
    Verb.DISCARD: "nor has a unit that is not there",
    Verb.TRIGGER_PENDING: "it shows the queues alone that may be got from",
    Verb.TRIGGER_WAIT: "it tells that something has happened",
    Verb.DISCONNECT: "the connection is its own",
}
"""Verbs that a user who may connect may call, and why that is nothing."""

FRAMES: Final = [
    (frame[0], frame[3:]) for frame in CLIENT if frame[0] not in (Verb.HELLO, Verb.HEARTBEAT, Verb.CONNECT)
]
"""A frame of each kind that a client sends: of each verb, and with numbers that somebody else may have."""

_LINES: Final = 4
_LOGINS: Final = 50
_LAST: Final = (Verb.TRIGGER_WAIT, Verb.DISCONNECT, Verb.CANCEL, Verb.TAKEN)
_FINAL: Final = frozenset({Verb.ANSWER, Verb.FAILED, Verb.CANCELLED})
_ANSWER_SECONDS: Final = 5.0


async def verbs(attacker: Attacker) -> None:
    """Call every verb, as a user who may do nothing but connect, and before a login: none has an effect."""
    context = attacker.context()
    numbers = iter(range(1 << 60))

    async def call_all() -> None:
        program = await attacker.program(context)
        try:
            if (frame := await program.connect(INSIDER))[0] != Verb.ANSWER:
                attacker.complain(f"who may connect was refused: {frame}")
            for verb, items in sorted(FRAMES, key=lambda each: each[0] in _LAST):
                program.say(verb, *items)
                attacker.seen["frames without a right"] += 1
                if verb in BY_VERB and verb not in _LAST:
                    with anyio.fail_after(_ANSWER_SECONDS):
                        frame = await _final(program)
                    if frame[0] == Verb.ANSWER and verb not in CONNECT_ALONE:
                        attacker.complain(f"{verb.name} was answered: {frame}")
            await program.hear()
        except TimeoutError:
            attacker.complain("a call of who has no right was not answered")
        finally:
            program.close()

    async def call_before_login() -> None:
        program = await attacker.program(context)
        try:
            verb, items = FRAMES[next(numbers) % len(FRAMES)]
            program.say(verb, *items)
            attacker.seen["frames before a login"] += 1
            if (frame := await program.hear())[0] == Verb.ANSWER:
                attacker.complain(f"{verb.name} was answered before a login: {frame}")
        finally:
            program.close()

    async with anyio.create_task_group() as tasks:
        for step in (call_all, call_before_login):
            tasks.start_soon(attacker.repeat, _LINES, step)


async def trusted_half_open(attacker: Attacker) -> None:
    """Have 10,000 sockets open at an address from which a user has logged in."""
    await _log_in(attacker)
    await half_open(attacker)


async def trusted_handshakes(attacker: Attacker) -> None:
    """Shake hands, and hang up, at an address from which a user has logged in."""
    await _log_in(attacker)
    await handshake_flood(attacker)


async def _log_in(attacker: Attacker) -> None:
    """Log in a few times: whoever does so more often than he fails is trusted to come in greater numbers."""
    context = attacker.context()
    for _ in range(_LOGINS):
        with suppress(*HUNG_UP):
            program = await attacker.program(context)
            attacker.seen["logins"] += (await program.connect(INSIDER))[0] == Verb.ANSWER
            program.close()


async def _final(program: Program) -> list[Any]:
    """The final frame of the call that was made last."""
    while (frame := await program.hear())[2] != program.number or frame[0] not in _FINAL:
        pass
    return frame
