"""What PLCs poll over Modbus TCP: status, results and feedforward tables; see ``deploy/modbus/register_map.md``."""

from service.modbus.gateway import open_modbus

__all__ = ["open_modbus"]
