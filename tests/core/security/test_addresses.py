"""Patterns of addresses: their form, the addresses that they fit, and which of two is more specific."""

from __future__ import annotations

from random import Random

import pytest

from broker.core.security.addresses import check, is_loopback, matches, rank

PATTERNS = [
    ("192.0.2.0", "192.0.2.0", "192.0.2.1 10.0.2.0 ::c000:200"),
    ("192.0.2.*", "192.0.2.0 192.0.2.255", "192.0.3.0"),
    ("192.0.*", "192.0.2.1 192.0.255.0", "192.1.0.0"),
    ("192.0.*.2", "192.0.1.2", "192.0.1.3 192.1.1.2"),
    ("192.*.2", "192.0.1.2 192.2.2.2", "192.0.1.3"),
    ("192.*.2.*", "192.0.2.9", "192.2.0.9"),
    ("*", "192.0.2.1 ::1 nonsense", ""),
    ("192.0.2.1-8", "192.0.2.1 192.0.2.8", "192.0.2.0 192.0.2.9"),
    ("192.0.*.1-8", "192.0.77.3", "192.0.77.9"),
    ("*.7", "10.0.0.7", "10.0.7.0"),
    ("2001:DB8:0:0:0:0:0:0", "2001:db8:: 2001:db8:0:0:0:0:0:0", "2001:db8::1"),
    ("2001:DB8:0:0:0:0:0:*", "2001:db8::ffff", "2001:db8::1:0"),
    ("2001:DB8:0:0:0:*", "2001:db8::1:2:3", "2001:db8:0:1::"),
    ("2001:DB8:0:0:0:*:0:1", "2001:db8::7:0:1", "2001:db8::7:0:2"),
    ("2001:*:1", "2001:db8::1 2001::1", "2001:db8::2 2002::1"),
    ("2001:DB8:0:0:0:0:0:0-8", "2001:db8::8", "2001:db8::9"),
    ("2001:DB8:0:0:0:*:0:0-8", "2001:db8::ffff:0:8", "2001:db8::ffff:1:8"),
    ("fe80::1", "fe80::1%eth0", "fe80::2%eth0"),
    ("::ffff:192.0.2.7", "192.0.2.7", "192.0.2.8"),
    ("192.0.2.7", "::ffff:192.0.2.7 ::FFFF:c000:207", "::192.0.2.7"),
    ("app.example.com", "", "192.0.2.1 app.example.com"),
    ("*.example.com", "", "192.0.2.1"),
]


@pytest.mark.parametrize(("pattern", "fitting", "other"), PATTERNS)
def test_a_pattern_fits_these_addresses_and_not_those(pattern: str, fitting: str, other: str) -> None:
    assert [each for each in fitting.split() if not matches(pattern, each)] == []
    assert [each for each in other.split() if matches(pattern, each)] == []
    assert check(pattern) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no part"),
        ("192.0.2", "fewer than 4"),
        ("192.0*", "'0*' is no part"),
        ("192.0.*.*", "ends in two"),
        ("192.0.2.1.5", "more than 4"),
        ("192.0.2.256", "up to 255"),
        ("192.0.2.8-1", "'8-1'"),
        ("192.0.2.1-", "no part"),
        ("192.0.2.-1", "no part"),
        ("192.0.2.٣", "no part"),
        ("2001::*", "not clear"),
        ("2001::1::2", "not clear"),
        ("1:2:3:4:5:6:7::8:9", "more than 8"),
        ("1:2:3", "fewer than 8"),
        ("1:2:3:4:5:6:7:10000", "no part"),
        ("::192.0.2.1-8", "wildcards"),
        ("a b", "no part"),
    ],
)
def test_what_is_no_pattern_is_refused_with_its_error_and_fits_nothing(text: str, said: str) -> None:
    error = str(check(text))
    assert said in error
    assert repr(text) in error
    assert not matches(text, "192.0.2.1")


def test_a_host_name_is_refused_where_none_is_allowed() -> None:
    assert check("app.example.com") is None
    assert "no address pattern" in str(check("app.example.com", host_names=False))


def test_the_more_specific_pattern_comes_first() -> None:
    ordered = [
        "192.0.2.1",
        "192.0.2.1-3",
        "192.0.2.1-8",
        "192.0.2.*",
        "192.0.*",
        "192.1-9.2.1",
        "192.*.2",
        "192.*",
        "*",
        "",
    ]
    assert sorted(Random(1).sample(ordered, len(ordered)), key=rank) == ordered


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.0.2.1", False),
        ("", False),
    ],
)
def test_addresses_of_the_machine_itself(address: str, own: bool) -> None:
    assert is_loopback(address) is own
