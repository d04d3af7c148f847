"""A dead letter as it lies on its queue: what it says of itself, and the message that it was before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from broker.mqi import MQENC, MQFB, MQFMT, MQRC, MQError
from broker.mqi.delivery_fields import failure_text
from broker.mqi.layouts.folders import decode, encode, read
from broker.mqi.layouts.layouts import MQDLH
from broker.mqi.layouts.rfh2 import FILLED_IN, FORMAT, MQRFH2, byte_order
from broker.mqi.step_fields import unpack_steps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.interface import Message
    from broker.mqi import MessageDescriptor
    from broker.mqi.layouts.folders import Value

FOLDER: Final = "evermq"
REPLAYS: Final = "evermq.replays"
STEPS: Final = "evermq.steps"

_DEAD: Final = MQFMT.DEAD_LETTER_HEADER.value


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter, decoded. Instants are in seconds since 1970, 0 where nothing is known.

    `header` is its MQDLH, None where it has none that can be read. `why` is one word of the queue manager's where a
    handler was concerned (`failed`, `timed_out`, `crashed`, ...), else the name of the reason in the MQDLH, else empty.
    `q_name` is where it came from, empty where nothing tells that; `q_mgr_name` names another queue manager than this
    one, or is empty. `foreign`: neither header nor properties say anything about it.
    """

    token: bytes
    md: MessageDescriptor
    data: bytes
    length: int
    properties: Mapping[str, Value]
    header: MQDLH | None
    q_name: str
    q_mgr_name: str

    @property
    def foreign(self) -> bool:
        return self.header is None and not self.text("queue")

    @property
    def why(self) -> str:
        return self.text("why") or ("" if self.header is None else reason_name(self.header.reason))

    @property
    def handler(self) -> str:
        return self.text("handler")

    @property
    def worker(self) -> str:
        return self.text("worker")

    @property
    def attempts(self) -> int:
        return int(self._number("attempts"))

    @property
    def crashes(self) -> int:
        return int(self._number("crashes"))

    @property
    def replays(self) -> int:
        """The number of times that it was put back to its queue."""
        return int(self._number("replays"))

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps that handlers had finished for it, in their order."""
        packed = self.properties.get(STEPS)
        return tuple(unpack_steps(packed) or ()) if isinstance(packed, bytes) else ()

    @property
    def exception(self) -> str:
        return self.text("exception")

    @property
    def error(self) -> str:
        return self.text("error")

    @property
    def failure(self) -> str:
        """The error of the handler, in words; empty where nothing is known of one."""
        return failure_text(self.exception, self.error)

    @property
    def traceback(self) -> str:
        return self.text("traceback")

    @property
    def first_failed(self) -> float:
        return self._number("first_failed")

    @property
    def failed_at(self) -> float:
        """The time of the last failed attempt, or else of the letter's arrival here, or else of the message's put."""
        failed = self._number("last_failed")
        if failed or self.header is None:
            return failed or stamped(self.md.put_date, self.md.put_time)
        return stamped(self.header.put_date, self.header.put_time)

    def text(self, name: str) -> str:
        """A property of the folder, as text; empty where there is none."""
        value = self.properties.get(f"{FOLDER}.{name}")
        return value if isinstance(value, str) else ""

    def _number(self, name: str) -> float:
        value = self.properties.get(f"{FOLDER}.{name}")
        return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def read_letter(message: Message, q_mgr_name: str) -> DeadLetter:
    """The dead letter that a message is, got with its properties beside the data, on this queue manager."""
    try:
        properties: Mapping[str, Value] = message.properties
    except MQError:  # of a queue manager that took what this one does not
        properties = {}
    md, data = message.md, message.data
    header = header_of(md, data, properties)
    length = message.length
    origin = properties.get(f"{FOLDER}.queue")
    q_name, other = (origin, "") if isinstance(origin, str) else ("", "")
    if header is not None:
        md, data, length = behind(md, header), data[MQDLH.SIZE :], length - MQDLH.SIZE
        q_name = q_name or header.dest_q_name
        other = "" if origin or header.dest_q_mgr_name == q_mgr_name else header.dest_q_mgr_name
    return DeadLetter(message.token, md, data, length, properties, header, q_name, other)


def header_of(md: MessageDescriptor, data: bytes, properties: Mapping[str, Value]) -> MQDLH | None:
    """The MQDLH before the data, if there is one that can be read and that tells of this death, not of an earlier one.

    A dead letter that a handler could not handle, on a BOQNAME, has the header that it had before.
    """
    if md.format.rstrip(" \0") != _DEAD:
        return None
    try:
        header = MQDLH.from_bytes(data, byte_order(md.encoding))
    except ValueError:
        return None
    origin = properties.get(f"{FOLDER}.queue")
    return header if origin is None or header.dest_q_name == origin else None


def behind(md: MessageDescriptor, header: MQDLH) -> MessageDescriptor:
    """The descriptor of the message without its MQDLH."""
    return replace(md, format=header.format, encoding=header.encoding, coded_char_set_id=header.coded_char_set_id)


def restored(
    message: Message, replays: int, *, clear_steps: bool = False, edited: bytes | None = None
) -> tuple[MessageDescriptor, bytes]:
    """The descriptor and the data to put, so that the message is on a queue what it was before it died; or with the
    data `edited` in place of its own.

    `message` was got with its properties in an MQRFH2 before the data. Of the folder `evermq` only the count of replays
    is left, and the finished steps unless `clear_steps`; Expiry is what was left of it at the failure.
    """
    md, data = replace(message.md), message.data
    folders: list[str] = []
    if md.format.rstrip(" \0") == FORMAT:
        outer, length = MQRFH2.from_bytes(data, byte_order(md.encoding))
        folders, data = list(outer.folders), data[length:]
        ccsid = md.coded_char_set_id if outer.coded_char_set_id <= 0 else outer.coded_char_set_id
        md = replace(md, format=outer.format, encoding=outer.encoding, coded_char_set_id=ccsid)
    reported = decode(text for text in folders if read(text).name == FOLDER)
    header = header_of(md, data, reported)
    if header is not None:
        md, data = behind(md, header), data[MQDLH.SIZE :]
    left = reported.get(f"{FOLDER}.put_expiry")
    if isinstance(left, int) and left:
        md.expiry = left
    kept = [text for text in folders if read(text).name != FOLDER]
    own: dict[str, Value] = {REPLAYS: replays}
    if not clear_steps and isinstance(reported.get(STEPS), bytes):
        own[STEPS] = reported[STEPS]
    outermost = MQRFH2((*kept, *encode(own)), md.format, md.encoding, FILLED_IN)
    md.format, md.encoding = FORMAT, MQENC.NATIVE.value
    return md, outermost.to_bytes() + (data if edited is None else edited)


def reason_name(reason: int) -> str:
    """The name of a reason in an MQDLH, which is an MQRC or an MQFB."""
    for family in (MQRC, MQFB):
        try:
            return f"MQ{family.__name__[2:]}_{family(reason).name}"
        except ValueError:
            continue
    return str(reason)


def stamped(date: str, time: str) -> float:
    """The instant of a PutDate and PutTime; 0 for what is none."""
    try:
        whole = datetime.strptime(f"{date}{time[:6]}", "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        return whole.timestamp() + int(time[6:8] or 0) / 100
    except ValueError:
        return 0.0
