"""The reader of observations: a start-up log, or its figures as fields, as what one start-up said."""

from service.readers.observation.asked import LONGEST_LOG, AskedFields, AskedObservation
from service.readers.observation.reading import Fact, Reading, read_observation
from service.readers.observation.vetted import checkpoint_name

__all__ = ["LONGEST_LOG", "AskedFields", "AskedObservation", "Fact", "Reading", "checkpoint_name", "read_observation"]
