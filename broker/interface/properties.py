"""Message properties as programs see them: a mapping of names to values, on the way to a queue and back.

They travel to the queue manager as an MQRFH2 before the data, like those of any program that writes the header itself.
They come back beside the data, and are decoded when they are first looked at.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.mqi import checks
from broker.mqi.constants.descriptor import MQENC
from broker.mqi.layouts import folders
from broker.mqi.layouts.rfh2 import FILLED_IN, FORMAT, MQRFH2, unpack_properties
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.mqi.layouts.folders import Value

NO_PROPERTIES: Final[Mapping[str, Value]] = MappingProxyType({})


def with_properties(
    md: MessageDescriptor | None, data: bytes, properties: Mapping[str, Value]
) -> tuple[MessageDescriptor, bytes]:
    """The data behind an MQRFH2 with these properties, and the descriptor that says so; the caller's is not changed.

    Raises MD_ERROR (2026), PROPERTY_NAME_ERROR (2442), PROPERTY_NAME_LENGTH_ERR (2513), PROPERTY_TYPE_ERROR (2473).
    """
    outer = MessageDescriptor() if md is None else MessageDescriptor.from_tuple(checks.descriptor(md).to_tuple())
    header = MQRFH2(tuple(folders.encode(properties)), outer.format, outer.encoding, FILLED_IN)
    outer.format, outer.encoding = FORMAT, MQENC.NATIVE.value
    return outer, header.to_bytes() + data


def mapping(packed: bytes) -> Mapping[str, Value]:
    """The properties of a message got; read only."""
    return MappingProxyType(unpack_properties(packed)) if packed else NO_PROPERTIES
