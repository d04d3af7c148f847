"""The configuration: `broker.toml` and the environment, loaded into frozen dataclasses, and what differs between two.

Nothing here opens a socket or a store, and nothing is looked up later: whoever needs a section is given it.
"""

from broker.config.changes import SettingChange as SettingChange
from broker.config.changes import changes as changes
from broker.config.changes import with_live_values as with_live_values
from broker.config.http import HttpConfig as HttpConfig
from broker.config.http import http_lines as http_lines
from broker.config.limits import LimitsConfig as LimitsConfig
from broker.config.loading import ConfigError as ConfigError
from broker.config.loading import LoadedConfig as LoadedConfig
from broker.config.loading import load as load
from broker.config.loading import load_with_origins as load_with_origins
from broker.config.sections import DEFAULTS as DEFAULTS
from broker.config.sections import DURABLE as DURABLE
from broker.config.sections import SECTIONS as SECTIONS
from broker.config.sections import Config as Config
from broker.config.sections import JournalConfig as JournalConfig
from broker.config.sections import ListenerConfig as ListenerConfig
from broker.config.sections import LoggingConfig as LoggingConfig
from broker.config.sections import QueueManagerConfig as QueueManagerConfig
from broker.config.sections import TriggerMonitorConfig as TriggerMonitorConfig
from broker.config.sections import settings as settings
from broker.config.security import SecurityConfig as SecurityConfig
from broker.config.security import TlsConfig as TlsConfig
from broker.config.security import TokensConfig as TokensConfig
from broker.config.security import tls_lines as tls_lines
from broker.config.setting import Setting as Setting
