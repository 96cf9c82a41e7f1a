"""All scenarios, to import into a test module of one's own: `from ….scenarios import *`."""

from importlib import import_module
from pathlib import Path
from typing import Any

__all__: list[str] = []

for _path in sorted(Path(__file__).parent.glob("test_*.py")):
    _module = import_module(f".{_path.stem}", __package__)
    _marks: Any = getattr(_module, "pytestmark", [])
    for _name, _test in list(vars(_module).items()):
        if _name.startswith("test_"):
            # A mark of a module is not imported with its tests.
            for _mark in _marks if isinstance(_marks, list) else [_marks]:
                _mark(_test)
            globals()[_name] = _test
            __all__.append(_name)
