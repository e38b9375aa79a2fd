//! Requests and responses as messages of the codec `http`.

use crate::php::scripts;
use serde_json::Value;
use stoker_wire::{Key, MetaBuf, Status};

/// A request to a script.
pub(crate) struct Request {
    method: &'static str,
    /// Name of the script, with the query.
    target: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    is_idempotent: bool,
    meta: Vec<(Key, String)>,
    /// With it, the answer may come in parts.
    credit: Option<u32>,
}

impl Request {
    /// A GET request to a script, such as `echo.php?x=1`.
    pub(crate) fn get(target: &str) -> Self {
        let file = target.split(['?', '/']).next().unwrap_or_default();
        let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
        Self {
            method: "GET",
            target: target.to_owned(),
            fields: vec![("host".to_owned(), "shop.test:8443".to_owned())],
            body: Vec::new(),
            is_idempotent: true,
            meta: vec![
                (Key::SCRIPT, text(scripts().join(file))),
                (Key::DOCUMENT_ROOT, text(scripts())),
                (Key::CLIENT_ADDRESS, "203.0.113.7:51234".to_owned()),
            ],
            credit: None,
        }
    }

    pub(crate) fn post(target: &str, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let length = body.len().to_string();
        Self {
            body,
            is_idempotent: false,
            ..Self::get(target)
        }
        .method("POST")
        .field("content-length", &length)
    }

    pub(crate) fn method(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    pub(crate) fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets a key of the metadata, or removes it.
    pub(crate) fn meta(mut self, key: Key, value: Option<&str>) -> Self {
        self.meta.retain(|(other, _)| *other != key);
        self.meta.extend(value.map(|value| (key, value.to_owned())));
        self
    }

    /// Accepts an answer in parts, so many bytes of it at first.
    pub(crate) fn credit(self, bytes: u32) -> Self {
        Self {
            credit: Some(bytes),
            ..self
        }
    }

    pub(crate) fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    pub(crate) fn metadata(&self) -> MetaBuf {
        let mut meta = MetaBuf::new();
        for (key, value) in &self.meta {
            meta.push(*key, value.as_bytes());
        }
        if let Some(credit) = self.credit {
            meta.push(Key::CREDIT, &credit.to_be_bytes());
        }
        meta
    }

    pub(crate) fn message(&self) -> Vec<u8> {
        let mut text = format!(
            "{} https://shop.test:8443/{} HTTP/2\r\n",
            self.method, self.target
        );
        for (name, value) in &self.fields {
            text += &format!("{name}: {value}\r\n");
        }
        [text.as_bytes(), b"\r\n", &self.body].concat()
    }
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    /// How the task ended.
    pub(crate) status: Status,
    /// The signal that ended the process.
    pub(crate) signal: Option<u64>,
    /// The whole body of the answer: a message if the status is OK.
    pub(crate) bytes: Vec<u8>,
    /// What the task wrote to the log.
    pub(crate) log: String,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The status code of the response.
    #[track_caller]
    pub(crate) fn code(&self) -> u16 {
        assert_eq!(self.status, Status::OK, "{}", self.text());
        let line = self.head().lines().next().unwrap_or_default().to_owned();
        let code = line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3));
        code.and_then(|code| code.parse().ok())
            .unwrap_or_else(|| panic!("{line}"))
    }

    /// The values of all fields with this name.
    #[track_caller]
    pub(crate) fn fields(&self, name: &str) -> Vec<String> {
        let head = self.head();
        let fields = head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "));
        let named = fields.filter(|(other, _)| *other == name);
        named.map(|(_, value)| value.to_owned()).collect()
    }

    #[track_caller]
    pub(crate) fn body(&self) -> &[u8] {
        assert_eq!(self.status, Status::OK, "{}", self.text());
        &self.bytes[self.end_of_head()..]
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code(), 200, "{}", self.text());
        serde_json::from_slice(self.body())
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    fn head(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..self.end_of_head()]).into_owned()
    }

    fn end_of_head(&self) -> usize {
        let end = self.bytes.windows(4).position(|four| four == b"\r\n\r\n");
        end.unwrap_or_else(|| panic!("no head: {}", self.text())) + 4
    }
}
