//! `stoker.job`: finds, shows, changes, exports and imports jobs.

mod answers;
mod exported;
mod filter;
mod requests;
mod shown;
mod state;

pub use answers::{
    Changed, Counted, Details, Exports, Failure, Group, GroupList, HistoryLine, Job, Jobs, Progress,
};
pub use exported::{Bytes, ExportedJob, JobError, MAX_META, Options, Unique};
pub use filter::{After, Filter, Fingerprint, Page, Target, Which};
pub use requests::{
    Cancel, Count, Discard, Edit, Export, Groups, Import, List, MAX_IMPORTED, Move, Release, Retry,
    Show, Suspend,
};
pub use shown::{Shown, WholeJob};
pub use state::{Change, State};
