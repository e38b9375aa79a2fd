"""All faults, and the order in which they occur."""

import os
import random
import shutil
import subprocess
import sys
import tempfile

from rig import disk, faults, preload, upgrade

KILLS = [faults.server] * 2 + [faults.angel] * 2 + [faults.workers] * 3 + [faults.workers_then_server, faults.recovery]
KILLS += [faults.everything] * 2 + [faults.everything_again, faults.recovery, faults.stopped_server, faults.stopped_workers]
KILLS += [faults.term] * 2 + [faults.term_then_kill, faults.reload_then_kill]
# Short, so that ten rounds contain several kinds of faults, whatever is dealt first.
DISK = [faults.server, faults.everything, faults.workers, faults.term]
FULL = [disk.full_disk] * 2 + [disk.killed_on_full_disk]
FAILING = [disk.failing_disk] * 2 + [disk.killed_on_failing_disk] * 2 + [disk.killed_while_mending] * 2
POWER = [faults.power_cut] * 6 + [faults.term_and_power_cut, faults.everything_again]
MIGRATION = [upgrade.migration]
BY_NAME = {fault.__name__: fault for fault in KILLS + DISK + FULL + FAILING + POWER + [upgrade.migration]}


class Deck:
    """Deals each fault as often as the deck contains it, in an order that the seed gives."""

    def __init__(self, seed, cards, small=False):
        self.dice, self.cards, self.small = random.Random(f"{seed}/deck/{small}"), cards, small
        self.left = []

    def deal(self, count):
        return [self._one() for _ in range(count)]

    def _one(self):
        if not self.left:
            self.left = self.dice.sample(self.cards, len(self.cards))
        return self.left.pop()


def decks(found):
    """Returns the decks; stores use them in turn."""
    if found.only:
        cards = [BY_NAME[name] for name in found.only]
        return [Deck(found.seed, cards, small=any(card in FULL for card in cards))]
    if found.powercut:
        # With --expect-loss there are no syncs that could fail.
        return [Deck(found.seed, POWER + MIGRATION + ([] if found.expect_loss else FAILING))]
    full, failing = FULL if may_mount() else [], FAILING if preload.may_build() else []
    if not full:
        print("skipping full disks: mounting a file system requires root", file=sys.stderr)
    if not failing:
        print("skipping failing disks: there is no C compiler", file=sys.stderr)
    found_decks = [Deck(found.seed, KILLS + MIGRATION)]
    if full or failing:
        found_decks.append(Deck(found.seed, DISK + full + failing, small=bool(full)))
    return found_decks


def pieces(found):
    """Returns (store number, whether its disk is small, faults) for each store."""
    piles = decks(found)
    # A short campaign uses every deck too.
    longest = min(found.segment, -(-found.rounds // len(piles)))
    made, left = [], found.rounds
    while left > 0:
        deck, rounds = piles[len(made) % len(piles)], min(longest, left)
        made.append((len(made), deck.small, deck.deal(rounds)))
        left -= rounds
    return made


def may_mount():
    """Whether file systems can be mounted. Being root is not always enough: containers often forbid it."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "stoker-campaign", folder]
        if subprocess.run(command, stderr=subprocess.DEVNULL).returncode != 0:
            return False
        return subprocess.run(["umount", folder], stderr=subprocess.DEVNULL).returncode == 0
