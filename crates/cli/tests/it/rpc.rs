//! Calls: many at once, in any order, with and without a deadline.

use crate::{start, start_of};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use stoker_testkit::{Client, Request, frame, until};
use stoker_wire::{Codec, Encode, Flags, Key, Status, Type};

fn told(answer: &stoker_testkit::Received) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{}", answer.text()))
}

#[test]
fn each_of_many_calls_gets_its_own_answer() {
    let app = start("workers = 2");
    let mut client = app.client();
    let asks: Vec<Request> = (0..1_000)
        .map(|n| Request::call("t.run", format!("ok {n}")))
        .collect();
    for (n, id) in client.send_all(&asks).into_iter().enumerate() {
        assert_eq!(client.answer(id).text(), n.to_string());
    }
}

#[test]
fn a_slow_call_does_not_delay_later_ones() {
    let app = start("workers = 2");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let slow = client.send(&Request::call("t.run", "gate gate;ok slow"));
    let held = gate.wait_for_worker();
    let quick = client.send(&Request::call("t.run", "ok quick"));
    assert_eq!(client.any_answer().id, quick, "the later one comes first");
    drop(held);
    assert_eq!(client.answer(slow).text(), "slow");
}

#[test]
fn several_slots_answer_out_of_order() {
    let app = start_of("slots 3;serve", "workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let first = client.send(&Request::call("t.run", "gate gate;ok first"));
    let held = gate.wait_for_worker();
    assert_eq!(client.call("t.run", "ok second").text(), "second");
    assert_eq!(client.call("t.run", "ok third").text(), "third");
    drop(held);
    assert_eq!(client.answer(first).text(), "first");
}

#[test]
fn clients_receive_only_their_own_responses() {
    let app = start("workers = 2");
    let mut clients: Vec<Client> = (0..20).map(|_| app.client()).collect();
    let ids: Vec<u32> = clients
        .iter_mut()
        .enumerate()
        .map(|(n, client)| client.send(&Request::call("t.run", format!("ok {n}"))))
        .collect();
    assert!(
        ids.iter().all(|id| *id == ids[0]),
        "all chose the same number"
    );
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.answer(ids[n]).text(), n.to_string());
    }
}

#[test]
fn a_response_passes_unchanged() {
    let app = start("workers = 1");
    let mut client = app.client();
    let json = Request::call("t.run", "{\"a\":1}").codec(Codec::JSON);
    let echoed = client.request(&json);
    assert_eq!(
        (echoed.text().as_str(), echoed.prio),
        ("{\"a\":1}", Codec::JSON.0)
    );
    for code in [1u8, 3, 5, 12, 64, 77, 255] {
        let answer = client.call("t.run", &format!("fail {code} because"));
        assert_eq!((answer.code, answer.text().as_str()), (code, "because"));
    }
    let answer = client.call("t.run", "sleep 5");
    assert!(answer.uint(Key::QUEUE_TIME).is_some());
    assert_eq!(answer.meta(Key::WORKER).as_deref(), Some("p-1"));
    assert!(
        answer.ttl >= 5_000,
        "microseconds that the worker measured: {}",
        answer.ttl
    );
}

#[test]
fn a_request_passes_unchanged() {
    let app = start("workers = 1");
    let ask = Request::call("t.run", "tell")
        .prio(5)
        .ttl(5_000)
        .key("tenant")
        .codec(Codec::MSGPACK)
        .meta(Key(0x80), "my own");
    let told = told(&app.client().request(&ask));
    assert_eq!(told["name"], "t.run");
    assert_eq!(told["prio"], 5);
    assert_eq!(told["codec"], 3);
    assert_eq!(told["key"], "tenant");
    assert_eq!(told["own"], "my own");
    assert_eq!(told["job"], json!(null));
    let ttl = told["ttl"].as_u64().unwrap_or(0);
    assert!(
        (4_000..=5_000).contains(&ttl),
        "what is left of its time: {ttl}"
    );
}

#[test]
fn large_bodies_pass_in_both_directions() {
    let app = start("workers = 1");
    let body = format!("[{}1]", "0,".repeat(4 << 20));
    assert_eq!(app.call("t.run", &body).body, body.as_bytes());
    assert_eq!(app.call("t.run", "big 10000000").body.len(), 10_000_000);
}

#[test]
fn requests_beyond_the_limit_of_a_connection_are_rejected() {
    let app = start("workers = 2\n[stoker]\nmax_inflight = 3");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    assert_eq!(client.welcome["max_inflight"], 3);
    let calls: Vec<u32> = (0..3)
        .map(|_| client.send(&Request::call("t.run", "gate gate")))
        .collect();
    let refused = client.call("t.run", "note no");
    assert_eq!(refused.status(), Status::RESOURCE_EXHAUSTED);
    assert!(refused.uint(Key::RETRY_AFTER) > Some(0));
    assert!(refused.flags.has(Flags::NOT_PROCESSED));
    gate.open();
    for id in calls {
        assert_eq!(client.answer(id).status(), Status::OK);
    }
    assert_eq!(
        client.call("t.run", "ok").status(),
        Status::OK,
        "there is room again"
    );
    assert!(app.dir.notes().is_empty());
}

#[test]
fn too_many_waiting_calls_of_a_service_are_rejected() {
    let app = start("workers = 1\n[service.t]\nmax_waiting = 4");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let running = client.send(&Request::call("t.run", "gate gate"));
    let held = gate.wait_for_worker();
    let waiting: Vec<u32> = (0..4)
        .map(|_| client.send(&Request::call("t.run", "ok")))
        .collect();
    let refused = client.call("t.run", "ok");
    assert_eq!(
        refused.status(),
        Status::RESOURCE_EXHAUSTED,
        "{}",
        refused.text()
    );
    assert!(refused.uint(Key::RETRY_AFTER) > Some(0));
    drop(held);
    for id in std::iter::once(running).chain(waiting) {
        assert_eq!(client.answer(id).status(), Status::OK);
    }
}

#[test]
fn a_call_that_would_wait_too_long_is_shed() {
    let app = start("workers = 1\n[service.t]\nmax_wait = \"50ms\"");
    let mut client = app.client();
    for _ in 0..16 {
        assert_eq!(client.call("t.run", "sleep 20").status(), Status::OK);
    }
    let asks: Vec<Request> = (0..40)
        .map(|_| Request::call("t.run", "sleep 20"))
        .collect();
    let ids = client.send_all(&asks);
    let answers: Vec<_> = ids.into_iter().map(|id| client.answer(id)).collect();
    let shed: Vec<_> = answers
        .iter()
        .filter(|it| it.status() == Status::SHED)
        .collect();
    assert!(shed.len() > 20, "{} of 40", shed.len());
    assert!(shed.iter().all(|it| it.uint(Key::RETRY_AFTER) > Some(0)));
    let served = answers
        .iter()
        .filter(|it| it.status() == Status::OK)
        .count();
    assert!(served >= 2, "some were served: {served}");
}

#[test]
fn the_memory_of_waiting_bodies_is_limited() {
    let app = start("workers = 1\n[stoker]\nmax_memory = \"1MB\"");
    let refused = app.call("t.run", &"x".repeat(2 << 20));
    assert_eq!(refused.status(), Status::RESOURCE_EXHAUSTED);
    assert!(
        refused.text().contains("stoker.max_memory"),
        "{}",
        refused.text()
    );
    let push = app
        .client()
        .request(&Request::push("mails", "x".repeat(2 << 20)));
    assert_eq!(push.status(), Status::RESOURCE_EXHAUSTED);
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
}

#[test]
fn waiting_calls_of_a_disconnected_client_are_cancelled() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut stays = app.client();
    let running = stays.send(&Request::call("t.run", "gate gate;ok"));
    let held = gate.wait_for_worker();
    let mut goes = app.client();
    goes.send(&Request::call("t.run", "note cancelled"));
    goes.send(&Request::call("t.run", "note one-way").flag(Flags::ONEWAY));
    goes.fence();
    drop(goes);
    until("only the one-way call waits", || {
        (stays.queue("t")["ready"] == 1).then_some(())
    });
    drop(held);
    assert_eq!(stays.answer(running).status(), Status::OK);
    stays.call("t.run", "note last");
    assert_eq!(app.dir.notes(), ["one-way", "last"]);
}

#[test]
fn a_worker_with_soft_cancel_is_notified_when_its_caller_disconnects() {
    let app = start_of("soft-cancel;serve", "workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    client.send(&Request::call("t.run", "gate gate;await-cancel;note heard"));
    let held = gate.wait_for_worker();
    drop(client);
    drop(held);
    until("the worker has heard", || app.dir.notes().first().cloned());
    assert_eq!(app.call("t.run", "ok next").text(), "next");
    assert_eq!(app.pool()["restarts"], 0);
}

#[test]
fn a_cancelled_waiting_call_never_runs_and_is_not_answered() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let running = client.send(&Request::call("t.run", "gate gate;ok"));
    let held = gate.wait_for_worker();
    let waiting = client.send(&Request::call("t.run", "note no"));
    client.cancel(waiting);
    client.cancel(4_000);
    client.fence();
    drop(held);
    client.answer(running);
    client.call("t.run", "note yes");
    assert!(!client.has_answer(waiting));
    assert_eq!(app.dir.notes(), ["yes"]);
}

#[test]
fn a_cancelled_running_call_is_not_answered_and_its_id_is_free() {
    let app = start_of("soft-cancel;serve", "workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let running = client.send(&Request::call("t.run", "gate gate;await-cancel;note heard"));
    let held = gate.wait_for_worker();
    client.cancel(running);
    client.fence();
    drop(held);
    assert_eq!(client.call("t.run", "note next").status(), Status::OK);
    assert!(!client.has_answer(running));
    assert_eq!(app.dir.notes(), ["heard", "next"]);
}

#[test]
fn a_call_that_expires_in_the_queue_was_not_processed() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let running = client.send(&Request::call("t.run", "gate gate"));
    let held = gate.wait_for_worker();
    let began = Instant::now();
    let answer = client.request(&Request::call("t.run", "note no").ttl(100));
    assert_eq!(answer.status(), Status::DEADLINE_EXCEEDED);
    assert!(answer.flags.has(Flags::NOT_PROCESSED));
    assert!(began.elapsed() >= Duration::from_millis(100));
    drop(held);
    client.answer(running);
    assert!(app.dir.notes().is_empty());
}

/// Issue 10. The call ran beside a job that took too long, and waits again because their worker was killed.
#[test]
fn a_retried_call_that_expires_while_waiting_may_have_been_processed() {
    let worker = "if booted silence;once booted;slots 2;hello;serve";
    let app = start_of(worker, "workers = 1\nkill_grace = \"0s\"");
    let (gate, mut client) = (app.dir.gate("gate"), app.client());
    let cut_off = client.send(
        &Request::call("t.run", "gate gate")
            .flag(Flags::IDEMPOTENT)
            .ttl(2_000),
    );
    let held = gate.wait_for_worker();
    let slow = Request::push("mails", "sleep 60000").meta(Key::TIMEOUT, 300u32.to_be_bytes());
    client.push(&slow);
    let answer = client.answer(cut_off);
    assert_eq!(answer.status(), Status::DEADLINE_EXCEEDED);
    assert!(!answer.flags.has(Flags::NOT_PROCESSED));
    assert!(app.log().contains("died with signal 9"), "{}", app.log());
    drop(held);
}

#[test]
fn a_call_that_expires_while_running_reports_it() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let id = client.send(&Request::call("t.run", "gate gate;note late").ttl(100));
    let held = gate.wait_for_worker();
    let answer = client.answer(id);
    assert_eq!(answer.status(), Status::DEADLINE_EXCEEDED);
    assert!(!answer.flags.has(Flags::NOT_PROCESSED));
    drop(held);
    assert_eq!(
        client.call("t.run", "ok next").text(),
        "next",
        "the late answer is nobody's"
    );
    assert_eq!(app.dir.notes(), ["late"]);
}

#[test]
fn a_call_without_a_timeout_has_the_timeout_of_its_service() {
    let app = start("workers = 1\n[service.t]\ntimeout = \"150ms\"");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let id = client.send(&Request::call("t.run", "gate gate"));
    let held = gate.wait_for_worker();
    assert_eq!(client.answer(id).status(), Status::DEADLINE_EXCEEDED);
    drop(held);
    let ttl = told(&client.request(&Request::call("t.run", "tell").ttl(5_000)))["ttl"].as_u64();
    assert!(ttl > Some(1_000), "its caller's overrides it: {ttl:?}");
}

#[test]
fn a_one_way_call_is_never_answered() {
    let app = start("workers = 1");
    let mut client = app.client();
    let quiet: Vec<u32> = ["note run", "fail 64 no", "exit 1"]
        .map(|script| client.send(&Request::call("t.run", script).flag(Flags::ONEWAY)))
        .into();
    let unknown = client.send(&Request::call("no.such", "").flag(Flags::ONEWAY));
    until("the last has run", || {
        (app.pool()["restarts"] == 1).then_some(())
    });
    for id in quiet.into_iter().chain([unknown]) {
        assert!(!client.has_answer(id));
    }
    assert_eq!(app.dir.notes(), ["run"]);
}

fn numbered(id: u32, name: &str, body: &str, flags: Flags) -> Vec<u8> {
    frame(Encode {
        name,
        body: body.as_bytes(),
        flags,
        ..Encode::new(Type::Req, id)
    })
}

#[test]
fn one_way_calls_may_share_an_id_and_do_not_reserve_it() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    client.write(&numbered(7, "t.run", "gate gate;note first", Flags::ONEWAY));
    let held = gate.wait_for_worker();
    client.write(&numbered(7, "t.run", "note second", Flags::ONEWAY));
    client.write(&numbered(7, "t.run", "ok mine", Flags::NONE));
    // CANCEL refers to the call that is to be answered, not to the one-way calls with the same number.
    client.cancel(7);
    client.write(&numbered(7, "t.run", "ok mine after all", Flags::NONE));
    drop(held);
    assert_eq!(client.answer(7).text(), "mine after all");
    assert!(!client.has_answer(7), "the others have none");
    assert_eq!(app.dir.notes(), ["first", "second"]);
}

#[test]
fn a_one_way_call_with_the_id_of_an_unanswered_request_is_a_protocol_error() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    client.write(&numbered(7, "t.run", "gate gate", Flags::NONE));
    let held = gate.wait_for_worker();
    client.write(&numbered(7, "t.run", "note no", Flags::ONEWAY));
    let fault = client.frame().expect("the reason");
    assert_eq!((fault.kind, fault.id), (Type::Res, 0));
    assert!(
        fault.text().contains("still unanswered"),
        "{}",
        fault.text()
    );
    assert!(client.frame().is_none());
    drop(held);
    assert_eq!(app.call("t.run", "ok").status(), Status::OK);
    assert!(app.dir.notes().is_empty());
}

#[test]
fn one_way_calls_do_not_count_as_unanswered_and_are_dropped_silently() {
    let app = start("workers = 1\n[stoker]\nmax_inflight = 2");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let one_way = |script: &str| Request::call("t.run", script).flag(Flags::ONEWAY);
    let noted: Vec<Request> = (0..5).map(|n| one_way(&format!("note {n}"))).collect();
    client.send(&one_way("gate gate"));
    let held = gate.wait_for_worker();
    client.send_all(&noted);
    let calls = client.send_all(&[Request::call("t.run", "ok"), Request::call("t.run", "ok")]);
    let refused = client.send(&one_way("note refused"));
    client.fence();
    drop(held);
    for id in calls {
        assert_eq!(client.answer(id).status(), Status::OK);
    }
    assert!(!client.has_answer(refused));
    assert_eq!(app.dir.notes(), ["0", "1", "2", "3", "4"]);
}

#[test]
fn one_way_requests_to_the_server_are_executed_and_never_answered() {
    let rest = "workers = 1\n[queue.mails]\nmax_waiting = 2";
    let app = start_of("jobs mails,other;serve", rest);
    let mut client = app.client();
    let own = |name: &str, body: &str| Request::call(name, body).flag(Flags::ONEWAY);
    let push = |queue: &str| Request::push(queue, "ok").flag(Flags::ONEWAY);
    let unique = push("other").meta(Key::UNIQUE, "once");
    let mut quiet = client.send_all(&[
        own("stoker.queue", r#"{"op": "pause", "queue": "mails"}"#),
        own("stoker.queue", r#"{"op": "list"}"#),
        own("stoker.pool", r#"{"op": "reload"}"#),
        own("stoker.queue", r#"{"op": "pause", "queue": "other"}"#),
        unique.clone(),
        push("mails"),
        push("mails"),
        // None of the following can be carried out.
        push("mails"),
        unique,
        push("mial"),
        own("stoker.push", "ok"),
        own("stoker.queue", "{"),
        own("stoker.queue", r#"{"op": "pause", "queue": "mial"}"#),
        own("stoker.job", r#"{"op": "explode"}"#),
        own("stoker.nothing", ""),
    ]);
    until("two are taken", || {
        let queue = client.queue("mails");
        let all = queue["ready"] == 2 && client.queue("other")["ready"] == 1;
        (queue["paused"] == true && all).then_some(())
    });
    let full = client.request(&Request::push("mails", "ok"));
    assert_eq!(full.status(), Status::RESOURCE_EXHAUSTED);
    assert_eq!(client.queue("mails")["ready"], 2);
    assert_eq!(client.queue("other")["ready"], 1);
    app.wait_for_log("all workers of pool p run version 2");
    quiet.retain(|id| client.has_answer(*id));
    assert!(quiet.is_empty(), "answered: {quiet:?}");
}

#[test]
fn higher_priorities_run_first() {
    let app = start("workers = 1");
    let gate = app.dir.gate("gate");
    let mut client = app.client();
    let mut ids = vec![client.send(&Request::call("t.run", "gate gate"))];
    let held = gate.wait_for_worker();
    for prio in [7, 3, 0, 5, 3, 0] {
        let ask = Request::call("t.run", format!("note {prio}")).prio(prio);
        ids.push(client.send(&ask));
    }
    client.fence();
    drop(held);
    ids.into_iter().for_each(|id| drop(client.answer(id)));
    assert_eq!(app.dir.notes(), ["0", "0", "3", "3", "5", "7"]);
}

#[test]
fn a_call_that_would_wait_for_its_own_worker_is_rejected() {
    let app = start("workers = 1");
    let answer = app.call("t.run", "call t.run ok");
    assert!(
        answer.text().starts_with(
            "RESOURCE_EXHAUSTED every worker that could serve this call is itself waiting"
        ),
        "{}",
        answer.text()
    );
    assert_eq!(app.call("t.run", "ok free").text(), "free");
}

#[test]
fn a_nested_call_is_served_while_another_worker_is_free() {
    let app = start("workers = 2");
    assert_eq!(app.call("t.run", "call t.run ok inner").text(), "OK inner");
    // Two levels would need a third worker.
    let deep = app.call("t.run", "call t.run call t.run ok").text();
    assert!(deep.starts_with("OK RESOURCE_EXHAUSTED"), "{deep}");
}

#[test]
fn an_unknown_method_is_rejected_with_a_suggestion() {
    let app = start("workers = 1\n[service.users]");
    for (name, wanted) in [
        ("user.get", "no worker serves 'user'; did you mean 'users'?"),
        (
            "something.else",
            "no worker serves 'something'; expected one of: users, t",
        ),
        (
            "stoker.jobs",
            "unknown method 'stoker.jobs'; did you mean 'stoker.job'?",
        ),
    ] {
        let answer = app.call(name, "");
        assert_eq!(answer.text(), wanted);
        assert!(answer.flags.has(Flags::NOT_PROCESSED), "{name}");
    }
    assert_eq!(app.call("x.y", "").status(), Status::NO_WORKER);
    assert_eq!(app.call("stoker.jobs", "").status(), Status::UNIMPLEMENTED);
}

#[test]
fn a_critical_call_with_unknown_metadata_is_rejected() {
    let app = start("workers = 1");
    let plain = Request::call("t.run", "tell").meta(Key(0x70), "?");
    assert_eq!(app.client().request(&plain).status(), Status::OK);
    let critical = app.client().request(&plain.flag(Flags::CRITICAL));
    assert_eq!(critical.status(), Status::INVALID_ARGUMENT);
    assert!(critical.text().contains("metadata key 112"));
}

// Issue 9, A13.
#[test]
fn a_critical_call_may_use_all_known_and_application_keys() {
    let app = start("workers = 1");
    let mut client = app.client();
    for key in [Key::RETRY_UNTIL, Key::KEEP_RESULT, Key(0x80), Key(0xfe)] {
        let ask = Request::call("t.run", "ok").meta(key, [0; 8]);
        let answer = client.request(&ask.flag(Flags::CRITICAL));
        assert_eq!(answer.status(), Status::OK, "{key:?}: {}", answer.text());
    }
}

#[test]
fn a_client_that_does_not_read_affects_no_other_and_is_disconnected() {
    let app = start("workers = 2");
    let mut lazy = app.client();
    let asks: Vec<Request> = (0..6)
        .map(|_| Request::call("t.run", "big 8000000"))
        .collect();
    let ids = lazy.send_all(&asks);
    for n in 0..20 {
        assert_eq!(app.call("t.run", &format!("ok {n}")).text(), n.to_string());
    }
    // The timeout of ten seconds, and what a loaded machine adds, exceed the time that `wait_for_log` waits.
    let line = "a client did not read its answers for 10 s and is disconnected";
    stoker_testkit::pause(Duration::from_secs(8));
    app.wait_for_log(line);
    let answered = ids
        .iter()
        .filter(|id| lazy.try_answer(**id).is_some())
        .count();
    assert!(answered < ids.len(), "what it did not take is gone");
}

// Issue 9, A27.
#[test]
fn a_call_to_the_name_of_a_queue_is_rejected_with_a_hint() {
    let app = start("workers = 1\n[queue.mails]");
    for name in ["mails", "mails.send"] {
        let answer = app.call(name, "ok");
        assert_eq!(answer.status(), Status::NO_WORKER);
        let text = answer.text();
        assert!(
            text.contains("'mails' is a queue of jobs, not a service"),
            "{text}"
        );
    }
}
