"""The wire (docs/protocol.md), as far as a bench has to speak it itself: steering a broker and pushing jobs."""

import json
import socket
import struct

HEADER = struct.Struct(">IBBBBIIHBB")  # len type flags code prio id ttl meta_len name_len attempt
REST_OF_HEADER = 16
REQ, RES, HELLO, WELCOME = 1, 2, 4, 5
RAW, JSON = 0, 1
META_QUEUE = 24
USUAL_PRIORITY = 3


class WireError(Exception):
    """The broker refused, or does not speak the wire."""


def pack(kind, *, code=0, prio=0, id=0, name=b"", meta=b"", body=b""):
    length = REST_OF_HEADER + len(name) + len(meta) + len(body)
    return HEADER.pack(length, kind, 0, code, prio, id, 0, len(meta), len(name), 0) + name + meta + body


class Client:
    """One blocking connection; one caller at a time."""

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
        self.socket.sendall(pack(REQ, code=JSON, prio=USUAL_PRIORITY, id=self._take_ids(1), name=name.encode(), body=body))
        return json.loads(self._answer(name) or b"null")

    def push(self, queue, count, body):
        """Pushes `count` equal jobs, as many per write as the broker allows on their way at once."""
        at_once = min(int(self.welcome.get("max_inflight", 1000)), 1000)
        meta = bytes([META_QUEUE, len(queue)]) + queue.encode()
        frame = bytearray(pack(REQ, code=JSON, prio=USUAL_PRIORITY, name=b"stoker.push", meta=meta, body=body))
        while count > 0:
            n = min(count, at_once)
            first = self._take_ids(n)
            frames = bytearray()
            for id in range(first, first + n):
                struct.pack_into(">I", frame, 8, id)
                frames += frame
            self.socket.sendall(frames)
            for _ in range(n):
                self._answer("stoker.push")
            count -= n

    def _take_ids(self, n):
        if self.next_id + n > 0xFFFFFFFF:
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
