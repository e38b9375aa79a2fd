"""The corpus of smuggling.py. Each case states what is allowed: that the request is rejected and the connection closed, or what
exactly the worker has to see."""

from smuggling_http import CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, frame, hpack

HTTP1, HTTP2 = [], []
LAST = {"method": "GET", "target": "/last", "body": b""}
LAST_BYTES = b"GET /last HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
MALFORMED = {400, 431, 501, 505, 405, 414}
CHUNKED = b"Transfer-Encoding: chunked\r\n"
# What a smuggled request would be: the worker must never see it.
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: a.test\r\n\r\n"


def rejects(name, sent, *before, statuses=MALFORMED):
    """The connection is closed after the rejection, so that the rest can't be taken for another request."""
    HTTP1.append({"name": name, "bytes": sent + LAST_BYTES, "requests": before, "rejected": statuses})


def understands(name, sent, *requests, last=True):
    """The worker sees these requests, and then the last one, if it is not part of a body."""
    expected = [*requests, LAST] if last else requests
    HTTP1.append({"name": name, "bytes": sent + (LAST_BYTES if last else b""), "requests": expected, "rejected": set()})


def post(fields, body=b"", target=b"/x", version=b"1.1"):
    return b"POST " + target + b" HTTP/" + version + b"\r\nHost: a.test\r\n" + fields + b"\r\n" + body


def get(fields=b"", target=b"/x", host=b"Host: a.test\r\n", version=b"1.1", method=b"GET"):
    return method + b" " + target + b" HTTP/" + version + b"\r\n" + host + fields + b"\r\n"


def saw(body=b"", method="POST", target="/x", **more):
    return {"method": method, "target": target, "body": body, **more}


def lengths():
    for value in (b"+3", b"-3", b"0x3", b"3 3", b"3,4", b"3;", b"3.0", b"", b"abc", b"\xb2", b"1e1", b"3\x0b", b'"3"'):
        rejects(f"content-length {value!r}", post(b"Content-Length: " + value + b"\r\n", b"abc"))
    rejects("content-length that overflows", post(b"Content-Length: 18446744073709551619\r\n", b"abc"))
    rejects("content-length of 100 digits", post(b"Content-Length: " + b"9" * 100 + b"\r\n", b"abc"))
    rejects("two different content-lengths", post(b"Content-Length: 3\r\nContent-Length: 45\r\n", b"abc" + HIDDEN))
    rejects("content-length before and after", post(b"Content-Length: 0\r\nX: y\r\nContent-Length: 3\r\n", b"abc"))
    rejects("content-length with a space before the colon", post(b"Content-Length : 3\r\n", b"abc"))
    rejects("content-length with a tab before the colon", post(b"Content-Length\t: 3\r\n", b"abc"))
    rejects("content-length too large", post(b"Content-Length: 99999999\r\n", b"abc"), statuses={413})
    understands("content-length with spaces around", post(b"Content-Length: \t 3 \t\r\n", b"abc"), saw(b"abc"))
    understands("content-length with zeros", post(b"Content-Length: 0003\r\n", b"abc"), saw(b"abc", length="3"))
    understands("GET with a body", get(b"Content-Length: %d\r\n" % len(HIDDEN)) + HIDDEN, saw(HIDDEN, "GET"))
    understands("content_length is another field", post(b"Content_Length: 99\r\nContent-Length: 3\r\n", b"abc"), saw(b"abc", length="3"))
    understands("content-length 0", post(b"Content-Length: 0\r\n"), saw())


def encodings():
    body = b"3\r\nabc\r\n0\r\n\r\n"
    for value in (
        b"chunked, identity", b"identity", b"xchunked", b"chunkedx", b"x", b"gzip", b"gzip, chunked", b"identity, chunked", b"",
        b"chunked, chunked", b"\x0bchunked", b"chunked;q=1", b'"chunked"', b"chunked\x00", b"chu nked", b"chunked gzip", b",chunked x",
    ):  # fmt: skip
        rejects(f"transfer-encoding {value!r}", post(b"Transfer-Encoding: " + value + b"\r\n", body))
        rejects(f"transfer-encoding {value!r} and content-length",
                post(b"Transfer-Encoding: " + value + b"\r\nContent-Length: 13\r\n", body))  # fmt: skip
    rejects("transfer-encoding twice", post(CHUNKED + b"Transfer-Encoding: identity\r\n", body))
    rejects("transfer-encoding twice, chunked last", post(b"Transfer-Encoding: identity\r\n" + CHUNKED, body))
    rejects("transfer-encoding chunked twice", post(CHUNKED + CHUNKED, body))
    # The chunks count, and the connection is closed after them (RFC 9112, section 6.1).
    for name, both in (("after", CHUNKED + b"Content-Length: 3\r\n"), ("before", b"Content-Length: 5\r\n" + CHUNKED)):
        understands(f"content-length {name} chunked", post(both, body + HIDDEN + LAST_BYTES), saw(b"abc", length="3"), last=False)
    rejects("chunked in HTTP/1.0", post(CHUNKED, body, version=b"1.0"))
    rejects("space before the colon of transfer-encoding", post(b"Transfer-Encoding : chunked\r\n", body))
    rejects("folded transfer-encoding", post(b"Transfer-Encoding:\r\n chunked\r\n", body))
    rejects("folded field", post(b"X: y\r\n z\r\nContent-Length: 3\r\n", b"abc"))
    rejects("folded first field", b"POST /x HTTP/1.1\r\n Host: a.test\r\nHost: a.test\r\n\r\n")
    rejects("CR before transfer-encoding", post(b"X: y\rTransfer-Encoding: chunked\r\nContent-Length: 0\r\n"))
    for value in (b"Chunked", b"CHUNKED", b"\tchunked", b"chunked \t"):
        understands(f"transfer-encoding {value!r}", post(b"Transfer-Encoding: " + value + b"\r\n", body), saw(b"abc", length="3"))
    understands("transfer_encoding is another field", post(b"Transfer_Encoding: chunked\r\nContent-Length: 3\r\n", b"abc"), saw(b"abc"))
    understands("GET with chunks", get(CHUNKED) + body, saw(b"abc", "GET"))
    understands("no body in chunks", post(CHUNKED, b"0\r\n\r\n"), saw())


def chunks():
    for name, body in (
        ("sign", b"+3\r\nabc\r\n0\r\n\r\n"), ("0x", b"0x3\r\nabc\r\n0\r\n\r\n"), ("empty size", b"\r\nabc\r\n0\r\n\r\n"),
        ("overflow", b"10000000000000003\r\nabc\r\n0\r\n\r\n"), ("much overflow", b"f" * 40 + b"\r\nabc\r\n0\r\n\r\n"),
        ("too short", b"2\r\nabc\r\n0\r\n\r\n"), ("too long", b"4\r\nabc\r\n0\r\n\r\n"), ("no CRLF", b"3\r\nabc0\r\n\r\n"),
        ("underscore", b"0_3\r\nabc\r\n0\r\n\r\n"), ("CR in the extension", b"3;a\rb\r\nabc\r\n0\r\n\r\n"),
        ("LF in the extension", b"3;a\nb\r\nabc\r\n0\r\n\r\n"), ("huge extension", b"3;" + b"a" * 200_000 + b"\r\nabc\r\n0\r\n\r\n"),
        ("LF after the data", b"3\r\nabc\n0\r\n\r\n"), ("CR alone after the size", b"3\rabc\r\n0\r\n\r\n"),
    ):  # fmt: skip
        rejects(f"chunk: {name}", post(CHUNKED, body), statuses={400, 413})
    understands("chunk extensions", post(CHUNKED, b'3;a=b;c="d"\r\nabc\r\n0;x\r\n\r\n'), saw(b"abc"))
    understands("chunk size with zeros", post(CHUNKED, b"0003\r\nabc\r\n000\r\n\r\n"), saw(b"abc"))
    understands("many chunks", post(CHUNKED, b"1\r\nx\r\n" * 5_000 + b"0\r\n\r\n"), saw(b"x" * 5_000, length="5000"))
    trailers = b"Host: evil\r\nContent-Length: 99\r\nX-Own: evil\r\nTransfer-Encoding: chunked\r\n"
    fields = CHUNKED + b"Trailer: X-Own\r\nX-Own: good\r\n"
    own = {"HTTP_X_OWN": b"good"}
    understands("trailers", post(fields, b"3\r\nabc\r\n0\r\n" + trailers + b"\r\n"), saw(b"abc", host="a.test", length="3", fields=own))
    rejects("many trailers", post(CHUNKED, b"0\r\n" + b"x: y\r\n" * 50_000 + b"\r\n"), statuses={400, 413, 431})


def lines():
    understands("lines that end with LF", b"POST /x HTTP/1.1\nHost: a.test\nContent-Length: 3\n\nabc", saw(b"abc"))
    understands("LF as the end of some lines", post(b"X: y\nContent-Length: 3\r\n", b"abc"), saw(b"abc", fields={"HTTP_X": b"y"}))
    understands("empty lines before", b"\r\n\r\n\n" + get(), saw(method="GET"))
    for byte in (b"\0", b"\r", b"\x01", b"\x7f", b"\x0b"):
        rejects(f"{byte!r} in a value", get(b"X: a" + byte + b"b\r\n"))
        rejects(f"{byte!r} in a name", get(b"X" + byte + b": a\r\n"))
        rejects(f"{byte!r} in the target", get(target=b"/a" + byte + b"b"))
        rejects(f"{byte!r} in the method", get(method=b"GE" + byte + b"T"))
        rejects(f"{byte!r} in Host", get(host=b"Host: a" + byte + b"b\r\n"))
    for name, fields in (
        ("space before the colon", b"X : y\r\n"), ("no colon", b"X\r\n"), ("no name", b": y\r\n"), ("space in a name", b"X Y: z\r\n"),
        ("parenthesis in a name", b"X(: z\r\n"), ("bytes above 127 in a name", b"X\xff: z\r\n"), ("quote in a name", b'X": z\r\n'),
    ):  # fmt: skip
        rejects(name, get(fields))
    for name, line in (
        ("no version", b"GET /x\r\nHost: a.test\r\n\r\n"), ("HTTP/0.9", b"GET /x\r\n"), ("lower case version", b"GET /x http/1.1\r\n\r\n"),
        ("HTTP/1.2", get(version=b"1.2")), ("HTTP/2.0 in text", get(version=b"2.0")), ("HTTP/1.10", get(version=b"1.10")),
        ("HTTP/01.1", get(version=b"01.1")), ("two spaces", get(target=b" /x")), ("tab instead of space", b"GET\t/x HTTP/1.1\r\n\r\n"),
        ("space in the target", get(target=b"/x /y")), ("no target", b"GET HTTP/1.1\r\n\r\n"), ("space first", b" " + get()),
        ("text after the version", get(version=b"1.1 x")), ("binary", bytes(range(128, 256)) + b"\r\n\r\n"),
        ("response", b"HTTP/1.1 200 OK\r\n\r\n"), ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    ):  # fmt: skip
        rejects(name, line)
    understands("bytes above 127 in a value", get(b"X: \xe4\xff\r\n"), saw(method="GET", fields={"HTTP_X": b"\xe4\xff"}))
    understands("empty value", get(b"X:\r\n"), saw(method="GET", fields={"HTTP_X": b""}))
    understands("HTTP/1.0", get(b"Connection: keep-alive\r\n", version=b"1.0"), saw(method="GET"))
    understands("pipelining", get(target=b"/p") * 50, *[saw(method="GET", target="/p")] * 50)
    understands("pipelining with bodies", post(b"Content-Length: %d\r\n" % len(HIDDEN), HIDDEN) * 20, *[saw(HIDDEN)] * 20)


def hosts():
    for name, host in (
        ("no Host", b""), ("two Hosts", b"Host: a.test\r\nHost: b.test\r\n"), ("the same Host twice", b"Host: a.test\r\n" * 2),
        ("Host with a path", b"Host: a.test/x\r\n"), ("Host with a user", b"Host: a@a.test\r\n"), ("empty Host", b"Host: \r\n"),
        ("Host with a comma", b"Host: a.test, b.test\r\n"), ("Host with a space", b"Host: a.test b.test\r\n"),
        ("Host with a wrong port", b"Host: a.test:8o\r\n"), ("Host with a large port", b"Host: a.test:99999\r\n"),
        ("Host with brackets", b"Host: [::1\r\n"), ("Host of bytes above 127", b"Host: \xe4.test\r\n"), ("Host *", b"Host: *\r\n"),
        ("Host with a space before the colon", b"Host : a.test\r\n"), ("Host with a query", b"Host: a.test?x\r\n"),
        ("Host with a fragment", b"Host: a.test#x\r\n"), ("Host with %", b"Host: a%2etest\r\n"), ("Host with \\", b"Host: a\\test\r\n"),
    ):  # fmt: skip
        rejects(name, get(host=host))
    rejects("HTTP/1.0 without Host", get(host=b"", version=b"1.0"))
    rejects("absolute form without Host", get(target=b"http://b.test/x", host=b""))
    rejects("absolute form with an invalid Host", get(target=b"http://b.test/x", host=b"Host: a b\r\n"))
    rejects("absolute form with a user", get(target=b"http://a@b.test/x"))
    rejects("absolute form of another scheme", get(target=b"ftp://a.test/x"))
    rejects("authority form", get(target=b"a.test:80"))
    rejects("CONNECT", get(target=b"a.test:80", method=b"CONNECT"))
    rejects("no slash", get(target=b"x"))
    understands("absolute form", get(target=b"http://b.test:81/x?y"), saw(method="GET", target="/x?y", host="b.test:81"))
    understands("absolute form without a path", get(target=b"http://b.test"), saw(method="GET", target="/", host="b.test"))
    understands("the scheme of the target is not believed", get(target=b"https://a.test/x"), saw(method="GET", https="http"))
    understands("OPTIONS *", get(target=b"*", method=b"OPTIONS"), {"method": "OPTIONS", "host": "a.test", "body": b""})
    rejects("GET *", get(target=b"*"))


def fields():
    none = {"HTTP_PROXY": None, "HTTP_X_SENDFILE": None}
    understands("Proxy", get(b"Proxy: http://evil.test\r\n"), saw(method="GET", fields=none))
    understands("X-Sendfile of the client", get(b"X-Sendfile: /etc/passwd\r\n"), saw(method="GET"))
    understands(
        "underscores hide no field",
        get(b"X-Real: good\r\nX_Real: evil\r\nx_forwarded_for: 1.2.3.4\r\n"),
        saw(method="GET", fields={"HTTP_X_REAL": b"good"}),
    )
    understands("only underscores", get(b"X_Auth_User: evil\r\n"), saw(method="GET", fields={"HTTP_X_AUTH_USER": None}))
    understands(
        "Connection removes fields",
        get(b"Connection: X-Own, keep-alive\r\nX-Own: 1\r\nX-Two: 2\r\n"),
        saw(method="GET", fields={"HTTP_X_OWN": None, "HTTP_X_TWO": b"2", "HTTP_CONNECTION": None}),
    )
    understands(
        "Connection does not remove what the gateway adds",
        post(b"Connection: Host, Content-Length, keep-alive\r\nContent-Length: 3\r\n", b"abc"),
        saw(b"abc", host="a.test", length="3"),
    )
    understands("h2c upgrade", get(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAA\r\n"),
                saw(method="GET", fields={"HTTP_UPGRADE": None, "HTTP_HTTP2_SETTINGS": None}))  # fmt: skip
    understands("two cookies", get(b"Cookie: a=1\r\nCookie: b=2\r\n"), saw(method="GET", fields={"HTTP_COOKIE": b"a=1; b=2"}))
    understands("expectation", post(b"Expect: 100-continue\r\nContent-Length: 3\r\n", b"abc"), saw(b"abc"))
    rejects("expectation of a body that is too large", post(b"Expect: 100-continue\r\nContent-Length: 99999999\r\n"), statuses={413})
    rejects("too many fields", get(b"X: y\r\n" * 1_000), statuses={431})
    rejects("fields that are too large", get(b"X: " + b"y" * 100_000 + b"\r\n"), statuses={431})
    rejects("one name that is too long", get(b"X" * 70_000 + b": y\r\n"), statuses={400, 431})
    rejects("a target that is too long", get(target=b"/" + b"x" * 100_000), statuses={414, 431, 400})
    rejects("a method that is too long", get(method=b"X" * 100_000), statuses={400, 431})
    rejects("TRACE", get(method=b"TRACE"), statuses={405})


def paths():
    for path in ("/a%00b", "/..", "/../../etc/passwd", "/%2e%2e/x", "/a/../b", "/a%2f..%2fb", "/a\\..\\b", "/%", "/%zz", "/."):
        rejects_path(path)
    for path in ("//x", "/x//y", "/x;y=z", "/a%2fb", "/a\\b", "/x?y?z=../..", "/x%0d%0aX:%20y", "/%ff", "/x?%00", "/.env", "/mirror.php/x",
                 "/mirror.php%00.css", "/mirror.php%20", "/x'y", '/x"y', "/{x}|^", "//evil.test/x", "/x?a=http://b"):  # fmt: skip
        if "%00." not in path:
            understands(f"path {path}", get(target=path.encode()), saw(method="GET", target=path))
    understands("fragment in the target", get(target=b"/x?y#/../z"), saw(method="GET", target="/x?y"))
    rejects("backtick in the target", get(target=b"/x`"))
    rejects("bytes above 127 in the target", get(target=b"/\xe4\xff"))


def rejects_path(path):
    # The head is complete and valid, so the connection may stay open.
    requests = [{"status": 400}, LAST]
    HTTP1.append({"name": f"path {path}", "bytes": get(target=path.encode()) + LAST_BYTES, "requests": requests, "rejected": set()})


def stream(fields, body=None, number=1, flags=0):
    """The frames of a request."""
    head = frame(HEADERS, END_HEADERS | (END_STREAM if body is None else 0) | flags, number, hpack(fields))
    return head if body is None else head + frame(DATA, END_STREAM, number, body)


def pseudo(method=b"GET", path=b"/x", authority=b"a.test", scheme=b"http"):
    named = ((b":method", method), (b":scheme", scheme), (b":authority", authority), (b":path", path))
    return [(name, value) for name, value in named if value is not None]


def add_http2(name, frames, requests, statuses):
    last = stream(pseudo(path=b"/last"), number=3)
    HTTP2.append({"name": f"HTTP/2: {name}", "bytes": frames + last, "streams": (1, 3), "requests": requests, "rejected": statuses})


def rejects_http2(name, frames, statuses=(0, 400)):
    """The stream is reset or answered with one of these; the whole connection may end."""
    add_http2(name, frames, [], set(statuses))


def understands_http2(name, frames, request):
    add_http2(name, frames, [request, LAST], set())


def streams():
    for name, fields in (
        ("upper case", [(b"X-Own", b"y")]), ("CRLF in a value", [(b"x", b"y\r\nhost: evil")]), ("LF in a value", [(b"x", b"y\nz")]),
        ("NUL in a value", [(b"x", b"y\0z")]), ("colon in a name", [(b"x:y", b"z")]), ("CRLF in a name", [(b"x\r\ny", b"z")]),
        ("space in a name", [(b"x y", b"z")]), ("empty name", [(b"", b"z")]), ("transfer-encoding", [(b"transfer-encoding", b"chunked")]),
        ("connection", [(b"connection", b"close")]), ("keep-alive", [(b"keep-alive", b"5")]), ("upgrade", [(b"upgrade", b"h2c")]),
        ("proxy-connection", [(b"proxy-connection", b"close")]), ("te", [(b"te", b"gzip")]), ("unknown pseudo-field", [(b":x", b"y")]),
        ("pseudo-field of answers", [(b":status", b"200")]), ("pseudo-field after others", [(b"x", b"y"), (b":path", b"/y")]),
        ("two paths", [(b":path", b"/hidden")]), ("two methods", [(b":method", b"POST")]), ("another host", [(b"host", b"b.test")]),
        ("two authorities", [(b":authority", b"b.test")]), ("two hosts", [(b"host", b"a.test"), (b"host", b"b.test")]),
        ("protocol", [(b":protocol", b"websocket")]),
    ):  # fmt: skip
        rejects_http2(name, stream(pseudo() + fields))
    for name, changed in (
        ("no path", {"path": None}), ("empty path", {"path": b""}), ("no method", {"method": None}), ("no scheme", {"scheme": None}),
        ("no authority", {"authority": None}), ("empty authority", {"authority": b""}), ("user in the authority", {"authority": b"a@a.test"}),
        ("path in the authority", {"authority": b"a.test/x"}), ("path without slash", {"path": b"x"}), ("space in the path", {"path": b"/x HTTP/1.1"}),
        ("CRLF in the path", {"path": b"/x HTTP/1.1\r\nhost: evil\r\n\r\n"}), ("space in the method", {"method": b"GET /hidden HTTP/1.1\r\nx: y"}),
        ("empty method", {"method": b""}), ("CRLF in the authority", {"authority": b"a.test\r\nx: y"}),
        ("path of another host", {"path": b"http://b.test/x"}), ("GET *", {"path": b"*"}),
    ):  # fmt: skip
        rejects_http2(name, stream(pseudo(**changed)))
    rejects_http2("CONNECT", stream(pseudo(b"CONNECT", None, b"a.test:80", None), b""), (0, 400, 405))
    rejects_http2("content-length that is too short", stream([*pseudo(b"POST"), (b"content-length", b"2")], b"abc"))
    rejects_http2("content-length that is too long", stream([*pseudo(b"POST"), (b"content-length", b"4")], b"abc"))
    rejects_http2("content-length without a body", stream([*pseudo(b"POST"), (b"content-length", b"4")]))
    rejects_http2("two content-lengths", stream([*pseudo(b"POST"), (b"content-length", b"3"), (b"content-length", b"4")], b"abc"))
    rejects_http2("content-length with a sign", stream([*pseudo(b"POST"), (b"content-length", b"+3")], b"abc"))
    rejects_http2("content-length that is too large", stream([*pseudo(b"POST"), (b"content-length", b"99999999")], b"abc"), (0, 413))
    rejects_http2("fields that are too large", stream([*pseudo(), (b"x", b"y" * 15_000), (b"z", b"y" * 5_000)]), (0, 431))
    more = frame(CONTINUATION, 0, 1, hpack([(b"x", b"y" * 1_000)]))
    rejects_http2("endless head", frame(HEADERS, END_STREAM, 1, hpack(pseudo())) + more * 500, (0, 431))
    understands_http2("GET", stream(pseudo()), saw(method="GET", host="a.test", https="http"))
    understands_http2("the scheme is not believed", stream(pseudo(scheme=b"https")), saw(method="GET", https="http"))
    understands_http2("Host instead of the authority", stream([*pseudo(authority=None), (b"host", b"b.test")]), saw(method="GET", host="b.test"))
    understands_http2("Host as the authority", stream([*pseudo(), (b"host", b"a.test")]), saw(method="GET", host="a.test"))
    understands_http2("body without content-length", stream(pseudo(b"POST"), HIDDEN), saw(HIDDEN, length=str(len(HIDDEN))))
    understands_http2("body", stream([*pseudo(b"POST"), (b"content-length", b"3")], b"abc"), saw(b"abc", length="3"))
    understands_http2("OPTIONS *", stream(pseudo(b"OPTIONS", b"*")), {"method": "OPTIONS", "host": "a.test", "body": b""})
    crumbs = [(b"cookie", b"a=1"), (b"cookie", b"b=2"), (b"proxy", b"http://evil.test"), (b"x_own", b"evil"), (b"te", b"trailers")]
    removed = {"HTTP_COOKIE": b"a=1; b=2", "HTTP_PROXY": None, "HTTP_X_OWN": None, "HTTP_TE": None}
    understands_http2("fields", stream(pseudo() + crumbs), saw(method="GET", fields=removed))
    parts = [(b"x-own", b"good")]
    body = frame(HEADERS, END_HEADERS, 1, hpack(pseudo(b"POST") + parts)) + frame(DATA, 0, 1, b"abc")
    trailers = [(b"x-own", b"evil"), (b"content-length", b"99"), (b"host", b"evil")]
    understands_http2("trailers", body + frame(HEADERS, END_HEADERS | END_STREAM, 1, hpack(trailers)),
                 saw(b"abc", host="a.test", fields={"HTTP_X_OWN": b"good"}))  # fmt: skip
    # All trailers are dropped, even invalid ones.
    understands_http2("pseudo-field in trailers", body + frame(HEADERS, END_HEADERS | END_STREAM, 1, hpack([(b":path", b"/hidden")])), saw(b"abc"))


for part in (lengths, encodings, chunks, lines, hosts, fields, paths, streams):
    part()
