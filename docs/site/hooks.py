"""Let `mkdocs build` show the files in `docs/`, and add to them: the pages of `docs/scripts/site_pages.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT: Final = Path(__file__).parents[2]

sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "scripts")]  # the code of this checkout, installed or not

import site_pages  # noqa: E402


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make the pages that are not committed."""
    for name, make in site_pages.MADE.items():
        files.append(File.generated(config, name, content=make()))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Let blocks of code be such."""
    return site_pages.as_shown(markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Let each old address lead on."""
    for name, text in site_pages.leading_on().items():
        (Path(config.site_dir) / name).write_text(text, "utf-8")
