//! The niceness of a pool's processes.

use super::kind::Kind;
use super::pool::Pool;
use stoker_testkit::procs;

/// Workers, zygotes, adapters and the programs and servers that adapters start have the pool's niceness, even while a
/// task runs; Stoker's own processes keep theirs.
pub(super) fn all_processes(kind: Kind) {
    let own = procs::niceness(rustix::process::getpid().as_raw_nonzero().get());
    let pool = Pool::start(kind, "boots.php", "nice = 7");
    let (angel, server) = (pool.app.angel(), pool.app.server());
    let mut of_pool = pool.app.processes();
    of_pool.retain(|pid| ![angel, server].contains(pid));
    assert!(!of_pool.is_empty());
    for pid in of_pool {
        let command = procs::command(pid);
        assert_eq!(procs::niceness(pid), (own + 7).min(19), "{command}");
    }
    assert_eq!([angel, server].map(procs::niceness), [own, own]);
    pool.finish();
}
