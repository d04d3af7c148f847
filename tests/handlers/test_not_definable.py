"""Apps that may not define what they need name the lines for an administrator at their start (security 10.3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQRC, CommandReply, MQError
from tests.handlers.processes import APP, BOB, ROOT, daemon_with_users, evermq, worker
from tests.security.lines import PASSWORD, Listener, listening, users
from triggers import App

if TYPE_CHECKING:
    from pathlib import Path

QUEUE = "DEFINE QLOCAL('{0}') DEFPSIST(YES) TRIGGER TRIGTYPE(EVERY) PROCESS('{0}') MAXDEPTH(999999999) DESCR('{1}')"
HANDLED, PUT_TO = "Handled by tests.handlers.test_not_definable:shop.<locals>.ship", "Put to by shop"
ORDERS = QUEUE.format("ORDERS", HANDLED)
ORDERS_PROCESS = f"DEFINE PROCESS('ORDERS') DESCR('{HANDLED}')"
ORDERS_DEAD = (
    "DEFINE QLOCAL('ORDERS.DEAD') DEFPSIST(YES) MAXDEPTH(999999999) MAXMSGL(104857600) DESCR('Dead letters of ORDERS')"
)
IMAGES_PROCESS = f"DEFINE PROCESS('IMAGES') DESCR('{PUT_TO}')"
IMAGES = QUEUE.format("IMAGES", PUT_TO)
ALL = [ORDERS_PROCESS, ORDERS, ORDERS_DEAD, IMAGES_PROCESS, IMAGES]

SEES_MANAGER = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(DSP)\n"
USES = "SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(GET,PUT,PASSALL{})\n"
SEES = f"""{SEES_MANAGER}{USES.format(",DSP")}
SET AUTHREC PROFILE('**') OBJTYPE(PROCESS) PRINCIPAL('bob') AUTHADD(DSP)
"""
CREATES = """
SET AUTHREC PROFILE('@class') OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(CRT)
SET AUTHREC PROFILE('@class') OBJTYPE(PROCESS) PRINCIPAL('bob') AUTHADD(CRT)
SET AUTHREC PROFILE('SYSTEM.DEFAULT.**') OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(DSP)
SET AUTHREC PROFILE('SYSTEM.DEFAULT.**') OBJTYPE(PROCESS) PRINCIPAL('bob') AUTHADD(DSP)
"""
THERE = """
DEFINE PROCESS(ORDERS)
DEFINE QLOCAL(ORDERS) TRIGGER TRIGTYPE(EVERY) PROCESS(ORDERS)
DEFINE QLOCAL(ORDERS.DEAD)
"""


def shop(listener: Listener) -> tuple[App, list[str]]:
    """An app of bob's, and the orders that it has shipped."""
    app = App(listener.url, user="bob", password=PASSWORD, name="shop")
    shipped: list[str] = []
    app.queue("IMAGES")

    @app.handler("ORDERS")
    async def ship(body: str) -> None:
        shipped.append(body)

    return app, shipped


async def refused(app: App) -> list[str]:
    """The lines that a start of the app ends with."""
    with pytest.raises(MQError, match=r"2035\): the app shop may not define what it needs") as caught:
        await app.start(wait=True)
    assert caught.value.reason == MQRC.NOT_AUTHORIZED
    (lines,) = caught.value.__notes__
    return lines.splitlines()


async def run(listener: Listener, lines: list[str]) -> list[CommandReply]:
    """The replies to lines that were pasted."""
    async with listener.manager.connect("owner") as owner:
        return await owner.mqsc("\n".join(lines))


async def ships(app: App, shipped: list[str]) -> None:
    """It serves its queue."""
    async with app.running():
        await app.put("ORDERS", "3 chairs")
        while not shipped:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert shipped == ["3 chairs"]


async def test_what_is_missing_is_defined_by_the_lines() -> None:
    async with listening(users() + SEES) as listener:
        app, shipped = shop(listener)
        lines = await refused(app)
        assert lines == ALL
        assert all(reply.ok for reply in await run(listener, lines))
        await ships(app, shipped)


async def test_what_is_missing_of_several_things_alone_is_told() -> None:
    async with listening(users() + SEES + THERE) as listener:
        app, shipped = shop(listener)
        lines = await refused(app)
        assert lines == [IMAGES_PROCESS, IMAGES]
        await run(listener, lines)
        await ships(app, shipped)


@pytest.mark.parametrize("there", ["", THERE])
async def test_what_the_app_may_not_see_is_shown_to_it_by_the_lines(there: str) -> None:
    async with listening(users() + SEES_MANAGER + USES.format("") + there) as listener:
        app, shipped = shop(listener)
        lines = await refused(app)
        assert lines[::2] == ALL
        assert all(line.startswith("SET AUTHREC PROFILE('") for line in lines[1::2])
        replies = await run(listener, lines)
        assert [reply.code for reply in replies if not reply.ok] == (["AMQ8150E"] * 3 if there else [])
        await ships(app, shipped)


async def test_an_app_that_may_run_no_command_is_told_so_alone() -> None:
    async with listening(users()) as listener:
        app, _ = shop(listener)
        assert await refused(app) == [SEES_MANAGER.strip()]


async def test_an_app_that_may_define_does_so() -> None:
    async with listening(users() + SEES_MANAGER + CREATES) as listener:
        app, shipped = shop(listener)
        await ships(app, shipped)


async def test_a_request_of_an_app_that_may_not_define_the_model_of_its_replies_is_told_the_line() -> None:
    async with listening(users() + SEES + THERE + f"{IMAGES_PROCESS}\n{IMAGES}\n") as listener:
        app, _ = shop(listener)
        async with app.running():
            with pytest.raises(MQError, match="2035") as caught:
                await app.request("ORDERS", "3 chairs", timeout=60)
            (line,) = caught.value.__notes__
            assert line.startswith("DEFINE QMODEL(EVERMQ.REPLIES) ")
            (reply,) = await run(listener, [line])
            assert reply.ok


def test_a_worker_prints_the_lines_once_and_ends(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        f"{APP}\n@app.handler('ORDERS')\nasync def ship(body: str) -> None: ...\n", "utf-8"
    )
    (tmp_path / "daemon").mkdir()
    with daemon_with_users(tmp_path / "daemon", users() + SEES) as running:
        url = running.url
        with worker(tmp_path, url, **BOB) as workers:
            assert workers.end(None) == 20
            told = [line.strip() for line in workers.logged("")]
        assert [line for line in told if "2035" in line] == [
            "evermq: shop:app: MQRC_NOT_AUTHORIZED (2035): the app shop may not define what it needs: "
            "an administrator can, with evermq mqsc and these lines"
        ]
        lines = [line for line in told if line.startswith("DEFINE ")]
        assert [line.partition(" D")[0] for line in lines] == [
            "DEFINE PROCESS('ORDERS')", "DEFINE QLOCAL('ORDERS')", "DEFINE QLOCAL('ORDERS.DEAD')"
        ]  # fmt: skip
        evermq(url, "mqsc", text="\n".join(lines), **ROOT)
        with worker(tmp_path, url, **BOB) as workers:
            workers.logged("worker ready")
            assert workers.end() == 0
