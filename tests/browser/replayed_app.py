"""Serves the page with a recorder that replays sample recordings: ``python -m tests.browser.replayed_app STATE PORT``.

States: ``recorded`` (a gallery of H200 runs), ``empty`` (no recordings), ``cpu`` (the machine is a CPU),
``slow`` (a run stays in its profile stage until it is stopped).
"""

import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from attention.backends import BACKENDS, Decision
from attention.workload import DType, Workload
from profiling.recording import (
    CapturedWarning,
    Failure,
    Progress,
    Recorder,
    Recording,
    RunRequest,
    Stage,
    write_recording,
)
from tests.conftest import CPU_ENVIRONMENT, CPU_FACTS, H200_ENVIRONMENT, H200_FACTS, build_sample
from ui import build_app, launch_options

STAGES: tuple[Stage, ...] = ("queue", "environment", "inputs", "decisions", "timing", "profile", "correctness")
GALLERY = {"tutorial_sdpa_auto": "cudnn", "tutorial_naive": "naive", "tutorial_sdpa_math": "math"}
SAMPLES = {
    "naive": "naive",
    "naive_inplace": "naive",
    "sdpa_auto": "cudnn",
    "sdpa_math": "math",
    "sdpa_flash": "flash",
    "sdpa_efficient": "efficient",
    "sdpa_cudnn": "cudnn",
}
FLASH_SAID = (
    "Flash attention kernel not used because:\nExpected query, key and value to be Half or BFloat16 <b>not bold</b>"
)


def build_recorder(state: str) -> Recorder:
    """A recorder that goes through every stage and then gives the sample that fits the request."""
    on_cpu = state == "cpu"
    environment = CPU_ENVIRONMENT if on_cpu else H200_ENVIRONMENT

    def record(request: RunRequest) -> Iterator[Progress | Recording]:
        if request.depth == "environment":
            yield Recording(environment=environment)
            return
        for done, stage in enumerate(STAGES):
            yield Progress(stage=stage, workload_index=0, workload_count=1, done=done, total=len(STAGES))
            if state == "slow" and stage == "profile":
                never = threading.Event()
                while not never.wait(0.05):
                    yield Progress(stage=stage, workload_index=0, workload_count=1, done=done, total=len(STAGES))
        for workload in request.workloads:
            yield _answer(workload, on_cpu=on_cpu)

    return record


def _answer(workload: Workload, *, on_cpu: bool) -> Recording:
    decisions = _decide(workload, on_cpu=on_cpu)
    if workload.backend == "sdpa_flash" and workload.dtype is DType.FLOAT32 and not on_cpu:
        return Recording(
            workload=workload,
            environment=H200_ENVIRONMENT,
            decisions=decisions,
            failures=(
                Failure(
                    stage="decisions",
                    kind="refused",
                    message="RuntimeError: No available kernel. Aborting execution.",
                    hint="Set dtype to bfloat16 or float16, or choose another backend.",
                ),
            ),
            warnings=(CapturedWarning(stage="decisions", category="UserWarning", message=FLASH_SAID),),
        )
    sample = build_sample("cpu_flash" if on_cpu else SAMPLES[workload.backend])
    return replace(sample, workload=workload, decisions=decisions)


def _decide(workload: Workload, *, on_cpu: bool) -> tuple[Decision, ...]:
    facts = CPU_FACTS if on_cpu else H200_FACTS
    decisions = tuple(backend.check(replace(workload, backend=backend.slug), facts) for backend in BACKENDS)
    return tuple(
        replace(decision, raw_message=FLASH_SAID)
        if decision.backend == "sdpa_flash" and decision.verdict == "rejected"
        else decision
        for decision in decisions
    )


def write_gallery(folder: Path) -> None:
    """Sample recordings under the names that the page looks for."""
    for name, sample in GALLERY.items():
        recording = build_sample(sample)
        assert recording.workload is not None
        recording = replace(recording, workload=replace(recording.workload, backend=name.removeprefix("tutorial_")))
        (folder / f"{name}.recording.json.gz").write_bytes(write_recording(recording))


def main(state: str, port: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if state != "empty":
            write_gallery(Path(folder))
        page = build_app(build_recorder(state), recordings_folder=Path(folder))
        page.launch(server_name="127.0.0.1", server_port=port, **launch_options())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
