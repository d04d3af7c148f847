"""Messaging by its paths, and who may call it (rest 1, 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.door import CSRF, Door, basic
from tests.http.rest.test_login import error_of
from tests.http.rest.test_run_command import MQSC

if TYPE_CHECKING:
    from tests.http.client import Answer

TEXT = "Content-Type: text/plain;charset=utf-8"


def message(queue: str = "Q", version: str = "v3") -> str:
    return f"/ibmmq/rest/{version}/messaging/qmgr/QM1/queue/{queue}/message"


async def put(door: Door, path: str, *headers: str) -> Answer:
    return await door.ask(path, TEXT, *headers, method="POST", body=b"Hello")


async def depth(door: Door, name: str = "Q") -> int:
    async with door.manager.connect() as owner:
        (reply,) = await owner.mqsc(f"DISPLAY QLOCAL({name}) CURDEPTH")
    return int(reply.attributes[0]["CURDEPTH"])


async def test_rest_1_the_same_put_by_each_version(door: Door) -> None:
    for version in ("v1", "v2", "v3"):
        assert (await put(door, message(version=version), basic("bob"), CSRF)).status == 201
    assert await depth(door) == 3


async def test_rest_1_a_queue_with_a_slash_is_one_name(door: Door) -> None:
    await door.command("DEFINE QLOCAL(DEV/Q1)\nDEFINE QLOCAL(A%2FB)")
    assert (await put(door, message("DEV%2FQ1"), basic("root"), CSRF)).status == 201
    assert error_of(await put(door, message("DEV/Q1"), basic("root"), CSRF)) == (404, "MQWB0103E")
    assert (await put(door, message("A%252FB"), basic("root"), CSRF)).status == 201
    assert [await depth(door, name) for name in ("DEV/Q1", "A%2FB")] == [1, 1]


async def test_rest_1_names_of_queues_have_a_case(door: Door) -> None:
    assert error_of(await put(door, message("q"), basic("root"), CSRF)) == (404, "MQWB0302E")


async def test_rest_6_an_unknown_queue_manager_of_messaging_too(door: Door) -> None:
    for version in ("v1", "v3"):
        path = message(version=version).replace("QM1", "QM2")
        assert error_of(await put(door, path, basic("bob"), CSRF)) == (404, "MQWB0009E")


async def test_rest_2_a_put_without_the_csrf_header_leaves_the_queue_as_it_is(door: Door) -> None:
    assert error_of(await put(door, message(), basic("bob"))) == (403, "MQWB0111E")
    assert await depth(door) == 0
    assert (await put(door, message(), basic("bob"), "ibm-mq-rest-csrf-token:")).status == 201
    assert await depth(door) == 1


async def test_rest_2_to_look_at_a_message_takes_no_csrf_header(door: Door) -> None:
    await put(door, message(), basic("bob"), CSRF)
    answer = await door.ask(message(), basic("bob"))
    assert (answer.status, answer.text) == (200, "Hello")


async def test_rest_2_a_message_is_taken_with_a_cookie_alone_until_the_logout(door: Door) -> None:
    for _ in range(2):
        await put(door, message(), basic("bob"), CSRF)
    cookie = await door.log_in("bob")
    answer = await door.ask(message(), cookie, CSRF, method="DELETE")
    assert (answer.status, answer.text) == (200, "Hello")
    assert (await door.ask("/ibmmq/rest/v3/login", cookie, CSRF, method="DELETE")).status == 204
    assert error_of(await door.ask(message(), cookie, CSRF, method="DELETE")) == (401, "MQWB0112E")
    assert await depth(door) == 1


@pytest.mark.parametrize("user", ["admin", "reader"])
async def test_rest_2_the_roles_of_administration_give_no_messaging(door: Door, user: str) -> None:
    assert error_of(await put(door, message(), basic(user), CSRF)) == (403, "MQWB0108E")
    assert await depth(door) == 0
    body = {"type": "runCommand", "parameters": {"command": "DISPLAY QLOCAL(Q)"}}
    assert (await door.ask(MQSC, basic(user), CSRF, method="POST", body=body)).status == 200


async def test_rest_8_topics_are_not_there_yet(door: Door) -> None:
    path = "/ibmmq/rest/v3/messaging/qmgr/QM1/topic/sport/message"
    assert error_of(await put(door, path, basic("bob"), CSRF)) == (404, "MQWB0103E")


async def test_the_mistakes_of_a_request_are_told_in_one_order(door: Door) -> None:
    """The caller is looked at before anything else; then the header, then the role, then the names."""
    path = message("NONE").replace("QM1", "QM2")
    assert (await put(door, path)).status == 401
    assert error_of(await put(door, path, basic("reader"))) == (403, "MQWB0111E")
    assert error_of(await put(door, path, basic("reader"), CSRF)) == (403, "MQWB0108E")
    assert error_of(await put(door, path, basic("bob"), CSRF)) == (404, "MQWB0009E")
