"""The URLs of queue managers."""

from __future__ import annotations

import pytest

from broker.client.address import Address, parse


@pytest.mark.parametrize(
    ("url", "address", "printed"),
    [
        ("mq://127.0.0.1", Address(host="127.0.0.1"), "127.0.0.1:1414"),
        ("mq://127.0.0.1/", Address(host="127.0.0.1"), "127.0.0.1:1414"),
        ("mq://localhost:1415/QM1", Address(host="localhost", port=1415, q_mgr_name="QM1"), "localhost:1415"),
        ("mq://localhost/QM%2F1", Address(host="localhost", q_mgr_name="QM/1"), "localhost:1414"),
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
        ("mqs://127.0.0.1", "TLS is not available yet"),
        ("mq://", "not mq://host"),
        ("mq:///QM1", "not mq://host"),
        ("mq://localhost/QM1/Q", "not mq://host"),
        ("mq://localhost/QM1?x=1", "not mq://host"),
        ("mq://localhost:port", "port"),
        ("mq://localhost:70000", "[Pp]ort"),
        ("mq://user@localhost", "has no place"),
        ("mq://localhost/QM1#x", "has no place"),
        ("mq+unix://", "not mq[+]unix"),
        ("mq+unix://host/run/mq.sock", "not mq[+]unix"),
        ("mq+unix:///run/mq.sock?user=x", "not mq[+]unix"),
        ("mq+unix:///run/mq.sock?name", "name"),
        ("mq+unix:///run/mq.sock?name=A&name=B", "not mq[+]unix"),
    ],
)
def test_a_url_that_says_nothing_of_the_kind_is_a_value_error(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse(url)
