"""The frame: who comes in, what all answers bear, forms, the stream of a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from markupsafe import Markup

from broker.http.console.assets import SCRIPT, STYLE
from broker.http.console.page import Keyed
from broker.http.console.stream import SharedParts, events
from broker.mqi import MQRC, MQError
from tests.http.console.conftest import words

if TYPE_CHECKING:
    import httpx

    from broker import Connection
    from broker.http.console.console import Console
    from broker.http.console.page import Parts
    from broker.testing import VirtualClock
    from tests.http.console.conftest import Doorman

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)


@pytest.mark.parametrize("path", ["/", "/queues", "/queues/Q", "/queues/NOT.THERE", "/login", "/nowhere"])
async def test_each_page_bears_the_policy_and_no_style_or_script_of_its_own(
    browser: httpx.AsyncClient, path: str
) -> None:
    page = await browser.get(f"/console{path}")
    assert page.headers["content-security-policy"].startswith(POLICY)
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert " style=" not in page.text
    assert "<style" not in page.text
    assert page.text.count("<script") == page.text.count(f'<script src="/console/assets/{SCRIPT.name}" defer>') == 1


@pytest.mark.parametrize("asset", [STYLE, SCRIPT], ids=["style", "script"])
async def test_an_asset_is_kept_for_good_by_its_name_which_changes_with_its_text(
    browser: httpx.AsyncClient, doorman: Doorman, asset: object
) -> None:
    doorman.open = False  # the login page has them too
    for each in (STYLE, SCRIPT):
        answer = await browser.get(f"/console/assets/{each.name}")
        assert (answer.status_code, answer.content) == (200, each.data)
        assert "immutable" in answer.headers["cache-control"]
    assert (await browser.get("/console/assets/console-000000000000.css")).status_code == 404


def test_the_script_is_short_and_makes_no_html_of_texts() -> None:
    text = SCRIPT.data.decode()
    assert len(text.splitlines()) < 200
    assert "innerHTML" not in text
    assert "eval" not in text


async def test_who_has_not_come_in_is_led_to_the_login_page_and_back(
    browser: httpx.AsyncClient, doorman: Doorman
) -> None:
    doorman.open = False
    page = await browser.get("/console/queues/A%2FB?show=1")
    assert (page.status_code, page.headers["location"]) == (
        303, "/console/login?next=%2Fconsole%2Fqueues%2FA%252FB%3Fshow%3D1",
    )  # fmt: skip
    form = await browser.get(page.headers["location"])
    assert 'value="/console/queues/A%2FB?show=1"' in form.text
    then = "/console/queues/A%2FB?show=1"
    wrong = await browser.post("/console/login", data={"user": "alice", "password": "wrong", "next": then})
    assert (wrong.status_code, "does not let you in" in wrong.text) == (401, True)
    assert f'value="{then}"' in wrong.text
    right = await browser.post("/console/login", data={"user": "alice", "password": "right", "next": then})
    assert (right.status_code, right.headers["location"]) == (303, then)
    assert right.headers["set-cookie"] == "session=1; Path=/"
    out = await browser.post("/console/logout", data={"form_token": "the word"})
    assert (out.status_code, out.headers["location"]) == (303, "/console/login")
    assert (await browser.get("/console/")).headers["location"] == "/console/login"


@pytest.mark.parametrize(
    "then", ["//evil.example", "https://evil.example/", "/console//evil", "/ibmmq", "", "/console/\\x", "/console/\n"]
)
async def test_a_login_leads_nowhere_else(browser: httpx.AsyncClient, then: str) -> None:
    answer = await browser.post("/console/login", data={"user": "a", "password": "right", "next": then})
    assert answer.headers["location"] == "/console/"


async def test_without_users_the_console_shows_who_has_to_be_defined_and_nothing_else(
    browser: httpx.AsyncClient, doorman: Doorman
) -> None:
    doorman.open = doorman.users = False
    for path in ("/", "/queues", "/login"):
        page = await browser.get(f"/console{path}")
        assert page.status_code == 401
        assert "evermq user add NAME --groups mqm" in page.text
        assert "<form" not in page.text


async def test_a_session_that_has_ended_ends_streams_and_forms(browser: httpx.AsyncClient, doorman: Doorman) -> None:
    doorman.open = False
    assert (await browser.get("/console/?live=1")).status_code == 401
    assert (await browser.post("/console/queues/Q", data={"action": "get"})).status_code == 401


@pytest.mark.parametrize("token", ["", "another word", "the word "])
async def test_a_form_of_elsewhere_does_nothing(browser: httpx.AsyncClient, connection: Connection, token: str) -> None:
    form = {"form_token": token, "action": "get", "value": "DISABLED"}
    assert (await browser.post("/console/queues/Q", data=form)).status_code == 403
    assert (await browser.post("/console/logout", data=form)).status_code == 403
    [reply] = await connection.mqsc("DISPLAY QLOCAL(Q) GET")
    assert reply.attributes[0]["GET"] == "ENABLED"


async def test_n2_1_a_button_shows_the_line_that_it_sends_and_the_notice_tells_what_came_of_it(
    browser: httpx.AsyncClient, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    page = await browser.get("/console/queues/Q")
    assert "ALTER QLOCAL(&#39;Q&#39;) GET(DISABLED)" in page.text
    form = {"form_token": "the word", "action": "get", "value": "DISABLED"}
    done = await browser.post("/console/queues/Q", data=form)
    assert done.status_code == 303
    [reply] = await connection.mqsc("DISPLAY QLOCAL(Q) GET")
    assert reply.attributes[0]["GET"] == "DISABLED"
    assert "console used user=alice page=/queues/Q action=get outcome=done: GET(DISABLED): AMQ8008I" in caplog.text
    told = await browser.get(done.headers["location"])
    assert "GET(DISABLED): AMQ8008I" in words(told)
    assert "Resume gets" in told.text
    assert "AMQ8008I" not in (await browser.get(done.headers["location"])).text  # told once


async def test_who_may_look_and_nothing_else_sees_buttons_that_cannot_be_pressed(
    browser: httpx.AsyncClient, doorman: Doorman, connection: Connection
) -> None:
    doorman.caller.roles = ("MQWebAdminRO",)
    page = await browser.get("/console/queues/Q")
    assert page.text.count("disabled>") == 3
    assert "needs role MQWebAdmin or MQWebUser" in words(page)
    form = {"form_token": "the word", "action": "get", "value": "DISABLED"}
    assert (await browser.post("/console/queues/Q", data=form)).status_code == 403
    [reply] = await connection.mqsc("DISPLAY QLOCAL(Q) GET")
    assert reply.attributes[0]["GET"] == "ENABLED"


async def test_a_page_that_is_not_there_and_an_action_that_is_not_there(browser: httpx.AsyncClient) -> None:
    assert (await browser.get("/console/nowhere")).status_code == 404
    form = {"form_token": "the word", "action": "explode"}
    assert (await browser.post("/console/queues/Q", data=form)).status_code == 400
    assert (await browser.post("/console/", data=form)).status_code == 405


# The stream


def part(*children: tuple[str, str]) -> list[Keyed]:
    return [Keyed(key, Markup(text)) for key, text in children]


async def shared(parts: Parts) -> SharedParts:
    """The parts of one look."""

    async def made() -> Parts:
        return parts

    found = SharedParts()
    await found.make(made)
    return found


async def test_a_stream_says_only_what_has_changed_found_once_for_all_streams() -> None:
    nothing = await shared({})
    first, same, turned, back, empty = [
        await shared({"a": part(*children), "b": part()})
        for children in (
            [("1", "x"), ("2", "y")],
            [("1", "x"), ("2", "y")],
            [("2", "z"), ("1", "x")],
            [("1", "x"), ("2", "z")],
            [],
        )
    ]

    def told(before: SharedParts, now: SharedParts) -> object:
        event = now.event_since(before)
        assert now.event_since(before) is event
        return json.loads(event.removeprefix("event: parts\ndata: ")) if event else None

    assert told(nothing, first) == [
        {"part": "a", "order": ["1", "2"], "changed": {"1": "x", "2": "y"}},
        {"part": "b", "order": [], "changed": {}},
    ]
    assert told(first, same) is None
    assert told(same, turned) == [{"part": "a", "order": ["2", "1"], "changed": {"2": "z"}}]
    assert told(turned, back) == [{"part": "a", "order": ["1", "2"], "changed": {}}]
    assert told(back, empty) == [{"part": "a", "order": [], "changed": {}}]
    assert told(nothing, empty) != told(back, empty)


async def test_a_stream_goes_on_when_the_queue_manager_is_back_and_ends_with_the_console(
    console: Console, doorman: Doorman, browser: httpx.AsyncClient, clock: VirtualClock
) -> None:
    answers: list[Parts | MQError] = [
        {"a": part(("1", "x"))},
        MQError(MQRC.Q_MGR_NOT_AVAILABLE, "away"),
        MQError(MQRC.Q_MGR_NOT_AVAILABLE, "still away"),
        {"a": part(("1", "x"))},
    ]

    async def parts() -> SharedParts:
        answer = answers.pop(0)
        if not answers:
            console.end()
        if isinstance(answer, MQError):
            raise answer
        return await shared(answer)

    await browser.get("/console/")
    said = []
    async for event in events(console.site.observatory, parts, doorman.caller, "v1"):
        said.append(event)
        await clock.advance(1)
    names = [each.partition("event: ")[2].partition("\n")[0] for each in said]
    assert names == ["version", "parts", "away", "away", "parts"]
    assert said[-1].endswith("data: []\n\n")  # nothing has changed meanwhile, and it is back


async def test_a_stream_ends_when_its_caller_would_be_let_in_no_more(
    console: Console, doorman: Doorman, browser: httpx.AsyncClient, clock: VirtualClock
) -> None:
    looks = 0

    async def parts() -> SharedParts:
        nonlocal looks
        looks += 1
        doorman.caller.admitted = looks < 3
        return await shared({"a": part(("1", str(looks)))})

    await browser.get("/console/")
    async for _ in events(console.site.observatory, parts, doorman.caller, "v1"):
        await clock.advance(1)
    assert looks == 4
