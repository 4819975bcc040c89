"""What PLCs poll over Modbus TCP: status, results and feedforward tables; see ``deploy/modbus/register_map.md``."""

from service.modbus.gateway import open_modbus
from service.modbus.server import LimitedServer

__all__ = ["LimitedServer", "open_modbus"]
