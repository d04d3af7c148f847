"""Handles that outlive their line: opened again on the next one, by the name that they were opened by."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn

from broker.client.calls import LINE
from broker.interface.port import answer
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from asyncio import Future

    from broker.client.port import RemotePort
    from broker.interface.answers import Opened
    from broker.mqi.structures import ObjectDescriptor

logger = logging.getLogger(__name__)

NUMBER: Final = LINE - 1
"""The bits that a number has on its own line."""


class LastingHandle:
    """An open object: how it is opened again, and its number on the line that there is, `hobj`; -1 where it could not
    be opened, and `error` says why.
    """

    def __init__(self, descriptor: ObjectDescriptor, options: int, opened: Opened) -> None:
        name = opened.name if not descriptor.records and opened.name else descriptor.object_name
        self._descriptor = replace(descriptor, object_name=name)
        self._options = options
        self.hobj = opened.hobj & NUMBER
        self.error: MQError | None = None

    async def reopen(self, port: RemotePort) -> None:
        """Open it again on another line. Raises MQError if that is lost too."""
        try:
            opened = await answer(port.open(self._descriptor, self._options))
        except MQError as error:
            if port.broken:
                raise
            name = self._descriptor.object_name
            logger.warning(
                "handle not open any more after a reconnection name=%s: %s", name, error, extra={"event": "handle_lost"}
            )
            self.hobj = -1
            self.error = MQError(error.reason, f"{name} could not be opened again on the new line: {error.detail}")
        else:
            self._reopened(opened)

    def refuse(self, port: RemotePort, error: MQError) -> NoReturn:
        """Raise `error`, for which it could not be opened again, and try once more."""
        port.open(self._descriptor, self._options).add_done_callback(self._tried)
        raise MQError(error.reason, error.detail)

    def _tried(self, call: Future[Opened]) -> None:
        if not call.cancelled() and call.exception() is None:
            self._reopened(call.result())

    def _reopened(self, opened: Opened) -> None:
        self.hobj, self.error = opened.hobj & NUMBER, None
