"""Docstrings say what a caller may rely on, plainly: "Return the messages that ...", "True if the queue has ..."."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tests.test_layers import FILES, ROOT, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLAUSE = re.compile(r"(?:How|That which|Those|What|When|Where|Whether|Which|Who|Whose|Why)\b")
"""The beginning of a docstring that is no sentence, but a part of one."""

CLAUSES_MAX = 48


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module, its classes and functions, and the texts below assignments, by their lines."""
    for node in nodes(path):
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
        for path in FILES
        for line, text in docstrings(path)
        if CLAUSE.match(text)
    ]
    assert len(clauses) <= CLAUSES_MAX, "\n".join(clauses)
