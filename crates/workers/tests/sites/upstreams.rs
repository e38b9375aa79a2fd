//! What an adapter does when its upstream server starts slowly, dies, or closes connections. The servers are played by the test,
//! or are shell scripts.

use crate::message::Request;
use crate::php::SLOTS;
use crate::site::{Serve, Site};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::JoinHandle;
use stoker_testkit::{Dir, until};
use stoker_wire::{Flags, Key, Status};
use stoker_workers::{Settings, fastcgi, http};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";

fn settings(socket: &Path, command: &[&str]) -> Settings {
    Settings {
        slots: SLOTS,
        address: Some(socket.to_string_lossy().into_owned()),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        ..Settings::default()
    }
}

/// An adapter for a server that the test plays, and the listening socket of that server. The first connection is the adapter's
/// question whether the server is ready.
fn played(serve: Serve) -> (Site, UnixListener) {
    let dir = Dir::new();
    let socket = dir.file("up.sock");
    let listener = UnixListener::bind(&socket).expect("the folder is new");
    let site = Site::with(dir, serve, settings(&socket, &[]));
    drop(accept(&listener));
    (site, listener)
}

fn accept(listener: &UnixListener) -> UnixStream {
    let accepted = listener.accept();
    accepted.expect("the adapter connects").0
}

fn put(connection: &mut UnixStream, bytes: &[u8]) {
    connection.write_all(bytes).expect("the adapter reads");
}

/// Reads the head of a request.
fn read_head(connection: &UnixStream) -> String {
    let (mut reader, mut head) = (BufReader::new(connection), String::new());
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(
            reader.read_line(&mut head).expect("a request comes"),
            0,
            "{head}"
        );
    }
    head
}

#[test]
fn a_connection_is_used_again() {
    let (mut site, listener) = played(http::serve);
    let server = std::thread::spawn(move || {
        let mut connection = accept(&listener);
        for _ in 0..3 {
            let head = read_head(&connection);
            assert!(
                head.starts_with("GET /echo.php HTTP/1.1\r\nhost: shop.test:8443\r\n"),
                "{head}"
            );
            put(&mut connection, ANSWER);
        }
        listener
    });
    for _ in 0..3 {
        assert_eq!(site.ask(&Request::get("echo.php")).body(), b"hi");
    }
    server.join().unwrap();
}

/// Trailers come with the last part of an answer. An answer that comes as a whole has none.
#[test]
fn trailers_follow_an_answer_in_parts() {
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-sum: 7\r\ncontent-length: 9\r\n\r\n";
    let (mut site, listener) = played(http::serve);
    let server = std::thread::spawn(move || {
        let mut connection = accept(&listener);
        for _ in 0..2 {
            read_head(&connection);
            put(&mut connection, CHUNKED);
        }
    });
    let id = site.send(&Request::get("echo.php").credit(256 << 10));
    let (first, last) = (site.part(id), site.part(id));
    assert!(first.flags.has(Flags::MORE) && first.text().contains("trailer: x-sum"));
    assert!(!last.flags.has(Flags::MORE));
    assert_eq!(last.meta(Key::TRAILERS).as_deref(), Some("x-sum: 7\r\n"));
    assert_eq!(site.ask(&Request::get("echo.php")).body(), b"hi");
    server.join().unwrap();
}

/// Answers one request, reads a second one on the same connection, and closes that without an answer. The repeated request, if
/// one comes, is answered on a new connection.
fn close_instead_of_second(listener: UnixListener) -> JoinHandle<bool> {
    std::thread::spawn(move || {
        let mut connection = accept(&listener);
        read_head(&connection);
        put(&mut connection, ANSWER);
        read_head(&connection);
        drop(connection);
        let mut connection = accept(&listener);
        let is_repeated = read_head(&connection).starts_with("GET");
        put(&mut connection, ANSWER);
        is_repeated
    })
}

#[test]
fn an_idempotent_request_is_repeated_on_a_new_connection() {
    let (mut site, listener) = played(http::serve);
    let server = close_instead_of_second(listener);
    assert_eq!(site.ask(&Request::get("echo.php")).body(), b"hi");
    assert_eq!(site.ask(&Request::get("echo.php")).body(), b"hi");
    assert!(server.join().unwrap());
}

#[test]
fn another_request_is_not_repeated() {
    let (mut site, listener) = played(http::serve);
    let server = close_instead_of_second(listener);
    assert_eq!(site.ask(&Request::get("echo.php")).body(), b"hi");
    let reply = site.ask(&Request::post("echo.php", ""));
    assert_eq!(reply.status, Status::EXCEPTION);
    assert!(
        reply
            .text()
            .contains("closed the connection before it answered"),
        "{}",
        reply.text()
    );
    assert_eq!(site.ask(&Request::get("echo.php")).body(), b"hi");
    assert!(server.join().unwrap());
}

/// The server has closed the idle connection, which is noticed before a request is written to it.
#[test]
fn a_closed_connection_is_not_used() {
    let (mut site, listener) = played(http::serve);
    let server = std::thread::spawn(move || {
        for _ in 0..2 {
            let mut connection = accept(&listener);
            read_head(&connection);
            // The end of the connection arrives together with the answer.
            put(&mut connection, ANSWER);
        }
    });
    assert_eq!(site.ask(&Request::post("echo.php", "")).body(), b"hi");
    until("the server has closed the connection", || {
        (site.ask(&Request::post("echo.php", "")).status == Status::OK).then_some(())
    });
    server.join().unwrap();
}

#[test]
fn an_answer_that_ends_too_early_is_an_error() {
    for (serve, answer) in [
        (
            http::serve as Serve,
            &b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi"[..],
        ),
        (fastcgi::serve, b"\x01\x06\0\x01\0\x08\0\0A: b\n\nhi"),
    ] {
        let (mut site, listener) = played(serve);
        let server = std::thread::spawn(move || {
            let mut connection = accept(&listener);
            put(&mut connection, answer);
            // Bytes that nobody has read would reset the connection instead of ending it.
            connection.shutdown(std::net::Shutdown::Write).unwrap();
            drop(connection.read_to_end(&mut Vec::new()));
        });
        let reply = site.ask(&Request::get("echo.php"));
        assert_eq!(reply.status, Status::EXCEPTION);
        assert!(
            reply.text().contains("in the middle of the answer"),
            "{}",
            reply.text()
        );
        server.join().unwrap();
    }
}

/// More requests at once than the server has processes, which are occupied by connections that are kept.
#[test]
fn a_kept_connection_does_not_block_a_new_one() {
    let (mut site, listener) = played(http::serve);
    // One process: it serves one connection until the adapter closes that.
    let server = std::thread::spawn(move || {
        let mut answered = 0;
        while answered < 3 {
            let mut connection = accept(&listener);
            let mut first = [0; 1];
            while answered < 3 && connection.read(&mut first).unwrap() > 0 {
                read_head(&connection);
                if answered == 0 {
                    // The other requests are late by now, on connections that wait to be accepted.
                    stoker_testkit::pause(std::time::Duration::from_millis(200));
                }
                put(&mut connection, ANSWER);
                answered += 1;
            }
        }
    });
    let ids = [(); 3].map(|()| site.send(&Request::get("echo.php")));
    for id in ids {
        assert_eq!(site.answer(id).body(), b"hi");
    }
    server.join().unwrap();
}

/// An answer that has arrived as a whole is not cut into parts.
#[test]
fn a_short_answer_is_whole() {
    let (mut site, listener) = played(http::serve);
    let server = std::thread::spawn(move || {
        let mut connection = accept(&listener);
        read_head(&connection);
        put(&mut connection, ANSWER);
    });
    let reply = site.ask(&Request::get("echo.php").credit(256 << 10));
    assert_eq!(reply.body(), b"hi");
    server.join().unwrap();
}

/// The server answers the second request first.
#[test]
fn simultaneous_requests_use_separate_connections() {
    let (mut site, listener) = played(http::serve);
    let ids = [(); 2].map(|()| site.send(&Request::get("echo.php")));
    let mut connections = [(); 2].map(|()| accept(&listener));
    for connection in connections.iter_mut().rev() {
        read_head(connection);
        put(connection, ANSWER);
    }
    for id in ids {
        assert_eq!(site.answer(id).body(), b"hi");
    }
}

#[test]
fn a_cancelled_request_closes_its_connection() {
    let (mut site, listener) = played(http::serve);
    let id = site.send(&Request::get("echo.php"));
    let mut connection = accept(&listener);
    read_head(&connection);
    site.cancel(id);
    assert_eq!(connection.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(site.answer(id).status, Status::CANCELLED);
}

/// The adapter says HELLO only when the server accepts connections.
#[test]
fn a_server_that_is_not_ready_delays_hello() {
    let dir = Dir::new();
    let socket = dir.file("up.sock");
    let gate = dir.gate("gate");
    // Python opens the gate for reading before it listens.
    let script = format!(
        "import socket; open({:?}).read(); s = socket.socket(socket.AF_UNIX); s.bind({socket:?}); s.listen(); \
         [s.accept() for _ in range(1000)]",
        dir.file("gate")
    );
    let settings = settings(&socket, &["python3", "-c", &script]);
    let starting = Site::starting(dir, http::serve, settings);
    let waits = gate.wait_for_worker();
    assert!(starting.says_nothing());
    drop(waits);
    drop(starting.hello());
}

/// Stoker closes a pool whose server never accepts a connection.
#[test]
fn a_server_that_is_never_ready_is_stopped() {
    let dir = Dir::new();
    let socket = dir.file("up.sock");
    let begun = dir.file("begun");
    let script = format!("sleep 1000 & echo $! > {}; wait", begun.display());
    let starting = Site::starting(dir, http::serve, settings(&socket, &["sh", "-c", &script]));
    let child: i32 = until("the server has started", || {
        std::fs::read_to_string(&begun).ok()?.trim().parse().ok()
    });
    starting.close().unwrap();
    until("its child has ended", || {
        (!stoker_testkit::procs::is_alive(child)).then_some(())
    });
}

#[test]
fn a_server_that_cannot_start_ends_the_adapter() {
    for (command, why) in [
        (&["/no/such"][..], "/no/such can't be started: No such file"),
        (
            &["sh", "-c", "exit 3"],
            "sh exited with code 3 before it accepted connections at",
        ),
    ] {
        let dir = Dir::new();
        let socket = dir.file("up.sock");
        let starting = Site::starting(dir, http::serve, settings(&socket, command));
        let error = starting.ended().unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}");
    }
}

/// The server dies in the middle of an answer. This counts as a crash of the task, and the server is started again.
#[test]
fn a_server_that_dies_is_started_again() {
    let dir = Dir::new();
    let socket = dir.file("up.sock");
    let script = "import os, socket, sys\n\
        try: os.unlink(sys.argv[1])\n\
        except FileNotFoundError: pass\n\
        s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n\
        while True:\n  \
          c = s.accept()[0]\n  \
          got = c.recv(100000)\n  \
          if b'crash' in got: c.send(b'HTTP/1.1 200 OK\\r\\ncontent-length: 9\\r\\n\\r\\nhi'); os.kill(os.getpid(), 11)\n  \
          if got: c.send(b'HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\nconnection: close\\r\\n\\r\\nhi')\n";
    let socket_path = socket.to_string_lossy().into_owned();
    let command = ["python3", "-c", script, &socket_path];
    let mut site = Site::with(dir, http::serve, settings(&socket, &command));
    for _ in 0..2 {
        assert_eq!(site.ask(&Request::get("echo.php")).body(), b"hi");
        let reply = site.ask(&Request::get("crash.php"));
        assert_eq!(
            (reply.status, reply.signal),
            (Status::CRASHED, Some(11)),
            "{}",
            reply.text()
        );
        assert_eq!(
            reply.text(),
            "python3 was killed by signal 11 in the middle of the answer"
        );
    }
    assert_eq!(site.ask(&Request::post("echo.php", "")).body(), b"hi");
}

/// During a reload the new worker's server can't be started before the old one has ended, if both have the same address. Until
/// then requests wait.
#[test]
fn a_server_waits_for_its_address() {
    let dir = Dir::new();
    let socket = dir.file("up.sock");
    let old = UnixListener::bind(&socket).expect("the folder is new");
    let script = "import os, socket, sys; os.path.exists(sys.argv[1]) and os.unlink(sys.argv[1])\n\
        s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n\
        while True:\n  \
          c = s.accept()[0]\n  \
          if c.recv(100000): c.send(b'HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\nconnection: close\\r\\n\\r\\nhi')\n";
    let command = ["python3", "-c", script, "{address}"];
    let mut site = Site::with(dir, http::serve, settings(&socket, &command));
    let id = site.send(&Request::get("echo.php"));
    // The adapter connects only to see whether the old server is still there.
    for _ in 0..3 {
        let mut connection = accept(&old);
        assert_eq!(connection.read(&mut [0; 1]).expect("it is closed"), 0);
    }
    drop(old);
    assert_eq!(site.answer(id).body(), b"hi");
}

#[test]
fn a_server_that_is_gone_is_an_error() {
    let (mut site, listener) = played(fastcgi::serve);
    drop(listener);
    let reply = site.ask(&Request::get("echo.php"));
    assert_eq!(reply.status, Status::EXCEPTION);
    assert!(
        reply
            .text()
            .contains("can't be reached: Connection refused"),
        "{}",
        reply.text()
    );
}

/// A job must not be lost on a connection that the server is just closing, and must not be run twice.
#[test]
fn a_job_has_a_connection_of_its_own() {
    let (mut site, listener) = played(http::serve);
    let server = std::thread::spawn(move || {
        let mut first = accept(&listener);
        read_head(&first);
        put(&mut first, ANSWER);
        let mut second = accept(&listener);
        let head = read_head(&second);
        put(&mut second, ANSWER);
        head
    });
    assert_eq!(site.ask(&Request::get("echo.php")).body(), b"hi");
    let mut meta = stoker_wire::MetaBuf::new();
    meta.push(Key::JOB_ID, &[7; 16]);
    let job = site.frame(stoker_wire::Encode {
        name: "mails",
        meta: meta.as_meta(),
        ..stoker_wire::Encode::new(stoker_wire::Type::Req, 0)
    });
    let done = site.part(job);
    assert_eq!((done.status(), done.text().as_str()), (Status::OK, "hi"));
    let head = server.join().unwrap();
    assert!(
        head.starts_with("POST / HTTP/1.1\r\nhost: localhost\r\n"),
        "{head}"
    );
    for field in [
        "stoker-name: mails",
        "connection: close",
        "content-length: 0",
    ] {
        assert!(head.contains(&format!("\r\n{field}\r\n")), "{head}");
    }
}

/// As far as the adapter knows, a connection ends because the process that ran the job has ended.
#[test]
fn a_job_whose_connection_is_closed_has_crashed() {
    let (mut site, listener) = played(http::serve);
    let server = std::thread::spawn(move || {
        for answer in [&b""[..], b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi"] {
            let mut connection = accept(&listener);
            read_head(&connection);
            put(&mut connection, answer);
        }
    });
    for when in ["before it answered", "in the middle of the answer"] {
        let mut meta = stoker_wire::MetaBuf::new();
        meta.push(Key::JOB_ID, &[7; 16]);
        let job = site.frame(stoker_wire::Encode {
            name: "mails",
            meta: meta.as_meta(),
            ..stoker_wire::Encode::new(stoker_wire::Type::Req, 0)
        });
        let crashed = site.part(job);
        assert_eq!(crashed.status(), Status::CRASHED, "{}", crashed.text());
        assert!(crashed.text().contains(when), "{}", crashed.text());
    }
    server.join().unwrap();
}
