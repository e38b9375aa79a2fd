//! What dead workers left behind.

use super::{Angel, Phase};
use crate::{ToServer, procfs};

impl Angel {
    /// Kills what dead workers left behind, and in the last phases everything.
    pub(super) fn sweep(&mut self) {
        let all = matches!(self.phase, Phase::Clearing { .. } | Phase::Ending { .. });
        let server = self.server.map(|(pid, _)| pid);
        self.recheck_orphans = false;
        for pid in self.children.list() {
            let known = self.by_pid.contains_key(&pid);
            if known && !all || Some(pid) == server || self.inherited_children.contains(&pid) {
                continue;
            }
            if procfs::is_dead(pid) {
                continue;
            }
            if self.is_gateway(pid) {
                if matches!(self.phase, Phase::Ending { .. }) {
                    procfs::kill_tree(pid);
                }
                continue;
            }
            if known {
                procfs::kill_tree(pid);
            } else if all || self.owner_is_dead(pid) {
                self.kill_orphan(pid);
            }
        }
        if !self.recheck_orphans {
            self.ended.clear();
        }
    }

    /// Whether an adopted process belongs to a worker that is gone: by the mark in its environment, or where that
    /// was cleared by its group. One whose owner can't be known stays until the end.
    fn owner_is_dead(&mut self, pid: i32) -> bool {
        let group = procfs::group(pid).unwrap_or(0);
        if self.by_pid.contains_key(&group) {
            return false;
        }
        match procfs::variable(pid, crate::env::COOKIE) {
            Some(cookie) => !self.workers.values().any(|worker| worker.cookie == cookie),
            // In the middle of its exec a process has no environment.
            None if procfs::is_young(pid) => {
                self.recheck_orphans = true;
                false
            }
            // No other process can have got the number of a group in which somebody still is.
            None => self.ended.iter().any(|worker| worker.pid == group),
        }
    }

    fn kill_orphan(&mut self, pid: i32) {
        let worker = procfs::variable(pid, crate::env::WORKER).or_else(|| {
            let group = procfs::group(pid)?;
            let ended = self.ended.iter().find(|worker| worker.pid == group)?;
            Some(ended.name.clone())
        });
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
