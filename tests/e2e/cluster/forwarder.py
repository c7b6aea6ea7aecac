"""Relays connections from this machine's loopback to the API server inside the cluster's network namespace.

The listening socket was made outside and is inherited; connections are made inside. So no process has to change its
namespace, and the port is free again as soon as the cluster is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Sequence


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    try:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))
    there_writer.close()
    writer.close()


async def serve(listening: int, port: int) -> None:
    server = await asyncio.start_server(lambda r, w: _relay(r, w, port), sock=socket.socket(fileno=listening))
    await server.serve_forever()


def main(arguments: Sequence[str]) -> None:
    """FD PORT."""
    listening, port = (int(argument) for argument in arguments)
    asyncio.run(serve(listening, port))


if __name__ == "__main__":
    main(sys.argv[1:])
