//! Detects whether a job store is inside the directory of a single release. Deploy tools create a directory for
//! each release, switch a symbolic link such as `current` to the newest, and remove old ones.

use super::Config;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The maximum number of links that are followed one after another, as in the kernel.
const MAX_LINKS: u32 = 40;
/// Names of links that are usually switched from release to release, wherever they point.
const SWITCHED_LINK_NAMES: [&str; 4] = ["current", "live", "latest", "active"];

impl Config {
    /// The path of the job store without symbolic links, whether the file exists or not. `directory` is the
    /// configuration's.
    pub fn store_file(&self, directory: &Path) -> Option<PathBuf> {
        let path = self.store.path.as_deref()?;
        resolve_links(&directory.join(path), MAX_LINKS).ok()
    }

    /// A warning if the store is in the directory of a single release. `directory` is the configuration's, with
    /// its symbolic links unresolved.
    pub fn release_warning(&self, directory: &Path) -> Option<String> {
        let store = self.store_file(directory)?;
        let release = release_of(&store, directory)?;
        let shown = store.display();
        Some(format!(
            "the job store {shown} lies in a release directory ({}): the next release would start with an empty \
             store, and jobs are lost when the directory is removed; use a path that all releases share, such as \
             [store] path = {:?}",
            release.display(),
            shared_store(&store, &release)
        ))
    }
}

/// A path for the store that all releases could share.
pub fn shared_store_for(store: &Path, directory: &Path) -> PathBuf {
    let release = release_of(store, directory);
    let release = release.as_deref().or(store.parent());
    shared_store(store, release.unwrap_or(store))
}

/// Proposes a `shared` directory beside `releases`, as Deployer, Capistrano and Envoyer use it.
fn shared_store(store: &Path, release: &Path) -> PathBuf {
    let parent = release.parent().unwrap_or(release);
    let is_releases = parent.file_name().is_some_and(|name| name == "releases");
    let root = if is_releases { parent.parent() } else { None };
    let name = store.file_name().unwrap_or("stoker.db".as_ref());
    root.unwrap_or(parent).join("shared").join(name)
}

/// The directory of the release that a file belongs to.
fn release_of(store: &Path, directory: &Path) -> Option<PathBuf> {
    numbered_release(store).or_else(|| switched_release(store, directory))
}

/// The directory `…/releases/20261122123500` that contains the file, if there is one.
fn numbered_release(store: &Path) -> Option<PathBuf> {
    let is_release = |place: &&Path| {
        let parent = place.parent().and_then(Path::file_name);
        let name = place.file_name().and_then(|name| name.to_str());
        parent.is_some_and(|parent| parent == "releases") && name.is_some_and(is_numbered)
    };
    let found = store.ancestors().skip(1).find(is_release);
    found.map(Path::to_owned)
}

/// Whether a name looks like a counter, a time, a version or a commit.
fn is_numbered(name: &str) -> bool {
    let is_commit = (7..=40).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_hexdigit());
    let number = name.strip_prefix('v').unwrap_or(name);
    is_commit || number.starts_with(|first: char| first.is_ascii_digit())
}

/// The release directory that contains the store, if the configuration's path leads through a symbolic link to it.
/// A link counts if it has a usual name, such as `current`, or if its target is in the directory of the link. A link
/// to somewhere else was probably made by an administrator to move a directory permanently, so it does not count.
fn switched_release(store: &Path, directory: &Path) -> Option<PathBuf> {
    let is_link = |place: &&Path| place.is_symlink();
    directory.ancestors().filter(is_link).find_map(|link| {
        let target = fs::canonicalize(link).ok()?;
        let beside = fs::canonicalize(link.parent()?).ok()?;
        let name = link.file_name().and_then(|name| name.to_str());
        let is_switched = name.is_some_and(|name| SWITCHED_LINK_NAMES.contains(&name));
        let is_beside = beside.parent().is_some() && target.starts_with(&beside);
        ((is_switched || is_beside) && store.starts_with(&target)).then_some(target)
    })
}

/// A path without symbolic links. Its last component need not exist, even if that is a link.
fn resolve_links(path: &Path, links: u32) -> io::Result<PathBuf> {
    if let Ok(real) = fs::canonicalize(path) {
        return Ok(real);
    }
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = fs::canonicalize(parent.unwrap_or(Path::new(".")))?;
    let Some(Component::Normal(name)) = path.components().next_back() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    match fs::read_link(parent.join(name)) {
        Ok(target) if links > 0 => resolve_links(&parent.join(target), links - 1),
        _ => Ok(parent.join(name)),
    }
}
