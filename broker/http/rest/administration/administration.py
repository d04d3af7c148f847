"""The part of REST at `/admin`: which call is which, and who may change something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from broker import MQError
from broker.http.application import BODY_BYTES
from broker.http.entrance import WebRole
from broker.http.rest.administration import resources
from broker.http.rest.administration.json_command import JsonCommand
from broker.http.rest.administration.replies import as_json, as_text, response_of
from broker.http.rest.administration.run_command import command_of, displays, not_valid
from broker.http.rest.calls import not_here, wrong_method
from broker.http.rest.errors import ADMINISTRATION, NO_ROLE, of_reason, refused, unknown_q_mgr
from broker.mqi import MQRC

if TYPE_CHECKING:
    from starlette.responses import Response

    from broker.http.rest.calls import RestCall
    from broker.http.served_manager import ServedManager
    from broker.mqi import CommandReply

SECONDS: Final = 30.0
"""A command is waited for so long; it goes on behind that."""


class AdministrationPart:
    """Administration by REST. Every role opens it: MQWebAdminRO to what displays alone. Each command is judged as its
    user's.
    """

    role: WebRole | None = None

    def __init__(self, served: ServedManager) -> None:
        self._served = served

    def body_bytes(self, path: str) -> int:
        """Return how long the body of a call may be: a command is short."""
        return BODY_BYTES

    async def answer(self, call: RestCall) -> Response:
        """Answer a call. Raises RestError."""
        try:
            return await self._answer(call)
        except MQError as error:
            raise of_reason(error, ADMINISTRATION) from error

    async def _answer(self, call: RestCall) -> Response:
        match call.path:
            case ("installation",) | ("installation", resources.INSTALLATION):
                _only(call, "GET")
                return resources.installations(call)
            case ("qmgr",):
                _only(call, "GET")
                return await resources.queue_managers(call, self._served, self._name(None))
            case ("qmgr", name):
                _only(call, "GET")
                return await resources.queue_managers(call, self._served, self._name(name))
            case ("qmgr", name, "queue", *rest) if call.version == 1 and len(rest) < 2:
                _only(call, "GET")
                self._name(name)
                return await resources.queues(call, rest[0] if rest else None)
            case ("action", "qmgr", name, "mqsc"):
                _only(call, "POST")
                self._name(name)
                return await self._run(call)
        raise not_here(call)

    def _name(self, asked: str | None) -> str:
        """The name of the queue manager. Raises RestError (404) for another one; MQError while it is not known."""
        name = self._served.q_mgr_name
        if not name:
            raise MQError(MQRC.Q_MGR_NOT_AVAILABLE, "this server has not reached its queue manager yet")
        if asked not in (None, name):
            raise unknown_q_mgr(str(asked))
        return name

    async def _run(self, call: RestCall) -> Response:
        body = await call.json()
        match body.get("type"):
            case "runCommand":
                command = command_of(body)
                _require_right_to_change(call, displaying=displays(command))
                return response_of(element for reply in await _replies(call, command) for element in as_text(reply))
            case "runCommandJSON":
                parsed = JsonCommand(body)
                _require_right_to_change(call, displaying=parsed.displays)
                return response_of(element for reply in await _replies(call, parsed.text) for element in as_json(reply))
        raise not_valid("The required 'type' is runCommand or runCommandJSON.")


async def _replies(call: RestCall, command: str) -> list[CommandReply]:
    with anyio.move_on_after(SECONDS):
        async with call.caller.connection() as connection:
            return await connection.mqsc(command)
    raise refused(503, ADMINISTRATION, f"The command has not ended in {SECONDS:g} seconds, and goes on.")


def _only(call: RestCall, method: str) -> None:
    if call.method != method:
        raise wrong_method(call, (method,))


def _require_right_to_change(call: RestCall, *, displaying: bool) -> None:
    roles = call.caller.roles
    if not displaying and not roles & {WebRole.ADMIN, WebRole.USER}:
        raise refused(403, NO_ROLE, f"The user '{call.caller.user}' has the role {WebRole.READ_ONLY} alone: DISPLAY.")
