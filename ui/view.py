"""What one page shows: an analysis, where it came from, and the visitor's guess."""

from dataclasses import dataclass
from typing import Literal

from profiling.report import Analysis


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a report came from; ``title`` names a gallery entry or an opened file."""

    kind: Literal["recorded", "live", "opened"]
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One report on the page. ``guess``: kernels per step that the visitor expected, None when they did not say.

    ``against``: the run that this one is compared with, None when none was chosen.
    """

    analysis: Analysis
    origin: Origin
    guess: float | None = None
    against: "RunView | None" = None

    @property
    def on_device(self) -> bool:
        """Whether the trace holds any device activity."""
        return bool(self.analysis.trace and self.analysis.trace.device_items)

    @property
    def was_refused(self) -> bool:
        """Whether the chosen backend turned the workload down, or its kernel is not here: there is no call to show."""
        failures = self.analysis.report.failures
        return any((failure.stage, failure.kind) == ("first_call", "unavailable") for failure in failures) or any(
            failure.kind == "refused" for failure in failures
        )

    @property
    def title(self) -> str:
        """One line that tells this run from another one on the same page."""
        if self.origin.title:
            return self.origin.title
        workload = self.analysis.report.workload
        return "live run" if workload is None else f"live run · {workload.backend} · {workload.describe()}"
