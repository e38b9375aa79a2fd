"""Calls from PHP to PHP over loopback TCP and TLS, through the gateway for other machines: four clients keep 16 calls in
flight each, and there are four workers, which Stoker starts or which connect over the network too ("both ways"). The
reference is the same over the unix socket; for the CPU time of the broker it is nats-server and gearmand with the same
programs, whose workers always connect over the network."""

import contextlib
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

from . import processes
from .brokers import PHP, Stoker
from .report import Result

CLIENTS, WORKERS = 4, 4
IDLE_CONNECTIONS = 5_000
LISTEN = '[listen]\naddresses = ["127.0.0.1:{port}"]\nmax_connections = 20_000\n'
TLS = 'certificate = "server.pem"\nkey = "server.key"\n'
# How clients connect, whether workers do so too, and the minimum of the speed over the unix socket.
KINDS = {"tcp": ("tcp", False, 0.8), "tls": ("tls", False, 0.6), "tcp both ways": ("tcp", True, None), "tls both ways": ("tls", True, None)}
# The maximum of a peer's CPU time.
PEERS = [("nats-server", "tcp", None), ("nats-server", "tcp both ways", 1.2), ("nats-server", "unix", 0.8), ("gearmand", "tcp both ways", 0.5)]


def run(options, folder):
    if not options.binary:
        options.say("remote: needs Stoker, skipped")
        return
    speed, gateway = {}, {}
    for kind, (_, _, bar) in KINDS.items():
        name = f"calls over {kind} beside the unix socket, 4 × 16, PHP to PHP"
        speed[kind] = Result(name, "calls/s", more_is_better=True, ratio_bar=bar, floor=20_000)
        gateway[kind] = Result(f"CPU time of the gateway per call, {kind}", "µs", bar=15 if kind == "tls" else None)
    peers = {
        (peer, kind): Result(f"CPU time of server and gateway per call, {kind}, against {peer}", "µs", ratio_bar=bar, floor=1e6)
        for peer, kind, bar in PEERS
        if shutil.which(peer)
    }
    options.say(f"remote: {options.pairs} pairs of {options.seconds} s for each of unix, {', '.join(KINDS)}")
    for pair in range(options.pairs):
        options.await_quiet()
        measured = {}
        steps = ["unix", *KINDS, *sorted({peer for peer, _ in peers})]
        for number, step in enumerate(steps if pair % 2 == 0 else reversed(steps)):
            home = Path(folder, f"{number}-{pair}")
            home.mkdir()
            measured[step] = {"nats-server": nats, "gearmand": gearman}.get(step, stoker)(options, home, step)
        for kind in KINDS:
            speed[kind].reference.append(measured["unix"]["calls"])
            speed[kind].stoker.append(measured[kind]["calls"])
            gateway[kind].stoker.append(measured[kind]["gateway_us"])
        for (peer, kind), result in peers.items():
            result.reference.append(measured[peer]["us"])
            result.stoker.append(measured[kind]["us"])
    yield from [*speed.values(), *gateway.values(), *peers.values()]
    yield idle(options, Path(folder, "idle"))


class Remote(Stoker):
    """A server with the gateway for other machines, and a token for everything."""

    def __init__(self, folder, binary, kind, has_workers=False):
        super().__init__(folder, None, 0, binary, home=folder)
        self.port = free_port()
        self.kind = kind
        listen = LISTEN.format(port=self.port) + (TLS if kind == "tls" else "")
        command = f'command = ["php", "{PHP / "remote_worker.php"}"]\nworkers = {WORKERS}\n' if has_workers else ""
        pool = f'[pool.bench]\n{command}[service.bench]\npool = "bench"\ntimeout = "30s"\nidempotent = ["echo"]\n'
        self.config.write_text(f'{pool}{listen}[store]\ndriver = "memory"\n')
        if kind == "tls":
            make_certificate(folder)
        created = [binary, "token", "create", "bench", "--roles", "admin", "--tokens", folder / "stoker.tokens"]
        self.token = subprocess.run(created, check=True, capture_output=True, text=True).stdout.strip()

    def url(self):
        options = f"?ca={self.folder / 'server.pem'}" if self.kind == "tls" else ""
        return f"{self.kind}://localhost:{self.port}{options}"

    def peer_env(self):
        if self.kind == "unix":
            return {"STOKER_SOCKET": str(self.socket)}
        return {"STOKER_URL": self.url(), "STOKER_TOKEN": self.token}

    def gateway_pid(self):
        processes.wait_for("the gateway", lambda: self._gateway() is not None)
        return self._gateway()

    def _gateway(self):
        for pid in processes.descendants(self.process.pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"stoker: gateway relay"):
                    return pid
        return None


def stoker(options, folder, kind):
    scheme, both_ways, _ = KINDS.get(kind, ("unix", False, None))
    with Remote(folder, options.binary, scheme, has_workers=not both_ways) as broker:
        gateway = broker.gateway_pid()
        server = [pid for pid in broker.pids() if pid != gateway]
        command, env = ["php", PHP / "remote_worker.php"], broker.peer_env()
        workers = [processes.start(command, env=env) for _ in range(WORKERS if both_ways else 0)]
        try:
            processes.wait_for("the workers", lambda: len(broker.workers()["workers"]) == WORKERS)
            before = processes.cpu_seconds(server), processes.cpu_seconds([gateway])
            calls = call(["php", PHP / "remote_client.php", str(options.seconds)], broker.peer_env())
            server_s, gateway_s = processes.cpu_seconds(server) - before[0], processes.cpu_seconds([gateway]) - before[1]
        finally:
            for worker in workers:
                processes.end(worker)
    return {
        "calls": calls / options.seconds,
        "gateway_us": gateway_s / calls * 1e6,
        "us": (server_s + gateway_s) / calls * 1e6,
    }


def call(command, env):
    """Runs the clients, and returns the number of their calls."""
    clients = [processes.start(command, env=env, stdout=subprocess.PIPE) for _ in range(CLIENTS)]
    outputs = [client.communicate(timeout=60)[0] for client in clients]
    if any(client.returncode for client in clients):
        raise RuntimeError(f"a client failed: {outputs}")
    return sum(int(output) for output in outputs)


def nats(options, folder, _):
    port = free_port()
    return peer(options, ["nats-server", "-a", "127.0.0.1", "-p", port], ["php", PHP / "nats.php", f"127.0.0.1:{port}"], port)


def gearman(options, folder, _):
    port = free_port()
    command = ["gearmand", "--listen=127.0.0.1", f"--port={port}", f"--log-file={folder / 'log'}"]
    return peer(options, command, ["php", PHP / "gearman.php", port], port)


def peer(options, command, program, port):
    broker = processes.start(command, stderr=subprocess.DEVNULL)
    workers = []
    try:
        processes.wait_for(command[0], lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        workers += [processes.start([*program, "worker"], stdout=subprocess.PIPE) for _ in range(WORKERS)]
        if [worker.stdout.readline() for worker in workers] != ["ready\n"] * WORKERS:
            raise RuntimeError(f"the workers of {command[0]} did not start")
        call([*program, "0.3"], {})  # warm-up
        before = processes.cpu_seconds([broker.pid])
        calls = call([*program, str(options.seconds)], {})
        used = processes.cpu_seconds([broker.pid]) - before
    finally:
        for worker in workers:
            processes.end(worker)
        processes.end(broker)
    return {"calls": calls / options.seconds, "us": used / calls * 1e6}


def idle(options, folder):
    """Memory of the gateway for each of many idle TLS connections, together."""
    folder.mkdir()
    result = Result(f"memory of the gateway with {IDLE_CONNECTIONS:,} idle TLS connections", "MB", bar=150)
    options.say(result.name)
    with Remote(folder, options.binary, "tls") as broker, contextlib.ExitStack() as open_sockets:
        context = ssl.create_default_context(cafile=str(folder / "server.pem"))
        hello = f'{{"v":[1],"role":"client","name":"idle","token":"{broker.token}"}}'.encode()
        frame = (16 + len(hello)).to_bytes(4, "big") + b"\x04" + bytes(15) + hello
        for _ in range(IDLE_CONNECTIONS):
            raw = socket.create_connection(("localhost", broker.port))
            peer = open_sockets.enter_context(context.wrap_socket(raw, server_hostname="localhost"))
            peer.sendall(frame)
            if not peer.recv(1024):
                raise RuntimeError("a connection was closed")
        result.stoker.append(processes.memory_kb([broker.gateway_pid()])[1] / 1024)
    return result


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_certificate(folder, name="localhost"):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        + ["-keyout", folder / "server.key", "-out", folder / "server.pem", "-subj", f"/CN={name}"]
        + ["-addext", f"subjectAltName=DNS:{name}", "-addext", "basicConstraints=critical,CA:FALSE"],
        check=True,
        capture_output=True,
    )
