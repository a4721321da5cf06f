"""Runtime that every Groundline service shares; import from the modules.

A service imports this package before anything that imports `grpc`: see grpc_settings.
"""

from groundline_runtime import grpc_settings as grpc_settings
from groundline_runtime.telemetry import log_settings as log_settings
