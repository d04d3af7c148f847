"""The scripts in `docs/scripts` that make pages and samples, for the tests that hold what they made to the code."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "docs" / "scripts"


def script(name: str) -> ModuleType:
    """A script as a module, which finds the modules beside it as it does when it is run."""
    if str(SCRIPTS) not in sys.path:
        sys.path.append(str(SCRIPTS))
    return import_module(name)
