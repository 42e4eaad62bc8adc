"""The findings block: evidence leads to the timeline by its items, or by its operators where the host did the work."""

import re

from profiling.report import analyze_recording
from tests.conftest import SampleRecording
from ui.components.findings import render_findings
from ui.view import Origin, RunView


def buttons_of(sample_recording: SampleRecording, name: str) -> list[str]:
    analysis = analyze_recording(sample_recording(name))
    html = str(render_findings(RunView(analysis=analysis, origin=Origin(kind="live"))))
    return re.findall(r"<button[^>]*>", html)


def test_device_evidence_shows_its_items(sample_recording: SampleRecording) -> None:
    analysis = analyze_recording(sample_recording("naive"))
    copies = next(verdict for verdict in analysis.report.verdicts if verdict.rule == "hidden_copy")
    shown = " ".join(map(str, copies.evidence[0].items))
    assert any(f'data-show-items="{shown}"' in button for button in buttons_of(sample_recording, "naive"))


def test_host_evidence_shows_its_operators(sample_recording: SampleRecording) -> None:
    analysis = analyze_recording(sample_recording("cpu_naive"))
    copies = next(verdict for verdict in analysis.report.verdicts if verdict.rule == "hidden_copy")
    shown = " ".join(map(str, copies.evidence[0].operators))
    buttons = buttons_of(sample_recording, "cpu_naive")
    assert any(f'data-show-operators="{shown}"' in button for button in buttons)
    assert not any("data-show-items" in button for button in buttons)
