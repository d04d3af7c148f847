"""The verbs that a program calls the queue manager with: a row for each.

A row says what `verb_row` needs of a call. The method of the port, which is in `broker.interface.port`, forwards the
arguments in the order of the row.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Final

from broker.interface.claims.claims import BrowseSelection, ConsumerState, Publication, Registration, Staged, UnitName
from broker.interface.handlers.delivery_answers import ServeAnswer
from broker.mqi.checks import PADDING
from broker.mqi.delivery_fields import NO_EXTRAS
from broker.mqi.errors import MQError
from broker.mqi.names import CHANNEL_NAME_LENGTH, NAME_LENGTH
from broker.mqi.reasons import MQRC
from broker.mqi.security_parameters import NO_SECURITY_PARAMETERS, CredentialKind, SecurityParameters
from broker.mqi.step_fields import STEP_BYTES, STEP_NAME_MAX, STEP_SUFFIX_MAX
from broker.wire import arguments, claims, results
from broker.wire.arguments import DATA, HANDLE
from broker.wire.delivery_wire import packed_service_options, put_extras, service_options, settle
from broker.wire.external_wire import ASKED, NAMED, PREPARED, decide, packed_decisions, prepare_deliveries
from broker.wire.fields import (
    LABEL_MAX,
    LONG_MAX,
    LONG_MIN,
    Field,
    flag,
    identifier,
    integer,
    list_of,
    name,
)
from broker.wire.frames import Frame, Verb, WireError
from broker.wire.results import COLUMNS, CUTS, NUMBER, NUMBERS, record
from broker.wire.structures import (
    descriptor,
    get_options,
    object_descriptor,
    object_fields,
    packed_descriptor,
    packed_get_options,
    packed_put_options,
    put_options,
)
from broker.wire.verb_row import VerbKind, VerbRow

_TAKE_MAX: Final = 10_000
_UUID_MAX: Final = 64
_QUERY_MAX: Final = 1024
_SECRET_MAX: Final = 64 * 1024
_NAME_MAX: Final = 4096  # of a distinguished name


def result(verb: int, frame: Frame) -> Any:
    """Return what a call with this verb returns, from its ANSWER. Raises WireError."""
    try:
        return BY_VERB[verb].result.read(frame[3:])
    except (TypeError, ValueError, struct.error) as error:
        raise WireError(f"the answer to {Verb(verb).name} makes no sense: {error}") from error


# Arguments


def _settings(pairs: list[Any]) -> dict[int, int | str]:
    """The attributes of a SET, whose selectors are to be keys of a dictionary."""
    if any(type(pair) is not list or len(pair) != 2 for pair in pairs):
        raise MQError(MQRC.SELECTOR_ERROR, "the values must be pairs of a selector and an integer or a text")
    _check_selectors([selector for selector, _ in pairs])
    return dict(pairs)


def _unpadded(value: str) -> str:
    return value.rstrip(PADDING)


_check_selectors: Final = list_of(Field("selector", int, "a selector", MQRC.SELECTOR_ERROR, LONG_MIN, LONG_MAX))

_Q_MGR_NAME: Final = Field(
    "q_mgr_name", str, "the name of the queue manager", MQRC.Q_MGR_NAME_ERROR, high=NAME_LENGTH, make=_unpadded
)
_APPL_NAME: Final = Field("appl_name", str, "the name of the application", high=LABEL_MAX)
_USER: Final = Field("user", str, "the name of the user", high=LABEL_MAX)
_CHANNEL: Final = Field(
    "channel", str, "the name of the channel", MQRC.UNKNOWN_CHANNEL_NAME, high=CHANNEL_NAME_LENGTH, make=_unpadded
)
_CREDENTIALS: Final = (
    Field("kind", int, "the kind of the secret", high=max(CredentialKind)),
    Field("secret", bytes, "the secret", MQRC.NOT_AUTHORIZED, high=_SECRET_MAX),
)
_SECURITY: Final = Field(
    "security",
    make=SecurityParameters,
    pack=attrgetter("channel", "kind", "secret"),
    parts=(_CHANNEL, *_CREDENTIALS),
    default=NO_SECURITY_PARAMETERS,
)

_OD: Final = Field("descriptor", make=object_descriptor, pack=object_fields)
_MD: Final = Field("md", make=descriptor, pack=packed_descriptor)
_PMO: Final = Field("options", make=put_options, pack=packed_put_options)
_GMO: Final = Field("options", make=get_options, pack=packed_get_options)
_OPTIONS: Final = Field("options", int, "the options", low=LONG_MIN, high=LONG_MAX)
_PUT_EXTRAS: Final = Field("extras", make=put_extras, default=NO_EXTRAS)
_SELECTORS: Final = Field("selectors", list, "the selectors", MQRC.SELECTOR_ERROR, pack=list)
_SETTINGS: Final = Field("values", list, "the values", MQRC.SELECTOR_ERROR, make=_settings, pack=results.pairs)
_CHECK: Final = replace(flag("check", "whether the first failure ends the script"), default=False)
_SCRIPT: Final = Field("text", str, "the text of MQSC", None)
_TAG: Final = Field("tag", bytes, "the tag of SERIALIZE", None)

_Q_NAME: Final = name("q_name", "the name of the queue")
_Q_NAMES: Final = Field(
    "q_names", list, "the names of queues", MQRC.OBJECT_NAME_ERROR, make=list_of(_Q_NAME), pack=list
)
_MSG_ID: Final = identifier("msg_id", MQRC.MSG_ID_ERROR)
_IDS: Final = _MSG_ID, identifier("correl_id", MQRC.CORREL_ID_ERROR), identifier("group_id", MQRC.GROUP_ID_ERROR)
_SELECTION: Final = Field("selection", make=BrowseSelection, parts=_IDS)
_ANY_IDS: Final = Field("msg_id"), Field("correl_id"), Field("group_id")

_UUID: Final = Field("uuid", str, "the uuid of the consumer", MQRC.NO_SUBSCRIPTION, high=_UUID_MAX)
_READER: Final = _UUID, Field("generation", int, "the generation")
_LINEAGE: Final = Field("lineage", str, "the lineage", high=_UUID_MAX)
_START: Final = Field("start", int, "the start")
_END: Final = Field("end", int, "the end")
_CHECKPOINT: Final = tuple([replace(each, optional=True) for each in (_LINEAGE, _START, _END)])
_SEQUENCES: Final = Field("after", int, "the sequence"), Field("last", int, "the sequence")
_ARRIVALS: Final = Field("after", int, "the arrival number"), Field("last", int, "the arrival number")
_RESUME: Final = flag("resume", "whether to resume")
_BEFORE: Final = Field("before", int, "the arrival number", optional=True)
_LIMITS: Final = Field("messages", int, "the number of messages"), Field("size", int, "the number of bytes")
_WHOLE: Final = flag("whole", "whether to claim whole groups")

_SINK: Final = name("sink", "the name of the sink")
_BATCH: Final = Field("batch", int, "the batch")
_PARTITION: Final = Field("partition", int, "the partition")
_ATTEMPT: Final = Field("attempt", bytes, "the attempt", low=claims.ATTEMPT_BYTES, high=claims.ATTEMPT_BYTES)
_UNIT: Final = Field("unit", make=UnitName, parts=(_SINK, _BATCH, _PARTITION, _ATTEMPT))
_SINKS: Final = Field("sinks", list, "the names of sinks", MQRC.OBJECT_NAME_ERROR, make=list_of(_SINK))
_UNITS: Final = Field("units", make=claims.units, pack=claims.packed_units, parts=(_SINKS, Field("units")))
_WINNERS: Final = Field("winners", pack=claims.packed_winners)
_QUERY: Final = Field("query", str, "the query", high=_QUERY_MAX, optional=True)
_PUBLISHED: Final = _SINK, _BATCH, _QUERY, _WINNERS
_PIECE: Final = Field("first", int, "the first index"), _OPTIONS, flag("last", "whether this piece is the last")

_SERIES: Final = (
    name("queue", "the name of the queue"),
    Field("per", str, "whose series", high=LABEL_MAX),
    Field("names", str, "whose names", high=LABEL_MAX),
    Field("queues_max", int, "the most queues"),
)

_SERVICE: Final = Field("service", int, "the service")
_TAKER: Final = integer("taker", "the conversation")
_DELIVERY: Final = Field("delivery", int, "the delivery")
_STEP: Final = (
    Field("name", str, "the name of the step", low=1, high=STEP_NAME_MAX + STEP_SUFFIX_MAX),
    Field("value", bytes, "the value of the step", MQRC.DATA_LENGTH_ERROR, high=STEP_BYTES),
)
_DELIVERIES: Final = Field("count", int, "the number of deliveries", low=1, make=partial(min, _TAKE_MAX))
_LEASES: Final = Field("limit", int, "the limit", low=LONG_MIN, high=LONG_MAX, make=partial(min, _TAKE_MAX))

_OBJECT: Final = Field("name"), Field("q_mgr_name"), Field("object_type", int, "the type of the object", high=LONG_MAX)
_ABOUT: Final = Field("user", str, "the name of the user", high=LABEL_MAX)
_RIGHTS: Final = Field("rights", str, "the words of rights", high=LABEL_MAX)
_LINE: Final = (
    Field("address", str, "the address", high=LABEL_MAX),
    replace(_CHANNEL, high=LABEL_MAX),
    Field("subject", str, "the name of the subject", high=_NAME_MAX),
    Field("issuer", str, "the name of the issuer", high=_NAME_MAX),
)
_PLAIN: Final = flag("plain", "whether the line is without TLS")


# Rights, as the rows tell them

_NONE: Final = "none"
_CONNECT: Final = "connect"
_OPENED: Final = "those of the options, on the object and the queue manager"
_OF_HANDLE: Final = "those of the handle"
_OF_CONNECTION: Final = "none but its own connection's"
_REPLIES: Final = "those of the handle, put on the reply queue of a message that asks for reports"
_GET: Final = "get on the queue"
_GET_EACH: Final = "get on each queue of the consumer"
_PUT_EACH: Final = "put on each queue of the units"
_BROWSE: Final = "browse on each queue"
_ADMINISTRATOR: Final = "administrator"
_DELETED: Final = "dlt on a permanent dynamic queue that is deleted"
_COMMANDS: Final = "dsp on the queue manager, then those of each command"
_SHOWN: Final = "dsp on the queue manager, and on the objects whose figures are shown"
_DSP: Final = "dsp on the queue, and on the queue manager for the names of other programs"
_STAGED: Final = "put on each queue of the unit, setall for context that it brings"
_SERVED: Final = "get on the queue, put and passall on a dead-letter queue that it names"
_PENDING: Final = "connect; get on the queues that are shown"
_CTRL: Final = "ctrl on the queue manager"
_DECIDED: Final = "connect, and the database id"
_ABOUT_ONESELF: Final = "connect; administrator about another user"


# Calls


ROWS: Final = (
    VerbRow(Verb.CONNECT, "connect", (_Q_MGR_NAME, _APPL_NAME, _USER, _SECURITY), results.CONNECTED, _CONNECT),
    VerbRow(Verb.DISCONNECT, "disconnect", (flag("commit", "whether to commit"),), NUMBER, _NONE),
    VerbRow(Verb.OPEN, "open", (_OD, Field("options")), results.OPENED, _OPENED),
    VerbRow(Verb.CLOSE, "close", (HANDLE, Field("options")), NUMBER, _DELETED),
    VerbRow(Verb.PUT, "put", (), results.PLACED, _REPLIES, by_hand=arguments.put),
    VerbRow(Verb.PUT1, "put1", (_OD, _MD, _PMO, _PUT_EXTRAS, DATA), results.PLACED_ONCE, _OPENED),
    VerbRow(Verb.GET, "get", (), results.DELIVERY, _OF_HANDLE, VerbKind.RECEIVE, by_hand=arguments.get),
    VerbRow(Verb.BEGIN, "begin", (), NUMBER, _NONE),
    VerbRow(Verb.COMMIT, "commit", (), NUMBER, _NONE),
    VerbRow(Verb.BACKOUT, "backout", (), NUMBER, _NONE),
    VerbRow(Verb.INQUIRE, "inquire", (HANDLE, _SELECTORS), results.ATTRIBUTES, _OF_HANDLE),
    VerbRow(Verb.SET, "set", (HANDLE, _SETTINGS), NUMBER, _OF_HANDLE),
    VerbRow(Verb.MQSC, "mqsc", (_CHECK, _SCRIPT), results.REPLIES, _COMMANDS),
    VerbRow(Verb.STATUS, "status", (), results.FIGURES, _SHOWN),
    VerbRow(Verb.FIGURES, "figures", _SERIES, results.TEXT, _SHOWN, VerbKind.READ),
    VerbRow(Verb.TRIGGER_PENDING, "trigger_pending", (), results.PENDING, _PENDING),
    VerbRow(
        Verb.TRIGGER_WAIT, "trigger_wait", (integer("posts", "the number of posts"),), NUMBER, _CONNECT, VerbKind.WAIT
    ),
    VerbRow(Verb.TRIGGER_TAKE, "trigger_take", (_Q_NAME, _LEASES), results.LEASES, _GET),
    VerbRow(Verb.TRIGGER_SWEEP, "trigger_sweep", (), NUMBER, _CTRL),
    VerbRow(Verb.PUT_MANY, "put_many", (), results.PLACED_MANY, _REPLIES, by_hand=arguments.put_many),
    VerbRow(
        Verb.GET_MANY, "get_many", (HANDLE, _MD, _GMO, Field("count")), results.DELIVERIES, _OF_HANDLE, VerbKind.RECEIVE
    ),
    VerbRow(Verb.EXPLAIN, "explain", (Field("q_name"), *_ANY_IDS), results.EXPLANATION, _DSP),
    VerbRow(Verb.BACKUP, "backup", (Field("path"),), NUMBER, _ADMINISTRATOR, VerbKind.READ),
    VerbRow(
        Verb.CONSUMER,
        "consumer",
        (name("name", "the name of the consumer"), _Q_NAMES),
        record(ConsumerState),
        _GET_EACH,
    ),
    VerbRow(Verb.REGISTER, "register", (_UUID, *_CHECKPOINT, _RESUME), record(Registration), _GET_EACH),
    VerbRow(Verb.CLAIM, "claim", (*_READER, _START, *_LIMITS, _BEFORE, _WHOLE), NUMBER, _GET_EACH),
    VerbRow(Verb.PIN, "pin", (*_READER, _LINEAGE, _START, _END), CUTS, _GET_EACH),
    VerbRow(Verb.READ_CLAIMED, "read_claimed", (*_READER, *_SEQUENCES), COLUMNS, _GET_EACH, VerbKind.READ),
    VerbRow(Verb.ACKNOWLEDGE, "acknowledge", (*_READER, Field("to", int, "the sequence")), NUMBER, _GET_EACH),
    VerbRow(Verb.RELEASE, "release", _READER, NUMBER, _GET_EACH),
    VerbRow(Verb.QUEUE_RANGES, "queue_ranges", (_Q_NAMES,), results.RANGES, _BROWSE, VerbKind.READ),
    VerbRow(Verb.BROWSE_RANGE, "browse_range", (_Q_NAME, *_ARRIVALS, _SELECTION), COLUMNS, _BROWSE, VerbKind.READ),
    VerbRow(Verb.BROWSE_CUTS, "browse_cuts", (_Q_NAME, *_ARRIVALS, *_LIMITS), CUTS, _BROWSE, VerbKind.READ),
    VerbRow(Verb.SINK, "sink", (name("name", "the name of the sink"),), results.LEDGER, _PUT_EACH),
    VerbRow(Verb.STAGE, "stage", (_UNIT, _QUERY, *_PIECE, replace(DATA, name="rows")), record(Staged), _STAGED),
    VerbRow(Verb.PUBLISH, "publish", _PUBLISHED, record(Publication), _PUT_EACH, join=claims.name_winners),
    VerbRow(Verb.DISCARD, "discard", (_UNITS,), NUMBER, _PUT_EACH),
    VerbRow(Verb.RELEASE_WAITING, "release_delayed", (_Q_NAME, _MSG_ID), NUMBER, _GET),
    VerbRow(
        Verb.SERVE,
        "serve",
        (_Q_NAME, Field("options", make=service_options, pack=packed_service_options)),
        record(ServeAnswer),
        _SERVED,
    ),
    VerbRow(Verb.STOP_SERVING, "stop_serving", (_SERVICE,), NUMBER, _OF_CONNECTION),
    VerbRow(Verb.TAKE, "take_deliveries", (_SERVICE, _DELIVERIES), results.TAKEN, _OF_CONNECTION, VerbKind.RECEIVE),
    VerbRow(Verb.SETTLE, "settle_deliveries", (), results.SETTLED, _OF_CONNECTION, by_hand=settle),
    VerbRow(
        Verb.DELIVERY_CONNECT, "delivery_connection", (_TAKER, _DELIVERY, _APPL_NAME), results.PORT, _OF_CONNECTION
    ),
    VerbRow(Verb.SERIALIZE, "serialize", (_OPTIONS, _TAG), NUMBER, _CONNECT),
    VerbRow(Verb.AUTHENTICATE, "authenticate", _CREDENTIALS, results.SECONDS, _CONNECT),
    VerbRow(Verb.OWN_USER, "own_user", (), results.OWN_USER, _CONNECT),
    VerbRow(Verb.EXPLAIN_OPEN, "explain_open", (*_OBJECT, _ABOUT, _RIGHTS), results.ACCESS, _ABOUT_ONESELF),
    VerbRow(Verb.EXPLAIN_CONNECT, "explain_connect", (_ABOUT, *_LINE, _PLAIN), results.ACCESS, _ABOUT_ONESELF),
    VerbRow(Verb.STEP, "step", (_DELIVERY, *_STEP), NUMBER, _OF_CONNECTION),
    VerbRow(
        Verb.RECENT_LOG, "recent_log", (integer("after", "the number of a line"),), results.LOG_PIECE, _ADMINISTRATOR
    ),
    VerbRow(Verb.PREPARE, "prepare", PREPARED, NUMBER, _OF_HANDLE),
    VerbRow(
        Verb.PREPARE_DELIVERIES, "prepare_deliveries", (), NUMBERS, _OF_CONNECTION, VerbKind.CALL, prepare_deliveries
    ),
    VerbRow(Verb.DECIDE, "decide", (), NUMBERS, _DECIDED, by_hand=decide, pack=packed_decisions),
    VerbRow(Verb.DOUBTS, "doubts", ASKED, results.DOUBTS, _DECIDED, VerbKind.RECEIVE),
    VerbRow(Verb.IN_DOUBT, "in_doubt", NAMED, results.IDS, _DECIDED),
)

BY_NAME: Final = {row.name: row for row in ROWS}
BY_VERB: Final[dict[int, VerbRow]] = {row.verb: row for row in ROWS}
CALLS: Final = frozenset({*(row.verb for row in ROWS), Verb.TRIGGER_DONE, Verb.TRIGGER_RETURN, Verb.GIVE_BACK})
"""The verbs that a program calls the queue manager with: those of the rows, and three that need no answer."""

STARTED: Final = BY_VERB.keys() - {Verb.CONNECT, Verb.DELIVERY_CONNECT}
"""The verbs that `start` makes a call of; the others open a conversation."""
