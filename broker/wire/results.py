"""The results of calls as items of frames: `items` at the queue manager's end, `read` at the client's.

A client trusts its queue manager with the values in an answer, not with their number.
"""

from __future__ import annotations

from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.interface.answers import (
    NO_LIST,
    Connected,
    Distribution,
    GetAnswer,
    LogPiece,
    Opened,
    PendingQueue,
    PendingStarts,
    Placed,
    PlacedMany,
    StartLease,
)
from broker.interface.claims.claims import QueueRange
from broker.interface.handlers.delivery_answers import DeliveryAnswer, TakeAnswer
from broker.mqi.access import Access, AccessStep, OwnUser
from broker.mqi.delivery_fields import Settled
from broker.mqi.explanations import Explanation, Finding
from broker.wire import answers, claims, external_wire
from broker.wire.answers import delivered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from broker.mqi.replies import CommandReply
    from broker.wire.frames import Frame


class Result(NamedTuple):
    """The form that the result of a call has in its ANSWER."""

    items: Callable[[Any], tuple[Any, ...]]
    """Makes the items of its ANSWER."""

    read: Callable[[Frame], Any]
    """Makes it of these items. Raises TypeError, ValueError or struct.error."""

    weight: Callable[[Any], int] | None = None
    """Returns its number of bytes, if they may be many."""


# Values.


def record(kind: type[Any]) -> Result:
    """A named tuple."""
    return Result(tuple, kind._make)


def _single(value: object) -> tuple[Any, ...]:
    return (value,)


def _only(kind: type) -> Callable[[Frame], Any]:
    def read(items: Frame) -> Any:
        (value,) = items
        if type(value) is not kind:
            raise TypeError(f"{value!r} is not of type {kind.__name__}")
        return value

    return read


_list: Final = _only(list)
_bytes: Final = _only(bytes)

NUMBER: Final = Result(_single, _only(int))
SECONDS: Final = Result(_single, _only(float))

_text: Final = _only(str)
TEXT: Final = Result(_single, _text, len)
_seconds: Final = _only(float)


def _connected(items: Frame) -> Connected:
    """Ignore what a later version may add."""
    q_mgr_name, *rest = items
    instance = _text(rest[1:2]) if len(rest) > 1 else ""
    return Connected(_text([q_mgr_name]), _seconds(rest[:1]) if rest else inf, instance)


def _connected_items(connected: Connected) -> tuple[Any, ...]:
    if connected.instance:
        return connected
    return connected[:1] if connected.seconds_left == inf else connected[:2]


CONNECTED: Final = Result(_connected_items, _connected)
PORT: Final = Result(lambda port: (port.q_mgr_name,), _only(str))
COLUMNS: Final = Result(_single, _bytes, len)
LOG_PIECE: Final = Result(tuple, LogPiece._make, lambda piece: 4 * sum(map(len, piece.lines)))
FIGURES: Final = Result(_single, _only(dict), lambda figures: 1024 * len(figures.get("queues", ())))


def pairs(values: Mapping[int, int | str]) -> list[tuple[int, int | str]]:
    """Attributes by selector as a frame carries them: maps there have texts for keys."""
    return list(values.items())


ATTRIBUTES: Final = Result(lambda values: (pairs(values),), lambda items: dict(_list(items)))


# Puts and gets.


def _distribution(fields: Any) -> Distribution:
    records, unknown_dest_count = fields
    return Distribution(answers.response_records(records), unknown_dest_count)


def _opened_items(opened: Opened) -> tuple[Any, ...]:
    """The distribution comes last, and only of a distribution list."""
    return opened[:-1] if opened.distribution is NO_LIST else opened


def _opened(items: Frame) -> Opened:
    if len(items) < len(Opened._fields):
        return Opened(*items)
    *fields, distribution = items
    return Opened._make([*fields, _distribution(distribution)])


_BY_HANDLE: Final = Placed._fields.index("resolved_q_name")
"""The number of fields of Placed that a put by a handle sends: the resolved name was sent when it was opened."""

_ONCE: Final = Placed._fields.index("distribution")
"""The number that a put without a handle sends."""

_PLAIN: Final = tuple(Placed._field_defaults[name] for name in Placed._fields[_ONCE:])


def _placed(count: int) -> Result:
    """A put, of which so many fields are always sent. Behind them is its distribution, if it has one, or the last three
    fields, if it is delayed or a duplicate.
    """

    def items(placed: Placed) -> tuple[Any, ...]:
        if placed[_ONCE:] == _PLAIN:
            return placed[:count]
        rest = placed[_ONCE + 1 :] if placed.distribution is NO_LIST else (placed.distribution,)
        return (*placed[:count], *rest)

    def read(items: Frame) -> Placed:
        if len(items) == count:
            return Placed(*items)
        placed = Placed(*items[:count])
        match items[count:]:
            case [distribution]:
                return placed._replace(distribution=_distribution(distribution))
            case [deliver_at, duplicate, same_data]:
                return placed._replace(deliver_at=deliver_at, duplicate=duplicate, same_data=same_data)
        raise TypeError(f"a put is not answered with {len(items)} items")

    return Result(items, read)


PLACED: Final = _placed(_BY_HANDLE)
PLACED_ONCE: Final = _placed(_ONCE)
OPENED: Final = Result(_opened_items, _opened)


def _placed_many_items(result: PlacedMany) -> tuple[Any, ...]:
    put = PLACED.items
    placed = [each[:_BY_HANDLE] if each[_ONCE:] == _PLAIN else put(each) for each in result.placed]
    return placed, None if result.error is None else answers.error_fields(result.error)


def _placed_many(items: Frame) -> PlacedMany:
    placed, failure = items
    return PlacedMany(list(map(PLACED.read, placed)), failure and answers.error_of(*failure))


PLACED_MANY: Final = Result(
    _placed_many_items, _placed_many, lambda result: sum(len(placed.packed_md) for placed in result.placed)
)


def _delivery(items: Iterable[Any]) -> GetAnswer:
    return GetAnswer(*items)


def delivery_weight(delivery: GetAnswer) -> int:
    """Return the number of bytes of a message."""
    return len(delivery.data) + len(delivery.packed_md) + len(delivery.properties)


DELIVERY: Final = Result(delivered, _delivery, delivery_weight)
DELIVERIES: Final = Result(
    lambda deliveries: ([delivered(each) for each in deliveries],),
    lambda items: [GetAnswer(*each) for each in _list(items)],
    lambda deliveries: sum([len(each.data) + len(each.packed_md) + len(each.properties) for each in deliveries]),
)


# Trigger starts and deliveries to handlers.


def _pending(items: Frame) -> PendingStarts:
    posts, queues = items
    return PendingStarts(posts, [PendingQueue(*queue) for queue in queues])


_MESSAGES: Final = DeliveryAnswer._fields.index("messages")


def _taken_items(taken: TakeAnswer) -> tuple[Any, ...]:
    """The steps come last, and only where there are any."""
    handed = [(*each[:_MESSAGES], [delivered(message) for message in each.messages]) for each in taken.deliveries]
    steps = [(each.id, list(chain.from_iterable(each.steps.items()))) for each in taken.deliveries if each.steps]
    return (taken.trigger, handed, steps) if steps else (taken.trigger, handed)


def _taken(items: Frame) -> TakeAnswer:
    """Ignore what a later version may add."""
    trigger, deliveries, *rest = items
    handed = [_handed(*fields) for fields in deliveries]
    if rest:
        steps = {id: dict(zip(each[::2], each[1::2], strict=True)) for id, each in rest[0]}
        handed = [each._replace(steps=steps.get(each.id)) for each in handed]
    return TakeAnswer(trigger, handed)


def _handed(id: int, attempt: int, limit: int, waited: float, messages: list[Any]) -> DeliveryAnswer:
    return DeliveryAnswer(id, attempt, limit, waited, [GetAnswer(*each) for each in messages])


def _weight_of_handed(handed: DeliveryAnswer) -> int:
    weight = 1024 + sum(map(delivery_weight, handed.messages))
    return weight + sum(map(len, handed.steps.values())) if handed.steps else weight


_NOTHING_MORE: Final = Settled(0, 0)[2:]
"""The fields behind what became of a delivery, when they say nothing."""


def _settled_items(settled: Iterable[Settled]) -> tuple[Any, ...]:
    return ([each[:2] if each[2:] == _NOTHING_MORE else each for each in settled],)


def _settled(items: Frame) -> list[Settled]:
    (settled,) = items
    return [Settled(*fields) for fields in settled]


PENDING: Final = Result(tuple, _pending, lambda pending: 512 * len(pending.queues))
LEASES: Final = Result(
    _single, lambda items: [StartLease(*lease) for lease in _list(items)], lambda leases: 1024 * len(leases)
)
TAKEN: Final = Result(
    _taken_items,
    _taken,
    lambda taken: sum([_weight_of_handed(each) for each in taken.deliveries]),
)
SETTLED: Final = Result(_settled_items, _settled)
NUMBERS: Final = Result(_single, _list)
DOUBTS: Final = Result(
    lambda doubts: (external_wire.packed_doubts(doubts),),
    lambda items: external_wire.doubts_of(_bytes(items)),
    lambda doubts: 128 * len(doubts),
)
IDS: Final = Result(lambda ids: (b"".join(ids),), lambda items: external_wire.ids(_bytes(items)))


# Claims and prepared units.


def _ledger(items: Frame) -> tuple[str, int] | None:
    if not items:
        return None
    query, batch = items
    return query, batch


CUTS: Final = Result(
    lambda cuts: (claims.packed_cuts(cuts),), lambda items: claims.cuts(_bytes(items)), lambda cuts: 128 * len(cuts)
)
RANGES: Final = Result(
    lambda ranges: (list(ranges),),
    lambda items: list(map(QueueRange._make, _list(items))),
    lambda ranges: 512 * len(ranges),
)
LEDGER: Final = Result(lambda ledger: ledger or (), _ledger)


# The queue manager.


def _replies_items(replies: Iterable[CommandReply]) -> tuple[Any, ...]:
    return ([answers.reply_fields(reply) for reply in replies],)


def _explanation_items(explanation: Explanation) -> tuple[Any, ...]:
    return explanation.q_name, [(each.code, each.text, each.figures) for each in explanation.findings]


def _explanation(items: Frame) -> Explanation:
    q_name, findings = items
    return Explanation(
        q_name=q_name,
        findings=tuple(Finding(code=code, text=text, figures=figures) for code, text, figures in findings),
    )


def _access(items: Frame) -> Access:
    allowed, user, steps, grant = items
    return Access(allowed, user, tuple(map(AccessStep._make, steps)), grant)


def _own_user_items(own: OwnUser) -> tuple[Any, ...]:
    return *own[:-1], *own.groups


def _own_user(items: Frame) -> OwnUser:
    user, proved, administrator, stamp, *groups = items
    return OwnUser(user, proved, administrator, stamp, tuple(groups))


OWN_USER: Final = Result(_own_user_items, _own_user, lambda own: 64 * len(own.groups))
ACCESS: Final = Result(tuple, _access, lambda access: 512 * len(access.steps))
REPLIES: Final = Result(_replies_items, lambda items: [answers.reply_of(*fields) for fields in _list(items)])
EXPLANATION: Final = Result(_explanation_items, _explanation, lambda explanation: 1024 * len(explanation.findings))
