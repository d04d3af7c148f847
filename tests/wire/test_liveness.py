"""When an end of a line says that it is alive, and when it gives up the other."""

from __future__ import annotations

import pytest

from broker.wire.liveness import Beat, Liveness

SAID, HEARD, BOTH, NEITHER = "said", "heard", "both", "neither"


@pytest.mark.parametrize(
    ("between_ticks", "beats"),
    [
        ([BOTH, BOTH, BOTH], "..."),
        ([HEARD, HEARD, SAID, HEARD], "^^.^"),
        ([SAID, SAID, SAID, SAID, SAID], "....x"),
        ([NEITHER, NEITHER, NEITHER, NEITHER, NEITHER], "^^^^x"),
        ([SAID, SAID, SAID, SAID, BOTH, SAID, SAID, SAID, SAID, SAID], ".........x"),
    ],
)
def test_a_silent_end_sends_a_heartbeat_and_is_given_up_after_two_intervals_and_a_half(
    between_ticks: list[str], beats: str
) -> None:
    liveness = Liveness()
    liveness.heard = False
    found = ""
    for happening in between_ticks:
        liveness.said |= happening in (SAID, BOTH)
        liveness.heard |= happening in (HEARD, BOTH)
        found += {Beat.NOTHING: ".", Beat.SEND: "^", Beat.DROP: "x"}[liveness.tick()]
    assert found == beats


def test_a_line_just_made_counts_as_heard() -> None:
    liveness = Liveness()
    assert [liveness.tick() for _ in range(6)] == [Beat.SEND] * 5 + [Beat.DROP]
