"""The web servers that benches/harness/sites.py compares: nginx before php-fpm, and Stoker with sites. Each side has one
CPU and the same application, files, certificate and number of PHP processes."""

import contextlib
import os
import pwd
import shutil
import ssl
import subprocess
import urllib.request
from pathlib import Path

from . import processes
from .brokers import BENCHES, BROKER_CPU, PHP, Stoker
from .remote import free_port, make_certificate

LARAVEL = BENCHES / "laravel"
CHILDREN = 2
FPM = sorted(Path("/usr/sbin").glob("php-fpm*"))
# nginx may use all that is in memory; `open_file_cache` remembers files for as long as Stoker does.
NGINX = """daemon off; worker_processes 1; pid nginx.pid; error_log error.log warn; {user}
events {{ worker_connections 20000; }}
http {{
  include /etc/nginx/mime.types; access_log off; sendfile on; tcp_nopush on; tcp_nodelay on;
  keepalive_requests 1000000000; client_max_body_size 64m; open_file_cache max=500; open_file_cache_valid 1s;
  open_file_cache_errors on;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  fastcgi_buffers 32 64k; fastcgi_buffer_size 64k; fastcgi_busy_buffers_size 128k;
  ssl_certificate server.pem; ssl_certificate_key server.key; ssl_protocols TLSv1.3;
  upstream plain {{ server unix:{folder}/plain.sock; }}
  upstream kept {{ server unix:{folder}/kept.sock; keepalive {children}; }}
  upstream laravel {{ server unix:{folder}/laravel.sock; }}
  {servers}
}}
"""
SERVER = """server {{ listen 127.0.0.1:{port} {tls} backlog=4096; root {root};
    location / {{ try_files $uri $uri/ /index.php?$query_string; }}
    location = /index.php {{ include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME {script};
      fastcgi_pass {upstream}; fastcgi_keep_conn {kept}; }}
  }}
"""
POOL = """[{name}]
listen = {address}
listen.backlog = 1024
pm = static
pm.max_children = {children}
clear_env = no
"""
STOKER = """[pool.app]
command = ["php", "{php}/site_worker.php"]
workers = {children}
[pool.fpm]
command = ["{fpm}", "-F", {root_option} "-y", "{folder}/stoker-fpm.conf"]
strategy = "fastcgi"
address = "{folder}/stoker-fpm.sock"
workers = {children}
[pool.laravel]
command = ["php", "-d", "opcache.enable_cli=1", "{laravel}/site.php"]
workers = {children}
[site.app]
listen = ["127.0.0.1:{plain}"]
pool = "app"
root = "{root}"
[site.fpm]
listen = ["127.0.0.1:{fastcgi}"]
pool = "fpm"
root = "{root}"
[site.tls]
listen = ["127.0.0.1:{tls}"]
pool = "app"
root = "{root}"
certificate = "server.pem"
key = "server.key"
[site.laravel]
listen = ["127.0.0.1:{laravel_port}"]
pool = "laravel"
root = "{root}"
[http]
header_timeout = "5m"
idle_timeout = "5m"
[store]
driver = "memory"
"""


def missing():
    """What the machine lacks."""
    lacking = [name for name in ("nginx", "wrk", "h2load", "openssl") if not shutil.which(name)]
    lacking += [] if FPM else ["php-fpm"]
    return lacking + ([] if Path("/usr/share/php/Illuminate/autoload.php").exists() else ["php-laravel-framework"])


def prepare(folder):
    """Writes what both sides share: the public files, a certificate, and Laravel's cached configuration. Returns the
    document root and the environment of PHP."""
    env = {"BENCH_PHP": str(PHP), "BENCH_FOLDER": str(folder), "QUEUE_CONNECTION": "sync"}
    subprocess.run(["php", LARAVEL / "cache.php"], check=True, env={**os.environ, **env}, timeout=60)
    folder.chmod(0o755)
    root = folder / "public"
    root.mkdir()
    for name, size in {"1k.txt": 1 << 10, "100k.bin": 100 << 10, "1m.bin": 1 << 20}.items():
        (root / name).write_bytes(os.urandom(size))
        os.utime(root / name, (1.7e9, 1.7e9))  # what has just been written is not cached
    shutil.copy(PHP / "site_front.php", root / "index.php")
    make_certificate(folder)
    return root, env


class Nginx:
    """nginx with one worker process, and php-fpm with three pools of two children, one of them for connections that are
    kept open: those occupy a child."""

    def __init__(self, folder, root, env):
        self.folder, self.env, self.running = folder, env, []
        self.urls = {}
        servers = ""
        for name, script, upstream in [
            ("plain", root / "index.php", "plain"),
            ("kept", root / "index.php", "kept"),
            ("tls", root / "index.php", "plain"),
            ("laravel", LARAVEL / "front.php", "laravel"),
        ]:
            port, tls = free_port(), name == "tls"
            kept = "on" if name == "kept" else "off"
            options = {"port": port, "tls": "ssl http2" if tls else "", "root": root, "script": script}
            servers += SERVER.format(**options, upstream=upstream, kept=kept)
            self.urls[name] = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        user = f"user {_user()};" if os.geteuid() == 0 else ""
        text = NGINX.format(user=user, folder=folder, children=CHILDREN, servers=servers)
        (folder / "nginx.conf").write_text(text)
        write_fpm(folder / "fpm.conf", {name: folder / f"{name}.sock" for name in ("plain", "kept", "laravel")})

    def __enter__(self):
        fpm = [FPM[-1], "-F", *as_root(), "-y", self.folder / "fpm.conf"]
        self.running.append(processes.start(fpm, env=self.env, cwd=self.folder, stderr=subprocess.DEVNULL, cpu=BROKER_CPU))
        nginx = ["nginx", "-p", self.folder, "-c", self.folder / "nginx.conf", "-e", "error.log"]
        self.running.append(processes.start(nginx, cwd=self.folder, cpu=BROKER_CPU))
        wait_for_answers(self.urls)
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            processes.end(process)


class Sites(Stoker):
    """Stoker with the same sites."""

    def __init__(self, folder, root, env, binary):
        super().__init__(folder, None, 0, binary, pinned=True, home=folder, env=env)
        ports = {name: free_port() for name in ("plain", "fastcgi", "tls", "laravel")}
        self.urls = {name: f"{'https' if name == 'tls' else 'http'}://127.0.0.1:{port}" for name, port in ports.items()}
        options = {"plain": ports["plain"], "fastcgi": ports["fastcgi"], "tls": ports["tls"], "laravel_port": ports["laravel"]}
        root_option = '"-R",' if as_root() else ""
        places = {"php": PHP, "laravel": LARAVEL, "folder": folder, "root": root, "fpm": FPM[-1], "root_option": root_option}
        self.config.write_text(STOKER.format(**options, **places, children=CHILDREN))
        write_fpm(folder / "stoker-fpm.conf", {"stoker": folder / "stoker-fpm.sock"})

    def __enter__(self):
        super().__enter__()
        try:
            wait_for_answers(self.urls)
        except BaseException as error:
            self.__exit__()
            raise RuntimeError(f"{error}; its log ends: {self.log_tail()}") from error
        return self

    def gateway_pid(self):
        for pid in processes.descendants(self.process.pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"stoker: gateway sites"):
                    return pid
        raise RuntimeError("there is no gateway")


def write_fpm(path, pools):
    text = f"[global]\nerror_log = {path.with_suffix('.log')}\nlog_level = warning\n"
    path.write_text(text + "".join(POOL.format(name=name, address=at, children=CHILDREN) + user_line() for name, at in pools.items()))


def user_line():
    """Of a pool of php-fpm, which refuses to run its children as root unless it is started with `-R`."""
    return f"user = {_user()}\n" if os.geteuid() == 0 else ""


def as_root():
    return ["-R"] if os.geteuid() == 0 else []


def _user():
    return pwd.getpwuid(os.geteuid()).pw_name


def wait_for_answers(urls):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def answers(url):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/hello", context=context, timeout=5) as answer:
            return answer.read() == b"Hello world"
        return False

    for url in urls.values():
        processes.wait_for(url, lambda: answers(url), seconds=20)
