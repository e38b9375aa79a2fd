//! Processes that dead workers left behind.

use super::{Angel, Phase};
use crate::zygote::Zygote;
use crate::{ToServer, procfs};

impl Angel {
    /// Kills processes that dead workers left behind. In the phases `Clearing` and `Ending`, kills all workers
    /// and orphans.
    pub(super) fn sweep(&mut self) {
        let all = matches!(self.phase, Phase::Clearing { .. } | Phase::Ending { .. });
        let server = self.server.map(|(pid, _)| pid);
        self.recheck_orphans = false;
        for pid in self.children.list() {
            let known = self.by_pid.contains_key(&pid);
            if known && !all || Some(pid) == server || self.inherited_children.contains(&pid) {
                continue;
            }
            let is_gateway = self.is_gateway(pid);
            if is_gateway && !matches!(self.phase, Phase::Ending { .. })
                || self.is_zygote(pid) && !all
                || procfs::is_dead(pid)
            {
                continue;
            }
            if is_gateway {
                procfs::kill_tree(pid);
                continue;
            }
            if known || self.is_zygote(pid) {
                procfs::kill_tree(pid);
            } else if all || self.owner_is_dead(pid) {
                self.kill_orphan(pid);
            }
        }
        if !self.recheck_orphans {
            self.ended.clear();
        }
    }

    /// Whether an adopted process belongs to a worker that has ended. The worker is identified by the cookie in
    /// the process's environment or, if the environment was cleared, by its process group. A process whose worker
    /// is unknown runs until the end.
    fn owner_is_dead(&mut self, pid: i32) -> bool {
        let group = procfs::group(pid).unwrap_or(0);
        if self.by_pid.contains_key(&group) {
            return false;
        }
        match procfs::variable(pid, crate::env::COOKIE) {
            Some(cookie) if let Some(zygote) = self.zygote_of(&cookie) => {
                // A child of a zygote has a process group of its own, and the zygote's environment. This process
                // belonged to a child that has ended, or it has left the group of one that still runs, which can't be
                // told apart; or it is a new child whose report is still on its way.
                let is_awaited = zygote.is_awaited();
                let is_dead = group != zygote.pid && !is_awaited;
                self.recheck_orphans |= is_awaited;
                is_dead
            }
            Some(cookie) => !self.workers.values().any(|worker| worker.cookie == cookie),
            // A process has no environment while it is in the middle of an exec.
            None if procfs::was_just_forked(pid) => {
                self.recheck_orphans = true;
                false
            }
            // The number of a process group that still has members cannot have been reused, so it is that of the
            // worker.
            None => self.ended.iter().any(|worker| worker.pid == group),
        }
    }

    fn zygote_of(&self, cookie: &str) -> Option<&Zygote> {
        self.zygotes.iter().find(|zygote| zygote.cookie == cookie)
    }

    fn kill_orphan(&mut self, pid: i32) {
        let group = procfs::group(pid);
        let ended = self.ended.iter().find(|worker| Some(worker.pid) == group);
        // What a forked worker has forked has the environment of its zygote.
        let worker = ended.map(|worker| worker.name.clone());
        let worker = worker.or_else(|| procfs::variable(pid, crate::env::WORKER));
        let worker = worker.unwrap_or_else(|| "a worker".to_owned());
        let command = procfs::command(pid);
        procfs::kill_tree(pid);
        self.send(
            &ToServer::OrphanKilled {
                worker,
                pid,
                command,
            },
            Vec::new(),
        );
    }
}
