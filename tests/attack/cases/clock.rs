//! The machine's clock jumps: delays given as durations must not change.

use crate::arena::Arena;
use crate::bounds::Bounds;
use crate::case::Group;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stoker_testkit::{Request, Spawn, pause, pool_of, run};
use stoker_wire::Key;

pub(crate) fn groups() -> Vec<Group> {
    let group = |name: &str, seconds: i64, attack: fn(&mut Arena)| {
        let group = Group::new("A20", name).bounds(Bounds {
            seconds: 40.0,
            ..Bounds::USUAL
        });
        group.attack(move |arena| {
            start(arena);
            set_back(arena, 0);
            attack_after(arena, seconds, attack);
        })
    };
    vec![
        group(
            "the clock is set back while a job is delayed",
            -3_600,
            |arena| within(arena, 1_000, 8_000),
        ),
        group(
            "the clock is set forward while a job is delayed",
            3_600,
            |arena| within(arena, 1_000, 8_000),
        ),
        group(
            "the clock is set back while a job waits for its retry",
            -3_600,
            retried,
        ),
    ]
}

/// Starts Stoker with a clock that a file moves.
fn start(arena: &mut Arena) {
    let library = library();
    let config = pool_of(
        "serve",
        "workers = 1\n[queue.q]\ntries = 2\nbackoff = [\"1s\"]",
    );
    let setup = arena.setup().config(&config);
    let offset = setup.dir().file("offset").display().to_string();
    let setup = setup.env("LD_PRELOAD", &library.display().to_string());
    arena.start(setup.env("CLOCK_OFFSET", &offset));
}

fn set_back(arena: &Arena, seconds: i64) {
    let dir = &arena.app().dir;
    dir.write("offset.new", format!("{seconds}\n"));
    std::fs::rename(dir.file("offset.new"), dir.file("offset")).expect("it can be replaced");
}

fn attack_after(arena: &mut Arena, seconds: i64, attack: fn(&mut Arena)) {
    let mut client = arena.client();
    client.push(&Request::push("q", "note delayed").meta(Key::DELAY, 1_000_u64.to_be_bytes()));
    client.push(&Request::push("q", "note tried;once first;fail 64 once"));
    stoker_testkit::until("the first run", || arena.app().dir.notes().first().cloned());
    set_back(arena, seconds);
    attack(arena);
}

/// Checks that the delayed job runs after its delay: not at once, and not an hour later.
fn within(arena: &mut Arena, least: u64, most: u64) {
    let began = Instant::now();
    loop {
        let ran = arena.app().dir.notes().contains(&"delayed".to_owned());
        let took = began.elapsed();
        if ran {
            assert!(
                took > Duration::from_millis(least * 6 / 10),
                "it ran after {took:?}"
            );
            return;
        }
        assert!(
            took < Duration::from_millis(most),
            "it has not run after {took:?}"
        );
        pause(Duration::from_millis(10));
    }
}

fn retried(arena: &mut Arena) {
    stoker_testkit::until("the second run", || {
        let notes = arena.app().dir.notes();
        (notes.iter().filter(|note| *note == "tried").count() == 2).then_some(())
    });
}

/// The library that moves the wall clock, compiled in each run of the suite.
fn library() -> PathBuf {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("clock.c");
    let library =
        std::env::temp_dir().join(format!("stoker-attack-clock-{}.so", std::process::id()));
    let [from, to] = [&source, &library].map(|path| path.display().to_string());
    let args = [
        "-std=gnu11",
        "-O1",
        "-Wall",
        "-Werror",
        "-shared",
        "-fPIC",
        "-o",
        &to,
        &from,
        "-ldl",
    ];
    let output = run(Spawn::new("cc").args(&args));
    assert_eq!(output.code, 0, "{}", output.stderr);
    library
}
