"""Exceeds the limits of a token from another host, for campaign/network.py. Its argument is JSON: address, port, folder (of
the certificates) or null, token, watch (a token with the role read), limits, max_connections. Prints JSON: the ids of accepted
jobs, and what is wrong."""

import json
import socket
import ssl
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches"))

from harness import wire  # noqa: E402 (its path is set above)

RESOURCE_EXHAUSTED = 8
TEXT_OF_LIMIT = b"has reached its limit"
WAIT_S = 10
REFUSED_S = 0.7  # how long a connection beyond max_connections may stay unanswered


class Peer:
    """A connection that is open, or was rejected."""

    def __init__(self, options, token, timeout=WAIT_S):
        self.socket = socket.create_connection((options["address"], options["port"]), timeout)
        if folder := options["folder"]:
            context = ssl.create_default_context(cafile=f"{folder}/server.pem")
            context.load_cert_chain(f"{folder}/client.pem", f"{folder}/client.key")
            self.socket = context.wrap_socket(self.socket, server_hostname="stoker.test")
        self.socket.settimeout(timeout)
        self.buffer = b""
        hello = {"v": [1], "role": "client", "name": "probe", "token": token}
        self.socket.sendall(wire.pack(wire.HELLO, body=json.dumps(hello).encode()))
        kind, self.status, _, self.text = self.read()
        self.is_open = kind == wire.WELCOME

    read = wire.Client._read

    def requests(self, frames):
        """Sends requests in one write; returns statuses and bodies by id."""
        self.socket.sendall(b"".join(frames))
        return {id: (status, body) for _, status, id, body in (self.read() for _ in frames)}


def request(id, name, meta=b""):
    body = json.dumps({"n": -id, "us": 2_000}).encode()
    return wire.pack(wire.REQ, code=wire.JSON, prio=wire.DEFAULT_PRIORITY, id=id, name=name, meta=meta, body=body)


def connections(options):
    limit = options["limits"]["connections"]
    peers = [Peer(options, options["token"]) for _ in range(limit + 2)]
    opened = sum(peer.is_open for peer in peers)
    for peer in peers:
        peer.socket.close()
    return [] if opened == limit else [f"{opened} connections with --connections {limit}"]


def inflight(options):
    limit, peer = options["limits"]["inflight"], await_place(options)
    answers = peer.requests([request(id, b"net.once") for id in range(1, 3 * limit + 6)])
    refused = sum(status == RESOURCE_EXHAUSTED and TEXT_OF_LIMIT in body for status, body in answers.values())
    accepted = sum(status == 0 for status, _ in answers.values())
    broken = [] if refused and accepted >= limit else [f"{accepted} calls answered and {refused} refused with --inflight {limit}"]
    again = peer.requests([request(1, b"net.once")])
    peer.socket.close()
    return broken + ([] if again[1][0] == 0 else [f"no place of --inflight {limit} was freed: {again[1]}"])


def pushes(options):
    rate, peer = options["limits"]["pushes_per_second"], await_place(options)
    meta = bytes([wire.META_QUEUE, 3]) + b"net"
    ids, broken = [], []
    began = time.monotonic()
    # One at a time, so that --inflight does not matter.
    for id in range(1, 2 * rate + 6):
        status, body = peer.requests([request(id, b"stoker.push", meta)])[id]
        if status == 0:
            ids.append(json.loads(body)["id"] if body[:1] == b"{" else body.decode().strip('"'))
    most = rate * (time.monotonic() - began + 1) + 1
    peer.socket.close()
    if len(ids) > most:
        broken = [f"{len(ids)} pushes were accepted with --pushes-per-second {rate}, at most {most:.0f} are permitted"]
    return ids, broken


def all_connections(options):
    """Opens as many connections as the server permits, unless that is very many."""
    limit, peers = options["max_connections"], []
    if limit > 100:
        return []
    try:
        while len(peers) <= limit:
            peers.append(Peer(options, options["watch"], REFUSED_S))
    except OSError:
        pass  # It waits to be accepted.
    opened = sum(peer.is_open for peer in peers)
    for peer in peers:
        peer.socket.close()
    return [f"{opened} connections with max_connections = {limit}"] if opened > limit or not opened else []


def await_place(options):
    """The server learns a moment later that earlier connections were closed."""
    until = time.monotonic() + WAIT_S
    while not (peer := Peer(options, options["token"])).is_open:
        peer.socket.close()
        if time.monotonic() > until:
            raise wire.WireError(f"no place of --connections was freed: {peer.text}")
    return peer


def main():
    options = json.loads(sys.argv[1])
    broken, ids = [], []
    try:
        broken += connections(options) + inflight(options)
        ids, too_many = pushes(options)
        broken += too_many + all_connections(options)
    except (OSError, wire.WireError, struct.error) as error:
        broken.append(f"the probe failed: {error!r}")
    print(json.dumps({"ids": ids, "broken": broken}))


main()
