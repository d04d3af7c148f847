"""Who a job is for its queue manager: files, which each process of the job finds and reads by itself.

Options stand in plans, event logs and Spark's web interface, so they name files and hold no secret. A file is a path on
the machine of the process, or the name of one that was given to Spark by `--files`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import broker


class JobCredentials(NamedTuple):
    """The options `user` to `tokenFile`, "" where they are not given."""

    user: str = ""
    channel: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    password_file: str = ""
    token_file: str = ""

    def as_arguments(self) -> dict[str, Any]:
        """Return the arguments of `broker.connect`, for this process. ValueError for a key without a certificate."""
        given: dict[str, Any] = {"user": self.user, "channel": self.channel}
        if self.password_file:
            given["password"] = Path(located(self.password_file))
        if self.token_file:
            given["token"] = Path(located(self.token_file))
        if self.ca_file or self.cert_file or self.key_file:
            ca, certificate, key = map(located, (self.ca_file, self.cert_file, self.key_file))
            given["tls"] = broker.TLS(ca=ca or None, certificate=certificate or None, key=key or None)
        return given


NO_CREDENTIALS = JobCredentials()


def located(file: str) -> str:
    """Return the path of a file in this process: the one given, or that of `--files` by this name."""
    if not file or os.path.dirname(file) or os.path.exists(file):
        return file
    from pyspark import SparkFiles

    try:
        root = SparkFiles.getRootDirectory()
    except Exception:  # there is no session in this process
        return file
    if not os.path.isdir(root):  # the driver's process of a stream is told a folder that Spark never makes, below that
        root = os.path.dirname(root)
    given = os.path.join(root, file)
    return given if os.path.exists(given) else file
