//! The process whose calls fail. It is this test's own program, started with another test of it.

use crate::hand::Hand;
use crate::ledger::Ledger;
use crate::shim::Place;
use crate::{fold, script, sync};
use std::path::PathBuf;

type Script = fn(&mut Hand);

/// What a child is to do, by the name that it is given in `FAILING_SCRIPT`.
const SCRIPTS: [(&str, Script); 6] = [
    ("live", script::live),
    ("fold", fold::fold),
    ("left", fold::left),
    ("sync fails", sync::once),
    ("syncs fail", sync::and_on),
    ("server ends", sync::and_end),
];

#[test]
#[ignore = "the other tests start it"]
fn child() {
    let name = std::env::var("FAILING_SCRIPT").expect("the other tests start it");
    let dir = PathBuf::from(std::env::var_os("FAILING_PLACE").unwrap());
    let place = Place(&dir);
    let mut hand = Hand::new(&place.store(), &place.heal(), Ledger::told());
    let (_, script) = SCRIPTS.iter().find(|(of, _)| *of == name).unwrap();
    script(&mut hand);
}
