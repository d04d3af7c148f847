"""The format of the sample messages: a reservation as one line of JSON, and what can be wrong with a line.

{"record": "K7QX2M", "name": "MEIER/ANNA", "flight": "EV1234", "date": "2026-12-01", "from": "ZRH", "to": "LIS",
 "class": "Y", "seats": 2}
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from typing import Any, Final

from broker.mqi import MQFB_APPL_FIRST

LINE_BYTES_MAX: Final = 4096
"""A reservation is short; what is longer is not even parsed."""

FARES: Final = {"F": 910, "C": 460, "Y": 120}
"""The fare of a seat in each class, in whole euros."""

_PATTERNS: Final = {
    "record": re.compile(r"[A-Z0-9]{6}"),
    "name": re.compile(r"[A-Z]+(?:[ '-][A-Z]+)*/[A-Z]+(?:[ '-][A-Z]+)*"),
    "flight": re.compile(r"[A-Z]{2}[0-9]{1,4}"),
    "date": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "from": re.compile(r"[A-Z]{3}"),
    "to": re.compile(r"[A-Z]{3}"),
    "class": re.compile(r"[FCY]"),
}


class Refusal(IntEnum):
    """A reason why a line is no reservation: the application's feedback code, which travels in the dead-letter
    header.
    """

    TOO_LONG = MQFB_APPL_FIRST + 1
    NOT_TEXT = MQFB_APPL_FIRST + 2
    NOT_JSON = MQFB_APPL_FIRST + 3
    FIELD_MISSING = MQFB_APPL_FIRST + 4
    FIELD_WRONG = MQFB_APPL_FIRST + 5

    @property
    def words(self) -> str:
        """For people: "not text"."""
        return _WORDS[self]


_WORDS: Final = {
    Refusal.TOO_LONG: "too long to parse",
    Refusal.NOT_TEXT: "not text",
    Refusal.NOT_JSON: "not a JSON object",
    Refusal.FIELD_MISSING: "field missing",
    Refusal.FIELD_WRONG: "field wrong",
}


class RefusedError(Exception):
    """A line that is no reservation."""

    def __init__(self, refusal: Refusal, detail: str) -> None:
        super().__init__(f"{refusal.words}: {detail}")
        self.refusal = refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A reservation that was read: what the reply needs of it."""

    record: str
    flight: str
    travel_class: str
    seats: int

    def reply(self) -> str:
        """The text of the reply to who asked for it."""
        fare = FARES[self.travel_class] * self.seats
        return json.dumps(
            {"record": self.record, "flight": self.flight, "status": "confirmed", "seats": self.seats, "fare": fare}
        )


def parsed(data: bytes) -> Reservation:
    """The reservation on a line; raises RefusedError where it holds none."""
    if len(data) > LINE_BYTES_MAX:
        raise RefusedError(Refusal.TOO_LONG, f"{len(data)} bytes, at most {LINE_BYTES_MAX}")
    fields = _object(data)
    for key, pattern in _PATTERNS.items():
        value = _field(fields, key)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise RefusedError(Refusal.FIELD_WRONG, key)
    _check_date(fields["date"])
    if fields["from"] == fields["to"]:
        raise RefusedError(Refusal.FIELD_WRONG, "to is where from is")
    seats = _field(fields, "seats")
    if type(seats) is not int or not 1 <= seats <= 9:
        raise RefusedError(Refusal.FIELD_WRONG, "seats")
    return Reservation(record=fields["record"], flight=fields["flight"], travel_class=fields["class"], seats=seats)


def _object(data: bytes) -> dict[str, Any]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(Refusal.NOT_TEXT, f"byte {error.start}") from None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise RefusedError(Refusal.NOT_JSON, "not JSON at all") from None
    if not isinstance(fields, dict):
        raise RefusedError(Refusal.NOT_JSON, f"a JSON {type(fields).__name__}")
    return fields


def _field(fields: dict[str, Any], key: str) -> object:
    try:
        return fields[key]
    except KeyError:
        raise RefusedError(Refusal.FIELD_MISSING, key) from None


def _check_date(text: str) -> None:
    try:
        date.fromisoformat(text)
    except ValueError:
        raise RefusedError(Refusal.FIELD_WRONG, "date") from None
