//! The default of `max_memory`, from the memory limits that the kernel reports.

use std::path::Path;

/// The maximum of the default, in bytes.
const MAX_DEFAULT: u64 = 512 << 20;
/// The divisor for the memory of the machine or control group. The rest of the memory is for the workers.
const MEMORY_DIVISOR: u64 = 4;
/// The minimum of the default, in bytes: less would not hold a single large frame.
const MIN_DEFAULT: u64 = 16 << 20;

/// The default of `max_memory`: a quarter of the memory of the control group or the machine, but at most 512 MB.
pub(crate) fn default_memory() -> usize {
    default_memory_under(Path::new("/")) as usize
}

fn default_memory_under(root: &Path) -> u64 {
    let limits = [cgroup_limit(root), machine_memory(root)];
    let limit = limits.into_iter().flatten().min();
    limit.map_or(MAX_DEFAULT, |limit| {
        (limit / MEMORY_DIVISOR).clamp(MIN_DEFAULT, MAX_DEFAULT)
    })
}

/// The lowest memory limit of this process's control group and its ancestors, for cgroup versions 1 and 2.
fn cgroup_limit(root: &Path) -> Option<u64> {
    let groups = read(&root.join("proc/self/cgroup"))?;
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        lowest_limit(&root.join(mount), path, file)
    });
    limits.min()
}

/// The lowest number in the file of this name, in a directory below `mount` and in all its ancestors up to
/// `mount`.
fn lowest_limit(mount: &Path, path: &str, file: &str) -> Option<u64> {
    let group = mount.join(path.trim_start_matches('/'));
    let up = group.ancestors().take_while(|dir| dir.starts_with(mount));
    let limits = up.filter_map(|dir| read(&dir.join(file)));
    // A group without a limit has `max`, or a number above any memory size.
    let limits = limits.filter_map(|text| text.trim().parse::<u64>().ok());
    limits.min()
}

fn read(path: &Path) -> Option<String> {
    String::from_utf8(stoker_os::read_file(path).ok()?).ok()
}

fn machine_memory(root: &Path) -> Option<u64> {
    let info = read(&root.join("proc/meminfo"))?;
    let total = info
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// A root directory with these files, which is removed when dropped.
    struct Root(PathBuf);

    impl Root {
        fn with(name: &str, files: &[(&str, &str)]) -> Self {
            let name = format!("stoker-memory-{name}-{}", std::process::id());
            let root = Self(std::env::temp_dir().join(name));
            for (path, text) in files {
                let path = root.0.join(path);
                let dir = path.parent().expect("it is below the root");
                fs::create_dir_all(dir).expect("the directory is ours");
                fs::write(path, text).expect("the file is ours");
            }
            root
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    const LARGE: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       24684300 kB\nMemFree: 1 kB\n",
    );

    #[test]
    fn the_default_without_a_limit_is_512_mb() {
        let none = Root::with("none", &[]);
        assert_eq!(default_memory_under(&none.0), 512 << 20);
        let unlimited = Root::with(
            "max",
            &[
                LARGE,
                ("proc/self/cgroup", "0::/user.slice\n"),
                ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
            ],
        );
        assert_eq!(default_memory_under(&unlimited.0), 512 << 20);
    }

    #[test]
    fn the_default_of_a_small_machine_is_a_quarter_of_its_memory() {
        let small = Root::with("small", &[("proc/meminfo", "MemTotal: 1048576 kB\n")]);
        assert_eq!(default_memory_under(&small.0), 256 << 20);
        let tiny = Root::with("tiny", &[("proc/meminfo", "MemTotal: 1024 kB\n")]);
        assert_eq!(default_memory_under(&tiny.0), 16 << 20);
    }

    #[test]
    fn the_lowest_limit_of_all_parent_groups_counts() {
        let nested = Root::with(
            "nested",
            &[
                LARGE,
                ("proc/self/cgroup", "0::/kube/pod/app\n"),
                ("sys/fs/cgroup/kube/memory.max", "8589934592\n"),
                ("sys/fs/cgroup/kube/pod/memory.max", "536870912\n"),
                ("sys/fs/cgroup/kube/pod/app/memory.max", "max\n"),
            ],
        );
        assert_eq!(default_memory_under(&nested.0), 128 << 20);
        // Inside a container, the group's path is the root.
        let own = Root::with(
            "own",
            &[
                LARGE,
                ("proc/self/cgroup", "0::/\n"),
                ("sys/fs/cgroup/memory.max", "268435456\n"),
            ],
        );
        assert_eq!(default_memory_under(&own.0), 64 << 20);
    }

    #[test]
    fn limits_of_cgroup_version_1_are_read() {
        let old = Root::with(
            "v1",
            &[
                LARGE,
                (
                    "proc/self/cgroup",
                    "4:cpu,cpuacct:/a\n3:memory:/docker/x\n0::/\n",
                ),
                (
                    "sys/fs/cgroup/memory/memory.limit_in_bytes",
                    "9223372036854771712\n",
                ),
                (
                    "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes",
                    "1073741824\n",
                ),
            ],
        );
        assert_eq!(default_memory_under(&old.0), 256 << 20);
    }
}
