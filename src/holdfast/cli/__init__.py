"""The command line: `holdfast run`, `ls`, `show` and `break`. Thin: parse, call, show."""

from holdfast.cli.app import main

__all__ = ["main"]
