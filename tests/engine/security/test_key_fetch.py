"""The keys of an issuer are fetched: by HTTPS or from a file, with bounds (security 4.7)."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from broker.engine.security import key_fetch
from broker.engine.security.key_fetch import BYTES_MAX, KeysOutOfReachError, check_place, fetch
from tests.engine.security.issuer import served
from tests.handlers.loops import both_loops

BIG = b"x" * (BYTES_MAX + 1)


@both_loops
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nkeys!more",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nkey\r\n2\r\ns!\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nkeys!",
    ],
    ids=["length", "chunks", "end of line"],
)
async def test_a_body_is_read_in_each_form(answer: bytes, tmp_path: Path) -> None:
    async with served(tmp_path) as issuer:
        issuer.answer = answer
        assert await fetch(issuer.url, issuer.ca) == b"keys!"
    (request,) = issuer.requests
    assert request.startswith(b"GET /keys?tenant=1 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nConnection: close\r\n" in request


@both_loops
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404 Not Found"),
        (b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1/\r\n\r\n", "302 Found"),
        (b"SSH-2.0-x\r\n\r\n", "SSH"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 262145\r\n\r\n" + BIG, "256 KiB"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "below 0"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "has not given"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40001\r\n" + BIG, "256 KiB"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nke", "broken off"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + BIG, "256 KiB"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nkey", "broken off"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40_000 + b"\r\n\r\n", "has not given"),
        (b"", "broken off"),
    ],
)
async def test_another_answer_is_an_error_that_names_the_place(answer: bytes, why: str, tmp_path: Path) -> None:
    async with served(tmp_path) as issuer:
        issuer.answer = answer
        with pytest.raises(KeysOutOfReachError, match=why) as caught:
            await fetch(issuer.url, issuer.ca)
    assert str(caught.value).startswith("https://127.0.0.1:")
    assert "tenant" not in str(caught.value)


@both_loops
async def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_fetch, "SECONDS_MAX", 0.05)
    async with served(tmp_path) as issuer:
        issuer.hangs = True
        with pytest.raises(KeysOutOfReachError, match=r"has not answered within 0\.05 seconds"):
            await fetch(issuer.url, issuer.ca)


@both_loops
async def test_a_server_that_does_not_prove_its_name_is_not_asked(tmp_path: Path) -> None:
    async with served(tmp_path, host="192.0.2.1") as issuer:
        with pytest.raises(KeysOutOfReachError, match=r"has not proved who it is: .*127\.0\.0\.1"):
            await fetch(issuer.url, issuer.ca)
        other = tmp_path / "other.pem"
        trustme.CA().cert_pem.write_to_path(other)
        with pytest.raises(KeysOutOfReachError, match="has not proved who it is: unable to get local issuer"):
            await fetch(issuer.url, str(other))
        with pytest.raises(KeysOutOfReachError, match="has not proved who it is"):
            await fetch(issuer.url)  # the system knows nothing of ours
    assert issuer.requests == []


async def test_nobody_there_is_an_error(tmp_path: Path) -> None:
    async with served(tmp_path) as issuer:
        pass
    with pytest.raises(KeysOutOfReachError, match="has not given the keys"):
        await fetch(issuer.url, issuer.ca)
    with pytest.raises(KeysOutOfReachError, match="has not given the keys"):
        await fetch(issuer.url, str(tmp_path / "missing.pem"))


async def test_a_file_is_read_up_to_the_same_size(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(BIG[:-1])
    assert await fetch(str(file)) == BIG[:-1]
    file.write_bytes(BIG)
    with pytest.raises(KeysOutOfReachError, match="256 KiB"):
        await fetch(str(file))
    with pytest.raises(KeysOutOfReachError, match="missing"):
        await fetch(str(tmp_path / "missing"))


@pytest.mark.parametrize("place", ["https://a.example/k", "https://a:8443", "/etc/keys.json", "keys.json"])
def test_a_place_is_a_url_of_https_or_a_file(place: str) -> None:
    assert check_place(place) is None


@pytest.mark.parametrize(
    "place",
    ["", "http://a/k", "file:///k", "https://", "https://u:secret@a/k", "https://a/k k", "https://a:port/", "https://[a",
     "https://a:0/", "https://\u00e4/", "a\nb"],
)  # fmt: skip
def test_another_place_is_refused(place: str) -> None:
    fault = check_place(place)
    assert fault is not None
    assert "secret" not in fault
