"""The log of a process: its lines in logfmt and in JSON, and floods of them."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import TYPE_CHECKING, Any
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.terminal import logs
from broker.cli.terminal.log_floods import COUNT_SECONDS, FloodGate
from broker.cli.terminal.logs import JsonLines, TextLines
from broker.cli.terminal.recent_log import RecentLog
from broker.config import LoggingConfig
from broker.interface.answers import LogPiece
from tests.cli.controls import CONTROLS

if TYPE_CHECKING:
    from collections.abc import Callable

WORD = re.compile(r'(?P<name>[^\s="]+)=(?P<value>"(?:[^"\\]|\\.)*"|[^\s"]*)(?: |$)')


def record(
    template: str = "line refused peer=%s",
    *values: object,
    exception: bool = False,
    logger: str = "broker.server",
    level: int = logging.WARNING,
    **extra: object,
) -> logging.LogRecord:
    made = logging.LogRecord(logger, level, "server.py", 1, template, values or ("[::1]:99",), None)
    made.created, made.msecs = 1_795_255_200.123, 123.0
    vars(made).update(extra)
    if exception:
        try:
            raise ValueError("what happened")
        except ValueError:
            made.exc_info = sys.exc_info()
    return made


def read(line: str) -> dict[str, str]:
    """Return the fields of a line in logfmt."""
    fields, place = {}, 0
    while place < len(line):
        found = WORD.match(line, place)
        assert found is not None, line[place:]
        value = found["value"]
        fields[found["name"]] = json.loads(value) if value.startswith('"') else value
        place = found.end()
    return fields


def in_logfmt(value: object) -> str:
    """Return the text that a value of JSON is in logfmt."""
    match value:
        case None | bool():
            return json.dumps(value)
        case list():
            return ",".join(map(str, value))
        case _:
            return str(value)


# Lines


def test_a_line_of_text_is_logfmt_with_the_time_in_utc() -> None:
    assert TextLines().format(record("line refused peer=%s: %s", "[::1]:99", "no frame")) == (
        "time=2026-11-21T10:00:00.123Z level=WARNING logger=broker.server event=line_refused "
        'message="line refused peer=[::1]:99: no frame" peer=[::1]:99 detail="no frame"'
    )


def test_a_line_of_json_is_one_object() -> None:
    line = JsonLines().format(record(exception=True))
    fields = json.loads(line)
    assert "\n" not in line
    assert list(fields) == ["time", "level", "logger", "event", "message", "peer", "exception"]
    assert fields.pop("exception").endswith("ValueError: what happened")
    assert fields == {
        "time": "2026-11-21T10:00:00.123Z",
        "level": "WARNING",
        "logger": "broker.server",
        "event": "line_refused",
        "message": "line refused peer=[::1]:99",
        "peer": "[::1]:99",
    }


def test_a_traceback_is_a_field_and_on_a_terminal_stands_below_its_line() -> None:
    made = record(exception=True)
    assert read(TextLines().format(made))["exception"] == json.loads(JsonLines().format(made))["exception"]
    first, *_, last = TextLines(below=True).format(made).splitlines()
    assert first.endswith("peer=[::1]:99")
    assert last == "  ValueError: what happened"


@given(
    texts=st.lists(st.text(), min_size=2, max_size=2),
    number=st.integers() | st.floats() | st.none() | st.booleans() | st.lists(st.text(alphabet="ab ")),
    words=st.sampled_from(["line refused peer=%s: %s", "store full path=%s: %s", "%s said %s"]),
)
def test_whatever_a_client_sent_an_event_is_one_line_whose_fields_are_the_same_in_both_forms(
    texts: list[str], number: object, words: str
) -> None:
    made = record(words, *texts, count=number, exc_info=(ValueError, ValueError(texts[0]), None))
    line, as_json = TextLines().format(made), JsonLines().format(made)
    assert {category(each) for each in line}.isdisjoint({"Cc", "Cs", "Zl", "Zp"})  # controls, surrogates, new lines
    assert len(line.splitlines()) == len(as_json.splitlines()) == 1
    expected = {name: in_logfmt(value) for name, value in json.loads(as_json).items()}
    assert read(line) == expected


@pytest.mark.parametrize("control", ["\n", *CONTROLS], ids=ascii)
def test_what_a_client_chose_is_one_harmless_line_of_the_log(control: str) -> None:
    chosen = f"good{control}time=2026-11-21T10:00:00.123Z level=ERROR logger=broker.engine forged"
    made = record("line refused peer=%s", chosen, exc_info=(ValueError, ValueError(chosen), None))
    written = TextLines().format(made)
    assert written.isprintable()
    assert read(written)["peer"] == chosen
    first, *below = TextLines(below=True).format(made).splitlines()
    assert first.isprintable()
    assert all(line.startswith("  ") and line.isprintable() for line in below)


@pytest.mark.parametrize("formatter", [TextLines(), TextLines(below=True), JsonLines()], ids=["text", "below", "json"])
@pytest.mark.parametrize("what", ["x", "é", "\U0001f600", "\x1b"], ids=ascii)
@pytest.mark.parametrize("where", ["message", "error", "both", "ready"])
def test_a_record_of_the_log_is_at_most_64_kib(formatter: logging.Formatter, what: str, where: str) -> None:
    made, text = record(), what * 2_000_000
    if where in ("message", "both"):
        made.args = (text,)
    if where in ("error", "both"):
        made.exc_info = (ValueError, ValueError(text), None)
    if where == "ready":
        made.exc_info, made.exc_text = (ValueError, ValueError(text), None), text
    assert 1000 < len(formatter.format(made).encode()) <= 64 * 1024


def test_text_that_harms_nothing_is_logged_as_it_is() -> None:
    assert TextLines().format(record("peer=%s", "Zürich → 東京 \\x1b")).endswith('peer="Zürich → 東京 \\\\x1b"')


@pytest.mark.parametrize(
    ("template", "values", "fields"),
    [
        ("quiesces name=%s connections=%d", ("QM1", 3), {"event": "quiesces", "name": "QM1", "connections": 3}),
        (
            "store full units=%d refused=%d: %s",
            (2, 1, OSError("no room")),
            {"event": "store_full", "units": 2, "refused": 1, "reason": "no room"},
        ),
        ("defined: %s", ("DEFINE X=%s",), {"event": "defined", "detail": "DEFINE X=%s"}),
        ("after %.1f s: queue=%s x=%r", (1.25, "Q", b"x"), {"event": "after_s", "queue": "Q", "x": "b'x'"}),
        ("line refused peer=%s", ("a level=ERROR event=forged",), {"peer": "a level=ERROR event=forged"}),
        ("%d %% full", (5,), {"event": "full"}),
        ("%s", ("prose",), {}),
        ("at=%s", (float("inf"),), {"at": "inf"}),
    ],
)
def test_a_line_has_the_fields_of_a_record(template: str, values: tuple[object, ...], fields: dict[str, Any]) -> None:
    reported = json.loads(JsonLines().format(record(template, *values)))
    assert {**reported, **fields} == reported
    assert (reported["level"], reported["message"]) == ("WARNING", template % values)
    assert reported.keys() - fields.keys() - {"event"} == {"time", "level", "logger", "message"}


def test_a_line_has_what_a_call_gives_besides_and_hides_nothing_of_its_own() -> None:
    made = record(event="handled", queue="ORDERS", attempt=2, addresses=["a", "b"])
    vars(made)["level"] = "none"
    reported = json.loads(JsonLines().format(made))
    assert (reported["event"], reported["queue"], reported["attempt"], reported["level"]) == (
        "handled",
        "ORDERS",
        2,
        "WARNING",
    )
    assert reported["addresses"] == ["a", "b"]
    assert read(TextLines().format(made))["addresses"] == "a,b"


def test_a_line_of_another_package_has_no_event_of_its_own() -> None:
    assert "event" not in json.loads(JsonLines().format(record("shop opened: %s", "today", logger="shop")))


# Floods


class Written(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(JsonLines().format(record)))

    def repeats(self) -> list[int]:
        """Return the number of records that each line stands for."""
        return [line.get("repeated", 1) for line in self.lines]


class Gate:
    """A gate with a clock and a timer that stand still until they are moved."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waiting: list[Callable[[], None]] = []
        self.written = Written()
        self.gate = FloodGate([self.written], monotonic=lambda: self.now, later=self._later)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        assert seconds == COUNT_SECONDS
        self.waiting.append(call)

    def advance(self) -> None:
        self.now += COUNT_SECONDS
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call()


def test_a_flood_of_an_event_is_counted_after_ten_a_second() -> None:
    it = Gate()
    for number in range(922):
        it.gate.handle(record("line refused peer=%s: %s", f"127.0.0.1:{number}", "no frame"))
    assert it.written.repeats() == [1] * 10
    it.advance()
    assert it.written.repeats() == [1] * 10 + [912]
    assert it.written.lines[-1]["peer"] == "127.0.0.1:921"
    it.gate.handle(record("line refused peer=%s: %s", "127.0.0.1:1", "no frame"))
    assert it.written.repeats() == [1] * 10 + [912, 1]
    assert it.waiting == []


def test_floods_are_counted_by_event_and_by_origin() -> None:
    it = Gate()
    for _ in range(12):
        it.gate.handle(record("line refused peer=%s", "127.0.0.1:5"))
        it.gate.handle(record("line refused peer=%s", "[::1]:5"))
        it.gate.handle(record("line dropped peer=%s", "127.0.0.1:5"))
        it.gate.handle(record("not_authorized user=%s application=%s", "bob", "any"))
    it.advance()
    assert it.written.repeats() == [1] * 40 + [2] * 4


def test_what_is_no_flood_is_written_at_once() -> None:
    it = Gate()
    for number in range(50):
        it.gate.handle(record("handled %s", "x", event="handled", queue="Q", msg_id=f"{number:048x}"))
        it.gate.handle(record("frame received peer=%s", "127.0.0.1:5", level=logging.DEBUG))
        it.gate.handle(record("shop opened: %s", "today", logger="shop"))
    assert it.written.repeats() == [1] * 150
    assert it.waiting == []


def test_the_count_of_a_flood_is_written_at_the_end_of_the_process() -> None:
    it = Gate()
    for _ in range(15):
        it.gate.handle(record())
    it.gate.flush()
    assert it.written.repeats() == [1] * 10 + [5]


def test_very_many_floods_at_a_time_are_not_all_held() -> None:
    it = Gate()
    for number in range(1002):
        for _ in range(12):
            it.gate.handle(record("store full path=%s", f"/{number}"))
    assert sum(it.written.repeats()) > 1000 * 12


# The last lines


def lines_of(recent: RecentLog, size: int = 1 << 20) -> list[str]:
    found: list[str] = []
    last = 0
    while (piece := recent.after(last, size)).lines:
        found += piece.lines
        last = piece.last
    return found


def test_the_last_lines_are_kept_and_read_in_pieces() -> None:
    recent = RecentLog(3)
    assert recent.after(5, 100) == LogPiece(0, 0, [])
    for number in range(5):
        recent.handle(record("line refused peer=%s", number))
    assert lines_of(recent) == [f"line refused peer={number}" for number in (2, 3, 4)]
    assert lines_of(recent, size=1) == lines_of(recent)
    assert recent.after(3, 30) == LogPiece(4, 5, ["line refused peer=3"])
    recent.resize(1)
    assert lines_of(recent) == ["line refused peer=4"]


def test_the_last_lines_have_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.cli.terminal.recent_log.BYTES_MAX", 1000)
    recent = RecentLog(1000)
    for _ in range(50):
        recent.handle(record("%s", "é" * 50))
    assert sum(len(line.encode()) for line in lines_of(recent)) == 1000


def test_the_last_lines_tell_nothing_that_the_code_of_a_user_has_written() -> None:
    recent = RecentLog(10)
    recent.setFormatter(TextLines())
    secret = "canary"
    handled = record("handled %s", f"outcome=dead error={secret}", logger="triggers.serving.outcomes", exception=True)
    vars(handled).update(event="handled", queue="Q", outcome="dead", error=f"ValueError: {secret}")
    recent.handle(handled)
    recent.handle(record("app ends: %s", ValueError(secret), logger="triggers.serving.session"))
    recent.handle(record("order %s", secret, logger="shop"))
    first, second = map(read, lines_of(recent))
    assert secret not in str([first, second])
    assert (first["event"], first["queue"], first["error"]) == ("handled", "Q", "ValueError")
    assert (second["event"], second["message"]) == ("app_ends", "app_ends")


def test_the_log_can_be_set_up_again_and_the_last_lines_stay(process_of_the_tests: None) -> None:
    recent = RecentLog(10)
    logs.set_up(LoggingConfig(format="json"), recent)
    logging.getLogger("broker.tests").warning("first")
    logs.set_up(LoggingConfig(format="text", level="ERROR"), recent)
    logging.getLogger("broker.tests").warning("second")
    logging.getLogger("broker.tests").error("third")
    assert [re.sub('^.*message=|.*message": ', "", line) for line in lines_of(recent)] == ['"first"}', "third"]
