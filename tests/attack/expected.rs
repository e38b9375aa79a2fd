//! Cases whose defect is not fixed yet. They run and are printed, but do not fail the run.

use stoker_testkit::matches;

/// The number of the defect, and a pattern for the names of its cases (`*` matches anything).
const EXPECTED: &[(&str, &str)] = &[];

pub(crate) fn is_marked(issue: &str, case: &str) -> bool {
    let mut marks = EXPECTED.iter();
    marks.any(|(of, pattern)| *of == issue && matches(case, pattern))
}
