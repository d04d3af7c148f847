"""The names of users and groups (security 2.2)."""

from __future__ import annotations

import pytest

from broker.core.security.entities import is_entity


@pytest.mark.parametrize("name", ["a", "Z9", "a.b-c_d", "123456789012", "12345", "-", "mqm"])
def test_a_name_has_letters_digits_dots_hyphens_and_underscores(name: str) -> None:
    assert is_entity(name)


@pytest.mark.parametrize("name", ["", "1234567890123", "a b", "a\n", "a@b", "\u00e4", "a*", "\u0661", "a,b"])
def test_another_name_is_refused(name: str) -> None:
    assert not is_entity(name)
