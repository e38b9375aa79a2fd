//! Sizes of pools that operators have set. The angel keeps them for the next server.

use super::overrides::SettingRequests;
use crate::setup::Setup;
use serde_json::Value;
use std::collections::HashMap;

/// The size of a pool that an operator requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    OfFile,
    /// The minimum and maximum number of workers.
    Set(u64, u64),
}

/// The requests for the size of each pool, by the pool's number.
#[derive(Debug, Default)]
pub(crate) struct Sizes(HashMap<usize, SettingRequests<Size>>);

impl Sizes {
    /// A client requests a size. Returns the number of the request.
    pub(crate) fn requested(&mut self, pool: usize, client: usize) -> u64 {
        self.0.entry(pool).or_default().requested(client)
    }

    pub(crate) fn answered(&mut self, pool: usize, size: Size, number: u64, is_granted: bool) {
        self.0
            .entry(pool)
            .or_default()
            .answered(size, number, is_granted);
    }

    /// A reload may change the sizes, or Stoker as a whole has ended.
    pub(crate) fn forget(&mut self) {
        self.0.values_mut().for_each(SettingRequests::forget);
    }

    /// Checks the sizes that the angel passes on to the next server.
    pub(crate) fn check(&self, passed_on: &Value, setup: &Setup) {
        for (pool, requests) in &self.0 {
            let name = &setup.pools[*pool].name;
            let expected = match requests.applied() {
                Some(Size::Set(min, max)) => serde_json::json!([min, max]),
                Some(Size::OfFile) => Value::Null,
                None => continue,
            };
            let passed = &passed_on[name.as_str()];
            // A size that is that of the file is not passed on.
            assert!(
                *passed == expected || passed.is_null() && setup.may_have_size(*pool, &expected),
                "the size of pool {name} that an operator has set is lost: {passed}; left: {expected}"
            );
        }
    }
}
