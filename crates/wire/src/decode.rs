//! Parses bytes into frames.

use crate::{
    COUNTED_HEADER, EventKind, Flags, Frame, HEADER, MAX_FRAME, Meta, Type, WireError, check_name,
};

/// Parses the first frame of `bytes` and returns it with the number of bytes it takes, or `Ok(None)` if the
/// frame is not complete yet. `max` bounds the length field; a `max` above [`MAX_FRAME`] is treated as
/// [`MAX_FRAME`].
pub fn parse(bytes: &[u8], max: usize) -> Result<Option<(Frame<'_>, usize)>, WireError> {
    let Some(size) = first_frame_size(bytes, max)? else {
        return Ok(None);
    };
    if bytes.len() < size {
        return Ok(None);
    }
    let Some((frame, head, body)) = parse_head(bytes, max)? else {
        return Ok(None);
    };
    let body = &bytes[head..head + body];
    Ok(Some((Frame { body, ..frame }, size)))
}

/// Parses everything of the first frame of `bytes` but its body: header, name and metadata. Returns the frame with an
/// empty body, the number of bytes before the body, and the length of the body; or `Ok(None)` if these bytes have not
/// arrived completely yet. For programs that pass frames on without storing their bodies.
pub fn parse_head(
    bytes: &[u8],
    max: usize,
) -> Result<Option<(Frame<'_>, usize, usize)>, WireError> {
    let Some(size) = first_frame_size(bytes, max)? else {
        return Ok(None);
    };
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let meta_len = usize::from(u16::from_be_bytes([header[16], header[17]]));
    let name_len = usize::from(header[18]);
    let head = HEADER + name_len + meta_len;
    if head > size {
        let len = size - 4;
        return Err(WireError::Overrun {
            len,
            name: name_len,
            meta: meta_len,
        });
    }
    if bytes.len() < head {
        return Ok(None);
    }
    let (name, meta) = bytes[HEADER..head].split_at(name_len);
    let frame = Frame {
        kind: Type::from_byte(header[4]).ok_or(WireError::UnknownType(header[4]))?,
        flags: Flags(header[5]),
        code: header[6],
        prio: header[7],
        id: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
        ttl: u32::from_be_bytes([header[12], header[13], header[14], header[15]]),
        attempt: header[19],
        name: if header[4] == Type::Req as u8 {
            check_name(name)?
        } else {
            require_empty_name(name)?
        },
        meta: Meta::parse(meta)?,
        body: &[],
    };
    check_fields(&frame)?;
    Ok(Some((frame, head, size - head)))
}

/// The total size of the first frame, or `None` before its length field has arrived. The size is checked this
/// early so that a receiver rejects an oversized frame before it stores any of it.
fn first_frame_size(bytes: &[u8], max: usize) -> Result<Option<usize>, WireError> {
    let max = max.min(MAX_FRAME);
    let Some(len) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes(*len) as usize;
    if len > max {
        return Err(WireError::TooLong { len, max });
    }
    if len < COUNTED_HEADER {
        return Err(WireError::TooShort { len });
    }
    Ok(Some(len + 4))
}

fn require_empty_name(name: &[u8]) -> Result<&'static str, WireError> {
    if name.is_empty() {
        Ok("")
    } else {
        Err(WireError::BadName)
    }
}

/// Checks each field: no reserved flag is set, the id is valid for the type, and bytes that have no meaning on
/// this type are 0, so that a later version can give them one.
fn check_fields(frame: &Frame<'_>) -> Result<(), WireError> {
    let may_continue = matches!(frame.kind, Type::Res | Type::Data);
    let reserved = match may_continue {
        true => Flags::RESERVED,
        false => Flags::RESERVED | Flags::MORE.0,
    };
    if frame.flags.0 & reserved != 0 {
        return Err(WireError::ReservedFlags(frame.flags.0 & reserved));
    }
    let has_more = frame.flags.has(Flags::MORE);
    let of_task = matches!(
        frame.kind,
        Type::Req | Type::Cancel | Type::Started | Type::Data | Type::Credit
    ) || has_more;
    let of_connection = matches!(
        frame.kind,
        Type::Hello | Type::Welcome | Type::Goaway | Type::Ready
    );
    if (of_task && frame.id == 0) || (of_connection && frame.id != 0) {
        return Err(WireError::BadId);
    }
    if frame.kind == Type::Ready && frame.ttl > 1 {
        return Err(WireError::BadReady(frame.ttl));
    }
    if frame.kind == Type::Credit && frame.ttl == 0 {
        return Err(WireError::NoCredit);
    }
    let log = frame.kind == Type::Event && EventKind(frame.code) == EventKind::LOG;
    let ends_answer = frame.kind == Type::Data && !has_more;
    let has_code = matches!(frame.kind, Type::Req | Type::Res | Type::Event) || ends_answer;
    let has_prio = matches!(frame.kind, Type::Req | Type::Res) || log;
    if (frame.code != 0 && !has_code)
        || (frame.prio != 0 && !has_prio)
        || (frame.attempt != 0 && frame.kind != Type::Req)
    {
        return Err(WireError::NotZero);
    }
    Ok(())
}

/// Collects bytes that arrive in arbitrary chunks and passes on complete frames.
///
/// The splitter stores at most one unfinished frame. Its buffer is never larger than that frame, except for up
/// to [`Splitter::MAX_SPARE_CAPACITY`] bytes kept from earlier frames.
#[derive(Debug)]
pub struct Splitter {
    buffered: Vec<u8>,
    /// Bytes still to arrive of a frame that is being skipped.
    to_skip: usize,
    max: usize,
}

/// The header fields of an unfinished frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    pub kind: Type,
    pub flags: Flags,
    pub id: u32,
}

impl Splitter {
    /// The maximum memory, in bytes, that an empty splitter keeps.
    pub const MAX_SPARE_CAPACITY: usize = 4 * 1024;

    /// A splitter that rejects frames whose length field is above `max`.
    pub fn new(max: usize) -> Self {
        Self {
            buffered: Vec::new(),
            to_skip: 0,
            max,
        }
    }

    /// Reads `bytes` and calls `each` for every frame that is now complete, in order. Only a frame that arrives
    /// in parts is copied; all others are parsed in place. After an error the splitter must not be used again.
    pub fn feed<E: From<WireError>>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let skipped = self.to_skip.min(bytes.len());
        self.to_skip -= skipped;
        bytes = &bytes[skipped..];
        while !self.buffered.is_empty() {
            bytes = self.buffer_missing(bytes)?;
            if let Some((frame, _)) = parse(&self.buffered, self.max)? {
                each(frame)?;
                self.reset_buffer();
            } else if bytes.is_empty() {
                return Ok(());
            }
        }
        while let Some((frame, size)) = parse(bytes, self.max)? {
            bytes = &bytes[size..];
            each(frame)?;
        }
        while !bytes.is_empty() {
            bytes = self.buffer_missing(bytes)?;
        }
        Ok(())
    }

    /// Skips the unfinished frame and returns its header fields, or returns `None` if the header has not
    /// arrived. The bytes stored so far are dropped, and the rest is ignored when it arrives. Later frames are
    /// not affected.
    pub fn skip(&mut self) -> Option<FrameHead> {
        let (size, header) = (self.frame_size()?, self.buffered.first_chunk::<HEADER>()?);
        let head = FrameHead {
            kind: Type::from_byte(header[4])?,
            flags: Flags(header[5]),
            id: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
        };
        self.to_skip = size - self.buffered.len();
        self.buffered = Vec::new();
        Some(head)
    }

    /// The number of bytes stored of an unfinished frame.
    pub fn buffered(&self) -> usize {
        self.buffered.len()
    }

    /// The total size of the unfinished frame, once its length field has arrived.
    pub fn frame_size(&self) -> Option<usize> {
        // An invalid length was already reported when the length field arrived.
        first_frame_size(&self.buffered, self.max).ok().flatten()
    }

    /// Bytes of memory that the splitter has allocated.
    pub fn memory(&self) -> usize {
        self.buffered.capacity()
    }

    /// Copies the bytes that the unfinished frame (or its length field) still lacks, and returns the rest. The
    /// buffer doubles, so that a frame is not copied again and again while it arrives, but it grows only for
    /// bytes that have arrived: an announced size reserves nothing.
    fn buffer_missing<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], WireError> {
        let size = first_frame_size(&self.buffered, self.max)?.unwrap_or(4);
        let (more, rest) = bytes.split_at(bytes.len().min(size - self.buffered.len()));
        let needed = self.buffered.len() + more.len();
        if needed > self.buffered.capacity() {
            let doubled = needed.max(2 * self.buffered.capacity()).min(size);
            self.buffered.reserve_exact(doubled - self.buffered.len());
        }
        self.buffered.extend_from_slice(more);
        Ok(rest)
    }

    /// Frees the memory kept for the next frame, unless that frame has begun.
    pub fn shrink(&mut self) {
        if self.buffered.is_empty() {
            self.buffered = Vec::new();
        }
    }

    /// Empties the buffer, and releases it if its capacity is above [`Self::MAX_SPARE_CAPACITY`] bytes, because most
    /// connections see a large frame only once.
    fn reset_buffer(&mut self) {
        // A large buffer is returned to the system. To shrink it would move it.
        match self.buffered.capacity() > Self::MAX_SPARE_CAPACITY {
            true => self.buffered = Vec::new(),
            false => self.buffered.clear(),
        }
    }
}
