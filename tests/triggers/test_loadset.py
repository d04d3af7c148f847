"""The next generation runs the code that is on the disk (S-23), and nothing is lost when that does not load (R-4)."""

from __future__ import annotations

import gc
import logging
import os
import sys
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests.triggers.fake import FakeManager
from triggers import HandlerImportError, TriggerMonitor
from triggers.monitor.loadset import Loadset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from broker.testing import VirtualClock

HANDLER = """\
from triggers import process

@process("P")
async def handler(trigger, connection):
    return {version!r}
"""

DELEGATING = """\
from triggers import process
from shop import stock{more}

@process("P")
async def handler(trigger, connection):
    return stock.VERSION
"""


class Source:
    """A folder that modules are imported from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        """Replace a file as a deployment does: whole, in one step."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(text, "utf-8")
        os.replace(new, path)

    def handler(self, version: object, name: str = "shop_handlers.py") -> None:
        self.write(name, HANDLER.format(version=version))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield Source(tmp_path)
    for name in set(sys.modules) - before:
        del sys.modules[name]


async def said(loadset: Loadset) -> Any:
    """Return what the handler of process P returns."""
    handler: Callable[..., Any] | None = loadset.handlers.find("P", "")
    assert handler is not None
    return await handler(None, None)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


# What is loaded anew


async def test_s_23_a_replaced_module_is_loaded_afresh_under_its_own_name(source: Source) -> None:
    source.handler("old")
    loadset = Loadset(["shop_handlers"])
    old = sys.modules["shop_handlers"]
    source.handler("new")
    assert await said(loadset) == "old"
    loadset.refresh()
    assert (await said(loadset), loadset.loads, loadset.error) == ("new", 1, "")
    assert sys.modules["shop_handlers"] is not old
    assert sys.modules["shop_handlers"].__name__ == "shop_handlers"


async def test_what_has_not_changed_is_not_loaded(source: Source) -> None:
    source.handler("old")
    loadset = Loadset(["shop_handlers"])
    table = loadset.handlers
    assert loadset.refresh() is table
    assert loadset.loads == 0


async def test_code_of_the_same_size_and_second_is_told_from_the_bytecode_before_it(source: Source) -> None:
    loaded = []
    source.handler(0)
    loadset = Loadset(["shop_handlers"])
    for version in range(1, 6):
        source.handler(version)
        os.utime(source.folder / "shop_handlers.py", (1_000_000, 1_000_000))
        loadset.refresh()
        loaded.append(await said(loadset))
    assert loaded == [1, 2, 3, 4, 5]
    assert not (source.folder / "__pycache__").exists()


async def test_a_module_of_the_own_package_that_changed_brings_those_along_that_import_it(source: Source) -> None:
    source.write("shop/__init__.py", "")
    source.write("shop/stock.py", "from shop.depth import VERSION\n")
    source.write("shop/depth.py", "VERSION = 1\n")
    source.write("shop/state.py", "CONNECTIONS = []\n")
    source.write("shop/handlers.py", DELEGATING.format(more="\nfrom . import state"))
    loadset = Loadset(["shop.handlers"])
    state, package = sys.modules["shop.state"], sys.modules["shop"]
    source.write("shop/depth.py", "VERSION = 2\n")
    loadset.refresh()
    assert await said(loadset) == 2
    assert sys.modules["shop.state"] is state  # what did not change keeps its state
    assert sys.modules["shop"] is package
    assert package.handlers is sys.modules["shop.handlers"]


async def test_a_package_brings_along_what_is_in_it(source: Source) -> None:
    source.write("shop/__init__.py", "RATE = 1\n")
    source.write("shop/stock.py", "from shop import RATE as VERSION\n")
    source.write("shop/handlers.py", DELEGATING.format(more=""))
    loadset = Loadset(["shop.handlers"])
    source.write("shop/__init__.py", "RATE = 2\n")
    loadset.refresh()
    assert await said(loadset) == 2


async def test_modules_of_other_packages_are_not_loaded_again(source: Source) -> None:
    source.write("other.py", "VERSION = 1\n")
    source.write("shop/__init__.py", "")
    source.write("shop/stock.py", "from other import VERSION\n")
    source.write("shop/handlers.py", DELEGATING.format(more=""))
    loadset = Loadset(["shop.handlers"])
    other = sys.modules["other"]
    source.write("other.py", "VERSION = 2\n")
    source.write("shop/stock.py", "from other import VERSION as V\nVERSION = ('new', V)\n")
    loadset.refresh()
    assert await said(loadset) == ("new", 1)
    assert sys.modules["other"] is other


def test_modules_of_the_broker_itself_are_not_loaded_again() -> None:
    loadset = Loadset(["broker.cli.demo.handlers"])
    assert loadset.handlers.process_names == ["DEMO"]
    assert loadset._loaded == {}


async def test_a_module_given_as_an_object_stays_what_it_is(source: Source) -> None:
    source.handler("old")
    import shop_handlers  # type: ignore[import-not-found]

    loadset = Loadset([shop_handlers])
    source.handler("new")
    assert loadset.refresh() is loadset.handlers
    assert await said(loadset) == "old"


async def test_a_change_made_while_a_module_is_read_is_not_missed(source: Source) -> None:
    source.handler("old")
    loadset = Loadset(["shop_handlers"])
    later = HANDLER.format(version="later")
    source.write(
        "shop_handlers.py",
        "import os, pathlib\n"
        "path = pathlib.Path(__file__)\n"
        f"path.with_suffix('.next').write_text({later!r})\n"
        "os.replace(path.with_suffix('.next'), path)\n" + HANDLER.format(version="new"),
    )
    loadset.refresh()
    assert await said(loadset) == "new"
    loadset.refresh()
    assert await said(loadset) == "later"


# What does not load

BROKEN = [
    ("async def (:\n", "SyntaxError"),
    ("raise ValueError('no database')\n", "no database"),
    ("raise SystemExit(3)\n", "SystemExit: 3"),
    ("from shop import missing\n", "missing"),
    (HANDLER.format(version=1) + HANDLER.format(version=2).replace("def handler", "def second"), "two handlers"),
    (None, "ModuleNotFoundError"),
]


@pytest.mark.parametrize(("text", "reason"), BROKEN, ids=[reason for _, reason in BROKEN])
async def test_r_4_a_module_that_does_not_load_leaves_all_as_it_was_and_is_reported_once_a_change(
    source: Source, caplog: pytest.LogCaptureFixture, text: str | None, reason: str
) -> None:
    source.write("shop/__init__.py", "")
    source.write("shop/stock.py", "VERSION = 'old'\n")
    source.write("shop/handlers.py", DELEGATING.format(more=""))
    loadset = Loadset(["shop.handlers"])
    before = {name: module for name, module in sys.modules.items() if name.startswith("shop")}
    source.write("shop/stock.py", "VERSION = 'new'\n")
    if text is None:
        (source.folder / "shop" / "handlers.py").unlink()
    else:
        source.write("shop/handlers.py", text)
    for _ in range(3):
        loadset.refresh()
    assert await said(loadset) == "old"
    assert {name: module for name, module in sys.modules.items() if name.startswith("shop")} == before
    assert before["shop"].handlers is before["shop.handlers"]
    assert reason in loadset.error
    assert (len(errors(caplog)), loadset.loads) == (1, 0)
    source.write("shop/handlers.py", "raise ValueError('again')\n")
    loadset.refresh()
    assert len(errors(caplog)) == 2
    source.write("shop/handlers.py", DELEGATING.format(more=""))
    loadset.refresh()
    assert (await said(loadset), loadset.error, loadset.loads) == ("new", "", 1)


async def test_a_module_that_was_missing_is_tried_again_when_it_comes(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    source.write("shop/__init__.py", "")
    source.write("shop/handlers.py", HANDLER.format(version="old"))
    loadset = Loadset(["shop.handlers"])
    source.write("shop/handlers.py", DELEGATING.format(more=""))
    loadset.refresh()
    assert "stock" in loadset.error
    source.write("shop/beside.py", "")
    loadset.refresh()  # something has come, but it does not help
    source.write("shop/stock.py", "VERSION = 'new'\n")
    loadset.refresh()
    assert (await said(loadset), loadset.error, len(errors(caplog))) == ("new", "", 1)


async def test_a_file_that_comes_back_as_it_was_is_no_fault_any_more(source: Source) -> None:
    source.handler("old")
    loadset = Loadset(["shop_handlers"])
    path = source.folder / "shop_handlers.py"
    path.rename(path.with_suffix(".away"))
    loadset.refresh()
    assert loadset.error
    path.with_suffix(".away").rename(path)
    loadset.refresh()
    assert (loadset.error, loadset.loads, await said(loadset)) == ("", 0, "old")


def test_at_the_start_a_module_that_does_not_load_is_an_error(source: Source) -> None:
    source.write("shop_handlers.py", "raise ValueError('no database')\n")
    with pytest.raises(HandlerImportError, match="no database"):
        Loadset(["shop_handlers"])
    assert "shop_handlers" not in sys.modules


# The monitor's generations


class Hall:
    """A place where handlers of any version meet their test: a module that is never loaded again."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.ran: list[tuple[float, object]] = []


@pytest.fixture
def hall(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> Hall:
    made = Hall(clock)
    module = ModuleType("hall")
    module.hall = made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hall", module)
    return made


MEETING = """\
from hall import hall
from triggers import process

@process("P")
async def handler(trigger, connection):
    await hall.clock.sleep({seconds})
    hall.ran.append((hall.clock.monotonic(), {version!r}))
"""


async def test_s_23_starts_before_the_switch_run_old_code_and_those_after_it_new_code(
    manager: FakeManager, clock: VirtualClock, source: Source, hall: Hall
) -> None:
    source.write("shop_handlers.py", MEETING.format(seconds=0, version="old"))
    manager.define("Q")
    async with TriggerMonitor(manager, ["shop_handlers"]) as monitor:
        await clock.advance(4)
        source.write("shop_handlers.py", MEETING.format(seconds=0, version="new"))
        manager.post("Q")
        await clock.advance(2)
        manager.post("Q")
        await clock.advance(0)
        assert hall.ran == [(4, "old"), (6, "new")]
        assert monitor.statistics().loads == 1


async def test_r_3_running_handlers_end_on_their_own_code_whose_module_then_goes(
    manager: FakeManager, clock: VirtualClock, source: Source, hall: Hall
) -> None:
    source.write("shop_handlers.py", MEETING.format(seconds=7, version="old"))
    manager.define("Q", pending=1)
    async with TriggerMonitor(manager, ["shop_handlers"]):
        await clock.advance(1)
        old = weakref.ref(sys.modules["shop_handlers"])
        source.write("shop_handlers.py", MEETING.format(seconds=0, version="new"))
        await clock.advance(5)
        manager.post("Q")
        await clock.advance(2)
        assert hall.ran == [(6, "new"), (7, "old")]
        await clock.advance(5)
        gc.collect()
        assert old() is None


async def test_r_4_and_s_22_a_broken_module_interrupts_nothing_and_shows_in_the_statistics(
    manager: FakeManager,
    clock: VirtualClock,
    source: Source,
    hall: Hall,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source.write("shop_handlers.py", MEETING.format(seconds=0, version="old"))
    manager.define("Q")
    async with TriggerMonitor(manager, ["shop_handlers"]) as monitor:
        source.write("shop_handlers.py", "import nothing_of_this_name\n")
        for _ in range(4):
            await clock.advance(5)
            manager.post("Q")
        await clock.advance(0)
        assert [version for _, version in hall.ran] == ["old"] * 4
        assert "No module named 'nothing_of_this_name'" in monitor.statistics().load_error
        assert monitor.statistics().generation == 5
    assert len(errors(caplog)) == 1


async def test_a_handler_that_new_code_no_longer_has_leaves_its_starts_pending(
    manager: FakeManager, clock: VirtualClock, source: Source, hall: Hall
) -> None:
    source.write("shop_handlers.py", MEETING.format(seconds=0, version="old"))
    manager.define("Q")
    async with TriggerMonitor(manager, ["shop_handlers"]) as monitor:
        source.write("shop_handlers.py", "")
        await clock.advance(5)
        manager.post("Q")
        await clock.advance(1)
        assert (hall.ran, monitor.statistics().unserved) == ([], {"Q": "P"})
