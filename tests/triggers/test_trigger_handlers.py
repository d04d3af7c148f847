"""Which function serves a process definition."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.triggers.fake import FakeManager, module
from triggers import HandlerImportError, TriggerMessage, TriggerMonitor, process
from triggers.monitor.handlers import Handlers

if TYPE_CHECKING:
    from pathlib import Path


@process("PAY")
async def on_payment(trigger: TriggerMessage, connection: Any) -> None: ...


async def ORDR(trigger: TriggerMessage, connection: Any) -> None: ...


async def ordr(trigger: TriggerMessage, connection: Any) -> None: ...


async def _hidden(trigger: TriggerMessage, connection: Any) -> None: ...


def plain(trigger: TriggerMessage, connection: Any) -> None: ...


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to import from."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


SHOP = module(on_payment, ORDR, _hidden)


@pytest.mark.parametrize(
    ("process_name", "appl_id", "expected"),
    [
        ("PAY", "", on_payment),
        ("PAY", "ORDR", on_payment),  # the process's name comes first
        ("pay", "", None),  # names of objects are as they are written
        ("OTHER", "ORDR", ORDR),
        ("OTHER", "ordr", ORDR),  # ZMQSC folds what is not in quotes to upper case
        ("OTHER", " ordr  ", ORDR),
        ("OTHER", "ON_PAYMENT", on_payment),
        ("OTHER", "shop:ORDR", ORDR),
        ("OTHER", "SHOP:ON_PAYMENT", on_payment),
        ("OTHER", "shop:", None),
        ("OTHER", "mail:ORDR", None),
        ("OTHER", "_hidden", None),
        ("OTHER", "os:system", None),
        ("OTHER", "", None),
        ("", "", None),
    ],
)  # fmt: skip
def test_the_process_name_selects_first_then_applicid(process_name: str, appl_id: str, expected: object) -> None:  # S-5
    assert Handlers([SHOP]).find(process_name, appl_id) is expected


def test_a_name_in_two_modules_is_told_apart_by_the_module() -> None:
    one, two = module(ORDR), module(ordr, name="mail")
    ORDR.__module__ = "shop"
    table = Handlers([one, two])
    assert table.find("P", "ORDR") is None
    assert table.find("P", "shop:ordr") is ORDR
    assert table.find("P", "MAIL:ORDR") is ordr


def test_a_function_that_a_module_only_imports_is_no_handler_unless_it_is_tagged() -> None:
    other = module(name="other")
    other.ORDR = ORDR  # type: ignore[attr-defined]
    other.on_payment = on_payment  # type: ignore[attr-defined]
    table = Handlers([other])
    assert table.find("P", "ORDR") is None
    assert table.find("PAY", "") is on_payment


def test_plain_functions_are_no_handlers() -> None:
    made = module(name="shop")
    made.plain = plain  # type: ignore[attr-defined]
    assert Handlers([made]).find("P", "PLAIN") is None


def test_one_function_may_be_found_in_two_modules() -> None:
    other = module(name="other")
    other.on_payment = on_payment  # type: ignore[attr-defined]
    assert Handlers([SHOP, other]).find("PAY", "") is on_payment


def test_two_handlers_of_one_process_are_an_error_that_names_both_places() -> None:
    @process("PAY")
    async def second(trigger: TriggerMessage, connection: Any) -> None: ...

    with pytest.raises(
        ValueError, match=r"^process PAY has two handlers: shop:on_payment \(.*mail:.*second \("
    ) as caught:
        Handlers([SHOP, module(second, name="mail")])
    assert str(caught.value).count(f"{__file__}, line ") == 2


def test_the_processes_served_are_told() -> None:
    assert Handlers([SHOP]).process_names == ["PAY"]


def test_a_dotted_name_is_imported(source: Path) -> None:
    (source / "stock").mkdir()
    (source / "stock" / "reorder.py").write_text(
        "from triggers import process\n\n@process('REORDER')\nasync def on_low(trigger, connection): ...\n"
    )
    assert Handlers(["stock.reorder"]).process_names == ["REORDER"]
    assert sys.modules.pop("stock.reorder")
    assert sys.modules.pop("stock")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("no_such.handlers", None, "ModuleNotFoundError: No module named 'no_such'"),
        ("broken", "async def (:\n", "SyntaxError: invalid syntax"),
        ("failing", "raise ValueError('two\\n  lines')", "ValueError: two lines"),
        ("leaving", "raise SystemExit(3)", "SystemExit: 3"),
        (".relative", None, "TypeError: the 'package' argument is required"),
        ("", None, "ValueError: Empty module name"),
    ],
)  # fmt: skip
def test_a_module_that_does_not_import_is_one_clear_line(
    source: Path, name: str, text: str | None, reason: str
) -> None:
    if text is not None:
        (source / f"{name}.py").write_text(text)
    with pytest.raises(HandlerImportError) as caught:
        Handlers([name])
    line = str(caught.value)
    assert line.startswith(f"the handlers' module {name!r} does not import: {reason}")
    assert "\n" not in line
    assert caught.value.name == name
    assert isinstance(caught.value, ImportError)


def test_one_module_instead_of_a_list_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"\['shop'\]"):
        Handlers("shop")
    with pytest.raises(TypeError, match="a list of modules"):
        Handlers(SHOP)


def test_what_is_no_module_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="not as <function on_payment"):
        Handlers([on_payment])  # type: ignore[list-item]


def test_a_monitor_with_a_module_that_does_not_import_is_not_made() -> None:
    with pytest.raises(HandlerImportError, match="no_such"):
        TriggerMonitor(FakeManager(), ["no_such"])
