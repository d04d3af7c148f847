"""Draws which package imports which, `docs/explanation/layers.svg`: `python docs/scripts/layers_page.py`.

Places are given here. The arrows are the imports in the code, but for those that follow from others.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

from states_page import Steps, picture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parents[2]
PICTURE: Final = ROOT / "docs" / "explanation" / "layers.svg"

_PLACES: Final = {
    "cli": (2.5, 0),
    "benchmarks": (0, 1),
    "spark": (1, 1),
    "databases": (2.5, 2),
    "dead_letters": (2, 1),
    "client": (3, 1),
    "server": (4, 1),
    "http": (4, 1.6),
    "sharing": (5, 1),
    "triggers": (0, 2),
    "groups": (1, 2),
    "wire": (3, 2),
    "engine": (4.5, 2),
    "interface": (2, 3),
    "config": (3.2, 3),
    "commands": (4.1, 3),
    "storage": (5, 3),
    "core": (4.5, 4),
    "mqi": (3, 5),
}
"""Small packages that many use, such as the clock, are not drawn."""


def drawn() -> str:
    """The picture."""
    imports = {package: _imported(package) & _PLACES.keys() - {package} for package in _PLACES}
    steps: Steps = {
        (above, below): []
        for above, below in sorted((above, below) for above in imports for below in imports[above])
        if not any(below in _reached(other, imports) for other in imports[above])
    }
    return picture(_PLACES, steps)


def _imported(package: str) -> set[str]:
    """The packages that a package imports. The public names of `broker` count as the interface."""
    folder = ROOT / package if package == "triggers" else ROOT / "broker" / package
    dotted = {name for path in folder.rglob("*.py") for name in _names(ast.parse(path.read_text("utf-8")))}
    parts = [name.split(".") for name in dotted if name.split(".")[0] in ("broker", "triggers")]
    return {name[0] if name[0] == "triggers" else (*name, "interface")[1] for name in parts}


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _reached(package: str, imports: Mapping[str, set[str]]) -> set[str]:
    """The packages below one, near and far."""
    return {below for each in imports[package] for below in (each, *_reached(each, imports))}


if __name__ == "__main__":
    PICTURE.write_text(drawn(), "utf-8")
