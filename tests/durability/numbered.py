"""Messages that tell who put them, and whether they are whole."""

from __future__ import annotations


def body(key: str, length: int) -> bytes:
    """The data of the message `key`: its name, its length, and filler that depends on the name."""
    head = f"{key} {length} ".encode()
    filler = f"{key}|".encode()
    return (head + filler * (max(length - len(head), 0) // len(filler) + 1))[: max(length, len(head))]


def key_of(data: bytes) -> str:
    """The name of a message; raises AssertionError when its data is not as it was put."""
    key, length, _ = data.split(b" ", 2)
    assert data == body(key.decode(), int(length)), f"message {key.decode()} is not what was put: {data[:100]!r}"
    return key.decode()
