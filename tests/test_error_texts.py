"""A rule is told once: no text of an error stands in two modules (`CONTRIBUTING.md`, "Names and style")."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.test_layers import FILES, ROOT, nodes, parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

WORDS_MIN = 4
"""Shorter texts tell no rule; a placeholder is a word."""


@cache
def errors() -> set[str]:
    """Our exceptions; those of Python tell of a misuse of the interface, and of what another text is made of."""
    classes = (node for path in FILES for node in nodes(path) if isinstance(node, ast.ClassDef))
    return {each.name for each in classes if each.name.endswith("Error")}


def texts(node: ast.AST) -> Iterator[str]:
    """The texts in a piece of code, `{}` for what is put into them; without docstrings."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
        for each in node.values:
            yield from texts(each) if isinstance(each, ast.FormattedValue) else ()
    elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def tells(text: str) -> bool:
    """True when the text has so many words that it tells a rule."""
    return len(re.findall(r"\S*(?:[A-Za-z]|\{\})\S*", text)) >= WORDS_MIN


def of_errors(tree: ast.Module) -> set[str]:
    """The texts that a module gives to its errors."""
    made = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    calls = [node for node in made if not errors().isdisjoint(_words(node.func))]
    return set(filter(tells, (text for call in calls for each in _arguments(call) for text in texts(each))))


def doubles(modules: Iterable[tuple[str, ast.Module]]) -> dict[str, set[str]]:
    """The texts of errors that stand in more than one module, in whatever place there, and these modules."""
    reported, found = set(), dict[str, set[str]]()
    for name, tree in modules:
        reported |= of_errors(tree)
        for text in texts(tree):
            found.setdefault(text, set()).add(name)
    return {text: found[text] for text in reported if len(found[text]) > 1}


def _words(node: ast.expr) -> set[str]:
    """`MQError` of `MQError(...)`, both names of `BackupFailedError.at(...)`."""
    return set(ast.unparse(node).split("."))


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)]


def test_no_text_of_an_error_stands_in_two_modules() -> None:
    assert not doubles((_name(path), parsed(path)) for path in FILES)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('raise MQError(MQRC.Q_FULL, f"{queue.name} has no room")', 'MQError(1, f"{self.name} has no room")'),
        ('raise MQError(1, "this is" if x else "this is not so")', 'TEXT = "this is not so"'),
        ('raise StoreError.of("there is no place")', 'fail(call, detail="there is no place")'),
        ("raise MQError(1, f\"it ends{', and all the rest too' if x else ''}\")", 'f(", and all the rest too")'),
    ],
)
def test_a_text_that_stands_twice_is_found_in_whatever_form(first: str, second: str) -> None:
    assert len(doubles([("a", ast.parse(first)), ("b", ast.parse(second))])) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('MQError(1, "the queue is full")', '"""the queue is full"""'),
        ('MQError(1, "not found")', 'MQError(1, "not found")'),
        ('MQError(1, "the queue is full")', 'MQError(1, "the log is full")'),
        ('ValueError("the queue is full")', 'ValueError("the queue is full")'),
    ],
)
def test_docstrings_short_texts_other_texts_and_errors_of_python_are_left(first: str, second: str) -> None:
    assert not doubles([("a", ast.parse(first)), ("b", ast.parse(second))])


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
