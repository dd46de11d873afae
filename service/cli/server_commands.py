"""`headcount serve` and `headcount migrate`, as the command line knows them.

What they run is imported when they run: the web stack takes longer to import than a plan to make.
"""

import argparse

HOST = "127.0.0.1"
PORT = 8750


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add both commands to the parser."""
    serving = commands.add_parser(
        "serve",
        help="serve the REST API",
        description="Serve the REST API, with an embedded PostgreSQL unless HEADCOUNT_DATABASE_URL names another.",
    )
    serving.add_argument("--host", default=HOST, help=f"address to listen on; {HOST} when left out")
    serving.add_argument("--port", type=_port, default=PORT, help=f"port to listen on; {PORT} when left out")
    serving.add_argument("--workers", type=_workers, default=1, help="processes that answer; 1 when left out")
    serving.set_defaults(run=_serve)
    migrating = commands.add_parser(
        "migrate",
        help="bring the database to this release's schema and catalog",
        description="Upgrade the schema and publish the bundled catalog. Serving with the embedded PostgreSQL does it"
        " by itself.",
    )
    migrating.set_defaults(run=_migrate)


def _serve(arguments: argparse.Namespace) -> int:
    from service.cli.serving import serve  # noqa: PLC0415 - see above

    return serve(arguments)


def _migrate(_: argparse.Namespace) -> int:
    from service.cli.serving import run_migrations  # noqa: PLC0415 - see above

    return run_migrations()


def _port(text: str) -> int:
    return _between(0, 65535, text)


def _workers(text: str) -> int:
    return _between(1, 256, text)


def _between(least: int, most: int, text: str) -> int:
    # The length first: Python refuses to read a number of thousands of digits, in words of its own.
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from {least} to {most}")
    return int(text)
