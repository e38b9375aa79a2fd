//! The directory that workers run in. By default it is the directory of the configuration, which a deploy
//! changes.

use crate::config::Launch;
use crate::observe::{Log, events};
use std::io;

/// Resolves the configuration's directory again. After a deploy it may be the directory of the next release.
pub(crate) fn refresh_base(launch: &mut Launch, log: &mut Log) -> io::Result<()> {
    let base = launch.find_base()?;
    if base != launch.base {
        let (old, new) = (launch.base.display(), base.display());
        let text = format!("new workers run in {new}, no longer in {old}");
        let entry = events::DIRECTORY_CHANGED.message(text);
        let (old, new) = (old.to_string(), new.to_string());
        log.put(entry.with("from", old).with("to", new));
        launch.base = base;
    }
    Ok(())
}

/// Resolves the directory again if it was removed, as deploy tools do with old releases: no worker could start in
/// it.
pub(crate) fn refresh_removed_base(launch: &mut Launch, log: &mut Log) {
    if !launch.base.is_dir() {
        // If there is no directory at all, the workers fail to start, and that is logged.
        refresh_base(launch, log).ok();
    }
}
