"""Serving and migrating: the service with its database, embedded or named by a DSN."""

import argparse
import json
import multiprocessing.process
import os
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType

import httpx
import uvicorn
from litestar.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from service.api.examples import EXAMPLE_QUESTION
from service.app import application
from service.cli.output import whole_output
from service.errors import SetUpError
from service.settings import read_settings
from service.store.embedded import DataFolderInUse, data_folder, embedded_postgresql, running_postgresql
from service.store.migrations import check_migrated, migrate

_UP_WITHIN = 60.0

_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {"headcount": {"level": "INFO"}},
}


def serve(arguments: argparse.Namespace) -> int:
    """Serve until interrupted; the server stops first, then PostgreSQL."""
    _stop_in_order_on_signals()
    listener = _listener(arguments.host, arguments.port)
    with listener, database(check=True) as url:
        # Worker processes make their application from the environment.
        os.environ["HEADCOUNT_DATABASE_URL"] = url
        config = uvicorn.Config(
            "service.cli.serving:worker_application" if arguments.workers > 1 else "service.app:application",
            factory=True,
            workers=arguments.workers,
            # Not httptools: it drops the body of a request that offers an upgrade, as Java's client does by default.
            http="h11",
            lifespan="on",
            access_log=False,
            log_config=_LOGGING,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=10,
        )
        address = _address(arguments.host, listener.getsockname()[1])
        threading.Thread(target=_greet_when_up, args=(address,), daemon=True).start()
        if not _run(config, listener):
            raise SetUpError("the service did not start; the lines above say why")
    print("Stopped.", file=sys.stderr)
    return 0


def _run(config: uvicorn.Config, listener: socket.socket) -> bool:
    """Answer until a signal asks to stop; say whether it ever came to answering."""
    if config.workers > 1:
        Multiprocess(config, sockets=[listener]).run()
        return True
    server = uvicorn.Server(config)
    # The server stops by itself on a signal, and then raises it again for whoever else wants to know.
    with suppress(KeyboardInterrupt, SystemExit):
        server.run(sockets=[listener])
    return server.started


def worker_application() -> ASGIApp:
    """Make the application of a worker process, which ends when the process that started it is gone.

    A killed parent can't stop its workers, and they would keep the port.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()
    return application()


def _end_after(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def run_migrations() -> int:
    """Migrate and say what was done."""
    _stop_in_order_on_signals()
    with database(check=False):
        return 0


@contextmanager
def database(*, check: bool) -> Iterator[str]:
    """Give the DSN of a migrated database: the embedded one, or the one that the settings name.

    A database that others may be using is migrated by `headcount migrate` alone; with `check` it is only checked.
    """
    settings = read_settings(os.environ)
    if settings.database_url is None:
        with embedded_postgresql(data_folder(os.environ)) as url:
            _migrate_and_tell(url)
            yield url
    elif check:
        check_migrated(settings.database_url)
        yield settings.database_url
    else:
        _migrate_and_tell(settings.database_url)
        yield settings.database_url


@contextmanager
def database_beside_a_server() -> Iterator[str]:
    """As `database`, checked; the embedded one also while a `headcount serve` has it, which keeps it running."""
    with ExitStack() as stack:
        try:
            url = stack.enter_context(database(check=True))
        except DataFolderInUse:
            url = stack.enter_context(running_postgresql(data_folder(os.environ)))
            check_migrated(url)
        yield url


def _migrate_and_tell(url: str) -> None:
    with whole_output():
        for line in migrate(url) or ["database: schema and catalog are this release's"]:
            print(line)


def _listener(host: str, port: int) -> socket.socket:
    """Bind before anything is started: a taken port is the likeliest fault, and the cheapest to find."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except (OSError, UnicodeError) as error:
        another = 'choose another with --port (make up ARGS="--port N")'
        raise SetUpError(
            f"can't listen on {host} port {port}: {getattr(error, 'strerror', None) or 'not an address'}; {another}"
        ) from error
    return listener


def _address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _greet_when_up(address: str) -> None:
    """Wait for the first answer, whichever process gives it, and say how to ask."""
    with suppress(httpx.HTTPError, OSError):
        # The socket listens already: the request waits until a worker takes it.
        httpx.get(f"{address}/livez", timeout=_UP_WITHIN).raise_for_status()
        question = shlex.quote(json.dumps(EXAMPLE_QUESTION))
        print(
            f"Headcount serves on {address} (its description: {address}/docs). Ctrl-C stops it. Try:\n\n"
            f"  curl -s {address}/v1/plans -H 'Content-Type: application/json' -d {question}\n",
            flush=True,
        )


def _stop_in_order_on_signals() -> None:
    """Turn the signals that ask to stop into exceptions: PostgreSQL is stopped on the way out.

    A closed terminal asks to stop as well, and so does Ctrl-C where a shell started this with it ignored.
    """
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)
