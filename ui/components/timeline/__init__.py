"""The timeline: one step of a trace as lanes over one time axis."""

from ui.components.timeline.component import create_timeline, write_timeline
from ui.components.timeline.lanes import build_timeline

__all__ = ["build_timeline", "create_timeline", "write_timeline"]
