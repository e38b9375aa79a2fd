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
    use std::time::{Duration, Instant};
    use stoker_store::{SqliteOptions, SqliteStore, StoreError};
    /// How long an earlier server may take to be gone, after its angel was killed.
    const STEPS_ASIDE: Duration = Duration::from_secs(3);
    let options = SqliteOptions {
        sync,
        ..SqliteOptions::default()
    };
    let until = Instant::now() + STEPS_ASIDE;
    loop {
        match SqliteStore::open(path, options.clone()) {
            Ok(store) => return Ok(Box::new(store)),
            Err(StoreError::Locked { .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            // Starting again will not mend it: this is for whoever reads the message.
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
        }
    }
}

#[cfg(not(feature = "sqlite"))]
fn open_file(path: &Path, _sync: bool) -> io::Result<Box<dyn Driver>> {
    Err(io::Error::other(format!(
        "this Stoker was built without SQLite and can't open {}; [store] driver = \"memory\" needs none",
        path.display()
    )))
}
