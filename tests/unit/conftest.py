"""Property tests without a time limit an example: on a busy machine it fails tests that are right."""

from hypothesis import settings

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
