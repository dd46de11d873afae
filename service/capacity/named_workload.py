"""What a workload of the catalog is: request lengths that somebody published, and what is weak about them."""

import msgspec

from service.capacity.figures import Figure
from service.capacity.workload import Found, Joint


class NamedWorkload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests that were published, as a joint histogram of prompts and outputs in tokens."""

    about: str
    """What requests these are."""
    licence: str
    """What the source is published under, as SPDX writes it."""
    attribution: str
    """Whom to name where the lengths are used, and what was changed of them."""
    requests: Figure[int]
    mean_prompt_tokens: Figure[float]
    """Of all requests, before they were sorted into bins."""
    mean_output_tokens: Figure[float]
    lengths: Figure[Joint]
    caveats: tuple[Found, ...]
    """What every answer that stands on these lengths has to say."""
