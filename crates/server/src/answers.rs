//! Statistics of answer sizes, from which the size of the next answer to a method is estimated.

use crate::net::LARGE_BODY;
use stoker_core::NameId;

/// The number of answers that are remembered per name. Among so few, the 99th percentile is the largest.
const SIZES_PER_NAME: usize = 64;
/// Answers from this size on are expected, in bytes.
const LARGE_ANSWER: usize = stoker_os::limit(LARGE_BODY, 3);

/// The sizes of a name's last answers. Kept only for names that had a large one.
#[derive(Debug)]
struct Sizes {
    last: [u32; SIZES_PER_NAME],
    next: usize,
    largest: u32,
}

impl Sizes {
    fn record(&mut self, len: usize) {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let replaced = std::mem::replace(&mut self.last[self.next], len);
        self.next = (self.next + 1) % SIZES_PER_NAME;
        if len >= self.largest {
            self.largest = len;
        } else if replaced == self.largest {
            self.largest = self.last.iter().copied().max().unwrap_or(0);
        }
    }
}

/// The sizes of each name, by its id.
#[derive(Debug, Default)]
pub(crate) struct AnswerSizes(Vec<Option<Box<Sizes>>>);

impl AnswerSizes {
    /// The expected size of a large answer to a call of this name, in bytes; 0 if its recent answers were small.
    pub(crate) fn expected(&self, name: NameId) -> usize {
        let sizes = self.0.get(name.index()).and_then(Option::as_ref);
        let largest = sizes.map_or(0, |sizes| sizes.largest as usize);
        if largest < LARGE_ANSWER { 0 } else { largest }
    }

    pub(crate) fn record(&mut self, name: NameId, len: usize) {
        let sizes = self.0.get_mut(name.index()).and_then(Option::as_mut);
        match sizes {
            Some(sizes) => sizes.record(len),
            None if len < LARGE_ANSWER => {}
            None => self.add(name).record(len),
        }
    }

    fn add(&mut self, name: NameId) -> &mut Sizes {
        if self.0.len() <= name.index() {
            self.0.resize_with(name.index() + 1, || None);
        }
        self.0[name.index()].get_or_insert_with(|| {
            Box::new(Sizes {
                last: [0; SIZES_PER_NAME],
                next: 0,
                largest: 0,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_the_last_answers_is_expected() {
        let (mut sizes, name) = (AnswerSizes::default(), NameId(3));
        sizes.record(name, LARGE_BODY - 1);
        assert_eq!(sizes.expected(name), 0, "small ones need no room");
        sizes.record(name, 5 * LARGE_BODY);
        sizes.record(name, 2 * LARGE_BODY);
        assert_eq!(sizes.expected(name), 5 * LARGE_BODY);
        assert_eq!(sizes.expected(NameId(0)), 0);
        (0..SIZES_PER_NAME - 2).for_each(|_| sizes.record(name, 10));
        assert_eq!(sizes.expected(name), 5 * LARGE_BODY);
        sizes.record(name, 10);
        assert_eq!(
            sizes.expected(name),
            2 * LARGE_BODY,
            "it adapts to the latest answers"
        );
        sizes.record(name, 10);
        assert_eq!(sizes.expected(name), 0);
    }
}
