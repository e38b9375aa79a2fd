"""What a round of campaign/network.py draws: the options of [listen], and the limits of tokens."""

HOLD_S = 0.3  # how long a token stays narrowed or revoked

CONFIG = """[pool.far]
task_timeout = "20s"
[queue.net]
pool = "far"
tries = 50
backoff = ["100ms"]
keep_done = 1_000_000
[service.net]
pool = "far"
idempotent = ["echo"]
[listen]
addresses = ["{address}:{port}"]
max_connections = {max_connections}
keepalive = "{keepalive_s}s"
resume_timeout = "{resume_s}s"
{security}
"""
SERVER_TLS = 'certificate = "server.pem"\nkey = "server.key"\n'
CLIENT_CA = 'client_ca = "client.pem"\n'
SECURITY = {"plain": "insecure = true\n", "tls": SERVER_TLS, "mutual tls": SERVER_TLS + CLIENT_CA}
PORTS = {"plain": 7708, "tls": 7707, "mutual tls": 7707}


class Listen:
    """The options of [listen] in one round."""

    def __init__(self, random):
        self.security = random.choice(list(SECURITY))
        self.max_connections = random.choice([20, 32, 8_000])
        self.keepalive_s = random.choice([3, 5])
        self.resume_s = random.choice([0, 1, 3])

    def config(self, address):
        return CONFIG.format(
            address=address,
            port=PORTS[self.security],
            max_connections=self.max_connections,
            keepalive_s=self.keepalive_s,
            resume_s=self.resume_s,
            security=SECURITY[self.security],
        )

    def __str__(self):
        return f"{self.security}, {self.max_connections} connections, keepalive {self.keepalive_s} s, resume_timeout {self.resume_s} s"


def urls(address, folder):
    """The addresses of every kind of security: a peer uses the one that answers."""
    tls = f"tls://{address}:7707?ca={folder / 'server.pem'}&name=stoker.test&cert={folder / 'client.pem'}&key={folder / 'client.key'}"
    return f"{tls},tcp://{address}:7708"


def limits(random):
    """The limits of the token that network_probe.py exceeds."""
    return {"connections": random.choice([1, 3, 6]), "inflight": random.choice([1, 4, 15]), "pushes_per_second": random.choice([1, 10, 40])}


def options(limits):
    """Limits as options of `stoker token`."""
    return [word for name, value in limits.items() for word in (f"--{name.replace('_', '-')}", str(value))]
