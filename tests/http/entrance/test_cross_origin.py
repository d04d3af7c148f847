"""Pages of other origins: those that are named may ask REST and /jobs, and see the answers; no other may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from broker.config.kinds import WebOrigin
from tests.http.door import CSRF, Door, basic, doors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker import QueueManager
    from tests.http.client import Answer

SHOP: Final = "https://shop.example.com"
ORIGIN: Final = f"Origin: {SHOP}"
EVIL: Final = "Origin: https://evil.example.com"
MESSAGE: Final = "/ibmmq/rest/v3/messaging/qmgr/QM1/queue/Q/message"
TEXT: Final = "Content-Type: text/plain"
ASKS: Final = "Access-Control-Request-Method: POST"


def leave(answer: Answer) -> dict[str, str]:
    """Return the headers of an answer that are for pages of other origins."""
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


@pytest.fixture
async def shop(manager: QueueManager, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Door]:
    async with doors(manager, monkeypatch, by_url=False, rest_cors_allowed_origins=("https://Shop.example.com",)) as it:
        yield it


async def test_a_page_that_is_named_asks_for_leave_and_puts_and_reads_the_answer(shop: Door) -> None:
    asked = "Access-Control-Request-Headers: content-type, ibm-mq-usr-shop, x-other"
    answer = await shop.ask(MESSAGE, ORIGIN, ASKS, asked, method="OPTIONS")
    said = leave(answer)
    assert (answer.status, said["access-control-allow-origin"], answer.headers["vary"]) == (204, SHOP, "Origin")
    assert said["access-control-allow-methods"] == "GET, POST, PATCH, DELETE"
    allowed = said["access-control-allow-headers"].split(", ")
    assert {"authorization", "content-type", "ibm-mq-rest-csrf-token", "ibm-mq-usr-shop"} <= set(allowed)
    assert "x-other" not in allowed
    answer = await shop.ask(MESSAGE, ORIGIN, TEXT, CSRF, basic("bob"), method="POST", body=b"an order")
    assert (answer.status, leave(answer)["access-control-allow-origin"]) == (201, SHOP)
    assert "ibm-mq-md-messageid" in leave(answer)["access-control-expose-headers"]
    answer = await shop.ask(MESSAGE, ORIGIN, basic("bob"))
    assert (answer.text, leave(answer)["access-control-allow-origin"]) == ("an order", SHOP)


async def test_errors_are_told_to_a_page_that_may_ask_and_it_needs_what_all_need(shop: Door) -> None:
    for path, headers, method, status in (
        (MESSAGE, (), "GET", 401),
        (MESSAGE, (TEXT, basic("bob")), "POST", 403),  # without the CSRF header
        (MESSAGE.replace("/Q/", "/NONE/"), (basic("bob"),), "GET", 404),
        ("/jobs/Q/nothing", (basic("bob"),), "GET", 400),
    ):
        answer = await shop.ask(path, ORIGIN, *headers, method=method, body=b"x" if method == "POST" else None)
        assert (answer.status, leave(answer)["access-control-allow-origin"]) == (status, SHOP)


@pytest.mark.parametrize("origin", [EVIL, "Origin: null", f"Origin: {SHOP}:8443", "Origin: http://shop.example.com"])
async def test_any_other_page_is_refused_and_told_nothing(shop: Door, origin: str) -> None:
    answer = await shop.ask(MESSAGE, origin, TEXT, CSRF, basic("bob"), method="POST", body=b"x")
    assert (answer.status, leave(answer)) == (403, {})
    for method in ("OPTIONS", "GET"):
        answer = await shop.ask(MESSAGE, origin, ASKS, basic("bob"), method=method)
        assert leave(answer) == {}
    assert answer.status == 204  # no message: nothing was put


async def test_two_origins_are_none_and_the_console_is_for_no_page_of_elsewhere(shop: Door) -> None:
    answer = await shop.ask(MESSAGE, ORIGIN, EVIL, TEXT, CSRF, basic("bob"), method="POST", body=b"x")
    assert (answer.status, leave(answer)) == (403, {})
    for path, method in (("/console/login", "POST"), ("/console/", "GET"), ("/metrics", "GET"), ("/livez", "GET")):
        answer = await shop.ask(path, ORIGIN, method=method)
        assert leave(answer) == {}
        assert method == "GET" or answer.status == 403


async def test_by_default_no_page_of_elsewhere_asks(manager: QueueManager, monkeypatch: pytest.MonkeyPatch) -> None:
    async with doors(manager, monkeypatch, by_url=False) as door:
        answer = await door.ask(MESSAGE, ORIGIN, ASKS, method="OPTIONS")
        assert (answer.status, leave(answer)) == (401, {})


@pytest.mark.parametrize(
    "value", ["*", "https://*.example.com", "shop.example.com", "https://shop.example.com/", "null", "", 1]
)
def test_an_origin_is_a_scheme_and_a_host(value: object, tmp_path: Path) -> None:
    for good in (SHOP, "http://localhost:3000", "http://[::1]:3000"):
        assert WebOrigin().check(good, tmp_path) == good
    with pytest.raises(ValueError, match="an origin, such as"):
        WebOrigin().check(value, tmp_path)


async def test_calls_need_no_csrf_header_where_it_is_not_validated_and_pages_of_elsewhere_are_refused_still(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with doors(manager, monkeypatch, by_url=False, rest_csrf_validation=False) as door:
        assert (await door.ask(MESSAGE, TEXT, basic("bob"), method="POST", body=b"x")).status == 201
        cookie = await door.log_in("bob")
        assert (await door.ask("/ibmmq/rest/v3/login", cookie, method="DELETE")).status == 204
        assert (await door.ask(MESSAGE, TEXT, EVIL, basic("bob"), method="POST", body=b"x")).status == 403


async def test_without_messaging_there_is_administration_alone(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with doors(manager, monkeypatch, by_url=False, rest_messaging_enabled=False) as door:
        answer = await door.ask(MESSAGE, basic("bob"))
        assert (answer.status, "MQWB0103E" in answer.text) == (404, True)
        assert (await door.ask("/ibmmq/rest/v3/admin/qmgr", basic("root"))).status == 200
