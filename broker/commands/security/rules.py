"""Channel authentication records: SET CHLAUTH, and the records that DISPLAY CHLAUTH means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.commands import errors
from broker.commands.table.attributes import TABLE, altered, create
from broker.commands.table.channel_rules import ABOUT, KEY_ATTRIBUTES, LISTS, ORDER
from broker.commands.table.dispositions import kept, meant, meets, of_name
from broker.core.names.definitions import SHARED, Define, Delete, together
from broker.core.security.facts import Rule, RuleType, UserSource, rule_key, words
from broker.core.security.profiles import glob

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from broker.commands.catalog import Catalog
    from broker.commands.requests import RuleChoice, SetRuleRequest
    from broker.core.names.definitions import Attributes, Change, Definition

_SAYS_WHO = ("USERSRC", "MCAUSER", "CHCKCLNT")
_SAYS_MORE = ("DESCR", "CUSTOM", "WARN")


def set_rule(request: SetRuleRequest, catalog: Catalog, now: datetime) -> tuple[Change, ...]:
    """The changes of SET CHLAUTH. Raises CommandError."""
    given = request.given
    if "TYPE" not in given:
        raise errors.missing_keyword("SET CHLAUTH needs TYPE")
    type = RuleType(int(given["TYPE"]))
    _check_keywords(type, given, request.action)
    if request.action == "REMOVEALL":
        gone = [each for each in _of_profile(type, str(given["CHLAUTH"]), catalog)
                if meets(request.disposition, each.disposition)]  # fmt: skip
        return together(Delete("CHLAUTH", each.name, each.disposition) for each in gone)
    key = rule_key(Rule.of(given))
    there = kept("CHLAUTH", key, request.disposition, catalog)
    if request.action == "REMOVE":
        return (_without(there, type, given, now),)
    if type in LISTS:
        return _listed(key, there, type, request, catalog, now)
    if there is not None and request.action == "ADD":
        raise errors.rule_exists()
    _check_map(given)
    return (_defined(key, there, request, catalog, now),)


def changes_shared(request: SetRuleRequest, catalog: Catalog) -> bool:
    """True if a command is about a record of the group, or about some of them."""
    given = request.given
    if "TYPE" not in given:
        return request.disposition == SHARED
    type = RuleType(int(given["TYPE"]))
    if request.action == "REMOVEALL":
        found = _of_profile(type, str(given["CHLAUTH"]), catalog)
        return any(each.shared and meets(request.disposition, SHARED) for each in found)
    return meant("CHLAUTH", rule_key(Rule.of(given)), request.disposition, catalog) == SHARED


def is_meant(choice: RuleChoice, pattern: str, rule: Definition) -> bool:
    """True if DISPLAY CHLAUTH(pattern) shows the record."""
    profile = str(rule.attributes["CHLAUTH"])
    if choice.match == "EXACT" and "*" in pattern:
        return profile == pattern
    return glob(pattern, profile) or (choice.match == "ALL" and glob(profile, pattern))


def is_shown(keyword: str, rule: Definition, *, briefly: bool) -> bool:
    """True if DISPLAY shows the attribute of the record: `briefly` only what says for whom it is, and who they are."""
    attributes = rule.attributes
    source = attributes.get("USERSRC", UserSource.MAP)
    if keyword == "MCAUSER" and source != UserSource.MAP:
        return False
    if keyword == "CHCKCLNT" and source == UserSource.NOACCESS:
        return False
    return not briefly or keyword not in KEY_ATTRIBUTES or attributes.get(keyword) != ""


def _rules(catalog: Catalog) -> Iterator[Definition]:
    for name in catalog.names("CHLAUTH"):
        yield from of_name("CHLAUTH", name, catalog)


def _of_profile(type: RuleType, profile: str, catalog: Catalog) -> Iterator[Definition]:
    for rule in _rules(catalog):
        if rule.attributes["CHLAUTH"] == profile and rule.attributes["TYPE"] == type:
            yield rule


def _defined(key: str, there: Definition | None, request: SetRuleRequest, catalog: Catalog, now: datetime) -> Define:
    """The definition of a record, the youngest of all, or as old as the one that it takes the place of."""
    if there is None:
        order: int | str = max((int(rule.attributes[ORDER]) for rule in _rules(catalog)), default=0) + 1
        place = meant("CHLAUTH", key, request.disposition, catalog)
    else:
        order, place = there.attributes[ORDER], there.disposition
    return Define(create("CHLAUTH", key, now, **request.given, **{ORDER: order, "QSGDISP": place}))


def _listed(
    key: str, there: Definition | None, type: RuleType, request: SetRuleRequest, catalog: Catalog, now: datetime
) -> tuple[Change, ...]:
    """ADD to the list of a record, or REPLACE it; without its list a record is none."""
    keyword, given = LISTS[type], dict(request.given)
    if request.action == "ADD" and not given.get(keyword):
        raise errors.missing_keyword(f"ACTION(ADD) of TYPE({type.name}) needs {keyword}")
    if not given.get(keyword):
        return () if there is None else (_deleted(there),)
    if there is None or request.action == "REPLACE":
        return (_defined(key, there, request, catalog, now),)
    together = (*words(there.attributes, keyword), *words(given, keyword))
    given[keyword] = ",".join(dict.fromkeys(together))
    TABLE["CHLAUTH"][keyword].form.check(keyword, given[keyword])
    return (Define(altered(there, given, now)),)


def _without(there: Definition | None, type: RuleType, given: Attributes, now: datetime) -> Change:
    """REMOVE: the record goes, or what its list loses."""
    if there is None:
        raise errors.rule_not_found()
    keyword = LISTS.get(type)
    if keyword is None:
        return _deleted(there)
    named = words(given, keyword)
    if not named:
        raise errors.missing_keyword(
            f"ACTION(REMOVE) of TYPE({type.name}) needs {keyword}; REMOVEALL removes the whole list"
        )
    listed = words(there.attributes, keyword)
    if not set(named) <= set(listed):
        raise errors.rule_not_found(f"{keyword} has no {', '.join(each for each in named if each not in listed)}")
    left = ",".join(each for each in listed if each not in named)
    return Define(altered(there, {keyword: left}, now)) if left else _deleted(there)


def _deleted(rule: Definition) -> Delete:
    return Delete("CHLAUTH", rule.name, rule.disposition)


def _check_keywords(type: RuleType, given: Attributes, action: str) -> None:
    """Refuse keywords that records of the type do not have, or that the action does not take, and a lack of those that
    it must have.
    """
    for keyword in given:
        if not TABLE["CHLAUTH"][keyword].is_of(type):
            raise errors.conflict(f"{keyword} is not for TYPE({type.name})", syntax_error=True)
        if action == "REMOVE" and keyword in (*_SAYS_WHO, *_SAYS_MORE):
            raise errors.conflict(f"{keyword} is not for ACTION({action})", syntax_error=True)
        if action == "REMOVEALL" and keyword not in ("CHLAUTH", "TYPE"):
            raise errors.conflict(f"{keyword} is not for ACTION({action})", syntax_error=True)
    if type is RuleType.BLOCKADDR and given["CHLAUTH"] != "*":
        raise errors.conflict("TYPE(BLOCKADDR) is for all channels: CHLAUTH('*')", syntax_error=True)
    about = ABOUT.get(type)
    if about is not None and action != "REMOVEALL" and not given.get(about):
        raise errors.missing_keyword(f"TYPE({type.name}) needs {about}")


def _check_map(given: Attributes) -> None:
    """A record that says who somebody is names the user, and no other does."""
    source = UserSource(int(given.get("USERSRC", UserSource.MAP)))
    user = given.get("MCAUSER", "")
    if source is UserSource.MAP and not user:
        raise errors.missing_keyword("USERSRC(MAP) needs MCAUSER")
    if source is not UserSource.MAP and user:
        raise errors.conflict(f"MCAUSER is not for USERSRC({source.name})", syntax_error=True)
    if source is UserSource.NOACCESS and "CHCKCLNT" in given:
        raise errors.conflict("CHCKCLNT is not for USERSRC(NOACCESS)", syntax_error=True)
