//! Which requests a token permits.

use crate::token::{Role, Token};
use serde::Deserialize;
use stoker_api::OPERATIONS;
use stoker_session::Rejection;
use stoker_wire::{Frame, Hello, Key, Role as PeerRole, Status, service_of};

/// The maximum body size of a request to the server's own methods, which is buffered to read its field `op`.
const MAX_OPERATION: usize = 256 << 10;

/// The decision about a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Forward,
    /// Decided by [`check_operation`] when the body has arrived.
    NeedsBody,
    Reject(Rejection),
}

/// Checks a request of a client by its name and metadata. `body` is the length of its body.
pub(super) fn check_request(token: &Token, frame: &Frame<'_>, body: usize) -> Verdict {
    if token.has(Role::Admin) {
        return Verdict::Forward;
    }
    if frame.name == "stoker.push" {
        let queue = frame.meta.text(Key::QUEUE).unwrap_or_default();
        return match token.permits_queue(Role::Push, queue) {
            true => Verdict::Forward,
            false => Verdict::Reject(queue_denied(token, queue)),
        };
    }
    if frame.name.starts_with("stoker.") {
        return match body <= MAX_OPERATION {
            true => Verdict::NeedsBody,
            false => Verdict::Reject(missing_role(token, frame.name, Role::Admin)),
        };
    }
    match token.permits_method(Role::Call, frame.name) {
        true => Verdict::Forward,
        false if token.has(Role::Call) => {
            let (name, service) = (&token.name, service_of(frame.name));
            Verdict::Reject(Rejection::denied(format!(
                "token '{name}' does not permit calls of the service '{service}': add it with 'stoker token set {name} --services', which replaces the whole list"
            )))
        }
        false => Verdict::Reject(missing_role(token, frame.name, Role::Call)),
    }
}

fn queue_denied(token: &Token, queue: &str) -> Rejection {
    let name = &token.name;
    match token.has(Role::Push) {
        true => Rejection::denied(format!(
            "token '{name}' does not permit pushes to the queue '{queue}': add it with 'stoker token set {name} --queues', which replaces the whole list"
        )),
        false => missing_role(token, "stoker.push", Role::Push),
    }
}

fn missing_role(token: &Token, what: &str, needed: Role) -> Rejection {
    let name = &token.name;
    Rejection::denied(format!(
        "token '{name}' does not permit {what}: it needs the role {needed}"
    ))
}

#[derive(Deserialize)]
struct Operation {
    op: String,
}

/// Checks a request to one of the server's own methods by its body.
pub(super) fn check_operation(token: &Token, method: &str, body: &[u8]) -> Result<(), Rejection> {
    // serde would accept a JSON array as the fields in their order.
    let is_object = body.trim_ascii_start().first() == Some(&b'{');
    let parsed = serde_json::from_slice(body).ok().filter(|_| is_object);
    let Some(Operation { op }) = parsed else {
        let text = format!("{method}: expected a JSON object with the field op");
        return Err(Rejection::new(Status::INVALID_ARGUMENT, text));
    };
    let mut known = OPERATIONS.iter();
    let known = known.find(|known| known.method == method && known.op == op);
    // Every token permits this one, because the server checks that the job belongs to the token.
    let shows_job = method == "stoker.job" && op == "show";
    let needed = match known {
        Some(known) if known.only_reads => Role::Read,
        _ => Role::Admin,
    };
    match shows_job || token.has(needed) {
        true => Ok(()),
        false => Err(missing_role(token, &format!("{method} {op}"), needed)),
    }
}

/// Checks that the token permits the role of a peer, and the queues and services that a worker offers.
pub(super) fn check_hello(token: &Token, hello: &Hello) -> Result<(), Rejection> {
    let name = &token.name;
    if hello.role != PeerRole::Worker {
        let is_client = token.roles.iter().any(|role| *role != Role::Work);
        return match is_client && hello.role == PeerRole::Client {
            true => Ok(()),
            false => Err(Rejection::denied(format!(
                "token '{name}' is only for workers: it needs one of the roles push, call, read, admin"
            ))),
        };
    }
    if !token.has(Role::Work) && !token.has(Role::Admin) {
        return Err(missing_role(token, "workers", Role::Work));
    }
    let mut queues = hello.jobs.iter();
    if let Some(queue) = queues.find(|queue| !serves_queue(token, queue)) {
        return Err(Rejection::denied(format!(
            "token '{name}' does not permit workers of the queue '{queue}': add it with 'stoker token set {name} \
             --queues', which replaces the whole list"
        )));
    }
    let mut calls = hello.calls.iter().chain(&hello.idempotent);
    match calls.find(|call| !token.permits_method(Role::Work, call)) {
        Some(call) => Err(Rejection::denied(format!(
            "token '{name}' does not permit workers of the service '{call}': add it with 'stoker token set {name} \
             --services', which replaces the whole list"
        ))),
        None => Ok(()),
    }
}

/// Whether a worker may serve a queue. `*` means every queue, so only the pattern `*` permits it.
fn serves_queue(token: &Token, queue: &str) -> bool {
    match queue {
        "*" => token.has(Role::Admin) || token.queues.iter().any(|pattern| pattern == "*"),
        _ => token.permits_queue(Role::Work, queue),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoker_wire::{Encode, MetaBuf, Type, encode, parse};

    fn token(roles: &[Role]) -> Token {
        Token {
            name: "web".to_owned(),
            roles: roles.to_vec(),
            queues: vec!["mail-*".to_owned()],
            services: vec!["users".to_owned()],
            ..Token::default()
        }
    }

    fn verdict(roles: &[Role], name: &str, queue: &str) -> Verdict {
        let mut meta = MetaBuf::new();
        if !queue.is_empty() {
            meta.push(Key::QUEUE, queue.as_bytes());
        }
        let mut bytes = Vec::new();
        encode(
            &mut bytes,
            Encode {
                name,
                meta: meta.as_meta(),
                ..Encode::new(Type::Req, 1)
            },
        );
        let (frame, _) = parse(&bytes, 1 << 20).unwrap().unwrap();
        check_request(&token(roles), &frame, 0)
    }

    #[test]
    fn requests_need_a_role_and_a_pattern() {
        use Role::{Admin, Call, Push, Read, Work};
        assert_eq!(verdict(&[Push], "stoker.push", "mail-a"), Verdict::Forward);
        assert_eq!(verdict(&[Admin], "stoker.push", "other"), Verdict::Forward);
        assert_eq!(verdict(&[Call], "users.get", ""), Verdict::Forward);
        assert_eq!(verdict(&[Read], "stoker.job", ""), Verdict::NeedsBody);
        for (roles, name, queue) in [
            (&[Push][..], "stoker.push", "other"),
            (&[Push], "stoker.push", ""),
            (&[Push], "users.get", ""),
            (&[Call], "shop.get", ""),
            (&[Call, Read], "stoker.push", "mail-a"),
            (&[Work], "users.get", ""),
            (&[Work], "stoker.push", "mail-a"),
        ] {
            let rejected = verdict(roles, name, queue);
            assert!(
                matches!(rejected, Verdict::Reject(_)),
                "{roles:?} {name} {queue}"
            );
        }
    }

    /// Every operation of the API either only reads or is reserved for administrators.
    #[test]
    fn operations_need_read_or_admin() {
        for known in OPERATIONS {
            let body = format!("{{\"op\": \"{}\"}}", known.op);
            let allowed =
                |role| check_operation(&token(&[role]), known.method, body.as_bytes()).is_ok();
            let shows_job = known.method == "stoker.job" && known.op == "show";
            assert!(
                allowed(Role::Admin) || known.only_reads,
                "{} {}",
                known.method,
                known.op
            );
            assert_eq!(allowed(Role::Read), known.only_reads);
            assert_eq!(allowed(Role::Push), shows_job);
        }
        for body in [
            "",
            "[]",
            "{}",
            "{\"op\":1}",
            "{\"op\":\"list\",\"op\":\"list\"}",
            "[\"list\"]",
        ] {
            assert!(
                check_operation(&token(&[Role::Read]), "stoker.job", body.as_bytes()).is_err(),
                "{body}"
            );
        }
        let unknown = check_operation(&token(&[Role::Read]), "stoker.job", b"{\"op\":\"lists\"}");
        assert_eq!(unknown.unwrap_err().status, Status::PERMISSION_DENIED);
    }

    #[test]
    fn workers_may_offer_only_what_the_token_permits() {
        let worker = |jobs: &[&str], calls: &[&str]| Hello {
            role: PeerRole::Worker,
            jobs: jobs.iter().map(|job| (*job).to_owned()).collect(),
            calls: calls.iter().map(|call| (*call).to_owned()).collect(),
            ..Hello::default()
        };
        let work = token(&[Role::Work]);
        assert!(check_hello(&work, &worker(&["mail-a"], &["users.get"])).is_ok());
        assert!(check_hello(&work, &worker(&["other"], &[])).is_err());
        assert!(check_hello(&work, &worker(&["*"], &[])).is_err());
        assert!(check_hello(&work, &worker(&[], &["shop.get"])).is_err());
        assert!(check_hello(&token(&[Role::Push]), &worker(&["mail-a"], &[])).is_err());
        assert!(check_hello(&work, &Hello::default()).is_err());
        assert!(check_hello(&token(&[Role::Push]), &Hello::default()).is_ok());
        let gateway = Hello {
            role: PeerRole::Gateway,
            ..Hello::default()
        };
        assert!(check_hello(&token(&[Role::Admin]), &gateway).is_err());
    }
}
