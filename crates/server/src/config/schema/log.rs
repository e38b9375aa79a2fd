//! The keys of `[log]`.

use super::Schema;
use crate::config::LogConfig;
use crate::config::key::{Field, at, number, size, size_or_none, start_key, word};

pub(crate) const LOG: Schema<LogConfig> = Schema {
    kind: "log",
    is_named: false,
    doc: "Where Stoker's own lines and its workers' output go. Optional.",
    keys: &[
        start_key(
            "format",
            "\"text\"",
            word!(json, ["text", "json"]),
            "`text` for people, `json` for programs (one object per line).",
        ),
        start_key(
            "file",
            "standard error",
            Field::Path(at!(file)),
            "A log file to use instead of standard error.",
        ),
        start_key(
            "max_size",
            "\"100MB\"",
            size_or_none!(max_size),
            "Size at which the file is renamed to `FILE.1` and a new one is started. Use `none` if another program rotates it.",
        ),
        start_key(
            "keep_files",
            "4",
            number!(keep_files, 0..=1_000),
            "Maximum number of old files that are kept; `FILE.1` is the newest.",
        ),
        start_key(
            "rate_limit",
            "\"1MB\"",
            size_or_none!(rate_limit),
            "Output per second that one worker may log in the long run. Further output is dropped, and a line says how much. The output that is kept with a job is not affected.",
        ),
        start_key(
            "rate_burst",
            "\"16MB\"",
            size!(rate_burst),
            "Output that one worker may log at once, before `rate_limit` applies.",
        ),
    ],
};
