//! The body of a request: bytes of the message, or a file.

use super::{Invalid, Request};
use crate::adapter::Task;
use std::fs::File;
use std::io::{self, Read};
use stoker_wire::Key;

/// How much of a body is read at once, in bytes.
const READ_SIZE: u64 = 60 << 10;

/// The body of a request, and how much of it is left.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    Bytes(&'a [u8]),
    File { file: File, len: u64 },
}

impl<'a> Body<'a> {
    /// The body of a task's request.
    pub(crate) fn of(task: &Task, request: &Request<'a>) -> Result<Self, Invalid> {
        let Some(path) = task.text(Key::BODY_FILE) else {
            let stated = request.content_length.unwrap_or(0);
            return match stated == request.body.len() as u64 {
                true => Ok(Self::Bytes(request.body)),
                false => Err(Invalid(format!("its body has 0 of {stated} bytes"))),
            };
        };
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (len, file) = opened.map_err(|error| {
            Invalid(format!(
                "the file with its body ({path}) can't be read: {error}"
            ))
        })?;
        if request.content_length != Some(len) || !request.body.is_empty() {
            return Err(Invalid(format!(
                "its content-length does not match the file with its body ({path}, {len} bytes)"
            )));
        }
        Ok(Self::File { file, len })
    }

    /// How many bytes are left.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { len, .. } => *len,
        }
    }

    /// The next bytes; none at the end.
    pub(crate) fn next(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Bytes(bytes) => {
                let (now, later) = bytes.split_at(bytes.len().min(READ_SIZE as usize));
                *bytes = later;
                Ok(now.to_vec())
            }
            Self::File { file, len } => {
                let mut piece = vec![0; (*len).min(READ_SIZE) as usize];
                file.read_exact(&mut piece)?;
                *len -= piece.len() as u64;
                Ok(piece)
            }
        }
    }
}
