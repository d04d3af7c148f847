"""The pages of objects, of rights, and of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from broker.http.console.objects.attributes import KINDS, alter_line, grouped
from broker.http.console.objects.completion import completions
from broker.http.console.objects.sessions import COMMANDS_KEPT, commands_of
from tests.http.console.conftest import words
from tests.http.console.forms import form, sent
from tests.http.console.hostile import HOSTILE

if TYPE_CHECKING:
    import httpx

    from broker import Connection
    from tests.http.console.conftest import Doorman


@pytest.mark.parametrize("kind", KINDS)
async def test_n3_9_each_kind_has_its_list(browser: httpx.AsyncClient, kind: str) -> None:
    page = await browser.get(f"/console/objects?kind={kind}")
    assert page.status_code == 200
    assert "syntax" not in words(page).lower()
    assert "AMQ8405" not in page.text


@pytest.mark.parametrize(
    "kind", ["QLOCAL", "QUEUE", "QMODEL", "PROCESS", "CHANNEL", "AUTHINFO", "QMGR", "QALIAS", "QREMOTE"]
)
async def test_n3_9_each_kind_has_a_page_and_a_form(
    browser: httpx.AsyncClient, connection: Connection, kind: str
) -> None:
    await connection.mqsc("DEFINE QALIAS(A) TARGET(Q)\nDEFINE QREMOTE(E) RNAME(X) RQMNAME(Y)", check=True)
    names = {
        "QLOCAL": "Q", "QUEUE": "Q", "QMODEL": "SYSTEM.DEFAULT.MODEL.QUEUE", "PROCESS": "SYSTEM.DEFAULT.PROCESS",
        "CHANNEL": "SYSTEM.DEF.SVRCONN", "AUTHINFO": "SYSTEM.DEFAULT.AUTHINFO.IDPWOS", "QMGR": "QM1", "QALIAS": "A",
        "QREMOTE": "E",
    }  # fmt: skip
    path = f"/objects/{kind}/{names[kind]}"
    page = await browser.get(f"/console{path}")
    assert (page.status_code, "DESCR" in page.text) == (200, True)
    edit = await browser.get(f"/console{path}?edit=1")
    assert 'name="DESCR"' in edit.text
    where, told = await sent(browser, path, form("preview", DESCR="it's <new>"))
    assert "Nothing is sent yet" in told
    line = (await browser.get(where)).text.partition('name="line" value="')[2].partition('"')[0]
    line = line.replace("&#39;", "'").replace("&lt;", "<").replace("&gt;", ">")
    assert line.endswith("DESCR('it''s <new>')")
    _, told = await sent(browser, where.removeprefix("/console"), form("alter", line=line))
    assert "AMQ80" in told or "AMQ85" in told, told
    again = words(await browser.get(f"/console{path}"))
    assert "it&#39;s &lt;new&gt;" in again


async def test_n2_1_a_change_is_shown_as_its_line_before_it_is_sent(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    fields = {"MAXDEPTH": "77", "GET": "DISABLED", "TRIGGER": "YES", "PUT": "ENABLED", "CURDEPTH": "9", "NONSENSE": "1"}
    where, told = await sent(browser, "/objects/QLOCAL/Q", form("preview", **fields))
    assert "ALTER QLOCAL(&#39;Q&#39;) GET(DISABLED) MAXDEPTH(77) TRIGGER" in told
    [reply] = await connection.mqsc("DISPLAY QLOCAL(Q) MAXDEPTH GET")
    assert (reply.attributes[0]["MAXDEPTH"], reply.attributes[0]["GET"]) == (5000, "ENABLED")
    line = "ALTER QLOCAL('Q') GET(DISABLED) MAXDEPTH(77) TRIGGER"
    _, told = await sent(browser, where.removeprefix("/console"), form("alter", line="ALTER QLOCAL('R') MAXDEPTH(1)"))
    assert "nothing was sent" in told
    _, told = await sent(browser, where.removeprefix("/console"), form("alter", line=line))
    assert "AMQ8008I" in told
    [reply] = await connection.mqsc("DISPLAY QLOCAL(Q) MAXDEPTH GET TRIGGER")
    assert (reply.attributes[0]["MAXDEPTH"], reply.attributes[0]["TRIGGER"]) == (77, True)


async def test_nothing_changed_and_a_value_that_cannot_be(browser: httpx.AsyncClient) -> None:
    _, told = await sent(browser, "/objects/QLOCAL/Q", form("preview", MAXDEPTH="5000"))
    assert "nothing is to be sent" in told
    where, _ = await sent(browser, "/objects/QLOCAL/Q", form("preview", MAXDEPTH="-1"))
    _, told = await sent(browser, where.removeprefix("/console"), form("alter", line="ALTER QLOCAL('Q') MAXDEPTH(-1)"))
    assert "AMQ8412E" in told


def test_a_value_cannot_leave_its_quotes_or_its_line() -> None:
    line = alter_line(
        "QLOCAL", "Q", [("DESCR", "x')\nDELETE QLOCAL(R)\r\n"), ("NAME", "y"), ("MAXDEPTH", "1) PUT(DISABLED")]
    )
    assert line == "ALTER QLOCAL('Q') DESCR('x'') DELETE QLOCAL(R) ') MAXDEPTH('1) PUT(DISABLED')"
    assert alter_line("QLOCAL", "Q", [("MAXDEPTH", "5")], "SHARED") == "ALTER QLOCAL('Q') QSGDISP(SHARED) MAXDEPTH(5)"


def test_attributes_stand_in_groups_each_in_one() -> None:
    keywords = ["QUEUE", "DESCR", "TRIGGER", "MAXDEPTH", "ALTDATE", "CURDEPTH", "QSGDISP", "GET"]
    found = grouped("QLOCAL", dict.fromkeys(keywords))
    assert sorted(each for _, group in found for each in group) == sorted(keywords)
    assert found[0] == ("General", ["QUEUE", "DESCR"])


async def test_an_object_that_is_not_there_and_a_kind_that_is_not_there(browser: httpx.AsyncClient) -> None:
    for path in ("QLOCAL/NOT.THERE", "NONSENSE/Q", "CHLAUTH/x", "QLOCAL/%3Cscript%3E", "QLOCAL/Q%2A"):
        page = await browser.get(f"/console/objects/{path}")
        assert page.status_code == 404
        assert "<script>" not in page.text.partition("<main")[2]


async def test_n3_9_ten_thousand_are_shown_by_the_hundred(browser: httpx.AsyncClient, connection: Connection) -> None:
    await connection.mqsc("\n".join(f"DEFINE QLOCAL(A{number:04})" for number in range(250)), check=True)
    page = await browser.get("/console/objects?q=A")
    assert "1 to 100 of 250" in words(page)
    assert page.text.count("<tr") == 101
    last = await browser.get("/console/objects?q=A&after=A0199")
    assert "201 to 250 of 250" in words(last)


# Who may do what


async def test_explain_as_forms_tells_the_rules_and_what_would_allow_it(browser: httpx.AsyncClient) -> None:
    page = words(await browser.get("/console/objects/access?explain=open&name=Q&for=put,get&as=alice"))
    assert "refused alice may not open Q for put,get" in page
    assert "SET AUTHREC" in page
    assert "evermq explain open Q --for put,get --as alice" in page
    allowed = words(await browser.get("/console/objects/access?explain=open&name=Q&for=put"))
    assert "allowed" in allowed
    wrong = words(await browser.get("/console/objects/access?explain=open&name=Q&for=fly"))
    assert "MQRC_OPTIONS_ERROR" in wrong
    connect = words(await browser.get("/console/objects/access?explain=connect&user=alice&from=10.0.0.1"))
    assert "connect from 10.0.0.1" in connect
    nowhere = words(await browser.get("/console/objects/access?explain=connect&user=alice&from=nowhere"))
    assert "MQRC_OPTIONS_ERROR" in nowhere


# Commands


async def test_n3_10_commands_are_sent_and_their_replies_are_shown_as_text_and_as_table(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    assert "Nothing yet" in words(await browser.get("/console/commands"))
    _, told = await sent(browser, "/commands", form("run", script="DISPLAY QLOCAL(Q) CURDEPTH"))
    assert "1 command sent, none failed." in told
    assert "AMQ8409I: Display Queue details." in told
    assert "QUEUE TYPE CURDEPTH" in told
    _, told = await sent(
        browser, "/commands", form("run", script="DEFINE QLOCAL(X) +\n  MAXDEPTH(3)\n* a comment\nDELETE QLOCAL(NONE)")
    )
    assert "2 commands sent, 1 failed." in told
    [reply] = await connection.mqsc("DISPLAY QLOCAL(X) MAXDEPTH")
    assert reply.attributes[0]["MAXDEPTH"] == 3
    _, told = await sent(browser, "/commands", form("run", script=" \n* nothing"))
    assert "nothing was sent" in told
    _, told = await sent(browser, "/commands", form("forget"))
    assert "Nothing yet" in told


async def test_a_password_in_a_command_is_not_kept(browser: httpx.AsyncClient) -> None:
    _, told = await sent(browser, "/commands", form("run", script="DEFINE USER(bob) PASSWORD('correct horse battery')"))
    assert "DEFINE USER(bob)" in told
    assert "correct horse" not in (await browser.get("/console/commands")).text


async def test_the_history_is_bounded_and_of_one_session(browser: httpx.AsyncClient, doorman: Doorman) -> None:
    script = "\n".join(f"DISPLAY QLOCAL(Q{number})" for number in range(COMMANDS_KEPT + 5))
    _, told = await sent(browser, "/commands", form("run", script=script))
    assert told.count("Again") == COMMANDS_KEPT
    _, told = await sent(browser, "/commands", form("run", script="\n".join(["DISPLAY QMGR"] * 201)))
    assert "More than 200 commands at once" in told
    doorman.caller.user = "bob"
    assert "Nothing yet" in words(await browser.get("/console/commands"))


async def test_n4_1_who_may_look_and_nothing_else_sends_no_command(
    browser: httpx.AsyncClient, doorman: Doorman
) -> None:
    doorman.caller.roles = ("MQWebAdminRO",)
    assert (await browser.post("/console/commands", data=form("run", script="DELETE QLOCAL(Q)"))).status_code == 403
    assert (await browser.post("/console/objects/QLOCAL/Q?set-MAXDEPTH=1", data=form("alter"))).status_code == 403


def test_a_script_is_read_as_the_command_line_reads_it() -> None:
    assert commands_of("DIS QL(A)\nEND\nDIS QL(B)") == ["DIS QL(A)"]
    assert commands_of("DEF QL(A) +\n MAXDEPTH(1)") == ["DEF QL(A) MAXDEPTH(1)"]


COMPLETIONS = {
    "": "ALTER ",
    "dis": "DISPLAY ",
    "DISPLAY QL": "DISPLAY QLOCAL(",
    "DISPLAY QM": "DISPLAY QMGR ",
    "ALTER QLOCAL(": "ALTER QLOCAL(Q)",
    "ALTER QLOCAL(R": "ALTER QLOCAL(R)",
    "ALTER QLOCAL(Q) MAXD": "ALTER QLOCAL(Q) MAXDEPTH(",
    "ALTER QLOCAL(Q) NOTR": "ALTER QLOCAL(Q) NOTRIGGER",
    "ALTER QLOCAL(Q) GET(D": "ALTER QLOCAL(Q) GET(DISABLED)",
    "DISPLAY QLOCAL(Q) CURD": "DISPLAY QLOCAL(Q) CURDEPTH",
    "DISPLAY QSTATUS(Q": "DISPLAY QSTATUS(Q)",
    "RESOLVE INDOUBT(x) ACT": "RESOLVE INDOUBT(x) ACTION(",
    "DELETE QLOCAL(Q) PU": "DELETE QLOCAL(Q) PURGE",
}


@pytest.mark.parametrize("line", COMPLETIONS)
async def test_a_command_is_completed(connection: Connection, line: str) -> None:
    assert COMPLETIONS[line] in await completions(connection, line)


@pytest.mark.parametrize(
    "line", ["NONSENSE ", "FLY QLOCAL(Q) x", "DISPLAY QLOCAL('a b", "((((", "DISPLAY QLOCAL(" + "x" * 1900]
)
async def test_what_is_no_command_is_not_completed(connection: Connection, line: str) -> None:
    assert await completions(connection, line) == []


async def test_completions_are_asked_for_by_the_script_of_the_page(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/console/commands/completion?q=ALTER%20QLOCAL(R")
    assert answer.json() == ["ALTER QLOCAL(R)"]


@pytest.mark.parametrize("name", HOSTILE)
async def test_n2_3_hostile_queries_are_text(browser: httpx.AsyncClient, name: str) -> None:
    text = quote(HOSTILE[name].encode("utf-8", "replace")[:3000])
    for path in (
        f"/objects?q={text}", f"/objects?kind={text}&after={text}",
        f"/objects/QLOCAL/{text[:300] or 'x'}", f"/commands?line={text}",
        f"/objects/access?explain=open&name={text}&for={text}&as={text}", f"/objects/QLOCAL/Q?set-DESCR={text}",
        f"/log?q={text}&event={text}", f"/dead-letters/letters?why={text}&handler={text}&after={text}",
    ):  # fmt: skip
        page = await browser.get(f"/console{path}")
        main = page.text.partition("<main")[2]
        assert page.status_code in (200, 400, 404), path
        for harm in ("<script", "<img src=x", "<svg onload", "<iframe", "<b>x</b>", "<style", "<base", "<meta"):
            assert harm not in main, path
