"""/login, the headers of all answers, the CSRF header and the paths (rest 1, 2, 6)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.http.door import CSRF, Door, basic, doors

if TYPE_CHECKING:
    from broker import QueueManager
    from tests.http.client import Answer

LOGIN = "/ibmmq/rest/v2/login"


def error_of(answer: Answer) -> tuple[int, str]:
    """The status and the identifier of an error, which has the seven fields (rest 6)."""
    (error,) = json.loads(answer.text)["error"]
    assert error.keys() == {
        "action", "completionCode", "explanation", "message", "msgId", "reasonCode", "type"
    }  # fmt: skip
    assert error["message"].startswith(f"{error['msgId']}: ")
    assert re.fullmatch(r"MQWB\d{4}[IWES]", error["msgId"])
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    return answer.status, error["msgId"]


@pytest.mark.parametrize("version", ["v1", "v3"])
async def test_rest_2_a_login_is_a_cookie_that_stands_for_the_user(door: Door, version: str) -> None:
    path = f"/ibmmq/rest/{version}/login"
    answer = await door.ask(path, method="POST", body={"username": "bob", "password": "secret"})
    assert (answer.status, answer.text) == (204, "")
    cookie = re.fullmatch(
        rf"(LtpaToken2_{door.port}=[\w-]{{43}}); Path=/; HttpOnly; SameSite=Strict", answer.headers["set-cookie"]
    )
    assert cookie is not None, answer.headers
    told = await door.ask(path, f"Cookie: a=b; {cookie[1]}")
    assert (told.status, json.loads(told.text)) == (200, {"user": [{"name": "bob", "role": ["MQWebUser"]}]})
    assert error_of(await door.ask(path, f"Cookie: {cookie[1]}", method="DELETE")) == (403, "MQWB0111E")
    ended = await door.ask(path, f"Cookie: {cookie[1]}", CSRF, method="DELETE")
    assert (ended.status, ended.headers["set-cookie"]) == (
        204, f"LtpaToken2_{door.port}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
    )  # fmt: skip
    assert error_of(await door.ask(path, f"Cookie: {cookie[1]}")) == (401, "MQWB0112E")


async def test_rest_2_roles_are_groups_of_user(door: Door) -> None:
    for user, roles in (
        ("root", ["MQWebAdmin", "MQWebUser"]),
        ("bob", ["MQWebUser"]),
        ("admin", ["MQWebAdmin"]),
        ("reader", ["MQWebAdminRO"]),
    ):
        answer = await door.ask(LOGIN, basic(user))
        assert json.loads(answer.text) == {"user": [{"name": user, "role": roles}]}


async def test_rest_2_who_is_nobody_is_answered_with_401(door: Door) -> None:
    for wrong in (basic("bob", "wrong"), basic("nobody"), "Authorization: Bearer x", "X: y"):
        answer = await door.ask(LOGIN, wrong)
        assert error_of(answer) == (401, "MQWB0104E")
        assert answer.headers["www-authenticate"].startswith("Basic realm=")


async def test_rest_2_a_cookie_that_never_was_is_401_with_its_identifier(door: Door) -> None:
    assert error_of(await door.ask(LOGIN, f"Cookie: LtpaToken2_{door.port}=x")) == (401, "MQWB0112E")
    assert error_of(await door.ask(LOGIN, "Cookie: LtpaToken2_1=x")) == (401, "MQWB0104E"), "that of another port"


async def test_rest_2_a_login_that_is_none_is_refused(door: Door) -> None:
    for body, status in (
        (b"{", 400),
        (b"[]", 400),
        (b"[" * 50_000, 400),
        (b'{"username": "bob"}', 400),
        (b'{"username": "bob", "password": 7}', 400),
        (b'{"username": "bob", "password": "secret", "more": 1}', 400),
        (b"\xff", 400),
        (b'{"username": "bob", "password": "\\ud800"}', 401),
        (b'{"username": "' + b"b" * 2000 + b'", "password": "x"}', 401),
    ):
        answer = await door.ask(LOGIN, "Content-Type: application/json", method="POST", body=body)
        assert error_of(answer)[0] == status, (body[:80], answer.text)


async def test_rest_2_a_form_of_a_page_logs_nobody_in(door: Door) -> None:
    body = b'{"username": "bob", "password": "secret"}'
    for media_type in ("text/plain", "application/x-www-form-urlencoded"):
        assert (await door.ask(LOGIN, f"Content-Type: {media_type}", method="POST", body=body)).status == 415


async def test_rest_1_an_unknown_version_or_resource_is_404_with_the_error_as_json(door: Door) -> None:
    for path in (
        "v4/login",
        "v/login",
        "",
        "/",
        "V2/login",
        "v2%2Flogin",
        "v2/login/",
        "v2/",
        "v2/nothing",
        "v02/login",
    ):
        assert error_of(await door.ask(f"/ibmmq/rest/{path}", basic("bob"))) == (404, "MQWB0103E"), path


async def test_rest_1_a_name_in_a_path_that_is_no_utf_8_is_400(door: Door) -> None:
    assert error_of(await door.ask("/ibmmq/rest/v2/%ff/x", basic("bob")))[0] == 400


async def test_rest_1_a_method_that_a_resource_lacks_is_405_with_those_that_it_has(door: Door) -> None:
    answer = await door.ask(LOGIN, basic("bob"), CSRF, method="PATCH")
    assert (error_of(answer), answer.headers["allow"]) == ((405, "MQWB0103E"), "GET, POST, DELETE")


async def test_rest_1_all_answers_have_the_common_headers(door: Door) -> None:
    for answer in (await door.ask(LOGIN, basic("bob")), await door.ask("/ibmmq/rest/v9/x")):
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS


HEADERS = {
    "content-language": "en-US",
    "cache-control": "no-cache, no-store, must-revalidate",
    "x-content-type-options": "nosniff",
    "x-xss-protection": "1;mode=block",
    "x-frame-options": "DENY",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


async def test_until_there_is_a_user_nobody_comes_in_though_this_machine_is_trusted(manager: QueueManager) -> None:
    from tests.http.conftest import FREE, serving

    async with manager.connect() as owner:
        await owner.mqsc("ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) FAILDLAY(0)")
    async with serving(manager, listen=FREE) as server:
        door = Door(manager, server)
        assert await door.entrance.has_users() is False
        for headers in ((), (basic("root"),), (basic("mqm", ""),)):
            assert error_of(await door.ask(LOGIN, *headers)) == (401, "MQWB0104E")


async def test_a_machine_that_is_trusted_for_programs_is_not_for_pages(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with doors(manager, monkeypatch, by_url=False) as door:
        assert await door.entrance.has_users()
        monkeypatch.setattr(type(manager.authentication), "trusts", True)
        assert error_of(await door.ask(LOGIN, basic("root", "wrong"))) == (401, "MQWB0104E")
        assert (await door.ask(LOGIN, basic("root"))).status == 200
    async with doors(manager, monkeypatch, by_url=True) as door:
        assert error_of(await door.ask(LOGIN, basic("root"))) == (401, "MQWB0104E"), "nothing was proved there"
