"""The reader of observations: a start-up log, or its figures as fields, as what one start-up said."""

from service.readers.observation.asked import CUT_IT, LONGEST_LOG, AskedFields, AskedObservation, check_length
from service.readers.observation.reading import Fact, Reading, read_observation
from service.readers.observation.vetted import checkpoint_name

__all__ = [
    "CUT_IT",
    "LONGEST_LOG",
    "AskedFields",
    "AskedObservation",
    "Fact",
    "Reading",
    "check_length",
    "checkpoint_name",
    "read_observation",
]
