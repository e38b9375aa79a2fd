//! Sessions that ended in the middle of a task, to recognize the answers that come too late.

use std::collections::VecDeque;

/// The number of sessions that are remembered.
const MAX_EXPIRED: usize = 1_000;

/// Expired sessions with the ids of their unanswered tasks, the latest last.
#[derive(Default)]
pub struct ExpiredSessions(VecDeque<(String, Vec<u32>)>);

impl ExpiredSessions {
    /// Remembers a session and its unanswered tasks.
    pub fn add(&mut self, id: &str, unanswered: Vec<u32>) {
        if self.0.len() >= MAX_EXPIRED {
            self.0.pop_front();
        }
        self.0.push_back((id.to_owned(), unanswered));
    }

    /// The number of answers of a reconnected worker that are too late, because its session has expired. `held` are the
    /// tasks that the worker has, or has answers to.
    #[must_use]
    pub fn late_answers(&self, id: &str, held: &[u32]) -> usize {
        let expired = self.0.iter().find(|(other, _)| other == id);
        expired.map_or(0, |(_, unanswered)| {
            held.iter().filter(|id| unanswered.contains(id)).count()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unanswered_tasks_of_the_same_session_are_late() {
        let mut expired = ExpiredSessions::default();
        expired.add("a", vec![1, 2]);
        expired.add("b", vec![3]);
        assert_eq!(expired.late_answers("a", &[2, 3, 4]), 1);
        assert_eq!(expired.late_answers("b", &[3]), 1);
        assert_eq!(expired.late_answers("c", &[1]), 0);
        for n in 0..MAX_EXPIRED {
            expired.add(&n.to_string(), vec![1]);
        }
        assert_eq!(expired.late_answers("b", &[3]), 0);
    }
}
