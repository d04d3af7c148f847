"""The authority service: what each user may do with each object (security 5.3 and 6).

It knows the definitions of users, authority records, channels, rules of channels and authentication information as they
are told to it, and judges by them. A judgement is kept until a user or a record changes. The object that it is about
may come and go: `forget` drops what is known of one name, so that temporary queues do not cost all others theirs.

A member of a queue-sharing group has two: its own authority knows all that holds at the member, and that of the group
what is shared alone. Shared queues, and what else belongs to the group, are judged by the latter (security 11.1).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from broker.core.security.channel_rules import for_channel
from broker.core.security.entities import is_entity
from broker.core.security.facts import (
    ADMINISTRATORS,
    SELF,
    AuthInfo,
    AuthorityRecord,
    Channel,
    Principal,
    Rule,
    User,
    rule_key,
)
from broker.core.security.profiles import CLASS
from broker.core.security.records import Records
from broker.core.security.rights import Q_MGR, TYPE_WORDS, Q, Right, words_of
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from broker.core.security.facts import Attributes

JUDGEMENTS_MAX: Final = 100_000
"""The most judgements that are kept. The oldest go first."""

REFUSED: Final = "not authorized"
"""The detail of each refusal: who is refused is told no more."""

EVERYTHING: Final = ~Right.NONE
"""The rights of an administrator."""

_NOTHING: Final = Right.NONE


class RefusedCall(NamedTuple):
    """A call that was refused: its `step` is "open" or "close"; the program, and the object, as the call named it."""

    step: str
    appl_type: int
    appl_name: str
    object_type: int
    name: str
    q_mgr_name: str = ""
    options: int = 0


class NotAuthorizedError(MQError):
    """MQRC_NOT_AUTHORIZED (2035). The program sees the reason and the same detail each time; the log and `explain` have
    the step that was refused, and the rule that it fails.
    """

    def __init__(self, step: str, rule: str, user: str = "") -> None:
        super().__init__(MQRC.NOT_AUTHORIZED, REFUSED)
        self.args = (step, rule, user)  # what pickling calls the class with again
        self.step = step
        self.rule = rule
        self.user = user
        self.call: RefusedCall | None = None  # where an event tells more of it

    def of(self, call: RefusedCall) -> None:
        """Note which call it was."""
        self.call, self.step = call, call.step


class Authority:
    """The facts about users and their rights, and the judge. `group` judges what has one of the names in
    `shared_queues`.
    """

    shared: ClassVar[bool] = False
    """True if it knows what the members of a group share, and nothing else."""

    def __init__(self, shared_queues: Container[str] = (), group: GroupAuthority | None = None) -> None:
        self.generation = 0
        self._shared_queues = shared_queues
        self.group: Authority = self if group is None else group
        self._users: dict[str, User] = {}
        self._os_users: dict[str, str] = {}
        self._channels: dict[str, Channel] = {}
        self._auth_infos: dict[str, AuthInfo] = {}
        self._rules: dict[str, Rule] = {}
        self._named: dict[str, AuthorityRecord] = {}
        self._records: dict[tuple[Principal, str, int], Records] = {}
        self._judgements: dict[tuple[int, str], dict[str, Right]] = {}
        self._kept = 0
        self._ordered: dict[str, tuple[Rule, ...]] = {}
        self.users: Mapping[str, User] = MappingProxyType(self._users)
        self.channels: Mapping[str, Channel] = MappingProxyType(self._channels)
        self.auth_infos: Mapping[str, AuthInfo] = MappingProxyType(self._auth_infos)
        self.rules: Mapping[str, Rule] = MappingProxyType(self._rules)

    # Facts

    def define(self, space: str, name: str, attributes: Attributes) -> None:
        """Take in the definition of an object, a new one or a changed one. Of other kinds nothing is kept."""
        match space:
            case "USER":
                self._drop_user(name)
                user = self._users[name] = User.of(name, attributes)
                if user.os_user:
                    self._os_users[user.os_user] = name
                self.refresh()
            case "AUTHREC":
                self._drop_record(name)
                record = self._named[name] = AuthorityRecord.of(attributes)
                self._records.setdefault((record.kind, record.entity, record.object_type), Records()).add(record)
                self.refresh()
            case "CHANNEL":
                self._channels[name] = Channel.of(name, attributes)
            case "AUTHINFO":
                self._auth_infos[name] = AuthInfo.of(name, attributes)
            case "CHLAUTH":
                self._rules[name] = Rule.of(attributes)
                self._ordered.clear()

    def delete(self, space: str, name: str) -> None:
        """Forget the definition of an object. Of other kinds nothing was kept."""
        match space:
            case "USER":
                self._drop_user(name)
                self.refresh()
            case "AUTHREC":
                self._drop_record(name)
                self.refresh()
            case "CHANNEL":
                self._channels.pop(name, None)
                self._ordered.pop(name, None)
            case "AUTHINFO":
                self._auth_infos.pop(name, None)
            case "CHLAUTH":
                self._rules.pop(name, None)
                self._ordered.clear()

    def refresh(self) -> None:
        """Begin a new generation: nothing that was judged before counts any more."""
        self.generation += 1
        self._judgements.clear()
        self._kept = 0
        if self.group is not self:
            self.group.refresh()

    def forget(self, object_type: int, name: str) -> None:
        """Drop the judgements about one name: the object was made or deleted."""
        self._kept -= len(self._judgements.pop((object_type, name), ()))

    def changed(self, change: User | Rule) -> Authority:
        """Return a copy that knows how users come in, and no rights, where one user or rule is another: to try it."""
        copy = Authority()
        copy._users.update(self._users)
        copy._os_users.update(self._os_users)
        copy._channels.update(self._channels)
        copy._auth_infos.update(self._auth_infos)
        copy._rules.update(self._rules)
        if isinstance(change, User):
            copy._users[change.name] = change
        else:
            copy._rules[rule_key(change)] = change
        return copy

    def rules_for(self, channel: str) -> tuple[Rule, ...]:
        """Return the rules that are about a channel that is defined, the one that counts before others first."""
        ordered = self._ordered.get(channel)
        if ordered is None:
            ordered = for_channel(self._rules.values(), channel)
            if channel in self._channels:
                self._ordered[channel] = ordered
        return ordered

    def user_of(self, os_user: str) -> str:
        """Return the user that a user of the operating system is: the one with that OSUSER, else the one of that name;
        empty if it cannot name one.
        """
        return self._os_users.get(os_user) or (os_user if is_entity(os_user) else "")

    # Judgement

    def is_administrator(self, user: str) -> bool:
        """True if the user has every right without records."""
        known = self._users.get(user)
        return user == ADMINISTRATORS or (known is not None and known.administrator)

    def judge_of(self, object_type: int, name: str) -> Authority:
        """Return the authority that judges an object: of a shared queue that of the group."""
        return self.group if object_type == Q and name in self._shared_queues else self

    def rights(self, user: str, object_type: int, name: str) -> Right:
        """Return the rights of a user on an object. Of the queue manager any name will do."""
        judge = self.judge_of(object_type, name)
        if judge is not self:
            return judge.rights(user, object_type, name)
        about = (object_type, SELF if object_type == Q_MGR else name)
        judged = self._judgements.get(about)
        known = None if judged is None else judged.get(user)
        if known is not None:
            return known
        rights = self._judged(user, object_type, name)
        if self._kept >= JUDGEMENTS_MAX:
            self._kept -= len(self._judgements.pop(next(iter(self._judgements))))
        self._judgements.setdefault(about, {})[user] = rights
        self._kept += 1
        return rights

    def missing(self, user: str, object_type: int, name: str, wanted: Right) -> Right:
        """Return those of the wanted rights that a user does not have on an object."""
        rights = self.rights(user, object_type, name)
        return _NOTHING if wanted in rights else wanted & ~rights  # arithmetic of flags is slow

    def check(self, user: str, object_type: int, name: str, wanted: Right, step: str = "call") -> None:
        """Raise NOT_AUTHORIZED (2035) unless the user has all the wanted rights on an object."""
        missing = self.missing(user, object_type, name, wanted)
        if missing:
            rule = f"{user} has no {words_of(missing)} on {kind_and_name(object_type, name)}"
            raise NotAuthorizedError(step, rule, user)

    def class_rights(self, user: str, object_type: int, name: str) -> Right:
        """Return the rights of a user on objects of a type that are yet to be made under a name: CRT is the one to look
        for. They are those of the records of the class, and those on the name.
        """
        rights = self.rights(user, object_type, name)
        for kind, entity in self.entities(user):
            records = self._records.get((kind, entity, object_type))
            of_class = records.exact(CLASS) if records is not None else None
            if of_class is not None:
                rights |= of_class.rights
        return rights

    def entities(self, user: str) -> Iterator[tuple[Principal, str]]:
        """Yield the entities whose records give rights to a user: itself, and its groups."""
        yield Principal.USER, user
        known = self._users.get(user)
        if known is not None:
            for group in known.groups:
                yield Principal.GROUP, group

    def record_for(self, kind: Principal, entity: str, object_type: int, name: str) -> AuthorityRecord | None:
        """Return the record of one entity that counts for an object: the most specific one that fits its name."""
        records = self._records.get((kind, entity, object_type))
        return None if records is None else records.find(SELF if object_type == Q_MGR else name)

    def _judged(self, user: str, object_type: int, name: str) -> Right:
        if self.is_administrator(user):
            return EVERYTHING
        rights = Right.NONE
        for kind, entity in self.entities(user):
            record = self.record_for(kind, entity, object_type, name)
            if record is not None:
                rights |= record.rights
        return rights

    def _drop_user(self, name: str) -> None:
        user = self._users.pop(name, None)
        if user is not None and self._os_users.get(user.os_user) == name:
            del self._os_users[user.os_user]

    def _drop_record(self, name: str) -> None:
        record = self._named.pop(name, None)
        if record is not None:
            about = (record.kind, record.entity, record.object_type)
            self._records[about].remove(record)
            if not self._records[about]:
                del self._records[about]


class GroupAuthority(Authority):
    """The facts about users and their rights that a queue-sharing group shares, and the judge of what is the group's. A
    member's own mqm administers that member alone.
    """

    shared = True

    def is_administrator(self, user: str) -> bool:
        known = self.users.get(user)
        return known is not None and known.administrator


def kind_and_name(object_type: int, name: str) -> str:
    """Return an object as explanations name it: its type and its name, of the queue manager the type alone."""
    word = TYPE_WORDS.get(object_type, f"type {object_type}")
    return word if object_type == Q_MGR else f"{word} {name}"
