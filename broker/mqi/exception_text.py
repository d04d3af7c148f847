"""The bounded text of an exception: what is kept of it with a message, sent, or logged.

Whoever raises chooses how long its text is, how deep its groups and its chain are, and what `__str__` does. All of that
is bounded before anything is formatted or encoded, since it happens on the event loop.
"""

from __future__ import annotations

from itertools import islice
from traceback import StackSummary, walk_tb
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

TEXT_BYTES: Final = 8 * 1024
"""The bytes of an exception's text that a traceback has."""

TRACEBACK_BYTES: Final = 32 * 1024
"""The bytes of a traceback in the log."""

FRAMES_MAX: Final = 40
CHAIN_MAX: Final = 5
GROUP_DEPTH: Final = 4
GROUP_WIDTH: Final = 5
EXCEPTIONS_MAX: Final = 20
NOTES_MAX: Final = 5
"""The frames of one traceback, the causes of one exception, the depth and the width of groups, the exceptions in all,
and the notes of one: what is beyond is left out, and that is said."""

_LINE: Final = 500  # of source, or of one frame
_CAUSE: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"


def head(text: str, size: int) -> str:
    """The first bytes of a text in UTF-8."""
    return text[:size].encode(errors="replace")[:size].decode(errors="ignore")


def tail(text: str, size: int) -> str:
    """The last bytes of a text in UTF-8."""
    return text[-size:].encode(errors="replace")[-size:].decode(errors="ignore") if size > 0 else ""


def text_of(error: BaseException, size: int) -> str:
    """At most so many bytes of an exception's text. An exception that is raised in its making is not let out, whatever
    it is: SystemExit too.
    """
    try:
        if len(error.args) == 1 and type(error.args[0]) in (str, bytes) and len(error.args[0]) > size:
            short = error.args[0][:size]
            if type(error).__str__ is KeyError.__str__:
                return head(repr(short), size)
            if type(error).__str__ is BaseException.__str__:
                return head(str(short), size)
        return head(str(error), size)
    except BaseException:
        return "(its text cannot be made)"


def traceback_of(error: BaseException, size: int = TRACEBACK_BYTES, trace: TracebackType | None = None) -> str:
    """The end of an exception's traceback, as Python shows it, at most so many bytes; `trace` in place of its own."""
    if size <= 0:
        return ""
    left = _ShownLeft(EXCEPTIONS_MAX)
    try:
        return tail("".join(_chain(error, left, 0, trace)), size)
    except Exception as wrong:
        return tail(f"{_name(error)}: its traceback cannot be made: {_name(wrong)}\n", size)


def log_exception(
    logger: Any, level: int, error: BaseException, text: str, *arguments: object, extra: Any = None
) -> None:
    """Log a record with an exception whose traceback is bounded, whatever handler or formatter the program has."""
    if logger.isEnabledFor(level):
        file, line, function, _ = logger.findCaller(stacklevel=2)
        info = type(error), error, error.__traceback__
        record = logger.makeRecord(logger.name, level, file, line, text, arguments, info, function, extra)
        record.exc_text = traceback_of(error).rstrip("\n")  # a formatter makes none where there is one
        logger.handle(record)


class _ShownLeft:
    """The number of exceptions that may still be shown."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


def _chain(error: BaseException, left: _ShownLeft, depth: int, trace: TracebackType | None = None) -> Iterator[str]:
    """Yield the causes of an exception, the oldest first, and the exception itself."""
    links: list[tuple[BaseException, str]] = [(error, "")]
    while len(links) <= CHAIN_MAX:
        link = links[-1][0]
        if link.__cause__ is not None:
            before, how = link.__cause__, _CAUSE
        elif link.__context__ is not None and not link.__suppress_context__:
            before, how = link.__context__, _CONTEXT
        else:
            break
        if any(before is each for each, _ in links):
            break
        links.append((before, how))
    for place in range(len(links) - 1, -1, -1):
        if left.count <= 0:
            yield "... and more exceptions\n"
            return
        left.count -= 1
        each = links[place][0]
        yield from _single(each, trace if trace is not None and each is error else each.__traceback__, left, depth)
        if place:
            yield links[place][1]


def _single(error: BaseException, trace: TracebackType | None, left: _ShownLeft, depth: int) -> Iterator[str]:
    if trace is not None:
        yield "Traceback (most recent call last):\n"
        yield from _frames(trace)
    text = text_of(error, TEXT_BYTES)
    yield f"{_name(error)}: {text}\n" if text else f"{_name(error)}\n"
    yield from _notes(error)
    if isinstance(error, BaseExceptionGroup):
        yield from _group(error, left, depth)


def _frames(trace: TracebackType) -> Iterator[str]:
    summary = StackSummary.extract(walk_tb(trace), limit=-FRAMES_MAX)
    if len(summary) == FRAMES_MAX:
        yield "  ...\n"
    for line in summary.format():
        yield line if len(line) <= 3 * _LINE else line[: 3 * _LINE] + "...\n"


def _notes(error: BaseException) -> Iterator[str]:
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, list | tuple):
        for note in notes[:NOTES_MAX]:
            if type(note) is str:
                yield f"{head(note, _LINE)}\n"


def _group(group: BaseExceptionGroup[Any], left: _ShownLeft, depth: int) -> Iterator[str]:
    """The exceptions of a group, each indented."""
    if depth >= GROUP_DEPTH:
        yield "  | ... and deeper ones\n"
        return
    for place, each in enumerate(islice(group.exceptions, GROUP_WIDTH), 1):
        if left.count <= 0:
            break
        yield f"  +---------------- {place} ----------------\n"
        inner = "".join(_chain(each, left, depth + 1))
        yield "".join(f"  | {line}\n" for line in inner.splitlines())
    if len(group.exceptions) > GROUP_WIDTH or left.count <= 0:
        yield f"  | ... of {len(group.exceptions)} exceptions\n"


def _name(error: BaseException) -> str:
    """The name of its class, as Python shows it."""
    kind = type(error)
    module = kind.__module__
    name = kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"
    return head(name, _LINE)
