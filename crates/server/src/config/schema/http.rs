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
            "A unix socket to serve HTTP on. Its mode and group are those of `stoker.socket_mode` and `stoker.socket_group`, and who asks is known by uid, as on Stoker's own socket.",
        ),
        start_key(
            "listen",
            "[]",
            Field::Texts(at!(listen), "[\"127.0.0.1:8080\"]"),
            "Loopback addresses to serve HTTP on. Everything but `/health` and `/ready` needs the token there.",
        ),
        start_key(
            "token_file",
            "\"stoker.token\"",
            Field::Other(TOKEN_FILE),
            "The file with the token of `listen`. It is made at the first start, with mode 0600. Who knows the token may do what Stoker's own user may.",
        ),
        start_key(
            "hosts",
            "[]",
            Field::Texts(at!(hosts), "[\"stoker.internal\"]"),
            "Host names that clients of `listen` may use besides `localhost`, `127.0.0.1` and `[::1]`, as behind a reverse proxy. Others are rejected, so that no web page can reach Stoker by a name of its own.",
        ),
        start_key(
            "max_connections",
            "20_000",
            number!(max_connections, 1..=1_000_000),
            "Connections at once; more wait to be accepted.",
        ),
        start_key(
            "max_header",
            "\"16KB\"",
            size!(max_header),
            "The size of a request's header. At least `8KB`.",
        ),
        start_key(
            "max_body",
            "\"8MB\"",
            size!(max_body),
            "The size of a request's body. At most `15MB`.",
        ),
        start_key(
            "max_memory",
            "\"64MB\"",
            size!(max_memory),
            "Bytes of all bodies that the gateway holds, of requests and of answers. Beyond it, requests are refused with a `Retry-After`.",
        ),
        start_key(
            "header_timeout",
            "\"10s\"",
            time_above_zero(at!(header_timeout)),
            "A client that begins a request and does not end its header within this time is disconnected.",
        ),
        start_key(
            "body_timeout",
            "\"30s\"",
            time_above_zero(at!(body_timeout)),
            "Time in which the whole body of a request has to come.",
        ),
        start_key(
            "idle_timeout",
            "\"60s\"",
            time_above_zero(at!(idle_timeout)),
            "A connection on which nothing is asked for this time is closed.",
        ),
        start_key(
            "write_timeout",
            "\"30s\"",
            time_above_zero(at!(write_timeout)),
            "A client that takes nothing of its answer for this time is disconnected.",
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
