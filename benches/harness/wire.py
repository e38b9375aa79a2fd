"""The wire protocol (docs/reference/protocol.md), as far as the benchmarks need it: to control a server and push
jobs."""

import itertools
import json
import socket
import struct
import time

HEADER = struct.Struct(">IBBBBIIHBB")  # len type flags code prio id ttl meta_len name_len attempt
REST_OF_HEADER = 16
REQ, RES, HELLO, WELCOME = 1, 2, 4, 5
RAW, JSON = 0, 1
META_FAIRNESS_KEY, META_QUEUE = 5, 24
DEFAULT_PRIORITY = 3
FIRST_PUSH_ID = 1 << 31  # lower ids are for all other requests


class WireError(Exception):
    """The server rejected a request or does not speak the wire protocol."""


def pack(kind, *, code=0, prio=0, id=0, name=b"", meta=b"", body=b""):
    length = REST_OF_HEADER + len(name) + len(meta) + len(body)
    return HEADER.pack(length, kind, 0, code, prio, id, 0, len(meta), len(name), 0) + name + meta + body


def tenant(key):
    """Metadata that sets a job's fairness key."""
    return bytes([META_FAIRNESS_KEY, len(key)]) + key.encode()


class Client:
    """A blocking connection for one caller at a time."""

    def __init__(self, path, timeout=30.0):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.buffer = b""
        self.next_id = 1
        try:
            self.socket.connect(str(path))
            hello = {"v": [1], "role": "client", "name": "bench"}
            self.socket.sendall(pack(HELLO, body=json.dumps(hello).encode()))
            kind, code, _, body = self._read()
            if kind != WELCOME:
                raise WireError(f"expected WELCOME, got type {kind}, status {code}: {body.decode(errors='replace')}")
            self.welcome = json.loads(body)
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def call(self, name, request):
        """One call with JSON in and out."""
        body = json.dumps(request).encode()
        self.socket.sendall(pack(REQ, code=JSON, prio=DEFAULT_PRIORITY, id=self._take_ids(1), name=name.encode(), body=body))
        return json.loads(self._answer(name) or b"null")

    def push(self, queue, count, body, meta=b""):
        """Pushes `count` equal jobs as fast as the server accepts them."""

        def equal():
            ready = [(size, self._frames(half, [(queue, body, meta)] * size)) for half in (0, 1)]
            for number in range(count // size):
                yield ready[number % 2]
            if rest := count % size:
                yield rest, self._frames(count // size % 2, [(queue, body, meta)] * rest)

        size = self._half()
        self._pour(equal())

    def push_all(self, jobs):
        """Pushes an iterable of (queue, body, metadata) as fast as the server accepts them."""

        def different():
            source, half = iter(jobs), 0
            while batch := list(itertools.islice(source, self._half())):
                yield len(batch), self._frames(half, batch)
                half = 1 - half

        self._pour(different())

    def push_one(self, queue, body, meta=b""):
        """Pushes one job; returns when it was sent and when the response arrived, in ns of the monotonic clock."""
        frames = self._frames(0, [(queue, body, meta)])
        sent = time.monotonic_ns()
        self.socket.sendall(frames)
        self._answers(1)
        return sent, time.monotonic_ns()

    def _half(self):
        """Half of the allowed requests in flight: one half is prepared while the other is being answered."""
        return min(int(self.welcome.get("max_inflight", 1000)), 1000) // 2

    def _frames(self, half, jobs):
        """Ids only have to be unique among the pushes in flight."""
        first = FIRST_PUSH_ID + half * 1000
        return b"".join(
            pack(
                REQ,
                code=JSON,
                prio=DEFAULT_PRIORITY,
                id=first + number,
                name=b"stoker.push",
                meta=bytes([META_QUEUE, len(queue)]) + queue.encode() + meta,
                body=body,
            )
            for number, (queue, body, meta) in enumerate(jobs)
        )

    def _pour(self, batches):
        on_their_way = 0
        for count, frames in batches:
            self.socket.sendall(frames)
            self._answers(on_their_way)
            on_their_way = count
        self._answers(on_their_way)

    def _answers(self, count):
        """Reads `count` responses to pushes; all of them must be OK."""
        buffer, at = self.buffer, 0
        while count:
            while count and len(buffer) - at >= HEADER.size:
                length, kind, _, code, *_ = HEADER.unpack_from(buffer, at)
                if len(buffer) - at < 4 + length:
                    break
                if kind != RES or code != 0:
                    raise WireError(f"stoker.push: type {kind}, status {code}: {buffer[at + HEADER.size : at + 4 + length]!r}")
                at += 4 + length
                count -= 1
            if count:
                chunk = self.socket.recv(1 << 18)
                if not chunk:
                    raise WireError("the broker closed the connection")
                buffer, at = buffer[at:] + chunk, 0
        self.buffer = buffer[at:]

    def _take_ids(self, n):
        if self.next_id + n > FIRST_PUSH_ID:
            self.next_id = 1
        self.next_id += n
        return self.next_id - n

    def _answer(self, to):
        kind, code, _, body = self._read()
        if kind != RES or code != 0:
            raise WireError(f"{to}: type {kind}, status {code}: {body.decode(errors='replace')}")
        return body

    def _read(self):
        while True:
            if len(self.buffer) >= HEADER.size:
                length, kind, _, code, _, id, _, meta_len, name_len, _ = HEADER.unpack_from(self.buffer)
                if len(self.buffer) >= 4 + length:
                    body = self.buffer[HEADER.size + meta_len + name_len : 4 + length]
                    self.buffer = self.buffer[4 + length :]
                    return kind, code, id, body
            chunk = self.socket.recv(1 << 18)
            if not chunk:
                raise WireError("the broker closed the connection")
            self.buffer += chunk
