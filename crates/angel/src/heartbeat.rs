//! The data plane's progress, in memory that the server writes and the angel reads.

use std::io;
use stoker_os::{Fd, new_memory, read_memory, share_memory, write_memory};

/// The activity of the server, by which the angel judges whether it is stuck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The server is not ready yet. Opening a large store may take long, so no progress is expected.
    #[default]
    Booting = 0,
    Serving = 1,
    /// The server finishes running tasks, for at most the longest `stop_grace`.
    Draining = 2,
    /// The server waits for the job store and for slow clients, and takes turns only in between.
    Closing = 3,
}

/// One reading: how many times the data plane has reported progress, and its stage at the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    pub count: u64,
    pub stage: Stage,
}

/// A counter in an anonymous file that both processes have open.
///
/// The server writes the counter a few times a minute, not in every turn, so a system call is cheap enough and
/// no memory has to be mapped. The angel reads the counter when it checks the server. Neither wakes the other.
#[derive(Debug)]
pub struct Heartbeat {
    memory: Fd,
}

impl Heartbeat {
    /// Creates the memory. Before the first report, it reads as a booting server.
    pub fn new() -> io::Result<Self> {
        let heartbeat = Self {
            memory: new_memory()?,
        };
        heartbeat.beat(Beat::default())?;
        Ok(heartbeat)
    }

    /// Wraps a descriptor of the memory that the other process created.
    pub fn of(memory: Fd) -> Self {
        Self { memory }
    }

    /// Reports progress.
    pub fn beat(&self, beat: Beat) -> io::Result<()> {
        let mut bytes = [0; 9];
        bytes[..8].copy_from_slice(&beat.count.to_ne_bytes());
        bytes[8] = beat.stage as u8;
        Ok(write_memory(&self.memory, &bytes)?)
    }

    /// Reads the last report.
    pub fn read(&self) -> io::Result<Beat> {
        let [count @ .., stage] = read_memory(&self.memory)?;
        Ok(Beat {
            count: u64::from_ne_bytes(count),
            stage: match stage {
                1 => Stage::Serving,
                2 => Stage::Draining,
                3 => Stage::Closing,
                _ => Stage::Booting,
            },
        })
    }

    /// Returns another descriptor of the memory, to be passed to the other process.
    pub fn share(&self) -> io::Result<Fd> {
        share_memory(&self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_descriptors_are_the_same_memory() {
        let angel = Heartbeat::new().unwrap();
        let server = Heartbeat::of(angel.share().unwrap());
        assert_eq!(angel.read().unwrap(), Beat::default());
        for (count, stage) in [
            (1, Stage::Serving),
            (u64::MAX, Stage::Draining),
            (3, Stage::Closing),
        ] {
            let beat = Beat { count, stage };
            server.beat(beat).unwrap();
            assert_eq!(angel.read().unwrap(), beat);
        }
    }
}
