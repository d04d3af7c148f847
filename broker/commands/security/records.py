"""Authority records: SET and DELETE AUTHREC, those that come and go with an object, and those that DISPLAY means."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.commands import errors
from broker.commands.security.entities import doubts, groups_of
from broker.commands.table.authority_records import (
    NOT_JUDGED,
    OBJECT_TYPES,
    TYPE_OF_SPACE,
    RightSet,
    rights_of,
)
from broker.commands.table.dispositions import UNSAID, kept, meant, of_name
from broker.core.names.definitions import OWN, SHARED, Define, Definition, Delete, together
from broker.core.security.facts import SELF, Principal, record_key
from broker.core.security.profiles import CLASS, fits, is_generic
from broker.core.security.rights import Q_MGR, Right, all_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.commands.catalog import Catalog
    from broker.commands.requests import DeleteRecordsRequest, Entity, RecordChoice, SetRecordsRequest
    from broker.core.names.definitions import Change

_ALSO_TAKEN = {Q_MGR: Right.CTRL | Right.DLT | Right.SYSTEM, OBJECT_TYPES["TOPIC"]: Right.CLR}
"""Rights that ALL does not mean, but scripts of IBM MQ give."""

_WORDS = {number: word for word, number in OBJECT_TYPES.items()}
_SPACES = {type: space for space, type in TYPE_OF_SPACE.items()}


def set_records(request: SetRecordsRequest, catalog: Catalog) -> tuple[tuple[Change, ...], list[str]]:
    """The changes of SET AUTHREC, and the warnings of its reply. All that are of the queue manager's own records are
    made or none, and so are those of shared ones. Raises CommandError.
    """
    profile = _profile(request.profile, request.object_type, catalog)
    added, removed = _lists(request, profile)
    defines = []
    for entity in request.entities:
        definition = _record(profile, request.object_type, entity, catalog, request.disposition)
        rights = _changed(_rights(definition), request, added, removed)
        defines.append(Define(_with(definition, rights)))
    any_own = not all(each.definition.shared for each in defines)
    return together(defines), _warnings(request, profile, catalog, any_own=any_own)


def delete_records(request: DeleteRecordsRequest, catalog: Catalog) -> tuple[Change, ...]:
    """The changes of DELETE AUTHREC. Raises CommandError (AMQ8147E) when one of the records is not there."""
    profile = _profile(request.profile, request.object_type, catalog)
    deletes = []
    for kind, entity in request.entities:
        key = record_key(profile, request.object_type, kind, entity)
        place = meant("AUTHREC", key, request.disposition, catalog)
        if catalog.find("AUTHREC", key, place) is None:
            word = "PRINCIPAL" if kind is Principal.USER else "GROUP"
            raise errors.not_found(profile, f"There is no authority record of it for {word}({entity})")
        deletes.append(Delete("AUTHREC", key, place))
    return together(deletes)


def are_shared(request: SetRecordsRequest | DeleteRecordsRequest, catalog: Catalog) -> bool:
    """True if a command is about records of the group, or about some of them."""
    profile = _profile(request.profile, request.object_type, catalog)
    keys = (record_key(profile, request.object_type, *entity) for entity in request.entities)
    return any(meant("AUTHREC", key, request.disposition, catalog) == SHARED for key in keys)


def records_of(space: str, name: str, catalog: Catalog, place: int = OWN) -> tuple[str, ...]:
    """The keys of the records of an object's own name, which go with it."""
    object_type = TYPE_OF_SPACE.get(space)
    return () if object_type is None else tuple(catalog.records(object_type, name, place))


def with_records(gone: Delete, catalog: Catalog) -> tuple[Change, ...]:
    """The changes that delete an object with the records of its own name. With what the group shares go the shared
    ones, and behind it those of this queue manager.
    """
    keys = records_of(gone.space, gone.name, catalog)
    if gone.disposition != SHARED:
        return (replace(gone, records=keys),)
    shared = [Delete("AUTHREC", key, SHARED) for key in records_of(gone.space, gone.name, catalog, SHARED)]
    return together((gone, *shared, *(Delete("AUTHREC", key) for key in keys)))


def record_of_creator(made: Definition, user: str, catalog: Catalog) -> Define | None:
    """The record that gives who creates an object every right on it (security 2.4); None for objects of a kind that has
    no records. It is to be made in the transaction of the object; for what is shared it is shared.
    """
    object_type = TYPE_OF_SPACE.get(made.space)
    if object_type is None:
        return None
    asked = SHARED if made.shared else UNSAID
    definition = _record(made.name, object_type, (Principal.USER, user), catalog, asked)
    return Define(_with(definition, _rights(definition) | all_of(object_type)))


def is_meant(choice: RecordChoice, record: Definition, catalog: Catalog) -> bool:
    """True if DISPLAY AUTHREC shows the record."""
    attributes = record.attributes
    if choice.object_type is not None and attributes["OBJTYPE"] != choice.object_type:
        return False
    return _is_for(choice, str(attributes["PROFILE"]), catalog) and _is_of(choice, attributes, catalog)


def _is_for(choice: RecordChoice, profile: str, catalog: Catalog) -> bool:
    """True if the profile is the one that is asked for, or with MATCH(PROFILE) one that the name asked for fits."""
    asked = choice.profile
    if asked is None or profile == asked or (profile == SELF and asked == catalog.queue_manager.name):
        return True
    return choice.match != "EXACT" and not is_generic(asked) and is_generic(profile) and fits(profile, asked)


def _is_of(choice: RecordChoice, attributes: dict[str, int | str], catalog: Catalog) -> bool:
    if choice.entity is None:
        return True
    kind, name = choice.entity
    entity = Principal(int(attributes["ENTTYPE"])), str(attributes["ENTITY"])
    if entity == choice.entity:
        return True
    groups = groups_of(name, catalog) if choice.match == "MEMBERSHIP" and kind is Principal.USER else ()
    return entity[0] is Principal.GROUP and entity[1] in groups


def _profile(profile: str, object_type: int, catalog: Catalog) -> str:
    """The profile by which records are kept: the queue manager has one, whatever its word for it."""
    if object_type != Q_MGR or profile in (SELF, CLASS):
        return profile
    if profile == catalog.queue_manager.name:
        return SELF
    raise errors.not_found(profile, f"The profile of OBJTYPE(QMGR) is {SELF}, which can be left out")


def _lists(request: SetRecordsRequest, profile: str) -> tuple[Right, Right]:
    """The rights to add and to remove. Raises CommandError for one that the type does not have, or that both lists
    have; but ALL may stand against a right of the other list.
    """
    added, removed = (_of_words(words, request.object_type, profile) for words in (request.added, request.removed))
    both = added & removed
    if both and "ALL" not in (*request.added, *request.removed):
        raise errors.conflict(f"AUTHADD and AUTHRMV both name {RightSet().plain(int(both))}", syntax_error=True)
    return added, removed


def _of_words(words: Iterable[str], object_type: int, profile: str) -> Right:
    possible = all_of(object_type) | Right.CRT | _ALSO_TAKEN.get(object_type, Right.NONE)
    if profile == CLASS:
        possible = Right.CRT
    rights = Right.NONE
    for word in words:
        named = rights_of(word, object_type)
        if named & ~possible:
            has = RightSet().plain(int(possible))
            where = f"profile {CLASS}" if profile == CLASS else f"OBJTYPE({_WORDS[object_type]})"
            raise errors.conflict(f"{word} is no right of {where}, which has {has}", syntax_error=True)
        rights |= named
    return rights


def _changed(before: Right, request: SetRecordsRequest, added: Right, removed: Right) -> Right:
    """The rights of a record after the command. ALL goes first, whichever list it is in."""
    if "ALL" in request.removed and "ALL" not in request.added:
        return (before & ~removed) | added
    return (before | added) & ~removed


def _record(profile: str, object_type: int, entity: Entity, catalog: Catalog, asked: int) -> Definition:
    """The record of an entity; one of no rights where there is none yet."""
    kind, name = entity
    key = record_key(profile, object_type, kind, name)
    attributes: dict[str, int | str] = {
        "PROFILE": profile, "ENTITY": name, "ENTTYPE": kind.value, "OBJTYPE": object_type, "AUTHLIST": 0,
        "QSGDISP": meant("AUTHREC", key, asked, catalog),
    }  # fmt: skip
    return kept("AUTHREC", key, asked, catalog) or Definition("AUTHREC", key, attributes)


def _rights(record: Definition) -> Right:
    return Right(int(record.attributes["AUTHLIST"]))


def _with(record: Definition, rights: Right) -> Definition:
    return Definition(record.kind, record.name, {**record.attributes, "AUTHLIST": int(rights)})


def _warnings(request: SetRecordsRequest, profile: str, catalog: Catalog, *, any_own: bool) -> list[str]:
    """Return the warnings of the reply."""
    word = _WORDS[request.object_type]
    lines = []
    if word in NOT_JUDGED:
        lines.append(f"EMQ0002W: OBJTYPE({word}) is kept and shown, but EverMQ does not act on it.")
    if request.service_component:
        lines.append("EMQ0002W: SERVCOMP is not kept, and EverMQ does not act on it.")
    space = _SPACES.get(request.object_type)
    named = space is not None and profile != CLASS and not is_generic(profile)
    there = [each.disposition for each in of_name(space, profile, catalog)] if space is not None and named else []
    if any_own and space == "QUEUE" and SHARED in there:
        lines.append(f"EMQ0027W: {profile} is a shared queue: only records with QSGDISP(SHARED) count for it.")
    if named and not there:
        lines.append(f"EMQ0023W: there is no {word.lower()} {profile} yet.")
    return [*lines, *doubts(request.entities, catalog)]
