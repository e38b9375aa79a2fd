//! Sessions that ended in the middle of a task, to recognize the answers that come too late.

use std::collections::VecDeque;

/// The number of sessions that are remembered.
const MAX_EXPIRED: usize = 1_000;

/// Expired sessions with the ids of their unanswered tasks, the latest last.
#[derive(Default)]
pub struct ExpiredSessions(VecDeque<(String, Vec<u32>)>);

impl ExpiredSessions {
    /// Remembers a session and its unanswered tasks, if there are any.
    pub fn add(&mut self, id: &str, unanswered: Vec<u32>) {
        if unanswered.is_empty() {
            return;
        }
        if self.0.len() >= MAX_EXPIRED {
            self.0.pop_front();
        }
        self.0.push_back((id.to_owned(), unanswered));
    }

    /// The number of answers of a reconnected worker that are too late, because its session has ended. `held` are the
    /// tasks that the worker has, or has answers to. Each of them counts once, however often the worker reconnects.
    #[must_use]
    pub fn take_late_answers(&mut self, id: &str, held: &[u32]) -> usize {
        let mut expired = self.0.iter_mut();
        let Some((_, unanswered)) = expired.find(|(other, _)| other == id) else {
            return 0;
        };
        let before = unanswered.len();
        unanswered.retain(|id| !held.contains(id));
        before - unanswered.len()
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
        assert_eq!(expired.take_late_answers("a", &[2, 3, 4]), 1);
        assert_eq!(expired.take_late_answers("b", &[3, 3]), 1);
        assert_eq!(expired.take_late_answers("c", &[1]), 0);
        expired.add("b", vec![3]);
        for n in 0..MAX_EXPIRED {
            expired.add(&n.to_string(), vec![1]);
        }
        assert_eq!(expired.take_late_answers("b", &[3]), 0);
    }

    /// A worker that is rejected for another reason, and so reconnects again, does not have more late answers.
    #[test]
    fn a_late_answer_counts_once() {
        let mut expired = ExpiredSessions::default();
        expired.add("a", vec![1, 2]);
        assert_eq!(expired.take_late_answers("a", &[2]), 1);
        assert_eq!(expired.take_late_answers("a", &[1, 2]), 1);
        assert_eq!(expired.take_late_answers("a", &[1, 2]), 0);
    }
}
