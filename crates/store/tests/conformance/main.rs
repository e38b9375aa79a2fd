//! What holds for every engine. A test is a function of a [`World`]; it runs once for each engine.
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

/// Makes a test for every engine of each function.
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

/// What a push is answered that was accepted before as a job without an owner.
pub(crate) fn repeated(job: stoker_store::JobId) -> stoker_store::Pushed {
    stoker_store::Pushed::Repeated {
        holder: job.into(),
        same_body: true,
    }
}
