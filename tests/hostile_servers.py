"""Servers on loopback that answer as no Headcount would."""

import json
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def server_that_sends(*parts: bytes, pause: float = 0.0) -> Iterator[str]:
    """The address of a server on loopback that answers every request with these bytes, slowly if told."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline().lower()) not in {b"", b"\r\n"}:
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            self.rfile.read(length)
            with suppress(OSError):  # the command has seen enough
                for part in parts:
                    self.wfile.write(part)
                    time.sleep(pause)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def reply(status: int, body: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Any", f"Content-Length: {len(body.encode())}", *headers, "", body]
    return "\r\n".join(lines).encode()


def problem(status: int, **members: object) -> bytes:
    base = {"type": "/problems/x", "title": "No", "status": status, "detail": "no", "instance": "urn:x"}
    return reply(status, json.dumps(base | members))
