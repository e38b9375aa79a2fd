//! The output of `check` for valid and invalid configurations: file, line, key, what is wrong, and how to fix it.

use crate::setup;
use stoker_testkit::{Dir, Output, Spawn, run};

fn check(toml: impl AsRef<[u8]>, args: &[&str]) -> Output {
    let dir = Dir::new();
    dir.write("stoker.toml", toml);
    for script in ["web.php", "mail.php"] {
        dir.write(script, "");
    }
    let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker"));
    run(spawn.args(args).within(dir.path()))
}

/// Invalid configurations, each with the expected output, without `stoker: stoker.toml` before every line.
const BAD: &[(&str, &str)] = &[
    (
        "",
        ": pool: there is no pool\n    add [pool.app] with command = [\"php\", \"worker.php\"]",
    ),
    ("[pool.app\n", ":1: not TOML: unclosed table, expected `]`"),
    (
        "[pool.app]\ncommand = [\"x\"]\ncommand = [\"y\"]\n",
        ":3: not TOML: duplicate key 'command'",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\n\n[pool.app]\nworkers = 1\n",
        ":4: not TOML: duplicate key 'app'",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\n[queue.mails.urgent]\nweight = 3\n[service.a.b.c]\n",
        ":3: queue.mails.urgent: unknown key\n    quote a name with dots: [queue.\"mails.urgent\"]\n\
         :5: service.a.b: unknown key\n    quote a name with dots: [service.\"a.b.c\"]",
    ),
    (
        "[pool.app]\ncomand = [\"php\"]\n",
        ":2: pool.app.comand: unknown key\n    did you mean 'command'?",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\nwrkers = 1\n[log]\nlevel = 3\n",
        ":3: pool.app.wrkers: unknown key\n    did you mean 'workers'?\n\
         :5: log.level: unknown key\n    expected one of: format, file, max_size, keep_files, rate_limit, rate_burst",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\n[queues.mails]\n",
        ":3: queues: unknown section\n    did you mean 'queue'?",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\n[queue]\nmails = 1\n",
        ":4: queue.mails: expected a section\n    write [queue.mails] and its keys below it",
    ),
    (
        "[pool.app]\ncommand = \"php worker.php\"\n",
        ":2: pool.app.command: expected a list of strings, such as [\"php\", \"worker.php\"], found \"php worker.php\"",
    ),
    (
        "[pool.app]\ncommand = [\"php\", 3]\n",
        ":2: pool.app.command: expected a list of strings, such as [\"php\", \"worker.php\"], found a value of type array",
    ),
    (
        "[pool.app]\ncommand = []\n",
        ":2: pool.app.command: it names no program",
    ),
    (
        "[pool.app]\ncommand = [\"\"]\n",
        ":2: pool.app.command: it names no program",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\nworkers = 0\n",
        ":3: pool.app.workers: expected a number from 1 to 10000, or { min = 1, max = 8 } with min not above \
         max, found 0",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\nstrategy = \"exec\"\nworkers = 1001\n",
        ":4: pool.app.workers: an adapter runs at most 1000 programs at once (strategy = \"exec\")\n    set a \
         number from 1 to 1000",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\nstrategy = \"fastcgi\"\nmemory_limit = \"1GB\"\n",
        ":3: pool.app.strategy: the strategy requires an address (strategy = \"fastcgi\")\n    add address = \
         \"127.0.0.1:9000\" or address = \"/run/app.sock\"\n\
         :4: pool.app.memory_limit: the memory of single tasks cannot be measured (strategy = \"fastcgi\")\n    \
         remove memory_limit, and limit the memory in the configuration of the upstream server",
    ),
    (
        "[pool.app]\nstrategy = \"http\"\naddress = \"localhost\"\n",
        ":3: pool.app.address: expected host:port, or the path of a unix socket, found \"localhost\"",
    ),
    (
        "[pool.app]\nstrategy = \"http\"\naddress = \"localhost:0\"\n",
        ":3: pool.app.address: Stoker chooses an address only for a server that it starts, and there is no command \
         (strategy = \"http\")\n    set the address at which your server accepts connections, or add the command that \
         starts it",
    ),
    (
        "[pool.app]\nstrategy = \"cgi\"\n",
        ":2: pool.app.strategy: the strategy requires a command (strategy = \"cgi\")\n    add command, or remove \
         strategy",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\ntask_path = \"/tasks\"\n",
        ":3: pool.app.task_path: only the strategies \"cgi\", \"fastcgi\" and \"http\" use task_path (strategy = \"loop\")\n    \
         remove task_path, or choose another strategy",
    ),
    (
        "[pool.app]\nstrategy = \"http\"\naddress = \"localhost:80\"\ntask_script = \"tasks.php\"\n",
        ":4: pool.app.task_script: only the strategies \"cgi\" and \"fastcgi\" use task_script (strategy = \"http\")\n    \
         remove task_script; the server chooses by the path (task_path)",
    ),
    (
        "[pool.app]\nstrategy = \"http\"\naddress = \"localhost:80\"\ntask_path = \"tasks\"\n",
        ":4: pool.app.task_path: expected a path such as \"/tasks\" or \"/tasks/{name}\", found \"tasks\"",
    ),
    (
        "[pool.app]\ncommand = [\"sh\"]\nstrategy = \"cgi\"\n[queue.mails]\npool = \"app\"\n",
        ":5: queue.mails.pool: strategy = \"cgi\" of pool app runs calls and jobs with a script, but the pool has no task_script\n    \
         add task_script = \"tasks.php\" to [pool.app], or choose another pool",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\naddress = \"/run/x.sock\"\n",
        ":3: pool.app.address: only the strategies \"fastcgi\" and \"http\" use an address (strategy = \"loop\")\n    \
         remove address, or set strategy to \"fastcgi\" or \"http\"",
    ),
    // Issue 9, A27: this used to be reported as a value of the wrong type.
    (
        "[pool.app]\ncommand = [\"x\"]\nworkers = { min = 4, max = 2 }\n",
        ":3: pool.app.workers: min (4) is above max (2)\n    write { min = 1, max = 8 }, or one number for a \
         fixed size",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\nenv = { A = 1 }\n",
        ":3: pool.app.env: expected a table of strings, such as {APP_ENV = \"prod\"}, found a value of type table",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\ncrash_budget = 81\nmax_tasks = 0\n",
        ":3: pool.app.crash_budget: expected a number from 1 to 80, found 81\n\
         :4: pool.app.max_tasks: expected a number from 1 to 1000000000000, found 0",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\nnice = 20\n[pool.web]\ncommand = [\"y\"]\nnice = -1\n",
        ":3: pool.app.nice: expected a number from 0 to 19, found 20\n\
         :6: pool.web.nice: expected a number from 0 to 19, found -1",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\n\n[queue.mails]\npool = \"ap\"\n",
        ":5: queue.mails.pool: there is no pool 'ap'\n    did you mean 'app'?",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\n\n[pool.web]\ncommand = [\"y\"]\n\n[queue.mails]\nweight = 2\n",
        ":7: queue.mails.pool: there are several pools: name one\n    expected one of: app, web",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\nprotocol = false\nworkers = { min = 1, max = 2 }\nmax_tasks = 5\n",
        ":4: pool.app.workers: a pool without the protocol has a fixed size\n    set a fixed \
         number, such as workers = 2\n\
         :5: pool.app.max_tasks: a pool without the protocol cannot count tasks\n    use the program's own option, such as \
         queue:work --max-jobs",
    ),
    (
        "[pool.app]\nprotocol = false\nworkers = 1\n[queue.mails]\n",
        ":2: pool.app.protocol: a worker that does not speak the protocol must be started by Stoker\n    add \
         command, or remove protocol = false\n\
         :4: queue.mails.pool: no pool takes tasks (protocol = false)\n    there are none",
    ),
    (
        "[pool.watched]\ncommand = [\"x\"]\nprotocol = false\n[pool.app]\ncommand = [\"x\"]\n[queue.one]\n\
         [queue.two]\npool = \"watched\"\n",
        ":8: queue.two.pool: pool 'watched' takes no tasks (protocol = false)\n    expected one of: app",
    ),
    (
        "[log]\n[pool.app]\ncommand = [\"x\"]\nworkers = 2\n[queue.mails]\nreserve = 2\n[service.users]\n\
         reserve = 1\n",
        ":2: pool.app.workers: the reserves of its queues add up to 3 workers, but it guarantees only 2\n    raise the \
         minimum of workers to 3, or lower a reserve",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\nworkers = 4\n[queue.mails]\nreserve = 2\nlimit = 1\n[service.users]\n\
         keep = 1\n",
        ":4: queue.mails: reserve (2) is above limit (1)\n    raise limit, or lower reserve\n\
         :7: service.users: keep (1) is above reserve (0)\n    raise reserve, or lower keep",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\n[queue.mails]\nweight = 0\ntries = 70000\nbackoff = \"linear\"\n",
        ":4: queue.mails.weight: expected a number from 1 to 1000000, found 0\n\
         :5: queue.mails.tries: expected a number from 0 to 65535, found 70000\n\
         :6: queue.mails.backoff: expected \"exponential\", a list of up to 100 durations, or { base = \"1s\", cap \
         = \"10m\" } with base not above cap, found \"linear\"",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\n[queue.mails]\nmax_body = \"0B\"\n[queue.texts]\nmax_body = 1000\n",
        ":4: queue.mails.max_body: expected a size above 0 such as \"256MB\", or \"none\", found \"0B\"\n\
         :6: queue.texts.max_body: expected a size above 0 such as \"256MB\", or \"none\", found 1000",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\n[queue.mails]\nbackoff = { base = \"5s\", cap = \"1s\" }\n",
        ":4: queue.mails.backoff: base is above cap\n    write \"exponential\", a list of up to 100 durations, or { \
         base \
         = \"1s\", cap = \"10m\" } with base not above cap",
    ),
    (
        "[pool.app]\nstrategy = \"snapshot\"\n",
        ":2: pool.app.strategy: the strategy requires a command (strategy = \"snapshot\")\n    add command, or remove strategy",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\nstrategy = \"fork\"\ntasks_per_fork = 0\n[pool.b]\ncommand = [\"x\"]\n\
         tasks_per_fork = 2\n",
        ":4: pool.app.tasks_per_fork: expected a number from 1 to 1000000000000, or \"auto\", found 0\n\
         :7: pool.b.tasks_per_fork: nothing is forked (strategy = \"loop\")\n    remove tasks_per_fork, or set \
         strategy to one that forks, such as \"fork\"",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\n[service.users]\nidempotent = \"get\"\n",
        ":4: service.users.idempotent: expected a list of strings, such as [\"get\", \"list\"], found \"get\"",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\n[queue.\"a b\"]\n[service.\"stoker.push\"]\n",
        ":3: queue.a b: expected a name of 1 to 255 characters from A-Z a-z 0-9 _ . : / @ - that does not start with \
         stoker. or http:\n\
         :4: service.stoker.push: expected a name of 1 to 255 characters from A-Z a-z 0-9 _ . : / @ - that does not \
         start with stoker. or http:",
    ),
    (
        "[pool.app]\ncommand = [\"x\"]\n[stoker]\nsocket_mode = \"999\"\nsocket = 1\n[log]\nformat = \"xml\"\n",
        ":4: stoker.socket_mode: expected an octal mode such as \"0660\", found \"999\"\n\
         :5: stoker.socket: expected a string, found 1\n\
         :7: log.format: expected \"text\" or \"json\", found \"xml\"",
    ),
];

#[test]
fn all_configuration_errors_are_reported_with_lines_and_remedies() {
    for (toml, said) in BAD {
        let output = check(toml, &["check"]);
        let said: Vec<String> = said
            .lines()
            .map(|line| match line.starts_with(':') {
                true => format!("stoker.toml{line}"),
                false => line.to_owned(),
            })
            .collect();
        let wanted = format!("stoker: {}\n", said.join("\n"));
        assert_eq!(output.stderr, wanted, "{toml}");
        assert_eq!((output.code, output.stdout.as_str()), (78, ""), "{toml}");
    }
}

#[test]
fn serve_reports_the_same_configuration_errors_as_check() {
    let (toml, _) = BAD[3];
    let (checked, served) = (check(toml, &["check"]), check(toml, &["serve"]));
    assert_eq!((served.code, &served.stderr), (78, &checked.stderr));
}

/// Checks that the valid values of one key are accepted, and what is reported for the invalid ones.
fn values(section: &str, key: &str, good: &[&str], bad: &[&str], wanted: &str) {
    let toml =
        |value: &str| format!("[pool.app]\ncommand = [\"sh\"]\n[{section}]\n{key} = {value}\n");
    let toml = |value: &str| match section {
        "pool.app" => format!("[pool.app]\ncommand = [\"sh\"]\n{key} = {value}\n"),
        _ => toml(value),
    };
    for value in good {
        let output = check(toml(value), &["check"]);
        assert_eq!(output.code, 0, "{key} = {value}: {}", output.stderr);
    }
    for value in bad {
        let output = check(toml(value), &["check"]);
        assert_eq!(output.code, 78, "{key} = {value}");
        let said = format!("{section}.{key}: expected {wanted}, found {value}\n");
        assert!(
            output.stderr.ends_with(&said),
            "{key} = {value}: {}",
            output.stderr
        );
    }
}

#[test]
fn durations_and_sizes_have_units_and_limits() {
    let good = [
        "\"500ms\"",
        "\"1.5s\"",
        "\"2 m\"",
        "\"1h\"",
        "\"7d\"",
        "\"1_000ms\"",
    ];
    let bad = [
        "60",
        "\"60\"",
        "\"s\"",
        "\"5 parsec\"",
        "\"-1s\"",
        "\"9999d\"",
        "true",
        "1.5",
    ];
    let time = "a duration such as \"500ms\", \"30s\", \"5m\"";
    values("pool.app", "stop_grace", &good, &bad, time);
    values("pool.app", "stop_grace", &["\"0s\""], &["\"none\""], time);
    let above_zero = "a duration above 0 such as \"500ms\", \"30s\", \"5m\"";
    values(
        "pool.app",
        "boot_timeout",
        &good,
        &["\"0s\"", "\"0.4ms\""],
        above_zero,
    );
    values("pool.app", "max_age", &good, &["\"0s\""], above_zero);
    values("service.users", "timeout", &good, &["\"0s\""], above_zero);
    let or_none = "a duration above 0 such as \"500ms\", \"30s\", \"5m\", or \"none\"";
    values(
        "pool.app",
        "task_timeout",
        &["\"none\"", "\"1s\""],
        &["\"0s\"", "\"never\""],
        or_none,
    );
    values(
        "stoker",
        "watchdog",
        &["\"none\"", "\"1s\"", "\"24h\""],
        &["\"999ms\"", "60", "\"never\""],
        "a duration of at least 1 s such as \"30s\", \"5m\", or \"none\"",
    );
    let good = ["\"64KB\"", "\"256MB\"", "\"1.5GB\"", "\"100 b\""];
    let bad = ["256", "\"256\"", "\"0MB\"", "\"1TB\""];
    values(
        "pool.app",
        "memory_limit",
        &good,
        &bad,
        "a size above 0 such as \"256MB\"",
    );
}

/// Configurations that name something missing: the lines after `[pool.p]`, and the expected output.
const MISSING_FILES: &[(&str, &str)] = &[
    (
        "command = [\"no-such-program\"]\nenv = { PATH = \"/bin:/usr/bin\" }",
        ":2: pool.p.command: program 'no-such-program' was not found in PATH (/bin:/usr/bin)\n    install it, or give \
         its full path",
    ),
    (
        "command = [\"./run.sh\"]",
        ":2: pool.p.command: file not found: DIR/./run.sh\n    correct the path, which is relative to the pool's \
         directory",
    ),
    (
        "command = [\"sub/plain\"]",
        ":2: pool.p.command: DIR/sub/plain is not executable\n    make it executable with chmod +x, or put its \
         interpreter first, such as [\"php\", \"worker.php\"]",
    ),
    (
        "command = [\"sh\"]\ndirectory = \"gone\"\nuser = \"no-such-user\"",
        ":3: pool.p.directory: there is no directory DIR/gone\n    create it, or correct the path, which is relative to \
         the configuration file\n\
         :4: pool.p.user: there is no user 'no-such-user'\n    use a name from /etc/passwd, or numbers: uid or uid:gid",
    ),
    (
        "command = [\"sh\"]\n[store]\npath = \"sub\"\n[log]\nfile = \"gone/log\"",
        ":4: store.path: sub is a directory\n    name a file, such as \"sub/stoker.db\"\n\
         :6: log.file: its directory DIR/gone does not exist\n    create it, or correct the path, which is relative to \
         the configuration file",
    ),
    (
        "command = [\"sh\"]\n[store]\npath = \"gone/jobs.db\"\n[stoker]\nsocket = \"gone/s.sock\"",
        ":4: store.path: its directory DIR/gone does not exist\n    create it, or correct the path, which is relative to \
         the configuration file\n\
         :6: stoker.socket: its directory DIR/gone does not exist\n    create it, or correct the path, which is relative \
         to the configuration file",
    ),
];

#[test]
fn files_named_in_the_configuration_must_exist() {
    for (toml, said) in MISSING_FILES {
        let dir = Dir::new();
        std::fs::create_dir(dir.file("sub")).expect("a directory can be made");
        dir.write("sub/plain", "");
        dir.write("stoker.toml", format!("[pool.p]\n{toml}\n"));
        let stoker = |args: &[&str]| {
            let spawn = Spawn::new(env!("CARGO_BIN_EXE_stoker"));
            run(spawn.args(args).within(dir.path()))
        };
        let lines = said.lines().map(|line| match line.starts_with(':') {
            true => format!("stoker.toml{line}"),
            false => line.to_owned(),
        });
        let said = lines.collect::<Vec<String>>().join("\n");
        let said = said.replace("DIR", &dir.path().display().to_string());
        let output = stoker(&["check"]);
        assert_eq!(output.stderr, format!("stoker: {said}\n"), "{toml}");
        assert_eq!((output.code, output.stdout.as_str()), (78, ""), "{toml}");
        // If the mistake is outside the pools, `serve` fails with the same message, and leaves no files behind.
        if !said.contains("pool.p") {
            let served = stoker(&["serve"]);
            assert_eq!((served.code, served.stderr), (78, output.stderr), "{toml}");
            let left = std::fs::read_dir(dir.path()).expect("it is there").count();
            assert_eq!(left, 2, "{toml}");
        }
    }
}

#[test]
fn a_socket_path_that_is_too_long_is_rejected() {
    let long = format!("/tmp/{}.sock", "x".repeat(110));
    let toml = format!("[pool.p]\nworkers = 1\n[stoker]\nsocket = {long:?}\n");
    let said = format!(
        "stoker: stoker.toml:4: stoker.socket: {long} has 120 bytes, but the path of a socket may have at most 107\n    \
         use a shorter path, such as \"/run/stoker/stoker.sock\"\n"
    );
    for command in ["check", "serve"] {
        let output = check(&toml, &[command]);
        assert_eq!((output.code, &output.stderr), (78, &said), "{command}");
    }
    // A path on the command line overrides the one in the file.
    let output = check(&toml, &["check", "--socket", "s.sock"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let output = check("[pool.p]\nworkers = 1\n", &["check", "--socket", &long]);
    assert_eq!(output.code, 2, "{}", output.stderr);
}

/// `check` runs as a user other than root, even if root runs the tests.
#[test]
fn running_workers_as_another_user_requires_root() {
    let dir = Dir::new();
    let toml = "[pool.p]\ncommand = [\"sh\"]\nuser = \"0:0\"\n";
    dir.write("stoker.toml", toml);
    let script = "if [ $(id -u) = 0 ]; then exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"; \
                  else exec \"$@\"; fi";
    // The program is copied to where any user may run it.
    let stoker = dir.file("stoker");
    std::fs::copy(env!("CARGO_BIN_EXE_stoker"), &stoker).expect("it can be copied");
    let stoker = stoker.to_str().expect("a plain path");
    let args = ["-c", script, "sh", stoker, "check"];
    let output = run(Spawn::new("/bin/sh").args(&args).within(dir.path()));
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (
            78,
            "stoker: stoker.toml:3: pool.p.user: only root can start workers as '0:0'\n    start Stoker as \
             root, or remove user\n"
        )
    );
}

#[test]
fn check_explains_a_valid_configuration() {
    let toml = "[pool.web]\ncommand = [\"php\", \"web.php\"]\nworkers = { min = 2, max = 8 }\n\
                [pool.mail]\ncommand = [\"php\", \"mail.php\"]\nworkers = 3\n[pool.far]\nworkers = 1\n\
                [queue.mails]\npool = \"mail\"\nweight = 3\nreserve = 1\nlimit = 2\n\
                [service.users]\npool = \"web\"\n";
    let output = check(toml, &["check"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(
        output.stdout,
        "stoker.toml is valid\n\
         pool web: 2 to 8 workers of: php web.php\n  service users: weight 1\n\
         pool mail: 3 workers of: php mail.php\n  queue mails: weight 3, 1 guaranteed, at most 2\n\
         pool far: 1 worker that connects to the socket\n\
         queues and services that workers announce are added with weight 1\n"
    );
    let output = check(toml, &["check", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(json["pools"][0]["max"], 8);
    assert_eq!(json["queues"][0]["limit"], 2);
    assert_eq!(json["services"][0]["pool"], "web");
}

#[test]
fn an_unreadable_file_is_a_configuration_error() {
    let output = check("", &["check", "other.toml"]);
    assert_eq!(output.code, 78);
    assert!(
        output
            .stderr
            .starts_with("stoker: cannot read other.toml: No such file"),
        "{}",
        output.stderr
    );
    let output = check(b"\xff\xfe", &["check"]);
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (78, "stoker: stoker.toml is not UTF-8\n")
    );
    let output = check("#".repeat(200 << 10), &["check"]);
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (78, "stoker: stoker.toml is larger than 128 KB\n")
    );
}

#[test]
fn the_largest_valid_file_can_be_served() {
    let quotes = "\"".repeat(125 << 10);
    let setup = setup().config(&crate::pool_of("serve", format!("workers = 1\n# {quotes}")));
    let app = setup.start();
    assert_eq!(app.call("t.run", "ok").status(), stoker_wire::Status::OK);
}

// Issue 9, A25
#[test]
fn a_stop_grace_shorter_than_the_task_timeout_is_warned_about() {
    let toml = "[pool.a]\nworkers = 1\ntask_timeout = \"5m\"\n[pool.b]\nworkers = 1\ntask_timeout = \"5m\"\n\
                stop_grace = \"10s\"\n[pool.c]\nworkers = 1\ntask_timeout = \"none\"\n";
    let output = check(toml, &["check"]);
    assert_eq!(output.code, 0);
    let warnings = output
        .stdout
        .lines()
        .filter(|line| line.starts_with("warning: "));
    let warnings: Vec<&str> = warnings.collect();
    assert_eq!(
        warnings,
        [
            "warning: pool.b.stop_grace is below task_timeout: a task that takes longer than \"10s\" is interrupted \
             by every restart; raise stop_grace or lower task_timeout",
            "warning: pool.c.stop_grace is below task_timeout: a task that takes longer than \"1m\" is interrupted by \
             every restart; raise stop_grace or lower task_timeout",
        ]
    );
}

// Issue 9, A27
#[test]
fn a_missing_script_is_a_configuration_error() {
    let dir = Dir::new();
    dir.write(
        "stoker.toml",
        "[pool.app]\ncommand = [\"python3\", \"worker.py\"]\nworkers = 1\n",
    );
    let check = || {
        run(Spawn::new(env!("CARGO_BIN_EXE_stoker"))
            .args(&["check"])
            .within(dir.path()))
    };
    let output = check();
    assert_eq!(output.code, 78);
    assert!(
        output
            .stderr
            .contains("stoker.toml:2: pool.app.command: file not found: "),
        "{}",
        output.stderr
    );
    dir.write("worker.py", "");
    assert_eq!(check().code, 0);
}
