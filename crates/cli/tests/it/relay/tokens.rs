//! What tokens permit, and their life.

use super::{admin, client, rejected, remote, start, token};
use serde_json::json;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use stoker_testkit::{Request, until};
use stoker_wire::{Key, Status, Type};

#[test]
fn each_role_permits_its_commands_only() {
    let app = start("[queue.mails]\n[queue.other]");
    let push = token(&app, "push", &["--roles", "push", "--queues", "mail*"]);
    let call = token(&app, "call", &["--roles", "call", "--services", "echo"]);
    let read = token(&app, "read", &["--roles", "read"]);
    let admin = admin(&app);
    let code = |token: &str, words: &[&str]| remote(&app, token, words).code;
    let pushed = remote(&app, &push, &["push", "mails", "\"note hello\""]);
    assert_eq!(pushed.code, 0, "{}", pushed.stderr);
    let id = pushed.stdout.trim();
    for (token, words, expected) in [
        (&push, &["push", "other", "1"][..], 77),
        (&push, &["call", "echo.x"], 77),
        (&push, &["queues"], 77),
        (&push, &["jobs", "show", id], 0),
        (&push, &["jobs", "list"], 77),
        (&push, &["pause", "mails"], 77),
        (&call, &["push", "mails", "1"], 77),
        (&call, &["jobs", "show", id], 77),
        (&call, &["call", "other.x"], 77),
        (&read, &["queues"], 0),
        (&read, &["workers"], 0),
        (&read, &["jobs", "list"], 0),
        (&read, &["jobs", "show", id], 0),
        (&read, &["jobs", "cancel", id, "--yes"], 77),
        (&read, &["pause", "mails"], 77),
        (&read, &["push", "mails", "1"], 77),
        (&admin, &["pause", "mails"], 0),
        (&admin, &["push", "mails", "1"], 0),
        (&admin, &["jobs", "list"], 0),
    ] {
        assert_eq!(code(token, words), expected, "{} {words:?}", &token[..5]);
    }
    let refused = remote(&app, &push, &["push", "other", "1"]).stderr;
    assert!(
        refused.contains("stoker token set push --queues"),
        "{refused}"
    );
}

/// Jobs belong to the token that pushed them, also for other tokens with the same role.
#[test]
fn jobs_belong_to_their_token() {
    let app = start("[queue.mails]");
    let options = ["--roles", "push", "--queues", "*"];
    let (one, other) = (token(&app, "one", &options), token(&app, "other", &options));
    let mut owner = client(&app, &one);
    let key = Request::push("mails", "note x").meta(Key::IDEMPOTENCY, "k");
    let id = owner.push(&key);
    let job = owner.job_in(&id, "done");
    assert_eq!(job["queue"], "mails");
    let mut stranger = client(&app, &other);
    let show = json!({"op": "show", "id": id});
    let refused = stranger
        .try_call_server("stoker.job", &show)
        .expect_err("it is another's");
    assert_eq!(refused.status(), Status::PERMISSION_DENIED);
    let exported = app.cli(&["jobs", "export", &id]).stdout;
    assert!(exported.contains("\"owner\":\"token:one\""), "{exported}");
    let repeated = stranger.request(&key);
    assert_eq!(repeated.status(), Status::ALREADY_EXISTS);
}

#[test]
fn a_wrong_token_is_rejected_with_advice() {
    let app = start("");
    let valid = token(&app, "web", &["--roles", "read"]);
    for (given, advice) in [
        (json!(null), "STOKER_TOKEN"),
        (json!("web"), "stoker token list"),
        (json!("web.wrong"), "stoker token list"),
        (json!("other.wrong"), "stoker token list"),
        (json!(format!("{valid}0")), "stoker token list"),
    ] {
        let hello = json!({"v": [1], "role": "client", "token": given});
        let answer = rejected(&app, &hello);
        assert_eq!(answer.status(), Status::UNAUTHENTICATED, "{given}");
        assert!(answer.text().contains(advice), "{}", answer.text());
    }
    app.wait_for_log("warn gateway relay: rejected a connection from 127.0.0.1");
}

/// A peer can claim neither to be a gateway nor to be identified by one.
#[test]
fn a_peer_cannot_claim_another_identity() {
    let app = start("");
    let push = token(&app, "web", &["--roles", "push", "--queues", "nothing"]);
    let relayed = json!({"token": "x", "owner": "uid:0", "admin": true});
    let hello =
        json!({"v": [1], "role": "client", "token": push, "uid": 0, "relayed": relayed, "pid": 1});
    let mut claims = super::connect(&app, &hello).expect("it is a client");
    let refused = claims.try_call_server("stoker.queue", &json!({"op": "list"}));
    assert_eq!(
        refused.expect_err("it is not an administrator").status(),
        Status::PERMISSION_DENIED
    );
    let gateway = json!({"v": [1], "role": "gateway", "token": push, "uid": 0});
    assert_eq!(rejected(&app, &gateway).status(), Status::PERMISSION_DENIED);
    let on_socket = json!({"v": [1], "role": "client", "relayed": relayed});
    let mut client = stoker_testkit::Client::connect_without_hello(&app.socket());
    client.hello(&on_socket);
    assert_eq!(
        client.frame().expect("an answer").status(),
        Status::UNAUTHENTICATED
    );
}

#[test]
fn a_revoked_token_ends_its_connections() {
    let app = start("");
    let read = token(&app, "web", &["--roles", "read"]);
    let mut open = client(&app, &read);
    open.call_server("stoker.queue", &json!({"op": "list"}));
    assert_eq!(app.cli_with(&[], &["token", "revoke", "web"]).code, 0);
    let told = open.frame().expect("an answer with the reason");
    assert_eq!(
        (told.kind, told.status()),
        (Type::Res, Status::UNAUTHENTICATED)
    );
    assert!(open.frame().is_none());
    let hello = json!({"v": [1], "role": "client", "token": read});
    assert_eq!(rejected(&app, &hello).status(), Status::UNAUTHENTICATED);
}

#[test]
fn a_rotated_token_keeps_its_old_secret_for_the_overlap() {
    let app = start("");
    let before = token(&app, "web", &["--roles", "read"]);
    let rotate = |words: &[&str]| {
        let words = [&["token", "rotate", "web"], words].concat();
        app.cli_with(&[], &words).stdout.trim().to_owned()
    };
    let after = rotate(&["--overlap", "1h"]);
    assert_eq!(remote(&app, &after, &["queues"]).code, 0);
    assert_eq!(remote(&app, &before, &["queues"]).code, 0);
    let mut open = client(&app, &after);
    let last = rotate(&[]);
    assert_eq!(
        open.frame().expect("an answer with the reason").status(),
        Status::UNAUTHENTICATED
    );
    assert_eq!(remote(&app, &after, &["queues"]).code, 77);
    assert_eq!(remote(&app, &last, &["queues"]).code, 0);
}

/// A certificate replaces the secrets of a token: otherwise a leaked secret would still be accepted.
#[test]
fn a_token_that_is_bound_to_a_certificate_loses_its_secrets() {
    let app = start("");
    let secret = token(&app, "web", &["--roles", "read"]);
    let mut open = client(&app, &secret);
    let set = |certificate: &str| {
        let words = ["token", "set", "web", "--certificate", certificate];
        app.cli_with(&[], &words).stdout
    };
    let told = set("web.internal");
    assert!(told.contains("its secrets are no longer valid"), "{told}");
    let last = open.frame().expect("an answer with the reason");
    assert_eq!(last.status(), Status::UNAUTHENTICATED);
    assert_eq!(remote(&app, &secret, &["queues"]).code, 77);
    let rotated = app.cli_with(&[], &["token", "rotate", "web"]);
    assert_eq!(rotated.code, 1, "{}", rotated.stderr);
    assert!(
        rotated.stderr.contains("--certificate none"),
        "{}",
        rotated.stderr
    );
    let told = set("none");
    assert!(told.contains("stoker token rotate web"), "{told}");
    assert_eq!(remote(&app, &secret, &["queues"]).code, 77);
    let again = app.cli_with(&[], &["token", "rotate", "web"]).stdout;
    assert_eq!(remote(&app, again.trim(), &["queues"]).code, 0);
}

/// The server's user must be able to read the file that root creates for it.
#[test]
fn the_first_token_that_root_creates_belongs_to_the_user_of_the_server() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let app = start("");
    let create = |file: &Path| {
        let file = file.display().to_string();
        let words = [
            "token", "create", "web", "--roles", "read", "--tokens", &file,
        ];
        app.cli_with(&[], &words)
    };
    let owner = |path: &Path| std::fs::metadata(path).expect("it exists").uid();
    let own = app.dir.file("own");
    std::fs::create_dir(&own).expect("it is ours");
    chown(&own, Some(65_534), Some(65_534)).expect("root may");
    assert_eq!(create(&own.join("stoker.tokens")).stderr, "");
    assert_eq!(owner(&own.join("stoker.tokens")), 65_534);
    let of_root = app.dir.file("root.tokens");
    let told = create(&of_root).stderr;
    assert!(told.contains("run chown USER"), "{told}");
    assert_eq!(owner(&of_root), 0);
    // Without --tokens, the owner of the server's socket is the server's user.
    chown(app.socket(), Some(65_534), Some(65_534)).expect("root may");
    assert_eq!(token(&app, "web", &["--roles", "read"]).len(), 68);
    assert_eq!(owner(&app.dir.file("stoker.tokens")), 65_534);
}

/// What a token permits can change while its connections are open.
#[test]
fn changed_roles_apply_to_open_connections() {
    let app = start("[queue.mails]");
    let name = token(&app, "web", &["--roles", "read"]);
    let mut open = client(&app, &name);
    let push = Request::push("mails", "note x");
    assert_eq!(open.request(&push).status(), Status::PERMISSION_DENIED);
    let set = [
        "token",
        "set",
        "web",
        "--roles",
        "read,push",
        "--queues",
        "mails",
    ];
    assert_eq!(app.cli_with(&[], &set).code, 0);
    until("it may push", || {
        (open.request(&push).status() == Status::OK).then_some(())
    });
    let less = ["token", "set", "web", "--roles", "push"];
    assert_eq!(app.cli_with(&[], &less).code, 0);
    until("it is disconnected", || {
        open.frame().is_none().then_some(())
    });
    assert_eq!(app.cli_with(&[], &set).code, 0);
    let listed = app.cli_with(&[], &["token", "list"]).stdout;
    assert!(listed.contains("read,push"), "{listed}");
}

#[test]
fn many_failed_attempts_must_wait() {
    let app = start("");
    let valid = token(&app, "web", &["--roles", "read"]);
    let hello = |token: &str| json!({"v": [1], "role": "client", "token": token});
    let wrong = hello("web.wrong");
    for _ in 0..10 {
        assert_eq!(rejected(&app, &wrong).status(), Status::UNAUTHENTICATED);
    }
    let waits = rejected(&app, &wrong);
    assert_eq!(waits.status(), Status::RESOURCE_EXHAUSTED);
    assert!(
        waits
            .uint(Key::RETRY_AFTER)
            .is_some_and(|ms| ms > 0 && ms <= 6_000)
    );
    // Other peers may share the address.
    assert!(super::connect(&app, &hello(&valid)).is_some());
}
