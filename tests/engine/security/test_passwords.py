"""Passwords and their hashes: scrypt itself (security 4.6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.security.password_hash import check, parse
from broker.engine.security.passwords import dummy, hash_of, matches, needs_renewal

KNOWN = (
    "$scrypt$ln=14,r=8,p=1$U29kaXVtQ2hsb3JpZGU"
    "$cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofLVQylVYT8Pz2LUlwUkKpr55h6F3A1lHkDfzwF7RVdYhw"
)
"""The password "pleaseletmein", of the test vectors of RFC 7914."""


def test_a_hash_fits_its_password_alone() -> None:
    text = hash_of("p\u00e4ss")
    assert check(text) is None
    stored = parse(text)
    assert matches("p\u00e4ss".encode(), stored)
    assert not matches(b"pass", stored)
    assert hash_of("p\u00e4ss") != text  # another salt


def test_a_hash_that_another_program_made_fits() -> None:
    assert matches(b"pleaseletmein", parse(KNOWN))


def test_a_weaker_hash_is_renewed_and_a_stronger_one_stays() -> None:
    own = dummy()
    assert not needs_renewal(own)
    assert needs_renewal(replace(own, ln=14))
    assert needs_renewal(replace(own, salt=bytes(8)))
    assert needs_renewal(replace(own, digest=bytes(16)))
    for stronger in (replace(own, ln=16), replace(own, p=2), replace(own, ln=14, p=2), replace(own, salt=bytes(32))):
        assert not needs_renewal(stronger)


@pytest.mark.parametrize("password", ["", b"\xffsecret", "secret" * 200])
def test_x9_3_what_cannot_be_a_password_is_refused_and_not_repeated(password: str | bytes) -> None:
    with pytest.raises(ValueError, match="a password") as caught:
        hash_of(password)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
