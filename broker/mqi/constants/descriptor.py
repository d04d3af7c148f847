"""The values of the fields of a message descriptor (MQMD).

Fields that may hold more than the values listed, such as a priority or an application's own message type, are plain
`int` in the structures. Characters are compared without the blanks that pad them, except where one character is the
whole field.
"""

from enum import IntEnum, IntFlag, StrEnum
from typing import Final


class MQMT(IntEnum):
    """The purpose of a message (MsgType).

    Applications define types of their own from `MQMT_APPL_FIRST` to `MQMT_APPL_LAST`.
    """

    REQUEST = 1
    REPLY = 2
    REPORT = 4
    DATAGRAM = 8
    MQE_FIELDS_FROM_MQE = 112
    MQE_FIELDS = 113


MQMT_SYSTEM_FIRST: Final = 1
MQMT_SYSTEM_LAST: Final = 65_535
MQMT_APPL_FIRST: Final = 65_536
MQMT_APPL_LAST: Final = 999_999_999


class MQPER(IntEnum):
    """The persistence of a message: does it outlive a restart of the queue manager (Persistence)?"""

    PERSISTENCE_AS_PARENT = -1
    NOT_PERSISTENT = 0
    PERSISTENT = 1
    PERSISTENCE_AS_Q_DEF = 2
    PERSISTENCE_AS_TOPIC_DEF = PERSISTENCE_AS_Q_DEF


class MQPRI(IntEnum):
    """The special values of Priority, which otherwise runs from 0, the lowest, to 9."""

    PRIORITY_AS_PUBLISHED = -3
    PRIORITY_AS_PARENT = -2
    PRIORITY_AS_Q_DEF = -1
    PRIORITY_AS_TOPIC_DEF = PRIORITY_AS_Q_DEF


class MQEI(IntEnum):
    """The special value of Expiry, which otherwise is a number of tenths of a second."""

    UNLIMITED = -1


class MQRO(IntFlag):
    """The reports that a message asks for, and what happens to it when it cannot be delivered (Report)."""

    NONE = 0
    NEW_MSG_ID = NONE
    COPY_MSG_ID_TO_CORREL_ID = NONE
    DEAD_LETTER_Q = NONE
    PAN = 0x1
    NAN = 0x2
    ACTIVITY = 0x4
    PASS_CORREL_ID = 0x40
    PASS_MSG_ID = 0x80
    COA = 0x100
    COA_WITH_DATA = 0x300
    COA_WITH_FULL_DATA = 0x700
    COD = 0x800
    COD_WITH_DATA = 0x1800
    COD_WITH_FULL_DATA = 0x3800
    PASS_DISCARD_AND_EXPIRY = 0x4000
    EXPIRATION = 0x20_0000
    EXPIRATION_WITH_DATA = 0x60_0000
    EXPIRATION_WITH_FULL_DATA = 0xE0_0000
    EXCEPTION = 0x100_0000
    EXCEPTION_WITH_DATA = 0x300_0000
    EXCEPTION_WITH_FULL_DATA = 0x700_0000
    DISCARD_MSG = 0x800_0000


# What becomes of options that the receiving queue manager does not support, by the bits they use.
MQRO_REJECT_UNSUP_MASK: Final = 0x101C_0000
MQRO_ACCEPT_UNSUP_IF_XMIT_MASK: Final = 0x0003_FF00
MQRO_ACCEPT_UNSUP_MASK: Final = 0xEFE0_00FF


class MQFB(IntEnum):
    """The subject of a report (Feedback); it may also hold an `MQRC`.

    Applications define values of their own from `MQFB_APPL_FIRST` to `MQFB_APPL_LAST`.
    """

    NONE = 0
    QUIT = 256
    EXPIRATION = 258
    COA = 259
    COD = 260
    CHANNEL_COMPLETED = 262
    CHANNEL_FAIL_RETRY = 263
    CHANNEL_FAIL = 264
    APPL_CANNOT_BE_STARTED = 265
    TM_ERROR = 266
    APPL_TYPE_ERROR = 267
    STOPPED_BY_MSG_EXIT = 268
    ACTIVITY = 269
    XMIT_Q_MSG_ERROR = 271
    PAN = 275
    NAN = 276
    STOPPED_BY_CHAD_EXIT = 277
    STOPPED_BY_PUBSUB_EXIT = 279
    NOT_A_REPOSITORY_MSG = 280
    BIND_OPEN_CLUSRCVR_DEL = 281
    MAX_ACTIVITIES = 282
    NOT_FORWARDED = 283
    NOT_DELIVERED = 284
    UNSUPPORTED_FORWARDING = 285
    UNSUPPORTED_DELIVERY = 286
    DATA_LENGTH_ZERO = 291
    DATA_LENGTH_NEGATIVE = 292
    DATA_LENGTH_TOO_BIG = 293
    BUFFER_OVERFLOW = 294
    LENGTH_OFF_BY_ONE = 295
    IIH_ERROR = 296
    NOT_AUTHORIZED_FOR_IMS = 298
    DATA_LENGTH_TOO_SHORT = 299
    IMS_ERROR = 300
    CICS_INTERNAL_ERROR = 401
    CICS_NOT_AUTHORIZED = 402
    CICS_BRIDGE_FAILURE = 403
    CICS_CORREL_ID_ERROR = 404
    CICS_CCSID_ERROR = 405
    CICS_ENCODING_ERROR = 406
    CICS_CIH_ERROR = 407
    CICS_UOW_ERROR = 408
    CICS_COMMAREA_ERROR = 409
    CICS_APPL_NOT_STARTED = 410
    CICS_APPL_ABENDED = 411
    CICS_DLQ_ERROR = 412
    CICS_UOW_BACKED_OUT = 413
    PUBLICATIONS_ON_REQUEST = 501
    SUBSCRIBER_IS_PUBLISHER = 502
    MSG_SCOPE_MISMATCH = 503
    SELECTOR_MISMATCH = 504
    NOT_A_GROUPUR_MSG = 505


MQFB_SYSTEM_FIRST: Final = 1
MQFB_SYSTEM_LAST: Final = 65_535
MQFB_APPL_FIRST: Final = 65_536
MQFB_APPL_LAST: Final = 999_999_999


class MQMF(IntFlag):
    """The part of a message in a group and in a segmented message (MsgFlags).

    Bits that MQ does not define are kept: those in `MQMF_ACCEPT_UNSUP_MASK` travel with the message.
    """

    NONE = 0
    SEGMENTATION_INHIBITED = NONE
    SEGMENTATION_ALLOWED = 0x1
    SEGMENT = 0x2
    LAST_SEGMENT = 0x4
    MSG_IN_GROUP = 0x8
    LAST_MSG_IN_GROUP = 0x10


# What becomes of flags that the receiving queue manager does not support, by the bits they use.
MQMF_REJECT_UNSUP_MASK: Final = 0x0000_0FFF
MQMF_ACCEPT_UNSUP_IF_XMIT_MASK: Final = 0x000F_F000
MQMF_ACCEPT_UNSUP_MASK: Final = 0xFFF0_0000


class MQGS(StrEnum):
    """The position in its group of a message that was got (GroupStatus of MQGMO): one character."""

    NOT_IN_GROUP = " "
    MSG_IN_GROUP = "G"
    LAST_MSG_IN_GROUP = "L"


class MQSS(StrEnum):
    """The position in its logical message of a message that was got (SegmentStatus of MQGMO): one character."""

    NOT_A_SEGMENT = " "
    SEGMENT = "S"
    LAST_SEGMENT = "L"


class MQSEG(StrEnum):
    """Further segmentation of a message that was got: allowed or not (Segmentation of MQGMO): one character."""

    INHIBITED = " "
    ALLOWED = "A"


class MQOL(IntEnum):
    """The special value of OriginalLength."""

    UNDEFINED = -1


class MQFMT(StrEnum):
    """The nature of the data of a message (Format), without the blanks that pad it to eight characters."""

    NONE = ""
    ADMIN = "MQADMIN"
    AMQP = "MQAMQP"
    CHANNEL_COMPLETED = "MQCHCOM"
    CICS = "MQCICS"
    COMMAND_1 = "MQCMD1"
    COMMAND_2 = "MQCMD2"
    DEAD_LETTER_HEADER = "MQDEAD"
    DIST_HEADER = "MQHDIST"
    EMBEDDED_PCF = "MQHEPCF"
    EVENT = "MQEVENT"
    IMS = "MQIMS"
    IMS_VAR_STRING = "MQIMSVS"
    MD_EXTENSION = "MQHMDE"
    PCF = "MQPCF"
    REF_MSG_HEADER = "MQHREF"
    RF_HEADER = "MQHRF"
    RF_HEADER_1 = RF_HEADER
    RF_HEADER_2 = "MQHRF2"
    STRING = "MQSTR"
    TRIGGER = "MQTRIG"
    WORK_INFO_HEADER = "MQHWIH"
    XMIT_Q_HEADER = "MQXMIT"


class MQENC(IntEnum):
    """The representation of numbers in the data (Encoding): one digit each for integers, packed decimals and floats.

    Not a set of flags: of each digit exactly one value holds. `NATIVE` does not depend on the machine, so neither do
    the files of a queue manager and what it sends.
    """

    AS_PUBLISHED = -1
    INTEGER_UNDEFINED = 0x000
    DECIMAL_UNDEFINED = INTEGER_UNDEFINED
    FLOAT_UNDEFINED = INTEGER_UNDEFINED
    INTEGER_NORMAL = 0x001
    INTEGER_REVERSED = 0x002
    DECIMAL_NORMAL = 0x010
    DECIMAL_REVERSED = 0x020
    FLOAT_IEEE_NORMAL = 0x100
    NORMAL = 0x111
    FLOAT_IEEE_REVERSED = 0x200
    REVERSED = 0x222
    NATIVE = REVERSED
    FLOAT_S390 = 0x300
    S390 = 0x311
    FLOAT_TNS = 0x400
    TNS = 0x411


UTF_8: Final = 1208
"""The CodedCharSetId of UTF-8."""


class MQCCSI(IntEnum):
    """The special values of CodedCharSetId, which otherwise names a character set, such as 1208 for UTF-8."""

    AS_PUBLISHED = -4
    APPL = -3
    INHERIT = -2
    EMBEDDED = -1
    Q_MGR = 0
    UNDEFINED = Q_MGR
    DEFAULT = Q_MGR


class MQAT(IntEnum):
    """The kind of program that put a message (PutApplType), or that a process definition starts (ApplType).

    Users define values of their own from `MQAT_USER_FIRST` to `MQAT_USER_LAST`.
    """

    UNKNOWN = -1
    NO_CONTEXT = 0
    CICS = 1
    ZOS = 2
    MVS = ZOS
    OS390 = ZOS
    IMS = 3
    OS2 = 4
    DOS = 5
    UNIX = 6
    AIX = UNIX
    DEFAULT = UNIX
    QMGR = 7
    OS400 = 8
    WINDOWS = 9
    CICS_VSE = 10
    WINDOWS_NT = 11
    VMS = 12
    NSK = 13
    GUARDIAN = NSK
    VOS = 14
    OPEN_TP1 = 15
    VM = 18
    IMS_BRIDGE = 19
    XCF = 20
    CICS_BRIDGE = 21
    NOTES_AGENT = 22
    TPF = 23
    USER = 25
    BROKER = 26
    QMGR_PUBLISH = BROKER
    JAVA = 28
    DQM = 29
    CHANNEL_INITIATOR = 30
    WLM = 31
    BATCH = 32
    RRS_BATCH = 33
    SIB = 34
    SYSTEM_EXTENSION = 35
    MCAST_PUBLISH = 36
    AMQP = 37


MQAT_USER_FIRST: Final = 65_536
MQAT_USER_LAST: Final = 999_999_999


class MQAN(StrEnum):
    """The name of no application (PutApplName)."""

    NONE = ""


class MQIAUT(StrEnum):
    """The authenticator of no one, in an IMS header."""

    NONE = ""
