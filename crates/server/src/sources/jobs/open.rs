use crate::config::Config;
use std::io;
use std::path::Path;
use stoker_store::{Driver, MemoryStore, wall_clock};

/// The store that the configuration names.
pub(crate) fn open_store(config: &Config) -> io::Result<Box<dyn Driver>> {
    match &config.store.path {
        Some(path) => open_file(path, config.store.sync),
        // Payloads of ended jobs may take half of what those of waiting ones may.
        None => Ok(Box::new(MemoryStore::new(
            wall_clock(),
            config.max_memory / 2,
        ))),
    }
}

#[cfg(feature = "sqlite")]
fn open_file(path: &Path, sync: bool) -> io::Result<Box<dyn Driver>> {
    use stoker_store::{SqliteOptions, SqliteStore};
    let options = SqliteOptions {
        sync,
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open(path, options).map_err(io::Error::other)?;
    Ok(Box::new(store))
}

#[cfg(not(feature = "sqlite"))]
fn open_file(path: &Path, _sync: bool) -> io::Result<Box<dyn Driver>> {
    Err(io::Error::other(format!(
        "this Stoker was built without SQLite and can't open {}; [store] driver = \"memory\" needs none",
        path.display()
    )))
}
