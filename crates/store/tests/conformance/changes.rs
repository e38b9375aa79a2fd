//! Changes by operators.

use crate::repeated;
use crate::world::{World, job, job_of};
use stoker_store::{
    Bytes, Change, Changed, Filter, Found, HistoryKind, Import, JobId, NewJob, Options, Pushed,
    Query, QueueNo, QueuePolicy, RunCounters, Selection, State, StoreEvent, StoreRequest, Ticket,
    Trouble,
};

crate::every_engine! {
    a_failed_job_runs_again,
    many_run_again_at_a_rate,
    a_waiting_job_is_cancelled,
    a_change_reports_loaded_jobs,
    ended_jobs_are_discarded,
    a_waiting_job_moves,
    a_failed_job_moves,
    retention_applies_to_moved_jobs,
    a_shorter_retention_applies_to_existing_jobs,
    a_suspended_job_is_edited,
    a_failed_job_is_edited,
    a_long_history_entry_is_read_alone,
    a_binary_payload_is_recorded_as_hexadecimal,
    jobs_are_suspended,
    jobs_are_released,
    impossible_changes_are_rejected,
    jobs_are_changed_by_filter,
    an_export_is_imported,
    an_import_keeps_all_data_of_a_job,
    loaded_jobs_are_released_and_moved,
    discarded_jobs_can_be_imported_again,
    in_an_ordered_queue_a_moved_job_goes_to_the_end,
    a_history_entry_of_a_crash_counts_it,
    lists_with_payloads_are_truncated,
    a_retried_job_has_its_full_retry_time_again,
    a_retried_job_has_no_progress,
}

fn a_retried_job_has_no_progress(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    world.send(StoreRequest::Progress {
        job: id,
        percent: 40,
        text: "half way".to_owned(),
    });
    world.fail(id);
    assert!(world.view(id).unwrap().progress.is_some());
    assert_eq!(world.change(Selection::One(id), RETRY), changed(1));
    assert_eq!(world.view(id).unwrap().progress, None);
}

fn a_retried_job_has_its_full_retry_time_again(world: &mut World) {
    let queue = world.queue("mails");
    let until = |world: &mut World, id| {
        let options = world.view(id).unwrap().options.unwrap();
        options.retry_until_ms.unwrap() - world.now()
    };
    let options = Options {
        retry_until_ms: Some(world.now() + 60_000),
        kind: Some("Report".to_owned()),
        ..Options::default()
    };
    let new = NewJob {
        options: Some(Box::new(options)),
        ..job(queue)
    };
    let id = world.load(new).id;
    for _ in 0..2 {
        world.advance(100_000);
        world.fail(id);
        world.advance(100_000);
        assert_eq!(world.change(Selection::One(id), RETRY), changed(1));
        assert_eq!(until(world, id), 60_000);
        let (loaded, _) = world.refill_jobs(queue, 0, b"", 1);
        let options = loaded[0].options.as_ref().expect("they are handed over");
        assert_eq!(options.retry_until_ms, Some(world.now() + 60_000));
        assert_eq!(options.kind.as_deref(), Some("Report"));
    }
}

const RETRY: Change = Change::Retry { per_second: None };

fn changed(count: u64) -> Result<Changed, Trouble> {
    Ok(Changed {
        count,
        loaded: vec![],
        ..Changed::default()
    })
}

fn failed(world: &mut World, queue: QueueNo) -> JobId {
    let id = world.load(job(queue)).id;
    world.fail(id);
    id
}

fn an_import_keeps_all_data_of_a_job(world: &mut World) {
    let queue = world.queue("mails");
    let new = NewJob {
        idempotency: Some(b"order-7"[..].into()),
        ..job(queue)
    };
    let id = world.load(new.clone()).id;
    world.send(StoreRequest::Checkpoint {
        job: id,
        bytes: b"page 3".to_vec(),
    });
    let due_ms = world.now() + 1_000;
    world.retry(id, due_ms, false);
    let whole = world.view(id).unwrap().whole.unwrap();
    assert_eq!(
        (whole.idempotency.as_deref(), whole.checkpoint.as_deref()),
        (Some(&b"order-7"[..]), Some(&b"page 3"[..]))
    );
    // The store already has the job in the first queue, but not in the other one.
    let other = world.queue("elsewhere");
    let import = |queue| Import {
        job: NewJob {
            queue,
            ..new.clone()
        },
        counters: RunCounters::default(),
        exported_id: "id-1".to_owned(),
        error: None,
        checkpoint: Some(b"page 3".to_vec()),
    };
    let ticket = Ticket(999, 1);
    let jobs = vec![import(queue), import(other), import(other)];
    world.send(StoreRequest::Import { ticket, jobs });
    let event = world.wait(|event| matches!(event, StoreEvent::Changed { .. }));
    let result = changed(1);
    assert_eq!(event, StoreEvent::Changed { ticket, result });
    let (jobs, _) = world.refill_jobs(other, 0, b"", 9);
    assert_eq!(jobs[0].checkpoint.as_deref(), Some(&b"page 3"[..]));
    let again = NewJob {
        queue: other,
        ..new
    };
    assert_eq!(world.push(again), repeated(jobs[0].id));
}

fn loaded_jobs_are_released_and_moved(world: &mut World) {
    let (queue, other) = (world.queue("mails"), world.queue("elsewhere"));
    let loaded: Vec<JobId> = (0..4).map(|_| world.load(job(queue)).id).collect();
    world.done(loaded[3]);
    let mut waiting = Vec::new();
    for _ in 0..2 {
        match world.push_to(false, job(queue)) {
            Pushed::Accepted { id, job: None } => waiting.push(id),
            other => panic!("{other:?}"),
        }
    }
    world.backlogs();
    // The first job stays loaded, and the last one has already ended.
    let given = Selection::Loaded(loaded[1..].to_vec());
    let to = Change::Move { to: other };
    assert_eq!(world.change(given, to.clone()), changed(2));
    assert_eq!(world.backlogs(), [(0, vec![])]);
    assert_eq!(world.refill(other, b"", 9).0, loaded[1..3]);
    assert_eq!(world.refill(queue, b"", 9).0, waiting);
    world.done(loaded[0]);
    // When the last loaded job of the lane has been moved, its waiting jobs are reported.
    let last = match world.push_to(false, job(queue)) {
        Pushed::Accepted { id, .. } => id,
        other => panic!("{other:?}"),
    };
    world.backlogs();
    assert_eq!(world.change(Selection::Loaded(waiting), to), changed(2));
    assert_eq!(
        world
            .backlogs()
            .iter()
            .filter(|lane| lane.1.is_empty())
            .count(),
        2
    );
    assert_eq!(world.refill(queue, b"", 9).0, [last]);
    assert_eq!(world.counts(queue).ready, 1);
    assert_eq!(world.counts(other).ready, 4);
}

fn a_failed_job_runs_again(world: &mut World) {
    let queue = world.queue("mails");
    let id = failed(world, queue);
    world.advance(10);
    assert_eq!(world.change(Selection::One(id), RETRY), changed(1));
    let view = world.view(id).unwrap();
    assert_eq!(
        (view.state, view.counters, view.error),
        (State::Ready, RunCounters::default(), None)
    );
    assert_eq!((view.ended_ms, view.due_ms), (None, world.now()));
    let history = view.whole.unwrap().history;
    let what: Vec<HistoryKind> = history.iter().map(|note| note.what).collect();
    assert_eq!(what, [HistoryKind::Failed, HistoryKind::RetriedByOperator]);
    assert_eq!(world.backlogs(), [(0, vec![])]);
    let (jobs, _) = world.refill_jobs(queue, 0, b"", 5);
    assert_eq!(
        (jobs[0].id, jobs[0].body(), jobs[0].counters),
        (id, &b"body"[..], RunCounters::default())
    );
    world.done(id);
    let counts = world.counts(queue);
    assert_eq!((counts.ready, counts.failed, counts.done), (0, 0, 1));
}

fn many_run_again_at_a_rate(world: &mut World) {
    let queue = world.queue("mails");
    // More jobs than an engine changes in one slice.
    let jobs: Vec<JobId> = (0..600).map(|_| failed(world, queue)).collect();
    let all = Filter {
        queue: Some(queue),
        ..Filter::default()
    };
    let retry = Change::Retry {
        per_second: Some(2),
    };
    assert_eq!(world.change(Selection::Many(all), retry), changed(600));
    let now = world.now();
    let due: Vec<u64> = jobs
        .iter()
        .map(|id| world.view(*id).unwrap().due_ms - now)
        .collect();
    let at_rate: Vec<u64> = (0..600).map(|no| no * 500).collect();
    assert_eq!(due, at_rate);
    assert_eq!(world.refill(queue, b"", 10).0, jobs[..1]);
    world.advance(1_000);
    assert_eq!(world.refill(queue, b"", 10).0, jobs[1..3]);
    world.advance(1_000);
    assert_eq!(world.refill(queue, b"", 10).0, jobs[3..5]);
}

fn a_waiting_job_is_cancelled(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            window: 1,
            ..QueuePolicy::default()
        },
    );
    let later = world.now() + 1_000;
    world.load(job(queue));
    let ready = world.add(job(queue));
    let delayed = world.add(NewJob {
        due_ms: later,
        ..job(queue)
    });
    let suspended = world.add(NewJob {
        suspended: true,
        ..job(queue)
    });
    for id in [ready, delayed, suspended] {
        assert_eq!(world.change(Selection::One(id), Change::Cancel), changed(1));
        assert_eq!(world.state(id), Some(State::Cancelled));
    }
    assert_eq!(world.refill(queue, b"", 10).0, []);
    world.advance(2_000);
    assert_eq!(world.refill(queue, b"", 10).0, []);
    let counts = world.counts(queue);
    assert_eq!(
        (
            counts.ready,
            counts.delayed,
            counts.suspended,
            counts.cancelled
        ),
        (1, 0, 0, 3)
    );
}

fn a_change_reports_loaded_jobs(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            window: 2,
            ..QueuePolicy::default()
        },
    );
    let loaded = [world.load(job(queue)).id, world.load(job(queue)).id];
    let waits = world.add(job(queue));
    let all = Filter {
        queue: Some(queue),
        ..Filter::default()
    };
    let result = world.change(Selection::Many(all), Change::Cancel);
    assert_eq!(
        result,
        Ok(Changed {
            count: 1,
            loaded: loaded.to_vec(),
            ..Changed::default()
        })
    );
    assert_eq!(world.state(waits), Some(State::Cancelled));
    assert_eq!(world.state(loaded[0]), Some(State::Ready));
    let result = world.change(Selection::One(loaded[0]), Change::Cancel);
    assert_eq!(
        result,
        Ok(Changed {
            count: 0,
            loaded: vec![loaded[0]],
            ..Changed::default()
        })
    );
}

fn ended_jobs_are_discarded(world: &mut World) {
    let queue = world.queue("mails");
    let (one, other) = (failed(world, queue), failed(world, queue));
    let done = world.load(job(queue)).id;
    world.done(done);
    assert_eq!(
        world.change(Selection::One(one), Change::Discard),
        changed(1)
    );
    assert_eq!(world.view(one), None);
    assert_eq!(world.counts(queue).failed, 1);
    assert_eq!(
        world.change(Selection::Many(Filter::default()), Change::Discard),
        changed(2)
    );
    assert_eq!((world.view(other), world.view(done)), (None, None));
    assert_eq!(
        (world.counts(queue).failed, world.counts(queue).done),
        (0, 1)
    );
}

fn a_waiting_job_moves(world: &mut World) {
    let (from, to) = (world.queue("from"), world.queue("to"));
    world.push_to(false, job_of(from, b"a"));
    let later = world.now() + 1_000;
    world.add(NewJob {
        due_ms: later,
        ..job_of(from, b"a")
    });
    world.backlogs();
    let all = Filter {
        queue: Some(from),
        ..Filter::default()
    };
    assert_eq!(
        world.change(Selection::Many(all), Change::Move { to }),
        changed(2)
    );
    assert_eq!(world.backlogs(), [(0, b"a".to_vec())]);
    assert_eq!(world.refill(from, b"a", 10).0, []);
    let (jobs, _) = world.refill_jobs(to, 0, b"a", 10);
    assert_eq!((jobs.len(), jobs[0].queue), (1, to));
    let view = world.view(jobs[0].id).unwrap();
    assert_eq!(view.queue, to);
    assert_eq!(view.whole.unwrap().history[0].text, "from from");
    world.advance(1_000);
    assert_eq!(world.refill(to, b"a", 10).0.len(), 1);
    assert_eq!(
        (world.counts(from).ready, world.counts(from).delayed),
        (0, 0)
    );
    assert_eq!((world.counts(to).ready, world.counts(to).delayed), (2, 0));
}

fn a_failed_job_moves(world: &mut World) {
    let (from, to) = (world.queue("from"), world.queue("to"));
    let id = failed(world, from);
    assert_eq!(
        world.change(Selection::One(id), Change::Move { to }),
        changed(1)
    );
    let view = world.view(id).unwrap();
    assert_eq!((view.queue, view.state), (to, State::Failed));
    assert_eq!((world.counts(from).failed, world.counts(to).failed), (0, 1));
    assert_eq!(world.change(Selection::One(id), RETRY), changed(1));
    assert_eq!(world.refill(to, b"", 10).0, [id]);
}

fn keep_one() -> QueuePolicy {
    QueuePolicy {
        failed: 1,
        ..QueuePolicy::default()
    }
}

fn retention_applies_to_moved_jobs(world: &mut World) {
    let (from, to) = (world.queue("from"), world.queue_with("to", keep_one()));
    let ids = [0; 3].map(|_| failed(world, from));
    let all = Selection::Many(Filter::default());
    assert_eq!(world.change(all, Change::Move { to }), changed(3));
    world.until("the others are forgotten", |world| {
        world.list(Filter::default()) == ids[2..]
    });
}

fn a_shorter_retention_applies_to_existing_jobs(world: &mut World) {
    let queue = world.queue("mails");
    let ids = [0; 3].map(|_| failed(world, queue));
    world.queue_with("mails", keep_one());
    world.until("the others are forgotten", |world| {
        world.list(Filter::default()) == ids[2..]
    });
}

fn edit() -> Change {
    Change::Edit {
        body: Bytes {
            codec: 2,
            bytes: b"better".to_vec(),
        },
    }
}

fn a_suspended_job_is_edited(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.add(NewJob {
        suspended: true,
        ..job(queue)
    });
    assert_eq!(world.change(Selection::One(id), edit()), changed(1));
    assert_eq!(
        world.change(Selection::One(id), Change::Release),
        changed(1)
    );
    let (jobs, _) = world.refill_jobs(queue, 0, b"", 1);
    assert_eq!(
        (jobs[0].codec, jobs[0].meta(), jobs[0].body()),
        (2, &b"meta"[..], &b"better"[..])
    );
}

fn a_failed_job_is_edited(world: &mut World) {
    let queue = world.queue("mails");
    let id = failed(world, queue);
    assert_eq!(world.change(Selection::One(id), edit()), changed(1));
    let whole = world.view(id).unwrap().whole.unwrap();
    assert_eq!(
        whole.body,
        Some(Bytes {
            codec: 2,
            bytes: b"better".to_vec()
        })
    );
    assert_eq!(whole.meta, b"meta");
    let note = whole.history.last().unwrap();
    assert_eq!(
        (note.what, note.text.as_str()),
        (HistoryKind::Edited, "body")
    );
    world.change(Selection::One(id), RETRY).unwrap();
    let (jobs, _) = world.refill_jobs(queue, 0, b"", 1);
    assert_eq!(jobs[0].body(), b"better");
}

/// A history may be much longer than a frame, so a query for a job does not return all of its text.
fn a_long_history_entry_is_read_alone(world: &mut World) {
    let queue = world.queue("mails");
    let before = "\u{e9}".repeat(50_000);
    let new = NewJob {
        bytes: before.as_bytes().into(),
        meta_len: 0,
        ..job(queue)
    };
    let id = world.load(new).id;
    world.fail(id);
    assert_eq!(world.change(Selection::One(id), edit()), changed(1));
    let history = world.view(id).unwrap().whole.unwrap().history;
    let line = history.last().unwrap();
    assert!(before.starts_with(&line.text) && line.text.len() <= 64 << 10);
    assert_eq!(line.text.len() + line.cut, before.len());
    let number = history.len() as u64;
    let mut read = |number| match world.query(Query::HistoryEntry { job: id, number }) {
        Found::One(Some(view)) => view.whole.unwrap().history,
        other => panic!("{other:?}"),
    };
    let alone = read(number);
    assert_eq!((alone.len(), alone[0].cut), (1, 0));
    assert_eq!(alone[0].text, before);
    assert_eq!(read(number + 1), []);
}

fn a_binary_payload_is_recorded_as_hexadecimal(world: &mut World) {
    let queue = world.queue("mails");
    let new = NewJob {
        bytes: [0xff, 0x00, b'a'][..].into(),
        meta_len: 0,
        ..job(queue)
    };
    let id = world.load(new).id;
    world.fail(id);
    assert_eq!(world.change(Selection::One(id), edit()), changed(1));
    let whole = world.view(id).unwrap().whole.unwrap();
    assert_eq!(whole.history.last().unwrap().text, "0xff0061");
}

fn jobs_are_suspended(world: &mut World) {
    let queue = world.queue("mails");
    let delayed = world.add(NewJob {
        due_ms: world.now() + 1_000,
        ..job(queue)
    });
    let Pushed::Accepted { id: ready, .. } = world.push_to(false, job(queue)) else {
        panic!("accepted");
    };
    let retrying = world.load(job_of(queue, b"a")).id;
    let due_ms = world.now() + 1_000;
    world.retry(retrying, due_ms, false);
    let loaded = world.load(job_of(queue, b"b")).id;
    let all = Selection::Many(Filter::default());
    let result = Changed {
        count: 3,
        loaded: vec![loaded],
        ..Changed::default()
    };
    assert_eq!(world.change(all, Change::Suspend), Ok(result));
    let given = Selection::Loaded(vec![loaded]);
    assert_eq!(world.change(given, Change::Suspend), changed(1));
    assert_eq!(world.counts(queue).suspended, 4);
    world.advance(5_000);
    assert_eq!(world.refill_lanes(queue, 9, 9).0, []);
    if world.is_durable() {
        world.crash();
        world.queue("mails");
        assert_eq!(world.refill_lanes(queue, 9, 9).0, []);
    }
    let history = world.view(ready).unwrap().whole.unwrap().history;
    assert_eq!(history[0].what, HistoryKind::Suspended);
    assert_eq!(
        world.change(Selection::One(delayed), Change::Suspend),
        Err(Trouble::State(State::Suspended))
    );
    for id in [ready, delayed] {
        assert_eq!(
            world.change(Selection::One(id), Change::Release),
            changed(1)
        );
    }
    assert_eq!(world.refill(queue, b"", 9).0, [ready, delayed]);
}

fn jobs_are_released(world: &mut World) {
    let queue = world.queue("mails");
    let later = world.now() + 1_000;
    let delayed = world.add(NewJob {
        due_ms: later,
        ..job(queue)
    });
    let suspended = world.add(NewJob {
        suspended: true,
        ..job(queue)
    });
    let retrying = world.load(job(queue)).id;
    world.retry(retrying, later, false);
    for id in [suspended, retrying, delayed] {
        assert_eq!(
            world.change(Selection::One(id), Change::Release),
            changed(1)
        );
    }
    assert_eq!(
        world.refill(queue, b"", 10).0,
        [suspended, retrying, delayed]
    );
    world.advance(5_000);
    assert_eq!(world.counts(queue).ready, 3);
    assert_eq!(world.refill(queue, b"", 10).0, []);
}

fn impossible_changes_are_rejected(world: &mut World) {
    let queue = world.queue("mails");
    let loaded = world.load(job(queue)).id;
    let done = world.load(job(queue)).id;
    world.done(done);
    let rejected = |state| Err(Trouble::State(state));
    for change in [RETRY, Change::Discard, Change::Release, edit()] {
        assert_eq!(
            world.change(Selection::One(loaded), change),
            rejected(State::Ready)
        );
    }
    for change in [
        RETRY,
        Change::Cancel,
        Change::Release,
        Change::Move { to: queue },
        edit(),
    ] {
        assert_eq!(
            world.change(Selection::One(done), change),
            rejected(State::Done)
        );
    }
    let nobody = JobId(12_345);
    assert_eq!(
        world.change(Selection::One(nobody), Change::Cancel),
        Err(Trouble::NotFound)
    );
    assert_eq!(world.view(nobody), None);
}

fn jobs_are_changed_by_filter(world: &mut World) {
    let queue = world.queue_with(
        "mails",
        QueuePolicy {
            window: 10_000,
            ..QueuePolicy::default()
        },
    );
    let other = world.queue("other");
    for number in 0..1_200_u32 {
        let key = format!("tenant{}", number % 2);
        let id = world.load(job_of(queue, key.as_bytes())).id;
        let error = world.error("x");
        world.send(StoreRequest::End {
            job: id,
            counters: RunCounters::default(),
            ending: stoker_store::Ending::Failed(error),
            ticket: None,
            output: None,
        });
    }
    failed(world, other);
    let key = Some(b"tenant1"[..].into());
    let filter = Filter {
        queue: Some(queue),
        key,
        ..Filter::default()
    };
    assert_eq!(
        world.change(Selection::Many(filter.clone()), RETRY),
        changed(600)
    );
    assert_eq!(world.counts(queue).ready, 600);
    assert_eq!(world.counts(queue).failed, 600);
    assert_eq!(world.refill(queue, b"tenant1", 1_000).0.len(), 600);
    assert_eq!(world.refill(queue, b"tenant0", 1_000).0.len(), 0);
    let all = Filter::default();
    assert_eq!(
        world
            .change(Selection::Many(all), Change::Move { to: other })
            .unwrap()
            .count,
        600
    );
    assert_eq!(
        (world.counts(queue).failed, world.counts(other).failed),
        (0, 601)
    );
}

fn an_export_is_imported(world: &mut World) {
    let queue = world.queue("mails");
    let later = world.now() + 1_000;
    let counters = RunCounters {
        attempt: 2,
        exceptions: 1,
        crashes: 0,
        ran_us: 5,
    };
    let error = world.error("it had failed");
    let import = |new: NewJob, error| Import {
        job: new,
        counters,
        exported_id: "id-1".to_owned(),
        error,
        checkpoint: None,
    };
    let jobs = vec![
        import(job(queue), None),
        import(
            NewJob {
                due_ms: later,
                ..job(queue)
            },
            None,
        ),
        import(
            NewJob {
                suspended: true,
                ..job(queue)
            },
            None,
        ),
        import(job_of(queue, b"a"), Some(error.clone())),
    ];
    let ticket = Ticket(999, 1);
    world.send(StoreRequest::Import { ticket, jobs });
    let event = world.wait(|event| matches!(event, StoreEvent::Changed { .. }));
    assert_eq!(
        event,
        StoreEvent::Changed {
            ticket,
            result: changed(4)
        }
    );
    let counts = world.counts(queue);
    assert_eq!(
        (
            counts.ready,
            counts.delayed,
            counts.suspended,
            counts.failed
        ),
        (1, 1, 1, 1)
    );
    let list = Query::List {
        filter: Filter::default(),
        after: None,
        limit: 10,
        newest: false,
        whole: true,
    };
    let Found::List { jobs, more: false } = world.query(list) else {
        panic!("a list");
    };
    assert_eq!(jobs.len(), 4);
    assert!(jobs.iter().all(|view| view.counters == counters));
    let history = |at: usize| &jobs[at].whole.as_ref().unwrap().history[0];
    assert_eq!(
        (history(0).what, history(0).text.as_str()),
        (HistoryKind::Imported, "was id-1")
    );
    assert_eq!(
        (jobs[3].state, jobs[3].error.clone()),
        (State::Failed, Some(error))
    );
    assert_eq!(
        jobs[3].whole.as_ref().unwrap().body.as_ref().unwrap().bytes,
        b"body"
    );
    let (taken, _) = world.refill_jobs(queue, 0, b"", 10);
    assert_eq!(
        (taken.len(), taken[0].counters, taken[0].body()),
        (1, counters, &b"body"[..])
    );
}

fn discarded_jobs_can_be_imported_again(world: &mut World) {
    let queue = world.queue("mails");
    let new = NewJob {
        idempotency: Some(b"order 7"[..].into()),
        ..job(queue)
    };
    let id = world.load(new.clone()).id;
    world.fail(id);
    let jobs = vec![Import {
        job: new,
        counters: RunCounters::default(),
        exported_id: String::new(),
        error: Some(world.error("boom")),
        checkpoint: None,
    }];
    let imported = |world: &mut World| {
        let ticket = world.ticket();
        let jobs = jobs.clone();
        world.send(StoreRequest::Import { ticket, jobs });
        let is_mine = |event: &StoreEvent| matches!(event, StoreEvent::Changed { ticket: of, .. } if *of == ticket);
        let StoreEvent::Changed { result, .. } = world.wait(is_mine) else {
            panic!("not an answer");
        };
        result.unwrap().count
    };
    assert_eq!(imported(world), 0, "it is here");
    world.change(Selection::One(id), Change::Discard).unwrap();
    assert_eq!(imported(world), 1);
    assert_eq!(imported(world), 0, "it is here again");
}

fn in_an_ordered_queue_a_moved_job_goes_to_the_end(world: &mut World) {
    let queue = world.queue("mails");
    let ordered = QueuePolicy {
        ordered: true,
        ..QueuePolicy::default()
    };
    let orders = world.queue_with("orders", ordered);
    let urgent = NewJob {
        class: 0,
        ..job(queue)
    };
    let first = world.load(NewJob {
        class: 3,
        ..job(orders)
    });
    let failed = world.load(urgent.clone()).id;
    world.fail(failed);
    let Pushed::Accepted { id, .. } = world.push_to(false, urgent) else {
        panic!("it is accepted");
    };
    for id in [id, failed] {
        let to = Change::Move { to: orders };
        world.change(Selection::One(id), to).unwrap();
        assert_eq!(world.view(id).unwrap().class, 3);
    }
    world.change(Selection::One(failed), RETRY).unwrap();
    world.done(first.id);
    let (jobs, _) = world.refill_jobs(orders, 3, b"", 9);
    let jobs: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    assert_eq!(jobs, [id, failed]);
}

fn a_history_entry_of_a_crash_counts_it(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    world.send(StoreRequest::Note {
        job: id,
        what: HistoryKind::Crashed,
        text: "its worker died".to_owned(),
    });
    world.settle();
    assert_eq!(world.view(id).unwrap().counters.crashes, 1);
    if world.is_durable() {
        world.reopen();
        world.queue("mails");
        let (jobs, _) = world.refill_jobs(queue, 0, b"", 9);
        assert_eq!(jobs[0].counters.crashes, 1);
    }
}

/// A list has as many jobs as fit into an answer, and at least one.
fn lists_with_payloads_are_truncated(world: &mut World) {
    let queue = world.queue("mails");
    for _ in 0..4 {
        world.push_to(
            false,
            NewJob {
                bytes: vec![7; 3 << 20].into(),
                meta_len: 0,
                ..job(queue)
            },
        );
    }
    let (mut after, mut pages) = (None, Vec::new());
    loop {
        let query = Query::List {
            filter: Filter::default(),
            after,
            limit: 100,
            newest: false,
            whole: true,
        };
        let Found::List { jobs, more } = world.query(query) else {
            panic!("not a list");
        };
        after = jobs.last().map(|view| view.id);
        pages.push(jobs.len());
        if !more {
            break;
        }
    }
    assert_eq!(pages, [2, 2]);
}
