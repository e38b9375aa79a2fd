//! Answers in parts.

use crate::Worker;
use stoker_wire::{Codec, Encode, Flags, Key, Meta, MetaBuf, Status, Type};

/// The size of the parts of a large answer.
const PART: usize = 16 << 10;

impl Worker {
    /// The first part. In an answer to an HTTP request, `|` stands for the end of a line.
    pub(crate) fn first_part(&mut self, text: &str) {
        let Some((task, _)) = &self.task else { return };
        let (id, codec) = (task.id, task.code);
        let meta = Meta::parse(&task.meta).unwrap_or_default();
        self.credit = meta.uint(Key::CREDIT).unwrap_or(0) as usize;
        let text = match Codec(codec) == Codec::HTTP {
            true => text.replace('|', "\r\n"),
            false => text.to_owned(),
        };
        self.credit = self.credit.saturating_sub(text.len());
        self.send(Encode {
            flags: Flags::MORE,
            prio: codec,
            body: text.as_bytes(),
            ..Encode::new(Type::Res, id)
        });
    }

    pub(crate) fn next_part(&mut self, bytes: &[u8]) {
        let Some((task, _)) = &self.task else { return };
        let id = task.id;
        self.credit = self.credit.saturating_sub(bytes.len());
        self.send(Encode {
            flags: Flags::MORE,
            body: bytes,
            ..Encode::new(Type::Data, id)
        });
    }

    /// `last-part CODE TEXT`. A trailer comes with it.
    pub(crate) fn last_part(&mut self, argument: &str) {
        let Some((task, _)) = self.task.take() else {
            return;
        };
        let (code, text) = argument.split_once(' ').unwrap_or((argument, ""));
        let mut meta = MetaBuf::new();
        meta.push(Key::TRAILERS, b"x-sum: 42\r\n");
        self.send(Encode {
            code: code.parse().unwrap_or(Status::OK.0),
            meta: meta.as_meta(),
            body: text.as_bytes(),
            ..Encode::new(Type::Data, task.id)
        });
    }

    /// Sends as many bytes as the caller's credit permits, and stops at CANCEL.
    pub(crate) fn stream(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let now = bytes.min(PART).min(self.credit);
            if now == 0 {
                match self.receive() {
                    Some(got) if got.kind == Type::Credit => self.credit += got.ttl as usize,
                    Some(got) if got.kind == Type::Cancel => return self.last_part("1 cancelled"),
                    Some(got) => self.set_aside.push_back(got),
                    None => return,
                }
                continue;
            }
            self.next_part(&vec![b's'; now]);
            bytes -= now;
        }
    }
}
