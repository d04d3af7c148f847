"""The keys of an issuer, as they are known from hour to hour (security 4.7)."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from broker.engine.security.key_fetch import KeysOutOfReachError
from broker.engine.security.signatures import KEYS_MAX, TokenKey, public_keys, secret_key
from broker.engine.security.token_keys import (
    ASKED_EVERY,
    FETCHED_EVERY,
    KEPT_SECONDS,
    RETRIED_EVERY,
    TokenKeys,
)
from broker.testing import VirtualClock, settle
from tests.engine.security.issuer import key, key_set, public
from tests.handlers.loops import both_loops

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = both_loops


class Source:
    """Keys that the test publishes, and the fetches of them. A fetch ends when `gate` is open."""

    def __init__(self, *kids: str) -> None:
        self.kids = kids
        self.fetches = 0
        self.fails = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.clock = VirtualClock()
        self.keys = TokenKeys(self.fetch, self.clock)

    async def fetch(self) -> list[TokenKey]:
        self.fetches += 1
        await self.gate.wait()
        if self.fails:
            raise KeysOutOfReachError("nobody is there")
        return public_keys(key_set(*self.kids))

    async def kid(self, kid: str | None, algorithm: str = "EdDSA") -> str | None:
        """The name of the key that is found."""
        found = await self.keys.find(algorithm, kid)
        return None if found is None else found.kid


@asynccontextmanager
async def running(source: Source) -> AsyncIterator[Source]:
    task = asyncio.get_running_loop().create_task(source.keys.run())
    await settle()
    yield source
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_key_is_found_by_its_name_and_without_one_where_it_is_the_only_one() -> None:
    async with running(Source("ed-1", "ec-1", "rsa-1", "rsa-2")) as source:
        assert await source.kid("ed-1") == "ed-1"
        assert await source.kid("ed-1", "ES256") is None
        assert await source.kid(None) == "ed-1"
        assert await source.kid(None, "ES256") == "ec-1"
        assert await source.kid(None, "RS256") is None


async def test_x4_6_a_new_key_is_fetched_when_a_token_names_it_and_an_old_one_is_gone() -> None:
    async with running(Source("ed-1")) as source:
        await source.clock.advance(ASKED_EVERY)
        source.kids = ("ed-2",)
        assert await source.kid("ed-1") == "ed-1"
        assert source.fetches == 1
        assert await source.kid("ed-2") == "ed-2"
        assert await source.kid("ed-1") is None
        assert source.fetches == 2


async def test_x4_6_a_thousand_unknown_names_are_one_fetch() -> None:
    async with running(Source("ed-1")) as source:
        await source.clock.advance(ASKED_EVERY)
        found = await asyncio.gather(*(source.kid(f"random {number}") for number in range(1000)))
        assert found == [None] * 1000
        assert source.fetches == 2
        await source.clock.advance(ASKED_EVERY - 1)
        assert await source.kid("another") is None
        assert source.fetches == 2
        await source.clock.advance(1)
        assert await source.kid("another") is None
        assert source.fetches == 3


async def test_known_names_do_not_wait_while_keys_are_fetched() -> None:
    async with running(Source("ed-1")) as source:
        await source.clock.advance(ASKED_EVERY)
        source.gate.clear()
        unknown = asyncio.get_running_loop().create_task(source.kid("ed-2"))
        await settle()
        assert not unknown.done()
        assert await source.kid("ed-1") == "ed-1"
        source.kids = ("ed-1", "ed-2")
        source.gate.set()
        assert await unknown == "ed-2"


async def test_the_first_tokens_wait_for_the_first_fetch() -> None:
    source = Source("ed-1")
    source.gate.clear()
    async with running(source):
        first = asyncio.get_running_loop().create_task(source.kid("ed-1"))
        left = asyncio.get_running_loop().create_task(source.kid("ed-1"))
        await settle()
        left.cancel()
        source.gate.set()
        assert await first == "ed-1"
        assert source.fetches == 1


async def test_keys_are_fetched_hourly() -> None:
    async with running(Source("ed-1")) as source:
        source.kids = ("ed-2",)
        await source.clock.advance(FETCHED_EVERY - 1)
        assert source.fetches == 1
        await source.clock.advance(1)
        await settle()
        assert source.fetches == 2
        assert await source.kid("ed-1") is None


async def test_an_asked_fetch_begins_the_hour_anew() -> None:
    async with running(Source("ed-1")) as source:
        await source.clock.advance(FETCHED_EVERY / 2)
        assert await source.kid("ed-2") is None
        await source.clock.advance(FETCHED_EVERY / 2 + 1)
        assert source.fetches == 2


async def test_keys_out_of_reach_are_kept_for_a_day(caplog: pytest.LogCaptureFixture) -> None:
    async with running(Source("ed-1")) as source:
        source.fails = True
        with caplog.at_level(logging.INFO):
            await source.clock.advance(KEPT_SECONDS)
            assert await source.kid("ed-1") == "ed-1"
            await source.clock.advance(1)
            assert await source.kid("ed-1") is None
            source.fails = False
            await source.clock.advance(RETRIED_EVERY)
            await settle()
        assert await source.kid("ed-1") == "ed-1"
    told = [record.getMessage() for record in caplog.records if "keys of tokens" in record.getMessage()]
    assert told == [
        "keys of tokens not fetched, known ones stay a day keys=1: nobody is there",
        "keys of tokens fetched again keys=1",
    ]


async def test_a_token_may_come_before_the_task_has_begun() -> None:
    source = Source("ed-1")
    waiting = asyncio.get_running_loop().create_task(source.kid("ed-1"))
    await settle()
    async with running(source):
        assert await waiting == "ed-1"


async def test_behind_the_end_of_the_task_nobody_waits_and_nothing_is_fetched() -> None:
    source = Source("ed-1")
    source.gate.clear()
    async with running(source):
        waiting = asyncio.get_running_loop().create_task(source.kid("ed-1"))
        await settle()
        assert not waiting.done()
    assert await waiting is None
    await source.clock.advance(ASKED_EVERY)
    assert await source.kid("ed-1") is None
    assert source.fetches == 1


def _read(data: object) -> list[tuple[str | None, tuple[str, ...]]]:
    return [(each.kid, each.algorithms) for each in public_keys(json.dumps(data).encode())]


def _set(*keys: object) -> dict[str, Any]:
    return {"keys": [*keys, public("ed-1")]}


GOOD = ("ed-1", ("EdDSA",))


@pytest.mark.parametrize(
    ("each", "algorithms"),
    [
        (public("rsa-1"), ("RS256", "PS256")),
        (public("rsa-1", alg="PS256"), ("PS256",)),
        (public("ec-1"), ("ES256",)),
        (public("ed448-1"), ("EdDSA",)),
        (public("ed-2", key_ops=["verify"]), ("EdDSA",)),
        ({name: value for name, value in public("ed-2").items() if name != "kid"}, ("EdDSA",)),
    ],
)
async def test_a_key_is_taken_for_the_algorithms_that_it_is_for(each: dict[str, Any], algorithms: tuple[str]) -> None:
    assert _read(_set(each)) == [(each.get("kid"), algorithms), GOOD]


@pytest.mark.parametrize(
    "each",
    [
        public("weak-1"),
        public("p384-1"),
        public("rsa-1", use="enc"),
        public("rsa-1", key_ops=["encrypt"], use=None),
        public("rsa-1", alg="RSA-OAEP"),
        public("rsa-1", n="!"),
        public("ec-1", x=3),
        public("ed-2", kty="AKP"),
        public("ed-2", kid=7),
        {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "kid": "ed-3"},
        {},
        {"kty": ["RSA"]},
        7,
        None,
    ],
    ids=range(14),
)
async def test_another_key_of_a_set_is_passed_over(each: object) -> None:
    assert _read(_set(each)) == [GOOD]


@pytest.mark.parametrize(
    "data",
    [b"", b"keys", b"[]", b"{}", b'{"keys": 7}', b'{"keys": []}', b'{"keys": [{}]}', b"[" * 100_000, b"\xff",
     json.dumps({"keys": [public("ed-1")] * (KEYS_MAX + 1)}).encode()],
    ids=range(10),
)  # fmt: skip
async def test_what_is_no_key_set_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="key set"):
        public_keys(data)


@pytest.mark.parametrize(
    ("bytes_", "algorithms"),
    [(32, ("HS256",)), (48, ("HS256", "HS384")), (64, ("HS256", "HS384", "HS512"))],
)
async def test_a_secret_serves_the_algorithms_that_it_is_long_enough_for(
    bytes_: int, algorithms: tuple[str, ...]
) -> None:
    (found,) = secret_key(b"s" * bytes_ + b"\n")
    assert found.algorithms == algorithms
    assert found.kid is None
    assert "sss" not in repr(found)


@pytest.mark.parametrize(
    "data",
    [
        b"short",
        b"",
        key("rsa-1").as_pem(private=False),  # type: ignore[union-attr]
        json.dumps(public("rsa-1")).encode(),
        b"ssh-ed25519 " + b"A" * 64,
    ],
    ids=["short", "empty", "PEM", "JSON", "ssh"],
)
async def test_x4_6_a_public_key_is_no_secret(data: bytes) -> None:
    with pytest.raises(ValueError, match="secret"):
        secret_key(data)
