"""Handlers: what they do, what runs now, how long messages wait and run; schedules of periodic work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import htpy as h
from markupsafe import Markup

from broker.http.console.browsing.held import HeldRows, held_rows, held_table
from broker.http.console.elements import (
    PageColumn,
    badge,
    cells,
    count,
    empty,
    live,
    rate,
    section,
    shown,
    table,
    when,
)
from broker.http.console.forms import Action, action_form
from broker.http.console.page import ConsolePage, Content, Keyed, Notice
from broker.http.console.pages.queue import EXPLAINED_MAX, quoted
from broker.mqi import Cause
from broker.presentation.durations import percentile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from htpy import Node
    from starlette.datastructures import FormData

    from broker import Connection
    from broker.http.console.browsing.held import HeldRow
    from broker.http.console.figures.look import StatusLook
    from broker.http.console.page import Parts
    from broker.http.console.visit import Visit
    from triggers.schedule.schedules import ListedSchedule

HANDLERS_SHOWN: Final = 200
RUNNING_EXPLAINED: Final = 20
"""Of so many queues it is told which messages are in hand, and in whose."""

_RUN: Final = ".RUN"
_HANDLERS: Final = (
    PageColumn("Handler"),
    PageColumn("Workers", figures=True, wide=True),
    PageColumn("Running", figures=True),
    PageColumn("Done/min", figures=True),
    PageColumn("Done", figures=True, wide=True),
    PageColumn("Failed", figures=True),
    PageColumn("Put off", figures=True, wide=True, title="the handler raised Later"),
    PageColumn("Crashed", figures=True, wide=True, title="the worker was gone before the message was settled"),
    PageColumn("Dead", figures=True, title="messages that have become dead letters"),
    PageColumn("Delayed", figures=True, wide=True),
    PageColumn("Wait", figures=True, wide=True, title="from when a message could be taken until it was: the median"),
    PageColumn("95 %", figures=True, wide=True, title="95 % of the messages waited no longer"),
    PageColumn("Run", figures=True, wide=True, title="how long the handler took: the median"),
    PageColumn("95 %", figures=True, wide=True, title="95 % of the runs took no longer"),
)
_SCHEDULES: Final = (
    PageColumn("Schedule"),
    PageColumn("Comes", wide=True),
    PageColumn("Next"),
    PageColumn("Runs", figures=True, title="that wait, run, or are to be tried again"),
    PageColumn("Last outcome", wide=True),
    PageColumn("Actions"),
)


async def _content(visit: Visit) -> Content:
    parts = await _parts(visit)
    look = await visit.look()
    async with visit.connection() as connection:
        running = await _running(connection, look)
        schedules = await _listed(connection)
        paused = await _paused(connection, [each["queue"] for each in look.handlers[:HANDLERS_SHOWN]])
    return Content(
        "Handlers",
        [
            section(
                "Queues under handlers",
                table("Handlers", _HANDLERS, live("handlers", parts, h.tbody)),
                live("none", parts),
            ),
            h.div(".columns")[
                section("Running now", _running_table(visit, running)),
                section("Last errors", live("errors", parts, h.ul, "events"), live("no-errors", parts)),
            ],
            section("Pause and resume", await _switches(visit, paused)),
            section("Schedules", await _schedules(visit, look, schedules)),
        ],
    )


async def _parts(visit: Visit) -> Parts:
    look = await visit.look()
    handlers = sorted(look.handlers, key=lambda each: (-look.rates.of_handler(each, "failed"), each["queue"]))
    wrong = sorted((each for each in handlers if each["last_error"]), key=lambda each: -each["last_error_at"])
    return {
        "handlers": [_handler(visit, look, each) for each in handlers[:HANDLERS_SHOWN]],
        "none": [] if handlers else [_said("No handler has served a queue since the start.")],
        "errors": [_error(visit, each) for each in wrong[:20]],
        "no-errors": [] if wrong else [_said("No handler has failed.")],
    }


def _said(text: str) -> Keyed:
    return Keyed("none", Markup(h.div({"data-key": "none"})[empty(text)]))


def _handler(visit: Visit, look: StatusLook, handler: Mapping[str, Any]) -> Keyed:
    key = f"{handler['queue']} {handler['handler']}"
    q_name, name = handler["queue"], handler["handler"]
    waited, ran, dead = handler["waited"]["buckets"], handler["ran"]["buckets"], handler["dead_lettered"]
    values: list[Node] = [
        [h.a(href=visit.url("queues", q_name))[shown(name or q_name)], h.span(".soft")[" on ", shown(q_name)]],
        badge("none", "warn") if not handler["workers"] else count(handler["workers"]),
        count(handler["running"]),
        rate(60 * look.rates.of_handler(handler, "succeeded")),
        count(handler["succeeded"]),
        badge(count(handler["failed"]), "warn") if handler["failed"] else "",
        count(handler["later"]),
        badge(count(handler["crashed"]), "warn") if handler["crashed"] else "",
        h.a(href=visit.url("dead-letters"))[badge(count(dead), "bad")] if dead else "",
        count(handler["delayed"]),
        percentile(waited, 0.5), percentile(waited, 0.95), percentile(ran, 0.5), percentile(ran, 0.95),
    ]  # fmt: skip
    return Keyed(key, Markup(h.tr({"data-key": key})[cells(_HANDLERS, values)]))


def _error(visit: Visit, handler: Mapping[str, Any]) -> Keyed:
    key = f"{handler['queue']} {handler['handler']} {handler['last_error_at']}"
    first = handler["last_error"].partition("\n")[0]
    words = h.span[
        h.a(href=visit.url("queues", handler["queue"]))[shown(handler["handler"] or handler["queue"])], ": ",
        h.span(".warn")[shown(first, 400)],
    ]  # fmt: skip
    return Keyed(key, Markup(h.li({"data-key": key})[when(handler["last_error_at"], visit.now), words]))


async def _running(connection: Connection, look: StatusLook) -> HeldRows:
    """Return the messages that handlers have in hand, as far as they are named."""
    named: list[HeldRow] = []
    busy = [each for each in look.handlers if each["running"]]
    for q_name in list(dict.fromkeys(each["queue"] for each in busy))[:RUNNING_EXPLAINED]:
        queue = look.queue(q_name)
        if queue is not None and queue["depth"] <= EXPLAINED_MAX:
            named += held_rows(await connection.explain(q_name), (Cause.UNCOMMITTED_GET,)).named
    named.sort(key=lambda each: (not each.since, each.since))
    return HeldRows(named, max(len(named), sum(each["running"] for each in busy)))


def _running_table(visit: Visit, running: HeldRows) -> Node:
    if not running.messages:
        return empty("No handler has a message in hand.")
    return held_table(visit, "Running now", running, queues=True)


async def _paused(connection: Connection, q_names: Iterable[str]) -> dict[str, bool]:
    """Return, by queue, True where no handlers are started, as its switch says."""
    wanted = dict.fromkeys(q_names)
    if not wanted:
        return {}
    [reply] = await connection.mqsc("DISPLAY QLOCAL(*) TRIGGER")
    return {str(each["QUEUE"]): not each["TRIGGER"] for each in reply.attributes if each["QUEUE"] in wanted}


def _line(q_name: str, *, on: bool) -> str:
    return f"ALTER QLOCAL({quoted(q_name)}) {'TRIGGER' if on else 'NOTRIGGER'}"


async def _switches(visit: Visit, paused: Mapping[str, bool]) -> Node:
    if not paused:
        return empty("There is no queue under a handler.")
    forms = []
    for q_name, off in sorted(paused.items(), key=lambda each: (not each[1], each[0])):
        missing = await visit.missing(q_name, "chg")
        label = f"Resume {q_name}" if off else f"Pause {q_name}"
        action = Action(
            name="resume" if off else "pause", label=label[:60], line=_line(q_name, on=off), missing=missing,
            fields={"queue": q_name},
        )  # fmt: skip
        forms.append(action_form(visit, action))
    few = h.div(".actions")[forms]
    return few if len(forms) <= 12 else h.details[h.summary[f"{len(forms):,} queues"], few]


async def _listed(connection: Connection) -> list[ListedSchedule]:
    from triggers.schedule.schedules import (
        listed,
    )  # what programs declare is theirs; the console asks when it is opened

    return await listed(connection)


async def _schedules(visit: Visit, look: StatusLook, schedules: Sequence[ListedSchedule]) -> Node:
    if not schedules:
        return empty("There is no periodic work: no app has a function with every() or cron().")
    rows = []
    for each in schedules:
        at = [badge("paused", "warn")] if each.paused else [when(each.next_at, visit.now)]
        values: list[Node] = [
            shown(each.name),
            "" if each.schedule is None else shown(each.schedule.words()),
            at,
            count(each.runs),
            _outcome(visit, look, each.q_name + _RUN),
            h.div(".row-actions")[[form async for form in _schedule_forms(visit, each)]],
        ]
        rows.append(h.tr({"data-key": each.q_name})[cells(_SCHEDULES, values)])
    return table("Schedules", _SCHEDULES, h.tbody[rows])


def _outcome(visit: Visit, look: StatusLook, run_queue: str) -> Node:
    handler = next((each for each in look.handlers if each["queue"] == run_queue), None)
    if handler is None or not handler["started"]:
        return h.span(".none")["no run since the start"]
    if handler["last_error"]:
        first = handler["last_error"].partition("\n")[0]
        return [badge("failed", "warn"), " ", when(handler["last_error_at"], visit.now), " ", shown(first, 120)]
    return badge(f"{handler['succeeded']:,} done", "good")


async def _schedule_forms(visit: Visit, schedule: ListedSchedule) -> Any:
    """The buttons of a schedule."""
    q_name = schedule.q_name
    run = await visit.missing(q_name + _RUN, "put")
    change = await visit.missing(q_name, "chg")
    fields = {"queue": q_name}
    yield action_form(
        visit, Action(name="run", label="Run now", line=f"MQPUT1({q_name}{_RUN})", missing=run, fields=fields)
    )
    yield action_form(
        visit,
        Action(
            name="resume" if schedule.paused else "pause", label="Resume" if schedule.paused else "Pause",
            line=_line(q_name, on=schedule.paused), missing=change, fields=fields,
        ),
    )  # fmt: skip


async def _switch(visit: Visit, form: FormData) -> Notice:
    q_name, on = str(form.get("queue", "")), form["action"] == "resume"
    async with visit.connection() as connection:
        [reply] = await connection.mqsc(_line(q_name, on=on))
    done = f"{q_name} is {'resumed' if on else 'paused: handlers that run go on'}."
    return Notice(done if reply.ok else reply.text.strip(), good=reply.ok)


async def _run_now(visit: Visit, form: FormData) -> Notice:
    from triggers.schedule.schedules import NoScheduleError, found, run_now

    try:
        async with visit.connection() as connection:
            schedule = await found(connection, str(form.get("queue", "")))
            if await run_now(connection, schedule, visit.now):
                return Notice(f"{schedule.name} is to run now.")
    except NoScheduleError as error:
        return Notice(str(error), good=False)
    return Notice(f"{schedule.name} runs already, or is to be tried again, and its runs do not overlap.", good=False)


HANDLERS = ConsolePage(
    path="/handlers",
    name="Handlers",
    content=_content,
    parts=_parts,
    actions={"pause": _switch, "resume": _switch, "run": _run_now},
)
