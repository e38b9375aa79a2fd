//! `stoker.job`: operations on jobs. The store answers most of these requests later.

mod change;
mod export;
mod filter;
mod find;
mod found;
mod import;
mod running;

use super::Caller;
use crate::plane::Plane;
use crate::sources::jobs::{OperatorReply, Waiter};
use stoker_store::Ticket;

impl Plane {
    /// A ticket for an answer of the store that an operator waits for.
    fn create_admin_ticket(&mut self, caller: Caller, what: OperatorReply) -> Ticket {
        let (conn, id) = (caller.reply_conn(), caller.id);
        self.jobs.create_ticket(Waiter::Admin { conn, id, what })
    }
}
