"""The tabs of a report, in the order in which the page shows them."""

from ui.panels import (
    backends,
    compare_traces,
    correctness,
    downloads,
    environment,
    kernels,
    latency,
    memory,
    operators,
    summary,
    timeline,
)
from ui.panels.panel import Panel

PANELS: tuple[Panel, ...] = (
    summary.PANEL,
    kernels.PANEL,
    operators.PANEL,
    timeline.PANEL,
    latency.PANEL,
    correctness.PANEL,
    memory.PANEL,
    backends.PANEL,
    compare_traces.PANEL,
    environment.PANEL,
    downloads.PANEL,
)

__all__ = ["PANELS", "Panel"]
