//! A line of an export: a job that can be imported is valid, and is exported as the same job.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoker_api::job::ExportedJob;
use stoker_wire::{Meta, check_name};

fuzz_target!(|line: &[u8]| {
    let Ok(job) = ExportedJob::parse(line) else {
        return;
    };
    assert!(check_name(job.queue.0.as_bytes()).is_ok());
    assert!(job.key().len() <= 200 && job.idempotency().len() <= 200);
    assert!(Meta::parse(job.meta()).is_ok_and(|meta| meta.iter().all(|(key, _)| !key.is_for_server())));
    let json = serde_json::to_vec(&job).expect("JSON");
    assert_eq!(ExportedJob::parse(&json), Ok(job));
});
