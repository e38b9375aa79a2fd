use super::Schema;
use crate::config::StoreConfig;
use crate::config::key::{Field, Other, at, start_key};
use crate::config::quote;
use std::path::{Path, PathBuf};

pub(crate) const STORE: Schema<StoreConfig> = Schema {
    kind: "store",
    is_named: false,
    doc: "Where jobs live. May be left out: then they live in `stoker.db` beside the configuration.",
    keys: &[
        start_key(
            "path",
            "\"stoker.db\"",
            Field::Other(PATH),
            "The SQLite file. Beside it lie its journal (`-wal`, `-shm`) and a lock that keeps a second Stoker out. Where each release has a directory of its own, name a place that all of them share.",
        ),
        // After the path, which does not count in memory.
        start_key(
            "driver",
            "\"sqlite\"",
            Field::Word {
                words: &["sqlite", "memory"],
                get: |store| usize::from(store.path.is_none()),
                set: |store, at| store.path = store.path.take().filter(|_| at == 0),
            },
            "`sqlite` keeps jobs on disk: a push is answered once they are safe there. `memory` keeps them for the life of the server and is faster.",
        ),
        start_key(
            "sync",
            "true",
            Field::Flag(at!(sync)),
            "Whether the disk has confirmed what is accepted. Without it a power loss (not a crash of Stoker) may lose the last jobs.",
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
