"""The options of the data source `mq`: one table, which checks them and which `docs/how-to/spark.md` shows."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from broker.spark.credentials import JobCredentials

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NAME: Final = re.compile(r"[A-Za-z0-9./_%]{1,48}")
_GENERIC: Final = re.compile(r"[A-Za-z0-9./_%]{0,47}\*")
_SIZE: Final = re.compile(r"(\d{1,15})\s*([kmg]?)i?b?", re.IGNORECASE)
_IDENTIFIER: Final = re.compile(r"[0-9A-Fa-f]{48}")
_POSITION_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}

EARLIEST: Final = -1
LATEST: Final = -2
"""Starting positions that are no arrival numbers."""


class Use(Enum):
    """The uses of an option."""

    READ = "a batch read"
    BROWSE = "a stream that browses"
    CONSUME = "a stream that consumes"
    WRITE = "a batch write"
    WRITE_STREAM = "a streaming write"


READS: Final = frozenset((Use.READ, Use.BROWSE, Use.CONSUME))
STREAMS: Final = frozenset((Use.BROWSE, Use.CONSUME))
WRITES: Final = frozenset((Use.WRITE, Use.WRITE_STREAM))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one read or write, checked. Times are in seconds, `since` in microseconds since 1970;
    `starting_position` is an arrival number, EARLIEST or LATEST; identifiers are 24 bytes; None stands for any.
    """

    use: Use
    url: str = ""
    path: str = ""
    queues: tuple[str, ...] = ()
    consumer: str = ""
    starting_position: int = EARLIEST
    position_from: int = 0
    position_to: int | None = None
    since: int | None = None
    msg_id: bytes | None = None
    correl_id: bytes | None = None
    group_id: bytes | None = None
    messages_max: int = 100_000
    bytes_max: int = 256 * 1024**2
    partitions: int = 1
    whole_groups: bool = False
    put_timeout: float = 60.0
    include_body: bool = True
    fail_on_data_loss: bool = True
    sink: str = ""
    logical_order: bool = False
    retry_timeout: float = 60.0
    user: str = ""
    channel: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    password_file: str = ""
    token_file: str = ""

    @property
    def credentials(self) -> JobCredentials:
        """Who the job is for the queue manager at the URL."""
        return JobCredentials._make(getattr(self, name) for name in JobCredentials._fields)


class Option(NamedTuple):
    """An option: its name, its field in `Options`, what reads its text (raising ValueError with what is due), for what
    it is, its default as people read it, and what it is.
    """

    name: str
    field: str
    read: Callable[[str], Any]
    uses: frozenset[Use]
    default: str
    help: str


def parse(given: Mapping[str, str], use: Use) -> Options:
    """The options of a read or write, whose names may be in any case.

    Raises ValueError, which names the option: one that there is not, one of another use, a value that is none, and one
    that is missing.
    """
    fields: dict[str, Any] = {"partitions": os.cpu_count() or 1}
    for key, text in given.items():
        option = _BY_NAME.get(key.lower())
        if option is None:
            if key.lower() not in _SPARKS:
                _refuse_unknown(key)
            continue
        if use not in option.uses:
            raise ValueError(f"option {option.name} is for {_either(option.uses)}, not for {use.value}")
        try:
            fields[option.field] = option.read(text.strip())
        except ValueError as error:
            raise ValueError(f"option {option.name} is {text!r}: {error}") from None
    if fields.pop("mode", "") == "consume" and use is Use.READ:
        raise ValueError(
            "option mode is 'consume': a batch read browses; to consume what is there, use readStream and "
            "trigger(availableNow=True)"
        )
    options = Options(use=use, **fields)
    _refuse_missing(options)
    return options


def credentials_of(given: Mapping[str, str]) -> JobCredentials:
    """Return the credentials that these options name, in any case. Raises ValueError for one of another kind."""
    fields = {}
    for key, text in given.items():
        option = _BY_NAME.get(key.lower())
        if option is None or option.field not in JobCredentials._fields:
            _refuse_unknown(key)
        fields[option.field] = option.read(text.strip())
    return JobCredentials(**fields)


def stream_use(given: Mapping[str, str]) -> Use:
    """Return the use of a stream that is read, by its option `mode`."""
    mode = next((text for key, text in given.items() if key.lower() == "mode"), "browse")
    return Use.CONSUME if mode.strip().lower() == "consume" else Use.BROWSE


def _refuse_missing(options: Options) -> None:
    if bool(options.url) == bool(options.path):
        what = "both are given" if options.url else "neither is given"
        raise ValueError(f"one of the options url (mq://host:port/QM) and path (a data directory) is needed: {what}")
    if options.path and any(options.credentials):
        raise ValueError("the options user to tokenFile are for a url: a data directory is this user's own")
    if options.password_file and options.token_file:
        raise ValueError("options passwordFile and tokenFile: one of them proves the user, both are given")
    if options.use in READS and not options.queues:
        raise ValueError("option queue is missing: the queue to read, several (A,B), or a generic name (A.*)")
    if options.use is Use.CONSUME and not options.consumer:
        raise ValueError("option consumer is missing: the name under which the queue manager keeps what is claimed")
    if options.position_to is not None and options.position_to < options.position_from:
        raise ValueError(
            f"option positionTo is {options.position_to}, below positionFrom {options.position_from}: no message is in "
            "between; give the lower arrival number as positionFrom"
        )


def _refuse_unknown(key: str) -> NoReturn:
    if key.lower() in ("password", "token"):
        raise ValueError(
            f"option {key}: options stand in plans, event logs and the web UI, so a {key.lower()} is none; give "
            f"{key.lower()}File, the path of a file on each machine, or the name of one given by --files"
        )
    if key.lower() in _ASYNCHRONOUS:
        raise ValueError(f"{key}: not supported, since a batch is acknowledged when Spark asks for the one after it")
    near = get_close_matches(key.lower(), _BY_NAME, 1)
    hint = f"did you mean {_BY_NAME[near[0]].name}? " if near else ""
    raise ValueError(f"{key} is no option of mq; {hint}there are {', '.join(option.name for option in OPTIONS)}")


def _either(uses: frozenset[Use]) -> str:
    return " or ".join(use.value for use in Use if use in uses)


# What reads their texts.


def _some_text(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


def _choice(**choices: Any) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if text.lower() not in choices:
            raise ValueError(f"it is one of {', '.join(choices)}")
        return choices[text.lower()]

    return read


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("a name has 1 to 48 letters, digits and ./_%")
    return text


def _queue_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not _NAME.fullmatch(name) and not _GENERIC.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name of a queue (letters, digits and ./_%, up to 48), nor a generic one (A.*)"
            )
    return tuple(dict.fromkeys(names))


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() and text.isascii() else 0
    if number < 1:
        raise ValueError("it is a whole number from 1 on")
    return number


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text)
    if found is None or not int(found[1]):
        raise ValueError("it is a number of bytes, or one with a unit: 500k, 64m, 1g")
    return int(found[1]) * _UNITS[found[2].lower()]


def _seconds(text: str) -> float:
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise ValueError("it is a time in seconds")
    return seconds


def _position(text: str) -> int:
    named = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in named:
        return named[text.lower()]
    if not text.isdecimal() or not text.isascii():
        raise ValueError("it is earliest, latest, or an arrival number, behind which the stream begins")
    return int(text)


def _arrival(text: str) -> int:
    number = int(text) if text.isdecimal() and text.isascii() and len(text) < 20 else _POSITION_MAX + 1
    if number > _POSITION_MAX:
        raise ValueError("it is an arrival number, as in the column position: a whole number from 0 on, below 2**63")
    return number


def _moment(text: str) -> int:
    due = "it is a time with its zone in ISO 8601, as 2026-11-22T12:00:00Z or 2026-11-22T13:00:00+01:00"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(due) from None
    if moment.tzinfo is None:
        raise ValueError(f"the zone is missing: {due}")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _identifier(text: str) -> bytes:
    if not _IDENTIFIER.fullmatch(text):
        raise ValueError("it is an identifier of 24 bytes as 48 hexadecimal digits")
    if not int(text, 16):
        raise ValueError("zeros stand for none and select nothing: filter the rows by this column instead")
    return bytes.fromhex(text)


def _key(text: str) -> str:
    """The name of the sink that keeps a key: the key itself where it can be a name."""
    return text if _NAME.fullmatch(_some_text(text)) else f"KEY.{sha256(text.encode()).hexdigest()[:40]}"


def _no_selector(text: str) -> NoReturn:
    raise ValueError("not supported: filter the rows instead, by the column properties or any other")


_SPARKS: Final = frozenset(("checkpointlocation", "queryname"))
"""Options of Spark's own that it passes on."""

_ASYNCHRONOUS: Final = frozenset(("asyncprogresstrackingenabled", "asyncprogresstrackingcheckpointintervalms"))

_ALL: Final = frozenset(Use)
_BATCH: Final = frozenset((Use.READ,))
_TRUTH: Final = _choice(true=True, false=False)

OPTIONS: Final = (
    Option("url", "url", _some_text, _ALL, "", "the queue manager: `mq://host:port/QM`, or `mq+unix:///path`"),
    Option("path", "path", _some_text, _ALL, "",
           "in place of a URL a data directory on this machine, whose queue manager is run for the job"),
    Option("queue", "queues", _queue_names, _ALL, "",
           "the queue; of a read also several, `A,B`, and generic names, `A.*`; of a write that for rows without the "
           "column `queue`"),
    Option("mode", "mode", _choice(browse="browse", consume="consume"), READS, "browse",
           "whether messages stay on the queue or are claimed and removed (streams only)"),
    Option("consumer", "consumer", _name, frozenset((Use.CONSUME,)), "", "the name of what claims; one query has it"),
    Option("startingPosition", "starting_position", _position, frozenset((Use.BROWSE,)), "earliest",
           "where a new query begins: `earliest`, `latest`, or behind an arrival number"),
    Option("positionFrom", "position_from", _arrival, _BATCH, "",
           "only messages from this arrival number on (column `position`), itself included"),
    Option("positionTo", "position_to", _arrival, _BATCH, "",
           "only messages up to this arrival number, itself included"),
    Option("since", "since", _moment, _BATCH, "",
           "only messages put at this time or later: in ISO 8601 with its zone, `2026-11-22T12:00:00Z` or "
           "`2026-11-22T13:00:00+01:00`"),
    Option("msgId", "msg_id", _identifier, _BATCH, "",
           "only messages with this MsgId: 48 hexadecimal digits, not all zero"),
    Option("correlId", "correl_id", _identifier, _BATCH, "", "the same of CorrelId"),
    Option("groupId", "group_id", _identifier, _BATCH, "", "the same of GroupId"),
    Option("maxMessagesPerTrigger", "messages_max", _positive, STREAMS, "100000", "the most messages of a batch"),
    Option("maxBytesPerTrigger", "bytes_max", _size, STREAMS, "256m", "the most bytes of a batch"),
    Option("numPartitions", "partitions", _positive, READS, "the driver's processors",
           "the most partitions of a batch; a small one has fewer"),
    Option("groups", "whole_groups", _choice(each=False, whole=True), frozenset((Use.CONSUME,)), "each",
           "`whole` claims complete groups and logical messages alone, each within one partition, in order"),
    Option("includeBody", "include_body", _TRUTH, READS, "true", "whether the column `body` is filled"),
    Option("failOnDataLoss", "fail_on_data_loss", _TRUTH, STREAMS | {Use.WRITE_STREAM}, "true",
           "whether messages that are missing end the query"),
    Option("selector", "selector", _no_selector, READS, "", "not supported: filter the rows"),
    Option("putTimeout", "put_timeout", _seconds, WRITES, "60", "seconds to wait while a queue is full"),
    Option("groupOrder", "logical_order", _choice(given=False, logical=True), WRITES, "given",
           "`logical`: GroupId and MsgSeqNumber are made by the queue manager, as with LOGICAL_ORDER, for the rows of "
           "each partition by their MsgFlags; `given`: rows bring their own"),
    Option("sinkId", "sink", _name, frozenset((Use.WRITE_STREAM,)), "of the query's id",
           "the name under which the queue manager keeps which batch was written last; one query has it"),
    Option("idempotencyKey", "sink", _key, frozenset((Use.WRITE,)), "",
           "a write with the same key is made once; kept for 30 days, and 100,000 keys"),
    Option("retryTimeout", "retry_timeout", _seconds, _ALL, "60",
           "seconds to go on trying while the queue manager cannot be reached"),
    Option("user", "user", _some_text, _ALL, "", "the user that the job connects as"),
    Option("channel", "channel", _some_text, _ALL, "", "the channel that it comes in by"),
    Option("caFile", "ca_file", _some_text, _ALL, "the system's store",
           "of `mqs://`: whom to trust; a path on each machine, or a name given by `--files`, as all files here"),
    Option("certFile", "cert_file", _some_text, _ALL, "", "of `mqs://`: the certificate of the job"),
    Option("keyFile", "key_file", _some_text, _ALL, "in `certFile`", "the key of that certificate"),
    Option("passwordFile", "password_file", _some_text, _ALL, "",
           "the file with the password of `user`, which each process reads whenever it connects"),
    Option("tokenFile", "token_file", _some_text, _ALL, "", "the file with a token, in its place"),
)  # fmt: skip

_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
