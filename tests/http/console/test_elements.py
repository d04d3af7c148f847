"""The elements of pages: what others chose is text, whatever it is."""

from __future__ import annotations

from unicodedata import category

import pytest
from markupsafe import Markup

from broker.http.console.elements import count, identifier, octets, rate, relative, shown, when
from broker.http.console.figures.sparkline import binned, sparkline
from tests.http.console.hostile import HOSTILE


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_n2_3_a_hostile_text_is_text(text: str) -> None:
    made = str(shown(text))
    inside = made.removeprefix("<bdi>").removesuffix("</bdi>")
    plain, _, cut = inside.partition('<span class="cut"')
    assert "<" not in plain
    assert not [each for each in plain if category(each) in ("Cc", "Cs")]
    assert not set(plain) & set("\u202e\u202d\u2066\u2067\u200f\u200e\ufeff")
    assert bool(cut) == (len(text) > 200)
    assert len(made) < 10_000


def test_a_long_text_is_cut_and_says_how_long_it_is() -> None:
    made = str(shown("x" * 1_048_576))
    assert 'title="1,048,576 characters"' in made
    assert made.count("x") == 200


def test_an_identifier_has_all_its_digits_as_its_tooltip() -> None:
    made = str(identifier(bytes(range(24))))
    assert bytes(range(24)).hex() in made
    assert str(identifier(bytes(24))) == '<span class="none">–</span>'


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "now"), (-0.4, "now"), (-12, "12 s ago"), (12, "in 12 s"), (-61, "1 m ago"), (-7500, "2 h 05 m ago"),
     (90_000, "in 1 d 01 h")],
)  # fmt: skip
def test_an_instant_is_told_by_its_distance(seconds: float, words: str) -> None:
    assert relative(seconds) == words
    made = str(when(1_000_000 + seconds, 1_000_000))
    assert words in made
    assert "UTC" in made


def test_an_instant_beyond_the_calendar_is_told_as_that() -> None:
    assert "after the year 9999" in str(when(1e18, 0))


def test_figures_for_people() -> None:
    assert (count(0), count(1234567)) == ("", "1,234,567")
    assert (rate(0.0), rate(1.26), rate(1234.4)) == ("", "1.3", "1,234")
    assert [octets(each) for each in (0, 1023, 1536, 3 << 20, 5 << 40)] == [
        "0 B", "1023 B", "1.5 KiB", "3.0 MiB", "5,120.0 GiB",
    ]  # fmt: skip


def test_a_line_of_figures_has_the_newest_at_its_right_and_nothing_but_attributes() -> None:
    assert binned([], 2) == ()
    assert binned([0, 0, 0], 1) == (0, 0, 0)
    assert binned([9, 1, 1, 2, 2, 4, 4], 2) == (6, 12, 24)  # the newest are whole
    made = sparkline([1, 2, 3], 'depth of <Q> "x"', 180)
    assert isinstance(made, Markup)
    assert "style" not in made
    assert 'aria-label="depth of &lt;Q&gt; &#34;x&#34;"' in made
    assert made.split('points="')[1].split('"')[0].endswith("120.0,1")
