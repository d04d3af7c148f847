"""The form in which the hash of a password is kept (security 2.3)."""

from __future__ import annotations

import re
from hashlib import scrypt

import pytest

from broker.core.security.password_hash import (
    LN_MAX,
    LN_MIN,
    PASSWORD_BYTES_MAX,
    PasswordHash,
    check,
    check_password,
    parse,
)

FORM = "$scrypt$ln=15,r=8,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA"


def test_a_hash_is_read_and_written_alike() -> None:
    stored = parse(FORM)
    assert stored == PasswordHash(ln=15, p=1, salt=b"saltsalt", digest=bytes(16))
    assert str(stored) == FORM
    assert check(FORM) is None


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (("ln=15", "ln=13"), "ln=13"),
        (("ln=15", "ln=21"), "ln=21"),
        (("ln=15", "ln=30"), "ln=30"),  # 64 GiB
        (("r=8", "r=9"), "r=9"),
        (("p=1", "p=5"), "p=5"),
        (("c2FsdHNhbHQ", "c2FsdA"), "salt"),
        (("c2FsdHNhbHQ", "A" * 88), "salt"),
        (("A" * 22, "A" * 20), "16 to 64 bytes"),
        (("A" * 22, "A" * 88), "16 to 64 bytes"),
        (("A" * 22, "A" * 21), "evermq user password"),  # no length that base64 has
        (("A" * 22, "A" * 21 + "="), "evermq user password"),
        (("ln=15", "ln=015"), "evermq user password"),
        (("p=1", "p=0"), "evermq user password"),
        (("scrypt", "argon2id"), "evermq user password"),
        ((FORM, FORM + "\n"), "evermq user password"),
        ((FORM, FORM.replace("15", "\u0661\u0665")), "evermq user password"),
        ((FORM, ""), "evermq user password"),
        ((FORM, "secret"), "evermq user password"),
    ],
)
def test_x2_2_another_text_is_refused_and_not_repeated(changed: tuple[str, str], text: str) -> None:
    wrong = FORM.replace(*changed)
    fault = check(wrong)
    assert fault is not None
    assert text in fault
    assert not wrong or wrong not in fault
    with pytest.raises(ValueError, match=f"^{re.escape(fault)}$"):
        parse(wrong)


@pytest.mark.parametrize("ln", range(LN_MIN, LN_MAX + 1))
def test_each_cost_between_the_bounds_is_taken(ln: int) -> None:
    assert parse(FORM.replace("ln=15", f"ln={ln}")).ln == ln


@pytest.mark.parametrize("p", [1, 4])
def test_the_memory_of_a_hash_is_what_scrypt_needs(p: int) -> None:
    stored = parse(FORM.replace("ln=15", "ln=14").replace("p=1", f"p={p}"))

    def hashed(maxmem: int) -> bytes:
        return scrypt(b"x", salt=stored.salt, n=1 << stored.ln, r=8, p=stored.p, maxmem=maxmem, dklen=16)

    assert hashed(stored.memory_bytes)
    with pytest.raises(ValueError, match="memory"):
        hashed(stored.memory_bytes - 1)


def test_x9_3_a_hash_shows_neither_salt_nor_digest() -> None:
    assert repr(parse(FORM)) == "PasswordHash(ln=15, p=1)"


@pytest.mark.parametrize("password", ["x", b"x", "\u00e4" * 512, b"a" * PASSWORD_BYTES_MAX, "a b\n\0"])
def test_a_password_is_any_text_that_is_not_empty(password: str | bytes) -> None:
    assert check_password(password) is None


@pytest.mark.parametrize(
    ("password", "text"),
    [
        ("", "not empty"),
        (b"", "not empty"),
        ("a" * 1025, "1025 bytes"),
        ("\u00e4" * 513, "1026 bytes"),
        (b"\xff\xfe", "UTF-8"),
        ("\ud800", "UTF-8"),
    ],
)
def test_another_password_is_refused(password: str | bytes, text: str) -> None:
    fault = check_password(password)
    assert fault is not None
    assert text in fault
