//! The keys of `[listen]`.

use super::Schema;
use crate::config::ListenConfig;
use crate::config::key::{Field, Other, at, number, start_key, time, time_above_zero};
use crate::config::quote;
use std::path::PathBuf;

pub(crate) const LISTEN: Schema<ListenConfig> = Schema {
    kind: "listen",
    is_named: false,
    doc: "Connections from other machines: clients and workers that connect over TCP or TLS with a token. Without `addresses` there are none.",
    keys: &[
        start_key(
            "addresses",
            "[]",
            Field::Texts(at!(addresses), "[\"0.0.0.0:7007\"]"),
            "The addresses to listen on. Without a certificate only loopback addresses are accepted, unless `insecure` is set.",
        ),
        start_key(
            "certificate",
            "none",
            Field::Path(at!(certificate)),
            "The file with the server's certificate, followed by those of intermediate CAs, in PEM. If set, all connections use TLS. A changed file is reloaded within a second; open connections continue.",
        ),
        start_key(
            "key",
            "none",
            Field::Path(at!(key)),
            "The file with the certificate's private key, in PEM.",
        ),
        start_key(
            "client_ca",
            "none",
            Field::Path(at!(client_ca)),
            "The file with CA certificates, in PEM. If set, every client must present a certificate that one of these CAs has signed. A token can be bound to the name in a certificate: `stoker token create --certificate`.",
        ),
        start_key(
            "insecure",
            "false",
            Field::Flag(at!(insecure)),
            "Listen without TLS on addresses that other machines can reach. Tokens and payloads are then sent unencrypted. A warning is logged at every start.",
        ),
        start_key(
            "tokens",
            "\"stoker.tokens\"",
            Field::Other(TOKENS),
            "The file with the tokens, with mode 0600, which `stoker token` creates and changes. A change takes effect within a second.",
        ),
        start_key(
            "max_connections",
            "8_000",
            number!(max_connections, 1..=1_000_000),
            "The maximum number of open connections from other machines. Above this limit, new connections wait to be accepted. From one address, at most an eighth of this number (but at least 16) may be connections that have not authenticated yet; above that, new connections from the address are closed at once. Keep it below `stoker.max_connections`, because each of them is also a connection to the server.",
        ),
        start_key(
            "hello_timeout",
            "\"10s\"",
            time_above_zero(at!(hello_timeout)),
            "The time limit for the TLS handshake and HELLO. A peer that has not authenticated by then is disconnected.",
        ),
        start_key(
            "keepalive",
            "\"30s\"",
            time_above_zero(at!(keepalive)),
            "A peer that has been unreachable for this time is disconnected. At least `3s`.",
        ),
        start_key(
            "resume_timeout",
            "\"10s\"",
            time(at!(resume_timeout)),
            "How long a worker that has lost its connection in the middle of a task may take to reconnect and deliver its answer. After that, it is treated as dead. With `0s`, it is treated as dead as soon as its connection is lost. At most `1h`.",
        ),
    ],
};

const TOKENS: Other<ListenConfig> = Other {
    kind: "path",
    read: |section, key, listen, mistakes| {
        let path = section.text(key, mistakes).map(PathBuf::from);
        listen.tokens = path.unwrap_or_else(|| listen.tokens.clone());
    },
    write: |listen| listen.tokens.to_str().map(quote),
    copy: |from, to| to.tokens.clone_from(&from.tokens),
};
