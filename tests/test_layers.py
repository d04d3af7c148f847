"""Who may import whom: imports point inwards, and the pure layers stay pure."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PURE = ("core", "commands", "wire", "mqi")
IMPURE_MODULES = {"anyio", "asyncio", "logging", "os", "random", "secrets", "select", "socket", "sqlite3", "threading",
                  "time", "aiosqlite", "uvloop"}  # fmt: skip

MAY_IMPORT = {
    "mqi": {"deprecated"},
    "clock": set(),
    "deprecated": set(),
    "unclosed": set(),
    "log_rate": set(),
    "loop_watch": set(),
    "refusals": {"mqi"},
    "secret_files": set(),
    "life": {"clock", "unclosed"},
    "core": {"mqi"},
    "commands": {"core", "mqi"},
    "storage": {"clock", "core", "mqi"},
    "interface": {"mqi", "clock", "deprecated", "transactions", "unclosed"},  # by `Connection.transaction`, in the call
    "config": {"mqi", "secret_files"},
    "engine": {
        "clock",
        "commands",
        "config",
        "core",
        "interface",
        "life",
        "log_rate",
        "mqi",
        "secret_files",
        "storage",
        "unclosed",
    },
    "databases": {"clock"},
    "presentation": {"mqi"},
    "groups": {"interface", "mqi"},
    "jobs": {"dead_letters", "interface", "mqi"},
    "dead_letters": {"interface", "mqi"},
    "spark": {"", "interface", "mqi"},
    "http": {"", "clock", "commands", "dead_letters", "mqi", "presentation"},
    "transactions": {"clock", "databases", "interface", "mqi"},
    "wire": {"interface", "mqi"},
    "client": {"clock", "interface", "mqi", "refusals", "secret_files", "unclosed", "wire"},
    "sharing": {"clock", "commands", "config", "core", "engine", "interface", "mqi", "secret_files", "storage"},
    "server": {
        "clock",
        "commands",
        "config",
        "engine",
        "http",
        "interface",
        "loop_watch",
        "mqi",
        "secret_files",
        "wire",
    },
    "testing": {"", "clock", "mqi", "storage"},
    "benchmarks": {"", "interface", "mqi"},
    "cli": {
        "",
        "benchmarks",
        "cli",
        "client",
        "clock",
        "commands",
        "config",
        "databases",
        "dead_letters",
        "engine",
        "interface",
        "log_rate",
        "mqi",
        "presentation",
        "refusals",
        "secret_files",
        "server",
        "sharing",
        "spark",
        "storage",
        "transactions",
    },
}
"""Layer to the layers below it. "" is the façade, `broker` itself."""

FILES = sorted(path for package in ("broker", "triggers") for path in (ROOT / package).rglob("*.py"))


@cache
def _walked() -> dict[Path, tuple[ast.AST, ...]]:
    """All nodes of all files. They are kept, and no collection of garbage goes through these millions: neither one that
    comes while they are made, nor any later one of other tests in this process.
    """
    gc.collect()
    gc.disable()
    found = {path: tuple(ast.walk(ast.parse(path.read_text("utf-8")))) for path in FILES}
    gc.freeze()
    gc.enable()
    return found


def nodes(path: Path) -> tuple[ast.AST, ...]:
    """The nodes of a file, as `ast.walk` has them."""
    return _walked()[path]


def parsed(path: Path) -> ast.Module:
    module = nodes(path)[0]
    assert isinstance(module, ast.Module)
    return module


@cache
def imported(path: Path) -> set[str]:
    """The dotted names that a file imports, wherever in it."""
    names = set()
    for node in nodes(path):
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
    assert own in ("benchmarks", "cli", "http") or not any(name.split(".")[0] == "triggers" for name in imported(path))


@pytest.mark.parametrize("name", PURE)
def test_a_pure_layer_reads_no_clock_and_touches_no_file(name: str) -> None:
    for path in (ROOT / "broker" / name).rglob("*.py"):
        assert not {module.split(".")[0] for module in imported(path)} & IMPURE_MODULES, path


def test_triggers_use_only_the_public_names() -> None:
    """Besides `broker.life`, by which objects of both packages live in tasks of their own, and `broker.loop_watch`, by
    which both watch the event loop, `broker.refusals`, by which both give up, `broker.deprecated`, by which both keep
    old names, and `broker.transactions`, by which both commit; these are no API.
    """
    public = {"broker", "broker.mqi", "broker.testing"}
    public |= {"broker.deprecated", "broker.life", "broker.loop_watch", "broker.refusals", "broker.transactions"}
    public |= {"broker.unclosed"}
    for path in (ROOT / "triggers").rglob("*.py"):
        assert {name for name in imported(path) if name.split(".")[0] == "broker"} <= public, path


ROOMS = (
    "security", "message", "selector", "queues", "names", "calls", "claims", "prepared", "deliveries", "explain", "",
)  # fmt: skip
"""The rooms of the core, each below the next; the last are its files at the top."""


def imported_at_run_time(path: Path) -> set[str]:
    """The modules that a file imports when it is loaded, not for the type checker alone; a package's names as such."""
    tree = parsed(path)
    loaded = [
        node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    names = set()
    for node in (each for top in loaded for each in ast.walk(top)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def room(module: str) -> str | None:
    """The room of the core that a dotted name leads to; None for what is not of the core."""
    parts = module.split(".")
    if parts[:2] != ["broker", "core"]:
        return None
    return parts[2] if len(parts) > 2 and parts[2] in ROOMS else ""


CORE = sorted(path for path in (ROOT / "broker" / "core").rglob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_room_of_the_core_imports_only_from_those_below_it(path: Path) -> None:
    own = path.relative_to(ROOT / "broker" / "core").parts
    height = ROOMS.index(own[0] if len(own) > 1 else "")
    rooms = {found for module in imported_at_run_time(path) if (found := room(module)) is not None}
    assert all(ROOMS.index(each) <= height for each in rooms), f"{path}: {rooms}"
