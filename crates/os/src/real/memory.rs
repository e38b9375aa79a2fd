use super::Fd;
use crate::Errno;

/// Nine bytes that two processes share.
pub fn write_memory(memory: &Fd, bytes: &[u8; 9]) -> Result<(), Errno> {
    rustix::io::pwrite(memory, bytes, 0).map(drop)
}
