//! Jobs of several sources, in one order.

use super::Scan;
use super::filter::{Order, Source};
use crate::{Filter, JobId, View};
use rusqlite::Connection;
use std::collections::VecDeque;

/// Jobs of several sources, in order of their ids.
pub(in crate::sqlite) struct Merged {
    streams: Vec<Stream>,
    is_newest_first: bool,
    /// Rows that are read of a source at a time.
    page: usize,
    last: Option<JobId>,
}

pub(in crate::sqlite) enum Next {
    Job(Box<View>),
    /// Nothing was found among so many rows. It goes on from there.
    Later,
    Over,
}

/// One source, and what was read of it.
struct Stream {
    scan: Scan,
    read: VecDeque<View>,
}

impl Merged {
    pub(in crate::sqlite) fn new(
        sources: impl IntoIterator<Item = Source>,
        order: Order,
        page: usize,
    ) -> Self {
        let stream = |source| Stream {
            scan: Scan::new(source, order),
            read: VecDeque::new(),
        };
        Self {
            streams: sources.into_iter().map(stream).collect(),
            is_newest_first: order.is_newest_first(),
            page,
            last: None,
        }
    }

    /// The next job that a filter means. It is as it was when its page was read. Looks at so many pieces of
    /// sources at the most, of some thousand rows each.
    pub(in crate::sqlite) fn next(
        &mut self,
        db: &Connection,
        filter: &Filter,
        pieces: &mut usize,
    ) -> rusqlite::Result<Next> {
        loop {
            for stream in &mut self.streams {
                while stream.read.is_empty() && !stream.scan.is_over() {
                    if *pieces == 0 {
                        return Ok(Next::Later);
                    }
                    *pieces -= 1;
                    stream.read.extend(stream.scan.next(db, filter, self.page)?);
                }
            }
            let heads = self
                .streams
                .iter_mut()
                .filter(|stream| !stream.read.is_empty());
            let id = |stream: &&mut Stream| stream.read.front().map(|view| view.id);
            let first = match self.is_newest_first {
                true => heads.max_by_key(id),
                false => heads.min_by_key(id),
            };
            let Some(view) = first.and_then(|stream| stream.read.pop_front()) else {
                return Ok(Next::Over);
            };
            // One that ended meanwhile can be met in two places.
            if self.last.replace(view.id) != Some(view.id) {
                return Ok(Next::Job(Box::new(view)));
            }
        }
    }
}
