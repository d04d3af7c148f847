"""Signatures of tokens, and the keys that verify them: the one module that imports joserfc, of the extra `tokens`."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from joserfc.jwk import JWKRegistry, OctKey
from joserfc.jws import JWSRegistry, deserialize_compact

from broker.config.security import PUBLIC_KEY_ALGORITHMS, SECRET_KEY_ALGORITHMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from joserfc.jwk import Key
    from joserfc.registry import Header

RSA_BITS_MIN: Final = 2048
SECRET_BYTES_MIN: Final = 32
KEYS_MAX: Final = 100

_HEADER_BYTES_MAX: Final = 8192

_BY_CURVE: Final = {"P-256": ("ES256",), "Ed25519": ("EdDSA",), "Ed448": ("EdDSA",)}


class TokenKey(NamedTuple):
    """A key with the algorithms that it verifies. `kid` is its name; None where it needs none."""

    kid: str | None
    algorithms: tuple[str, ...]
    key: Key

    def __repr__(self) -> str:
        return f"TokenKey({self.kid!r}, {self.algorithms!r})"  # a secret is in no text


class _Registry(JWSRegistry):
    """Tokens as long as ours may be, with headers of any name."""

    max_header_length = _HEADER_BYTES_MAX

    def get_alg(self, name: str) -> Any:
        return self.algorithms[name]  # without the warning that EdDSA has a newer name

    def check_header(self, header: Header) -> None:
        """Nothing: `crit` is refused before."""


_REGISTRY: Final = _Registry()


def payload(token: str, algorithm: str, key: TokenKey) -> bytes:
    """The content of a token that `key` has signed by `algorithm`, one of those of the key. Raises anything else."""
    return deserialize_compact(token, key.key, [algorithm], _REGISTRY).payload


def public_keys(data: bytes) -> list[TokenKey]:
    """The public keys of a key set that verify signatures; others are passed over, as RFC 7517 says. Raises
    ValueError where it is no key set, or there is none.
    """
    try:
        found = json.loads(data)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError('it is no key set: {"keys": [...]}') from None
    keys = list(_understood(found)) if isinstance(found, list) and len(found) <= KEYS_MAX else []
    if not keys:
        raise ValueError(f"a key set has 1 to {KEYS_MAX} keys that verify {', '.join(PUBLIC_KEY_ALGORITHMS)}")
    return keys


def secret_key(data: bytes) -> list[TokenKey]:
    """The secret in a key file, without the line end behind it. Raises ValueError for a short one, and for a
    public key, with which everybody could sign.
    """
    secret = data.rstrip(b"\r\n")
    if secret.startswith((b"-----BEGIN", b"ssh-", b"ecdsa-")) or b'"kty"' in secret:
        raise ValueError("it is a key with a public half; a secret for HS256 is random bytes")
    if len(secret) < SECRET_BYTES_MIN:
        raise ValueError(f"a secret of {len(secret)} bytes is too short: it has at least {SECRET_BYTES_MIN}")
    algorithms = tuple(name for name in SECRET_KEY_ALGORITHMS if len(secret) * 8 >= int(name[2:]))
    return [TokenKey(None, algorithms, OctKey.import_key(secret))]


def _understood(keys: list[Any]) -> Iterator[TokenKey]:
    for each in keys:
        algorithms = _algorithms_of(each) if isinstance(each, dict) else ()
        if not algorithms:
            continue
        try:
            if each["kty"] == "RSA" and _bits(each["n"]) < RSA_BITS_MIN:
                continue
            key = JWKRegistry.import_key(each)
        except Exception:  # whatever joserfc and cryptography raise for what is no key
            continue
        yield TokenKey(each.get("kid"), algorithms, key)


def _bits(number: str) -> int:
    """The length of a number of a key, which is in base64."""
    return int.from_bytes(urlsafe_b64decode(number + "=" * (-len(number) % 4))).bit_length()


def _algorithms_of(key: dict[str, Any]) -> tuple[str, ...]:
    """The algorithms that a key of a set is for, as far as we know them."""
    kinds = {"RSA": ("RS256", "PS256"), "EC": _BY_CURVE, "OKP": _BY_CURVE}.get(str(key.get("kty")), ())
    fits = kinds.get(str(key.get("crv")), ()) if isinstance(kinds, dict) else kinds
    verifies = key.get("use", "sig") == "sig" and "verify" in key.get("key_ops", ["verify"])
    return tuple(name for name in fits if verifies and key.get("alg", name) == name)
