//! How many connections the process has descriptors for.

use rustix::process::{Resource, getrlimit};

/// A quarter of the descriptors, but at most this many, is left for files and for connections to the server.
const MAX_OTHERS: u64 = 4_000;

/// The number of connections to accept if `wanted` are configured.
pub(crate) fn connection_limit(wanted: usize) -> usize {
    // Without a limit, all are accepted.
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    possible(wanted, limit)
}

fn possible(wanted: usize, limit: u64) -> usize {
    let possible = limit - (limit / 4).min(MAX_OTHERS);
    wanted
        .min(usize::try_from(possible).unwrap_or(usize::MAX))
        .max(1)
}

/// With the default of `max_connections`, there is no warning if at least this many connections are accepted.
const ENOUGH: usize = 1_000;

/// A line for the log if fewer connections are accepted than the user has configured, or than typical sites need.
pub(crate) fn warning(wanted: usize, is_default: bool, accepted: usize) -> Option<String> {
    let needed = if is_default {
        wanted.min(ENOUGH)
    } else {
        wanted
    };
    (accepted < needed).then(|| {
        format!(
            "the limit on open files is too low for [http] max_connections = {wanted}: only {accepted} connections are accepted \
             (raise LimitNOFILE= of the unit, or `ulimit -n`)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_causes_no_warning() {
        assert!(warning(20_000, false, 16_000).is_some());
        assert!(warning(20_000, true, 16_000).is_none());
        assert!(warning(20_000, true, 768).is_some());
        assert!(warning(100, false, 100).is_none());
    }

    #[test]
    fn some_descriptors_are_reserved_for_files() {
        for (wanted, limit, expected) in [
            (20_000, 1_024, 768),
            (20_000, 20_000, 16_000),
            (20_000, 1 << 20, 20_000),
            (100, 1_024, 100),
            (100, u64::MAX, 100),
            (100, 1, 1),
        ] {
            assert_eq!(possible(wanted, limit), expected, "{wanted} {limit}");
        }
    }
}
