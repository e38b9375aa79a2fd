//! The keys of `[site.NAME]`.

use super::Schema;
use super::queue::pool_field;
use crate::config::SiteConfig;
use crate::config::key::{
    Field, Other, at, key, number, size, start_key, time, time_above_zero, time_or_none,
};
use crate::config::{MAX_WORKERS, quote};

pub(crate) const SITE: Schema<SiteConfig> = Schema {
    kind: "site",
    is_named: true,
    doc: "A web site: its public files are served directly, and all other requests by the workers of a pool. The limits of `[http]` on connections, headers, memory and time apply to all sites together.",
    keys: &[
        start_key(
            "listen",
            "[]",
            Field::Texts(at!(listen), "[\"0.0.0.0:8080\"]"),
            "The addresses to listen on. Several sites may share an address if their `hosts` differ. Sites and `[http]` can't share one.",
        ),
        start_key(
            "hosts",
            "[]",
            Field::Texts(at!(hosts), "[\"example.com\", \"*.example.com\"]"),
            "The host names of the site. Without any, the site serves all names that no other site on its address has.",
        ),
        key(
            "pool",
            "the only pool",
            pool_field!(service.pool),
            "The pool that answers requests.",
        ),
        start_key(
            "root",
            "none",
            Field::Path(at!(root)),
            "The directory with the public files. Files in it are served directly, except PHP files and those whose name begins with a dot. Without it, workers answer all requests.",
        ),
        start_key(
            "index",
            "\"index.php\"",
            Field::Other(INDEX),
            "The front controller, relative to `root`. Strategies that run PHP files by themselves (`cgi`, `fastcgi`) run it for every request that is not for a file.",
        ),
        start_key(
            "max_age",
            "none",
            time_or_none(at!(max_age)),
            "How long browsers may keep public files without asking again (`Cache-Control`). `\"none\"` sends no such header.",
        ),
        start_key(
            "certificate",
            "none",
            Field::Path(at!(certificate)),
            "The file with the site's certificate, and those of intermediate CAs after it, in PEM. With it, the site's addresses serve only HTTPS. All sites on one address must have the same certificate. A changed file is reloaded within a second.",
        ),
        start_key(
            "key",
            "none",
            Field::Path(at!(key)),
            "The file with the certificate's private key, in PEM.",
        ),
        start_key(
            "max_body",
            "\"64MB\"",
            size!(max_body),
            "Maximum size of a request's body. Bodies above 64 KB are passed to workers as a file. If the pool has a `user`, which could not read the file, bodies are limited to `15MB`.",
        ),
        start_key(
            "trusted_proxies",
            "[]",
            Field::Texts(at!(trusted_proxies), "[\"10.0.0.0/8\", \"loopback\"]"),
            "Addresses of reverse proxies whose `Forwarded` and `X-Forwarded-…` headers are trusted. `loopback` and `private` stand for the usual ranges.",
        ),
        start_key(
            "proxy_headers",
            "[\"x-forwarded-for\", \"x-forwarded-proto\"]",
            Field::Texts(at!(proxy_headers), "[\"forwarded\"]"),
            "The headers that the `trusted_proxies` set: `forwarded`, or some of `x-forwarded-for`, `x-forwarded-proto` and `x-forwarded-host`. List only headers that every one of these proxies sets itself. A proxy forwards other headers unchanged, so clients could forge them.",
        ),
        start_key(
            "send_files",
            "[]",
            Field::Texts(at!(send_files), "[\"storage/app/public\"]"),
            "More directories, besides `root`, whose files the site may send. A file there is sent if a symbolic link below `root` points to it, or if a response names it in the header `X-Sendfile`.",
        ),
        start_key(
            "access_log",
            "false",
            Field::Flag(at!(access_log)),
            "Log a line for each request.",
        ),
        start_key(
            "idempotent",
            "true",
            Field::Flag(at!(idempotent)),
            "Whether GET, HEAD and OPTIONS requests may be retried if their worker dies.",
        ),
        key(
            "timeout",
            "\"30s\"",
            time_above_zero(at!(service.core.timeout)),
            "Time in which a request must be answered, from the end of its body. For a response in parts: until the first part, and between two parts.",
        ),
        key(
            "weight",
            "1",
            number!(service.core.weight, 1..=1_000_000),
            "As for a queue.",
        ),
        key(
            "reserve",
            "0",
            number!(service.core.reserve, 0..=MAX_WORKERS),
            "As for a queue.",
        ),
        key(
            "keep",
            "0",
            number!(service.core.keep, 0..=MAX_WORKERS),
            "As for a queue.",
        ),
        key(
            "limit",
            "none",
            number!(service.core.limit, 1..=1_000_000),
            "As for a queue.",
        ),
        key(
            "max_waiting",
            "10_000",
            number!(service.core.max_waiting, 1..=100_000_000),
            "Maximum number of requests that wait for a worker. Above this limit, requests are answered with 503 and a `Retry-After` header.",
        ),
        key(
            "max_wait",
            "none",
            time(at!(service.core.max_wait)),
            "A request that is expected to wait longer than this is answered with 503 and a `Retry-After` header.",
        ),
    ],
};

const INDEX: Other<SiteConfig> = Other {
    kind: "string",
    read: |section, key, site, mistakes| {
        if let Some(index) = section.text(key, mistakes) {
            site.index = index;
        }
    },
    write: |site| Some(quote(&site.index)),
    copy: |from, to| to.index.clone_from(&from.index),
};
