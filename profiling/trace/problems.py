"""What was wrong with a trace, counted by kind, and which of it leaves every number as the profiler wrote it."""

from profiling.trace.events import Problem

EMPTY = "no events"
REPEATED_LIST = "repeated traceEvents"  # a key that JSON allows twice: the events of all lists but one are lost
# Slices of one stream that share time: more than a tick of the device's clock, and at most one.
OVERLAP = "overlap on one stream"
TICK_OVERLAP = "overlap of one clock tick"

# Repairs and remarks after which every time and count is still as the profiler wrote it.
HARMLESS_REPAIRS = frozenset(
    {
        "control characters",
        "bad UTF-8",
        "trailing comma",
        "not a number",
        "unescaped quote",
        "over-long integer",
        "over-long name",
        "unexpected value",
        "unreadable head",
        "missing end",
        "profiler buffer work",
        TICK_OVERLAP,
    }
)


class InvalidTrace(ValueError):
    """The bytes are not a trace; the message is one line for the person who brought them."""


class TooLarge(InvalidTrace):
    """More than a reader of any kind takes; nothing of it is tried a second time."""


class ProblemLog:
    """Counts what was wrong by kind, with the first case of each as the example."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, kind: str, example: str, count: int = 1) -> None:
        if count:
            seen, first = self._found.get(kind, (0, example))
            self._found[kind] = (seen + count, first)

    def build(self) -> tuple[Problem, ...]:
        return tuple(Problem(kind=kind, count=count, example=text) for kind, (count, text) in self._found.items())
