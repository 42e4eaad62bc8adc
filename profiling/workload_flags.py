"""The workload's fields as command-line flags, and the command that runs a workload again."""

import shlex

from attention.kinds import AnyWorkload
from attention.validation import flatten_workload

PROGRAM = "python -m profiling"


def flag_of(field: str) -> str:
    """``--seq-len-q`` for ``seq_len_q``."""
    return f"--{field.replace('_', '-')}"


def write_command(workload: AnyWorkload, *, command: str = "run", device: str = "auto") -> str:
    """One shell line that gives ``workload`` again, every field spelt out so that no default can change it."""
    words = [*PROGRAM.split(), command]
    for field, value in flatten_workload(workload).items():
        if value is not None:
            words += [flag_of(field), str(value)]
    return shlex.join([*words, "--device", device])
