//! Checks the keys of pools whose calls and jobs become HTTP requests.

use super::reader::{Mistakes, Section};
use super::{Pool, quote};
use stoker_workers::{STRATEGIES, Strategy, TasksAs};

/// Placeholder in a path for the name of the queue or method.
pub(super) const NAME_IN_PATH: &str = "{name}";

pub(super) const DEFAULT_PATH: &str = "/";

/// Whether a value is the path of a request: as it is written there, with an optional query, and with placeholders.
pub(super) fn is_path(path: &str) -> bool {
    let rest = path.replace(NAME_IN_PATH, "");
    let is_valid = |byte: u8| byte.is_ascii_graphic() && !b"#{}".contains(&byte);
    path.starts_with('/') && rest.bytes().all(is_valid)
}

/// Checks that the keys apply to the strategy of the pool.
pub(super) fn check_pool(section: &Section<'_, '_>, pool: &Pool, mistakes: &mut Mistakes<'_>) {
    let tasks_as = pool.strategy.tasks_as;
    let mut without_use = Vec::new();
    if tasks_as == TasksAs::Tasks && pool.task_path != DEFAULT_PATH {
        without_use.push((
            "task_path",
            strategies(|tasks_as| tasks_as != TasksAs::Tasks),
        ));
    }
    if tasks_as != TasksAs::RequestsToScript && pool.task_script.is_some() {
        let names = strategies(|tasks_as| tasks_as == TasksAs::RequestsToScript);
        without_use.push(("task_script", names));
    }
    for (key, names) in without_use {
        let what = format!(
            "only the strategies {names} use {key} (strategy = {})",
            quote(pool.strategy.name)
        );
        let hint = match (key, tasks_as) {
            ("task_script", TasksAs::Requests) => {
                "remove task_script; the server chooses by the path (task_path)".to_owned()
            }
            _ => format!("remove {key}, or choose another strategy"),
        };
        section.add_mistake(key, mistakes, what, Some(hint));
    }
}

/// Checks that a queue's or service's pool has what its strategy needs to run calls and jobs.
pub(super) fn check_tasks(
    section: &Section<'_, '_>,
    name: &str,
    pools: &[Pool],
    mistakes: &mut Mistakes<'_>,
) {
    let pool = pools.iter().find(|pool| pool.name == name);
    let lacks_script = |pool: &&Pool| {
        pool.strategy.tasks_as == TasksAs::RequestsToScript && pool.task_script.is_none()
    };
    if let Some(pool) = pool.filter(lacks_script) {
        let what = format!(
            "strategy = {} of pool {name} runs calls and jobs with a script, but the pool has no task_script",
            quote(pool.strategy.name)
        );
        let hint =
            format!("add task_script = \"tasks.php\" to [pool.{name}], or choose another pool");
        section.add_mistake("pool", mistakes, what, Some(hint));
    }
}

/// The names of strategies, in quotes: `"cgi", "fastcgi" and "http"`.
fn strategies(which: impl Fn(TasksAs) -> bool) -> String {
    let names = STRATEGIES
        .iter()
        .filter(|strategy: &&Strategy| which(strategy.tasks_as));
    let names: Vec<String> = names.map(|strategy| quote(strategy.name)).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.join(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_requests() {
        for path in [
            "/",
            "/tasks",
            "/tasks/{name}",
            "/a?secret=x&name={name}",
            "/%41",
        ] {
            assert!(is_path(path), "{path}");
        }
        for path in [
            "",
            "tasks",
            "http://a/b",
            "/a b",
            "/a#b",
            "/{nam}",
            "/é",
            "/a\r\n",
        ] {
            assert!(!is_path(path), "{path}");
        }
    }

    #[test]
    fn names_strategies() {
        let all = strategies(|tasks_as| tasks_as != TasksAs::Tasks);
        assert_eq!(all, "\"cgi\", \"fastcgi\" and \"http\"");
    }
}
