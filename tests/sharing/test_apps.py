"""Apps whose workers are at several members of a group."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQRC, ServiceOptions
from broker.server import Server
from tests.conformance.expect import ALL, drained, fails
from tests.sharing.workers import HANDLED, depth, keyed
from triggers import App, Attempt, NotServableError, Retry

if TYPE_CHECKING:
    from broker import Queue
    from tests.sharing.members import Members


pytestmark = pytest.mark.postgres

DEFINITIONS = HANDLED


async def test_the_workers_of_an_app_at_two_members_share_a_queue(members: Members, here: Queue) -> None:
    """Once each is handled, in the order of its key, after failures and wherever it was put."""
    seen: list[tuple[str, str, int]] = []
    failing = {"a3", "b5"}
    apps = [App(members[name], name="SHOP") for name in ("QM1", "QM2")]

    def serve(app: App, member: str) -> None:
        @app.handler("Q", order_by="account", retry=Retry(3, 1.0))
        async def handle(body: str, attempt: Attempt) -> None:
            if body in failing:
                failing.remove(body)
                raise ValueError("not now")
            seen.append((member, body, attempt.number))

    for app, member in zip(apps, ("QM1", "QM2"), strict=True):
        serve(app, member)
    async with apps[0].running(), apps[1].running():
        await keyed(here, *(f"{key}{number}" for number in range(10) for key in "ab"))
        await members.clock.advance(5)
    assert sorted(body for _, body, _ in seen) == sorted(f"{key}{number}" for number in range(10) for key in "ab")
    for key in "ab":
        of_key = [body for _, body, _ in seen if body[0] == key]
        assert of_key == sorted(of_key)
    assert {attempt for _, body, attempt in seen if body in ("a3", "b5")} == {2}
    assert await depth(members) == 0


async def test_what_an_app_defines_for_a_shared_queue_is_the_groups(members: Members) -> None:
    """Handlers rule 7.1: the dead letters outlive the member at which they were made."""
    await members.mqsc(
        "DEFINE CFSTRUCT(ELSEWHERE) RECOVER(YES)\n"
        "DEFINE QLOCAL(NEW) QSGDISP(SHARED) CFSTRUCT(ELSEWHERE) DEFPSIST(YES) TRIGGER TRIGTYPE(EVERY) PROCESS(NEW)"
    )
    apps = [App(members[name], name="SHOP") for name in ("QM1", "QM2")]
    for app in apps:

        @app.handler("NEW", retry=Retry(1))
        async def handle(body: str) -> None:
            raise ValueError(body)

    async with apps[0].running(), apps[1].running():
        await (await (await members.connect("QM1")).open("NEW", ALL)).put(b"poison")
        await members.clock.advance(1)
    await members.stop("QM1")
    connection = await members.connect("QM2")
    (dead,) = await members.mqsc("DISPLAY QLOCAL(NEW.DEAD) QSGDISP CFSTRUCT", "QM2")
    assert [(each["QSGDISP"], each["CFSTRUCT"]) for each in dead.attributes] == [("SHARED", "ELSEWHERE")]
    (process,) = await members.mqsc("DISPLAY PROCESS(NEW) QSGDISP", "QM2")
    assert [each["QSGDISP"] for each in process.attributes] == ["COPY"]
    assert len(await drained(await connection.open("NEW.DEAD", ALL))) == 1


@pytest.mark.parametrize("door", ["embedded", "tcp"])
async def test_an_app_on_a_member_that_is_out_of_its_group_waits_and_defines_nothing(
    members: Members, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, door: str
) -> None:
    """Handlers rule 7.1: what it misses may be the group's."""
    monkeypatch.setattr("triggers.serving.session.RECONNECT_MAX", 0.2)
    await members.mqsc("ALTER QMGR CFCONLOS(TOLERATE)", "QM2")
    await members.stop("QM2")
    await members.mqsc(
        "DEFINE QLOCAL(NEW) QSGDISP(SHARED) DEFPSIST(YES) TRIGGER TRIGTYPE(EVERY) PROCESS(NEW)\n"
        "DEFINE PROCESS(NEW) QSGDISP(GROUP)"
    )
    await members.lines["QM2"].cut()
    await members.start("QM2", reachable=False)
    handled, serves = asyncio.Event(), asyncio.Event()
    manager = members["QM2"]

    async def run() -> None:
        async with Server(manager, ListenerConfig(port=0), LimitsConfig()) as server:
            app = App(f"mq://{server.addresses[0]}/QM2" if door == "tcp" else manager, name="SHOP")

            @app.handler("NEW")
            async def handle(body: str) -> None:
                handled.set()

            async with app.running():
                serves.set()
                await handled.wait()

    async with asyncio.TaskGroup() as tasks, members["QM2"].connect() as connection:
        tasks.create_task(run())
        while not serves.is_set() and "(2342)" not in caplog.text:
            await members.clock.advance(0.1)
            await asyncio.sleep(0.02)
        assert not serves.is_set()
        replies = await connection.mqsc("DISPLAY QUEUE(NEW*)\nDISPLAY PROCESS(NEW)")
        assert not any(reply.attributes for reply in replies)
        await members.lines["QM2"].mend()
        while not serves.is_set():  # real time brings the member back, that of the clock the app
            await members.clock.advance(0.1)
            await asyncio.sleep(0.02)
        await (await (await members.connect("QM1")).open("NEW", ALL)).put(b"one")
        await handled.wait()
    (shown,) = await members.mqsc("DISPLAY QUEUE(NEW) QSGDISP", "QM2")
    assert [each["QSGDISP"] for each in shown.attributes] == ["SHARED"]


async def test_periodic_work_runs_once_in_the_group_and_goes_on_when_a_member_fails(members: Members) -> None:
    """Handlers rule 5.5: a group has the queues of a schedule shared."""
    await members.mqsc(
        "DEFINE QLOCAL(PERIODIC.SHOP.TICK) QSGDISP(SHARED) DEFPSIST(YES) TRIGGER TRIGTYPE(EVERY) PROCESS(P)\n"
        "DEFINE QLOCAL(PERIODIC.SHOP.TICK.RUN) QSGDISP(SHARED) DEFPSIST(YES) TRIGGER TRIGTYPE(EVERY) PROCESS(P)"
    )
    ticks: list[tuple[str, float]] = []
    apps = [App(members[name], name="SHOP") for name in ("QM1", "QM2")]

    def serve(app: App, member: str) -> None:
        async def tick() -> None:
            ticks.append((member, members.clock.time() % 3600))

        tick.__qualname__ = "tick"
        app.every(60)(tick)

    for app, member in zip(apps, ("QM1", "QM2"), strict=True):
        serve(app, member)
    async with apps[1].running():
        async with apps[0].running():
            for _ in range(5):
                await members.clock.advance(60)
        await members.stop("QM1")
        for _ in range(2):
            await members.clock.advance(60)
        await members.clock.advance(1)
    assert [instant // 60 for _, instant in ticks] == [1, 2, 3, 4, 5, 6, 7]
    assert all(instant % 60 <= 1 for _, instant in ticks)  # where the member that put it has ended, another releases it


async def test_a_shared_queue_has_no_history(members: Members) -> None:
    """Transactions rule 6.9: it is refused clearly at both doors, and nothing is served by half."""
    options = ServiceOptions(history="Q.HISTORY", history_span=60.0)
    connection = await members.connect("QM1")
    with fails(MQRC.OPTION_NOT_VALID_FOR_TYPE) as caught:
        async with connection.deliveries("Q", options=options):
            pass
    assert "Q is a shared queue, and has no history" in str(caught.value)
    app = App(members["QM1"], name="SHOP")

    @app.handler("Q", history="1h")
    async def handle(body: str) -> None: ...

    with pytest.raises(NotServableError, match="cannot have history= with queue Q: it is a shared queue"):
        async with app.running():
            pass
