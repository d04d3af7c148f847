"""Commands: a session of MQSC, with its history, completion, and replies as text and as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import htpy as h
from starlette.responses import JSONResponse

from broker.http.console.answers import HEADERS
from broker.http.console.browsing.cursors import owner_of
from broker.http.console.elements import badge, empty, section, shown, when
from broker.http.console.forms import Action, action_form, hidden
from broker.http.console.objects.completion import completions
from broker.http.console.objects.sessions import COMMANDS_MAX, commands_of
from broker.http.console.page import ConsolePage, Content, Notice
from broker.presentation.escaping import escaped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from htpy import Element
    from starlette.datastructures import FormData
    from starlette.responses import Response

    from broker.http.console.objects.sessions import DoneCommand
    from broker.http.console.visit import Visit

_COLUMNS: Final = 12
_LINE_MAX: Final = 2000
_MISSING: Final = "role MQWebAdmin or MQWebUser"


async def _content(visit: Visit) -> Content:
    done = visit.site.commands.of(owner_of(visit.caller))
    missing = "" if visit.acts else _MISSING
    prefilled = visit.query("line")[:_LINE_MAX]
    line = h.label(".wide-field")[
        h.span["One command"],
        h.input(
            type="text", name="script", id="command", value=prefilled, required=True, autocomplete="off",
            spellcheck="false", list="completions", placeholder="DISPLAY QLOCAL(*) CURDEPTH",
            data_completions=visit.url("commands", "completion"),
        ),
        h.datalist("#completions"),
    ]  # fmt: skip
    script = h.label(".wide-field")[
        h.span["A script: lines that end with + or - go on, END ends it"],
        h.textarea(name="script", rows="6", required=True, spellcheck="false"),
    ]
    return Content(
        "Commands",
        [
            section(
                "MQSC",
                action_form(visit, Action(name="run", label="Run", line="what you type", missing=missing, inputs=line)),
                h.details[
                    h.summary["Several lines"],
                    action_form(
                        visit, Action(name="run", label="Run all", line="what you type", missing=missing, inputs=script)
                    ),
                ],
            ),
            h.section(id="done")[
                h.h2["Done in this session"],
                [_done(visit, each, number) for number, each in enumerate(done)]
                if done
                else empty("Nothing yet. What is sent here is judged as yours, like a command of evermq mqsc."),
                _forget_form(visit) if done else None,
            ],
        ],
    )


def _forget_form(visit: Visit) -> Element:
    """The button that sends nothing to the queue manager."""
    return h.form(method="post", action=visit.here)[
        hidden("form_token", visit.form_token),
        hidden("action", "forget"),
        h.button(".plain", type="submit", disabled=not visit.acts)["Forget these"],
    ]


def _done(visit: Visit, done: DoneCommand, number: int) -> Element:
    again = h.a(href=visit.url("commands", line=done.line[:_LINE_MAX]))["Again"]
    head = h.p[
        badge("done", "good") if done.ok else badge("failed", "bad"), " ", h.code[shown(done.line, 600)], " ",
        h.span(".soft")[when(done.at, visit.now), " · ", again],
    ]  # fmt: skip
    text = h.pre(tabindex="0")[h.bdi[escaped(done.text, keep="\n\t")]]
    if not done.rows:
        return h.article(".done")[head, text]
    return h.article(".done")[
        head,
        _table(done.rows),
        h.p(".soft")[f"the first {len(done.rows):,} of {done.found:,}"] if done.found > len(done.rows) else None,
        h.details[h.summary["As text"], text],
    ]


def _table(rows: Sequence[Mapping[str, Any]]) -> Element:
    """Objects as rows; those with many attributes one below the other."""
    keywords = list(dict.fromkeys(keyword for row in rows for keyword in row))
    if len(keywords) > _COLUMNS:
        across = rows[:_COLUMNS]
        lines = (
            h.tr[h.th(scope="row")[keyword], (h.td[shown(str(row.get(keyword, "")))] for row in across)]
            for keyword in keywords
        )
        return h.div(".scroll")[h.table(aria_label="Reply")[h.tbody[lines]]]
    return h.div(".scroll")[
        h.table(aria_label="Reply")[
            h.thead[h.tr[(h.th(scope="col")[keyword] for keyword in keywords)]],
            h.tbody[(h.tr[(h.td[shown(str(row.get(keyword, "")))] for keyword in keywords)] for row in rows)],
        ]
    ]


async def _run(visit: Visit, form: FormData) -> Notice:
    commands = commands_of(str(form.get("script", "")))
    if not commands:
        return Notice("There is no command in it: nothing was sent.", good=False)
    if len(commands) > COMMANDS_MAX:
        return Notice(f"More than {COMMANDS_MAX} commands at once: nothing was sent.", good=False)
    failed, owner = 0, owner_of(visit.caller)
    async with visit.connection() as connection:
        for command in commands:
            for reply in await connection.mqsc(command):
                failed += not reply.ok
                visit.site.commands.add(owner, visit.now, command, reply)
    many = "1 command" if len(commands) == 1 else f"{len(commands):,} commands"
    return Notice(f"{many} sent, {failed or 'none'} failed.", good=not failed, back="/commands")


async def _forget(visit: Visit, form: FormData) -> Notice:
    visit.site.commands.forget(owner_of(visit.caller))
    return Notice("Forgotten.", back="/commands")


async def _completion(visit: Visit) -> Response:
    async with visit.connection() as connection:
        found = await completions(connection, visit.query("q")[:_LINE_MAX])
    return JSONResponse(found, headers=HEADERS)


COMMANDS = ConsolePage(path="/commands", name="Commands", content=_content, actions={"run": _run, "forget": _forget})
COMPLETION = ConsolePage(path="/commands/completion", content=_completion)
