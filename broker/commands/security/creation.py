"""The creation of an object, with the rights of who creates it; with the first user begins the check of users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.commands import errors
from broker.commands.security.records import record_of_creator
from broker.core.manager import CHECKED, as_checked
from broker.core.names.definitions import Define, together
from broker.core.names.dynamic import is_temporary
from broker.core.security.facts import User

if TYPE_CHECKING:
    from broker.commands.catalog import Catalog
    from broker.core.names.definitions import Change, Definition
    from broker.core.security.caller import Caller


def created(made: Define, catalog: Catalog, caller: Caller | None) -> tuple[Change, ...]:
    """The changes that make a new object. What the group keeps is made before what comes with it of a member's own.
    Raises CommandError for a first user who could let nobody in.
    """
    definition = made.definition
    if definition.kind == "USER":
        with_it = _check_of_users(definition, catalog)
    else:
        with_it = _rights(definition, catalog, caller)
    return (made,) if with_it is None else together((made, with_it))


def _rights(definition: Definition, catalog: Catalog, caller: Caller | None) -> Define | None:
    """The record that gives who creates an object every right on it (security 2.4). Administrators and the owner need
    none; nor does who makes a temporary dynamic queue, which is known by its handle.
    """
    if caller is None or is_temporary(definition):
        return None
    judged = caller.of_group if definition.shared else caller
    return None if judged.administrator else record_of_creator(definition, caller.user, catalog)


def _check_of_users(user: Definition, catalog: Catalog) -> Define | None:
    """The queue manager as one that checks its users, from the first on (security 1.3)."""
    facts = User.of(user.name, user.attributes)
    if not catalog.users and not (facts.administrator and facts.password and facts.enabled):
        raise errors.needs_administrator()
    manager = catalog.queue_manager
    if manager.attributes.get(CHECKED):
        return None
    return as_checked(manager)
