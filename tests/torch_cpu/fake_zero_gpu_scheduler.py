"""A scheduler on loopback that answers as ZeroGPU's does, so that the real ``spaces`` package forks its workers here.

Also a program, for a machine with a GPU: ``python fake_zero_gpu_scheduler.py [ANSWER] [GPU_UUID]`` prints the
variables to start the app with; ``CUDA_VISIBLE_DEVICES=`` in front hides the GPU from the app as ZeroGPU does.
Source: the requests that spaces 0.51 sends, spaces/zero/api.py and client.py.
"""

import json
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import parse_qs, urlsplit

Answer = Literal["grant", "grant_cold", "quota", "too_long", "no_gpu", "queue_timeout"]


@dataclass
class Scheduler:
    """How requests for a GPU are answered, one after another and the last for ever, and what was asked so far."""

    answers: list[Answer] = field(default_factory=lambda: ["grant"])
    gpu_uuid: str = "0"
    url: str = ""
    calls: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        return {"SPACES_ZERO_GPU": "true", "SPACES_ZERO_DEVICE_API_URL": self.url}

    def grant(self, *, idle: bool) -> dict[str, object]:
        """``idle``: the worker of this GPU, if there is one, waits for work and may be used again."""
        return {
            "idle": idle,
            "nvidiaIndex": 0,
            "nvidiaUUID": self.gpu_uuid,
            "allowToken": uuid.uuid4().hex,
        }

    def schedule(self) -> tuple[int, str, bytes]:
        """Status, content type and body for a request for a GPU."""
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        match answer:
            case "quota":
                return 429, "application/json", json.dumps({"left": 7, "wait": 1800}).encode()
            case "too_long":
                return 429, "application/json", json.dumps({"left": 0, "wait": -1}).encode()
            case "no_gpu":
                return 503, "application/json", b"{}"
            case "queue_timeout":
                return 200, "text/event-stream", b"event: failed\n\n"
            case _:
                return 200, "application/json", json.dumps(self.grant(idle=answer == "grant")).encode()


@contextmanager
def serve(answer: Answer = "grant", gpu_uuid: str = "0") -> Iterator[Scheduler]:
    """A scheduler on a free port of loopback, for as long as the context lasts."""
    scheduler = Scheduler(answers=[answer], gpu_uuid=gpu_uuid)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(scheduler))
    scheduler.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield scheduler
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _handler(scheduler: Scheduler) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            address = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(address.query).items()}
            scheduler.calls.append((address.path, query))
            if address.path == "/schedule":
                self._reply(*scheduler.schedule())
            elif address.path in ("/startup-report", "/allow", "/release"):
                self._reply(200, "application/json", b"{}")
            else:
                self._reply(404, "application/json", b"{}")

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing: the calls are in the scheduler's list."""

        def _reply(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


if __name__ == "__main__":
    with serve(*sys.argv[1:]) as running:  # type: ignore[arg-type]
        print(" ".join(f"{name}={value}" for name, value in running.environment().items()), flush=True)
        threading.Event().wait()
