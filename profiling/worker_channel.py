"""The frames between the web process and its worker process: a length, then one pickled message.

Only plain types of this project can arrive, so a message never makes the reader import torch.
"""

import enum
import io
import pickle
import struct
from dataclasses import dataclass
from typing import Any, BinaryIO

_LENGTH = struct.Struct(">Q")
# A trace of a gigabyte opens nowhere; a longer frame means that something else wrote into the pipe.
LONGEST_FRAME_BYTES = 2**30
_OWN_PACKAGES = ("attention.", "profiling.")


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has warmed up and waits for its first request."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The worker took a request up; until then nothing that happens to it is the request's doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDone:
    """The recorder came to its end. ``fault``: the traceback of what it raised, None if nothing."""

    fault: str | None = None


class BrokenChannel(Exception):
    """The bytes in the pipe are no frame of this project."""


class _PlainPickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        # Python 3.11.0 to 3.11.3 would write a member as a call of getattr, which may not cross.
        return (type(obj), (obj.value,)) if isinstance(obj, enum.Enum) else NotImplemented


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if not module.startswith(_OWN_PACKAGES):
            raise BrokenChannel(f"a message holds a {module}.{name}; only types of attention and profiling may cross")
        return super().find_class(module, name)


def write_frame(stream: BinaryIO, message: object) -> None:
    """Writes one message, whole.

    Raises:
        OSError: the other side is gone.
    """
    buffer = io.BytesIO()
    _PlainPickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(message)
    payload = buffer.getvalue()
    stream.write(_LENGTH.pack(len(payload)))
    stream.write(payload)
    stream.flush()


def read_frame(stream: BinaryIO) -> object | None:
    """The next message; None when the other side closed the pipe or died, be it inside a message.

    Raises:
        BrokenChannel: the bytes are no message of this project.
    """
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > LONGEST_FRAME_BYTES:
        raise BrokenChannel(f"a message claims {length} bytes, the longest allowed is {LONGEST_FRAME_BYTES}")
    payload = stream.read(length)
    if len(payload) < length:
        return None
    try:
        message: object = _PlainUnpickler(io.BytesIO(payload)).load()
    except (pickle.UnpicklingError, AttributeError, ImportError, EOFError, TypeError, ValueError) as error:
        raise BrokenChannel(f"a message cannot be read: {error!r}") from error
    return message
