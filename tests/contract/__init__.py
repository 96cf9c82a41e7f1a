"""The contract: what every engine keeps, sync and async, as a plugin for pytest.

It is part of the wheel, as `holdfast.contract`, for the authors of engines: docs/new-engine.md.
"""

from .backend import Backend
from .engine import EngineUnderTest

__all__ = ["Backend", "EngineUnderTest"]
