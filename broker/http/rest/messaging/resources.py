"""Messaging as a part of REST: which function answers a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.http.application import BODY_BYTES
from broker.http.entrance import WebRole
from broker.http.rest.calls import not_here, wrong_method
from broker.http.rest.messaging.bodies import BODY_BYTES_MAX, ClientGoneError
from broker.http.rest.messaging.delivery import change, deliver, done
from broker.http.rest.messaging.leases import MessageLeases
from broker.http.rest.messaging.messages import browse, message_list, put, remove
from broker.http.rest.messaging.messaging_call import NO_ANSWER, MessagingAnswer, MessagingCall
from broker.http.rest.messaging.refusals import invalid, not_text
from broker.http.rest.messaging.text_messages import NotTextError
from broker.http.rest.messaging.versions import InvalidValueError, RestVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker import Clock
    from broker.http.rest.calls import RestCall
    from broker.http.rest.messaging.bodies import RoomForBodies


class MessagingPart:
    """Messaging, in all versions. `make_room` gives each body an account of the memory that it takes. `end` gives back
    what clients hold.
    """

    role: WebRole | None = WebRole.USER

    def __init__(self, clock: Clock, start_soon: Callable[..., object], make_room: Callable[[], RoomForBodies]) -> None:
        self.leases = MessageLeases(clock, start_soon)
        self._make_room = make_room
        self.enabled = True
        """False: there is no messaging at all."""

    def body_bytes(self, path: str) -> int:
        """Return how long the body of a call of this path may be: that of a put as long as any message."""
        return BODY_BYTES_MAX if path.endswith("/message") else BODY_BYTES

    async def answer(self, call: RestCall) -> MessagingAnswer:
        """Answer a call. Raises RestError, MQError."""
        path = call.path
        resource = _resource(path) if self.enabled else None
        if resource is None:
            raise not_here(call)
        if call.method not in _METHODS[resource]:
            raise wrong_method(call, _METHODS[resource])
        scope = call.scope
        version = _VERSIONS[call.version]
        own = MessagingCall(
            call.caller, version, path[1], path[3], call.method, scope["query_string"], scope["headers"], call.receive
        )
        try:
            return await self._answer(own, resource, path)
        except InvalidValueError as error:
            raise invalid(error) from error
        except NotTextError as error:
            raise not_text(error) from error
        except ClientGoneError:
            return NO_ANSWER

    async def _answer(self, call: MessagingCall, resource: str, path: Sequence[str]) -> MessagingAnswer:
        match resource, call.method:
            case "message", "POST":
                return await put(call, self._make_room())
            case "message", "DELETE":
                return await remove(call)
            case "message", _:
                return await browse(call)
            case "messagelist", _:
                return await message_list(call)
            case "deliveries", _:
                return await deliver(call, self.leases)
            case _, "DELETE":
                return await done(call, self.leases, path[5])
            case _:
                return await change(call, self.leases, path[5])

    async def end(self) -> None:
        """Give back the messages that clients hold."""
        await self.leases.end()


_VERSIONS: Final = {each.value: each for each in RestVersion}

_METHODS: Final[dict[str, Sequence[str]]] = {
    "message": ("POST", "GET", "DELETE"),
    "messagelist": ("GET",),
    "deliveries": ("POST",),
    "delivery": ("DELETE", "PATCH"),
}


def _resource(path: Sequence[str]) -> str | None:
    """Return the name of the resource at a path; None where there is none."""
    if len(path) < 5 or path[0] != "qmgr" or path[2] != "queue" or not all(path):
        return None
    if len(path) == 5:
        return {"message": "message", "messagelist": "messagelist", "delivery": "deliveries"}.get(path[4])
    return "delivery" if len(path) == 6 and path[4] == "delivery" else None
