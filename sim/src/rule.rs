//! Finds the rule that a failed seed broke, so that seeds that broke the same rule are counted together.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{Location, PanicHookInfo};

thread_local! {
    /// Where this thread panicked last.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Stores the location of each panic instead of printing it. A run of many seeds prints a summary at its end.
pub(crate) fn capture_panics() {
    std::panic::set_hook(Box::new(|panic: &PanicHookInfo<'_>| {
        let place = panic.location().map(Location::to_string);
        PLACE.with(|last| *last.borrow_mut() = place.unwrap_or_default());
    }));
}

/// The message of a panic of this thread, and where it occurred.
pub(crate) fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let lines = text
        .unwrap_or("panic without a message")
        .lines()
        .map(str::trim);
    let place = PLACE.with(|last| last.borrow().clone());
    format!("{} ({place})", lines.collect::<Vec<&str>>().join("; "))
}

/// The message without the parts that differ between seeds: numbers, the two values of a comparison, and the state of a
/// job.
pub(crate) fn of(text: &str) -> String {
    let (head, place) = text.rsplit_once(" (").unwrap_or((text, ""));
    let head = head.split("; left: ").next().unwrap_or(head);
    let equal = head.strip_prefix("assertion `left == right` failed: ");
    let unequal = head.strip_prefix("assertion `left != right` failed: ");
    let head = equal.or(unequal).unwrap_or(head);
    let head = head.split(" {").next().unwrap_or(head);
    let head = head.trim_end_matches(':');
    // For assertions in the server's code, the location is kept, because their messages are often generic.
    let place = match place.find("crates/") {
        Some(at) => format!(" ({}", &place[at..]),
        None => String::new(),
    };
    without_numbers(&format!("{head}{place}"))
}

fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(letter),
        }
    }
    out
}

/// The rules that were broken, with the number of failures and the first seed of each. The most frequent one comes
/// first.
pub(crate) fn count(failed: &[(u64, String)]) -> Vec<(usize, u64, String)> {
    let mut rules: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for (seed, text) in failed {
        let (count, first) = rules.entry(of(text)).or_insert((0, *seed));
        (*count, *first) = (*count + 1, (*first).min(*seed));
    }
    let rules = rules.into_iter();
    let mut rules: Vec<_> = rules
        .map(|(rule, (count, first))| (count, first, rule))
        .collect();
    rules.sort_by_key(|(count, first, _)| (usize::MAX - count, *first));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_its_message_without_numbers_and_values() {
        let text = "assertion `left == right` failed: job 17: runs twice at once; left: Some(3); right: None \
                    (src/ledger.rs:107:9)";
        assert_eq!(of(text), "job #: runs twice at once");
        let with_job =
            "job 17: delivered after its end: {done, accepted, 2 runs} (src/ledger.rs:107:9)";
        assert_eq!(of(with_job), "job #: delivered after its end");
        let own = "index out of bounds: the len is 3 but the index is 4 (/x/crates/core/src/heap.rs:10:5)";
        assert_eq!(
            of(own),
            "index out of bounds: the len is # but the index is # (crates/core/src/heap.rs:#:#)"
        );
        let failed = [
            (4, "a 1".to_owned()),
            (2, "b".to_owned()),
            (9, "a 2".to_owned()),
        ];
        assert_eq!(
            count(&failed),
            [(2, 4, "a #".to_owned()), (1, 2, "b".to_owned())]
        );
    }
}
