"""The folder in which a command was started, as a place of modules with handlers."""

import os
import sys


def search() -> None:
    """Have modules searched in the current folder first. What this program itself still needs is imported before: a
    file of that name that lies there, in a folder others may write to, is not run in its place.
    """
    import uvloop  # noqa: F401

    sys.path.insert(0, os.getcwd())
