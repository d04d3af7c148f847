"""Handlers: what they do, what runs now, how long messages wait and run; schedules of periodic work."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache, partial
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
    in_turns,
    live,
    rate,
    section,
    shown,
    table,
    when,
)
from broker.http.console.figures.look import first_of
from broker.http.console.forms import Action, action_form
from broker.http.console.page import ConsolePage, Content, Keyed, Notice
from broker.http.console.pages.queue import EXPLAINED_MAX, quoted
from broker.http.console.rows import ROWS_KEPT
from broker.mqi import Cause
from broker.presentation.durations import percentile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from htpy import Node
    from starlette.datastructures import FormData

    from broker import Connection
    from broker.http.console.figures.look import StatusLook
    from broker.http.console.page import Parts
    from broker.http.console.visit import Visit
    from broker.mqi import Explanation
    from triggers.schedule.schedules import ListedSchedule

HANDLERS_SHOWN: Final = 100
ERRORS_SHOWN: Final = 20
RUNNING_EXPLAINED: Final = 20
"""Of so many queues it is told which messages are in hand, and in whose."""

_RUN: Final = ".RUN"
_HANDLERS: Final = (
    PageColumn("Handler"),
    PageColumn("Workers", figures=True, wide=True),
    PageColumn("Running", figures=True, wide=True),
    PageColumn("Done/min", figures=True, wide=True),
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
    some = await _some(visit, look)
    async with visit.connection() as connection:
        running = await _running(connection, look)
        schedules = await _listed(connection)
        paused = await _paused(connection, [each["queue"] for each in some])
    return Content(
        "Handlers",
        [
            section(
                "Queues under handlers",
                table("Handlers", _HANDLERS, live("handlers", parts, h.tbody)),
                live("none", parts),
                _pager(visit, look, some),
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
    some = await _some(visit, look)
    wrong = await _failed_last(look)
    return {
        "handlers": await in_turns(some, lambda each: _handler(visit, look, each)),
        "none": [] if look.handlers else [_said("No handler has served a queue since the start.")],
        "errors": [_error(visit, each) for each in wrong],
        "no-errors": [] if wrong else [_said("No handler has failed.")],
    }


async def _some(visit: Visit, look: StatusLook) -> Sequence[Mapping[str, Any]]:
    """The handlers of the page that is asked for: those that fail most, or a hundred by name behind a place."""
    behind = visit.query("after")
    if visit.query("by") != "name":
        return await look.failing_most(HANDLERS_SHOWN)
    start = bisect_right(look.handlers, behind, key=_key) if behind else 0
    return look.handlers[start : start + HANDLERS_SHOWN]


def _key(handler: Mapping[str, Any]) -> str:
    """The text by which handlers are in order, and which no other has."""
    return f"{handler['queue']} {handler['handler']}"


def _pager(visit: Visit, look: StatusLook, some: Sequence[Mapping[str, Any]]) -> Node:
    """The way to the next hundred, by the last name of this one: what is served meanwhile moves nothing."""
    number = len(look.handlers)
    if number <= HANDLERS_SHOWN:
        return None
    by_name = visit.query("by") == "name"
    more = by_name and bool(some) and _key(some[-1]) != _key(look.handlers[-1])
    to = partial(visit.url, "handlers")
    return h.nav(".pager", aria_label="More")[
        h.span[f"{len(some):,} of {number:,}, {'by name' if by_name else 'those that fail most first'}"],
        h.a(href=to(by="name"))["By name, from the first"] if not by_name or visit.query("after") else None,
        h.a(href=to())["Those that fail most"] if by_name else None,
        h.a(href=to(by="name", after=_key(some[-1])))["Next"] if more else None,
    ]


async def _failed_last(look: StatusLook) -> Sequence[Mapping[str, Any]]:
    """The handlers whose last errors are the youngest; made once for a look."""
    found: list[Mapping[str, Any]] | None = look.made.get("failed last")
    if found is None:
        first = await first_of(look.handlers, lambda each: -each["last_error_at"], ERRORS_SHOWN)
        found = look.made["failed last"] = [each for each in first if each["last_error"]]
    return found


def _said(text: str) -> Keyed:
    return Keyed("none", Markup(h.div({"data-key": "none"})[empty(text)]))


def _handler(visit: Visit, look: StatusLook, handler: Mapping[str, Any]) -> Keyed:
    names = ("workers", "running", "succeeded", "failed", "later", "crashed", "dead_lettered", "delayed")
    waited, ran = handler["waited"]["buckets"], handler["ran"]["buckets"]
    times = percentile(waited, 0.5), percentile(waited, 0.95), percentile(ran, 0.5), percentile(ran, 0.95)
    done = 60 * look.rates.of_handler(handler, "succeeded")
    who = visit.url("queues", handler["queue"]), handler["queue"], handler["handler"]
    figures = tuple(handler[name] for name in names)
    return Keyed(_key(handler), _handler_row(visit.url("dead-letters"), who, done, figures, times))


@lru_cache(ROWS_KEPT)
def _handler_row(
    letters: str, who: tuple[str, str, str], done: float, figures: tuple[int, ...], times: tuple[str, ...]
) -> Markup:
    url, q_name, name = who
    workers, running, succeeded, failed, later, crashed, dead, delayed = figures
    values: list[Node] = [
        [h.a(href=url)[shown(name or q_name)], h.span(".soft")[" on ", shown(q_name)]],
        count(workers) if workers else badge("none", "warn"),
        count(running),
        rate(done),
        count(succeeded),
        badge(count(failed), "warn") if failed else "",
        count(later),
        badge(count(crashed), "warn") if crashed else "",
        h.a(href=letters)[badge(count(dead), "bad")] if dead else "",
        count(delayed),
        *times,
    ]
    return Markup(h.tr({"data-key": f"{q_name} {name}"})[cells(_HANDLERS, values)])


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
    explanations: list[Explanation] = []
    busy = [each for each in look.handlers if each["running"]]
    for q_name in list(dict.fromkeys(each["queue"] for each in busy))[:RUNNING_EXPLAINED]:
        queue = look.queue(q_name)
        if queue is not None and queue["depth"] <= EXPLAINED_MAX:
            explanations.append(await connection.explain(q_name))
    named = held_rows(explanations, (Cause.UNCOMMITTED_GET,)).named
    return HeldRows(named, max(len(named), sum(each["running"] for each in busy)))


def _running_table(visit: Visit, running: HeldRows) -> Node:
    if not running.messages:
        return empty("No handler has a message in hand.")
    return held_table(visit, "Running now", running, running=True)


async def _paused(connection: Connection, q_names: Iterable[str]) -> dict[str, bool]:
    """Return, by queue, True where no handlers are started, as its switch says."""
    wanted = dict.fromkeys(q_names)
    if not wanted:
        return {}
    replies = await connection.mqsc("\n".join(f"DISPLAY QLOCAL({quoted(name)}) TRIGGER" for name in wanted))
    found = (each for reply in replies for each in reply.attributes)
    return {str(each["QUEUE"]): not each["TRIGGER"] for each in found}


def _line(q_name: str, *, on: bool) -> str:
    return f"ALTER QLOCAL({quoted(q_name)}) {'TRIGGER' if on else 'NOTRIGGER'}"


async def _switches(visit: Visit, paused: Mapping[str, bool]) -> Node:
    if not paused:
        return empty("There is no queue under a handler.")
    actions = []
    for q_name, off in sorted(paused.items(), key=lambda each: (not each[1], each[0])):
        missing = await visit.missing(q_name, "chg")
        label = f"Resume {q_name}" if off else f"Pause {q_name}"
        action = Action(
            name="resume" if off else "pause", label=label[:60], line=_line(q_name, on=off), missing=missing,
            fields={"queue": q_name},
        )  # fmt: skip
        actions.append(action)
    forms = await in_turns(actions, partial(action_form, visit))
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
