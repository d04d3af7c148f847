"""Random groups and segmented messages, to be put together again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mqi import MQMF, MessageDescriptor

if TYPE_CHECKING:
    from random import Random

    from tests.spark.archives import Put

MIG, LMIG = MQMF.MSG_IN_GROUP.value, MQMF.LAST_MSG_IN_GROUP.value
SEG, LSEG = MQMF.SEGMENT.value, MQMF.LAST_SEGMENT.value


def shuffled_groups(random: Random, groups: int, *, messages_max: int = 50, mishaps: float = 0.0) -> list[Put]:
    """Messages of so many groups of 1 to `messages_max`, some cut into segments, and as many messages in no group,
    shuffled. A share `mishaps` of the groups has one: an item is missing, or there a second time with other data, or
    behind the last, or the identifier is used for two groups, or a segment is in another character set.
    """
    puts: list[Put] = []
    for _ in range(groups):
        group_id = random.randbytes(24)
        made = group(random, group_id, random.randint(1, messages_max))
        if random.random() < mishaps:
            random.choice(_MISHAPS)(random, made)
        puts += made
        puts += [(random.randbytes(random.randrange(40)), _md(0, bytes(24), 1, 0)) for _ in range(random.randrange(3))]
    puts += [put for _ in range(groups) for put in message(random, random.randbytes(24), 1, 0)]
    random.shuffle(puts)
    return puts


def group(random: Random, group_id: bytes, messages: int) -> list[Put]:
    """The messages of a group, in order."""
    return [
        put
        for number in range(1, messages + 1)
        for put in message(random, group_id, number, MIG | (LMIG if number == messages else 0))
    ]


def message(random: Random, group_id: bytes, number: int, flags: int) -> list[Put]:
    """A logical message: whole, or in two to five segments; in no group always the latter."""
    if flags and random.random() < 0.7:
        return [(random.randbytes(random.randrange(60)), _md(flags, group_id, number, 0))]
    offset, puts = 0, []
    pieces = random.randint(2, 5)
    for piece in range(1, pieces + 1):
        body = random.randbytes(random.randint(1, 40))
        puts.append((body, _md(flags | SEG | (LSEG if piece == pieces else 0), group_id, number, offset)))
        offset += len(body)
    return puts


def _md(flags: int, group_id: bytes, number: int, offset: int) -> MessageDescriptor:
    return MessageDescriptor(
        msg_flags=flags, group_id=group_id, msg_seq_number=number, offset=offset, coded_char_set_id=1208, format="MQSTR"
    )


def _loses_one(random: Random, made: list[Put]) -> None:
    made.pop(random.randrange(len(made)))


def _has_one_more(random: Random, made: list[Put]) -> None:
    body, md = random.choice(made)
    made.append((body[::-1] + b"!", _md(md.msg_flags, md.group_id, md.msg_seq_number, md.offset)))


def _goes_on_behind_the_last(random: Random, made: list[Put]) -> None:
    _, md = made[-1]
    made.append((b"late", _md(MIG | LMIG, md.group_id, md.msg_seq_number + random.randint(1, 2), 0)))


def _is_used_twice(random: Random, made: list[Put]) -> None:
    made += group(random, made[0][1].group_id, random.randint(1, 4))


def _changes_its_text(random: Random, made: list[Put]) -> None:
    random.choice(made)[1].coded_char_set_id = 819


_MISHAPS = (_loses_one, _has_one_more, _goes_on_behind_the_last, _is_used_twice, _changes_its_text)
