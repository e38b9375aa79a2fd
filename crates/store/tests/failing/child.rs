//! The process whose system calls fail. It is this test binary, started again to run another test.

use crate::ledger::Ledger;
use crate::user::StoreUser;
use crate::{new_store, query, script, sync, wal};
use std::path::PathBuf;
use stoker_testkit::failing::Place;

type Script = fn(&mut StoreUser);

/// The scripts that a child can run, by the name given in `FAILING_SCRIPT`.
const SCRIPTS: [(&str, Script); 12] = [
    ("live", script::use_store),
    ("fold", wal::checkpoints),
    ("left", wal::unclosed_store),
    ("made", new_store::new_store),
    ("switched", new_store::store_without_wal),
    ("looks fail", query::stat_fails),
    ("lost", query::lost),
    ("gone", query::journal_deleted),
    ("sync fails", sync::one_sync_fails),
    ("syncs fail", sync::all_later_syncs_fail),
    ("a change's syncs fail", sync::syncs_of_a_change_fail),
    ("server ends", sync::server_ends),
];

#[test]
#[ignore = "the other tests start it"]
fn child() {
    let name = std::env::var("FAILING_SCRIPT").expect("the other tests start it");
    let dir = PathBuf::from(std::env::var_os("FAILING_PLACE").unwrap());
    let place = Place(&dir);
    let mut user = StoreUser::new(&place.store(), &place.heal(), Ledger::reported());
    let (_, script) = SCRIPTS.iter().find(|(of, _)| *of == name).unwrap();
    script(&mut user);
}
