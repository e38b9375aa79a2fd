//! Jobs of several sources, in one order.

use super::Scan;
use super::filter::{Order, Source};
use crate::{Filter, JobId, View};
use rusqlite::Connection;
use std::collections::VecDeque;

/// The jobs of several sources, merged in order of their ids.
pub(in crate::sqlite) struct Merged {
    streams: Vec<Stream>,
    is_newest_first: bool,
    /// The number of rows that are read of a source at a time.
    page: usize,
    last: Option<JobId>,
}

pub(in crate::sqlite) enum Next {
    Job(Box<View>),
    /// No match was found within the given number of reads. The next call continues there.
    Later,
    Over,
}

/// One source, and the rows read from it that have not been returned.
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

    /// The next job that matches a filter, as it was when its page was read. Reads at most `reads_left` times from
    /// sources, each of some thousand rows.
    pub(in crate::sqlite) fn next(
        &mut self,
        db: &Connection,
        filter: &Filter,
        reads_left: &mut usize,
    ) -> rusqlite::Result<Next> {
        loop {
            for stream in &mut self.streams {
                while stream.read.is_empty() && !stream.scan.is_over() {
                    if *reads_left == 0 {
                        return Ok(Next::Later);
                    }
                    *reads_left -= 1;
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
            // A job that ended during the scan can be found in two sources.
            if self.last.replace(view.id) != Some(view.id) {
                return Ok(Next::Job(Box::new(view)));
            }
        }
    }
}
