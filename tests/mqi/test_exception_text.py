"""The bounded text of an exception: nothing that is raised makes it long, slow, or fail."""

from __future__ import annotations

import io
import logging
import time
import traceback
from typing import Any

import pytest

from broker.mqi.exception_text import (
    TRACEBACK_BYTES,
    head,
    log_exception,
    tail,
    text_of,
    traceback_of,
)

LONG = "x" * 20_000_000


class Wrong(Exception):
    def __init__(self, raised: BaseException) -> None:
        self.raised = raised

    def __str__(self) -> str:
        raise self.raised


def raised(error: BaseException, before: BaseException | None = None, depth: int = 0) -> BaseException:
    """The same exception, with a traceback."""
    try:
        if depth:
            raised(error, before, depth - 1)
        raise error from before
    except BaseException as caught:
        return caught


def nested(depth: int, width: int = 1) -> BaseException:
    error: BaseException = ValueError("the innermost")
    for number in range(depth):
        error = BaseExceptionGroup(f"group {number}", [error] * width)
    return raised(error)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such order"), "no such order"),
        (ValueError(), ""),
        (ValueError(LONG), "x" * 100),
        (ValueError(b"x" * 1000), "b'" + "x" * 98),
        (KeyError(LONG), "'" + "x" * 99),
        (ValueError("é" * 1000), "é" * 50),
        (ValueError("\ud800 lone"), "? lone"),
        (ValueError("a", "b"), "('a', 'b')"),
        (Wrong(ValueError()), "(its text cannot be made)"),
        (Wrong(SystemExit(7)), "(its text cannot be made)"),
        (Wrong(KeyboardInterrupt()), "(its text cannot be made)"),
        (Wrong(RecursionError()), "(its text cannot be made)"),
    ],
)
def test_a_text_is_cut_before_it_is_encoded(error: BaseException, text: str) -> None:
    begun = time.process_time()
    assert text_of(error, 100) == text
    assert time.process_time() - begun < 0.05


@pytest.mark.parametrize(("size", "first", "last"), [(0, "", ""), (3, "aé", "éz"), (1, "a", "z"), (9, "aéz", "aéz")])
def test_a_text_is_cut_at_a_character(size: int, first: str, last: str) -> None:
    assert (head("aéz", size), tail("aéz", size)) == (first, last)


@pytest.mark.parametrize("before", [None, LookupError("before")])
def test_an_ordinary_traceback_is_as_python_shows_it(before: BaseException | None) -> None:
    error = raised(ValueError("no such order"), raised(before) if before is not None else None)
    error.add_note("a note")
    assert traceback_of(error) == "".join(traceback.format_exception(error))


def test_what_was_raised_while_another_was_handled_is_shown_with_it() -> None:
    try:
        try:
            raise LookupError("before")
        except LookupError:
            raise ValueError("after") from None
    except ValueError as caught:
        hidden = caught
    try:
        try:
            raise LookupError("before")
        except LookupError:
            int("x")
    except ValueError as caught:
        shown = caught
    assert traceback_of(shown) == "".join(traceback.format_exception(shown))
    assert traceback_of(hidden) == "".join(traceback.format_exception(hidden))


def endless() -> BaseException:
    one, other = raised(ValueError("one")), raised(ValueError("other"))
    one.__cause__, other.__cause__ = other, one
    return one


def chained(length: int) -> BaseException:
    error: BaseException = ValueError("first")
    for number in range(length):
        error = raised(ValueError(f"number {number}"), error)
    return error


def noted() -> BaseException:
    error = raised(ValueError("noted"))
    for _ in range(1000):
        error.add_note(LONG[:100_000])
    error.__notes__.append(5)  # type: ignore[arg-type]
    return error


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: raised(ValueError(LONG)), "ValueError: xxx"),
        (lambda: nested(200), "group 199"),
        (lambda: nested(8, 15), "of 15 exceptions"),
        (lambda: raised(ExceptionGroup("wide", [ValueError(LONG)] * 10_000)), "of 10000 exceptions"),
        (lambda: chained(5000), "number 4999"),
        (endless, "one"),
        (noted, "noted"),
        (lambda: raised(ValueError("deep"), depth=800), "ValueError: deep"),
        (lambda: raised(Wrong(SystemExit())), "(its text cannot be made)"),
        (lambda: nested(200, 1).with_traceback(None), "group 199"),
    ],
    ids=[
        "long",
        "deep group",
        "wide and deep group",
        "wide group",
        "chain",
        "circle",
        "notes",
        "recursion",
        "str",
        "bare",
    ],
)
def test_whatever_is_raised_its_traceback_is_short_and_made_at_once(made: Any, said: str) -> None:
    error = made()
    traceback_of(error)  # reads the source lines, once
    begun = time.process_time()
    text = traceback_of(error)
    assert time.process_time() - begun < 0.25
    assert len(text.encode()) <= TRACEBACK_BYTES
    assert said in text
    assert len(traceback_of(error, 100).encode()) <= 100
    assert traceback_of(error, 0) == ""


def test_a_record_bears_the_bounded_traceback_whatever_formatter_writes_it() -> None:
    logger, written = logging.Logger("test"), io.StringIO()
    logger.addHandler(logging.StreamHandler(written))
    error = nested(200)
    log_exception(logger, logging.DEBUG - 1, error, "never")
    logger.setLevel(logging.INFO)
    log_exception(logger, logging.DEBUG, error, "not at this level")
    log_exception(logger, logging.ERROR, error, "handled %s", "it", extra={"queue": "Q"})
    assert written.getvalue().count("handled it") == 1
    assert "not at this level" not in written.getvalue()
    assert "group 199" in written.getvalue()
    assert len(written.getvalue()) < TRACEBACK_BYTES + 100
