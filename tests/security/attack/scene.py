"""The daemon that is attacked: its users and queues, the issuer of its tokens, and what each side knows of them."""

from __future__ import annotations

import hmac
import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from joserfc.jwk import RSAKey

from tests.engine.security.issuer import AUDIENCE, ISSUER, key, key_set, public, token, token_by_secret, unsigned
from tests.security.lines import hashed
from tests.security.network.served import HOST_NAME, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.security.network.namespaces import Host
    from tests.security.network.served import Serving

ADDRESSES: Final = {"server": "192.0.2.10", "elsewhere": "192.0.2.7", "attacker": "192.0.2.66"}
NAMES: Final = {HOST_NAME: ADDRESSES["server"]}

QUEUE: Final = "ORDERS"
DEAD: Final = f"{QUEUE}.DEAD"
CANARY: Final = "canary-4f1d"
"""In each message: the attacker must never see it."""

WORKER: Final = "shop"
ROBOT: Final = "robot"
INSIDER: Final = "mallory"

SPRAYED: Final = tuple(f"name-{number:04}" for number in range(1000))
"""The names whose passwords the attacker tries. Every second one is a user, and logs in once."""

ATTACKED: Final = SPRAYED[::2]
OTHERS: Final = tuple(f"other-{number:03}" for number in range(500))
"""Users that log in once, and that the attacker knows nothing of."""

_TOKEN_SECONDS: Final = 24 * 3600
_KEY: Final = "rsa-issuer"


def _user(name: str) -> str:
    return f"DEFINE USER('{name}') REPLACE GROUPS('callers') PASSWORD('{hashed()}')\n"


DEFINITIONS: Final = f"""
{"".join(map(_user, (WORKER, INSIDER, *ATTACKED, *OTHERS)))}
DEFINE USER('{ROBOT}') REPLACE GROUPS('callers')
SET AUTHREC OBJTYPE(QMGR) GROUP('callers') AUTHADD(CONNECT)
DEFINE PROCESS({QUEUE}) REPLACE
DEFINE QLOCAL({QUEUE}) REPLACE DEFPSIST(YES) TRIGGER TRIGTYPE(EVERY) PROCESS({QUEUE})
DEFINE QLOCAL({DEAD}) REPLACE DEFPSIST(YES)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('{WORKER}') AUTHADD(CONNECT,DSP)
SET AUTHREC PROFILE({QUEUE}) OBJTYPE(QUEUE) PRINCIPAL('{WORKER}') AUTHADD(GET,PUT,DSP)
SET AUTHREC PROFILE({QUEUE}) OBJTYPE(PROCESS) PRINCIPAL('{WORKER}') AUTHADD(DSP)
SET AUTHREC PROFILE({DEAD}) OBJTYPE(QUEUE) PRINCIPAL('{WORKER}') AUTHADD(PUT,PASSALL,DSP)
"""


def body(number: int) -> bytes:
    """The body of a message, which nobody who has not the key could make for another number."""
    return f"{number}:{CANARY}:{hmac.digest(b'honest', b'%d' % number, 'sha256').hex()}".encode()


def number_of(data: bytes) -> int:
    """The number of a message, -1 if it has been changed."""
    number = data.partition(b":")[0]
    return int(number) if number.isdigit() and data == body(int(number)) else -1


class AttackScene(NamedTuple):
    """The daemon, with the `token` of an honest program. `forged` are tokens that say nothing, by what is wrong."""

    at: Serving
    socket: Path
    token: str
    forged: dict[str, str]


@asynccontextmanager
async def attack_scene(folder: Path, data: Path, host: Host) -> AsyncIterator[AttackScene]:
    """The daemon on `host`, with its files in `folder` and its data in `data`."""
    keys = folder / "keys.json"
    keys.write_bytes(key_set(_KEY))
    socket = data / "mq.sock"  # a short path
    settings = {
        "EVERMQ_LISTENER_UNIX": str(socket),
        "EVERMQ_LIMITS_BODY_BYTES": str(16 << 20),
        "EVERMQ_TOKENS_ISSUER": ISSUER,
        "EVERMQ_TOKENS_AUDIENCE": AUDIENCE,
        "EVERMQ_TOKENS_JWKS": str(keys),
    }
    async with serving(folder, host, DEFINITIONS, data / "data", settings) as at:
        now = time.time()
        good: dict[str, Any] = {"sub": ROBOT, "iat": now, "exp": now + _TOKEN_SECONDS}
        yield AttackScene(at, socket, token(_KEY, "RS256", **good), dict(_forged(good)))


def _forged(good: dict[str, Any]) -> list[tuple[str, str]]:
    """Tokens that name an honest user and do not prove it."""
    signed = token(_KEY, "RS256", **good)
    head, content, signature = signed.split(".")
    of_administrator = token(_KEY, "RS256", **{**good, "sub": "root"}).split(".")[1]
    stranger = RSAKey.generate_key(2048)
    secret = json.dumps(public(_KEY)).encode()
    pem: bytes = key(_KEY).as_pem(private=False)  # type: ignore[union-attr]
    return [
        ("replayed behind its end", token(_KEY, "RS256", **{**good, "exp": good["iat"] - 1})),
        ("of the future", token(_KEY, "RS256", **good, nbf=good["iat"] + 3600)),
        ("of another issuer", token(_KEY, "RS256", **{**good, "iss": "https://elsewhere.example"})),
        ("for another audience", token(_KEY, "RS256", **{**good, "aud": "elsewhere"})),
        ("without an end", token(_KEY, "RS256", **{**good, "exp": None})),
        ("without a user", token(_KEY, "RS256", **{**good, "sub": None})),
        ("signed by a stranger", token(_KEY, "RS256", by=stranger, **good)),
        ("by a key of no name", token(_KEY, "RS256", by=stranger, header={"kid": "unknown"}, **good)),
        ("signed by another algorithm", f"{head}.{content}.{token(_KEY, 'PS256', **good).split('.')[2]}"),
        ("signed by the public key as a secret", token_by_secret(secret, _KEY, **good)),
        ("signed by the public key in PEM", token_by_secret(pem, _KEY, **good)),
        ("with its content changed", f"{head}.{of_administrator}.{signature}"),
        ("with its signature cut", f"{head}.{content}.{signature[:-8]}"),
        ("without a signature", f"{head}.{content}."),
        ("signed by none", unsigned({"alg": "none", "kid": _KEY}, **good)),
        ("that is none", "a.b.c"),
        ("that is long", "a" * 60_000),
    ]
