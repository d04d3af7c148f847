"""The pages of queues: with nothing, with one of everything, with very many; and what their buttons do."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from broker.core.explain.held import MESSAGES_NAMED
from broker.http.console.browsing.body import body, usual_form
from broker.http.console.browsing.cursors import CURSORS_A_CALLER
from broker.http.console.browsing.groups import bar, group_of
from broker.http.console.browsing.held import HELD_SHOWN
from broker.http.console.browsing.listed import ListedMessage, first_line
from broker.interface.claims.claims import UnitName
from broker.interface.claims.staging import Row, frames
from broker.mqi import MQGMO, MQMF, MQOO, MQPMO, MessageDescriptor
from tests.http.console.conftest import words
from tests.http.console.hostile import HOSTILE

if TYPE_CHECKING:
    import httpx

    from broker import Connection, QueueManager
    from broker.http.console.console import Console
    from broker.mqi.layouts.folders import Value
    from broker.testing import VirtualClock
    from tests.http.console.conftest import Doorman

IDS = re.compile(r"/messages/([0-9a-f]{48})")


async def post(browser: httpx.AsyncClient, path: str, action: str, **fields: str) -> str:
    """Press a button; the notice that tells what came of it."""
    form = {"form_token": "the word", "action": action, **fields}
    done = await browser.post(f"/console{path}", data=form)
    assert done.status_code == 303, done.text
    page = await browser.get(done.headers["location"])
    return re.sub("<[^>]*>", "", page.text.partition('<p class="notice')[2].partition(">")[2].partition("</p>")[0])


async def ids(browser: httpx.AsyncClient, q_name: str = "Q", **query: str) -> list[str]:
    """The MsgIds that the list of a queue shows, in order."""
    page = await browser.get(f"/console/queues/{q_name}/messages", params=query)
    return list(dict.fromkeys(IDS.findall(page.text)))


# With nothing


async def test_n3_1_the_first_page_with_nothing_says_that_all_is_well(browser: httpx.AsyncClient) -> None:
    text = words(await browser.get("/console/"))
    assert "All is well" in text
    assert "No queue holds a message." in text
    assert "No handler has served a queue since the start." in text
    assert "2 empty" in text


@pytest.mark.parametrize(
    ("path", "said"),
    [("/queues/Q", "Nobody has it open."), ("/queues/Q/messages", "A browse sees no message."),
     ("/queues?q=NONE", "No queue that you may display is like this"),
     ("/queues/Q/messages?msg_id=00ff", "is like this")],
)  # fmt: skip
async def test_n3_2_a_page_with_nothing_says_so(browser: httpx.AsyncClient, path: str, said: str) -> None:
    assert said in words(await browser.get(f"/console{path}"))


@pytest.mark.parametrize(
    ("path", "status"),
    [("/queues/NOT.THERE", 404), ("/queues/NOT.THERE/messages", 404), (f"/queues/Q/messages/{'00' * 23}ff", 404),
     (f"/queues/Q/messages/{'00' * 23}ff/data", 404), ("/queues/Q/messages/zz", 400),
     (f"/queues/Q/messages/{'00' * 25}", 400), ("/queues/A%2FB%25", 404)],
)  # fmt: skip
async def test_what_is_not_there_is_told_as_that(browser: httpx.AsyncClient, path: str, status: int) -> None:
    page = await browser.get(f"/console{path}")
    assert page.status_code == status
    assert 'class="notice' in page.text


@pytest.mark.parametrize(
    ("query", "said"),
    [("msg_id=xyz", "is not hexadecimal digits"), (f"group_id={'00' * 25}", "24 bytes"), ("selector=((", "2459"),
     ("page=-1", "A browse sees"), ("page=x&cursor=nobody", "A browse sees")],
)  # fmt: skip
async def test_a_search_that_cannot_be_done_says_why(browser: httpx.AsyncClient, query: str, said: str) -> None:
    page = await browser.get(f"/console/queues/Q/messages?{query}")
    assert page.status_code == 200
    assert said in words(page)


# With one of everything


async def test_n1_1_the_first_page_has_the_queue_of_the_oldest_message_first(
    browser: httpx.AsyncClient, connection: Connection, clock: VirtualClock
) -> None:
    await connection.put1("R", "old")
    await clock.advance(400)
    for _ in range(5):
        await connection.put1("Q", "new")
    page = await browser.get("/console/")
    assert page.text.index(">R<") < page.text.index(">Q<")
    text = words(page)
    assert "a message has been on R for 6 m" in text
    assert "6 m ago" in text


async def test_a_queue_whose_name_has_a_border_of_paths_in_it_is_reached(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    await connection.mqsc("DEFINE QLOCAL('A/B%C.messages')")
    await connection.put1("A/B%C.messages", "x")
    page = await browser.get("/console/")
    [link] = set(re.findall(r'href="(/console/queues/A[^"/]*)"', page.text))
    assert link == "/console/queues/A%2FB%25C.messages"
    assert (await browser.get(link)).status_code == 200
    [found] = await ids(browser, "A%2FB%25C.messages")
    assert (await browser.get(f"{link}/messages/{found}")).status_code == 200


async def test_n1_5_a_message_is_shown_with_names_for_its_numbers(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    properties: dict[str, Value] = {"kind": "new", "n": 5, "raw": b"\x01", "on": True, "none": None}
    md = MessageDescriptor(report=0x0100_0000, reply_to_q="R", expiry=600, correl_id=b"c" * 24)
    await connection.put1("Q", '{"order": 1, "deep": {"list": [1, null, true]}}', md, properties=properties)
    [found] = await ids(browser)
    text = words(await browser.get(f"/console/queues/Q/messages/{found}"))
    for each in (
        "MQMT_DATAGRAM (8)", "EXCEPTION", "in 60.0 s", "kind new str", "n 5 int", "raw 01 bytes", "on True bool",
        "63" * 24, "order : 1", "deep object of 1", "put now by orders", "1 message is available to a get",
    ):  # fmt: skip
        assert each in text, text
    in_hex = words(await browser.get(f"/console/queues/Q/messages/{found}?as=hex"))
    assert "00000000:  7B22" in in_hex.replace(": 7B", ":  7B")


async def test_search_finds_by_identifiers_and_by_selector(browser: httpx.AsyncClient, connection: Connection) -> None:
    first = await connection.put1("Q", "1", MessageDescriptor(correl_id=b"a" * 24), properties={"n": 1})
    second = await connection.put1("Q", "2", MessageDescriptor(correl_id=b"b" * 24), properties={"n": 2})
    one, two = first.md.msg_id.hex(), second.md.msg_id.hex()
    assert await ids(browser) == [one, two]
    assert await ids(browser, msg_id=two) == [two]
    assert await ids(browser, correl_id="61" * 24) == [one]
    assert await ids(browser, selector="n > 1") == [two]
    assert await ids(browser, selector="n > 1", correl_id="61" * 24) == []


async def test_n1_7_groups_are_drawn_with_what_is_missing(browser: httpx.AsyncClient, connection: Connection) -> None:
    for number in (1, 2, 5):
        md = MessageDescriptor(group_id=b"G" * 24, msg_seq_number=number, msg_flags=MQMF.MSG_IN_GROUP)
        await connection.put1("Q", "x", md)
    text = words(await browser.get("/console/queues/Q/messages"))
    assert "incomplete messages 3 to 4 are missing; the last is missing" in text
    assert "incomplete group" in words(await browser.get("/console/queues/Q"))


async def test_n1_7_who_holds_a_message_is_told_with_the_queue(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    put = await connection.put1("Q", "x", options=MQPMO.SYNCPOINT)
    text = words(await browser.get("/console/queues/Q/messages"))
    assert "Held by somebody, so that no browse sees them: 1. Which, by whom, since when" in text
    assert f"…{put.md.msg_id.hex()[-12:]} uncommitted put now orders" in text
    assert "uncommitted put" in words(await browser.get("/console/queues/Q"))
    page = await browser.get(f"/console/queues/Q/messages/{put.md.msg_id.hex()}")
    assert page.status_code == 404
    assert "uncommitted put" in words(page)
    assert "orders" in words(page)


# Actions


async def test_n1_4_a_delayed_message_is_released(browser: httpx.AsyncClient, connection: Connection) -> None:
    put = await connection.put1("Q", "x", delay=3600)
    path = f"/queues/Q/messages/{put.md.msg_id.hex()}"
    page = await browser.get(f"/console{path}")
    assert "Release now" in page.text
    assert "in 1 h 00 m" in words(page)
    assert await post(browser, path, "release") == "It is available now."
    assert "Release now" not in (await browser.get(f"/console{path}")).text
    assert await post(browser, path, "release") == "It was delayed no more."
    assert await post(browser, "/queues/Q", "release") == "No message was delayed."


async def test_n4_6_a_message_is_moved_by_its_msg_id_and_not_by_its_place(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    first = await connection.put1("Q", "first")
    second = await connection.put1("Q", "second", properties={"n": 1})
    path = f"/queues/Q/messages/{second.md.msg_id.hex()}"
    async with connection.open("Q", MQOO.INPUT_SHARED) as queue:
        await queue.get()  # the first goes while the page is shown
    assert await post(browser, path, "move", to="R") == "Moved to R."
    async with connection.open("R", MQOO.INPUT_SHARED) as queue:
        message = await queue.get()
    assert (message.data, message.md.msg_id, message.properties) == (b"second", second.md.msg_id, {"n": 1})
    assert message.md.put_appl_name == "orders"  # with its context
    assert await ids(browser) == []
    assert "nothing was done" in await post(browser, path, "move", to="R")
    assert "nothing was done" in await post(browser, f"/queues/Q/messages/{first.md.msg_id.hex()}", "remove")


@pytest.mark.parametrize(
    ("to", "reason"), [("NOT.THERE", "2085"), ("FULL", "2053"), ("OFF", "2051"), ("", "Name the queue"), ("a b", "21")]
)
async def test_a_message_that_cannot_be_moved_stays(
    browser: httpx.AsyncClient, connection: Connection, to: str, reason: str
) -> None:
    await connection.mqsc("DEFINE QLOCAL(FULL) MAXDEPTH(0)\nDEFINE QLOCAL(OFF) PUT(DISABLED)")
    put = await connection.put1("Q", "x")
    path = f"/queues/Q/messages/{put.md.msg_id.hex()}"
    for action in ("move", "copy"):
        assert reason in await post(browser, path, action, to=to) or to == "a b"
    assert await ids(browser) == [put.md.msg_id.hex()]


async def test_a_copy_leaves_the_message_and_removing_does_not(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    put = await connection.put1("Q", "x", properties={"n": 1})
    path = f"/queues/Q/messages/{put.md.msg_id.hex()}"
    assert await post(browser, path, "copy", to="R") == "Copied to R."
    assert await ids(browser) == await ids(browser, "R") == [put.md.msg_id.hex()]
    assert await post(browser, path, "remove") == "Removed."
    assert await ids(browser) == []
    async with connection.open("R", MQOO.INPUT_SHARED) as queue:
        assert (await queue.get()).properties == {"n": 1}


async def test_n1_6_gets_are_paused_and_resumed(browser: httpx.AsyncClient, connection: Connection) -> None:
    assert "GET(DISABLED): AMQ8008I" in await post(browser, "/queues/Q", "get", value="DISABLED")
    assert "2016" in words(await browser.get("/console/queues/Q/messages"))
    assert "GET(ENABLED): AMQ8008I" in await post(browser, "/queues/Q", "get", value="ENABLED")
    assert await post(browser, "/queues/Q", "get", value="X') CLEAR QLOCAL('Q") == "GET is ENABLED or DISABLED"


async def test_the_data_of_a_message_is_downloaded_as_it_is(browser: httpx.AsyncClient, connection: Connection) -> None:
    put = await connection.put1("Q", b"\xff" * 100_000)
    path = f"/console/queues/Q/messages/{put.md.msg_id.hex()}"
    text = words(await browser.get(path))
    assert "The first 64.0 KiB of 97.7 KiB." in text
    answer = await browser.get(f"{path}/data")
    assert answer.content == b"\xff" * 100_000
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")


# Cursors


async def test_n3_3_very_many_messages_are_shown_a_hundred_at_a_time_by_a_cursor_that_is_kept(
    browser: httpx.AsyncClient, connection: Connection, console: Console, clock: VirtualClock
) -> None:
    async with connection.open("Q", MQOO.OUTPUT) as queue:
        await queue.put_many([str(number) for number in range(250)])
    first = await browser.get("/console/queues/Q/messages")
    assert "1 to 100" in words(first)
    [following] = re.findall(r'href="([^"]*page=2)"', first.text)
    following = following.replace("&amp;", "&")
    async with connection.open("Q", MQOO.INPUT_SHARED) as queue:
        await queue.get()  # what is shown already may go: the place is kept
    second = await browser.get(following)
    assert "101 to 200" in words(second)
    [third] = re.findall(r'href="([^"]*page=3)"', second.text)
    assert "201 to 250" in words(await browser.get(third.replace("&amp;", "&")))
    assert len(await _browsers(connection)) == 0  # at the end of the queue no handle is left
    assert words(await browser.get(following)).partition("as it was")[0] == words(second).partition("as it was")[0]
    await clock.advance(400)
    assert len(console.site.cursors) == 0
    again = words(await browser.get(following))
    assert "this is the beginning" in again
    assert "1 to 100" in again


async def _browsers(connection: Connection) -> list[object]:
    [reply] = await connection.mqsc("DISPLAY QSTATUS(Q) TYPE(HANDLE) ALL")
    return [each for each in reply.attributes if each.get("APPLTAG") == "evermq console"]


async def test_cursors_are_few_and_belong_to_their_session(
    browser: httpx.AsyncClient, connection: Connection, console: Console, doorman: Doorman
) -> None:
    async with connection.open("Q", MQOO.OUTPUT) as queue:
        await queue.put_many([str(number) for number in range(150)])
    pages = [await browser.get("/console/queues/Q/messages") for _ in range(CURSORS_A_CALLER + 3)]
    assert len(console.site.cursors) == len(await _browsers(connection)) == CURSORS_A_CALLER
    [link] = re.findall(r'href="([^"]*page=2)"', pages[-1].text)
    doorman.caller.form_token = "another session"
    assert "this is the beginning" in words(await browser.get(link.replace("&amp;", "&")))


# Hostile and poison


async def test_n2_3_hostile_texts_are_texts_on_each_page(browser: httpx.AsyncClient, connection: Connection) -> None:
    for text in HOSTILE.values():
        encoded = text.encode("utf-8", "surrogatepass")[:2000]
        properties = {"p": text.encode("utf-8", "replace").decode()[:200].replace("\x00", "")}
        await connection.put1("Q", encoded, MessageDescriptor(appl_identity_data=""), properties=properties)
    found = await ids(browser)
    assert len(found) == len(HOSTILE)
    for each in (f"/messages/{msg_id}" for msg_id in found):
        page = await browser.get(f"/console/queues/Q{each}")
        assert page.status_code == 200
        _check(page.text)
    _check((await browser.get("/console/queues/Q/messages")).text)
    for text in HOSTILE.values():
        asked = {"q": text[:2000].encode("utf-8", "replace").decode(), "show": text[:100].encode("utf-8", "replace")}
        _check((await browser.get("/console/queues", params=asked)).text)  # type: ignore[arg-type]


def _check(page: str) -> None:
    """No element and no event that the console does not make itself."""
    elements = set(re.findall(r"<([a-z0-9!]+)", page.partition("<body")[2]))
    assert elements <= {
        "a", "header", "span", "bdi", "nav", "form", "input", "div", "button", "main", "h1", "h2", "h3", "p", "section",
        "table", "thead", "tbody", "tr", "th", "td", "code", "time", "dialog", "dl", "dt", "dd", "kbd", "label", "ul",
        "li", "pre", "details", "summary", "select", "option", "svg", "line", "polyline",
    }, elements  # fmt: skip
    assert not re.search(r"<[^>]*\son[a-z]+=", re.sub(r'="[^"]*"', "", page))


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xfe\x00", b"[" * 10_000 + b"]" * 10_000, b'{"a":' * 5_000, b'{"a": 1e999}', b"\x00" * 70_000,
     b'{"a": "\\ud800"}', ("[" + "1," * 30_000 + "1]").encode(), "\u202e{}".encode()],
    ids=["none", "no UTF-8", "deep", "half", "infinity", "zeros", "surrogate", "wide", "override"],
)  # fmt: skip
@pytest.mark.parametrize("form", ["text", "json", "hex"])
def test_n4_7_a_poison_body_is_shown_bounded(data: bytes, form: str) -> None:
    made = str(__import__("htpy").div[body(data, 1208, form)])
    assert len(made) < 700_000
    assert "\u202e" not in made
    assert usual_form(data, 1208) in ("text", "json", "hex")


@pytest.mark.parametrize(
    ("data", "line"),
    [(b"a\n  b\tc", "a b c"), (b"", ""), (b"\x00\x01\xff", "00 01 ff"), ("ü".encode() * 300, "ü" * 120),
     (b"x" + "ü".encode() * 300, "x" + "ü" * 119), (b"\x01\x02\x03abc", "01 02 03 61 62 63")],
)  # fmt: skip
def test_the_first_line_of_data(data: bytes, line: str) -> None:
    assert first_line(data[:400]) == line


def member(number: int, offset: int = 0, length: int = 10, flags: int = MQMF.MSG_IN_GROUP) -> ListedMessage:
    zeros = bytes(24)
    return ListedMessage(1, zeros, zeros, b"G" * 24, number, offset, int(flags), 0, 0, 0, 0, 0, length, "", "")


LAST, SEGMENT, LAST_SEGMENT = MQMF.LAST_MSG_IN_GROUP, MQMF.SEGMENT, MQMF.LAST_SEGMENT


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([member(2, flags=LAST), member(1)], "complete"),
        ([member(1)], "the last is missing"),
        ([member(2, flags=LAST)], "message 1 is missing"),
        ([member(1), member(9, flags=LAST)], "messages 2 to 8 are missing"),
        ([member(1, 0, 10, SEGMENT), member(1, 10, 5, LAST_SEGMENT)], "complete"),
        ([member(1, 10, 5, LAST_SEGMENT)], "bytes 0 to 9 are missing"),
        ([member(1, 0, 10, SEGMENT)], "the last is missing"),
        ([member(1, 0, 9, SEGMENT | MQMF.MSG_IN_GROUP), member(2, flags=LAST)], "message 1: the rest"),
    ],
)
def test_n1_7_a_group_is_drawn_as_it_is(members: list[ListedMessage], said: str) -> None:
    drawn = group_of(b"G" * 24, members)
    assert drawn.complete == (said == "complete")
    assert f'aria-label="{said}"' in str(bar(drawn))


async def test_n3_3_what_a_browse_with_lock_holds_is_a_row_too(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    put = await connection.put1("Q", "x")
    async with connection.open("Q", MQOO.BROWSE) as queue:
        await queue.get(options=MQGMO.BROWSE_FIRST | MQGMO.LOCK)
        assert "locked" in words(await browser.get("/console/queues/Q"))
        text = words(await browser.get("/console/queues/Q/messages"))
        assert f"…{put.md.msg_id.hex()[-12:]} locked – orders" in text
    assert "Held by somebody" not in words(await browser.get("/console/queues/Q/messages"))


async def test_n3_3_what_others_hold_is_shown_with_its_holder_the_longest_first(
    browser: httpx.AsyncClient, connection: Connection, manager: QueueManager, clock: VirtualClock
) -> None:
    async with manager.connect("web") as web:
        claimed = await connection.put1("Q", "claimed")
        async with connection.consumer("ARCHIVE", "Q") as consumer:
            assert len(await consumer.claim(1)) == 1
            await clock.advance(60)
            got = await connection.put1("Q", "got")
            async with web.open("Q", MQOO.INPUT_SHARED) as queue:
                await queue.get(options=MQGMO.SYNCPOINT)
                await clock.advance(60)
                [frame] = frames([Row("Q", b"x", MessageDescriptor())])
                await connection.sinks.stage(UnitName("IMPORT", 7, 0, bytes(16)), frame)
                page = await browser.get("/console/queues/Q/messages")
                table = words(page).partition("Held by somebody")[2]
                assert [table.index(each) for each in ("ARCHIVE", "web", "IMPORT")] == sorted(
                    table.index(each) for each in ("ARCHIVE", "web", "IMPORT")
                )
                assert f"…{claimed.md.msg_id.hex()[-12:]} claimed 2 m ago consumer ARCHIVE, generation 1" in table
                assert f"…{got.md.msg_id.hex()[-12:]} uncommitted get 1 m ago web" in table
                assert "prepared now sink IMPORT, batch 7" in table
                assert f'href="/jobs/Q/{got.md.msg_id.hex()}"' in page.text
                found = await browser.get(f"/console/queues/Q/messages/{got.md.msg_id.hex()}")
                assert "got and not committed by web" in words(found)


async def test_n2_2_a_hundred_of_very_many_held_messages_are_rows(
    browser: httpx.AsyncClient, connection: Connection, manager: QueueManager
) -> None:
    async with connection.open("Q", MQOO.OUTPUT) as queue:
        await queue.put_many(["x"] * 4_000, options=MQPMO.SYNCPOINT)
        page = await browser.get("/console/queues/Q/messages")
        assert page.text.count('class="held"') == MESSAGES_NAMED
        assert f"and {4_000 - MESSAGES_NAMED:,} more" in words(page)
        async with AsyncExitStack() as stack:
            for number in range(110):
                other = await stack.enter_async_context(manager.connect(f"other {number}"))
                await other.put1("Q", "x", options=MQPMO.SYNCPOINT)
            page = await browser.get("/console/queues/Q/messages")
            assert page.text.count('class="held"') == HELD_SHOWN
            assert f"and {4_110 - HELD_SHOWN:,} more" in words(page)


async def test_n3_2_who_has_a_queue_open_is_shown_with_since_when(
    browser: httpx.AsyncClient, connection: Connection, clock: VirtualClock
) -> None:
    async with connection.open("Q", MQOO.OUTPUT):
        await clock.advance(120)
        async with connection.open("Q", MQOO.BROWSE):
            text = words(await browser.get("/console/queues/Q"))
            assert text.index("output 2 m ago") < text.index("browse now")
