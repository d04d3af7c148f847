"""Both ends of a line, joined without a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.wire import Endpoint, Role, Verb
from broker.wire.frames import FRAME_BYTES, PRODUCT, VERSION
from broker.wire.verbs import BY_VERB

if TYPE_CHECKING:
    from collections.abc import Iterable

HELLO = (Verb.HELLO, 0, 0, PRODUCT, VERSION, VERSION, 30_000, FRAME_BYTES)
WELCOME = (Verb.WELCOME, 0, 0, PRODUCT, VERSION, "QM1", 30_000, FRAME_BYTES)


class Pair:
    """A client's end and a queue manager's, past the handshake unless it is asked for."""

    def __init__(self, *, frame_bytes: int = FRAME_BYTES, opened: bool = True) -> None:
        self.client = Endpoint(Role.CLIENT, FRAME_BYTES)
        self.server = Endpoint(Role.SERVER, frame_bytes)
        if opened:
            self.server.receive(self.client.send(*HELLO))
            self.client.receive(self.server.send(*WELCOME))


def fields(verb: int, result: object) -> tuple[Any, ...]:
    """The items of the ANSWER to a call with this verb."""
    return BY_VERB[verb].result.items(result)


def received(end: Endpoint, data: bytes, cuts: Iterable[int] = ()) -> list[list[Any]]:
    """The frames that `end` makes of `data` when it arrives in pieces, cut at these positions."""
    frames = []
    start = 0
    for cut in [*sorted(cuts), len(data)]:
        frames += end.receive(data[start:cut])
        start = cut
    return frames
