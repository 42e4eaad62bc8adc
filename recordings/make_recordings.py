"""Make every recording of this folder on the GPU of this machine: the tutorial's case on each backend.

    python -m recordings.make_recordings [FOLDER]

The app shows them before anything was run. Each is made with the recorder itself, warm, one process for all.
"""

import sys
from pathlib import Path

from attention.validation import default_fields, parse_workload
from profiling.recorder import record, warm_up
from profiling.recording import Recording, RunRequest, write_recording

# What takes the tutorial's case with torch alone, and answers a question of its own.
RECORDED = (
    "naive",
    "naive_inplace",
    "sdpa_auto",
    "sdpa_math",
    "sdpa_flash",
    "sdpa_efficient",
    "sdpa_cudnn",
    "flex",
    "compiled_naive",
    "compiled_naive_cudagraph",
    "compiled_sdpa",
    "sdpa_cudagraph",
)


def make_recordings(folder: Path) -> None:
    """Write ``tutorial_<backend>.recording.json.gz`` for each backend.

    Raises:
        RuntimeError: a run had a failure, or there is no GPU.
    """
    if warm_up().device != "cuda":
        raise RuntimeError("recordings are made on an NVIDIA GPU; torch sees none here.")
    workloads = tuple(parse_workload(default_fields("cuda") | {"backend": backend}) for backend in RECORDED)
    for workload in workloads:  # once unkept: libraries load and cuDNN builds its plans
        _run(workload)
    folder.mkdir(parents=True, exist_ok=True)
    for workload in workloads:
        recording = _run(workload)
        if recording.failures:
            raise RuntimeError(f"{workload.backend}: {recording.failures[0].message}")
        path = folder / f"tutorial_{workload.backend}.recording.json.gz"
        path.write_bytes(write_recording(recording))
        print(f"{path.name}: {path.stat().st_size} bytes, {recording.gpu_seconds:.2f} s on the GPU")


def _run(workload) -> Recording:
    (recording,) = (item for item in record(RunRequest(workloads=(workload,))) if isinstance(item, Recording))
    return recording


if __name__ == "__main__":
    make_recordings(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
