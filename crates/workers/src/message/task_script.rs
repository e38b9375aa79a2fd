//! The script that runs the calls and jobs of a pool of CGI programs or of a FastCGI server.

use super::{Places, Post, Variables, add_facts, no_task_script, variables};
use crate::adapter::{Answer, Settings, Task};
use std::io;
use std::path::Path;

/// Such requests have no client that could have chosen another name.
const HOST: &str = "localhost";

/// The script for calls and jobs, and the path of their requests.
#[derive(Debug)]
pub(crate) struct TaskScript {
    script: String,
    path: String,
    /// The script is a file of this machine.
    is_local: bool,
}

impl TaskScript {
    /// The script of a pool, if it has one.
    pub(crate) fn of(settings: &Settings, is_local: bool) -> io::Result<Option<Self>> {
        let Some(script) = &settings.task_script else {
            return Ok(None);
        };
        let script = std::path::absolute(script)?;
        Ok(Some(Self {
            script: script.to_string_lossy().into_owned(),
            path: settings.task_path.clone(),
            is_local,
        }))
    }

    /// Calls `run` with the pool's script. Returns an error answer if the pool has no script, or its file does not exist.
    pub(crate) fn answer(
        script: Option<&Self>,
        task: &Task,
        run: impl FnOnce(&Self) -> Result<Answer, Answer>,
    ) -> Result<Answer, Answer> {
        let script = script.ok_or_else(|| no_task_script(task))?;
        script.check()?;
        run(script)
    }

    /// Fails while the script does not exist, for example in the middle of a deployment. The answer of PHP, 404, would fail a job
    /// for good.
    fn check(&self) -> Result<(), Answer> {
        match self.is_local && !Path::new(&self.script).is_file() {
            true => Err(Answer::exception(format!(
                "the script of the pool's task_script does not exist: {}",
                self.script
            ))),
            false => Ok(()),
        }
    }

    /// The variables of the request that a task becomes.
    pub(crate) fn variables(&self, task: &Task) -> Variables {
        let places = Places {
            script: &self.script,
            root: None,
            client: None,
        };
        let post = Post::new(task, &self.path, HOST);
        let mut all = variables(places, &post.request(task), task.body.len() as u64);
        add_facts(&mut all, task);
        all
    }
}
