//! HTTP requests: their script is the value of the header `x-script`.

use crate::Worker;
use stoker_wire::{Codec, Key, Meta, Status};

/// The script in a request.
pub(crate) fn script(message: &str) -> &str {
    let mut lines = message.split("\r\n");
    let script = lines.find_map(|line| line.strip_prefix("x-script: "));
    script.unwrap_or_default()
}

impl Worker {
    /// Answers with a status and a body, unless the request was answered already.
    pub(crate) fn answer_http(&mut self, status: &str, text: &str) {
        let message = format!("HTTP/1.1 {status} Text\r\ncontent-type: text/plain\r\n\r\n{text}");
        self.answer(Status::OK, Codec::HTTP, message.as_bytes());
    }

    /// Answers with the request, and the metadata that came with it.
    pub(crate) fn echo_http(&mut self) {
        let Some((task, _)) = &self.task else { return };
        let meta = Meta::parse(&task.meta).unwrap_or_default();
        let text = |key| meta.text(key).unwrap_or("-").to_owned();
        let known = [Key::CLIENT_ADDRESS, Key::SCRIPT, Key::DOCUMENT_ROOT].map(text);
        let body = format!("{}\n{}", known.join(" "), task.text());
        self.answer_http("200", &body);
    }

    /// Answers with the size of the file that holds the body, and what the message says about it.
    pub(crate) fn describe_body(&mut self) {
        let Some((task, _)) = &self.task else { return };
        let meta = Meta::parse(&task.meta).unwrap_or_default();
        let file = meta.text(Key::BODY_FILE).map(std::fs::metadata);
        let text = task.text();
        let (head, rest) = text.split_once("\r\n\r\n").unwrap_or_default();
        let length = head.lines().find(|line| line.starts_with("content-length"));
        let answer = match file {
            None => "no file".to_owned(),
            Some(file) => format!(
                "{} bytes, {}, then {} bytes",
                file.map_or(0, |file| file.len()),
                length.unwrap_or_default(),
                rest.len()
            ),
        };
        self.answer_http("200", &answer);
    }
}
