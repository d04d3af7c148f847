"""Messaging by REST: put, take, browse, list (rest 1, 3, 4, 5)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQAT, MQGMO, MQOO, MQRFH2, MessageDescriptor
from broker.testing import settle
from tests.http.rest.messaging.conftest import TEXT, error_of, refusal

if TYPE_CHECKING:
    from broker import Message
    from tests.http.rest.messaging.conftest import Rest

ID = "0123456789abcdef" * 3
ZEROS = "0" * 48


async def got(rest: Rest, q_name: str = "Q", options: int = 0) -> Message:
    """The next message of a queue, by the MQI."""
    async with rest.owner.open(q_name, MQOO.INPUT_SHARED) as queue:
        return await queue.get(options=options)


# Put


async def test_rest_1_the_same_put_goes_through_the_urls_of_each_version(rest: Rest) -> None:
    assert [(await rest.put("Q", version=version)).status for version in (1, 2, 3)] == [201] * 3
    assert await rest.depth("Q") == 3


async def test_rest_1_a_slash_in_the_name_of_a_queue_is_encoded(rest: Rest) -> None:
    assert (await rest.put("DEV/Q1")).status == 201
    plain = "/ibmmq/rest/v2/messaging/qmgr/QM1/queue/DEV/Q1/message"
    assert (await rest.ask("POST", plain, TEXT, body=b"x")).status == 404
    assert await rest.depth("DEV/Q1") == 1


async def test_rest_1_names_are_case_sensitive(rest: Rest) -> None:
    assert refusal(await rest.put("q")) == (404, 2085)


async def test_rest_3_a_text_becomes_an_mqstr_in_utf_8(rest: Rest) -> None:
    await rest.run("ALTER QLOCAL(Q) DEFPRTY(3) DEFPSIST(YES)")
    answer = await rest.put("Q", b"Hello")
    assert (answer.status, answer.text) == (201, "")
    assert answer.headers["content-language"] == "en-US"
    assert answer.headers["content-length"] == "0"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    message = await got(rest)
    md = message.md
    assert (md.format, md.coded_char_set_id, message.data) == ("MQSTR", 1208, b"Hello")
    assert (md.persistence, md.priority, md.expiry, md.user_identifier) == (0, 3, -1, "app")
    assert (md.put_appl_name.rstrip(), md.put_appl_type) == ("evermq http", MQAT.UNIX)
    assert answer.headers["ibm-mq-md-messageid"] == md.msg_id.hex()
    assert md.msg_id[:16] == b"AMQ QM1         "


@pytest.mark.parametrize("kind", ["text/html", "text/xml;charset=utf-8", "application/json", "application/xml"])
async def test_rest_3_each_type_of_text_is_taken(rest: Rest, kind: str) -> None:
    answer = await rest.ask("POST", rest.url("Q", "message"), f"Content-Type: {kind}", body=b"{}")
    assert answer.status == 201


@pytest.mark.parametrize("headers", [("Content-Type: application/octet-stream",), (), (TEXT, TEXT)])
async def test_rest_3_another_type_is_415_and_nothing_is_stored(rest: Rest, headers: tuple[str, ...]) -> None:
    answer = await rest.ask("POST", rest.url("Q", "message"), *headers, body=b"x")
    assert refusal(answer) == (415, 0)
    assert await rest.depth("Q") == 0


async def test_rest_3_a_correlation_id_is_bytes_in_version_2(rest: Rest) -> None:
    assert (await rest.put("Q", b"x", f"ibm-mq-md-correlationId: {ID}")).status == 201
    assert (await got(rest)).md.correl_id == bytes.fromhex(ID)
    for wrong in (ID[1:], f"ID:{ID}"):
        answer = await rest.put("Q", b"x", f"ibm-mq-md-correlationId: {wrong}")
        assert refusal(answer) == (400, 0)
        assert "ibm-mq-md-correlationId" in answer.text
    assert await rest.depth("Q") == 0


async def test_rest_3_a_correlation_id_is_bytes_or_a_string_in_version_3(rest: Rest) -> None:
    assert (await rest.put("Q", b"x", f"ibm-mq-md-correlationId: ID:{ID}", version=3)).status == 201
    message = await got(rest)
    assert (message.md.correl_id, message.md.format) == (bytes.fromhex(ID), "MQSTR")
    put = await rest.put("Q", b"y", "ibm-mq-md-correlationId: order-7", version=3)
    assert put.headers["ibm-mq-md-messageid"].startswith("ID:414d5120")
    assert (await rest.get("Q", version=3)).headers["ibm-mq-md-correlationid"] == "order-7"
    assert (await rest.get("Q")).headers["ibm-mq-md-correlationid"] == b"order-7".ljust(24, b"\0").hex()
    message = await got(rest, options=MQGMO.PROPERTIES_FORCE_MQRFH2)
    header, length = MQRFH2.from_bytes(message.data)
    assert [text.partition(">")[0] for text in header.folders] == ["<mcd", "<jms"]
    assert (header.format, message.data[length:]) == ("MQSTR", b"y")


async def test_rest_3_expiry_is_in_milliseconds(rest: Rest) -> None:
    assert (await rest.put("Q", b"x", "ibm-mq-md-expiry: 60000")).status == 201
    assert (await got(rest)).md.expiry == 600
    assert (await rest.put("Q", b"x", "ibm-mq-md-expiry: unlimited")).status == 201
    assert (await got(rest)).md.expiry == -1
    assert refusal(await rest.put("Q", b"x", "ibm-mq-md-expiry: -1")) == (400, 0)


async def test_rest_3_a_queue_that_is_inhibited_is_405(rest: Rest) -> None:
    await rest.run("ALTER QLOCAL(Q) PUT(DISABLED)")
    assert refusal(await rest.put("Q")) == (405, 2051)


async def test_rest_3_a_queue_that_is_full_is_500(rest: Rest) -> None:
    await rest.run("ALTER QLOCAL(Q) MAXDEPTH(1)")
    assert (await rest.put("Q")).status == 201
    assert refusal(await rest.put("Q")) == (500, 2053)


async def test_rest_3_a_priority_counts_in_version_3(rest: Rest) -> None:
    for version, priority in ((3, 7), (2, 0)):
        assert (await rest.put("Q", b"x", "ibm-mq-md-priority: 7", version=version)).status == 201
        assert (await got(rest)).md.priority == priority


async def test_rest_3_a_reply_to_queue_has_its_queue_manager(rest: Rest) -> None:
    assert (await rest.put("Q", b"x", "ibm-mq-md-replyTo: R@QM2")).status == 201
    assert (await rest.get("Q")).headers["ibm-mq-md-replyto"] == "R@QM2"
    md = (await got(rest)).md
    assert (md.reply_to_q, md.reply_to_q_mgr, md.msg_type) == ("R", "QM2", 1)


async def test_rest_3_the_queue_may_be_an_alias_or_remote(rest: Rest) -> None:
    assert (await rest.put("A")).status == 201
    assert (await rest.put("R")).status == 201
    assert (await rest.depth("Q"), await rest.depth("X")) == (1, 1)


async def test_rest_3_1_user_properties_are_jms_properties_and_come_back(rest: Rest) -> None:
    usr = 'ibm-mq-usr: n;5;i1, colour;"light \\"red\\"";string'
    assert (await rest.put("Q", b"x", usr, "ibm-mq-usr: sure;true;boolean", version=3)).status == 201
    answer = await rest.get("Q", version=3)
    assert answer.headers["ibm-mq-usr"] == 'n;5;i1, colour;"light \\"red\\"";string, sure;true;boolean'
    assert "ibm-mq-usr" not in (await rest.get("Q")).headers
    message = await got(rest)
    assert {name: message.properties[name] for name in ("n", "colour", "sure")} == {
        "n": 5,
        "colour": 'light "red"',
        "sure": True,
    }
    assert message.properties["mcd.Msd"] == "jms_text"


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ("ibm-mq-usr: a;1", "ibm-mq-usr"),
        ("ibm-mq-md-priority: 10", "ibm-mq-md-priority"),
        ("ibm-mq-md-persistence: maybe", "ibm-mq-md-persistence"),
        ("ibm-mq-md-expiry: 99999999901", "ibm-mq-md-expiry"),
    ],
)
async def test_rest_3_a_header_with_no_value_that_it_may_have_is_400(rest: Rest, header: str, named: str) -> None:
    answer = await rest.put("Q", b"x", header, version=3)
    assert refusal(answer) == (400, 0)
    assert named in error_of(answer)["message"]
    assert await rest.depth("Q") == 0


async def test_rest_3_a_body_that_is_no_utf_8_is_400(rest: Rest) -> None:
    assert refusal(await rest.put("Q", b"ab\xff")) == (400, 0)
    assert (await rest.put("Q", b"")).status == 201
    assert (await got(rest)).data == b""


async def test_rest_2_messaging_runs_under_the_rights_of_its_user(rest: Rest) -> None:
    await rest.put("Q")
    rest.user = "other"
    assert refusal(await rest.put("Q")) == (403, 2035)
    assert refusal(await rest.delete("Q")) == (403, 2035)
    assert refusal(await rest.get("Q")) == (403, 2035)
    assert await rest.depth("Q") == 1


async def test_rest_6_an_unknown_queue_manager_is_404(rest: Rest) -> None:
    for method, resource in (("POST", "message"), ("GET", "message"), ("DELETE", "message"), ("GET", "messagelist")):
        answer = await rest.ask(method, rest.url("Q", resource, q_mgr_name="QM9"), TEXT)
        error = error_of(answer)
        assert (answer.status, error["msgId"], error["completionCode"], error["reasonCode"], error["type"]) == (
            404, "MQWB0009E", 2, 2058, "rest",
        )  # fmt: skip


async def test_a_model_queue_makes_no_queue_by_rest(rest: Rest) -> None:
    rest.user = "root"
    for method in ("POST", "GET", "DELETE"):
        url = rest.url("M", "message")
        assert refusal(await rest.ask(method, url, TEXT)) == (500, 2057)


# Take and browse


async def test_rest_4_an_empty_queue_gives_204_at_once(rest: Rest) -> None:
    answer = await rest.delete("Q")
    assert (answer.status, answer.text) == (204, "")
    assert (await rest.get("Q")).status == 204


async def test_rest_4_a_wait_ends_with_its_time_or_with_a_message(rest: Rest) -> None:
    waits = asyncio.ensure_future(rest.delete("Q", "?wait=500"))
    await rest.waiting(1)
    await rest.clock.advance(0.4)
    await settle()
    assert not waits.done()
    await rest.clock.advance(0.1)
    assert (await waits).status == 204
    waits = asyncio.ensure_future(rest.delete("Q", "?wait=60000"))
    await rest.waiting(1)
    await rest.put("Q", b"now")
    answer = await waits
    assert (answer.status, answer.text) == (200, "now")
    assert await rest.depth("Q") == 0


async def test_rest_4_a_browse_leaves_what_a_get_takes(rest: Rest) -> None:
    ids = [(await rest.put("Q", text)).headers["ibm-mq-md-messageid"] for text in (b"A", b"B")]
    for _ in range(2):
        answer = await rest.get("Q")
        assert (answer.status, answer.text, answer.headers["ibm-mq-md-messageid"]) == (200, "A", ids[0])
    assert await rest.depth("Q") == 2
    answer = await rest.delete("Q")
    assert (answer.status, answer.text, answer.headers["ibm-mq-md-messageid"]) == (200, "A", ids[0])
    assert await rest.depth("Q") == 1


async def test_rest_4_identifiers_choose_a_message(rest: Rest) -> None:
    ids = [(await rest.put("Q", b"%d" % number)).headers["ibm-mq-md-messageid"] for number in range(5)]
    assert (await rest.get("Q", f"?messageId={ids[2].upper()}")).text == "2"
    assert (await rest.delete("Q", f"?messageId=ID:{ids[2]}", version=3)).text == "2"
    assert (await rest.delete("Q", f"?messageId={ids[2]}")).status == 204
    assert refusal(await rest.delete("Q", "?messageId=zz")) == (400, 0)
    assert (await rest.get("Q", f"?messageId={ZEROS}&correlationId={ZEROS}")).text == "0"
    await rest.put("Q", b"order", "ibm-mq-md-correlationId: order-7", version=3)
    assert (await rest.get("Q", "?correlationId=order-7", version=3)).text == "order"
    both = f"?messageId=ID:{ids[1]}&correlationId=order-7"
    assert (await rest.delete("Q", both, version=3)).status == 204
    assert (await rest.delete("Q", "?correlationId=order-7", version=3)).text == "order"


async def test_rest_4_correlation_strings_that_differ_behind_24_bytes_are_told_apart(rest: Rest) -> None:
    for ending in ("one", "two", "o'three"):
        header = f"ibm-mq-md-correlationId: {'x' * 24}-{ending}"
        assert (await rest.put("Q", ending.encode(), header, version=3)).status == 201
    for ending in ("two", "o'three", "one"):
        answer = await rest.delete("Q", f"?correlationId={'x' * 24}-{ending}", version=3)
        assert (answer.text, answer.headers["ibm-mq-md-correlationid"]) == (ending, f"{'x' * 24}-{ending}")


@pytest.mark.parametrize("format", ["MQDEAD", "MQADMIN", "", "MYFORMAT"])
async def test_rest_4_what_is_no_text_is_501_and_stays(rest: Rest, format: str) -> None:
    put = await rest.owner.put1("Q", b"\0\1\2", MessageDescriptor(format=format))
    text = (await rest.put("Q", b"text")).headers["ibm-mq-md-messageid"]
    for _ in range(3):
        for ask in (rest.get, rest.delete):
            answer = await ask("Q")
            assert refusal(answer) == (501, 0)
    assert await rest.depth("Q") == 2
    async with rest.owner.open("Q", MQOO.BROWSE) as queue:
        assert (await queue.get(options=MQGMO.BROWSE_FIRST)).backout_count == 0
    assert (await rest.delete("Q", f"?messageId={text}")).text == "text"
    assert (await got(rest)).md.msg_id == put.md.msg_id


async def test_rest_4_what_is_no_text_and_comes_while_one_waits_is_501_and_stays(rest: Rest) -> None:
    waits = asyncio.ensure_future(rest.delete("Q", "?wait=60000"))
    await rest.waiting(1)
    await rest.owner.put1("Q", b"\0\1\2", MessageDescriptor(format="MYFORMAT"))
    assert refusal(await waits) == (501, 0)
    assert (await got(rest)).data == b"\0\1\2"


async def test_rest_4_a_text_is_converted_to_utf_8_or_stays(rest: Rest) -> None:
    for ccsid, data, text in (
        (819, "größe".encode("latin-1"), "größe"),
        (37, "HELLO".encode("cp037"), "HELLO"),
        (1200, "größe".encode("utf-16-le"), "größe"),
        (1208, "größe".encode(), "größe"),
    ):
        await rest.owner.put1("Q", data, MessageDescriptor(format="MQSTR", coded_char_set_id=ccsid))
        assert (await rest.get("Q")).text == text
        assert (await rest.delete("Q")).text == text
    for ccsid, data in ((1208, b"\xff"), (9999, b"x")):
        await rest.owner.put1("Q", data, MessageDescriptor(format="MQSTR", coded_char_set_id=ccsid))
        assert refusal(await rest.delete("Q")) == (501, 0)
        assert (await got(rest)).data == data


async def test_rest_4_a_jms_message_of_another_kind_is_501(rest: Rest) -> None:
    md = MessageDescriptor(format="MQSTR")
    await rest.owner.put1("Q", b"<map/>", md, properties={"mcd.Msd": "jms_map"})
    assert refusal(await rest.get("Q")) == (501, 0)
    assert refusal(await rest.delete("Q")) == (501, 0)
    assert await rest.depth("Q") == 1


async def test_rest_4_headers_of_version_2_and_3(rest: Rest) -> None:
    await rest.put("Q", b"x", "ibm-mq-md-persistence: persistent", "ibm-mq-md-priority: 4", version=3)
    second, third = await rest.get("Q", version=2), await rest.get("Q", version=3)
    id = second.headers["ibm-mq-md-messageid"]
    assert len(id) == 48
    assert third.headers["ibm-mq-md-messageid"] == f"ID:{id}"
    assert (second.headers["ibm-mq-md-persistence"], second.headers["ibm-mq-md-expiry"]) == ("persistent", "unlimited")
    assert third.headers["ibm-mq-md-priority"] == "4"
    own = {name for name in second.headers if name.startswith("ibm-mq")}
    assert own == {"ibm-mq-md-messageid", "ibm-mq-md-persistence", "ibm-mq-md-expiry"}
    assert second.headers["content-type"] == "text/plain; charset=utf-8"


async def test_rest_4_a_queue_that_is_inhibited_is_405(rest: Rest) -> None:
    await rest.run("ALTER QLOCAL(Q) GET(DISABLED)")
    assert refusal(await rest.delete("Q")) == (405, 2016)
    assert refusal(await rest.get("Q")) == (405, 2016)


async def test_rest_4_expiry_tells_what_is_left_in_milliseconds(rest: Rest) -> None:
    await rest.put("Q", b"x", "ibm-mq-md-expiry: 10000")
    await rest.clock.advance(4)
    assert 5000 <= int((await rest.get("Q")).headers["ibm-mq-md-expiry"]) <= 6100


@pytest.mark.parametrize(
    ("method", "query"),
    [
        ("DELETE", "?wait=-1"),
        ("DELETE", "?wait=2147483648"),
        ("DELETE", "?wait=1.5"),
        ("DELETE", "?wait=1&wait=1"),
        ("DELETE", "?Wait=1"),
        ("DELETE", "?limit=1"),
        ("GET", "?wait=1"),
        ("GET", "?correlationId=zz"),
        ("POST", "?wait=1"),
    ],
)
async def test_rest_4_parameters_that_are_none_are_400(rest: Rest, method: str, query: str) -> None:
    assert refusal(await rest.ask(method, rest.url("Q", f"message{query}"), TEXT)) == (400, 0)


async def test_rest_11_a_get_from_a_remote_queue_is_400_and_takes_nothing(rest: Rest) -> None:
    await rest.put("R")
    assert refusal(await rest.delete("R")) == (400, 2045)
    assert await rest.depth("X") == 1


async def test_a_method_that_a_resource_has_not_is_405_and_names_those_that_it_has(rest: Rest) -> None:
    answer = await rest.ask("PUT", rest.url("Q", "message"), TEXT)
    assert refusal(answer) == (405, 0)
    assert answer.headers["allow"] == "POST, GET, DELETE"
    assert refusal(await rest.ask("GET", rest.url("Q", "messages"))) == (404, 0)


# List


async def test_rest_5_a_list_has_the_messages_in_the_order_of_gets(rest: Rest) -> None:
    await rest.put("Q", b"low", "ibm-mq-md-priority: 1", version=3)
    await rest.put("Q", b"high", "ibm-mq-md-priority: 8", f"ibm-mq-md-correlationId: ID:{ID}", version=3)
    await rest.owner.put1("Q", b"\0", MessageDescriptor(format="MYFORMAT", priority=0))
    listed = await rest.listed("Q", "?limit=2")
    assert [each["correlationId"] for each in listed] == [ID, ZEROS]
    assert [each["format"] for each in listed] == ["MQSTR", "MQSTR"]
    assert [each["format"] for each in await rest.listed("Q")] == ["MQSTR", "MQSTR", "MYFORMAT"]
    assert (await rest.listed("Q", version=3))[0]["correlationId"] == f"ID:{ID}"
    assert len(await rest.listed("Q", f"?correlationId={ID}")) == 1
    assert [each["messageId"] for each in await rest.listed("Q", f"?messageId={listed[1]['messageId']}")] == [
        listed[1]["messageId"]
    ]
    assert (await rest.delete("Q")).text == "high"


async def test_rest_5_a_list_is_bounded(rest: Rest) -> None:
    for number in range(12):
        await rest.owner.put1("Q", b"%d" % number)
    assert len(await rest.listed("Q")) == 10
    assert len(await rest.listed("Q", "?limit=11")) == 11
    for limit in ("0", "1001", "x"):
        assert refusal(await rest.ask("GET", rest.url("Q", f"messagelist?limit={limit}"))) == (400, 0)


async def test_rest_5_a_queue_that_is_inhibited_or_empty_lists_nothing(rest: Rest) -> None:
    assert await rest.listed("Q") == []
    for _ in range(3):
        await rest.put("Q")
    await rest.run("ALTER QLOCAL(Q) GET(DISABLED)")
    assert await rest.listed("Q") == []
    assert refusal(await rest.ask("GET", rest.url("NONE", "messagelist"))) == (404, 2085)
