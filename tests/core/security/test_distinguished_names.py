"""Patterns of distinguished names: their form, the names that they fit, and which of two is more specific."""

from __future__ import annotations

from random import Random

import pytest

from broker.core.security.distinguished_names import check, matches, of_certificate, parse, pattern_of, rank

NAME = (
    ("SERIALNUMBER", "00A1B2"),
    ("C", "GB"),
    ("O", "IBM"),
    ("OU", "Software Group"),
    ("OU", "Middleware"),
    ("OU", "MQ"),
    ("CN", "John Smith"),
)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "CN=John Smith",
        "cn=john smith",
        'CN="John Smith"',
        "CN= John Smith , O=IBM;C=GB ",
        "CN=John*",
        "CN=*Smith",
        "CN=*hn sm*",
        "CN=*",
        "OU=Software Group",
        "OU=Software Group,OU=Middleware",
        "OU=*,OU=Middleware,OU=M*",
        "SERIALNUMBER=A1:B2",
        "SERIALNUMBER=0a1b2",
        "SERIALNUMBER=A1*",
        r"CN=John\ Smith",
    ],
)
def test_a_pattern_fits_a_name(pattern: str) -> None:
    assert check(pattern) is None
    assert matches(pattern, NAME)


@pytest.mark.parametrize(
    "pattern",
    [
        "CN=John",
        "CN=J*h",
        "CN=John Smith,O=Other",
        "L=Hursley",
        "OU=Middleware",
        "OU=Middleware,OU=Software Group",
        "OU=Software Group,OU=Middleware,OU=MQ,OU=*",
        "SERIALNUMBER=B2",
        'CN=" John Smith"',
        r"CN=\*Smith",
    ],
)
def test_a_pattern_does_not_fit_a_name(pattern: str) -> None:
    assert check(pattern) is None
    assert not matches(pattern, NAME)


@pytest.mark.parametrize(
    ("pattern", "value", "fit"),
    [
        (r"CN=Fred\*", "Fred*", True),
        (r"CN=Fred\*", "Freda", False),
        ("CN=a*b", "a*b", True),
        ("CN=a*b", "axb", False),
        ('CN="Sales, North"', "Sales, North", True),
        (r"CN=Sales\, North", "Sales, North", True),
        ('CN="CN=x; OU=y"', "CN=x; OU=y", True),
        (r'CN="say \"yes\""', 'say "yes"', True),
        ("CN=STRASSE", "straße", True),
    ],
)
def test_quotation_and_escapes(pattern: str, value: str, fit: bool) -> None:
    assert matches(pattern, (("CN", value),)) is fit


def test_a_name_with_two_of_what_it_may_have_once_fits_no_pattern_of_it() -> None:
    assert not matches("CN=app", (("CN", "app"), ("CN", "other")))
    assert matches("DC=org,DC=example", (("DC", "org"), ("DC", "example"), ("DC", "www")))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("John Smith", "'John Smith' is none of"),
        ("CN=a,,O=b", "is none of"),
        ("XX=1", "'XX' is none of"),
        ("CN =a", "'CN ' is none of"),
        ("CN=", "CN has no value"),
        ('CN=""', "CN has no value"),
        ("CN=a,CN=b", "it has CN twice"),
        ("ST=a,SP=b", "it has ST twice"),
        ('CN="a', "not closed"),
    ],
)
def test_a_malformed_pattern_is_refused_with_its_error_and_fits_nothing(pattern: str, said: str) -> None:
    error = str(check(pattern))
    assert said in error
    assert repr(pattern) in error
    assert not matches(pattern, NAME)


def test_the_more_specific_pattern_comes_first() -> None:
    ordered = [
        "SERIALNUMBER=A1:B2", "CN=John Smith,O=IBM", "CN=John Smith", "CN=John S*", "CN=John*,O=IBM", "CN=John*",
        "CN=*Smith", "CN=*", "OU=a,OU=b", "OU=a,OU=*", "OU=a,C=GB", "OU=a", "O=IBM", "C=GB", "",
    ]  # fmt: skip
    assert sorted(Random(1).sample(ordered, len(ordered)), key=rank) == ordered


def test_a_name_is_taken_from_what_ssl_gives() -> None:
    subject = (
        (("countryName", "GB"),),
        (("organizationalUnitName", "Middleware"), ("serialNumber", "of the subject")),
        (("commonName", "app"),),
        (("jurisdiction", "elsewhere"),),
    )
    name = of_certificate(subject, "0A")
    assert name == (("SERIALNUMBER", "0A"), ("C", "GB"), ("OU", "Middleware"), ("CN", "app"))
    assert of_certificate(()) == ()


def test_a_name_that_was_written_has_no_wildcards() -> None:
    assert parse('CN="app, 1", OU=a*') == (("CN", "app, 1"), ("OU", "a*"))
    with pytest.raises(ValueError, match="is none of"):
        parse("app")


@pytest.mark.parametrize("value", ["app", "*", "**", "a*", 'a "b" \\c', "O'Reilly, Sons; Co", " a ", "=", "ß"])
def test_the_pattern_of_a_name_fits_that_name_alone(value: str) -> None:
    name = (("OU", "Sales"), ("CN", value))
    pattern = str(pattern_of(name))
    assert check(pattern) is None
    assert matches(pattern, name)
    assert not matches(pattern, (("OU", "Sales"), ("CN", f"{value}x")))
    assert not matches(pattern, (("OU", "Sales"), ("CN", f"x{value}")))
    assert parse(pattern) == name


@pytest.mark.parametrize("name", [(), (("CN", "a"), ("CN", "b")), (("CN", ""),)])
def test_a_name_that_no_pattern_fits_has_none(name: tuple[tuple[str, str], ...]) -> None:
    assert pattern_of(name) is None
