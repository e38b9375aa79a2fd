//! Tests that every engine must pass. A test is a function of a [`World`] and runs once for each engine.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod changes;
mod ending;
mod found;
mod handing;
mod keys;
mod looking;
mod model;
mod owner;
mod retrying;
mod surviving;
mod timing;
#[path = "../support/world.rs"]
mod world;

/// Creates a test for every engine from each function.
macro_rules! every_engine {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $name() { super::$name(&mut crate::world::World::memory()); })*
        }
        mod sqlite {
            $(#[test] fn $name() { super::$name(&mut crate::world::World::sqlite()); })*
        }
    };
}
pub(crate) use every_engine;

/// The answer to a repeated push of a job without an owner.
pub(crate) fn repeated(job: stoker_store::JobId) -> stoker_store::Pushed {
    stoker_store::Pushed::Repeated {
        holder: job.into(),
        same_body: true,
    }
}
