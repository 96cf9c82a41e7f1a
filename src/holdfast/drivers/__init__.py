"""The drivers: each performs the effects that `core/` yields, by blocking or by awaiting."""

from typing import TYPE_CHECKING

from holdfast.drivers.common import Driver

__all__ = ["AsyncDriver", "Driver"]

if TYPE_CHECKING:
    from holdfast.drivers.aio import AsyncDriver
else:
    AsyncDriver = Driver  # importing asyncio takes time that threads do not need
