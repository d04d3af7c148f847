"""Message handles and message properties: their types, contexts and options."""

from enum import IntEnum, IntFlag


class MQTYPE(IntEnum):
    """The type of the value of a property."""

    AS_SET = 0
    NULL = 2
    BOOLEAN = 4
    BYTE_STRING = 8
    INT8 = 16
    INT16 = 32
    INT32 = 64
    LONG = INT32
    INT64 = 128
    FLOAT32 = 256
    FLOAT64 = 512
    STRING = 1024


class MQCOPY(IntFlag):
    """Into which messages a property is copied."""

    NONE = 0
    ALL = 0x1
    FORWARD = 0x2
    PUBLISH = 0x4
    REPLY = 0x8
    REPORT = 0x10
    DEFAULT = 0x16


class MQPD(IntEnum):
    """The fields of a property descriptor: its options, the support it needs and the context it belongs to.

    A number of one field prints with the name it has in the field of support.
    """

    NONE = 0
    NO_CONTEXT = NONE
    SUPPORT_OPTIONAL = 1
    USER_CONTEXT = SUPPORT_OPTIONAL
    SUPPORT_REQUIRED_IF_LOCAL = 0x400
    SUPPORT_REQUIRED = 0x10_0000


class MQSMPO(IntFlag):
    """Options for setting a property (MQSETMP)."""

    NONE = 0
    SET_FIRST = NONE
    SET_PROP_UNDER_CURSOR = 0x1
    SET_PROP_AFTER_CURSOR = 0x2
    APPEND_PROPERTY = 0x4
    SET_PROP_BEFORE_CURSOR = 0x8


class MQIMPO(IntFlag):
    """Options for inquiring a property (MQINQMP)."""

    NONE = 0
    INQ_FIRST = NONE
    CONVERT_TYPE = 0x2
    QUERY_LENGTH = 0x4
    INQ_NEXT = 0x8
    INQ_PROP_UNDER_CURSOR = 0x10
    CONVERT_VALUE = 0x20


class MQDMPO(IntFlag):
    """Options for deleting a property (MQDLTMP)."""

    NONE = 0
    DEL_FIRST = NONE
    DEL_PROP_UNDER_CURSOR = 0x1


class MQCMHO(IntFlag):
    """Options for making a message handle (MQCRTMH)."""

    DEFAULT_VALIDATION = 0
    NONE = DEFAULT_VALIDATION
    NO_VALIDATION = 0x1
    VALIDATE = 0x2


class MQDMHO(IntFlag):
    """The options of deleting a message handle (MQDLTMH): there are none."""

    NONE = 0


class MQMHBO(IntFlag):
    """Options for writing the properties of a message handle to a buffer (MQMHBUF)."""

    NONE = 0
    PROPERTIES_IN_MQRFH2 = 0x1
    DELETE_PROPERTIES = 0x2


class MQBMHO(IntFlag):
    """Options for moving properties in a buffer to a message handle (MQBUFMH)."""

    NONE = 0
    DELETE_PROPERTIES = 0x1


class MQRFH(IntFlag):
    """The flags of a rules and formatting header."""

    NONE = 0
    NO_FLAGS = NONE


class MQVL(IntEnum):
    """The special values of the length of a property."""

    NULL_TERMINATED = -1
    EMPTY_STRING = 0


class MQVS(IntEnum):
    """The special value of the length of a variable-length string (MQCHARV)."""

    NULL_TERMINATED = -1
