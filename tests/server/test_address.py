"""The URLs of queue managers."""

from __future__ import annotations

import re
import traceback

import pytest

from broker.client.address import Address, completed, parse


@pytest.mark.parametrize(
    ("url", "address", "printed"),
    [
        ("mq://127.0.0.1", Address(host="127.0.0.1"), "127.0.0.1:1414"),
        ("mq://127.0.0.1/", Address(host="127.0.0.1"), "127.0.0.1:1414"),
        ("mq://localhost:1415/QM1", Address(host="localhost", port=1415, q_mgr_name="QM1"), "localhost:1415"),
        ("mq://localhost/QM%2F1", Address(host="localhost", q_mgr_name="QM/1"), "localhost:1414"),
        ("mq://alice@h", Address(host="h", user="alice"), "h:1414"),
        ("mq://h/Q?channel=APP", Address(host="h", q_mgr_name="Q", channel="APP"), "h:1414"),
        ("mqs://h", Address(host="h", port=1415, tls=True), "h:1415"),
        (
            "mqs://al%40ice@h:2/QM1?channel=APP&ca=%2Fa%2Bb.pem&cert=c.pem&key=k@1.pem",
            Address(
                host="h",
                port=2,
                q_mgr_name="QM1",
                tls=True,
                user="al@ice",
                channel="APP",
                ca="/a+b.pem",
                cert="c.pem",
                key="k@1.pem",
            ),
            "h:2",
        ),
        (
            "mqs://alice@h1,[::1]:7/GRP1",
            Address(
                host="h1",
                port=1415,
                q_mgr_name="GRP1",
                tls=True,
                user="alice",
                others=(Address(host="::1", port=7, q_mgr_name="GRP1", tls=True, user="alice"),),
            ),
            "h1:1415, [::1]:7",
        ),
        ("mq://[::1]:1414/QM1", Address(host="::1", q_mgr_name="QM1"), "[::1]:1414"),
        ("mq+unix:///run/mq.sock", Address(path="/run/mq.sock"), "/run/mq.sock"),
        ("mq+unix:///run/a%20b.sock?name=QM1", Address(path="/run/a b.sock", q_mgr_name="QM1"), "/run/a b.sock"),
    ],
)
def test_a_url_says_where_a_queue_manager_is(url: str, address: Address, printed: str) -> None:
    assert parse(url) == address
    assert str(address) == printed


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "not mq://"),
        ("127.0.0.1:1414", "not mq://"),
        ("amqp://127.0.0.1", "not mq://"),
        ("mq://", "not mq://"),
        ("mq:///QM1", "not mq://"),
        ("mqs:///QM1", "not mqs://"),
        ("mq://h1,,h2", "not mq://"),
        ("mq://h1,x@h2", "not mq://"),
        ("mq://@h", "not mq://"),
        ("mq://localhost/QM1/Q", "not mq://"),
        ("mq://localhost/QM1?x=1", "it may have channel, each once"),
        ("mq://localhost/QM1?ca=a.pem", "it may have channel, each once"),
        ("mqs://localhost/QM1?ca=a.pem&ca=b.pem", "it may have ca, cert, channel, key, each once"),
        ("mqs://localhost/QM1?ca", "its options are not name=value"),
        ("mq://localhost:port", "a port is a number"),
        ("mq://localhost:70000", "a port is a number"),
        ("mq://[::1", "a port is a number"),
        ("mq://localhost/QM1#x", "has no place"),
        ("mq+unix://", "not mq+unix"),
        ("mq+unix://host/run/mq.sock", "not mq+unix"),
        ("mq+unix:///run/mq.sock?user=x", "it may have name, each once"),
        ("mq+unix:///run/mq.sock?name", "its options are not name=value"),
        ("mq+unix:///run/mq.sock?name=A&name=B", "it may have name, each once"),
    ],
)
def test_a_url_that_says_nothing_of_the_kind_is_a_value_error(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "mq://alice:canary@h",
        "mqs://alice:canary@h:1415/QM1",
        "mq://:canary@h",
        "mq://h1,alice:canary@h2",
        "mq://alice:can@canary@h",
        "mq://alice:/canary@h",
        "mq://alice:?canary@h",
        "mq://alice:#canary@h",
        "mq://alice:%canary@h",
        "mq://alice:?w=canary@h",
        "mq://alice:?canary=w@h",
        "mq://alice:[canary@h",
        "http://alice:canary@h",
        "mq+unix://alice:canary@h/run/mq.sock",
        "mq://h?password=canary",
        "mqs://h?canary=x&token=canary",
    ],
)
def test_a_secret_in_a_url_is_a_value_error_that_repeats_nothing_of_it(url: str) -> None:
    """X10.2."""
    with pytest.raises(ValueError, match=re.escape("://...")) as raised:
        parse(url)
    assert "canary" not in repr(raised.value)
    assert "alice" not in repr(raised.value)
    assert raised.value.__cause__ is None
    assert "canary" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("url", "given", "whole"),
    [
        ("mq://h", {}, "mq://h"),
        ("mq://h", {"user": "", "channel": ""}, "mq://h"),
        ("mq://h1,h2:2/GRP1", {"user": "al@ice"}, "mq://al%40ice@h1,h2:2/GRP1"),
        ("mq://bob@h/Q?channel=A", {"user": "alice", "channel": "B"}, "mq://alice@h/Q?channel=B"),
        ("mqs://h?ca=a.pem", {"cert": "/c d.pem"}, "mqs://h?ca=a.pem&cert=/c%20d.pem"),
        ("mqs://h?cert=a.pem&key=b.pem", {"cert": "c.pem"}, "mqs://h?cert=c.pem"),
        ("mqs://h?cert=a.pem&key=b.pem", {"ca": "c+d.pem"}, "mqs://h?cert=a.pem&key=b.pem&ca=c%2Bd.pem"),
    ],
)
def test_a_url_is_completed_by_who_connects(url: str, given: dict[str, str], whole: str) -> None:
    assert completed(url, **given) == whole
    if given.get("user"):
        assert parse(whole).user == given["user"]


@pytest.mark.parametrize(
    ("url", "given", "complaint"),
    [
        ("mq://h", {"ca": "a.pem", "cert": "b.pem"}, "ca, cert is not for mq:// (mq://h)"),
        ("mq+unix:///run/mq.sock", {"user": "alice"}, "user is not for mq+unix:// (mq+unix:///run/mq.sock)"),
        ("mq://alice:canary@h", {"user": "alice"}, "mq://... has a password"),
    ],
)
def test_a_url_that_cannot_have_it_is_a_value_error(url: str, given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        completed(url, **given)
