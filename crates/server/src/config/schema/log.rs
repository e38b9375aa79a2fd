use super::Schema;
use crate::config::LogConfig;
use crate::config::key::{Field, at, start_key, word};

pub(crate) const LOG: Schema<LogConfig> = Schema {
    kind: "log",
    is_named: false,
    doc: "Where Stoker's own lines and its workers' output go. May be left out.",
    keys: &[
        start_key(
            "format",
            "\"text\"",
            word!(json, ["text", "json"]),
            "`text` for people, `json` for machines (one object a line).",
        ),
        start_key(
            "file",
            "standard error",
            Field::Path(at!(file)),
            "A file to append to instead of standard error.",
        ),
    ],
};
