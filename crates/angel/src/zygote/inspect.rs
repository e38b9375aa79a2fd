//! Finds what a booted zygote has open that its children would share, or would not have. It looks from outside, so it
//! works for a zygote in any language.

use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use stoker_os::children;

/// The maximum number of findings. More would only repeat them.
const MAX_FINDINGS: usize = 20;
/// The maximum number of bytes that are read of a table of sockets or locks.
const MAX_TABLE: u64 = 4 << 20;
/// The first bytes of an SQLite database.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// What listens on well-known ports.
const SERVICES: [(u16, &str); 8] = [
    (3306, "MySQL"),
    (5432, "PostgreSQL"),
    (1433, "SQL Server"),
    (6379, "Redis"),
    (11211, "memcached"),
    (5672, "AMQP"),
    (27017, "MongoDB"),
    (9092, "Kafka"),
];
/// The lock file of PHP's opcache. A process of the PHP host holds a lock on it as long as its script runs; forked processes
/// need none.
const OPCACHE_LOCK: &str = "/.ZendSem.";
const REOPEN: &str = "open it in the task, or reopen it in each process (PHP: Stoker\\afterFork())";

/// The problems that forking this process would cause, each as a sentence that says what to do.
pub fn inspect_zygote(pid: i32) -> Vec<String> {
    let (descriptors, sockets) = (Descriptor::all(pid), SocketTables::read(pid));
    let mut found: Vec<String> = descriptors
        .iter()
        .filter_map(|descriptor| descriptor.finding(pid, &sockets))
        .take(MAX_FINDINGS)
        .collect();
    found.extend(locks(pid, &descriptors));
    found.extend(threads(pid));
    let started = children(pid).into_iter();
    found.extend(started.map(|child| {
        let command = crate::procfs::command(child);
        format!(
            "the boot has started a process that still runs (pid {child}: {command}): forked processes can neither wait \
             for it nor have their own; start it in the task"
        )
    }));
    found.truncate(MAX_FINDINGS);
    found
}

/// An open descriptor above the standard ones.
struct Descriptor {
    number: u32,
    /// What `/proc` shows as the target of the link.
    target: String,
}

impl Descriptor {
    fn all(pid: i32) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return Vec::new();
        };
        let all = entries.flatten().filter_map(|entry| {
            let number: u32 = entry.file_name().to_str()?.parse().ok()?;
            let target = fs::read_link(entry.path()).ok()?;
            let target = target.to_string_lossy().into_owned();
            (number > 2).then_some(Self { number, target })
        });
        let mut all: Vec<Self> = all.collect();
        all.sort_by_key(|descriptor| descriptor.number);
        all
    }

    fn finding(&self, pid: i32, sockets: &SocketTables) -> Option<String> {
        let (number, target) = (self.number, self.target.as_str());
        if let Some(inode) = inside(target, "socket:[") {
            let what = sockets.describe(inode)?;
            return Some(format!(
                "{what} is open (descriptor {number}): tasks that use it at the same time read each other's answers; \
                 {REOPEN}"
            ));
        }
        if let Some(kind) = inside(target, "anon_inode:[") {
            let what = match kind {
                "eventpoll" => "an event loop (epoll)",
                "inotify" => "a watch of files (inotify)",
                "timerfd" => "a timer",
                "io_uring" => "an io_uring",
                _ => return None,
            };
            return Some(format!(
                "{what} is open (descriptor {number}): forked processes take each other's events; create it in the task"
            ));
        }
        if target.starts_with("pipe:[") {
            return Some(format!(
                "a pipe is open (descriptor {number}): forked processes share both its data and its end; {REOPEN}"
            ));
        }
        self.finding_about_file(pid)
    }

    fn finding_about_file(&self, pid: i32) -> Option<String> {
        let (number, target) = (self.number, self.target.as_str());
        let path = format!("/proc/{pid}/fd/{number}");
        // The script itself, and the lock file.
        let is_harmless = target.ends_with(".php") || target.contains(OPCACHE_LOCK);
        if is_harmless || !fs::metadata(&path).is_ok_and(|meta| meta.is_file()) {
            return None;
        }
        let mut head = Vec::new();
        // The process may have replaced the file with a FIFO in the meantime, on which an open would wait.
        let mut options = fs::File::options();
        let options = options.read(true);
        let options = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = options.open(&path).ok();
        file.and_then(|file| file.take(16).read_to_end(&mut head).ok());
        if head == SQLITE {
            return Some(format!(
                "the SQLite database {target} is open (descriptor {number}): using it in several processes can damage \
                 it; {REOPEN}"
            ));
        }
        // Appending needs no position.
        if open_flags(pid, number)? & libc::O_APPEND as u32 != 0 {
            return None;
        }
        Some(format!(
            "the file {target} is open (descriptor {number}): forked processes share its position; {REOPEN}"
        ))
    }
}

/// The part between a prefix and the closing bracket.
fn inside<'a>(target: &'a str, prefix: &str) -> Option<&'a str> {
    target.strip_prefix(prefix)?.strip_suffix(']')
}

fn open_flags(pid: i32, number: u32) -> Option<u32> {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    u32::from_str_radix(flags.trim(), 8).ok()
}

/// The sockets in the network namespace of a process.
struct SocketTables {
    /// The name and the content of each table.
    internet: [(&'static str, String); 4],
    unix: String,
}

impl SocketTables {
    fn read(pid: i32) -> Self {
        let read = |table: &str| read_table(&format!("/proc/{pid}/net/{table}"));
        Self {
            internet: ["tcp", "tcp6", "udp", "udp6"].map(|table| (table, read(table))),
            unix: read("unix"),
        }
    }

    /// What a socket is connected to; `None` if it is the zygote's own socket to Stoker.
    fn describe(&self, inode: &str) -> Option<String> {
        for (table, text) in &self.internet {
            if let Some(row) = row(text, 9, inode) {
                return Some(describe_port(table, row.get(2)?));
            }
        }
        match row(&self.unix, 6, inode) {
            // SOCK_SEQPACKET
            Some(row) if row.get(4) == Some(&"0005") && row.get(7).is_none() => None,
            Some(row) => Some(match row.get(7) {
                Some(path) => format!("a unix socket at {path}"),
                None => "a unix socket".to_owned(),
            }),
            None => Some("a socket".to_owned()),
        }
    }
}

/// The row of a table that has this value in a column.
fn row<'a>(table: &'a str, column: usize, value: &str) -> Option<Vec<&'a str>> {
    let rows = table.lines().skip(1);
    let mut rows = rows.map(|line| line.split_ascii_whitespace().collect::<Vec<&str>>());
    rows.find(|row| row.get(column) == Some(&value))
}

/// Describes the remote end of a socket, as in `0100007F:1538`.
fn describe_port(table: &str, remote: &str) -> String {
    let port = remote.rsplit_once(':').map(|(_, port)| port);
    let port = port.and_then(|port| u16::from_str_radix(port, 16).ok());
    let protocol = if table.starts_with("tcp") {
        "TCP"
    } else {
        "UDP"
    };
    match port {
        None | Some(0) => format!("a {protocol} socket"),
        Some(port) => {
            let service = SERVICES.iter().find(|(known, _)| *known == port);
            let service = service.map_or(String::new(), |(_, name)| format!(", {name}"));
            format!("a {protocol} connection to port {port}{service}")
        }
    }
}

fn threads(pid: i32) -> Option<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let others = tasks.flatten().filter_map(|entry| {
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        (number != pid).then(|| name.trim().to_owned())
    });
    let names: Vec<String> = others.collect();
    (!names.is_empty()).then(|| {
        format!(
            "the boot has started {} threads ({}): they do not exist in forked processes, and a lock that one of them \
             holds is never released there; start them in the task, or turn off the extension that starts them",
            names.len(),
            names.join(", ")
        )
    })
}

/// The locks on files that the process holds.
fn locks(pid: i32, descriptors: &[Descriptor]) -> Vec<String> {
    let table = read_table("/proc/locks");
    let pid_text = pid.to_string();
    let rows = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (kind, owner, place) = (*fields.get(1)?, *fields.get(4)?, *fields.get(5)?);
        (owner == pid_text).then_some((kind, place.rsplit(':').next()?))
    });
    let rows = rows.map(|(kind, inode)| {
        let path = descriptors
            .iter()
            .find(|descriptor| descriptor.has_inode(pid, inode));
        (
            kind,
            path.map_or("a file", |descriptor| descriptor.target.as_str()),
        )
    });
    let rows = rows.filter(|(_, path)| !path.contains(OPCACHE_LOCK));
    rows.map(|(kind, path)| {
        let effect = match kind {
            "FLOCK" => "each forked process holds it too, and releases it for all",
            _ => "forked processes do not hold it",
        };
        format!("a lock on {path} is held: {effect}; take it in the task")
    })
    .collect()
}

impl Descriptor {
    fn has_inode(&self, pid: i32, inode: &str) -> bool {
        use std::os::unix::fs::MetadataExt;
        let path = format!("/proc/{pid}/fd/{}", self.number);
        fs::metadata(path).is_ok_and(|meta| meta.ino().to_string() == inode)
    }
}

fn read_table(path: &str) -> String {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).ok();
    file.and_then(|file| file.take(MAX_TABLE).read_to_end(&mut bytes).ok());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    /// This process has threads of the test harness, so only the other findings are compared.
    fn of_this_process() -> Vec<String> {
        inspect_zygote(std::process::id() as i32)
    }

    #[test]
    fn open_files_and_connections_are_found() {
        let dir = std::env::temp_dir().join(format!("stoker-inspect-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let open = |name: &str| fs::File::create(dir.join(name)).expect("a file");
        let mut database = open("shop.db");
        database.write_all(SQLITE).expect("it can be written");
        let (plain, locked) = (open("notes.txt"), open("lock"));
        flock(&locked, FlockOperation::LockExclusive).expect("a lock");
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(dir.join("app.log"))
            .expect("a log");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let connection = TcpStream::connect(address).expect("a connection");
        let found = of_this_process();
        let has = |text: &str| found.iter().any(|finding| finding.contains(text));
        let path = |name: &str| dir.join(name).display().to_string();
        assert!(
            has(&format!("the SQLite database {} is open", path("shop.db"))),
            "{found:#?}"
        );
        assert!(
            has(&format!("the file {} is open", path("notes.txt"))),
            "{found:#?}"
        );
        assert!(
            has(&format!("a lock on {} is held", path("lock"))),
            "{found:#?}"
        );
        assert!(
            has(&format!("a TCP connection to port {}", address.port())),
            "{found:#?}"
        );
        assert!(!has("app.log"), "appending is harmless: {found:#?}");
        assert!(has("threads"), "the test harness has several: {found:#?}");
        drop((plain, log, connection));
        fs::remove_dir_all(dir).ok();
    }

    #[test]
    fn well_known_services_are_named() {
        let told = describe_port("tcp", "0100007F:1538");
        assert_eq!(told, "a TCP connection to port 5432, PostgreSQL");
        assert_eq!(describe_port("udp6", "00000000:0000"), "a UDP socket");
    }
}
