"""Clients of campaign/sites.py: HTTP/1.1 and HTTP/2 byte by byte, with and without TLS, so that no library mistakes
a truncated answer for a complete one, and so that reading and writing can be slow."""

import asyncio
import functools
import ssl
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tests/http"))

from smuggling_http import (  # noqa: E402 (its path is set above)
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    hpack,
    status,
)

WINDOW_UPDATE = 8
WINDOW = 1 << 20  # for each stream, and for the connection what its streams need together
PIECE = 16_384
HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE = 1, 4


class Refused(Exception):
    """The connection was not accepted."""


class Cut(Exception):
    """The connection or the stream ended before the answer was complete."""


def head_frames(number, block, ends):
    """A head as HEADERS and as many CONTINUATIONs as it needs."""
    parts = [block[at : at + PIECE] for at in range(0, len(block), PIECE)]
    for at, part in enumerate(parts):
        flags = (END_HEADERS if at == len(parts) - 1 else 0) | (END_STREAM if ends and at == 0 else 0)
        yield frame(CONTINUATION if at else HEADERS, flags, number, part)


@dataclass
class Answer:
    status: int
    body: bytes
    headers: dict = field(default_factory=dict)  # of HTTP/1.1 only


@functools.cache
def tls_context(protocol):
    """Accepts a certificate that nobody has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


async def connect(address, tls, protocol):
    """Opens a connection."""
    context = tls_context(protocol) if tls else None
    try:
        return await asyncio.open_connection(*address, ssl=context, limit=1 << 20)
    except ConnectionRefusedError as error:
        raise Refused(str(error)) from error
    except (OSError, ssl.SSLError) as error:
        raise Cut(f"during the handshake: {error}") from error


class Http1:
    """One connection of HTTP/1.1."""

    def __init__(self, streams):
        self.reader, self.writer = streams
        self.is_open, self.served = True, 0

    async def ask(self, request):
        self.served += 1
        writing = asyncio.ensure_future(self._write(request))
        try:
            answer = await self._read(request)
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError) as error:
            self.is_open = False
            raise Cut(str(error) or type(error).__name__) from error
        finally:
            if not writing.done():
                # The gateway has answered without reading the whole body.
                self.is_open = False
                writing.cancel()
            try:
                await writing
            except (OSError, ssl.SSLError, asyncio.CancelledError):
                self.is_open = False
        return answer

    async def _write(self, request):
        head = [f"{request.method} {request.path} HTTP/1.1", f"Host: {request.host}"]
        head += [f"{name}: {value}" for name, value in request.headers]
        if request.body is not None:
            head.append("Transfer-Encoding: chunked" if request.is_chunked else f"Content-Length: {len(request.body)}")
        self.writer.write("\r\n".join([*head, "", ""]).encode())
        for part in request.parts(PIECE if request.is_chunked else 65_536):
            self.writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n" if request.is_chunked else part)
            await self.writer.drain()
            if request.write_pause:
                await asyncio.sleep(request.write_pause)
        if request.body is not None and request.is_chunked:
            self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def _read(self, request):
        head = await self._head()
        request.has_head = True
        lines = head.decode("latin-1").split("\r\n")
        code = int(lines[0].split()[1])
        headers = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if headers.get("connection", "").lower() == "close":
            self.is_open = False
        body = b""
        if request.method != "HEAD" and code not in (204, 304):
            body = await self._body(headers, request)
        return Answer(code, body, headers)

    async def _head(self):
        while True:
            head = await self.reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 "):
                raise OSError(f"no answer of HTTP/1.1: {head[:60]!r}")
            if not head.startswith(b"HTTP/1.1 1"):
                return head

    async def _body(self, headers, request):
        parts = []
        if headers.get("transfer-encoding") == "chunked":
            while length := int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16):
                parts.append(await self._exactly(length, request))
                if await self.reader.readexactly(2) != b"\r\n":
                    raise OSError("a chunk without its end")
            await self.reader.readuntil(b"\r\n")
        elif "content-length" in headers:
            parts.append(await self._exactly(int(headers["content-length"]), request))
        else:
            raise OSError("neither a length nor chunks")
        return b"".join(parts)

    async def _exactly(self, length, request):
        parts = []
        while length > 0:
            part = await self.reader.read(min(length, request.read_piece))
            if not part:
                raise OSError(f"{length} bytes are missing")
            length -= len(part)
            parts.append(part)
            request.received += len(part)
            if request.leaves_after is not None and request.received >= request.leaves_after:
                raise OSError("the client leaves")
            if request.read_pause:
                await asyncio.sleep(request.read_pause)
        return b"".join(parts)

    def close(self):
        self.is_open = False
        self.writer.transport.abort()


class Http2:
    """One connection of HTTP/2, whose requests run at the same time."""

    def __init__(self, streams):
        self.reader, self.writer = streams
        self.is_open, self.is_lost, self.served = True, False, 0
        self.streams, self.next = {}, 1
        self.window, self.initial = 65_535, 65_535
        self.room = asyncio.Condition()
        settings = b"".join(key.to_bytes(2) + value.to_bytes(4) for key, value in ((HEADER_TABLE_SIZE, 0), (INITIAL_WINDOW_SIZE, WINDOW)))
        self.writer.write(PREFACE + frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, (1 << 30).to_bytes(4)))
        self.reading = asyncio.ensure_future(self._read())

    async def ask(self, request):
        self.served += 1
        number, self.next = self.next, self.next + 2
        stream = self.streams[number] = {"status": None, "parts": [], "window": self.initial, "events": asyncio.Queue(), "ended": False}
        fields = [(":method", request.method), (":scheme", request.scheme), (":authority", request.host), (":path", request.path)]
        fields += [(name.lower(), value) for name, value in request.headers]
        if request.body is not None and not request.is_chunked:
            fields.append(("content-length", str(len(request.body))))
        block = hpack([(name.encode(), str(value).encode()) for name, value in fields])
        writing = None
        try:
            self.writer.write(b"".join(head_frames(number, block, request.body is None)))
            if request.body is not None:
                writing = asyncio.ensure_future(self._write(number, stream, request))
            return await self._answer(number, stream, request)
        except OSError as error:
            raise Cut(str(error)) from error
        finally:
            if writing:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
            del self.streams[number]
            if not stream["ended"] and not self.is_lost:
                self.writer.write(frame(RST_STREAM, 0, number, (8).to_bytes(4)))

    async def _answer(self, number, stream, request):
        while True:
            kind, payload, ends = await stream["events"].get()
            if kind == "cut":
                raise OSError(payload)
            if kind == HEADERS and stream["status"] is None:
                stream["status"], request.has_head = status(payload), True
            elif kind == DATA:
                stream["parts"].append(payload)
                request.received += len(payload)
                if request.leaves_after is not None and request.received >= request.leaves_after:
                    raise OSError("the client leaves")
                if request.read_pause:
                    await asyncio.sleep(request.read_pause * len(payload) / request.read_piece)
                if payload and not ends:
                    self.writer.write(frame(WINDOW_UPDATE, 0, number, len(payload).to_bytes(4)))
            if ends:
                stream["ended"] = True
                return Answer(stream["status"], b"".join(stream["parts"]))

    async def _write(self, number, stream, request):
        for part in request.parts(PIECE):
            async with self.room:
                await self.room.wait_for(lambda: self.is_lost or min(self.window, stream["window"]) >= len(part))
            if self.is_lost:
                return
            self.window -= len(part)
            stream["window"] -= len(part)
            self.writer.write(frame(DATA, 0, number, part))
            await self.writer.drain()
            if request.write_pause:
                await asyncio.sleep(request.write_pause)
        self.writer.write(frame(DATA, END_STREAM, number))

    async def _read(self):
        reason = "the connection was closed"
        try:
            while True:
                head = await self.reader.readexactly(9)
                payload = await self.reader.readexactly(int.from_bytes(head[:3]))
                await self._frame(head[3], head[4], int.from_bytes(head[5:]) & 0x7FFFFFFF, payload)
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError) as error:
            reason = str(error) or reason
        finally:
            self.is_open, self.is_lost = False, True
            for stream in self.streams.values():
                stream["events"].put_nowait(("cut", reason, True))
            async with self.room:
                self.room.notify_all()

    async def _frame(self, kind, flags, number, payload):
        stream = self.streams.get(number)
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                if int.from_bytes(payload[at : at + 2]) == INITIAL_WINDOW_SIZE:
                    await self._set_initial(int.from_bytes(payload[at + 2 : at + 6]))
            self.writer.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.writer.write(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.is_open = False
            last = int.from_bytes(payload[:4])
            for other, of in self.streams.items():
                if other > last:
                    of["events"].put_nowait(("cut", f"GOAWAY {int.from_bytes(payload[4:8])}", True))
        elif kind == WINDOW_UPDATE:
            async with self.room:
                if number == 0:
                    self.window += int.from_bytes(payload)
                elif stream:
                    stream["window"] += int.from_bytes(payload)
                self.room.notify_all()
        elif stream and kind == RST_STREAM:
            stream["ended"] = True
            stream["events"].put_nowait(("cut", f"RST_STREAM {int.from_bytes(payload)}", True))
        elif kind in (HEADERS, DATA):
            if kind == DATA and payload:
                self.writer.write(frame(WINDOW_UPDATE, 0, 0, len(payload).to_bytes(4)))
            if stream:
                stream["events"].put_nowait((kind, payload, bool(flags & END_STREAM)))

    async def _set_initial(self, size):
        async with self.room:
            for stream in self.streams.values():
                stream["window"] += size - self.initial
            self.initial = size
            self.room.notify_all()

    def close(self):
        self.is_open, self.is_lost = False, True
        self.reading.cancel()
        self.writer.transport.abort()
