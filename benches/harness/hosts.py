"""Network namespaces that stand for the article's three machines: clients and workers, each with a link to the server."""

import os
import shutil
import subprocess

SERVER = "server"
LINKS = {"clients": "10.78.1", "workers": "10.78.2"}  # the host at the other end of each of the server's links


def missing():
    """What this machine lacks for namespaces; None if nothing."""
    if os.geteuid() != 0:
        return "root"
    return None if shutil.which("ip") else "the program ip"


class Hosts:
    def __enter__(self):
        self.names = {host: f"stoker-{host}-{os.getpid()}" for host in (SERVER, *LINKS)}
        try:
            for name in self.names.values():
                _ip("netns", "add", name)
                _ip("-n", name, "link", "set", "lo", "up")
            for host, network in LINKS.items():
                self._connect(host, network)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _connect(self, host, network):
        here, there = self.names[SERVER], self.names[host]
        _ip("-n", here, "link", "add", host, "type", "veth", "peer", "name", SERVER, "netns", there)
        for name, device, number in ((here, host, 1), (there, SERVER, 2)):
            _ip("-n", name, "address", "add", f"{network}.{number}/24", "dev", device)
            _ip("-n", name, "link", "set", device, "up")

    def __exit__(self, *_):
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)

    def on(self, host, command):
        """The command that runs another one on this host."""
        return ["ip", "netns", "exec", self.names[host], *command]

    def server_address(self, host):
        """The address by which this host reaches the server."""
        return f"{LINKS[host]}.1"


def _ip(*words):
    subprocess.run(["ip", *words], check=True)
