"""The SQL that lies beside this module in files: the schema, and statements under their names.

It reads the files and runs nothing.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

_FOLDER = files(__package__) / "sql"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_REPEATED = re.compile(r"(\([?, 0x']+\)|\?) /\* \.\.\. \*/")
_ADDED: Final = {4: "keys.sql", 5: "steps.sql"}
"""By the version that brought it: the file with the statements."""
_VERSION = re.compile(r"PRAGMA user_version = (\d+)")


@cache
def statements(file_name: str) -> dict[str, str]:
    """The statements of one file, by the names in its `-- name:` lines."""
    _, *parts = _NAME.split((_FOLDER / file_name).read_text(encoding="utf-8"))
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def repeated(statement: str, times: int) -> str:
    """The statement with so many of the parameter, or of the row of parameters, that stands before its `/* ... */`."""
    return _REPEATED.sub(lambda found: ", ".join([found[1]] * times), statement)


@cache
def schema() -> str:
    """The script that makes an empty database a snapshot."""
    return "\n".join([(_FOLDER / "schema.sql").read_text(encoding="utf-8"), *additions(0)])


def additions(found: int) -> Collection[str]:
    """The part of it that a snapshot of the version `found` lacks, a statement each, but for columns of messages."""
    return [sql for since, name in _ADDED.items() if found < since for sql in statements(name).values()]


@cache
def version() -> int:
    """The version of the schema."""
    found = _VERSION.search(schema())
    assert found is not None
    return int(found[1])
