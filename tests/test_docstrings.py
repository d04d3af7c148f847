"""Docstrings say what a caller may rely on, plainly: "Return the messages that ...", "True if the queue has ..."."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]

CLAUSE = re.compile(r"(?:How|That which|Those|What|When|Where|Whether|Which|Who|Whose|Why)\b")
"""The beginning of a docstring that is no sentence, but a part of one."""

CLAUSES_MAX = 48


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module, its classes and functions, and the texts below assignments, by their lines."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for before, each in zip([None, *body], body, strict=False):
            match before, each:
                case ((None | ast.Assign() | ast.AnnAssign()), ast.Expr(ast.Constant(str() as text))):
                    yield each.lineno, text


def test_docstrings_begin_as_sentences() -> None:
    clauses = [
        f"{path.relative_to(ROOT)}:{line} {text.partition('.')[0]}"
        for folder in ("broker", "triggers")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in docstrings(path)
        if CLAUSE.match(text)
    ]
    assert len(clauses) <= CLAUSES_MAX, "\n".join(clauses)
