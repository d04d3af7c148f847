"""The options and special values of connecting (MQCONNX), and of asking how a connection fares (MQSTAT)."""

from enum import IntEnum, IntFlag


class MQCNO(IntFlag):
    """Options for connecting (MQCONNX)."""

    NONE = 0
    STANDARD_BINDING = NONE
    RECONNECT_AS_DEF = NONE
    FASTPATH_BINDING = 0x1
    SERIALIZE_CONN_TAG_Q_MGR = 0x2
    SERIALIZE_CONN_TAG_QSG = 0x4
    RESTRICT_CONN_TAG_Q_MGR = 0x8
    RESTRICT_CONN_TAG_QSG = 0x10
    HANDLE_SHARE_NONE = 0x20
    HANDLE_SHARE_BLOCK = 0x40
    HANDLE_SHARE_NO_BLOCK = 0x80
    SHARED_BINDING = 0x100
    ISOLATED_BINDING = 0x200
    LOCAL_BINDING = 0x400
    CLIENT_BINDING = 0x800
    ACCOUNTING_MQI_ENABLED = 0x1000
    ACCOUNTING_MQI_DISABLED = 0x2000
    ACCOUNTING_Q_ENABLED = 0x4000
    ACCOUNTING_Q_DISABLED = 0x8000
    NO_CONV_SHARING = 0x1_0000
    ALL_CONVS_SHARE = 0x4_0000
    CD_FOR_OUTPUT_ONLY = 0x8_0000
    USE_CD_SELECTION = 0x10_0000
    GENERATE_CONN_TAG = 0x20_0000
    RECONNECT = 0x100_0000
    RECONNECT_DISABLED = 0x200_0000
    RECONNECT_Q_MGR = 0x400_0000
    ACTIVITY_TRACE_ENABLED = 0x800_0000
    ACTIVITY_TRACE_DISABLED = 0x1000_0000


class MQCSP(IntEnum):
    """The way in which a connecting program proves who it is (AuthenticationType)."""

    AUTH_NONE = 0
    AUTH_USER_ID_AND_PWD = 1
    AUTH_ID_TOKEN = 2


class MQSCO(IntEnum):
    """The special value of KeyResetCount in the TLS options of a connection."""

    RESET_COUNT_DEFAULT = 0


class MQRD(IntEnum):
    """The special values of the delay before a client connects again."""

    NO_RECONNECT = -1
    NO_DELAY = 0


class MQSTAT(IntEnum):
    """The information that MQSTAT is asked for."""

    TYPE_ASYNC_ERROR = 0
    TYPE_RECONNECTION = 1
    TYPE_RECONNECTION_ERROR = 2
