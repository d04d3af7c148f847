"""The time of a message's put, for which programs may set any context."""

from __future__ import annotations

import pytest

from broker.core.message.put_time import put_at
from broker.mqi import MessageDescriptor
from broker.mqi.layouts.packing import pack_md


@pytest.mark.parametrize(
    ("put_date", "put_time", "seconds"),
    [
        ("20231114", "22132025", 1_700_000_000.25),
        ("19700101", "00000000", 0.0),
        ("", "", 0.0),
        ("20231114", "", 0.0),
        ("20231114", "2213202", 0.0),
        ("20239999", "22132025", 0.0),
        ("20231114", "24000000", 0.0),
        ("2023-W46", "22132025", 0.0),
        ("yesterday"[:8], "at noon!", 0.0),
    ],
)
def test_a_put_has_the_time_of_its_descriptor_if_that_is_one(put_date: str, put_time: str, seconds: float) -> None:
    assert put_at(pack_md(MessageDescriptor(put_date=put_date, put_time=put_time))) == seconds
