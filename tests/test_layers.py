"""Who may import whom: imports point inwards, and the pure layers stay pure."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PURE = ("core", "commands", "wire", "mqi")
IMPURE_MODULES = {"anyio", "asyncio", "logging", "os", "random", "secrets", "select", "socket", "sqlite3", "threading",
                  "time", "aiosqlite", "uvloop"}  # fmt: skip

MAY_IMPORT = {
    "mqi": set(),
    "clock": set(),
    "core": {"mqi"},
    "commands": {"core", "mqi"},
    "storage": {"core", "mqi"},
    "interface": {"mqi", "clock"},
    "config": {"mqi"},
    "engine": {"clock", "commands", "config", "core", "interface", "mqi", "storage"},
    "groups": {"interface", "mqi"},
    "wire": {"interface", "mqi"},
    "client": {"clock", "interface", "mqi", "wire"},
    "server": {"clock", "commands", "config", "engine", "interface", "mqi", "wire"},
    "testing": {"", "clock", "mqi", "storage"},
    "benchmarks": {"", "mqi", "wire"},
    "cli": {
        "",
        "benchmarks",
        "cli",
        "client",
        "clock",
        "commands",
        "config",
        "engine",
        "interface",
        "mqi",
        "server",
        "storage",
    },
}
"""Layer to the layers below it. "" is the façade, `broker` itself."""

FILES = sorted(path for package in ("broker", "triggers") for path in (ROOT / package).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """The dotted names that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
    return names


def layer(dotted: str) -> str:
    """The layer of a module of the package `broker`."""
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("path", [path for path in FILES if path.is_relative_to(ROOT / "broker")], ids=str)
def test_a_module_imports_only_from_the_layers_below_its_own(path: Path) -> None:
    own = path.relative_to(ROOT / "broker").parts[0].removesuffix(".py")
    if own in ("__init__", "__main__"):
        return
    ours = {layer(name) for name in imported(path) if name == "broker" or name.startswith("broker.")}
    assert ours - {own} <= MAY_IMPORT[own]
    assert own in ("benchmarks", "cli") or not any(name.split(".")[0] == "triggers" for name in imported(path))


@pytest.mark.parametrize("name", PURE)
def test_a_pure_layer_reads_no_clock_and_touches_no_file(name: str) -> None:
    for path in (ROOT / "broker" / name).rglob("*.py"):
        assert not {module.split(".")[0] for module in imported(path)} & IMPURE_MODULES, path


def test_triggers_use_only_the_public_names() -> None:
    public = {"broker", "broker.mqi", "broker.testing"}
    for path in (ROOT / "triggers").rglob("*.py"):
        assert {name for name in imported(path) if name.split(".")[0] == "broker"} <= public, path
