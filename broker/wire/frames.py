"""The frames: what the two ends of a line can say to each other. Reading and writing them is `protocol`'s business.

A frame is four bytes of length, the highest first, and a msgpack array `[verb, conversation, call, ...]`. The array's
other items depend on the verb; the comments below list them.

- A *line* is a socket. It carries many *conversations*: each is one connection (Hconn) of a program. The client numbers
  them, from 1; 0 is the line itself.
- A *call* is a request that gets exactly one final frame: ANSWER, FAILED or CANCELLED. The client numbers the calls,
  from 1; a number is unique on the line while the call has no final frame and, for GET, GET_MANY and TAKE, until
  TAKEN or CANCEL. 0 is no call.
- The calls of one conversation take effect in the order in which they are sent. Final frames come in any order.
- What a GET, GET_MANY or TAKE answered stays the queue manager's until the client says TAKEN, or gives it back with
  CANCEL. So a program that goes away at any moment, and a line that breaks at any byte, leave every message in one
  place.
- A batch of puts is as many PUT_MANY as it takes. Each names the one before it, which may have no final frame yet: when
  that one could not put all its messages, this one puts none. So the number of one that failed in any part stays taken
  until CANCEL, which the client says when it has sent the last frame of the batch.
- The command replies to a MQSC leave as they are made, in REPLIES before the final frame, a long one in parts: true
  behind the replies says that the first of them goes on with the last of the frame before. No more are made than the
  client reads.
- What a line holds is bounded. A queue manager that has no room for a frame stops reading in the middle of it, and ends
  a line whose client takes too long to send a frame or to read its answers.
- MQMD, put and get message options are byte strings, see `structures`.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import Any, Final, NamedTuple, TypeAlias

Frame: TypeAlias = list[Any]
"""A frame received: verb, conversation and call, checked, and the verb's own items, as msgpack gave them."""

PRODUCT: Final = "EverMQ"
VERSION: Final = 1
"""The version of the protocol that this library speaks; it accepts no older one."""

FRAME_BYTES: Final = 105 * 1024 * 1024
"""The longest frame that a client accepts: a message of 100 MiB and its envelope."""

HEAD_BYTES: Final = 1024
"""The bytes that a frame may have, at most, beside a frame of columns that it carries."""

HEARTBEAT_SECONDS: Final = 30.0
"""The time for which an end that has nothing to say keeps silent, unless the other wishes it shorter."""

CONVERSATION_MAX: Final = 2**32 - 1
CALL_MAX: Final = 2**63 - 1


@unique
class Verb(IntEnum):
    """The verb of a frame. A number once given is never used for anything else."""

    HELLO = 1  # product, lowest and highest version, heartbeat in milliseconds, longest frame accepted in bytes
    WELCOME = 2  # product, version chosen, queue manager name, heartbeat agreed, longest frame accepted
    REFUSED = 3  # reason code, text for people; the line ends here
    HEARTBEAT = 4  # nothing: the sender is alive

    CONNECT = 16  # queue manager name or "", application name, user; channel or "", kind of the secret, secret, or
    # nothing of these three -> queue manager name; the seconds until what has proved the user ends, or infinity, and
    # the UUID of its data
    DISCONNECT = 17  # whether to commit -> reason
    OPEN = 18  # object descriptor, options -> the fields of Opened
    CLOSE = 19  # handle, options -> reason
    PUT = 20  # handle, descriptor or nil, put message options, the fields of PutExtras or nothing, data -> the fields
    # of Placed up to the reason; its last three where the message is delayed or a duplicate
    PUT1 = 21  # object descriptor, descriptor or nil, put message options, the fields of PutExtras or nothing, data ->
    # the fields of Placed, the last three as those of PUT
    GET = 22  # handle, descriptor or nil, get message options, max length or nil, whether messages that wait are seen
    # or nothing -> the fields of Delivery, the last where the message waits or waited for an instant
    BEGIN = 23  # nothing -> reason
    COMMIT = 24  # nothing -> reason
    BACKOUT = 25  # nothing -> reason
    INQUIRE = 26  # handle, selectors -> pairs of selector and value
    SET = 27  # handle, pairs of selector and value -> reason
    MQSC = 28  # true if the first failure is to end it, or nothing; text -> the command replies
    STATUS = 29  # nothing -> the figures, a map
    TRIGGER_PENDING = 30  # nothing -> posts, the pending queues
    TRIGGER_WAIT = 31  # posts -> posts
    TRIGGER_TAKE = 32  # queue name, limit -> the leases
    TRIGGER_DONE = 33  # lease numbers; call 0, no answer
    TRIGGER_RETURN = 34  # lease numbers; call 0, no answer
    PUT_MANY = 35  # handle, put message options, number of the call before it in the batch or 0, and for each message:
    # descriptor or nil, or true for that of the message before it; data -> the fields of PUT of each, error or nil
    GET_MANY = 36  # handle, descriptor or nil, get message options, count -> the fields of Delivery of each
    GIVE_BACK = 37  # handle, tokens, token of the message got before these; call 0, no answer

    EXPLAIN = 40  # queue name; MsgId, CorrelId and GroupId, each or nil -> queue name, the findings

    BACKUP = 41  # path of a directory -> 0
    CONSUMER = 42  # name, names of queues -> the fields of ConsumerState
    REGISTER = 43  # uuid, lineage or nil, start or nil, end or nil, whether to resume -> the fields of Registration
    CLAIM = 44  # uuid, generation, start, messages, bytes, arrival number or nil, whether whole groups -> sequence
    PIN = 45  # uuid, generation, lineage, start, end -> the cuts in one byte string: three int64 each
    READ_CLAIMED = 46  # uuid, generation, sequences: after, last -> a frame of columns
    ACKNOWLEDGE = 47  # uuid, generation, sequence -> 0
    RELEASE = 50  # uuid, generation -> how many
    QUEUE_RANGES = 51  # names of queues -> the fields of each QueueRange
    BROWSE_RANGE = 52  # queue name; arrival numbers: after, last; MsgId, CorrelId, GroupId or nil -> a frame of columns
    SINK = 53  # name -> query and last batch, or nothing
    STAGE = 54  # sink, batch, partition, attempt, query or nil, first index, options, whether it is the last piece,
    # frame of columns -> whether the batch is published
    PUBLISH = 55  # sink, batch, query or nil, the winners in one byte string: batch int64, partition int32, attempt of
    # 16 bytes, rows int64 each -> messages, whether it was published already
    DISCARD = 56  # sinks, the units in one byte string: place of the sink int16, then as a winner -> how many
    TRIGGER_SWEEP = 38  # nothing -> how many starts were made pending
    RELEASE_WAITING = 39  # `release_delayed`, by the name that it was given: queue name, MsgId or nil -> how many
    SERVE = 58  # queue name, the fields of ServiceOptions, those of the history where there is one -> service
    STOP_SERVING = 59  # service -> 0
    TAKE = 60  # service, count -> trigger message or empty, the fields of each Handed; and where there are any, of each
    # delivery with finished steps its number and these, name and value in turn
    SETTLE = 61  # of each settlement: delivery, outcome, seconds, and unless that is all the failure, the fields of
    # Settlement behind it and each failed message with its failure; then the failures, each the msgpack of its fields:
    # they are named by their places, from 1; 0 is none. Behind the fields of one whose handler has returned something
    # for the history is the place of that, among the failures: the msgpack of the fields of Returned
    # -> the fields of each Settled, the first two where that is all
    DELIVERY_CONNECT = 62  # conversation, delivery, application name -> queue manager name; that of the frame is a new
    # one, which ends when the delivery is settled
    SERIALIZE = 63  # MQCNO options, connection tag -> 0
    AUTHENTICATE = 69  # kind of the secret, secret -> seconds: a later proof of the user of the line, and until it ends
    EXPLAIN_OPEN = 70  # names of the object and of its queue manager, MQOT, user or "", words of rights with commas
    # -> the fields of Access
    EXPLAIN_CONNECT = 71  # user, address; channel, subject and issuer, each or ""; whether without TLS -> as
    # EXPLAIN_OPEN
    FIGURES = (
        72  # name of a queue or generic name, whose series ("queue", "none"), whose names ("evermq", "ibmmq"), the
    )
    # most queues -> the text for Prometheus
    RECENT_LOG = 73  # number of a line -> number of the last line sent, of the last of all, lines behind the one given
    PREPARE = 74  # name of the unit, database id, name of the database -> 0
    PREPARE_DELIVERIES = 75  # database id, name of the database, the names of the units in one byte string, then as
    # SETTLE, in their order -> of each 0 or a reason
    DECIDE = 76  # database id, the names of units in one byte string, in another a byte for each: 0 backout, 1 commit,
    # 2 given up, 3 backout with a settlement; these as in SETTLE, if there are any -> of each Decided or a reason
    DOUBTS = 77  # database id, whether to wait -> in one byte string of each name and instant: 16 bytes, float64
    IN_DOUBT = 78  # database id, the names of units in one byte string -> those in doubt, likewise
    STEP = 79  # delivery, name, value -> 0
    OWN_USER = 80  # nothing -> user, whether it has proved that, whether it is an administrator, stamp; then its groups
    BROWSE_CUTS = 57  # queue name; arrival numbers: after, last; messages, bytes -> the cuts, as those of PIN

    TAKEN = 48  # numbers of GETs, GET_MANYs and TAKEs whose answers have reached the program; conversation 0, call 0
    CANCEL = 49  # nothing: the program has gone away from this call; CANCELLED follows unless a final frame has crossed

    ANSWER = 64  # the items after "->" above
    FAILED = (
        65  # reason, completion, detail, the fields of a partial Delivery or nil, response records if there are any
    )
    CANCELLED = 66  # nothing
    ENDED = 67  # reason, detail; call 0: the queue manager has ended the conversation
    REPLIES = 68  # the first command replies of a MQSC, and true or nothing; its ANSWER brings the last ones likewise


ANSWERS: Final = frozenset({Verb.ANSWER, Verb.FAILED, Verb.CANCELLED, Verb.ENDED, Verb.REPLIES})
"""The verbs with which the queue manager answers."""

IDS_MAX: Final = 500
"""The most numbers in one TAKEN, TRIGGER_DONE or TRIGGER_RETURN, and the most tokens in one GIVE_BACK; a longer list is
sent as several frames.
"""


class WireError(Exception):
    """The other end broke the protocol; the line is of no further use. `answer` is what to say to a client that speaks
    another protocol, None to all others.
    """

    answer: bytes | None = None


class Hello(NamedTuple):
    """The first frame of a client. `heartbeat` is in milliseconds, `frame_bytes` the longest frame it accepts."""

    product: str
    lowest: int
    highest: int
    heartbeat: int
    frame_bytes: int


class Welcome(NamedTuple):
    """The queue manager's answer to Hello: the version and heartbeat agreed, and the longest frame that it accepts."""

    product: str
    version: int
    q_mgr_name: str
    heartbeat: int
    frame_bytes: int


class Refused(NamedTuple):
    """The refusal by which the queue manager ends the line: a reason code and a text for people."""

    reason: int
    text: str


_HANDSHAKE_FIELDS: Final[dict[type, tuple[type, ...]]] = {
    Hello: (str, int, int, int, int),
    Welcome: (str, int, str, int, int),
    Refused: (int, str),
}


def hello(frame: Frame) -> Hello:
    """The Hello in a frame; items that a later version may add are ignored. Raises WireError."""
    return Hello(*_handshake(frame, Hello))


def welcome(frame: Frame) -> Welcome:
    """The Welcome in a frame. Raises WireError."""
    return Welcome(*_handshake(frame, Welcome))


def refused(frame: Frame) -> Refused:
    """The Refused in a frame. Raises WireError."""
    return Refused(*_handshake(frame, Refused))


def _handshake(frame: Frame, kind: type) -> Frame:
    types = _HANDSHAKE_FIELDS[kind]
    fields = frame[3 : 3 + len(types)]
    if tuple(map(type, fields)) != types:
        raise WireError(f"{kind.__name__} has other fields than it should")
    return fields
