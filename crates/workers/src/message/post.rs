//! The request that a call or job becomes: a POST with the payload as its body.

use super::target::Target;
use super::{Field, Request, Variables};
use crate::adapter::{Task, attributes, encoded};
use stoker_wire::Key;

const USER_AGENT: &str = concat!("stoker/", env!("CARGO_PKG_VERSION"));
/// Placeholder in the path for the name of the queue or method.
const NAME_IN_PATH: &str = "{name}";
/// The trace context of W3C.
const TRACE: [(&str, Key); 3] = [
    ("traceparent", Key::TRACEPARENT),
    ("tracestate", Key::TRACESTATE),
    ("baggage", Key::BAGGAGE),
];

/// A request that is made of a task.
#[derive(Debug)]
pub(crate) struct Post {
    host: String,
    path: String,
    fields: Vec<(String, String)>,
}

impl Post {
    /// The request of a task to a path of a pool, on a host.
    pub(crate) fn new(task: &Task, path: &str, host: &str) -> Self {
        let path = if path.is_empty() { "/" } else { path };
        // A name may contain slashes. It is one segment of the path, so that it can't choose another resource.
        let name = task.name.replace('/', "%2F");
        let own = [
            ("host", host),
            ("user-agent", USER_AGENT),
            ("content-type", task.codec.content_type()),
        ];
        let mut fields: Vec<_> = own.map(|(name, value)| (name, value.to_owned())).into();
        let idempotency = task.meta().get(Key::IDEMPOTENCY);
        fields.extend(idempotency.map(|key| ("idempotency-key", encoded(key))));
        for (name, key) in TRACE {
            let text = task.text(key).filter(|text| is_printable(text));
            fields.extend(text.map(|text| (name, text.to_owned())));
        }
        let fields = fields.into_iter();
        Self {
            host: host.to_owned(),
            path: path.replace(NAME_IN_PATH, &name),
            fields: fields
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        }
    }

    /// Adds what is known about the task as headers.
    pub(crate) fn with_attributes(mut self, task: &Task) -> Self {
        let attributes = attributes(task).into_iter();
        let attributes = attributes.filter(|attribute| !attribute.value.is_empty());
        self.fields
            .extend(attributes.map(|attribute| (attribute.header(), attribute.value)));
        self
    }

    pub(crate) fn request<'a>(&'a self, task: &'a Task) -> Request<'a> {
        let field = |(name, value): &'a (String, String)| Field {
            name,
            value: value.as_bytes(),
        };
        Request {
            target: Target {
                method: "POST",
                is_https: false,
                authority: &self.host,
                rest: self.path.as_bytes(),
                version: "HTTP/1.1",
            },
            fields: self.fields.iter().map(field).collect(),
            content_length: Some(task.body.len() as u64),
            body: &task.body,
        }
    }
}

/// Adds what is known about a task to the variables of its request.
pub(crate) fn add_facts(variables: &mut Variables, task: &Task) {
    let attributes = attributes(task).into_iter();
    variables
        .extend(attributes.map(|attribute| (attribute.variable(), attribute.value.into_bytes())));
}

fn is_printable(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::super::variables::{Places, variables};
    use super::*;
    use crate::adapter::task_of;
    use stoker_wire::{Codec, Encode, MetaBuf, Type};

    fn call(name: &str, meta: &MetaBuf) -> Task {
        task_of(Encode {
            code: Codec::JSON.0,
            name,
            ttl: 500,
            meta: meta.as_meta(),
            body: b"{}",
            ..Encode::new(Type::Req, 1)
        })
    }

    #[test]
    fn the_payload_is_the_body_and_headers_say_the_rest() {
        let mut meta = MetaBuf::new();
        meta.push(Key::IDEMPOTENCY, b"a b");
        meta.push(Key::TRACEPARENT, b"00-a-b-01");
        meta.push(Key::BAGGAGE, b"a=1\r\nevil: 1");
        meta.push(Key(0x80), b"x");
        let task = call("users.get", &meta);
        let post = Post::new(&task, "", "localhost").with_attributes(&task);
        let request = post.request(&task);
        assert_eq!(
            (request.body, request.content_length),
            (&b"{}"[..], Some(2))
        );
        assert_eq!(request.target.origin_form(), b"/");
        let text =
            |field: &Field<'_>| format!("{}: {}", field.name, String::from_utf8_lossy(field.value));
        let fields: Vec<String> = request.fields.iter().map(text).collect();
        let expected = [
            "host: localhost",
            concat!("user-agent: stoker/", env!("CARGO_PKG_VERSION")),
            "content-type: application/json",
            "idempotency-key: a%20b",
            "traceparent: 00-a-b-01",
            "stoker-name: users.get",
            "stoker-attempt: 0",
            "stoker-timeout: 500ms",
            "stoker-meta-128: x",
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn the_name_is_one_segment_of_the_path() {
        for (name, path, expected) in [
            ("a.b", "/tasks/{name}?x=1", "/tasks/a.b?x=1"),
            ("a/../b.c", "/tasks/{name}", "/tasks/a%2F..%2Fb.c"),
            ("a.b", "/tasks", "/tasks"),
        ] {
            let task = call(name, &MetaBuf::new());
            let post = Post::new(&task, path, "a");
            assert_eq!(post.path, expected);
        }
    }

    #[test]
    fn a_script_gets_variables_that_no_visitor_can_send() {
        let task = call("users.get", &MetaBuf::new());
        let post = Post::new(&task, "/tasks", "localhost");
        let places = Places {
            script: "/srv/tasks.php",
            root: None,
            client: None,
        };
        let mut all = variables(places, &post.request(&task), 2);
        add_facts(&mut all, &task);
        for (name, value) in [
            ("REQUEST_METHOD", "POST"),
            ("REQUEST_URI", "/tasks"),
            ("SCRIPT_FILENAME", "/srv/tasks.php"),
            ("SCRIPT_NAME", "/tasks.php"),
            ("CONTENT_TYPE", "application/json"),
            ("CONTENT_LENGTH", "2"),
            ("STOKER_NAME", "users.get"),
            ("STOKER_ID", ""),
            ("STOKER_ATTEMPT", "0"),
            ("STOKER_TIMEOUT", "500ms"),
        ] {
            assert_eq!(all[name], value.as_bytes(), "{name}");
        }
        assert!(!all.keys().any(|name| name.starts_with("HTTP_STOKER")));
    }
}
