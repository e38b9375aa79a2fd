"""What a round of campaign/sites.py draws: sites, their pools and the limits of [http], and what a reload changes."""

import copy
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KB, MB = 1 << 10, 1 << 20

# Keys that no round draws, with the reason.
NOT_DRAWN = {
    "http.socket": "for calls, which sites do not answer",
    "http.listen": "for calls",
    "http.token_file": "for calls",
    "http.hosts": "for calls",
    "pool.user": "needs another user, and its workers can't read large bodies: crates/cli/tests/it/sites.rs",
    "pool.env_clear": "concerns no request: sim, crates/cli/tests/it",
    "pool.env_pass": "concerns no request",
    "pool.nice": "concerns no request: sim, crates/cli/tests/it",
    "pool.protocol": "false: such a pool answers nothing",
    "pool.token": "for workers that connect by themselves",
}
ADAPTED = ("cgi", "fastcgi", "http")  # strategies whose programs know nothing about Stoker
FRONT_CONTROLLED = (*ADAPTED, "sapi")  # strategies that run a script below the root for each request
BOOTED = ("loop", "spare", "fork", "snapshot")  # strategies that boot an application
WITH_SDK = ("loop", "spare", "fork")
STRATEGIES = (*BOOTED, *FRONT_CONTROLLED)
NO_SITES = ("exec",)  # strategies that answer no site


def size(text):
    number, unit = re.fullmatch(r"(\d+)(B|KB|MB)", text).groups()
    return int(number) * {"B": 1, "KB": KB, "MB": MB}[unit]


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s)", text).groups()
    return int(number) / (1_000 if unit == "ms" else 1)


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + " }"
    return json.dumps(value)


def section(name, values):
    return f"[{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in values.items() if value is not None)


class Draw:
    """The configuration of a round. `values` are as in the file; None leaves the key out."""

    def __init__(self, random, folder, ports):
        self.random, self.folder, self.number = random, folder, 0
        self.http = self._http()
        self.pools, self.homes = {}, {}
        strategies = list(STRATEGIES)
        random.shuffle(strategies)
        for strategy in strategies[: random.choice([2, 3])]:
            self.add_pool(strategy)
        self.listeners = [("127.0.0.1", port) for port in ports]
        self.secure = {port: random.random() < 0.5 for port in ports}
        self.sites, self.removed = {}, set()
        for pool in list(self.pools):
            for _ in range(random.choice([1, 1, 2])):
                self.add_site(pool)
        used = {site["listen"][0] for site in self.sites.values()}
        self.secure = {port: is_secure for port, is_secure in self.secure.items() if f"127.0.0.1:{port}" in used}
        self.task_pool, self.job_queue = self._task_pool(), self._job_queue()
        # A pool whose workers can't boot must not hold up the others.
        self.has_broken = random.random() < 0.5
        self.boots_at_once = random.choice([1, 2, 4, None])

    def _http(self):
        choice = self.random.choice
        return {
            "max_connections": choice([None, 200]),
            "max_header": choice(["8KB", "16KB", "32KB"]),
            "max_body": "1MB",  # for calls; max_memory must not be smaller
            "max_memory": choice(["4MB", "64MB"]),
            "spool": choice([None, str(self.folder / "spool")]),
            "max_spool": choice(["2MB", "1000MB"]),
            "header_timeout": choice(["3s", "10s"]),
            "body_timeout": choice(["2s", "30s"]),
            "idle_timeout": choice(["3s", "60s"]),
            "write_timeout": choice(["2s", "30s"]),
        }

    def add_pool(self, strategy):
        self.number += 1
        name = f"p{self.number}"
        self.pools[name] = self._pool(name, strategy)
        return name

    def _pool(self, name, strategy):
        choice, folder = self.random.choice, self.folder
        workers = choice([2, 4]) if strategy in ADAPTED else choice([2, 3, {"min": 1, "max": 3}])
        if strategy in ("spare", "fork", "snapshot"):
            workers = choice([{"min": 2, "max": 4}, 3])
        values = {
            "strategy": strategy,
            "tasks_per_fork": choice([None, 1, 7, "auto"]) if strategy in ("fork", "snapshot") else None,
            "command": None,
            "address": None,
            "task_path": choice([None, "/tasks", "/tasks/{name}?x=1"]) if strategy in ADAPTED else None,
            "task_script": str(folder / "app/job.php") if strategy in ("cgi", "fastcgi") else None,
            "workers": workers,
            "directory": choice([None, str(folder)]),
            "env": {"STOKER_SDK": str(ROOT / "sdk/php/src/autoload.php"), "PHP_CLI_SERVER_WORKERS": "4"},
            "boot_timeout": choice(["20s", "60s"]),
            "task_timeout": choice([None, "40s", "none"]),
            "kill_grace": choice([None, "1s"]),
            "stop_grace": choice(["5s", "20s"]),
            "memory_limit": choice([None, "300MB"]) if strategy not in ("fastcgi", "http") else None,
            "max_tasks": choice([None, 50]) if strategy in ("loop", "sapi") else None,
            "max_age": choice([None, "3s"]) if strategy in ("loop", "sapi") else None,
            "idle_timeout": choice([None, "1s"]),
            "crash_budget": choice([None, 5]),
        }
        if strategy in WITH_SDK:
            values["command"] = ["php", str(folder / "app/worker.php")]
        elif strategy == "snapshot":
            values["command"] = ["-d", "memory_limit=256M", str(folder / "app/snapshot.php")]
        elif strategy == "sapi":
            values["command"] = ["-d", "upload_max_filesize=64M", "-d", "post_max_size=64M"]
        elif strategy == "cgi":
            values["command"] = ["php-cgi"]
        elif strategy == "fastcgi":
            values["command"] = [str(folder / "fpm"), "-y", str(folder / "fpm.conf")]
            values["address"] = str(folder / f"{name}-{{worker}}.sock")
        else:
            values["command"] = ["php", "-d", "upload_max_filesize=64M", "-d", "post_max_size=64M", "-S", "{address}", str(folder / "app/front.php")]
            values["address"] = "127.0.0.1:0"
        return values

    def _task_pool(self):
        """The pool of the jobs of rig/site_jobs.py. It answers no site."""
        # The limit that one job exceeds is not drawn here, and no job may be quarantined because of several kills.
        return self._pool("tasks", self.random.choice(ADAPTED)) | {"crash_budget": 80}

    def _job_queue(self):
        return {"pool": "tasks", "tries": 0, "backoff": self.random.choice([["0ms"], ["10ms", "50ms"]])}

    def add_site(self, pool):
        choice = self.random.choice
        self.number += 1
        name = f"s{self.number}"
        host, port = choice(self.listeners)
        root = True if self.pools[pool]["strategy"] in FRONT_CONTROLLED else choice([True, True, False])
        interval = f"{host}:{port}"
        proxied = choice([True, False])
        self.sites[name] = {
            "listen": [interval],
            "hosts": [f"{name}.test", *choice([[], [f"*.{name}.test"]])],
            "pool": pool,
            "root": str(self.folder / "roots" / name) if root else None,
            "index": choice([None, "front.php"]) if root else None,
            "max_age": choice([None, "1h", "none"]),
            "certificate": "site.pem" if self.secure[port] else None,
            "key": "site.key" if self.secure[port] else None,
            "max_body": choice(["100KB", "1MB", "64MB"]),
            "trusted_proxies": ["loopback"] if proxied else choice([None, ["10.0.0.0/8"]]),
            "proxy_headers": choice([None, ["forwarded"], ["x-forwarded-for", "x-forwarded-host"]]) if proxied else None,
            "send_files": [str(self.folder / "shared")],
            "access_log": choice([True, False]),
            "idempotent": choice([None, True, False]),
            **self._scheduling(),
        }
        self.homes.setdefault(pool, name)
        return name

    def _scheduling(self):
        choice = self.random.choice
        reserve = choice([None, None, 1])
        return {
            "timeout": choice(["4s", "10s", "30s"]),
            "weight": choice([None, 1, 5]),
            "reserve": None if reserve is None else reserve,
            "keep": None if reserve is None else choice([None, 0]),
            "limit": choice([None, None, 2]),
            "max_waiting": choice([None, None, 1, 4]),
            "max_wait": choice([None, None, "300ms"]),
        }

    # What a reload changes. Each returns a description.

    def change_scheduling(self):
        name = self.random.choice(list(self.sites))
        self.sites[name] |= self._scheduling()
        self._respect_reserves()
        return f"scheduling of {name}"

    def move_site(self):
        """Gives a site another pool. Each pool keeps its first site: resident workers without a site can't boot."""
        movable = [name for name, site in self.sites.items() if name not in self.homes.values()]
        name = self.random.choice(movable) if movable else self.add_site_before_start()
        others = [pool for pool in self.pools if pool != self.sites[name]["pool"]]
        if not self.sites[name]["root"]:
            others = [pool for pool in others if self.pools[pool]["strategy"] not in FRONT_CONTROLLED]
        if others:
            self.sites[name]["pool"] = self.random.choice(others)
            self._respect_reserves()
        return f"{name} to {self.sites[name]['pool']}"

    def remove_site(self):
        """Removes a site from the configuration, or puts a removed one back. Each pool keeps its first site."""
        if self.removed:
            return f"{self.removed.pop()} is back"
        removable = [name for name in self.sites if name not in self.homes.values()]
        self.removed |= set(removable[:1])
        return f"without {removable[:1]}"

    def add_site_before_start(self):
        return next(iter(self.sites))

    def change_strategy(self):
        """Gives a pool another strategy."""
        pool = self.random.choice(list(self.pools))
        needs_none = all(self.sites[name]["root"] for name in self.sites if self.sites[name]["pool"] == pool)
        old = self.pools[pool]["strategy"]
        new = self.random.choice([each for each in STRATEGIES if each != old and (needs_none or each not in FRONT_CONTROLLED)])
        self.pools[pool] = self._pool(pool, new)
        self._respect_reserves()
        return f"{pool} from {old} to {new}"

    def change_workers(self):
        pool = self.random.choice(list(self.pools))
        strategy = self.pools[pool]["strategy"]
        self.pools[pool] = self._pool(pool, strategy)
        self._respect_reserves()
        return f"options of {pool}"

    def change_task_pool(self):
        """Gives the pool of jobs another strategy, or other options."""
        old = self.task_pool["strategy"]
        self.task_pool = self._task_pool()
        return f"the pool of jobs from {old} to {self.task_pool['strategy']}"

    def change_nothing(self):
        return "the same configuration"

    def add_and_remove_pool(self):
        """A pool without a site comes, or goes again."""
        if "spare-part" in self.pools:
            del self.pools["spare-part"]
            return "a pool is removed"
        self.pools["spare-part"] = self._pool("spare-part", "cgi")
        return "a pool is added"

    def _respect_reserves(self):
        for pool in self.pools:
            least = self.pools[pool]["workers"]
            least = least["min"] if isinstance(least, dict) else least
            for site in self.sites.values():
                if site["pool"] == pool and site["reserve"]:
                    if least < 2:
                        site["reserve"] = site["keep"] = None
                    least -= 1

    def config(self):
        self._respect_reserves()
        text = section("stoker", {"boots_at_once": self.boots_at_once}) + section("http", self.http)
        for name, pool in self.pools.items():
            text += section(f"pool.{name}", pool)
        text += section("pool.tasks", self.task_pool) + section("queue.jobs", self.job_queue)
        if self.has_broken:
            text += section("pool.broken", {"command": ["php", "-r", "usleep(300_000); exit(3);"], "workers": 3})
        for name, site in self.sites.items():
            if name not in self.removed:
                text += section(f"site.{name}", site)
        return text

    def snapshot(self):
        """A copy that later reloads do not change."""
        return {"pools": copy.deepcopy(self.pools), "sites": copy.deepcopy(self.sites), "removed": set(self.removed)}

    def strategy_of(self, site):
        return self.pools[self.sites[site]["pool"]]["strategy"]

    def __str__(self):
        pools = ", ".join(f"{name} {pool['strategy']}" for name, pool in self.pools.items())
        return f"{pools}; jobs by {self.task_pool['strategy']}; {len(self.sites)} sites on {len(self.listeners)} addresses"


def undrawn(draw):
    """Keys and strategies of the reference page that a round neither draws nor has a reason for."""
    page = (ROOT / "docs/reference/config.md").read_text()
    found = []
    drawn = {
        "site.NAME": next(iter(draw.sites.values())),
        "pool.NAME": next(iter(draw.pools.values())),
        "http": draw.http,
    }
    for heading, values in drawn.items():
        table = page.partition(f"## `[{heading}]`")[2].partition("\n## ")[0]
        keys = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
        known = {name.partition(".")[2] for name in NOT_DRAWN if name.startswith(heading.partition(".")[0] + ".")}
        found += [f"{heading}.{key}" for key in keys if key not in values and key not in known]
        found += [f"{heading}.{key} is drawn and listed as not drawn" for key in values if key in known]
    strategies = re.search(r"^\| `strategy` \|.*$", page, re.MULTILINE).group()
    found += [f"strategy {name}" for name in re.findall(r"`(\w+)`", strategies)[1:] if name not in (*STRATEGIES, *NO_SITES, "workers", "command", "address")]
    return found
