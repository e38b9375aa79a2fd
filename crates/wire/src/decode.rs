use crate::{COUNTED_HEADER, Flags, Frame, HEADER, Meta, Type, WireError, check_name};

/// Reads the first frame of `bytes`. `Ok(None)` when it is not whole yet; otherwise the frame and the
/// bytes it took. `max` bounds the length field.
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
    check_ids(&frame)?;
    Ok(Some((frame, size)))
}

/// The whole size of the first frame, as soon as its length field is there. Known early so that a
/// receiver refuses an oversized frame before it stores any of it.
fn size_of_first(bytes: &[u8], max: usize) -> Result<Option<usize>, WireError> {
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

fn check_ids(frame: &Frame<'_>) -> Result<(), WireError> {
    if frame.flags.0 & Flags::RESERVED != 0 {
        return Err(WireError::ReservedFlags(frame.flags.0 & Flags::RESERVED));
    }
    let of_task = matches!(frame.kind, Type::Req | Type::Cancel | Type::Started);
    let of_connection = matches!(frame.kind, Type::Hello | Type::Welcome | Type::Goaway);
    if (of_task && frame.id == 0) || (of_connection && frame.id != 0) {
        return Err(WireError::BadId);
    }
    Ok(())
}

/// Gathers bytes that arrive in any split and hands out whole frames.
///
/// It stores at most one frame of `max` bytes plus what one `feed` brought.
#[derive(Debug)]
pub struct Splitter {
    held: Vec<u8>,
    max: usize,
}

impl Splitter {
    /// A splitter that refuses frames whose length field is above `max`.
    pub fn new(max: usize) -> Self {
        Self {
            held: Vec::new(),
            max,
        }
    }

    /// Takes `bytes` and calls `each` for every frame that is whole now, in order. Frames are parsed in
    /// place when nothing is held over, which is the usual case. After an error the splitter is spent.
    pub fn feed<E: From<WireError>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.held.is_empty() {
            let used = drain(bytes, self.max, &mut each)?;
            self.hold(&bytes[used..]);
            return Ok(());
        }
        self.held.extend_from_slice(bytes);
        let used = drain(&self.held, self.max, &mut each)?;
        self.held.drain(..used);
        self.shrink();
        Ok(())
    }

    /// Bytes of an unfinished frame.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Keeps the beginning of an unfinished frame, with room for all of it so that a large frame is
    /// not copied again and again while it arrives.
    fn hold(&mut self, rest: &[u8]) {
        if let Ok(Some(size)) = size_of_first(rest, self.max) {
            self.held.reserve_exact(size.min(rest.len() + 64 * 1024));
        }
        self.held.extend_from_slice(rest);
    }

    fn shrink(&mut self) {
        if self.held.is_empty() && self.held.capacity() > 64 * 1024 {
            self.held = Vec::new();
        }
    }
}

fn drain<E: From<WireError>>(
    bytes: &[u8],
    max: usize,
    each: &mut impl FnMut(Frame<'_>) -> Result<(), E>,
) -> Result<usize, E> {
    let mut used = 0;
    while let Some((frame, size)) = parse(&bytes[used..], max)? {
        used += size;
        each(frame)?;
    }
    Ok(used)
}
