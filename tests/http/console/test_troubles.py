"""The pages while the store is full, the queue manager quiesces, or it is away: each says so, and goes on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from broker import QueueManager
from broker.http.console.console import Console
from broker.http.console.troubles import told_by, troubles
from broker.http.served_manager import ManagerInProcess
from broker.mqi import MQPMO, MQRC, MessageDescriptor, MQError
from broker.mqi.layouts.layouts import MQDLH
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore, VirtualClock, settle
from tests.http.console.conftest import Doorman, words
from tests.http.console.forms import form, sent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


DEFINITIONS: Final = """
DEFINE QLOCAL(Q) DEFPSIST(YES)
DEFINE QLOCAL(DEAD) DEFPSIST(YES)
ALTER QMGR DEADQ(DEAD)
"""
STEADY: Final = ("/objects/access", "/commands")
"""Pages that ask the queue manager nothing before somebody does."""

PAGES: Final = (
    "/queues", "/queues/Q", "/queues/Q/messages", "/dead-letters", "/dead-letters/letters?why=MQRC_Q_FULL",
    "/dead-letters/DEAD/{}", "/handlers", "/units", "/group", "/objects", "/objects/QLOCAL/Q", "/log", *STEADY,
)  # fmt: skip
NO_ROOM: Final = "there is no room: what grows is refused, what removes goes through"
FULL: Final = f"Not ready, store full: {NO_ROOM}"


class Shown:
    """The console of a queue manager whose store may be full, with a dead letter; `letter` is its MsgId."""

    def __init__(self, manager: QueueManager, store: FaultStore, clock: VirtualClock, letter: str) -> None:
        self.manager = manager
        self.store = store
        self.clock = clock
        self.letter = letter
        self.doorman = Doorman(manager)
        self.console = Console(ManagerInProcess(manager), self.doorman, clock, manager.start_soon)
        app = Starlette(routes=[Mount("/console", self.console)])
        self.browser = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")

    async def page(self, path: str) -> httpx.Response:
        return await self.browser.get(f"/console{path.format(self.letter)}")


@pytest.fixture
async def shown() -> AsyncIterator[Shown]:
    store, clock = FaultStore(MemoryStore()), VirtualClock()
    async with QueueManager.open(name="QM1", store=store, clock=clock) as manager:
        async with manager.connect("orders") as connection:
            await connection.mqsc(DEFINITIONS, check=True)
            header = MQDLH(reason=2053, dest_q_name="Q", dest_q_mgr_name="QM1", format="MQSTR", encoding=546)
            md = MessageDescriptor(format="MQDEAD")
            letter = await connection.put1("DEAD", header.to_bytes() + b"an order", md)
        shown = Shown(manager, store, clock, letter.msg_id.hex())
        async with shown.browser:
            yield shown
        shown.console.end()
        store.make_room()


# The store is full


async def test_n4_3_while_the_store_is_full_each_page_says_so_and_reads(shown: Shown) -> None:
    shown.store.fill()
    for path in PAGES:
        page = await shown.page(path)
        assert (path, page.status_code, words(page).count(FULL)) == (path, 200, 1)
    shown.store.make_room()
    for path in PAGES:
        assert FULL not in words(await shown.page(path))


@pytest.mark.parametrize(
    ("path", "action", "fields", "said"),
    [
        ("/dead-letters/DEAD/{}", "retry", {"to": "Q"}, "1 letter stays: MQRC_BACKED_OUT (2003): the store is full"),
        ("/dead-letters/DEAD/{}", "edit", {"to": "Q", "data": "other"}, "1 letter stays: MQRC_BACKED_OUT (2003)"),
        ("/dead-letters/letters?why=MQRC_Q_FULL", "retry-all", {"sure": "yes", "until": "1e12"}, "1 letter stays"),
        ("/handlers", "resume", {"queue": "Q"}, "the store is full: there is no room"),
        ("/objects/QLOCAL/Q?set-MAXDEPTH=7", "alter", {"line": "ALTER QLOCAL('Q') MAXDEPTH(7)"}, "the store is full"),
        ("/queues/Q", "put", {"value": "DISABLED"}, "the store is full"),
    ],
    ids=["retry", "edit", "retry all", "resume", "alter", "pause puts"],
)
async def test_n4_3_an_action_that_has_no_room_says_why_and_is_done_when_there_is_some(
    shown: Shown, path: str, action: str, fields: dict[str, str], said: str
) -> None:
    path = path.format(shown.letter)
    shown.store.fill()
    _, told = await sent(shown.browser, path, form(action, **fields))
    assert said in told
    shown.store.make_room()
    _, told = await sent(shown.browser, path, form(action, **fields))
    assert said not in told


async def test_n4_3_a_command_that_has_no_room_says_why(shown: Shown) -> None:
    shown.store.fill()
    _, told = await sent(shown.browser, "/commands", form("run", script="DEFINE QLOCAL(NEW)"))
    assert "1 command sent, 1 failed." in told
    assert "the store is full: there is no room" in told


async def test_n4_3_a_letter_is_not_removed_without_its_record_and_any_message_is(shown: Shown) -> None:
    shown.store.fill()
    path = f"/dead-letters/DEAD/{shown.letter}"
    _, told = await sent(shown.browser, path, form("remove"))
    assert "1 letter stays: MQRC_BACKED_OUT (2003): the store is full" in told  # the audit has no room for it
    _, told = await sent(shown.browser, f"/queues/DEAD/messages/{shown.letter}", form("remove"))
    assert "Removed." in told


# The queue manager quiesces, and is away


async def test_n4_2_while_the_queue_manager_quiesces_each_page_says_so(shown: Shown) -> None:
    await shown.page("/")
    async with shown.manager.connect("web") as program:
        await program.put1("Q", "x", options=MQPMO.SYNCPOINT)  # so that it waits
        quiescing = asyncio.create_task(shown.manager.quiesce(60))
        await settle()
        await shown.clock.advance(1)
        for path in ("/", *PAGES):
            page = await shown.page(path)
            assert "QM1 is quiescing" in page.text, path
            assert (page.status_code == 503) == ('http-equiv="refresh"' in page.text), path
        _, told = await sent(shown.browser, "/handlers", form("pause", queue="Q"))
        assert "quiescing" in told
        await program.backout()
    await shown.clock.advance(61)
    await quiescing


class Away:
    """A door to a queue manager that is away, or back."""

    def __init__(self, doorman: Doorman) -> None:
        self.away = False
        self._connection = doorman.caller.connection
        doorman.caller.connection = self.connection  # type: ignore[method-assign, assignment]

    def connection(self) -> object:
        if self.away:
            raise MQError(MQRC.HOST_NOT_AVAILABLE, "nobody listens at mqs://QM1")
        return self._connection()


async def test_n4_2_while_it_is_away_each_page_says_so_tries_again_and_goes_on(shown: Shown) -> None:
    door = Away(shown.doorman)
    asking = [path for path in PAGES if path not in STEADY and path not in ("/queues", "/group")]
    for path in asking:
        assert (await shown.page(path)).status_code == 200, path
    door.away = True
    for path in asking:
        page = await shown.page(path)
        assert (path, page.status_code) == (path, 503)
        assert "nobody listens at mqs://QM1" in page.text
        assert '<meta http-equiv="refresh" content="2">' in page.text
    for path, action in (("/handlers", "pause"), ("/units", "commit"), ("/commands", "run")):
        answer = await shown.browser.post(f"/console{path}", data=form(action, queue="Q", unit="x", script="PING QMGR"))
        assert answer.status_code == 303  # the notice stays for the page that comes when it is back
        door.away = False
        assert "nobody listens" in (await shown.browser.get(answer.headers["location"])).text
        door.away = True
    door.away = False
    for path in asking:
        assert (await shown.page(path)).status_code == 200, path


# In words


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({}, {}),
        ({"quiescing": True}, {"quiescing": "QM1 is quiescing"}),
        (
            {"store": {"full": True}},
            {"store_full": "there is no room: what grows is refused, what removes goes through"},
        ),
        ({"sharing": {"member": {"state": "joined"}}}, {}),
        ({"sharing": {"member": {"state": "away"}}}, {"group": "QM1 is not in its queue-sharing group now: away"}),
    ],
)
def test_n4_2_troubles_are_read_off_the_figures_of_a_queue_manager_in_another_process(
    figures: dict[str, object], said: dict[str, str]
) -> None:
    assert told_by({"name": "QM1", "quiescing": False, **figures}) == said


def test_a_trouble_is_text() -> None:
    [line] = troubles({"group": "<script>"})
    assert line.key == "group"
    assert "<script>" not in line.html
