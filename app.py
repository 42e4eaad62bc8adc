"""AttnScope as a web page: ``python app.py``, or a Hugging Face Space."""

import spaces  # isort: skip - must come before anything that may import torch

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from profiling.budget import zero_gpu_duration
from profiling.recording import Progress, Recorder, Recording, RunRequest
from profiling.worker import Worker
from profiling.zero_gpu import end_process_after_lost_context, on_zero_gpu, with_failures_as_data


@spaces.GPU(duration=zero_gpu_duration)
def record_on_zero_gpu(request: RunRequest) -> Iterator[Progress | Recording]:
    """The one function that ZeroGPU runs on a GPU; elsewhere a worker process owns the device."""
    from profiling.recorder import record

    yield from end_process_after_lost_context(record(request))


def choose_recorder() -> Recorder:
    """What owns the device here; off ZeroGPU it starts warming up at once."""
    if on_zero_gpu():
        return with_failures_as_data(record_on_zero_gpu)
    worker = Worker()
    worker.warm()
    return worker.record


def main() -> None:
    # Gradio's own choice is one folder a machine, which belongs to the first user who ran any Gradio app there.
    os.environ.setdefault("GRADIO_TEMP_DIR", str(Path(tempfile.gettempdir()) / f"attnscope-cache-{os.getuid()}"))
    recorder = choose_recorder()
    # Imported now, so that the worker imports torch on one core while this imports gradio on the other.
    from ui import build_app, launch_options

    server_name = os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0" if "SPACE_ID" in os.environ else "127.0.0.1")
    page = build_app(recorder, recordings_folder=Path(__file__).parent / "recordings")
    page.launch(server_name=server_name, **launch_options())


if __name__ == "__main__":
    main()
