//! Queries, and what producers see.

use crate::world::{World, job, job_of};
use stoker_store::{
    Ending, Filter, Found, JobId, NewJob, Options, Query, QueueNo, QueuePolicy, State, fingerprint,
};

crate::every_engine! {
    a_list_continues_after_an_id,
    a_list_with_payloads,
    jobs_are_filtered,
    failures_are_grouped,
    a_waiting_job_is_returned_with_all_details,
}

fn pages(world: &mut World, filter: &Filter, limit: usize, newest: bool) -> Vec<JobId> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let query = Query::List {
            filter: filter.clone(),
            after,
            limit,
            newest,
            whole: false,
        };
        let Found::List { jobs, more } = world.query(query) else {
            panic!("a list");
        };
        assert!(jobs.len() <= limit);
        all.extend(jobs.iter().map(|view| view.id));
        after = all.last().copied();
        if !more {
            return all;
        }
        assert_eq!(jobs.len(), limit);
    }
}

/// Issue 9, A27: a list can start from the oldest or from the newest job.
fn a_list_continues_after_an_id(world: &mut World) {
    let queues = [world.queue("one"), world.queue("two")];
    let mut all = Vec::new();
    for number in 0..60 {
        let id = world.load(job(queues[number % 2])).id;
        match number % 5 {
            0 => world.done(id),
            1 => world.fail(id),
            2 => world.end(id, Ending::Cancelled),
            _ => {}
        }
        all.push(id);
    }
    for limit in [1, 7, 20, 60, 100] {
        assert_eq!(pages(world, &Filter::default(), limit, false), all);
        let backwards: Vec<JobId> = all.iter().rev().copied().collect();
        assert_eq!(pages(world, &Filter::default(), limit, true), backwards);
    }
    let done = Filter {
        states: State::Done.into(),
        ..Filter::default()
    };
    let expected: Vec<JobId> = all.iter().step_by(5).copied().collect();
    assert_eq!(pages(world, &done, 4, false), expected);
    let backwards: Vec<JobId> = expected.into_iter().rev().collect();
    assert_eq!(pages(world, &done, 4, true), backwards);
    let none = Filter {
        states: State::Suspended.into(),
        ..Filter::default()
    };
    assert_eq!(pages(world, &none, 4, true), []);
}

fn a_list_with_payloads(world: &mut World) {
    let queue = world.queue("mails");
    let id = world.add(job(queue));
    let list = Query::List {
        filter: Filter::default(),
        after: None,
        limit: 5,
        newest: false,
        whole: true,
    };
    let Found::List { jobs, .. } = world.query(list) else {
        panic!("a list");
    };
    assert_eq!(jobs[0].id, id);
    let whole = jobs[0].whole.as_ref().unwrap();
    assert_eq!(
        (&*whole.meta, &*whole.body.as_ref().unwrap().bytes),
        (&b"meta"[..], &b"body"[..])
    );
}

fn kind(queue: QueueNo, kind: &str) -> NewJob {
    let options = Options {
        kind: Some(kind.to_owned()),
        ..Options::default()
    };
    NewJob {
        options: Some(Box::new(options)),
        ..job(queue)
    }
}

fn jobs_are_filtered(world: &mut World) {
    let (one, two) = (world.queue("one"), world.queue("two"));
    let mail = world.load(kind(one, "App\\Mail")).id;
    let report = world.load(kind(two, "App\\Report")).id;
    let tenant = world.load(job_of(two, b"t\0")).id;
    let error = world.error("boom 17");
    let print = fingerprint(&error);
    world.fail(tenant);
    world.advance(10);
    let retried = world.load(job(one)).id;
    world.retry(retried, world.now() + 1_000, false);
    let done = world.load(kind(one, "App\\Mail")).id;
    world.advance(10);
    world.done(done);
    let of = |world: &mut World, filter: Filter, expected: &[JobId]| {
        assert_eq!(world.list(filter.clone()), expected, "{filter:?}");
        assert_eq!(
            world.count(filter.clone()),
            expected.len() as u64,
            "{filter:?}"
        );
    };
    let any = Filter::default;
    of(world, any(), &[mail, report, tenant, retried, done]);
    of(
        world,
        Filter {
            queue: Some(two),
            ..any()
        },
        &[report, tenant],
    );
    of(
        world,
        Filter {
            kind: Some("App\\Mail".into()),
            ..any()
        },
        &[mail, done],
    );
    of(
        world,
        Filter {
            key: Some(b"t\0"[..].into()),
            ..any()
        },
        &[tenant],
    );
    of(
        world,
        Filter {
            key: Some([].into()),
            queue: Some(two),
            ..any()
        },
        &[report],
    );
    of(
        world,
        Filter {
            error: Some("App\\Boom".into()),
            ..any()
        },
        &[tenant, retried],
    );
    let failed = State::Failed.into();
    of(
        world,
        Filter {
            error: Some("App\\Boom".into()),
            states: failed,
            ..any()
        },
        &[tenant],
    );
    of(
        world,
        Filter {
            states: failed,
            ..any()
        },
        &[tenant],
    );
    of(
        world,
        Filter {
            states: State::Ready.into(),
            ..any()
        },
        &[mail, report],
    );
    of(
        world,
        Filter {
            states: State::Ready.into(),
            queue: Some(one),
            ..any()
        },
        &[mail],
    );
    of(
        world,
        Filter {
            states: State::Retrying.into(),
            ..any()
        },
        &[retried],
    );
    let now = world.now();
    of(
        world,
        Filter {
            before_ms: Some(now - 20),
            ..any()
        },
        &[],
    );
    of(
        world,
        Filter {
            before_ms: Some(now - 10),
            ..any()
        },
        &[mail, report, tenant],
    );
    of(
        world,
        Filter {
            before_ms: Some(now),
            ..any()
        },
        &[mail, report, tenant, retried],
    );
    of(
        world,
        Filter {
            before_ms: Some(u64::MAX),
            ..any()
        },
        &[mail, report, tenant, retried, done],
    );
    let boom = world.error("boom");
    of(
        world,
        Filter {
            fingerprint: Some(fingerprint(&boom)),
            ..any()
        },
        &[tenant],
    );
    assert_ne!(print, fingerprint(&boom));
    let again = world.error("not now");
    of(
        world,
        Filter {
            fingerprint: Some(fingerprint(&again)),
            ..any()
        },
        &[retried],
    );
}

fn failures_are_grouped(world: &mut World) {
    let (one, two) = (world.queue("one"), world.queue("two"));
    let mut last = None;
    for number in 0..5 {
        let id = world.load(job(if number % 2 == 0 { one } else { two })).id;
        let error = world.error(&format!("no user {number}"));
        world.end(id, Ending::Failed(error.clone()));
        last = Some((id, error));
        world.advance(10);
    }
    let other = world.load(job(one)).id;
    world.fail(other);
    let loaded = world.load(job(one)).id;
    world.done(loaded);
    let groups = |world: &mut World, filter: Filter, limit| match world
        .query(Query::Groups { filter, limit })
    {
        Found::Groups(groups) => groups,
        other => panic!("{other:?}"),
    };
    let all = groups(world, Filter::default(), 10);
    let (id, error) = last.unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(
        (all[0].count, all[0].job, &all[0].error, all[0].queue),
        (5, id, &error, one)
    );
    assert_eq!(all[0].fingerprint, fingerprint(&error));
    assert_eq!(
        (all[0].first_ms, all[0].last_ms),
        (world.now() - 50, world.now() - 10)
    );
    assert_eq!((all[1].count, all[1].job), (1, other));
    assert_eq!(groups(world, Filter::default(), 1).len(), 1);
    let of_two = groups(
        world,
        Filter {
            queue: Some(two),
            ..Filter::default()
        },
        10,
    );
    assert_eq!((of_two.len(), of_two[0].count), (1, 2));
    let done = Filter {
        states: State::Done.into(),
        ..Filter::default()
    };
    assert_eq!(groups(world, done, 10), []);
}

fn a_waiting_job_is_returned_with_all_details(world: &mut World) {
    let queue = world.queue_with("mails", QueuePolicy::default());
    let options = Options {
        tries: Some(3),
        backoff_ms: vec![1, 2],
        ..Options::default()
    };
    let new = NewJob {
        class: 2,
        options: Some(Box::new(options)),
        ..job_of(queue, b"t")
    };
    let id = world.add(new.clone());
    let view = world.view(id).unwrap();
    assert_eq!(
        (view.id, view.queue, view.state, view.class),
        (id, queue, State::Ready, 2)
    );
    assert_eq!(
        (view.key, view.options, view.created_ms),
        (new.key, new.options, world.now())
    );
    assert_eq!(
        (view.due_ms, view.ended_ms, view.progress),
        (world.now(), None, None)
    );
    let whole = view.whole.unwrap();
    assert_eq!(
        (whole.meta, whole.history, whole.output),
        (b"meta".to_vec(), vec![], None)
    );
    assert_eq!(whole.body.unwrap().bytes, b"body");
}
