"""`headcount workload scrape`: the lengths of requests as running engines count them, as a workload for a question.

Fetching happens here, on the caller's side: the service takes what was fetched, and never an address. What fetches is
imported when something is fetched: it takes longer to import than the rest.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from service.capacity.workload import Marginals
from service.cli.output import print_json, printable, whole_output
from service.errors import InvalidParameters, Refused, SetUpError
from service.readers import strict_json
from service.readers.metrics.reading import read_prometheus
from service.readers.question import AskedPrometheus, WorkloadFile

_LONGEST_WAIT = 7 * 24 * 3600


def add_to(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the action to the parser."""
    scrape = actions.add_parser(
        "scrape",
        help="read the lengths of requests from the metrics of vLLM or SGLang",
        description=(
            "Fetch the metrics of running engines, one URL a pod, and print a workload of the lengths of their"
            " requests, as in POST /v1/plans and headcount plan --workload. What was found in them is said on standard"
            " error."
        ),
    )
    scrape.add_argument(
        "urls", metavar="URL", nargs="+", help="where a pod exposes its metrics; /metrics when it has no path"
    )
    scrape.add_argument(
        "--twice",
        metavar="SECONDS",
        type=float,
        help="scrape again after so many seconds and count only the requests that finished in between",
    )
    scrape.add_argument("--model", metavar="NAME", help="the served model, where the metrics are of several")
    scrape.add_argument(
        "--max-model-len",
        metavar="N",
        type=int,
        action="append",
        help="the longest request of these engines, where open bins end; one for each URL where they differ",
    )
    scrape.add_argument("-o", "--output", metavar="FILE", type=Path, help="write the workload to a file")
    scrape.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Fetch, check and print."""
    from service.cli.scraping import scraped  # noqa: PLC0415 - see above

    wait = arguments.twice
    if wait is not None and not 0 < wait <= _LONGEST_WAIT:
        raise InvalidParameters(("--twice", f"must be seconds, more than 0 and at most {_LONGEST_WAIT:,}"))
    later, earlier = scraped(arguments.urls, wait)
    longest = arguments.max_model_len
    given = {
        "kind": "prometheus",
        "text": later,
        "earlier": earlier,
        "model_name": arguments.model,
        "max_model_len": longest[0] if longest and len(longest) == 1 else longest,
    }
    workload = {name: value for name, value in given.items() if value is not None}
    asked = strict_json.convert({"workload": workload}, WorkloadFile).workload
    assert isinstance(asked, AskedPrometheus)  # by its kind
    read = _checked(asked, arguments.urls)
    body = msgspec.json.encode(workload)
    if arguments.output is None:
        with whole_output():
            print_json(body)
    else:
        try:
            arguments.output.write_bytes(body)
        except OSError as error:
            raise SetUpError(f"{arguments.output} can't be written: {error.strerror}") from error
    if sys.stderr is not None:
        with suppress(OSError):
            print(*(printable(line) for line in _summary(read)), sep="\n", file=sys.stderr)
    return 0


def _checked(asked: AskedPrometheus, urls: Sequence[str]) -> Marginals:
    """Read the workload as a service would. Raises `InvalidParameters` that name the URL where a text is at fault."""
    try:
        return read_prometheus(asked)
    except Refused as refused:
        raise InvalidParameters(*((_place(fault.pointer, urls), fault.detail) for fault in refused.faults)) from refused


def _place(pointer: str, urls: Sequence[str]) -> str:
    from service.cli.fetching import named  # noqa: PLC0415 - see above

    _, _, field, *index = pointer.split("/")
    if field in {"text", "earlier"}:
        texts = [urls[int(index[0])]] if index else urls
        return ", ".join(named(url) or url for url in texts)
    return {"model_name": "--model", "max_model_len": "--max-model-len"}[field]


def _summary(read: Marginals) -> list[str]:
    requests = sum(part.count for part in read.prompt.bins)
    means = " and ".join(
        f"{side.tokens / max(sum(part.count for part in side.bins), 1):,.0f} tokens of {words}"
        for words, side in (("prompt", read.prompt), ("output", read.output))
        if side.tokens is not None
    )
    found = [f"  - {each.code}: {each.text}" for each in read.found]
    return [f"{requests:,} requests{f' of {means} on average' if means else ''}", *found]
