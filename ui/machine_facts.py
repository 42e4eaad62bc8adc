"""What the page knows of the machine that live runs use: learned from the newest run, the same for every visitor."""

from attention.backends import DeviceFacts
from profiling.recording import Environment


class KnownMachine:
    """The last environment that a live run reported; None before the first."""

    def __init__(self) -> None:
        self.environment: Environment | None = None

    def learn(self, environment: Environment | None) -> None:
        """Keeps ``environment`` unless it is None."""
        if environment is not None:
            self.environment = environment

    def facts(self) -> DeviceFacts | None:
        """What the backends' rules need; None before the first run."""
        return None if self.environment is None else build_device_facts(self.environment)


def build_device_facts(environment: Environment) -> DeviceFacts:
    """The part of an environment that the backends' rules look at."""
    release = environment.torch.split("+")[0].split(".")
    version = {"torch_version": (int(release[0]), int(release[1]))} if len(release) >= 2 else {}
    return DeviceFacts(
        kind=environment.device,
        name=environment.device_name,
        compute_capability=environment.compute_capability,
        total_memory_bytes=environment.total_memory_bytes,
        **version,
    )
