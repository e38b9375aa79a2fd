//! Alarms: checks that are scheduled for a certain time.

use std::collections::BTreeMap;
use stoker_core::Time;

/// The key of an alarm that was set, with which it can be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AlarmKey(Time, u64);

/// The scheduled alarms; an `A` describes what to check.
#[derive(Debug)]
pub(crate) struct Alarms<A> {
    all: BTreeMap<AlarmKey, A>,
    count: u64,
}

impl<A> Default for Alarms<A> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            count: 0,
        }
    }
}

impl<A> Alarms<A> {
    pub(crate) fn set(&mut self, at: Time, alarm: A) -> AlarmKey {
        self.count += 1;
        let key = AlarmKey(at, self.count);
        self.all.insert(key, alarm);
        key
    }

    /// Cancels an alarm. Without this, every connection that comes and goes would leave an alarm behind.
    pub(crate) fn cancel(&mut self, key: AlarmKey) {
        self.all.remove(&key);
    }

    /// The time of the first alarm.
    pub(crate) fn next(&self) -> Option<Time> {
        self.all.first_key_value().map(|(key, _)| key.0)
    }

    /// Removes and returns the first alarm that is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<A> {
        let first = self.all.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_due_in_order_and_can_be_cancelled() {
        let mut alarms = Alarms::default();
        alarms.set(Time(30), 3);
        let second = alarms.set(Time(20), 2);
        alarms.set(Time(10), 1);
        alarms.set(Time(10), 4);
        alarms.cancel(second);
        assert_eq!(alarms.next(), Some(Time(10)));
        assert_eq!(alarms.pop_due(Time(9)), None);
        let due = [10, 10, 10, 30].map(|at| alarms.pop_due(Time(at)));
        assert_eq!(due, [Some(1), Some(4), None, Some(3)]);
        assert_eq!(alarms.next(), None);
    }
}
