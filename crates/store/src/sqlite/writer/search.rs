//! The search for lanes with waiting jobs of which none is loaded.

use super::Writer;
use crate::{Lane, QueueNo, StoreEvent};
use rusqlite::{OptionalExtension, params};

const NEXT_LANE: &str = "SELECT class, key FROM jobs INDEXED BY waiting \
                         WHERE state = 0 AND queue = ?1 AND (class, key) > (?2, ?3) \
                         ORDER BY class, key LIMIT 1";

/// The maximum number of lanes that one slice examines. Lanes with loaded jobs are skipped, and there may be
/// many.
const SLICE: usize = stoker_os::limit(2_048, 2);

/// A search in progress. It goes once around a queue's lanes, starting where the previous search ended.
#[derive(Clone)]
pub(in crate::sqlite) struct Search {
    pub(super) queue: QueueNo,
    /// The requested number of lanes, and the requested number of jobs of each.
    lanes: usize,
    limit: usize,
    start: Option<Place>,
    at: Option<Place>,
    wrapped: bool,
}

/// The class and key of a lane.
type Place = (u8, Box<[u8]>);

enum Step {
    Unloaded(Place),
    /// The lane has loaded jobs or can't be read, or the search wrapped around.
    Skipped,
    Over,
}

impl Writer {
    pub(super) fn start_search(&mut self, queue: QueueNo, lanes: usize, limit: usize) {
        let start = self
            .queues
            .get(queue)
            .and_then(|queue| queue.search_after.clone());
        let at = start.clone();
        self.searches.push_back(Search {
            queue,
            lanes,
            limit,
            start,
            at,
            wrapped: false,
        });
    }

    /// Runs a slice of a search. Returns whether the search is over. A slice that found jobs ends the search
    /// early: the jobs count as loaded from now on, so they must be reported before any other event of their
    /// lanes.
    pub(super) fn search_slice(&mut self, search: &mut Search) -> rusqlite::Result<bool> {
        let (queue, mut lanes, mut steps) = (search.queue, Vec::new(), 0);
        let more = loop {
            match self.step(search) {
                Ok(Step::Over) => {
                    // All lanes have been visited, so the next search starts at the first one.
                    if lanes.len() < search.lanes {
                        self.set_next_lane(queue, None);
                    }
                    break false;
                }
                Ok(Step::Unloaded(_)) if lanes.len() == search.lanes => break true,
                Ok(Step::Unloaded((class, key))) => {
                    match self.load_next(queue, class, &key, search.limit) {
                        Ok((jobs, more)) => {
                            self.set_next_lane(queue, Some((class, key.clone())));
                            lanes.push(Lane {
                                class,
                                key,
                                jobs,
                                more,
                            });
                        }
                        Err(error) if self.defer_lane(queue, class, key, &error) => {}
                        Err(error) if lanes.is_empty() => return Err(error),
                        Err(_) => break true,
                    }
                }
                Ok(Step::Skipped) => {}
                Err(error) if lanes.is_empty() => return Err(error),
                Err(_) => break true,
            }
            steps += 1;
            if steps >= SLICE {
                if lanes.is_empty() {
                    return Ok(false);
                }
                break true;
            }
        };
        self.events
            .push(StoreEvent::RefilledLanes { queue, lanes, more });
        Ok(true)
    }

    fn set_next_lane(&mut self, queue: QueueNo, lane: Option<Place>) {
        if let Some(of_queue) = self.queues.get_mut(queue) {
            of_queue.search_after = lane;
        }
    }

    /// Moves to the next lane with ready jobs.
    fn step(&mut self, search: &mut Search) -> rusqlite::Result<Step> {
        let ready = self
            .queues
            .get(search.queue)
            .map_or(0, |queue| queue.tally.counts.ready);
        if ready <= self.lanes.loaded_ready(search.queue) {
            return Ok(Step::Over);
        }
        let Some(lane) = self.next_lane(search.queue, search.at.as_ref())? else {
            if std::mem::replace(&mut search.wrapped, true) || search.start.is_none() {
                return Ok(Step::Over);
            }
            search.at = None;
            return Ok(Step::Skipped);
        };
        if search.wrapped && search.start.as_ref().is_some_and(|start| lane > *start) {
            return Ok(Step::Over);
        }
        search.at = Some(lane.clone());
        let is_loaded = self.lanes.get(search.queue, lane.0, &lane.1).is_some();
        Ok(match is_loaded || self.is_deferred(search.queue, &lane) {
            true => Step::Skipped,
            false => Step::Unloaded(lane),
        })
    }

    /// The first lane with ready jobs after `after`. Takes one index lookup, however many jobs there are.
    fn next_lane(&self, queue: QueueNo, after: Option<&Place>) -> rusqlite::Result<Option<Place>> {
        let (class, key) =
            after.map_or((-1, [].as_slice()), |(class, key)| (i64::from(*class), key));
        let mut next = self.db.prepare_cached(NEXT_LANE)?;
        let lane = next.query_row(params![queue.0, class, key], |row| {
            Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?.into_boxed_slice()))
        });
        lane.optional()
    }
}
