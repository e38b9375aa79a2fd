//! How jobs end, what is counted, and what is kept.

use crate::world::{World, job};
use stoker_store::{
    Bytes, Change, Counts, Ending, Filter, HistoryKind, Job, NewJob, Options, QueueNo, QueuePolicy,
    RunCounters, Selection, State, StoreRequest, Trouble,
};

crate::every_engine! {
    done,
    many_jobs_are_pushed_and_ended_together,
    done_after_a_failed_run,
    failed,
    cancelled,
    every_state_is_counted,
    a_second_end_is_ignored,
    a_result_is_kept_until_it_expires,
    the_output_of_the_last_run_with_output_is_kept,
    a_done_job_may_keep_its_payload,
    the_oldest_jobs_above_the_limit_are_deleted,
    jobs_are_deleted_in_the_order_of_their_ends,
    old_jobs_are_deleted,
    a_job_that_ended_twice_is_kept_from_its_second_end,
    failed_jobs_have_their_own_retention,
    a_deleted_job_leaves_no_data,
    a_result_outlives_its_job,
    a_retention_of_zero_keeps_nothing,
    progress_is_stored,
    history_after_the_end_is_kept,
    output_after_the_end_is_kept,
}

fn done(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    world.advance(50);
    let counters = RunCounters {
        attempt: 1,
        exceptions: 0,
        crashes: 0,
        ran_us: 1_234,
    };
    world.end_run(id, counters, Ending::Done { result: None });
    let view = world.view(id).unwrap();
    assert_eq!(
        (view.state, view.counters, view.error.clone()),
        (State::Done, counters, None)
    );
    assert_eq!(
        (view.created_ms, view.ended_ms),
        (world.now() - 50, Some(world.now()))
    );
    let whole = view.whole.unwrap();
    assert_eq!(
        (whole.body, whole.result, whole.history.len()),
        (None, None, 0)
    );
}

// Engines may handle many jobs at once. Each job keeps its own data.
fn many_jobs_are_pushed_and_ended_together(world: &mut World) {
    let queue = world.queue("mails");
    for number in 0..75_u8 {
        let ticket = world.ticket();
        let owner = (number % 2 == 0).then(|| format!("uid:{number}").into());
        let job = Box::new(NewJob {
            bytes: [b'm', number].into(),
            meta_len: usize::from(number % 3 == 0),
            codec: number % 4,
            owner,
            ..job(queue)
        });
        let room = false;
        world.send(StoreRequest::Push { ticket, room, job });
    }
    let (jobs, _) = world.refill_jobs(queue, 0, b"", 100);
    let numbers: Vec<u8> = jobs.iter().map(|job| job.bytes[1]).collect();
    assert_eq!(numbers, (0..75).collect::<Vec<u8>>());
    let run_of = |number: u8| RunCounters {
        attempt: 1 + u16::from(number),
        exceptions: number.into(),
        crashes: number % 3,
        ran_us: 1_000 + u64::from(number),
    };
    for job in &jobs {
        let ticket = world.ticket();
        world.send(StoreRequest::End {
            job: job.id,
            counters: run_of(job.bytes[1]),
            ending: Ending::Done { result: None },
            ticket: Some(ticket),
            output: None,
        });
    }
    world.settle();
    for job in jobs {
        let number = job.bytes[1];
        assert_eq!(job.meta_len, usize::from(number % 3 == 0));
        assert_eq!(job.codec, number % 4);
        let view = world.view(job.id).unwrap();
        assert_eq!((view.state, view.counters), (State::Done, run_of(number)));
        let owner = (number % 2 == 0).then(|| format!("uid:{number}").into());
        assert_eq!(view.owner, owner);
    }
    let counts = world.counts(queue);
    assert_eq!((counts.ready, counts.done), (0, 75));
}

fn done_after_a_failed_run(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    world.retry(id, world.now(), true);
    world.done(id);
    let view = world.view(id).unwrap();
    assert_eq!(
        (view.state, view.error.unwrap().message.as_str()),
        (State::Done, "not now")
    );
    assert_eq!(view.whole.unwrap().history.len(), 1);
}

fn failed(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    let error = world.error("boom\nsecond line");
    let counters = RunCounters {
        attempt: 3,
        exceptions: 3,
        crashes: 1,
        ran_us: 9,
    };
    world.end_run(id, counters, Ending::Failed(error.clone()));
    let view = world.view(id).unwrap();
    assert_eq!(
        (view.state, view.counters, view.error),
        (State::Failed, counters, Some(error))
    );
    let whole = view.whole.unwrap();
    assert_eq!(whole.meta, b"meta");
    assert_eq!(
        whole.body,
        Some(Bytes {
            codec: 1,
            bytes: b"body".to_vec()
        })
    );
    let last = whole.history.last().unwrap();
    assert_eq!(
        (last.what, last.text.as_str()),
        (HistoryKind::Failed, "App\\Boom: boom")
    );
}

fn cancelled(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    world.end(id, Ending::Cancelled);
    let view = world.view(id).unwrap();
    assert_eq!(view.state, State::Cancelled);
    let whole = view.whole.unwrap();
    assert!(whole.body.is_some());
    assert_eq!(whole.history.last().unwrap().what, HistoryKind::Cancelled);
}

fn every_state_is_counted(world: &mut World) {
    let queue = world.queue("mails");
    let loaded: Vec<Job> = (0..6).map(|_| world.load(job(queue))).collect();
    let later = world.now() + 1_000;
    world.add(NewJob {
        due_ms: later,
        ..job(queue)
    });
    world.add(NewJob {
        suspended: true,
        ..job(queue)
    });
    world.push_to(false, job(queue));
    let start = Counts {
        ready: 7,
        delayed: 1,
        suspended: 1,
        ..Counts::default()
    };
    assert_eq!(world.counts(queue), start);
    world.done(loaded[0].id);
    world.fail(loaded[1].id);
    world.end(loaded[2].id, Ending::Cancelled);
    world.retry(loaded[3].id, later, false);
    world.retry(loaded[4].id, later, true);
    let expected = Counts {
        ready: 2,
        delayed: 3,
        suspended: 1,
        done: 1,
        cancelled: 1,
        failed: 1,
        retried: 2,
    };
    assert_eq!(world.counts(queue), expected);
    world.done(loaded[4].id);
    let expected = Counts {
        delayed: 2,
        done: 2,
        ..expected
    };
    assert_eq!(world.counts(queue), expected);
    world.advance(2_000);
    assert_eq!(
        world.counts(queue),
        Counts {
            ready: 4,
            delayed: 0,
            ..expected
        }
    );
}

fn a_second_end_is_ignored(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    world.done(id);
    let counts = world.counts(queue);
    world.fail(id);
    world.retry(id, world.now() + 5, false);
    assert_eq!(world.counts(queue), counts);
    assert_eq!(world.state(id), Some(State::Done));
}

fn result(text: &str) -> Ending {
    Ending::Done {
        result: Some(Bytes {
            codec: 3,
            bytes: text.into(),
        }),
    }
}

fn a_result_is_kept_until_it_expires(world: &mut World) {
    let policy = QueuePolicy {
        result_ms: 60_000,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let own = Options {
        keep_result_ms: Some(1_000),
        ..Options::default()
    };
    let short = world
        .load(NewJob {
            options: Some(Box::new(own)),
            ..job(queue)
        })
        .id;
    let long = world.load(job(queue)).id;
    world.end(short, result("short"));
    world.end(long, result("long"));
    let of = |world: &mut World, id| world.view(id).unwrap().whole.unwrap().result;
    assert_eq!(
        of(world, short),
        Some(Bytes {
            codec: 3,
            bytes: b"short".to_vec()
        })
    );
    world.advance(999);
    assert!(of(world, short).is_some());
    world.advance(1);
    assert_eq!(of(world, short), None);
    world.advance(58_999);
    assert!(of(world, long).is_some());
    world.advance(1);
    assert_eq!(of(world, long), None);
}

fn the_output_of_the_last_run_with_output_is_kept(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    let (error, counters) = (world.error("once more"), RunCounters::default());
    let due_ms = world.now() + 10;
    let output = Some(b"first".to_vec());
    world.send(StoreRequest::Retry {
        job: id,
        counters,
        due_ms,
        error,
        output,
        park: true,
    });
    let of = |world: &mut World| world.view(id).unwrap().whole.unwrap().output;
    assert_eq!(of(world), Some(b"first".to_vec()));
    let error = world.error("and again");
    let output = Some(b"second".to_vec());
    world.send(StoreRequest::Retry {
        job: id,
        counters,
        due_ms,
        error,
        output,
        park: true,
    });
    assert_eq!(of(world), Some(b"second".to_vec()));
    world.fail(id);
    assert_eq!(of(world), Some(b"second".to_vec()));
}

fn a_done_job_may_keep_its_payload(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            payload_ms: 5_000,
            ..QueuePolicy::default()
        },
    );
    let id = world.load(job(queue)).id;
    world.done(id);
    let whole = world.view(id).unwrap().whole.unwrap();
    assert_eq!(whole.meta, b"meta");
    assert_eq!(
        whole.body,
        Some(Bytes {
            codec: 1,
            bytes: b"body".to_vec()
        })
    );
    world.advance(5_000);
    let whole = world.view(id).unwrap().whole.unwrap();
    assert_eq!((whole.meta, whole.body), (vec![], None));
}

fn end_many(
    world: &mut World,
    queue: QueueNo,
    count: u64,
    failed: bool,
) -> Vec<stoker_store::JobId> {
    let jobs: Vec<_> = (0..count).map(|_| world.load(job(queue)).id).collect();
    for id in &jobs {
        match failed {
            true => world.fail(*id),
            false => world.done(*id),
        }
    }
    jobs
}

fn the_oldest_jobs_above_the_limit_are_deleted(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            done: 5,
            ..QueuePolicy::default()
        },
    );
    let jobs = end_many(world, queue, 12, false);
    world.until("five are kept", |world| world.count(Filter::default()) == 5);
    assert_eq!(world.list(Filter::default()), jobs[7..]);
    assert_eq!(world.counts(queue).done, 12);
}

fn jobs_are_deleted_in_the_order_of_their_ends(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            done: 2,
            ..QueuePolicy::default()
        },
    );
    let jobs: Vec<_> = (0..4).map(|_| world.load(job(queue)).id).collect();
    for at in [3, 1, 0, 2] {
        world.advance(1);
        match at {
            0 => world.end(jobs[at], Ending::Cancelled),
            _ => world.done(jobs[at]),
        }
    }
    world.until("two are kept", |world| world.count(Filter::default()) == 2);
    assert_eq!(world.list(Filter::default()), [jobs[0], jobs[2]]);
}

fn old_jobs_are_deleted(world: &mut World) {
    let policy = QueuePolicy {
        done_ms: 10_000,
        failed_ms: 20_000,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    end_many(world, queue, 3, false);
    let failed = end_many(world, queue, 2, true);
    world.advance(5_000);
    let young = end_many(world, queue, 1, false);
    world.advance(6_000);
    // The memory engine deletes expired jobs only when another job ends.
    let last = end_many(world, queue, 1, false);
    world.until("the old are gone", |world| {
        world.count(Filter::default()) == 4
    });
    let mut expected = [&young[..], &failed, &last].concat();
    expected.sort();
    assert_eq!(world.list(Filter::default()), expected);
    world.advance(20_000);
    end_many(world, queue, 1, true);
    world.until("all but the last are gone", |world| {
        world.count(Filter::default()) == 1
    });
    assert_eq!(world.counts(queue).failed, 1);
}

fn a_job_that_ended_twice_is_kept_from_its_second_end(world: &mut World) {
    let policy = QueuePolicy {
        failed_ms: 20_000,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let twice = end_many(world, queue, 1, true)[0];
    world.advance(15_000);
    let retry = Change::Retry { per_second: None };
    world.change(Selection::One(twice), retry).unwrap();
    assert_eq!(world.refill(queue, b"", 9).0, [twice]);
    world.fail(twice);
    world.advance(10_000);
    let once = end_many(world, queue, 1, true)[0];
    // An engine deletes in the background, when another job ends.
    world.advance(1);
    let later = end_many(world, queue, 1, true)[0];
    let mut expected = vec![twice, once, later];
    expected.sort();
    assert_eq!(world.list(Filter::default()), expected);
    world.advance(12_000);
    let last = end_many(world, queue, 1, true)[0];
    let mut expected = vec![once, later, last];
    expected.sort();
    world.until("the first is gone", |world| {
        world.list(Filter::default()) == expected
    });
}

fn failed_jobs_have_their_own_retention(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            done: 1,
            failed: 2,
            ..QueuePolicy::default()
        },
    );
    let failed = end_many(world, queue, 4, true);
    let done = end_many(world, queue, 3, false);
    world.until("three are kept", |world| {
        world.count(Filter::default()) == 3
    });
    let failed_ones = Filter {
        states: State::Failed.into(),
        ..Filter::default()
    };
    assert_eq!(world.list(failed_ones), failed[2..]);
    let done_ones = Filter {
        states: State::Done.into(),
        ..Filter::default()
    };
    assert_eq!(world.list(done_ones), done[2..]);
    assert_eq!(
        (world.counts(queue).failed, world.counts(queue).done),
        (2, 3)
    );
}

fn a_deleted_job_leaves_no_data(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            done: 0,
            failed: 0,
            result_ms: 0,
            ..QueuePolicy::default()
        },
    );
    let id = world.load(job(queue)).id;
    world.send(StoreRequest::Checkpoint {
        job: id,
        bytes: b"so far".to_vec(),
    });
    world.send(StoreRequest::Note {
        job: id,
        what: HistoryKind::Acknowledged,
        text: String::new(),
    });
    world.end(id, result("gone"));
    world.until("it is forgotten", |world| world.view(id).is_none());
    let other = world.load(job(queue)).id;
    world.fail(other);
    world.until("it is forgotten", |world| world.view(other).is_none());
    assert_eq!(world.counts(queue).failed, 0);
}

fn a_result_outlives_its_job(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            done: 1,
            result_ms: 60_000,
            ..QueuePolicy::default()
        },
    );
    let id = world.load(job(queue)).id;
    let counters = RunCounters {
        attempt: 2,
        exceptions: 1,
        crashes: 0,
        ran_us: 77,
    };
    world.end_run(id, counters, result("42"));
    end_many(world, queue, 200, false);
    world.until("only the last one is kept", |world| {
        world.list(Filter::default()).len() == 1
    });
    let view = world.view(id).expect("its result is still kept");
    assert_eq!(
        (view.queue, view.state, view.counters),
        (queue, State::Done, counters)
    );
    assert_eq!(view.whole.unwrap().result.unwrap().bytes, b"42");
    // The remaining result can't be changed.
    assert_eq!(
        world.change(Selection::One(id), Change::Discard),
        Err(Trouble::NotFound)
    );
    let until = view.ended_ms.unwrap() + 60_000;
    world.advance(until - world.now() - 1);
    assert!(world.view(id).is_some());
    world.advance(1);
    assert_eq!(world.view(id), None);
}

fn a_retention_of_zero_keeps_nothing(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            done: 0,
            ..QueuePolicy::default()
        },
    );
    end_many(world, queue, 20, false);
    world.until("nothing is left", |world| {
        world.count(Filter::default()) == 0
    });
    assert_eq!(world.counts(queue).done, 20);
}

fn progress_is_stored(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    assert_eq!(world.view(id).unwrap().progress, None);
    world.send(StoreRequest::Progress {
        job: id,
        percent: 40,
        text: "half \"way\"".to_owned(),
    });
    assert_eq!(
        world.view(id).unwrap().progress,
        Some((40, "half \"way\"".to_owned()))
    );
    world.done(id);
    assert_eq!(
        world.view(id).unwrap().progress,
        Some((40, "half \"way\"".to_owned()))
    );
}

fn output_after_the_end_is_kept(world: &mut World) {
    let policy = QueuePolicy {
        done_ms: 1_000,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let id = world.load(job(queue)).id;
    world.done(id);
    world.advance(500);
    world.send(StoreRequest::Output {
        job: id,
        bytes: b"all of it".to_vec(),
    });
    let whole = world.view(id).unwrap().whole.unwrap();
    assert_eq!(whole.output.as_deref(), Some(&b"all of it"[..]));
    world.advance(500);
    let other = world.load(job(queue)).id;
    world.done(other);
    world.until("it is forgotten", |world| world.view(id).is_none());
    world.send(StoreRequest::Output {
        job: id,
        bytes: b"too late".to_vec(),
    });
    assert_eq!(world.view(id), None);
}

fn history_after_the_end_is_kept(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    world.send(StoreRequest::Note {
        job: id,
        what: HistoryKind::Acknowledged,
        text: "early".to_owned(),
    });
    world.done(id);
    world.send(StoreRequest::Note {
        job: id,
        what: HistoryKind::AfterAck,
        text: "it failed all the same".to_owned(),
    });
    let history = world.view(id).unwrap().whole.unwrap().history;
    let notes: Vec<_> = history
        .iter()
        .map(|note| (note.what, note.text.as_str()))
        .collect();
    assert_eq!(
        notes,
        [
            (HistoryKind::Acknowledged, "early"),
            (HistoryKind::AfterAck, "it failed all the same")
        ]
    );
}
