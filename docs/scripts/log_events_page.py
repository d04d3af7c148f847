"""Writes `docs/reference/log-events.md`, the table of what the code logs: `python docs/scripts/log_events_page.py`.

What an event means is told by `broker.cli.terminal.log_events`. Its levels, loggers and fields are read off the calls
in the source.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from broker.cli.terminal.log_events import EVENTS
from broker.cli.terminal.log_fields import OURS, event_word, names_in

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "log-events.md"

_METHODS = {
    "debug": "DEBUG", "info": "INFO", "warning": "WARNING", "error": "ERROR", "exception": "ERROR", "log": "",
}  # fmt: skip
_TEXT_OF_LOG_EXCEPTION = 3  # its place among the arguments

_HEAD = """\
# Events of the log

Each line of the log has the field `event`, a word that stays the same: alerts and searches go by it, not by the message
in words. The fields `time`, `level`, `logger` and `message` are in every line, `exception` is in those that have a
traceback, and `repeated` in those that stand for a flood: it is the number of lines that one stands for
([Run in production](../how-to/run-in-production.md#logs)). `reason` is the error that a line tells of, or `detail`
where it tells something else. Lines of other packages, and of your own code, have no event unless they are given one.

| event | level | logger | fields | |
| --- | --- | --- | --- | --- |
"""


class LogCall(NamedTuple):
    """A call in the source that logs. `event` is "" where the source does not say which."""

    event: str
    level: str
    logger: str
    fields: tuple[str, ...]
    place: str


def page() -> str:
    """The whole page, in Markdown."""
    calls = log_calls()
    rows = ""
    for event, meaning in sorted(EVENTS.items()):
        same = [each for each in calls if each.event == event]
        levels = ", ".join(dict.fromkeys(each.level for each in same if each.level))
        loggers = ", ".join(f"`{name}`" for name in sorted({each.logger for each in same}))
        fields = ", ".join(f"`{name}`" for name in dict.fromkeys(name for each in same for name in each.fields))
        rows += f"| `{event}` | {levels} | {loggers} | {fields} | {meaning} |\n"
    return _HEAD + rows


@cache
def log_calls() -> tuple[LogCall, ...]:
    """Return each call of the source that logs, in all modules of ours."""
    return tuple(
        call for package in OURS for path in sorted((ROOT / package).rglob("*.py")) for call in _log_calls_of(path)
    )


def _log_calls_of(path: Path) -> Iterator[LogCall]:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for function in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in _calls_in(function):
                yield _read(call, function, module)


def _calls_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Call]:
    """Yield the calls of a function that log, without those of functions within it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Call) and (_method(node.func) or _is_log_exception(node) or _partial(node)):
            yield node
        waiting += ast.iter_child_nodes(node)


def _method(node: ast.AST) -> str:
    """The method of `logger` that a node is, "" if it is none that logs."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "logger":
        return node.attr if node.attr in _METHODS else ""
    return ""


def _is_log_exception(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "log_exception"


def _partial(call: ast.Call) -> bool:
    """True if a method of `logger` is handed on, with its arguments, to be called later."""
    return any(_method(each) for each in call.args)


def _read(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, module: str) -> LogCall:
    place = f"{module}:{call.lineno}"
    arguments = list(call.args)
    if _is_log_exception(call):
        level, text = _constant(arguments[1]), arguments[_TEXT_OF_LOG_EXCEPTION]
    else:
        later = [each for each in arguments if _method(each)]
        method = _method(later[0] if later else call.func)
        rest = arguments[arguments.index(later[0]) + 1 :] if later else arguments
        level = _METHODS[method] or _constant(rest.pop(0))
        text = rest[0]
    template = text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""
    given = _given(call, function)
    event = given.pop("event", "") or ("" if "%" in _words(template) else event_word(template))
    fields = [*names_in(template), *given, *_tail(template)]
    return LogCall(event, level, module, tuple(dict.fromkeys(fields)), place)


def _words(template: str) -> str:
    """The words that the event is made of, with what is filled in there."""
    names = names_in(template)
    before = template.partition(f"{names[0]}=%")[0] if names else template
    return before.partition(": ")[0]


def _tail(template: str) -> list[str]:
    return ["reason"] if template.endswith(": %s") else []


def _given(call: ast.Call, function: ast.AST) -> dict[str, str]:
    """The fields of `extra`, with their values where these are constants; of a dictionary made before the call, too."""
    for keyword in call.keywords:
        if keyword.arg == "extra":
            if isinstance(keyword.value, ast.Dict):
                return _entries(keyword.value, function)
            if isinstance(keyword.value, ast.Name):
                return _assigned(keyword.value.id, function)
    return {}


def _entries(made: ast.Dict, function: ast.AST) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in zip(made.keys, made.values, strict=True):
        if isinstance(key, ast.Constant):
            found[str(key.value)] = _constant(value)
        elif isinstance(value, ast.Name):
            found |= _assigned(value.id, function)
    return found


def _assigned(name: str, function: ast.AST) -> dict[str, str]:
    """The entries of the dictionary that a function assigns to a name."""
    for node in ast.walk(function):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(each, ast.Name) and each.id == name for each in targets):
            value = getattr(node, "value", None)
            if isinstance(value, ast.Dict):
                return _entries(value, function)
    return {}


def _constant(node: ast.AST) -> str:
    """A text, or the name of a level (`logging.ERROR`); "" for what is known when it is logged."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    return node.attr if isinstance(node, ast.Attribute) and node.attr in _METHODS.values() else ""


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
