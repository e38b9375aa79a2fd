//! The keys of `[http]`.

use super::Schema;
use crate::config::HttpConfig;
use crate::config::key::{Field, Other, at, number, size, start_key, time_above_zero};
use crate::config::quote;
use std::path::PathBuf;

pub(crate) const HTTP: Schema<HttpConfig> = Schema {
    kind: "http",
    is_named: false,
    doc: "Calls, pushes, the admin API and metrics over HTTP/1.1 and h2c. Without `socket` and `listen` no HTTP is served.",
    keys: &[
        start_key(
            "socket",
            "none",
            Field::Path(at!(socket)),
            "A unix socket to serve HTTP on. `stoker.socket_mode` and `stoker.socket_group` apply to it, and the kernel reports the user of each client, as on Stoker's own socket.",
        ),
        start_key(
            "listen",
            "[]",
            Field::Texts(at!(listen), "[\"127.0.0.1:8080\"]"),
            "Loopback addresses to serve HTTP on. Requests need the token there, except for `/health` and `/ready`.",
        ),
        start_key(
            "token_file",
            "\"stoker.token\"",
            Field::Other(TOKEN_FILE),
            "The file with the token for `listen`. Stoker creates it at the first start, with mode 0600. A client with the token may do everything that Stoker's own user may do.",
        ),
        start_key(
            "hosts",
            "[]",
            Field::Texts(at!(hosts), "[\"stoker.internal\"]"),
            "Host names that clients of `listen` may use besides `localhost`, `127.0.0.1` and `[::1]`, for example behind a reverse proxy. Requests for other hosts are rejected, which protects against DNS rebinding.",
        ),
        start_key(
            "max_connections",
            "20_000",
            number!(max_connections, 1..=1_000_000),
            "Maximum number of open connections, but never more than three quarters of the limit on open files (if that is above 16,000: the limit minus 4,000). Further connections to `listen` wait to be accepted; for further connections to sites, idle ones are closed, and if none is idle, they wait.",
        ),
        start_key(
            "max_header",
            "\"16KB\"",
            size!(max_header),
            "Maximum size of a request's header; `8KB` to `64KB`.",
        ),
        start_key(
            "max_body",
            "\"8MB\"",
            size!(max_body),
            "Maximum size of a request's body; at most `15MB`.",
        ),
        start_key(
            "max_memory",
            "\"64MB\"",
            size!(max_memory),
            "Maximum total size of the request and response bodies that the gateway holds in memory. Above this limit, requests are rejected with a `Retry-After`, and clients that have read nothing of their response for a second are disconnected, those with the largest responses first.",
        ),
        start_key(
            "spool",
            "none",
            Field::Path(at!(spool)),
            "The directory for large bodies of requests to sites, and of their responses. Only Stoker's own user has access to it. By default `stoker-UID` in the directory for temporary files (`TMPDIR`, or `/tmp`).",
        ),
        start_key(
            "max_spool",
            "\"1GB\"",
            size!(max_spool),
            "Maximum total size of the large bodies of one site that are stored in files at the same time: of requests, as far as they have arrived, and of responses. Above this limit, requests with a large body are answered with 503 and a `Retry-After` header. Responses are sent in any case.",
        ),
        start_key(
            "header_timeout",
            "\"10s\"",
            time_above_zero(at!(header_timeout)),
            "Time in which the header of a request must arrive; otherwise the client is disconnected.",
        ),
        start_key(
            "body_timeout",
            "\"30s\"",
            time_above_zero(at!(body_timeout)),
            "Time in which the whole body of a request must arrive. For a large body of a request to a site, the time is extended by one second for each 64 KB that have arrived.",
        ),
        start_key(
            "idle_timeout",
            "\"60s\"",
            time_above_zero(at!(idle_timeout)),
            "A connection that has been idle for this time is closed.",
        ),
        start_key(
            "write_timeout",
            "\"30s\"",
            time_above_zero(at!(write_timeout)),
            "A client that reads nothing of its response for this time is disconnected.",
        ),
    ],
};

const TOKEN_FILE: Other<HttpConfig> = Other {
    kind: "path",
    read: |section, key, http, mistakes| {
        let path = section.text(key, mistakes).map(PathBuf::from);
        http.token_file = path.unwrap_or_else(|| http.token_file.clone());
    },
    write: |http| http.token_file.to_str().map(quote),
    copy: |from, to| to.token_file.clone_from(&from.token_file),
};
