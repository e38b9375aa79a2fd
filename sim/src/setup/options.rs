//! Options of the configuration that can be left out, with names like `queue.q0.tries`.

use super::{Pool, Queue, Quotas, Section, Service, Setup};

/// Keys without which a configuration is not valid.
const REQUIRED: [&str; 4] = ["command", "workers", "pool", "watchdog"];

impl Setup {
    pub(crate) fn options(&self) -> Vec<String> {
        self.sections().flat_map(options_of).collect()
    }

    /// Leaves out an option, and derives everything from its section again. Returns whether the option was there.
    pub(crate) fn leave_out(&mut self, option: &str) -> bool {
        let Some((head, key)) = option.rsplit_once('.') else {
            return false;
        };
        let drops = |section: &mut Section| section.head == head && section.take(key);
        if drops(&mut self.stoker) {
            self.quotas = Quotas::read(&self.stoker);
            return true;
        }
        for pool in &mut self.pools {
            if drops(&mut pool.section) {
                let (slots, pulls) = (pool.slots, pool.pulls);
                *pool = Pool::read(pool.section.clone());
                (pool.slots, pool.pulls) = (slots, pulls);
                return true;
            }
        }
        for queue in &mut self.queues {
            if drops(&mut queue.section) {
                *queue = Queue::read(queue.pool, queue.section.clone());
                return true;
            }
        }
        for service in &mut self.services {
            if drops(&mut service.section) {
                *service = Service::read(service.pool, service.section.clone());
                return true;
            }
        }
        drops(&mut self.log)
    }
}

fn options_of(section: &Section) -> impl Iterator<Item = String> {
    let keys = section.keys.iter().map(|(key, _)| *key);
    let keys = keys.filter(|key| !REQUIRED.contains(key));
    keys.map(|key| format!("{}.{key}", section.head))
}
