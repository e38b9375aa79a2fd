//! The thread that looks, with a connection of its own: a long list never makes a commit wait.

use super::post::Post;
use crate::{Found, Look, Ticket, Told, Trouble};
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

pub(super) struct Question {
    pub(super) ticket: Ticket,
    pub(super) look: Look,
}

pub(super) struct Reader {
    pub(super) db: Connection,
    pub(super) post: Arc<Post>,
    pub(super) clock: crate::Clock,
}

impl Reader {
    /// Answers until nobody is left to ask.
    pub(super) fn run(self, questions: &Receiver<Question>) {
        while let Ok(Question { ticket, look }) = questions.recv() {
            let found = self
                .look(&look)
                .map_err(|error| Trouble::Io(error.to_string()));
            self.post.questions.fetch_sub(1, Ordering::Relaxed);
            self.post.tell(&mut vec![Told::Found { ticket, found }]);
        }
    }

    fn look(&self, look: &Look) -> rusqlite::Result<Found> {
        let _ = (look, &self.db, &self.clock);
        Ok(Found::Count(0))
    }
}
