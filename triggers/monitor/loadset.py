"""The modules of handlers as they are loaded now, and their replacement while the monitor runs.

TPF activates a new loadset, and the next instance of the monitor runs it (S-23). Here a loadset is the modules that
were named, with the modules of their own packages that they import. The next generation loads what has changed:

1. A module's own package is the first part of its dotted name: of `shop.handlers.orders`, `shop` and all below it. A
   module outside any package is its own alone. What is installed beside (other packages, `broker`, `triggers`, the
   standard library) is never loaded again: its objects are shared with the rest of the program.
2. A module has changed when its file has another modification time, size or inode: so `os.replace` is seen too. Loaded
   afresh is what has changed, and what imports it, directly or not, up to the named modules. What has not changed keeps
   its state. What imports what is read off the sources: a module that is imported by a computed name is not seen.
3. Afresh: into a new module object under its own name, compiled from the source and never from cached bytecode, whose
   resolution of a second misses changes. The old object stays as it is, and serves the handlers that run (R-3). There
   is no `importlib.reload`, which would change it under their feet.
4. All or nothing: when one does not load, or two of the new handlers serve one process, all old ones are put back
   and go on (R-4). It is tried again when one of the files changes, or when something is put into their folders.
5. Modules that were given as objects are not loaded again.

Loading runs the code of the modules on the event loop: what it does for long, such as connecting somewhere, holds all
that runs there.
"""

from __future__ import annotations

import ast
import logging
import os
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import invalidate_caches
from importlib.abc import MetaPathFinder
from importlib.machinery import SourceFileLoader
from importlib.util import resolve_name
from typing import TYPE_CHECKING, Final, TypeAlias

from triggers.monitor.handlers import HandlerImportError, Handlers, imported, modules_or_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

    _Owns: TypeAlias = Callable[[str], bool]

logger = logging.getLogger(__name__)

Fingerprint: TypeAlias = tuple[int, int, int] | None
"""Modification time in nanoseconds, size and inode of a file; None: there is no file."""

_SHARED: Final = frozenset({"broker", "triggers", "__main__", *sys.stdlib_module_names})
"""Packages that are never loaded again, whoever names a module of theirs."""


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """A module of the loadset: its file as it was when it was read, and the modules of its package that it imports."""

    module: ModuleType
    path: str
    fingerprint: Fingerprint
    imports: frozenset[str]


class Loadset:
    """The handlers of the given modules; `refresh` loads anew what has changed.

    Raises HandlerImportError for a module that does not import, ValueError for two handlers of one process, TypeError
    for what is no list of modules or dotted names.
    """

    def __init__(self, given: Iterable[ModuleType | str]) -> None:
        self.loads = 0
        """The number of times that changed modules were loaded."""
        self.error = ""
        """The reason why the modules that have changed are not those that serve; empty when they are."""
        self.given = modules_or_names(given)
        self._names = [each for each in self.given if isinstance(each, str)]
        self._own = frozenset(name.partition(".")[0] for name in self._names) - _SHARED
        self._loaded: dict[str, LoadedModule] = {}
        self._tried: dict[str, Fingerprint] = {}
        self.handlers = self._load(())

    def refresh(self) -> Handlers:
        """The handlers to use from now on: those of the modules as they are on the disk, if they load."""
        changed = [name for name, each in self._loaded.items() if fingerprint(each.path) != each.fingerprint]
        if not changed:
            self.error = ""
            return self.handlers
        files = {each.path: fingerprint(each.path) for each in self._loaded.values()}
        folders = {folder: fingerprint(folder) for folder in map(os.path.dirname, files)}
        if self.error and self._tried == files | folders:
            return self.handlers
        stale = self._importing(changed)
        try:
            self.handlers = self._load(stale)
        except (HandlerImportError, TypeError, ValueError) as error:
            if not self.error or any(self._tried[path] != files[path] for path in files):
                logger.error(
                    "changed handlers do not load, those loaded before go on: %s",
                    error,
                    extra={"event": "changed_handlers_not_loaded"},
                )
            self.error, self._tried = str(error), files | folders
        else:
            self.error = ""
            self.loads += 1
            logger.info("changed handlers loaded: modules=%s", ",".join(sorted(stale)))
        return self.handlers

    def _importing(self, changed: Sequence[str]) -> set[str]:
        """The changed modules and all that import them, directly or not."""
        stale = set(changed)
        while more := {name for name, each in self._loaded.items() if name not in stale and each.imports & stale}:
            stale |= more
        return stale

    def _load(self, stale: Iterable[str]) -> Handlers:
        """Import the named modules, these modules afresh, and make the table of their handlers."""
        with _absent(stale, self._owns), _from_source(self._owns):
            modules = [imported(each) if isinstance(each, str) else each for each in self.given]
            handlers = Handlers(modules)
        self._loaded = dict(self._reached())
        return handlers

    def _owns(self, name: str) -> bool:
        return name.partition(".")[0] in self._own

    def _reached(self) -> Iterator[tuple[str, LoadedModule]]:
        """The modules of their own packages that the named modules import, directly or not, and these themselves."""
        reached: set[str] = set()
        ahead = {name for name in self._names if self._owns(name)}
        while ahead:
            name = ahead.pop()
            reached.add(name)
            module = sys.modules.get(name)
            path = getattr(module, "__file__", None)
            if module is None or path is None or not path.endswith(".py"):
                continue  # a namespace package, or an extension module
            before = self._loaded.get(name)
            if before is None or before.module is not module:
                before = LoadedModule(
                    module, path, _fingerprint_read(module, path), frozenset(self._imports(module, path))
                )
            yield name, before
            ahead |= before.imports - reached

    def _imports(self, module: ModuleType, path: str) -> Iterator[str]:
        """The modules of the loadset's packages that a module imports. A package comes with what is below it."""
        with suppress(OSError, SyntaxError, ValueError):
            names = set(_imported_names(module, path)) | set(_packages_of(module.__name__))
            yield from (name for name in names if self._owns(name) and name in sys.modules)


def fingerprint(path: str) -> Fingerprint:
    """Return a value that tells one state of a file from another."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _fingerprint_read(module: ModuleType, path: str) -> Fingerprint:
    """The file as it was when the module was read from it, as far as that is known."""
    loader = getattr(module.__spec__, "loader", None)
    return loader.fingerprint if isinstance(loader, _SourceLoader) else fingerprint(path)


def _imported_names(module: ModuleType, path: str) -> Iterator[str]:
    """All names that the import statements in a source may mean."""
    with open(path, "rb") as file:
        tree = ast.parse(file.read(), path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
                yield from _packages_of(alias.name)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            source = resolve_name(source, module.__package__) if node.level else source
            yield source
            yield from _packages_of(source)
            yield from (f"{source}.{alias.name}" for alias in node.names)


def _packages_of(name: str) -> Iterator[str]:
    """The packages that a dotted name is in."""
    while name := name.rpartition(".")[0]:
        yield name


@contextmanager
def _absent(names: Iterable[str], own: _Owns) -> Iterator[None]:
    """Have these modules imported afresh in this block; when it fails, all is as it was before."""
    before = {name: module for name, module in sys.modules.items() if own(name)}
    attributes = [(package, each) for name, module in before.items() for package, each in _attribute(name, module)]
    for name in names:
        module = sys.modules.pop(name, None)
        for package, each in _attribute(name, module):
            delattr(package, each)  # else `from package import module` would find the old one there
    try:
        yield
    except BaseException:
        for name in [name for name in sys.modules if own(name)]:
            del sys.modules[name]
        sys.modules.update(before)
        for package, each in attributes:
            setattr(package, each, before[f"{package.__name__}.{each}"])
        raise


def _attribute(name: str, module: ModuleType | None) -> Iterator[tuple[ModuleType, str]]:
    """The package that has this module as an attribute, and the name of that."""
    package, _, attribute = name.rpartition(".")
    within = sys.modules.get(package)
    if within is not None and module is not None and getattr(within, attribute, None) is module:
        yield within, attribute


@contextmanager
def _from_source(own: _Owns) -> Iterator[None]:
    """Have modules of the own packages compiled from their sources in this block."""
    finder = _SourceFinder(own)
    invalidate_caches()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _SourceFinder(MetaPathFinder):
    """Finds what the other finders do, to be loaded from source."""

    def __init__(self, own: _Owns) -> None:
        self._own = own

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The finder's answer for a module of the own packages; None for any other."""
        if not self._own(fullname):
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if type(spec.loader) is SourceFileLoader:
                    spec.loader = _SourceLoader(fullname, spec.loader.path)
                return spec
        return None


class _SourceLoader(SourceFileLoader):
    """Reads a source file, and neither reads nor writes bytecode."""

    fingerprint: Fingerprint = None

    def get_code(self, fullname: str) -> CodeType:
        """The code of the file as it is now."""
        path = self.get_filename(fullname)
        self.fingerprint = fingerprint(path)  # before it is read: what is replaced meanwhile is seen as a change
        return self.source_to_code(self.get_data(path), path)
