"""The requests of campaign/sites.py and the clients that make them at full speed."""

import asyncio
import itertools
import time
import zlib
from dataclasses import dataclass, field

from . import site_draw, site_http
from .site_draw import KB, MB, BOOTED

HTTP1_CLIENTS, HTTP2_CONNECTIONS, HTTP2_STREAMS = 20, 4, 5
VISITOR = "203.0.113.9"
PATIENCE_S = 60  # beyond every timeout of a site
SHARED_FILE, SHARED_SIZE = "sent.bin", 400 * KB
NUMBERS = itertools.count(1)


@dataclass
class Request:
    """A request, and later what became of it."""

    kind: str
    site: str
    host: str
    scheme: str
    path: str
    method: str = "GET"
    headers: list = field(default_factory=list)
    body: bytes | None = None
    is_chunked: bool = False
    write_pause: float = 0
    read_piece: int = 64 * KB
    read_pause: float = 0
    leaves_after: int | None = None  # bytes of the answer's body
    leaves_at: float | None = None  # seconds after the request was sent
    number: str = ""
    fill: int = 0
    file: bytes | None = None  # the answer's body, if it is a file
    range: tuple | None = None
    status: int = 200  # of the answer if nothing goes wrong
    sum: str = "00000000"  # of the body that the script is to see
    size: int = 0
    attempt: int = 1
    protocol: str = ""
    # What happened:
    began: float = 0
    ended: float = 0
    received: int = 0
    has_head: bool = False  # of the answer
    answer: site_http.Answer | None = None
    failure: Exception | None = None
    before: "Request | None" = None  # on the same connection
    idle_from: float = 0  # when the connection may have become idle

    def parts(self, most):
        body = self.body or b""
        for at in range(0, len(body), most):
            yield body[at : at + most]

    def is_safe(self):
        return self.method in ("GET", "HEAD", "OPTIONS")

    def leaves(self):
        return self.leaves_after is not None or self.leaves_at is not None

    def again(self):
        """The same request once more."""
        keys = ["kind", "site", "host", "scheme", "path", "method", "headers", "body", "is_chunked", "number", "fill", "file"]
        keys += ["range", "status", "sum", "size", "protocol"]
        return Request(**{key: getattr(self, key) for key in keys}, attempt=2)

    def __str__(self):
        how = f"status {self.answer.status}, {self.answer.body[:80]!r}" if self.answer else repr(self.failure)
        body = "no body" if self.body is None else f"{len(self.body)} bytes{' in chunks' if self.is_chunked else ''}"
        took = f"{self.ended - self.began:.2f} s"
        before = f", after {self.before.kind} {self.before.answer and self.before.answer.status}" if self.before else ""
        return f"{self.kind} {self.method} {self.site}{self.path} ({self.protocol}, {body}, attempt {self.attempt}, {took}{before}): {how}"


class Load:
    """Clients that send requests until they are stopped."""

    def __init__(self, random, draw, roots):
        self.random, self.draw, self.roots = random, draw, roots
        self.done, self.open, self.ends = [], set(), False
        # Fixed for a round: these keys need a restart.
        self.sites = draw.snapshot()["sites"]

    async def run(self):
        clients = [self._http1() for _ in range(HTTP1_CLIENTS)] + [self._http2() for _ in range(HTTP2_CONNECTIONS)]
        await asyncio.gather(*clients)

    async def _http1(self):
        while not self.ends:
            site, tls, address = self._target()
            connection = None
            for _ in range(self.random.choice([1, 3, 10])):
                request = self._draw(site, tls, "HTTP/1.1")
                connection = await self._perform(request, connection, address, tls)
                if self.ends or not connection:
                    break
            if connection:
                connection.close()

    async def _http2(self):
        while not self.ends:
            site, tls, address = self._target()
            connection = await self._connect(self._draw(site, tls, "HTTP/2"), address, tls)
            if not connection:
                continue
            for _ in range(self.random.choice([1, 4])):
                requests = [self._draw(site, tls, "HTTP/2") for _ in range(HTTP2_STREAMS)]
                used = await asyncio.gather(*(self._perform(request, connection, address, tls) for request in requests))
                # Requests that found the connection closed have opened others.
                for other in {each for each in used if each} - {connection}:
                    other.close()
                if self.ends or not connection.is_open:
                    break
            connection.close()

    def _target(self):
        site = self.random.choice(list(self.sites))
        host, port = self.sites[site]["listen"][0].split(":")
        return site, self.sites[site]["certificate"] is not None, (host, int(port))

    async def _connect(self, request, address, tls):
        """Opens a connection for a request, or records that there is none."""
        is_http2 = request.protocol == "HTTP/2"
        request.began = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_S):
                streams = await site_http.connect(address, tls, "h2" if is_http2 else "http/1.1")
        except (site_http.Refused, site_http.Cut, TimeoutError) as error:
            request.kind, request.failure, request.ended = "connect", error, time.monotonic()
            self.done.append(request)
            return None
        connection = (site_http.Http2 if is_http2 else site_http.Http1)(streams)
        connection.last, connection.used = None, request.began
        return connection

    async def _perform(self, request, connection, address, tls):
        """Sends a request, on a new connection if there is none. Returns the connection if it can be used again."""
        is_own = connection is None
        if connection is None or not connection.is_open:
            is_own = True
            connection = await self._connect(request, address, tls)
            if connection is None:
                return None
        await self._ask(request, connection)
        was_cut = isinstance(request.failure, site_http.Cut) and not request.leaves()
        if was_cut and request.is_safe() and request.attempt == 1 and not request.has_head and request.status == 200:
            if other := await self._perform(request.again(), None, address, tls):
                other.close()
        if not connection.is_open and is_own:
            connection.close()
        return connection if connection.is_open else None

    async def _ask(self, request, connection):
        request.began = time.monotonic()
        request.before, connection.last = connection.last, request
        # While a client reads an answer from its socket's buffer, its connection is idle already.
        request.idle_from = connection.used
        self.open.add(request.number)
        try:
            async with asyncio.timeout(request.leaves_at or PATIENCE_S):
                request.answer = await connection.ask(request)
        except (site_http.Cut, TimeoutError) as error:
            request.failure = error
            if request.protocol == "HTTP/1.1":
                connection.close()
        finally:
            request.ended = time.monotonic()
            connection.used = request.began
            self.open.discard(request.number)
            self.done.append(request)

    KINDS = {
        "get": 24, "head": 3, "post": 12, "spooled": 8, "form": 3, "too large": 2, "file": 8, "range": 4, "packed": 2, "sendfile": 4,
        "stream": 5, "events": 2, "slow read": 2, "slow write": 2, "leave": 5, "wait": 6, "late": 1, "die": 1, "other host": 1,
        "bad path": 1, "big head": 1, "post to file": 1, "hidden": 1, "proxied": 4,
    }  # fmt: skip

    def _draw(self, site, tls, protocol):
        kind = self.random.choices(list(self.KINDS), self.KINDS.values())[0]
        number = str(next(NUMBERS))
        host = f"{site}.test"
        if len(self.sites[site]["hosts"]) > 1 and self.random.random() < 0.2:
            host = f"a.{host}"
        request = Request(kind, site, host, "https" if tls else "http", "", number=number, protocol=protocol)
        query = {"n": number, "fill": 0}
        getattr(self, "_" + kind.replace(" ", "_"))(request, query)
        if not request.path:
            request.fill = query["fill"]
            request.path = self.random.choice(["/", "/a", "/a/b.html", "/index.php"]) + "?" + "&".join(f"{k}={v}" for k, v in query.items())
        return request

    # One method for each kind.

    def _get(self, request, query):
        query["fill"] = self.random.choice([0, 0, 100, 5_000, 60_000, 200_000])

    def _head(self, request, query):
        request.method = "HEAD"
        query["fill"] = self.random.choice([0, 200_000])

    def _wait(self, request, query):
        query["wait"] = self.random.choice([100, 300, 900])
        if self.random.random() < 0.3:
            self._post(request, query)

    def _post(self, request, query):
        self._body(request, self.random.choice([0, 10, 3_000, 64 * KB]))
        request.method = self.random.choice(["POST", "POST", "PUT", "PATCH"]) if self.draw.strategy_of(request.site) != "http" else "POST"

    def _spooled(self, request, query):
        request.method = "POST"
        self._body(request, self.random.choice([64 * KB + 1, 90 * KB, 500 * KB, MB]))

    def _body(self, request, most):
        limit = site_draw.size(self.sites[request.site]["max_body"])
        body = self.random.randbytes(min(most, limit))
        request.body, request.size, request.sum = body, len(body), f"{zlib.crc32(body):08x}"
        request.headers = [("Content-Type", "application/octet-stream")]
        # php -S does not understand chunks, but Stoker sends it a length.
        request.is_chunked = self.random.random() < 0.3
        request.method = "POST" if request.method == "GET" else request.method

    def _form(self, request, query):
        self._body(request, self.random.choice([100, 80 * KB]))
        content, request.is_chunked = request.body, False
        head = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="f"\r\nContent-Type: a/b\r\n\r\n'
        request.body = head + content + b"\r\n--edge--\r\n"
        if len(request.body) > site_draw.size(self.sites[request.site]["max_body"]):
            return self._form(request, query)
        request.headers = [("Content-Type", "multipart/form-data; boundary=edge")]

    def _too_large(self, request, query):
        limit = site_draw.size(self.sites[request.site]["max_body"])
        if limit > MB:
            return self._post(request, query)
        request.body, request.status = b"x" * (limit + 1), 413
        request.method, request.is_chunked = "POST", self.random.random() < 0.5

    def _file(self, request, query):
        self._of_root(request, query, self.random.choice(["small.txt", "large.bin"]))

    def _of_root(self, request, query, name):
        if not self.sites[request.site]["root"]:
            return self._get(request, query)
        request.file, request.path = self.roots[request.site][name], f"/{name}?n={request.number}"

    def _packed(self, request, query):
        """A compressed file beside the file."""
        self._of_root(request, query, "style.css")
        if request.file is not None:
            request.file = self.roots[request.site]["style.css.gz"]
            request.headers = [("Accept-Encoding", "gzip")]

    def _range(self, request, query):
        self._file(request, query) if self.random.random() < 0.6 else self._sendfile(request, query)
        if request.file is None:
            return
        size = len(request.file)
        first = self.random.randrange(size)
        last = self.random.choice([first, size - 1, size + 50, min(size - 1, first + 100)])
        request.range, request.status = (first, min(last, size - 1)), 206
        request.headers = [("Range", f"bytes={first}-{last}")]

    def _sendfile(self, request, query):
        request.file = self.roots[SHARED_FILE]
        query["file"] = SHARED_FILE

    def _stream(self, request, query):
        query |= {"pieces": self.random.choice([1, 5, 40]), "pause": 0, "fill": self.random.choice([10, 3_000, 40_000])}

    def _events(self, request, query):
        query |= {"pieces": 15, "pause": 40, "fill": 20}

    def _slow_read(self, request, query):
        query["fill"] = 1_500_000
        if self.random.random() < 0.5:
            self._of_root(request, query, "large.bin")
        request.read_piece, request.read_pause = 64 * KB, 0.03

    def _slow_write(self, request, query):
        self._body(request, self.random.choice([40 * KB, 300 * KB]))
        request.write_pause = 0.05

    def _leave(self, request, query):
        if self.random.random() < 0.5:
            query["fill"] = self.random.choice([200_000, 1_000_000])
            request.leaves_after = self.random.choice([1, 70_000])
        else:
            query["wait"] = 300
            request.leaves_at = self.random.choice([0.001, 0.05, 0.2])
            if self.random.random() < 0.5:
                self._spooled(request, query)
                request.write_pause = self.random.choice([0, 0.02])

    def _late(self, request, query):
        if self.sites[request.site]["timeout"] == "4s" and self.draw.strategy_of(request.site) in (*BOOTED, "cgi"):
            query["wait"] = 4_500

    def _die(self, request, query):
        if self.draw.strategy_of(request.site) in (*BOOTED, "sapi"):
            query["die"] = 1
            self._body(request, 100)
            request.status = 502

    def _other_host(self, request, query):
        request.host, request.status = "nobody.test", 421

    def _bad_path(self, request, query):
        request.path, request.status = f"/a/../../x?n={request.number}", 400

    def _big_head(self, request, query):
        request.headers = [("X-Big", "b" * 2 * site_draw.size(self.draw.http["max_header"]))]
        request.status = 431

    def _post_to_file(self, request, query):
        self._of_root(request, query, "small.txt")
        self._body(request, 10)
        if request.file is not None:
            request.file, request.status = None, 405

    def _hidden(self, request, query):
        """Files that are never sent: a worker answers."""
        request.path = self.random.choice(["/.env", "/secret.php"]) + f"?n={request.number}&fill=0"

    def _proxied(self, request, query):
        request.headers = [("X-Forwarded-For", VISITOR), ("Forwarded", f"for={VISITOR}")]

    def visitor_of(self, request):
        """The address that the script is to see."""
        site = self.sites[request.site]
        sent = {name.lower() for name, _ in request.headers}
        believed = site["proxy_headers"] or ["x-forwarded-for", "x-forwarded-proto"]
        is_believed = site["trusted_proxies"] == ["loopback"] and sent & set(believed)
        return VISITOR if is_believed else "127.0.0.1"
