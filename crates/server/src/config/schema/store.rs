//! The keys of `[store]`.

use super::Schema;
use crate::config::StoreConfig;
use crate::config::key::{Field, Other, at, start_key};
use crate::config::quote;
use std::path::{Path, PathBuf};

pub(crate) const STORE: Schema<StoreConfig> = Schema {
    kind: "store",
    is_named: false,
    doc: "Where jobs are stored. Optional. By default, they are in `stoker.db` beside the configuration.",
    keys: &[
        start_key(
            "path",
            "\"stoker.db\"",
            Field::Other(PATH),
            "The SQLite file. Its journal (`-wal`, `-shm`) and a lock against a second Stoker are beside it. If each release has its own directory, use a path that all releases share.",
        ),
        // Must come after `path`: with the driver "memory" the path is dropped.
        start_key(
            "driver",
            "\"sqlite\"",
            Field::Word {
                words: &["sqlite", "memory"],
                get: |store| usize::from(store.path.is_none()),
                set: |store, at| store.path = store.path.take().filter(|_| at == 0),
            },
            "`sqlite` keeps jobs on disk: a push returns after they have been written there. `memory` is faster, and loses jobs when the server ends.",
        ),
        start_key(
            "sync",
            "true",
            Field::Flag(at!(sync)),
            "Whether accepted jobs are synced to disk. Without it, a power cut (not a crash of Stoker) may lose the latest jobs.",
        ),
    ],
};

const PATH: Other<StoreConfig> = Other {
    kind: "path",
    read: |section, key, store, mistakes| {
        let path = section.text(key, mistakes).map(PathBuf::from);
        store.path = path.or(store.path.take());
    },
    write: |store| store.path.as_deref().and_then(Path::to_str).map(quote),
    copy: |from, to| to.path.clone_from(&from.path),
};
