from attention.backends.decision import Decision, DeviceFacts

__all__ = ["Decision", "DeviceFacts"]
