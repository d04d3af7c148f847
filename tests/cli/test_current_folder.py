"""The current folder is searched for handlers, and for nothing that the program itself imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

RUN = "import sys; sys.path[:] = [p for p in sys.path if p]; from broker.__main__ import main; main()"
POISON = "open('poisoned', 'w').close(); raise SystemExit(66)"


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The console script, which has not the current folder on its path."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("EVERMQ_")}
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        cwd=folder, env={**variables, **environment}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_a_daemon_and_a_worker_run_nothing_that_lies_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "uvloop.py").write_text(POISON)
    (tmp_path / "mine.py").write_text("raise ImportError('mine was found')")
    named = '[queue_manager]\ndata = "data"\n[listener]\nport = 0\n[trigger_monitor]\nhandlers = ["mine"]\n'
    (tmp_path / "broker.toml").write_text(named)
    daemon = run(tmp_path, "run", "--config", "broker.toml")
    worker = run(tmp_path, "worker", "mine", "--url", "mq://127.0.0.1:1")
    assert not (tmp_path / "poisoned").exists()
    assert "mine was found" in daemon.stderr
    assert "mine was found" in worker.stderr
