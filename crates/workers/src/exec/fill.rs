//! Fills in the placeholders of a pool's command.

use crate::adapter::Task;

/// Replaces `{name}`, `{id}` and `{body}` in a word of the command with the values of this task.
pub(super) fn fill(task: &Task, word: &str) -> String {
    if !word.contains('{') {
        return word.to_owned();
    }
    let word = word
        .replace("{name}", &task.name)
        .replace("{id}", &task.label);
    // The body is inserted last, so that placeholders inside it are not replaced.
    word.replace("{body}", &String::from_utf8_lossy(&task.body))
}
