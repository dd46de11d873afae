"""What Prometheus' HTTP API answers to an instant query, as it comes: `{"status": "success", "data": ...}`.

A field that isn't named here is let pass: servers that speak this API add some of their own.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

SampleValue = Annotated[str, Meta(max_length=64)]
"""A number as text, NaN and +Inf too: the API writes every value so."""


class NativeHistogram(msgspec.Struct, frozen=True):
    """A native histogram: its buckets are [rule, left, right, count], each by itself, and only those that count."""

    count: SampleValue
    sum: SampleValue
    buckets: Annotated[
        tuple[tuple[Annotated[int, Meta(ge=0, le=3)], SampleValue, SampleValue, SampleValue], ...],
        Meta(max_length=4096, description="Rule 0: (left, right], 1: [left, right), 2: without both, 3: with both."),
    ] = ()


class PrometheusSeries(msgspec.Struct, frozen=True):
    """One element of an instant vector: its labels and, at one time, a value or a native histogram."""

    metric: dict[str, str] = {}
    value: tuple[float, SampleValue] | None = None
    histogram: tuple[float, NativeHistogram] | None = None


class PrometheusData(msgspec.Struct, frozen=True):
    """The result of a query. Only an instant vector is read."""

    result_type: Annotated[Literal["vector"], Meta(description="vector: the answer to an instant query.")] = (
        msgspec.field(name="resultType")
    )
    result: Annotated[tuple[PrometheusSeries, ...], Meta(max_length=16384)]


class PrometheusAnswer(msgspec.Struct, frozen=True):
    """An answer of `GET /api/v1/query`, as it is."""

    status: Literal["success", "error"]
    data: PrometheusData | None = None
    error_type: str | None = msgspec.field(name="errorType", default=None)
    error: str | None = None
    warnings: tuple[str, ...] = ()
