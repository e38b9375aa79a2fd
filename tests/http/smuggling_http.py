"""The client's side of HTTP/1 and HTTP/2, byte by byte, so that it can send what no library would."""

import base64
import json
import socket
import struct

TIMEOUT = 10.0
MAX_ANSWER = 1 << 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, CONTINUATION = 0, 1, 3, 4, 6, 7, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
# Statuses of the static table of HPACK, and the codes of digits of its Huffman code.
STATUSES = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
DIGITS = {"00000": "0", "00001": "1", "00010": "2", "011001": "3", "011010": "4", "011011": "5", "011100": "6"}
DIGITS |= {"011101": "7", "011110": "8", "011111": "9"}


def seen(body):
    """What the worker has written of the request, or None if another one has answered."""
    try:
        found = json.loads(body)
    except ValueError:
        return None
    found["body"] = base64.b64decode(found["body"])
    found["fields"] = {name: base64.b64decode(value) for name, value in dict(found["fields"]).items()}
    return found


def http1(address, case):
    """Sends the bytes of a case. Returns the answers, and whether the gateway has closed the connection."""
    with socket.create_connection(address, timeout=TIMEOUT) as connection:
        try:
            connection.sendall(case["bytes"])
        except OSError:
            pass  # A gateway that rejects a request need not read all of it.
        received, closed = b"", False
        try:
            while part := connection.recv(65536):
                received += part
            closed = True
        except ConnectionError:
            closed = True
        except TimeoutError:
            pass
    return list(answers(received)), closed


def answers(received):
    while received:
        head, end, rest = received.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        if not end or not lines[0].startswith("HTTP/1."):
            yield {"status": 0, "seen": None}
            return
        status = int(lines[0].split()[1])
        fields = [line.partition(":") for line in lines[1:]]
        fields = {name.lower(): value.strip() for name, _, value in fields}
        # An answer whose program is slow comes in parts.
        is_chunked = fields.get("transfer-encoding", "").lower() == "chunked"
        length = int(fields.get("content-length", 0))
        body, received = unchunked(rest) if is_chunked else (rest[:length], rest[length:])
        if status >= 200:
            yield {"status": status, "seen": seen(body)}


def unchunked(rest):
    """The body that begins with these chunks, and what follows it."""
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        size = int(size, 16)
        body, rest = body + rest[:size], rest[size + 2 :]
        if size == 0:
            break
    return body, rest


def frame(kind, flags, stream, payload=b""):
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def hpack(fields):
    """Fields as literals without indexing and without the Huffman code."""
    block = b""
    for name, value in fields:
        block += b"\0" + integer(len(name)) + name + integer(len(value)) + value
    return block


def integer(number):
    if number < 127:
        return bytes([number])
    number -= 127
    encoded = b"\x7f"
    while number >= 128:
        encoded += bytes([number % 128 + 128])
        number //= 128
    return encoded + bytes([number])


def status(block):
    """The status, which is the first field of an answer."""
    while block[0] & 0xE0 == 0x20:  # A new size of the dynamic table.
        block = block[1:]
    if block[0] & 0x80:
        return STATUSES.get(block[0] & 0x7F, 0)
    value = block[2 : 2 + (block[1] & 0x7F)]
    if not block[1] & 0x80:
        return int(value)
    bits, digits = "".join(f"{byte:08b}" for byte in value), ""
    while len(digits) < 3:
        code = next(code for code in DIGITS if bits.startswith(code))
        digits, bits = digits + DIGITS[code], bits[len(code) :]
    return int(digits)


def http2(address, case):
    """Sends the frames of a case, then a PING: its answer is the last thing that is waited for, after the streams. A stream that
    is reset, and each one of a connection that is closed, has the status 0."""
    streams = {stream: {"status": None, "body": b""} for stream in case["streams"]}
    goaway = closed = False
    with socket.create_connection(address, timeout=TIMEOUT) as connection:
        try:
            connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + case["bytes"])
        except OSError:
            pass
        reader = connection.makefile("rb")
        try:
            while any(stream["status"] is None or "open" in stream for stream in streams.values()):
                head = reader.read(9)
                if len(head) < 9:
                    closed = True
                    break
                length, kind, flags = int.from_bytes(head[:3]), head[3], head[4]
                number = int.from_bytes(head[5:]) & 0x7FFFFFFF
                payload = reader.read(length)
                if kind == SETTINGS and not flags & ACK:
                    connection.sendall(frame(SETTINGS, ACK, 0))
                elif kind == GOAWAY:
                    goaway = True
                stream = streams.get(number)
                if stream is None:
                    continue
                if kind == HEADERS and stream["status"] is None:
                    stream["status"], stream["open"] = status(payload), True
                elif kind == DATA:
                    stream["body"] += payload
                if kind == RST_STREAM and stream["status"] is None:
                    stream["status"] = 0
                if kind == RST_STREAM or kind in (HEADERS, DATA) and flags & END_STREAM:
                    stream.pop("open", None)
        except ConnectionError:
            closed = True
        except TimeoutError:
            pass
    found = [stream for stream in streams.values() if stream["status"] is not None or closed]
    return [{"status": stream["status"] or 0, "seen": seen(stream["body"])} for stream in found], True
