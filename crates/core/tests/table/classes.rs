//! Tests of priority, and of ageing, which overcomes it.
use crate::support::*;
use stoker_core::*;

fn ageing(step: Span) -> (World, NameId, TaskId) {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(
        pool,
        "mail",
        QueueConfig {
            age_step: step,
            ..QueueConfig::default()
        },
    );
    let first = w.submit(job(mail));
    (w, mail, first)
}

#[test]
fn a_lower_class_goes_first() {
    let (mut w, mail, running) = ageing(secs(5));
    let low = w.submit(job(mail).class(7));
    let high = w.submit(job(mail).class(0));
    w.done(running);
    assert!(w.on(high).is_some());
    w.done(high);
    assert!(w.on(low).is_some());
}

#[test]
fn within_a_class_it_is_first_come_first_served() {
    let (mut w, mail, running) = ageing(secs(5));
    let tasks = w.submit_many(3, &job(mail));
    w.done(running);
    for task in tasks {
        assert!(w.on(task).is_some());
        w.done(task);
    }
}

/// A task of class c precedes one of class 0 that arrived more than c steps later.
#[test]
fn age_overcomes_priority() {
    for (wait, old_first) in [(secs(9), false), (secs(11), true)] {
        let (mut w, mail, running) = ageing(secs(5));
        let old = w.submit(job(mail).class(2));
        w.pass(wait);
        let young = w.submit(job(mail).class(0));
        w.done(running);
        assert_eq!(w.on(old).is_some(), old_first, "after {wait:?}");
        assert_eq!(w.on(young).is_some(), !old_first, "after {wait:?}");
    }
}

#[test]
fn without_ageing_classes_are_strict() {
    let (mut w, mail, running) = ageing(Span::FOREVER);
    let old = w.submit(job(mail).class(2));
    let older_still = w.submit(job(mail).class(1));
    w.pass(secs(50));
    let young = w.submit(job(mail).class(0));
    w.done(running);
    assert!(w.on(young).is_some());
    w.done(young);
    assert!(w.on(older_still).is_some());
    w.done(older_still);
    assert!(w.on(old).is_some());
}

/// A class above the last one counts as the last.
#[test]
fn there_are_eight_classes() {
    let (mut w, mail, running) = ageing(secs(5));
    let beyond = w.submit(job(mail).class(200));
    let last = w.submit(job(mail).class(7));
    w.done(running);
    assert!(w.on(beyond).is_some());
    w.done(beyond);
    assert!(w.on(last).is_some());
}
