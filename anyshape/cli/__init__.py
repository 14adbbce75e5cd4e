"""The `anyshape` command: one file a subcommand, listed in `dispatch.py`."""

from anyshape.cli.dispatch import main

__all__ = ["main"]
