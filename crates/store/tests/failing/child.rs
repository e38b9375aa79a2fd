//! The process whose system calls fail. It is this test binary, started again to run another test.

use crate::hand::Hand;
use crate::ledger::Ledger;
use crate::{fold, made, query, script, sync};
use std::path::PathBuf;
use stoker_testkit::failing::Place;

type Script = fn(&mut Hand);

/// The scripts that a child can run, by the name given in `FAILING_SCRIPT`.
const SCRIPTS: [(&str, Script); 12] = [
    ("live", script::live),
    ("fold", fold::fold),
    ("left", fold::left),
    ("made", made::made),
    ("switched", made::switched),
    ("looks fail", query::looks_fail),
    ("lost", query::lost),
    ("gone", query::gone),
    ("sync fails", sync::once),
    ("syncs fail", sync::and_on),
    ("a change's syncs fail", sync::of_a_change),
    ("server ends", sync::and_end),
];

#[test]
#[ignore = "the other tests start it"]
fn child() {
    let name = std::env::var("FAILING_SCRIPT").expect("the other tests start it");
    let dir = PathBuf::from(std::env::var_os("FAILING_PLACE").unwrap());
    let place = Place(&dir);
    let mut hand = Hand::new(&place.store(), &place.heal(), Ledger::reported());
    let (_, script) = SCRIPTS.iter().find(|(of, _)| *of == name).unwrap();
    script(&mut hand);
}
