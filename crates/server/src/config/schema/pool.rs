//! The keys of `[pool.NAME]`.

use super::Schema;
use crate::config::key::{
    Field, Other, at, key, number, size, time, time_above_zero, time_or_none,
};
use crate::config::reader::{Mistakes, Section, integer};
use crate::config::task_requests::{DEFAULT_PATH, is_path};
use crate::config::{MAX_WORKERS, Pool, quote, write_time};
use stoker_core::Span;
use stoker_workers::{Address, STRATEGIES, Strategy};
use toml::de::{DeTable, DeValue};

pub(crate) const POOL: Schema<Pool> = Schema {
    kind: "pool",
    is_named: true,
    doc: "Workers of one application.",
    keys: &[
        key(
            "command",
            "none",
            Field::Other(COMMAND),
            "Program and arguments, without a shell. A pool without a command waits for workers that connect by themselves.",
        ),
        key(
            "strategy",
            "\"loop\"",
            Field::Other(STRATEGY),
            "How processes are started, and how many tasks each runs. `loop`: a process boots once and runs task after task. `spare`: processes are booted in advance and each runs one task; `workers.min` of them are ready, and there are at most `workers.max`. `fork`: like `spare`, but the application boots only once, in a zygote, from which the processes are forked. `sapi`: PHP scripts run one after another in Stoker's PHP host, which resets everything between two tasks. `snapshot`: a script boots an application in the PHP host, and each process is cloned from it. `exec`: `command` is started for each task, up to `workers` at once. `cgi`, `fastcgi` and `http` answer HTTP requests, up to `workers` at once; each call or job becomes an HTTP request too. `cgi` starts `command` for each request. `fastcgi` and `http` pass requests on to the server at `address`; Stoker starts that server with `command`, if it is set.",
        ),
        key(
            "tasks_per_fork",
            "1",
            Field::Other(TASKS_PER_FORK),
            "Number of tasks that each process runs before it ends, with `strategy = \"fork\"` or `\"snapshot\"`. More than one is faster, and isolates only the tasks of different processes from each other. `\"auto\"`: one, and step by step up to 100 while tasks wait and all processes are busy.",
        ),
        key(
            "address",
            "none",
            Field::Other(ADDRESS),
            "The address of the server of `strategy = \"fastcgi\"` or `\"http\"`: `host:port`, or the path of a unix socket (with a slash, or `.sock` at its end), relative to `directory`. Port 0 stands for any free port, and `{worker}` in a path for the name of the worker (`web-1`). `{address}` in `command` and the environment variable `STOKER_ADDRESS` contain the resulting address. A reload starts the new server before it stops the old one, unless they have the same address.",
        ),
        key(
            "task_path",
            "\"/\"",
            Field::Other(TASK_PATH),
            "The path, with an optional query, of the POST request that each call and job becomes with `strategy = \"cgi\"`, `\"fastcgi\"` or `\"http\"`. `{name}` stands for the name of the queue or method: `/tasks/{name}`.",
        ),
        key(
            "task_script",
            "none",
            Field::Text(at!(task_script)),
            "The script that runs calls and jobs with `strategy = \"cgi\"` or `\"fastcgi\"`, relative to `directory`. Without it, such a pool answers the requests of sites only.",
        ),
        key(
            "workers",
            "processors",
            Field::Other(WORKERS),
            "Number of workers. Between min and max, the pool grows while tasks wait, and shrinks after `idle_timeout`.",
        ),
        key(
            "directory",
            "the configuration file's",
            Field::Path(at!(directory)),
            "Working directory of the workers.",
        ),
        key(
            "user",
            "Stoker's own",
            Field::Text(at!(user)),
            "User of the workers: a name, `uid` or `uid:gid`. Requires that Stoker runs as root. Workers have the group of that user and no other, and its `HOME`, `USER` and `LOGNAME`. `socket_group` lets them push.",
        ),
        key(
            "env",
            "{}",
            Field::Other(ENV),
            "Environment variables for the workers, in addition to the variables of Stoker's own environment.",
        ),
        key(
            "env_clear",
            "false",
            Field::Flag(at!(env_clear)),
            "Do not pass Stoker's own environment to the workers, except `PATH` and the variables in `env_pass`.",
        ),
        key(
            "env_pass",
            "[]",
            Field::Other(ENV_PASS),
            "Variables that are passed although `env_clear` is set, such as `[\"LANG\", \"AWS_*\"]`; a `*` at the end matches any characters.",
        ),
        key(
            "nice",
            "0",
            number!(nice, 0..=19),
            "Niceness of the processes, added to Stoker's own; the total is at most 19. While all processors are busy, processes with a higher niceness get less CPU time. The processes that they start inherit it.",
        ),
        key(
            "boot_timeout",
            "\"60s\"",
            time_above_zero(at!(core.boot_timeout)),
            "Time from the start of a process until it is ready.",
        ),
        key(
            "task_timeout",
            "\"60s\"",
            time_or_none(at!(core.task_timeout)),
            "How long one task may run, and how long one that answers in parts may take for each part. Then the worker gets a soft signal, if it supports that, and is killed.",
        ),
        key(
            "kill_grace",
            "\"2s\"",
            time(at!(core.kill_grace)),
            "Time between the soft signal and the kill.",
        ),
        key(
            "stop_grace",
            "`task_timeout`",
            Field::Other(STOP_GRACE),
            "How long a worker may take to finish at shutdown. It gets TERM in the last second, and KILL at the end. 60s if `task_timeout` is \"none\". A task that needs longer is interrupted by every restart.",
        ),
        key(
            "protocol",
            "true",
            Field::Flag(at!(core.protocol)),
            "Whether the processes speak Stoker's protocol. With `false`, the command is any long-running program, such as `queue:work`: it is supervised, but gets no tasks, and is stopped with TERM. If it exits with code 0 or 12, the next one starts at once, but at most one per second.",
        ),
        key(
            "memory_limit",
            "none",
            size!(core.memory_limit),
            "Maximum memory (resident size) of a worker and all processes that it started. Above this limit the worker is replaced after its task; above one and a half times the limit it is killed during the task. Memory pages that forks share are counted once. With `strategy = \"exec\"` or `\"cgi\"`, the limit applies to each program, which is killed above one and a half times the limit. Not available with `fastcgi` and `http`.",
        ),
        key(
            "max_tasks",
            "none",
            number!(core.max_tasks, 1..=1_000_000_000_000),
            "Number of tasks after which a worker is replaced, less up to 15 % jitter.",
        ),
        key(
            "max_age",
            "none",
            time_above_zero(at!(core.max_age)),
            "Age at which a worker is replaced, less up to 15 % jitter.",
        ),
        key(
            "idle_timeout",
            "\"60s\"",
            time(at!(core.idle_timeout)),
            "A worker above the minimum is stopped after it has been idle for this time.",
        ),
        key(
            "crash_budget",
            "3",
            number!(core.crash_budget, 1..=80),
            "Number of workers that one task may kill before it is quarantined.",
        ),
        key(
            "token",
            "none",
            Field::Text(at!(token)),
            "Token for workers that connect by themselves as another user.",
        ),
    ],
};

const STOP_GRACE: Other<Pool> = Other {
    kind: "duration",
    read: |section, key, pool, mistakes| {
        let given = section.time(key, Span::ZERO, false, mistakes);
        pool.core.stop_grace = given.unwrap_or(match pool.core.task_timeout {
            Span::FOREVER => Span::from_secs(60),
            timeout => timeout,
        });
    },
    write: |pool| Some(write_time(pool.core.stop_grace)),
    copy: |from, to| to.core.stop_grace = from.core.stop_grace,
};

const COMMAND: Other<Pool> = Other {
    kind: "list of strings",
    read: |section, key, pool, mistakes| {
        let words = section.texts(key, "[\"php\", \"worker.php\"]", mistakes);
        let no_program = |words: &Vec<String>| words.first().is_none_or(String::is_empty);
        if words.as_ref().is_some_and(no_program) {
            section.add_mistake(key, mistakes, "it names no program".to_owned(), None);
        }
        pool.command = words.unwrap_or_default();
        pool.core.spawned = !pool.command.is_empty();
    },
    write: |pool| {
        let quoted: Vec<String> = pool.command.iter().map(|word| quote(word)).collect();
        (!quoted.is_empty()).then(|| format!("[{}]", quoted.join(", ")))
    },
    copy: |from, to| {
        to.command.clone_from(&from.command);
        to.core.spawned = from.core.spawned;
    },
};

const ADDRESS: Other<Pool> = Other {
    kind: "string",
    read: |section, key, pool, mistakes| {
        let wanted = "host:port, or the path of a unix socket";
        pool.address = section.get(key, mistakes, wanted, |value| {
            let address = value.as_str()?;
            Address::parse(address).map(|_| address.to_owned())
        });
    },
    write: |pool| pool.address.as_deref().map(quote),
    copy: |from, to| to.address.clone_from(&from.address),
};

const TASK_PATH: Other<Pool> = Other {
    kind: "string",
    read: |section, key, pool, mistakes| {
        let wanted = "a path such as \"/tasks\" or \"/tasks/{name}\"";
        let path = section.get(key, mistakes, wanted, |value| {
            let path = value.as_str()?;
            is_path(path).then(|| path.to_owned())
        });
        pool.task_path = path.unwrap_or_else(|| DEFAULT_PATH.to_owned());
    },
    write: |pool| Some(quote(&pool.task_path)),
    copy: |from, to| to.task_path.clone_from(&from.task_path),
};

const STRATEGY: Other<Pool> = Other {
    kind: "string",
    read: |section, key, pool, mistakes| {
        let names: Vec<String> = STRATEGIES.iter().map(|known| quote(known.name)).collect();
        let wanted = format!("one of {}", names.join(", "));
        let strategy = section.get(key, mistakes, &wanted, |value| {
            Strategy::from_name(value.as_str()?)
        });
        pool.strategy = strategy.unwrap_or_default();
    },
    write: |pool| Some(quote(pool.strategy.name)),
    copy: |from, to| {
        to.strategy = from.strategy;
        (to.core.tasks_per_worker, to.core.isolated) =
            (from.core.tasks_per_worker, from.core.isolated);
        to.core.max_tasks_per_worker = from.core.max_tasks_per_worker;
        to.core.boots_quickly = from.core.boots_quickly;
    },
};

const TASKS_PER_FORK: Other<Pool> = Other {
    kind: "number or \"auto\"",
    read: |section, key, pool, mistakes| {
        let wanted = "a number from 1 to 1000000000000, or \"auto\"";
        let tasks = section.get(key, mistakes, wanted, |value| match value.as_str() {
            Some(text) => (text == "auto").then_some(None),
            None => integer(value)
                .filter(|number| (1..=1_000_000_000_000).contains(number))
                .map(Some),
        });
        pool.tasks_per_fork = tasks.unwrap_or(Some(1));
    },
    write: |pool| {
        let tasks = pool.tasks_per_fork;
        Some(tasks.map_or_else(|| quote("auto"), |tasks| tasks.to_string()))
    },
    copy: |from, to| {
        to.tasks_per_fork = from.tasks_per_fork;
        (to.core.tasks_per_worker, to.core.max_tasks_per_worker) =
            (from.core.tasks_per_worker, from.core.max_tasks_per_worker);
    },
};

const ENV_PASS: Other<Pool> = Other {
    kind: "list of strings",
    read: |section, key, pool, mistakes| {
        let Some(names) = section.texts(key, "[\"LANG\", \"AWS_*\"]", mistakes) else {
            return;
        };
        let is_name = |name: &str| {
            let name = name.strip_suffix('*').unwrap_or(name);
            !name.is_empty() && !name.contains(['=', '*', '\0'])
        };
        if let Some(bad) = names.iter().find(|name| !is_name(name)) {
            let hint = "write names of variables; a * is allowed at the end of a name";
            let what = format!("invalid name {}", quote(bad));
            section.add_mistake(key, mistakes, what, Some(hint.to_owned()));
        }
        if !pool.env_clear && !names.is_empty() {
            let hint = "add env_clear = true, or remove env_pass: without env_clear, all variables are passed";
            let what = "it has no effect without env_clear".to_owned();
            section.add_mistake(key, mistakes, what, Some(hint.to_owned()));
        }
        pool.env_pass = names;
    },
    write: |pool| {
        let quoted: Vec<String> = pool.env_pass.iter().map(|name| quote(name)).collect();
        (!quoted.is_empty()).then(|| format!("[{}]", quoted.join(", ")))
    },
    copy: |from, to| to.env_pass.clone_from(&from.env_pass),
};

const ENV: Other<Pool> = Other {
    kind: "table of strings",
    read: |section, key, pool, mistakes| {
        let wanted = "a table of strings, such as {APP_ENV = \"prod\"}";
        let env = section.get(key, mistakes, wanted, |value| {
            let pairs = value.as_table()?.iter();
            pairs
                .map(|(k, v)| Some((k.get_ref().to_string(), v.get_ref().as_str()?.to_owned())))
                .collect()
        });
        pool.env = env.unwrap_or_default();
    },
    write: |pool| {
        let pairs = pool.env.iter();
        let pairs = pairs.map(|(name, value)| format!("{} = {}", quote(name), quote(value)));
        let pairs: Vec<String> = pairs.collect();
        (!pairs.is_empty()).then(|| format!("{{ {} }}", pairs.join(", ")))
    },
    copy: |from, to| to.env.clone_from(&from.env),
};

const WORKERS: Other<Pool> = Other {
    kind: "number or {min, max}",
    read: read_workers,
    write: |pool| {
        let (min, max) = match pool.strategy.is_adapter {
            true => (pool.slots, pool.slots),
            false => (pool.core.min, pool.core.max),
        };
        Some(format!("{{ min = {min}, max = {max} }}"))
    },
    copy: |from, to| {
        (to.core.min, to.core.max, to.slots) = (from.core.min, from.core.max, from.slots);
    },
};

fn read_workers(
    section: &Section<'_, '_>,
    key: &str,
    pool: &mut Pool,
    mistakes: &mut Mistakes<'_>,
) {
    let wanted = "a number from 1 to 10000, or { min = 1, max = 8 } with min not above max";
    let valid = 1..=MAX_WORKERS;
    let range = section.get(key, mistakes, wanted, |value| match value {
        DeValue::Table(range) => parse_range(range),
        value => integer(value)
            .filter(|number| valid.contains(number))
            .map(|number| (number, number)),
    });
    let Some((min, max)) = range else { return };
    let what = if !valid.contains(&max) {
        format!("max must be a number from 1 to {MAX_WORKERS}, not {max}")
    } else if min > max {
        format!("min ({min}) is above max ({max})")
    } else {
        (pool.core.min, pool.core.max) = (min as u32, max as u32);
        return;
    };
    let hint = "write { min = 1, max = 8 }, or one number for a fixed size".to_owned();
    section.add_mistake(key, mistakes, what, Some(hint));
}

fn parse_range(range: &DeTable<'_>) -> Option<(u64, u64)> {
    let mut keys = range.keys();
    if keys.any(|key| !matches!(&**key.get_ref(), "min" | "max")) {
        return None;
    }
    let number = |key: &str| range.get(key).map(|value| integer(value.get_ref()));
    Some((number("min").unwrap_or(Some(1))?, number("max")??))
}
