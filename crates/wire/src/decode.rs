//! Bytes to frames.

use crate::{
    COUNTED_HEADER, EventKind, Flags, Frame, HEADER, MAX_FRAME, Meta, Type, WireError, check_name,
};

/// Reads the first frame of `bytes`. `Ok(None)` when it is not whole yet; otherwise the frame and the
/// bytes it took. `max` bounds the length field; above [`MAX_FRAME`] it
/// counts as that.
pub fn parse(bytes: &[u8], max: usize) -> Result<Option<(Frame<'_>, usize)>, WireError> {
    let Some(size) = size_of_first(bytes, max)? else {
        return Ok(None);
    };
    let (Some(header), true) = (bytes.first_chunk::<HEADER>(), bytes.len() >= size) else {
        return Ok(None);
    };
    let meta_len = usize::from(u16::from_be_bytes([header[16], header[17]]));
    let name_len = usize::from(header[18]);
    let content = &bytes[HEADER..size];
    if name_len + meta_len > content.len() {
        let len = size - 4;
        return Err(WireError::Overrun {
            len,
            name: name_len,
            meta: meta_len,
        });
    }
    let (name, rest) = content.split_at(name_len);
    let (meta, body) = rest.split_at(meta_len);
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
            no_name(name)?
        },
        meta: Meta::parse(meta)?,
        body,
    };
    check_fields(&frame)?;
    Ok(Some((frame, size)))
}

/// The whole size of the first frame, as soon as its length field is there. Known early so that a
/// receiver refuses an oversized frame before it stores any of it.
fn size_of_first(bytes: &[u8], max: usize) -> Result<Option<usize>, WireError> {
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

fn no_name(name: &[u8]) -> Result<&'static str, WireError> {
    if name.is_empty() {
        Ok("")
    } else {
        Err(WireError::BadName)
    }
}

/// Checks what holds for single fields: no reserved flag, an id where one belongs, and 0 in the
/// bytes that mean nothing on this type, so that a later version is free to give them a meaning.
fn check_fields(frame: &Frame<'_>) -> Result<(), WireError> {
    if frame.flags.0 & Flags::RESERVED != 0 {
        return Err(WireError::ReservedFlags(frame.flags.0 & Flags::RESERVED));
    }
    let of_task = matches!(frame.kind, Type::Req | Type::Cancel | Type::Started);
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
    let log = frame.kind == Type::Event && EventKind(frame.code) == EventKind::LOG;
    let has_code = matches!(frame.kind, Type::Req | Type::Res | Type::Event);
    let has_prio = matches!(frame.kind, Type::Req | Type::Res) || log;
    if (frame.code != 0 && !has_code)
        || (frame.prio != 0 && !has_prio)
        || (frame.attempt != 0 && frame.kind != Type::Req)
    {
        return Err(WireError::NotZero);
    }
    Ok(())
}

/// Gathers bytes that arrive in any split and hands out whole frames.
///
/// It stores at most one unfinished frame. Its buffer is never larger than that frame, but for up to
/// [`Splitter::KEPT`] bytes that it keeps from earlier ones.
#[derive(Debug)]
pub struct Splitter {
    held: Vec<u8>,
    /// Bytes to come of a frame that is skipped.
    skips: usize,
    max: usize,
}

/// What the header of an unfinished frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    pub kind: Type,
    pub flags: Flags,
    pub id: u32,
}

impl Splitter {
    /// The most memory that it keeps when it holds nothing.
    pub const KEPT: usize = 4 * 1024;

    /// A splitter that refuses frames whose length field is above `max`.
    pub fn new(max: usize) -> Self {
        Self {
            held: Vec::new(),
            skips: 0,
            max,
        }
    }

    /// Takes `bytes` and calls `each` for every frame that is whole now, in order. Only a frame that
    /// arrives in parts is copied; all others are parsed in place. After an error the splitter is
    /// spent.
    pub fn feed<E: From<WireError>>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let skipped = self.skips.min(bytes.len());
        self.skips -= skipped;
        bytes = &bytes[skipped..];
        while !self.held.is_empty() {
            bytes = self.hold(bytes)?;
            if let Some((frame, _)) = parse(&self.held, self.max)? {
                each(frame)?;
                self.release();
            } else if bytes.is_empty() {
                return Ok(());
            }
        }
        while let Some((frame, size)) = parse(bytes, self.max)? {
            bytes = &bytes[size..];
            each(frame)?;
        }
        while !bytes.is_empty() {
            bytes = self.hold(bytes)?;
        }
        Ok(())
    }

    /// Gives up the unfinished frame, if its header is there: what was held of it is dropped, and so is the rest
    /// when it comes. The frames behind it are not touched.
    pub fn skip(&mut self) -> Option<Begun> {
        let (size, header) = (self.wanted()?, self.held.first_chunk::<HEADER>()?);
        let begun = Begun {
            kind: Type::from_byte(header[4])?,
            flags: Flags(header[5]),
            id: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
        };
        self.skips = size - self.held.len();
        self.held = Vec::new();
        Some(begun)
    }

    /// Bytes of an unfinished frame.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The whole size of the unfinished frame, once its length field is there.
    pub fn wanted(&self) -> Option<usize> {
        // An error was reported when the length field came.
        size_of_first(&self.held, self.max).ok().flatten()
    }

    /// Bytes of memory that the splitter owns.
    pub fn memory(&self) -> usize {
        self.held.capacity()
    }

    /// Moves over what the held frame lacks, or what its length field lacks where that is not known
    /// yet, and returns the rest. The buffer doubles, so that a frame is not copied again and again
    /// while it arrives, but only with bytes that came: an announced size reserves nothing.
    fn hold<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], WireError> {
        let size = size_of_first(&self.held, self.max)?.unwrap_or(4);
        let (more, rest) = bytes.split_at(bytes.len().min(size - self.held.len()));
        let needed = self.held.len() + more.len();
        if needed > self.held.capacity() {
            let doubled = needed.max(2 * self.held.capacity()).min(size);
            self.held.reserve_exact(doubled - self.held.len());
        }
        self.held.extend_from_slice(more);
        Ok(rest)
    }

    /// Gives back what is kept for the next frame, if none has begun.
    pub fn shrink(&mut self) {
        if self.held.is_empty() {
            self.held = Vec::new();
        }
    }

    /// Empties the buffer, and gives a large one back: most connections see a large frame once.
    fn release(&mut self) {
        self.held.clear();
        self.held.shrink_to(Self::KEPT);
    }
}
