"""The text of figures in pieces, and as OpenMetrics has it."""

from __future__ import annotations

import asyncio

import pytest

from broker.http.exposition import PIECE_CHARACTERS, accepts, open_metrics, pieces
from broker.http.metrics import _lines

LINES = "".join(f'evermq_queue_depth{{queue="ORDERS.{number:05}"}} {number}\n' for number in range(10_000))


def test_pieces_are_whole_lines_and_together_the_text() -> None:
    cut = list(pieces(LINES))
    assert "".join(cut) == LINES
    assert all(piece.endswith("\n") for piece in cut)
    assert max(map(len, cut)) <= PIECE_CHARACTERS + 100
    assert list(pieces("")) == []
    assert list(pieces("without an end")) == ["without an end"]


@pytest.mark.parametrize("opened", [False, True])
async def test_o1_1_others_have_a_turn_between_two_pieces(opened: bool) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.ensure_future(other())
    sent = [piece async for piece in _lines((LINES, "# of the process\n"), opened=opened)]
    running.cancel()
    assert turns >= len(LINES) // PIECE_CHARACTERS
    assert "".join(sent) == LINES + "# of the process\n" + "# EOF\n" * opened


def test_in_openmetrics_the_name_of_a_counter_ends_before_total() -> None:
    text = """\
# HELP evermq_puts_total Puts, "all" of them.
# TYPE evermq_puts_total counter
evermq_puts_total{queue="# TYPE x_total counter"} 3
# HELP evermq_depth Depth.
# TYPE evermq_depth gauge
evermq_depth 1
# HELP ibmmq_count Of a name that is not ours.
# TYPE ibmmq_count counter
ibmmq_count 1
"""
    assert (
        open_metrics(text)
        == """\
# HELP evermq_puts Puts, \\"all\\" of them.
# TYPE evermq_puts counter
evermq_puts_total{queue="# TYPE x_total counter"} 3
# HELP evermq_depth Depth.
# TYPE evermq_depth gauge
evermq_depth 1
# HELP ibmmq_count Of a name that is not ours.
# TYPE ibmmq_count unknown
ibmmq_count 1
"""
    )


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("", False),
        ("*/*", False),
        ("application/json", True),
        ("text/html, Application/JSON ; q=0.1", True),
        ("application/json;q=0", False),
        ("application/json; q=0.000", False),
        ("application/jsonx", False),
    ],
)
def test_a_type_is_accepted_where_it_is_named(header: str, accepted: bool) -> None:
    assert accepts(header, "application/json") is accepted
