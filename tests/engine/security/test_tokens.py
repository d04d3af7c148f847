"""JSON web tokens: the user and the end of a good one, and each bad one refused (security 4.7)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from base64 import urlsafe_b64encode
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.engine.security.token_keys import ASKED_EVERY
from broker.engine.security.token_settings import TokenSettings
from broker.engine.security.tokens import TOKEN_BYTES_MAX, TokenRefusedError, Tokens, TokenUser
from broker.testing import VirtualClock, settle
from broker.testing.clock import NEW_YEAR_2026
from tests.engine.security.issuer import AUDIENCE, ISSUER, key, key_set, served, token, token_by_secret, unsigned
from tests.handlers.loops import both_loops

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOW = NEW_YEAR_2026
BOB = TokenUser("bob", NOW + 300)
SECRET = b"0123456789abcdef" * 2


@asynccontextmanager
async def checked(clock: VirtualClock | None = None, **settings: Any) -> AsyncIterator[Tokens]:
    """Tokens by these settings, whose task runs and has fetched what there is."""
    fields = {"issuer": ISSUER, "audience": AUDIENCE, **settings}
    tokens = Tokens(TokenSettings(**fields), clock or VirtualClock())
    task = asyncio.get_running_loop().create_task(tokens.run())
    try:
        yield tokens
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


@pytest.fixture
def keys(tmp_path: Path) -> str:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set("rsa-1", "ec-1", "ed-1", "ed448-1"))
    return str(file)


async def refused(tokens: Tokens, bad: str | bytes) -> str:
    """The words of a refusal, which never repeat the token."""
    with pytest.raises(TokenRefusedError) as caught:
        await tokens.verify(bad)
    for part in bad.split(".") if isinstance(bad, str) else ():
        assert len(part) < 20 or part not in str(caught.value)
    return str(caught.value)


@both_loops
@pytest.mark.parametrize(
    ("kid", "algorithm"),
    [("rsa-1", "RS256"), ("rsa-1", "PS256"), ("ec-1", "ES256"), ("ed-1", "EdDSA"), ("ed448-1", "EdDSA")],
)
async def test_a_token_of_each_algorithm_names_a_user_and_its_end(kid: str, algorithm: str, keys: str) -> None:
    async with checked(jwks=keys) as tokens:
        assert await tokens.verify(token(kid, algorithm)) == BOB
        assert await tokens.verify(token(kid, algorithm).encode()) == BOB
        one_algorithm_off = tuple(each for each in ("RS256", "PS256", "ES256", "EdDSA") if each != algorithm)
    async with checked(jwks=keys, algorithms=one_algorithm_off) as tokens:
        assert "its algorithm is" in await refused(tokens, token(kid, algorithm))


@pytest.mark.parametrize(
    "good",
    [
        {"aud": ["other", AUDIENCE]},
        {"exp": NOW + 0.5},
        {"nbf": NOW + 30, "iat": NOW + 30},
        {"iat": None},
        {"sub": "A.b-c_d-e.12"},
        {"header": {"typ": None, "x": "of any name"}},
        {"header": {"typ": "at+jwt"}},
    ],
)
async def test_what_a_token_may_have(good: dict[str, Any], keys: str) -> None:
    async with checked(jwks=keys) as tokens:
        assert await tokens.verify(token(**good)) == TokenUser(good.get("sub", "bob"), good.get("exp", NOW + 300))


async def test_another_claim_can_be_the_user(keys: str) -> None:
    async with checked(jwks=keys, user_claim="preferred") as tokens:
        assert await tokens.verify(token(preferred="alice")) == TokenUser("alice", NOW + 300)
        assert "its preferred is None" in await refused(tokens, token())


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"exp": NOW}, "ended 0 seconds ago"),
        ({"exp": NOW - 3600}, "ended 3600 seconds ago"),
        ({"exp": None}, "no end"),
        ({"exp": "tomorrow"}, "its exp is 'tomorrow'"),
        ({"exp": True}, "its exp is True"),
        ({"exp": 10**400}, "its exp is 1000"),
        ({"exp": -1}, "its exp is -1"),
        ({"exp": float("nan")}, "its exp is nan"),
        ({"nbf": NOW + 31}, "holds only in 31 seconds (nbf)"),
        ({"iat": NOW + 31}, "holds only in 31 seconds (iat)"),
        ({"iat": "now"}, "its iat is 'now'"),
        ({"iss": "https://other.example"}, "its issuer is 'https://other.example'"),
        ({"iss": None}, "its issuer is None"),
        ({"iss": [ISSUER]}, "its issuer is ["),
        ({"aud": "other"}, "its audience is 'other'"),
        ({"aud": ["other", ["evermq"]]}, "its audience is ["),
        ({"aud": None}, "its audience is None"),
        ({"sub": None}, "its sub is None"),
        ({"sub": "bob@issuer.example"}, "no name of a user"),
        ({"sub": "thirteen-char"}, "no name of a user"),
        ({"sub": "b\u00f6b"}, r"its sub is 'b\xf6b'"),
        ({"sub": "bob\nuser=mqm"}, r"its sub is 'bob\nuser=mqm'"),
        ({"sub": 7}, "its sub is 7"),
        ({"sub": "x" * 5000}, "xxx..., no name"),
        ({"content": b"[]"}, "no object"),
        ({"content": b"claims"}, "not signed"),
        ({"content": b"\xff"}, "not signed"),
        ({"content": b"[" * 4000}, "not signed"),
    ],
)
async def test_x4_6_a_token_whose_claims_do_not_hold_is_refused(bad: dict[str, Any], why: str, keys: str) -> None:
    async with checked(jwks=keys) as tokens:
        assert why in await refused(tokens, token(**bad))


def _tampered() -> str:
    """A good token for bob whose claims were changed to name another user."""
    head, _, signature = token().split(".")
    return f"{head}.{token(sub='mqm').split('.')[1]}.{signature}"


PEM = key("rsa-1").as_pem(private=False)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (token("ed-9"), "its key 'ed-9' is none"),
        (token("ed-1", by=key("ed-9")), "not signed"),
        (token("rsa-1", "RS256", header={"kid": "ed-1"}), "its key 'ed-1' is none"),
        (token("ed-1", header={"kid": 7}), "kid"),
        (token("ed-1", header={"kid": None}), "its key None is none"),  # there are two that fit
        (token("ed-1", header={"crit": ["exp"]}), "crit"),
        (token("rsa-1", "RS512"), "its algorithm is 'RS512'"),
        (unsigned({"alg": "none", "kid": "ed-1"}), "its algorithm is 'none'"),
        (unsigned({"alg": "None", "kid": "ed-1"}), "its algorithm is 'None'"),
        (unsigned({"alg": ["EdDSA"], "kid": "ed-1"}), "its algorithm is ['EdDSA']"),
        (unsigned({"kid": "ed-1"}), "its algorithm is None"),
        (unsigned([]), "no JSON web token"),
        (unsigned({"alg": "EdDSA", "kid": "ed-1"}), "not signed"),
        (unsigned({"alg": "EdDSA", "kid": "ed-1"}, "AAAA"), "not signed"),
        (unsigned({"alg": "ES256", "kid": "ec-1"}, "A" * 86), "not signed"),
        (unsigned({"alg": "RS256", "kid": "rsa-1"}, "!"), "not signed"),
        (token_by_secret(PEM), "its algorithm is 'HS256'"),
        (_tampered(), "not signed"),
        (token() + ".more", "not signed"),
        (token().rpartition(".")[0], "not signed"),
        ("", "no JSON web token"),
        (b"", "no JSON web token"),
        ("a.b.c", "no JSON web token"),
        ("[" * 9000 + ".x.y", "no JSON web token"),
        (urlsafe_b64encode(b"[" * 9000).decode() + ".x.y", "no JSON web token"),
        ("\u00e4.b.c", "characters that no token has"),
        (b"\xff.b.c", "characters that no token has"),
        (token(padding="x" * 1024 * 1024), "longer than 16 KiB"),  # 1 MiB
        ("x" * (TOKEN_BYTES_MAX + 1), "longer than 16 KiB"),
    ],
    ids=range(29),
)
async def test_x4_6_a_token_that_its_issuer_has_not_signed_is_refused(bad: str | bytes, why: str, keys: str) -> None:
    async with checked(jwks=keys) as tokens:
        await settle()
        assert why in await refused(tokens, bad)


async def test_a_token_of_nearly_sixteen_kib_is_good(keys: str) -> None:
    async with checked(jwks=keys) as tokens:
        assert await tokens.verify(token(padding="x" * 11_500)) == BOB


async def test_a_token_is_good_to_its_very_end(keys: str) -> None:
    clock = VirtualClock()
    async with checked(clock, jwks=keys) as tokens:
        good = token()
        assert await tokens.verify(good) == BOB
        clock.step(299.75)
        assert await tokens.verify(good) == BOB
        clock.step(0.25)
        assert "ended 0 seconds ago" in await refused(tokens, good)


async def test_a_secret_in_a_file_verifies_hs256_beside_public_keys(keys: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(SECRET + b"\n")
    async with checked(jwks=keys, key_file=str(file), algorithms=("ES256", "HS256")) as tokens:
        assert await tokens.verify(token_by_secret(SECRET)) == BOB
        assert await tokens.verify(token_by_secret(SECRET, kid=None)) == BOB
        assert await tokens.verify(token("ec-1", "ES256")) == BOB
        assert "not signed" in await refused(tokens, token_by_secret(PEM))
        assert "not signed" in await refused(tokens, token_by_secret(SECRET[::-1]))
    async with checked(key_file=str(file), algorithms=("HS256",)) as tokens:
        assert await tokens.verify(token_by_secret(SECRET)) == BOB


async def test_a_secret_that_others_may_write_verifies_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(SECRET)
    file.chmod(0o606)
    async with checked(key_file=str(file), algorithms=("HS256",)) as tokens:
        assert "is none" in await refused(tokens, token_by_secret(SECRET))
    assert f"others may write {file} (mode 0606)" in caplog.text


async def test_x4_6_a_public_key_in_the_place_of_the_secret_is_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "public.pem"
    file.write_bytes(PEM)
    async with checked(key_file=str(file), algorithms=("HS256",)) as tokens:
        assert "is none" in await refused(tokens, token_by_secret(PEM))
    assert "public.pem has no key for tokens: it is a key with a public half" in caplog.text


@both_loops
async def test_x4_6_keys_are_rolled_over_while_the_issuer_serves_them(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with served(tmp_path) as issuer:
        issuer.publish("ed-1")
        async with checked(clock, jwks=issuer.url, ca=issuer.ca) as tokens:
            assert await tokens.verify(token("ed-1")) == BOB
            issuer.publish("ed-1", "ec-2")
            await clock.advance(ASKED_EVERY)
            assert await tokens.verify(token("ec-2", "ES256")) == BOB
            assert await tokens.verify(token("ed-1")) == BOB
            issuer.publish("ec-2")
            await clock.advance(ASKED_EVERY)
            strangers = [token("ed-1", header={"kid": f"random {number}"}) for number in range(1000)]
            answers = await asyncio.gather(*map(tokens.verify, strangers), return_exceptions=True)
            assert {type(each) for each in answers} == {TokenRefusedError}
            assert len(issuer.requests) == 3
            assert "its key 'ed-1' is none" in await refused(tokens, token("ed-1"))
            assert await tokens.verify(token("ec-2", "ES256")) == BOB


@both_loops
async def test_an_issuer_that_is_out_of_reach_is_told_once_and_its_keys_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    async with served(tmp_path) as issuer:
        issuer.publish("ed-1")
        async with checked(clock, jwks=issuer.url, ca=issuer.ca) as tokens:
            assert await tokens.verify(token("ed-1")) == BOB
            issuer.answer = b"HTTP/1.1 200 OK\r\n\r\n{}"
            await clock.advance(ASKED_EVERY)
            for _ in range(2):
                assert "is none" in await refused(tokens, token("ed-2"))
                await clock.advance(ASKED_EVERY)
            assert await tokens.verify(token("ed-1")) == BOB
    assert caplog.text.count("has no key for tokens: it is no key set") == 1


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"issuer": ""}, r"\[tokens\] issuer is empty"),
        ({"audience": ""}, r"\[tokens\] audience is empty"),
        ({"user_claim": ""}, r"\[tokens\] user_claim is empty"),
        ({"algorithms": ()}, r"\[tokens\] algorithms is empty: name some of RS256"),
        ({"algorithms": ("none",)}, r"\[tokens\] algorithms names 'none': there are RS256"),
        ({"algorithms": ("ES256", "HS256")}, "set key_file"),
        ({"jwks": ""}, r"\[tokens\] jwks is the URL of https, or the file"),
        ({"jwks": "http://issuer.example/keys"}, "no URL of the form https"),
    ],
)
def test_settings_that_would_believe_anybody_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        TokenSettings(**{"issuer": ISSUER, "audience": AUDIENCE, "jwks": "keys.json", **settings})


def test_without_joserfc_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc.jwk", None)
    monkeypatch.delitem(sys.modules, "broker.engine.security.signatures", raising=False)
    monkeypatch.delattr("broker.engine.security.signatures", raising=False)
    with pytest.raises(RuntimeError, match=r"pip install 'evermq\[tokens\]'"):
        Tokens(TokenSettings(issuer=ISSUER, audience=AUDIENCE, jwks="keys.json"), VirtualClock())


def test_passwords_are_verified_without_loading_what_tokens_need() -> None:
    program = (
        "import sys, broker.engine.security.verifier, broker.engine.security.tokens; "
        "print([name for name in ('joserfc', 'cryptography', 'concurrent.futures.thread') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
