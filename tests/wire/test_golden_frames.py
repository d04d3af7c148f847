"""The bytes of every frame, kept in a file: what this version writes, later versions must read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.interface.answers import Connected
from broker.mqi import MQOO
from broker.wire import Endpoint, Role, Verb, answers
from broker.wire.arguments import AS_BEFORE
from broker.wire.delivery_wire import packed_settlements
from broker.wire.results import pairs
from broker.wire.structures import DescriptorPacker, object_fields, packed_get_options, packed_put_options
from broker.wire.verbs import BY_VERB
from tests.wire.ends import HELLO, WELCOME, Pair, fields
from tests.wire.samples import (
    CALLS,
    CHECKED,
    ERRORS,
    GMO,
    HISTORY_TERMS,
    ITEMS,
    LIST,
    LIST_PMO,
    LIST_RESULTS,
    MD,
    OD,
    PARTS,
    PMO,
    PUT_TERMS,
    RESULTS,
    SECURED,
    STEPPED,
    STOPPED,
    TERMED_RESULTS,
    TOKEN,
    VALUED_SETTLEMENTS,
    WARNED,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).with_name("golden.txt")

packed = DescriptorPacker().pack

FIELDS: dict[Verb, tuple[Any, ...]] = {
    Verb.OPEN: (object_fields(OD), CALLS[Verb.OPEN][1][1]),
    Verb.PUT: (7, packed(MD), packed_put_options(PMO), b"hello"),
    Verb.PUT1: (object_fields(OD), None, packed_put_options(PMO), b"hello"),
    Verb.GET: (7, None, packed_get_options(GMO), 100),
    Verb.GET_MANY: (7, None, packed_get_options(GMO), 64),
    Verb.SET: (7, pairs(CALLS[Verb.SET][1][1])),
    **ITEMS,
}
CLAIM_CALLS = tuple(verb for verb in CALLS if Verb.CONSUMER <= verb <= Verb.BROWSE_CUTS)
HANDLING_CALLS = (Verb.RELEASE_WAITING, Verb.SERVE, Verb.STOP_SERVING, Verb.TAKE, Verb.SETTLE)
ACCESS_CALLS = (Verb.EXPLAIN_OPEN, Verb.EXPLAIN_CONNECT, Verb.OWN_USER)
UNIT_CALLS = (Verb.PREPARE, Verb.PREPARE_DELIVERIES, Verb.DECIDE, Verb.DOUBTS, Verb.IN_DOUBT)
LATER = (
    *CLAIM_CALLS,
    *HANDLING_CALLS,
    Verb.DELIVERY_CONNECT,
    Verb.SERIALIZE,
    Verb.AUTHENTICATE,
    *ACCESS_CALLS,
    Verb.FIGURES,
    Verb.RECENT_LOG,
    Verb.STEP,
    *UNIT_CALLS,
)
"""The calls whose frames stand behind those of the first version."""

CLIENT: list[tuple[Any, ...]] = [
    HELLO,
    (Verb.HEARTBEAT, 0, 0),
    (Verb.CONNECT, 1, 1, "QM1", "orders", "alice"),
    *(
        (verb, 1, number, *FIELDS.get(verb, items))
        for number, (verb, (_, items)) in enumerate(CALLS.items(), 2)
        if verb not in LATER
    ),
    (Verb.TRIGGER_DONE, 1, 0, [1, 2]),
    (Verb.TRIGGER_RETURN, 1, 0, [3]),
    (Verb.TAKEN, 0, 0, [1, 200, 70_000]),
    (Verb.CANCEL, 1, 2**40),
    (Verb.OPEN, 1, 200, object_fields(LIST), int(MQOO.OUTPUT)),
    (Verb.PUT, 1, 201, 7, packed(MD), packed_put_options(LIST_PMO), b"hello"),
    (Verb.PUT1, 1, 202, object_fields(LIST), None, packed_put_options(LIST_PMO), b"hello"),
    (Verb.PUT_MANY, 1, 203, 7, packed_put_options(PMO), 0, packed(MD), b"hello", AS_BEFORE, b"again", None, b""),
    (Verb.PUT_MANY, 1, 204, 7, packed_put_options(PMO), 203, None, b"more"),
    (Verb.GIVE_BACK, 1, 0, 7, [TOKEN, bytes(16)], TOKEN),
    (Verb.MQSC, 1, 205, *CHECKED),
    *((verb, 1, number, *FIELDS.get(verb, CALLS[verb][1])) for number, verb in enumerate(CLAIM_CALLS, 206)),
    *((verb, 1, number, *FIELDS.get(verb, CALLS[verb][1])) for number, verb in enumerate(HANDLING_CALLS, 300)),
    (Verb.DELIVERY_CONNECT, 2, 310, 1, 17, "orders"),
    (Verb.PUT, 1, 311, 7, packed(MD), packed_put_options(PMO), list(PUT_TERMS), b"hello"),
    (Verb.PUT1, 1, 312, object_fields(OD), None, packed_put_options(PMO), list(PUT_TERMS), b"hello"),
    (Verb.GET, 1, 313, 7, None, packed_get_options(GMO), 100, True),
    (Verb.SERIALIZE, 1, 320, *CALLS[Verb.SERIALIZE][1]),
    (Verb.CONNECT, 3, 321, *BY_VERB[Verb.CONNECT].items(SECURED)),
    (Verb.AUTHENTICATE, 3, 322, *CALLS[Verb.AUTHENTICATE][1]),
    *((verb, 1, number, *CALLS[verb][1]) for number, verb in enumerate(ACCESS_CALLS, 323)),
    (Verb.FIGURES, 1, 330, *CALLS[Verb.FIGURES][1]),
    (Verb.RECENT_LOG, 1, 331, *CALLS[Verb.RECENT_LOG][1]),
    (Verb.STEP, 1, 340, *CALLS[Verb.STEP][1]),
    (Verb.SERVE, 1, 340, "ORDERS", list(HISTORY_TERMS)),
    (Verb.SETTLE, 1, 341, *packed_settlements(VALUED_SETTLEMENTS)),
    *((verb, 1, number, *FIELDS.get(verb, CALLS[verb][1])) for number, verb in enumerate(UNIT_CALLS, 340)),
]
SERVER: list[tuple[Any, ...]] = [
    WELCOME,
    (Verb.HEARTBEAT, 0, 0),
    *(
        (Verb.ANSWER, 1, number, *fields(verb, found))
        for number, (verb, found) in enumerate(RESULTS.items(), 1)
        if verb not in LATER
    ),
    *((Verb.FAILED, 1, number, *answers.error_fields(error)) for number, error in enumerate(ERRORS, 100)),
    (Verb.CANCELLED, 1, 2**40),
    (Verb.REPLIES, 1, 13, *answers.reply_parts(PARTS)),
    (Verb.ENDED, 1, 0, 2161, "QM1 is quiescing"),
    *((Verb.ANSWER, 1, number, *fields(verb, found)) for number, (verb, found) in enumerate(LIST_RESULTS.items(), 200)),
    (Verb.ANSWER, 1, 203, *fields(Verb.PUT_MANY, STOPPED)),
    (Verb.ANSWER, 1, 205, *fields(Verb.MQSC, WARNED)),
    *((Verb.ANSWER, 1, number, *fields(verb, RESULTS[verb])) for number, verb in enumerate(CLAIM_CALLS, 206)),
    (Verb.ANSWER, 1, 220, *fields(Verb.SINK, None)),
    *((Verb.ANSWER, 1, number, *fields(verb, RESULTS[verb])) for number, verb in enumerate(HANDLING_CALLS, 300)),
    (Verb.ANSWER, 2, 310, *fields(Verb.DELIVERY_CONNECT, RESULTS[Verb.DELIVERY_CONNECT])),
    *(
        (Verb.ANSWER, 1, number, *fields(verb, found))
        for number, (verb, found) in enumerate(TERMED_RESULTS.items(), 311)
    ),
    (Verb.ANSWER, 1, 320, *fields(Verb.SERIALIZE, RESULTS[Verb.SERIALIZE])),
    (Verb.ANSWER, 3, 321, *fields(Verb.CONNECT, Connected("QM1", 3600.0))),
    (Verb.ANSWER, 3, 322, *fields(Verb.AUTHENTICATE, RESULTS[Verb.AUTHENTICATE])),
    *((Verb.ANSWER, 1, number, *fields(verb, RESULTS[verb])) for number, verb in enumerate(ACCESS_CALLS, 323)),
    (Verb.ANSWER, 1, 330, *fields(Verb.FIGURES, RESULTS[Verb.FIGURES])),
    (Verb.ANSWER, 1, 331, *fields(Verb.RECENT_LOG, RESULTS[Verb.RECENT_LOG])),
    (Verb.ANSWER, 1, 340, *fields(Verb.STEP, RESULTS[Verb.STEP])),
    (Verb.ANSWER, 1, 341, *fields(Verb.TAKE, STEPPED)),
    (Verb.ANSWER, 3, 332, *fields(Verb.CONNECT, Connected("QM1", 3600.0, "5f2b7a0e-6f0c-4a55-9d0b-0a4f6d1c7e21"))),
    *((Verb.ANSWER, 1, number, *fields(verb, RESULTS[verb])) for number, verb in enumerate(UNIT_CALLS, 340)),
    (Verb.REFUSED, 0, 0, 2162, "QM1 is stopping"),
]


def written() -> Iterator[str]:
    pair = Pair(opened=False)
    for end, other, said in ((pair.client, pair.server, CLIENT[:1]), (pair.server, pair.client, SERVER[:1])):
        for frame in said:
            data = end.send(*frame)
            other.receive(data)
            yield line(end, frame, data)
    for end, said in ((pair.client, CLIENT[1:]), (pair.server, SERVER[1:])):
        yield from (line(end, frame, end.send(*frame)) for frame in said)


def line(end: Endpoint, frame: tuple[Any, ...], data: bytes) -> str:
    return f"{end.role.value} {frame[0].name} {data.hex()}"


def test_every_frame_is_written_as_it_was_when_its_number_was_given() -> None:
    assert list(written()) == GOLDEN.read_text(encoding="ascii").splitlines()


def test_every_verb_has_a_golden_frame() -> None:
    assert {golden.split()[1] for golden in GOLDEN.read_text(encoding="ascii").splitlines()} == set(Verb.__members__)


def test_every_golden_frame_is_read_as_what_was_said() -> None:
    server, client = Endpoint(Role.SERVER), Endpoint(Role.CLIENT)
    client.send(*HELLO)
    for golden in GOLDEN.read_text(encoding="ascii").splitlines():
        role, name, data = golden.split()
        (frame,) = (server if role == "client" else client).receive(bytes.fromhex(data))
        assert frame[0] == Verb[name]
        if name == "HELLO":
            server.send(*WELCOME)
