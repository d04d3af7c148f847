"""The options of the calls that open, close, get, put and begin.

Every class is a set of flags. Bits that MQ does not define pass through them unchanged: it is the queue manager that
refuses them, with MQRC_OPTIONS_ERROR, so that programs see one behaviour however they spell an option.
"""

from enum import IntEnum, IntFlag


class MQOO(IntFlag):
    """Options for opening an object (MQOPEN)."""

    BIND_AS_Q_DEF = 0
    READ_AHEAD_AS_Q_DEF = BIND_AS_Q_DEF
    INPUT_AS_Q_DEF = 0x1
    INPUT_SHARED = 0x2
    INPUT_EXCLUSIVE = 0x4
    BROWSE = 0x8
    OUTPUT = 0x10
    INQUIRE = 0x20
    SET = 0x40
    SAVE_ALL_CONTEXT = 0x80
    PASS_IDENTITY_CONTEXT = 0x100
    PASS_ALL_CONTEXT = 0x200
    SET_IDENTITY_CONTEXT = 0x400
    SET_ALL_CONTEXT = 0x800
    ALTERNATE_USER_AUTHORITY = 0x1000
    FAIL_IF_QUIESCING = 0x2000
    BIND_ON_OPEN = 0x4000
    BIND_NOT_FIXED = 0x8000
    RESOLVE_NAMES = 0x1_0000
    CO_OP = 0x2_0000
    RESOLVE_LOCAL_Q = 0x4_0000
    RESOLVE_LOCAL_TOPIC = RESOLVE_LOCAL_Q
    NO_READ_AHEAD = 0x8_0000
    READ_AHEAD = 0x10_0000
    NO_MULTICAST = 0x20_0000
    BIND_ON_GROUP = 0x40_0000


class MQCO(IntFlag):
    """Options for closing a dynamic queue or a subscription (MQCLOSE)."""

    NONE = 0
    IMMEDIATE = NONE
    DELETE = 0x1
    DELETE_PURGE = 0x2
    KEEP_SUB = 0x4
    REMOVE_SUB = 0x8
    QUIESCE = 0x20


class MQGMO(IntFlag):
    """Options for getting a message (MQGET).

    `BROWSE_HANDLE` and `BROWSE_CO_OP` stand for three options each.
    """

    NONE = 0
    NO_WAIT = NONE
    PROPERTIES_AS_Q_DEF = NONE
    WAIT = 0x1
    SYNCPOINT = 0x2
    NO_SYNCPOINT = 0x4
    SET_SIGNAL = 0x8
    BROWSE_FIRST = 0x10
    BROWSE_NEXT = 0x20
    ACCEPT_TRUNCATED_MSG = 0x40
    MARK_SKIP_BACKOUT = 0x80
    MSG_UNDER_CURSOR = 0x100
    LOCK = 0x200
    UNLOCK = 0x400
    BROWSE_MSG_UNDER_CURSOR = 0x800
    SYNCPOINT_IF_PERSISTENT = 0x1000
    FAIL_IF_QUIESCING = 0x2000
    CONVERT = 0x4000
    LOGICAL_ORDER = 0x8000
    COMPLETE_MSG = 0x1_0000
    ALL_MSGS_AVAILABLE = 0x2_0000
    ALL_SEGMENTS_AVAILABLE = 0x4_0000
    MARK_BROWSE_HANDLE = 0x10_0000
    MARK_BROWSE_CO_OP = 0x20_0000
    UNMARK_BROWSE_CO_OP = 0x40_0000
    UNMARK_BROWSE_HANDLE = 0x80_0000
    UNMARKED_BROWSE_MSG = 0x100_0000
    BROWSE_HANDLE = BROWSE_FIRST | UNMARKED_BROWSE_MSG | MARK_BROWSE_HANDLE
    BROWSE_CO_OP = BROWSE_FIRST | UNMARKED_BROWSE_MSG | MARK_BROWSE_CO_OP
    PROPERTIES_FORCE_MQRFH2 = 0x200_0000
    NO_PROPERTIES = 0x400_0000
    PROPERTIES_IN_HANDLE = 0x800_0000
    PROPERTIES_COMPATIBILITY = 0x1000_0000


class MQMO(IntFlag):
    """The fields of the descriptor that choose the message to get (MatchOptions of MQGMO)."""

    NONE = 0
    MATCH_MSG_ID = 0x1
    MATCH_CORREL_ID = 0x2
    MATCH_GROUP_ID = 0x4
    MATCH_MSG_SEQ_NUMBER = 0x8
    MATCH_OFFSET = 0x10
    MATCH_MSG_TOKEN = 0x20


class MQPMO(IntFlag):
    """Options for putting a message (MQPUT, MQPUT1)."""

    NONE = 0
    RESPONSE_AS_Q_DEF = NONE
    RESPONSE_AS_TOPIC_DEF = NONE
    SYNCPOINT = 0x2
    NO_SYNCPOINT = 0x4
    DEFAULT_CONTEXT = 0x20
    NEW_MSG_ID = 0x40
    NEW_CORREL_ID = 0x80
    PASS_IDENTITY_CONTEXT = 0x100
    PASS_ALL_CONTEXT = 0x200
    SET_IDENTITY_CONTEXT = 0x400
    SET_ALL_CONTEXT = 0x800
    ALTERNATE_USER_AUTHORITY = 0x1000
    FAIL_IF_QUIESCING = 0x2000
    NO_CONTEXT = 0x4000
    LOGICAL_ORDER = 0x8000
    ASYNC_RESPONSE = 0x1_0000
    SYNC_RESPONSE = 0x2_0000
    RESOLVE_LOCAL_Q = 0x4_0000
    WARN_IF_NO_SUBS_MATCHED = 0x8_0000
    RETAIN = 0x20_0000
    MD_FOR_OUTPUT_ONLY = 0x80_0000
    SCOPE_QMGR = 0x400_0000
    SUPPRESS_REPLYTO = 0x800_0000
    NOT_OWN_SUBS = 0x1000_0000


class MQPMRF(IntFlag):
    """The fields that a put message record of a distribution list holds."""

    NONE = 0
    MSG_ID = 0x1
    CORREL_ID = 0x2
    GROUP_ID = 0x4
    FEEDBACK = 0x8
    ACCOUNTING_TOKEN = 0x10


class MQDHF(IntFlag):
    """The flags of a distribution header."""

    NONE = 0
    NEW_MSG_IDS = 0x1


class MQBO(IntFlag):
    """The options of MQBEGIN: there are none."""

    NONE = 0


class MQWI(IntEnum):
    """The special value of WaitInterval, which otherwise is a number of milliseconds."""

    UNLIMITED = -1
