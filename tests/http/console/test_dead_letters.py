"""The pages of dead letters: gathered by what they died of, put back, edited, removed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQDLH, MQENC, MQFMT, MQOO, MQRC, MessageDescriptor, MQError
from tests.http.console.conftest import words
from tests.http.console.forms import form, sent
from tests.http.console.hostile import HOSTILE

if TYPE_CHECKING:
    import httpx

    from broker import Connection
    from tests.http.console.conftest import Doorman

FULL = {"reason": MQRC.Q_FULL, "dest_q_name": "ORDERS", "dest_q_mgr_name": "QM1"}


@pytest.fixture(autouse=True)
async def queues(connection: Connection) -> None:
    await connection.mqsc(
        "DEFINE QLOCAL(DEAD)\nDEFINE QLOCAL(DEAD2)\nDEFINE QLOCAL(ORDERS) BOQNAME(DEAD2)\nALTER QMGR DEADQ(DEAD)",
        check=True,
    )


async def dead(connection: Connection, data: bytes, q_name: str = "DEAD", **header: object) -> bytes:
    """Put a dead letter with an MQDLH; its MsgId."""
    fields = {**FULL, "format": MQFMT.STRING, "encoding": MQENC.NATIVE, "coded_char_set_id": 1208, **header}
    dlh = MQDLH(put_date="20260501", put_time="09000000", **fields)  # type: ignore[arg-type]
    md = MessageDescriptor(format=MQFMT.DEAD_LETTER_HEADER, persistence=1)
    put = await connection.put1(q_name, dlh.to_bytes("big" if not MQENC.NATIVE & 2 else "little") + data, md)
    return put.md.msg_id


async def failed(connection: Connection, data: bytes, q_name: str = "DEAD2", **told: str | int) -> bytes:
    """Put a letter that a handler has failed on; its MsgId."""
    reported = {"queue": "ORDERS", "why": "failed", "handler": "shop:ship", "attempts": 3, **told}
    properties = {f"evermq.{name}": value for name, value in reported.items()}
    return (await connection.put1(q_name, data, properties=properties)).md.msg_id


async def all_of(connection: Connection, q_name: str) -> list[bytes]:
    async with connection.open(q_name, MQOO.BROWSE) as queue:
        return [each.data async for each in queue.messages(options=32)]


async def told(browser: httpx.AsyncClient, path: str, data: dict[str, object]) -> str:
    """Send a form; the notice of the page that it leads to."""
    return (await sent(browser, path, data))[1]


async def test_n3_5_with_nothing_the_page_says_so(browser: httpx.AsyncClient) -> None:
    page = await browser.get("/console/dead-letters")
    assert page.status_code == 200
    assert "No dead letter. Nothing has failed for good." in words(page)
    assert "All 2 queues that take dead letters are empty." in words(page)


async def test_n3_5_letters_of_all_queues_are_gathered_by_what_they_died_of(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    for number in range(3):
        await dead(connection, b"x%d" % number)
    await dead(connection, b"x", q_name="DEAD2")
    await failed(connection, b"y", exception="ValueError", error="no such thing")
    page = words(await browser.get("/console/dead-letters"))
    assert "MQRC_Q_FULL – 4" in page
    assert "failed shop:ship 1" in page
    assert "ValueError: no such thing" in page
    assert "DEAD DEAD2" in page
    found = words(await browser.get("/console/dead-letters/letters?why=MQRC_Q_FULL"))
    assert "All 4 of them" in found
    assert "as many messages as its MAXDEPTH allows" in found


async def test_n1_2_what_has_failed_is_seen_with_its_reason_traceback_and_how_often_it_came_back(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    msg_id = await failed(
        connection, b"{}", exception="ValueError", error="boom", traceback="File x, line 1\nValueError: boom", replays=2
    )
    listed = await browser.get("/console/dead-letters/letters?why=failed&handler=shop%3Aship")
    path = f"/console/dead-letters/DEAD2/{msg_id.hex()}"
    assert f'href="{path}"' in listed.text
    page = await browser.get(path)
    assert "The handler raised an exception at its last attempt. It came back 2 times." in words(page)
    assert "ValueError: boom" in words(page)
    assert "File x, line 1" in words(page)
    assert "shop:ship" in words(page)


async def test_n1_3_one_some_or_all_are_put_back_to_where_they_came_from(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    ids = [await dead(connection, b"x%d" % number) for number in range(6)]
    path = "/dead-letters/letters?why=MQRC_Q_FULL"
    one = form("retry", to="ORDERS")
    assert "1 letter put back to ORDERS." in await told(browser, f"/dead-letters/DEAD/{ids[0].hex()}", one)
    some = form("retry", letter=[f"{each.hex()} DEAD" for each in ids[1:3]])
    assert "2 letters put back to ORDERS." in await told(browser, path, some)
    unsure = form("retry-all", until="1e18")
    assert "Nothing was done: say by the box" in await told(browser, path, unsure)
    assert "3 letters put back to ORDERS." in await told(browser, path, form("retry-all", until="1e18", sure="yes"))
    assert await all_of(connection, "ORDERS") == [b"x%d" % number for number in range(6)]
    assert await all_of(connection, "DEAD") == []
    again = form("retry-all", until="1e18", sure="yes")
    assert "No letter is meant any more: nothing was done." in await told(browser, path, again)


async def test_all_are_those_that_were_there_when_the_page_was_made(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    await failed(connection, b"old", last_failed=100)
    await failed(connection, b"new", last_failed=200)
    path = "/dead-letters/letters?why=failed&handler=shop%3Aship"
    assert "1 letter removed for good." in await told(browser, path, form("remove-all", until="150", sure="yes"))
    assert await all_of(connection, "DEAD2") == [b"new"]


async def test_n4_5_of_two_who_put_the_same_letter_back_one_does_and_the_other_is_told(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    msg_id = await dead(connection, b"x")
    other = await dead(connection, b"y")
    path, some = "/dead-letters/letters?why=MQRC_Q_FULL", form("retry", letter=[f"{msg_id.hex()} DEAD"])
    assert "1 letter put back" in await told(browser, path, some)
    assert "1 letter is not there any more: somebody was faster." in await told(browser, path, some)
    both = form("remove", letter=[f"{msg_id.hex()} DEAD", f"{other.hex()} DEAD"])
    said = await told(browser, path, both)
    assert "1 letter removed for good. 1 letter is not there any more" in said
    page = await browser.get(f"/console/dead-letters/DEAD/{msg_id.hex()}")
    assert page.status_code == 404
    assert "is not on DEAD any more" in words(page)
    assert await all_of(connection, "ORDERS") == [b"x"]


async def test_a_letter_is_edited_and_put_back_in_one_step(browser: httpx.AsyncClient, connection: Connection) -> None:
    msg_id = await failed(connection, "{\n}ü".encode(), replays=3)
    path = f"/dead-letters/DEAD2/{msg_id.hex()}"
    page = await browser.get(f"/console{path}")
    assert "<textarea" in page.text
    edited = form("edit", to="ORDERS", data='{\r\n"a": "ß"}')
    await connection.mqsc("ALTER QLOCAL(ORDERS) PUT(DISABLED)")
    assert "1 letter stays: MQRC_PUT_INHIBITED" in await told(browser, path, edited)
    assert await all_of(connection, "DEAD2") == ["{\n}ü".encode()]  # the original is kept until the copy is put
    await connection.mqsc("ALTER QLOCAL(ORDERS) PUT(ENABLED)")
    assert "1 letter put back to ORDERS." in await told(browser, path, edited)
    assert await all_of(connection, "DEAD2") == []
    async with connection.open("ORDERS", MQOO.INPUT_SHARED) as queue:
        message = await queue.get()
    assert message.data == '{\n"a": "ß"}'.encode()
    assert message.md.msg_id == msg_id
    assert message.properties == {"evermq.replays": 4}
    async with connection.open("SYSTEM.ADMIN.AUDIT.QUEUE", MQOO.INPUT_SHARED) as queue:
        record = json.loads((await queue.get()).data)
    assert (record["event"], record["by"], record["edited"]) == ("dead-letter-retried", "alice", True)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a\r\nb", b"a\0b", b"x" * 40_000], ids=["bytes", "cr", "nul", "long"])
async def test_n4_7_what_a_form_would_not_give_back_as_it_was_cannot_be_edited(
    browser: httpx.AsyncClient, connection: Connection, data: bytes
) -> None:
    msg_id = await failed(connection, data)
    page = await browser.get(f"/console/dead-letters/DEAD2/{msg_id.hex()}")
    assert page.status_code == 200
    assert "<textarea" not in page.text


async def test_n4_1_who_may_look_and_nothing_else_sees_buttons_that_cannot_be_pressed(
    browser: httpx.AsyncClient, connection: Connection, doorman: Doorman
) -> None:
    msg_id = await dead(connection, b"x")
    doorman.caller.roles = ("MQWebAdminRO",)
    for path in ("/dead-letters/letters?why=MQRC_Q_FULL", f"/dead-letters/DEAD/{msg_id.hex()}"):
        page = await browser.get(f"/console{path}")
        buttons = page.text.partition("<main")[2].count("<button")
        assert buttons == page.text.partition("<main")[2].count("disabled>") + page.text.count("disabled data-confirm")
        assert "needs role MQWebAdmin or MQWebUser" in words(page)
        assert (await browser.post(f"/console{path}", data=form("retry"))).status_code == 403
    assert await all_of(connection, "ORDERS") == []


async def test_a_queue_that_cannot_be_browsed_hides_no_other(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    await dead(connection, b"x", q_name="DEAD2")
    await connection.mqsc("ALTER QLOCAL(DEAD) GET(DISABLED)")
    page = words(await browser.get("/console/dead-letters"))
    assert "Not shown: DEAD : MQRC_GET_INHIBITED" in page
    assert "MQRC_Q_FULL" in page


async def test_a_long_list_is_read_by_the_hundred(browser: httpx.AsyncClient, connection: Connection) -> None:
    for number in range(205):
        await dead(connection, b"%d" % number)
    seen: list[str] = []
    path = "/console/dead-letters/letters?why=MQRC_Q_FULL"
    while path:
        page = (await browser.get(path)).text
        rows = page.split('name="letter" value="')[1:]
        seen += [each.partition('"')[0] for each in rows]
        path = (
            page.partition('<nav class="pager"')[2].rpartition("Next 100")[0].rpartition('href="')[2].partition('"')[0]
        )
        path = path.replace("&amp;", "&")
    assert len(seen) == len(set(seen)) == 205


@pytest.mark.parametrize("name", HOSTILE)
async def test_n2_3_hostile_reasons_errors_and_payloads_are_text(
    browser: httpx.AsyncClient, connection: Connection, name: str
) -> None:
    text = HOSTILE[name].encode("utf-8", "replace").decode()[:20_000]
    try:
        msg_id = await failed(connection, text.encode(), why=text[:200], handler=text[:200], error=text, traceback=text)
    except MQError as error:
        pytest.skip(f"no such property: {error}")
    front = await browser.get("/console/dead-letters")
    link = front.text.partition("/console/dead-letters/letters?")[2].partition('"')[0].replace("&amp;", "&")
    pages = [front, await browser.get(f"/console/dead-letters/letters?{link}")]
    pages.append(await browser.get(f"/console/dead-letters/DEAD2/{msg_id.hex()}"))
    for page in pages:
        assert page.status_code == 200
        assert msg_id.hex()[-12:] in page.text or page is front
        for harm in (
            "<script>",
            "<img src=x",
            "<svg onload",
            "<iframe",
            "</pre><b>",
            "<b>x</b>",
            '<meta http-equiv="refresh',
        ):
            assert harm not in page.text.partition("<main")[2]
