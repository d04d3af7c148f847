"""Names of users and groups in commands. Rights may be given to who is not there yet: the reply says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.security.facts import ADMINISTRATORS, OWN_USERS, Principal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.commands.catalog import Catalog
    from broker.commands.requests import Entity


def doubts(entities: Iterable[Entity], catalog: Catalog) -> list[str]:
    """A warning for each entity that does not exist yet. It names the one of another case, if there is one: commands
    make upper case of what is not in quotes.
    """
    return [line for kind, name in entities for line in _doubt(kind, name, catalog)]


def doubts_about_check(name: str, catalog: Catalog) -> list[str]:
    """A warning if CONNAUTH names what cannot check anybody."""
    definition = catalog.find("AUTHINFO", name)
    if definition is not None and definition.attributes["AUTHTYPE"] == OWN_USERS:
        return []
    what = "there is no such AUTHINFO" if definition is None else "it is not of AUTHTYPE(IDPWOS)"
    return [f"EMQ0025W: CONNAUTH({name}) lets in nobody who must be checked: {what}."]


def others_of_new_user(name: str, catalog: Catalog) -> list[str]:
    """A warning if a user that is to be made differs from another in its case alone."""
    return [_of_another_case(f"user {name} is another than", [other])
            for other in _like(name, catalog.users)]  # fmt: skip


def groups_of(user: str, catalog: Catalog) -> tuple[str, ...]:
    """The groups that a user is in."""
    found = catalog.users.get(user)
    return () if found is None else found.groups


def _doubt(kind: Principal, name: str, catalog: Catalog) -> list[str]:
    if name == ADMINISTRATORS:
        return []
    if kind is Principal.USER:
        known: Iterable[str] = catalog.users
        missing = f"there is no user {name} yet"
    else:
        known = {group for user in catalog.users.values() for group in user.groups}
        missing = f"no user is in a group {name} yet"
    if name in known:
        return []
    others = _like(name, known)
    return [_of_another_case(f"{missing}, but there is", others) if others else f"EMQ0023W: {missing}."]


def _like(name: str, known: Iterable[str]) -> list[str]:
    """The names that differ from this one in case alone."""
    return sorted(other for other in {*known, ADMINISTRATORS} if other != name and other.upper() == name.upper())


def _of_another_case(what: str, others: list[str]) -> str:
    return f"EMQ0023W: {what} {', '.join(others)}: names keep their case only in quotes."
