//! A pool with tasks of which one runs until the end of the test.

use super::kind::Kind;
use serde_json::{Value, json};
use stoker_testkit::{App, Client, Request, WaitingWorker, until};
use stoker_wire::{Key, Status};

/// The number of workers that may die of one task.
pub(super) const BUDGET: u64 = 2;

fn call(body: &str) -> Request {
    Request::call("t.run", body).ttl(30_000)
}

fn push(body: &str) -> Request {
    Request::push("q", body).meta(Key::TRIES, 1u16.to_be_bytes())
}

/// Tasks that do no harm.
#[derive(Default)]
pub(super) struct Others {
    calls: Vec<(u32, String)>,
    jobs: Vec<(String, String)>,
}

impl Others {
    pub(super) fn send(&mut self, client: &mut Client, name: &str) {
        for number in 0..5 {
            let body = format!("{name} {number}");
            self.jobs.push((client.push(&push(&body)), body.clone()));
            self.calls.push((client.send(&call(&body)), body));
        }
    }

    /// Each is answered, and has run once.
    #[track_caller]
    pub(super) fn check(self, client: &mut Client) {
        for (id, body) in self.calls {
            assert_eq!(client.answer(id).text(), format!("done: {body}"));
        }
        for (id, body) in self.jobs {
            check_done(&client.job_in(&id, "done"), &body);
        }
    }
}

#[track_caller]
fn check_done(job: &Value, body: &str) {
    assert_eq!(job["result"], format!("done: {body}"));
    assert_eq!((&job["attempt"], &job["crashes"]), (&json!(1), &json!(0)));
}

/// A pool with a job that runs until the end of the test.
pub(super) struct Pool {
    pub(super) app: App,
    pub(super) client: Client,
    /// The job that runs.
    pub(super) waiting: String,
    pub(super) held: WaitingWorker,
}

impl Pool {
    #[track_caller]
    pub(super) fn start(kind: Kind, script: &str, keys: &str) -> Self {
        let keys = format!("workers = 3\ncrash_budget = {BUDGET}\n{keys}");
        let setup = kind.pool(script, &keys);
        let gate = setup.dir().gate("gate");
        let app = setup.start();
        let mut client = app.client();
        let waiting = client.push(&push("wait").meta(Key::TIMEOUT, 60_000u32.to_be_bytes()));
        let held = gate.wait_for_worker();
        Self {
            app,
            client,
            waiting,
            held,
        }
    }

    /// Runs the guilty task as a call and as a job, among others. Returns the status and text of the call, and the job.
    #[track_caller]
    pub(super) fn run_guilty(&mut self) -> (Status, String, Value) {
        let mut others = Others::default();
        others.send(&mut self.client, "before");
        let call = self.client.send(&call("act"));
        others.send(&mut self.client, "between");
        let job = self.client.push(&push("act"));
        others.send(&mut self.client, "after");
        others.check(&mut self.client);
        let answer = self.client.answer(call);
        let ended = |job: &Value| matches!(job["state"].as_str(), Some("done" | "failed"));
        let job = until("the guilty job has ended", || {
            Some(self.client.job(&job)).filter(ended)
        });
        (answer.status(), answer.text(), job)
    }

    /// The pool works after all that has happened, and the job that ran meanwhile is done.
    #[track_caller]
    pub(super) fn finish(mut self) {
        drop(self.held);
        check_done(&self.client.job_in(&self.waiting, "done"), "wait");
        let mut others = Others::default();
        others.send(&mut self.client, "last");
        others.check(&mut self.client);
        self.app.ready();
        let ended = self.app.stop();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
}
