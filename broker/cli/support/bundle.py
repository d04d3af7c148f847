"""The file of a bundle: a folder in a tar file, compressed, that its owner alone may read."""

from __future__ import annotations

import io
import os
import tarfile
import time
from typing import TYPE_CHECKING, Final

from broker.mqi import MQError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MODE: Final = 0o600


class Bundle:
    """Parts by the names of their files. `missing` has those that could not be made, with the reason."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self.missing: dict[str, str] = {}

    def add(self, name: str, text: str) -> None:
        """Take in a part."""
        self.parts[name] = text

    def leave_out(self, name: str, why: object) -> None:
        """Tell why a part is not there."""
        self.missing[name] = str(why)

    def make(self, name: str, made: Callable[[], str]) -> None:
        """Take in what `made` returns, or the reason why it could not be made."""
        try:
            self.add(name, made())
        except (MQError, OSError, ValueError) as error:
            self.leave_out(name, error)

    def write(self, path: Path, folder: str) -> None:
        """Write all parts, in a folder, to a new file that its owner alone may read. Raises OSError, FileExistsError
        among them.
        """
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        with os.fdopen(opened, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, text in {**self.parts, **self._told()}.items():
                data = text.encode(errors="replace")
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size, member.mode, member.mtime = len(data), _MODE, int(time.time())
                archive.addfile(member, io.BytesIO(data))

    def _told(self) -> dict[str, str]:
        told = "".join(f"{name}: {why}\n" for name, why in self.missing.items())
        return {"missing.txt": told} if told else {}
