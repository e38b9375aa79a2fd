"""A worker of the crash campaign that runs many jobs at once. It keeps the same ledger as worker.php."""

import heapq
import json
import os
import select
import socket
import struct
import time
import uuid

HEADER = struct.Struct(">IBBBBIIHBB")
REQ, RES, HELLO, WELCOME, PING, PONG, GOAWAY, STARTED = 1, 2, 4, 5, 7, 8, 9, 13
JOB_ID, CRASHES = 16, 25
OK, APPLICATION = 0, 64


def pack(kind, *, code=0, id=0, body=b""):
    return HEADER.pack(16 + len(body), kind, 0, code, 0, id, 0, 0, 0, 0) + body


def entries(meta):
    at = 0
    while at < len(meta):
        key, length = meta[at], meta[at + 1]
        at += 2
        if length == 255:
            (length,) = struct.unpack_from(">H", meta, at)
            at += 2
        yield key, meta[at : at + length]
        at += length


class Worker:
    def __init__(self):
        self.socket = socket.socket(fileno=int(os.environ["STOKER_FD"]))
        self.ledger = os.open(os.environ["CAMPAIGN_LEDGER"], os.O_WRONLY | os.O_APPEND)
        self.buffer = b""
        self.runs = 0
        self.ends = []  # (time, tag, id, outcome)
        self.leaving = False

    def note(self, *words):
        line = (" ".join(map(str, words)) + "\n").encode()
        if os.write(self.ledger, line) != len(line):
            os._exit(3)

    def run(self):
        hello = {"v": [1], "role": "worker", "name": "wide", "pid": os.getpid(), "calls": [], "jobs": ["*"]}
        hello["slots"] = int(os.environ["CAMPAIGN_SLOTS"])
        self.socket.sendall(pack(HELLO, body=json.dumps(hello).encode()))
        while not (self.leaving and not self.ends):
            wait = max(0.0, self.ends[0][0] - time.monotonic()) if self.ends else None
            if select.select([self.socket], [], [], wait)[0]:
                chunk = self.socket.recv(1 << 16)
                if not chunk and not self.leaving:
                    return
                self.leaving = self.leaving or not chunk
                self.buffer += chunk
                self.take()
                if not chunk:
                    time.sleep(wait or 0)
            while self.ends and self.ends[0][0] <= time.monotonic():
                _, tag, id, outcome = heapq.heappop(self.ends)
                self.note("E", tag, time.monotonic_ns(), outcome)
                code = OK if outcome == "done" else APPLICATION
                self.socket.sendall(pack(RES, code=code, id=id, body=b"" if code == OK else b"as it was told"))

    def take(self):
        while len(self.buffer) >= HEADER.size:
            length, kind, _, _, _, id, _, meta_len, name_len, attempt = HEADER.unpack_from(self.buffer)
            if len(self.buffer) < 4 + length:
                return
            meta = self.buffer[HEADER.size + name_len : HEADER.size + name_len + meta_len]
            body = self.buffer[HEADER.size + name_len + meta_len : 4 + length]
            self.buffer = self.buffer[4 + length :]
            if kind == REQ:
                self.start(id, dict(entries(meta)), json.loads(body), attempt)
            elif kind == PING:
                self.socket.sendall(pack(PONG, id=id))
            elif kind == GOAWAY:
                self.leaving = True

    def start(self, id, meta, job, attempt):
        self.runs += 1
        now = time.monotonic_ns()
        tag = f"{os.getpid()}.{now}.{self.runs}"
        crashes = int.from_bytes(meta.get(CRASHES, b"\0"), "big")
        self.note("S", tag, now, uuid.UUID(bytes=meta[JOB_ID]), job["n"], attempt, crashes)
        self.socket.sendall(pack(STARTED, id=id))
        outcome = "done" if attempt >= job.get("fail", 0) else "failed"
        hurry = os.path.exists(os.environ["CAMPAIGN_LEDGER"] + "-hurry")
        heapq.heappush(self.ends, (time.monotonic() + (1 if hurry else job["ms"]) / 1000, tag, id, outcome))


Worker().run()
