"""An issuer of tokens: its keys, the tokens that it signs, and the HTTPS server that has its key set."""

from __future__ import annotations

import asyncio
import hmac
import json
import ssl
import warnings
from base64 import urlsafe_b64encode
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import trustme
from joserfc import jws
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from broker.testing.clock import NEW_YEAR_2026

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ISSUER = "https://issuer.example"
AUDIENCE = "evermq"


class _Signing(jws.JWSRegistry):
    """Signs by whatever algorithm, without warnings."""

    def get_alg(self, name: str) -> Any:
        return self.algorithms[name]

    def check_header(self, header: dict[str, Any]) -> None:
        pass


@cache
def key(kid: str) -> Key:
    """The key of a name, whose first letters say its kind."""
    match kid.partition("-")[0]:
        case "rsa":
            return RSAKey.generate_key(2048)
        case "weak":
            with warnings.catch_warnings(action="ignore"):
                return RSAKey.generate_key(1024)
        case "ec":
            return ECKey.generate_key("P-256")
        case "p384":
            return ECKey.generate_key("P-384")
        case "ed448":
            return OKPKey.generate_key("Ed448")
        case _:
            return OKPKey.generate_key("Ed25519")


def public(kid: str, /, **changed: Any) -> dict[str, Any]:
    """The public key of a name, as a key set has it."""
    return {**key(kid).as_dict(private=False), "kid": kid, "use": "sig", **changed}


def key_set(*kids: str) -> bytes:
    return json.dumps({"keys": [public(kid) for kid in kids]}).encode()


def claims(**changed: Any) -> dict[str, Any]:
    """Claims that are good at the beginning of a virtual clock; None takes a claim away."""
    good = {
        "iss": ISSUER, "aud": AUDIENCE, "sub": "bob", "iat": NEW_YEAR_2026, "exp": NEW_YEAR_2026 + 300, **changed
    }  # fmt: skip
    return {name: value for name, value in good.items() if value is not None}


def token(
    kid: str = "ed-1",
    algorithm: str = "EdDSA",
    *,
    header: dict[str, Any] | None = None,
    by: Key | None = None,
    content: bytes | None = None,
    **changed: Any,
) -> str:
    """A token signed by the key of that name, or by another; `changed` are claims."""
    body = json.dumps(claims(**changed)).encode() if content is None else content
    named = {"alg": algorithm, "kid": kid, "typ": "JWT", **(header or {})}
    return jws.serialize_compact(
        {name: value for name, value in named.items() if value is not None},
        body,
        by or key(kid),
        [algorithm],
        _Signing(),
    )


def unsigned(header: object, signature: str = "", **changed: Any) -> str:
    """A token with a header of any kind, which nobody has signed; `changed` are claims."""
    first = _encoded(json.dumps(header).encode())
    return f"{first}.{_encoded(json.dumps(claims(**changed)).encode())}.{signature}"


def token_by_secret(secret: bytes, kid: str | None = "any", **changed: Any) -> str:
    """A token signed by HS256 with any secret, as a public key, which joserfc would not take for one."""
    header = {"alg": "HS256"} if kid is None else {"alg": "HS256", "kid": kid}
    signed = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(claims(**changed)).encode())}"
    return f"{signed}.{_encoded(hmac.digest(secret, signed.encode(), 'sha256'))}"


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


class Issuer:
    """The server of a key set. `answer` is all that it says to a request; `requests` counts them."""

    def __init__(self, url: str, ca: str) -> None:
        self.url = url
        self.ca = ca
        self.answer = b""
        self.requests: list[bytes] = []
        self.hangs = False

    def publish(self, *kids: str) -> None:
        body = key_set(*kids)
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            if self.hangs:
                await reader.read()
            writer.write(self.answer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@asynccontextmanager
async def served(folder: Path, host: str = "127.0.0.1") -> AsyncIterator[Issuer]:
    """An issuer on a free port, whose certificate is for `host`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(host).configure_cert(context)
    ca = folder / "ca.pem"
    authority().cert_pem.write_to_path(ca)
    issuer = Issuer("", str(ca))
    server = await asyncio.start_server(issuer.serve, "127.0.0.1", 0, ssl=context)
    async with server:
        issuer.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys?tenant=1"
        yield issuer
