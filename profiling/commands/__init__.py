"""Every command, in the order in which the help lists them."""

from profiling.commands import analyze, check, environment, run
from profiling.commands.command import Command

COMMANDS: tuple[Command, ...] = (run.COMMAND, analyze.COMMAND, check.COMMAND, environment.COMMAND)

__all__ = ["COMMANDS", "Command"]
