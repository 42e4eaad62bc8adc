"""A run in progress: the stage's name, a bar, the elapsed time."""

from profiling.recording import Progress, Stage
from ui.markup import Markup, element

STAGE_TITLES: dict[Stage, str] = {
    "queue": "waiting for the device",
    "environment": "reading the machine",
    "inputs": "making the inputs",
    "decisions": "asking every backend",
    "first_call": "first call",
    "warmup": "warming up",
    "timing": "timing, without the profiler",
    "memory": "measuring memory",
    "profile": "profiling",
    "correctness": "checking against float64",
    "unlocks": "measuring what unlocks the refused backends",
}


def render_progress(progress: Progress, *, run: str, elapsed_ms: int, shows_old: bool) -> Markup:
    """``run`` names this run, so that the page's clock starts once; ``shows_old``: an earlier result stands below."""
    share = progress.done / progress.total if progress.total else 0.0
    percent = round(100 * min(1.0, share))
    bar = element(
        "div",
        element("span", style=f"width:{percent}%"),
        class_="bar",
        role="progressbar",
        aria_valuenow=percent,
        aria_valuemin=0,
        aria_valuemax=100,
        aria_label="run",
    )
    several = f" ({progress.workload_index + 1} of {progress.workload_count})" if progress.workload_count > 1 else ""
    return element(
        "div",
        element("strong", f"Running{several}: {STAGE_TITLES[progress.stage]}"),
        " · ",
        element("span", f"{elapsed_ms / 1000:.1f} s", class_="elapsed", data_run=run, data_elapsed_ms=elapsed_ms),
        bar,
        element("span", "Below is the previous result, until the new one is ready.", class_="quiet")
        if shows_old
        else None,
        class_="running att",
        role="status",
    )
