"""What the page knows of the machine that live runs use: learned from the newest run, the same for every visitor."""

from attention.backends import DeviceFacts
from profiling.environment import build_device_facts
from profiling.recording import Environment


class KnownMachine:
    """The last environment that a live run reported; None before the first."""

    def __init__(self) -> None:
        self.environment: Environment | None = None

    def learn(self, environment: Environment | None) -> None:
        """Keeps ``environment`` unless it is None."""
        if environment is not None:
            self.environment = environment

    @property
    def device(self) -> str:
        """The kind whose defaults an experiment starts from; a GPU before the first run."""
        return "cuda" if self.environment is None else self.environment.device

    def facts(self) -> DeviceFacts | None:
        """What the backends' rules need; None before the first run."""
        return None if self.environment is None else build_device_facts(self.environment)
