//! Lists the PHP files that the program contains: the SDK, and the applications and workers in `php`. So the lab needs no
//! checkout of Stoker, and measures with the SDK of its own version.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The folder of the repository, its name in the program, and the name of the list.
const LISTS: [(&str, &str, &str); 3] = [
    ("../../sdk/php/src", "src", "SDK"),
    ("../../sdk/php/laravel", "laravel", "LARAVEL_SDK"),
    ("php", "", "SCRIPTS"),
];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?);
    let mut lists = String::new();
    for (folder, name, list) in LISTS {
        println!("cargo::rerun-if-changed={folder}");
        let mut files = Vec::new();
        collect(
            &fs::canonicalize(here.join(folder))?,
            Path::new(name),
            &mut files,
        )?;
        files.sort();
        writeln!(lists, "pub(crate) static {list}: &[(&str, &str)] = &[")
            .map_err(io::Error::other)?;
        for (name, path) in files {
            writeln!(lists, "    ({name:?}, include_str!({path:?})),").map_err(io::Error::other)?;
        }
        lists += "];\n";
    }
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    fs::write(out.join("files.rs"), lists)
}

fn collect(folder: &Path, name: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(file) = path.file_name() else {
            continue;
        };
        let name = name.join(file);
        if path.is_dir() && file != "tests" {
            collect(&path, &name, files)?;
        } else if path.extension().is_some_and(|extension| extension == "php")
            || file == "artisan"
            || file == "console"
        {
            files.push((name, path));
        }
    }
    Ok(())
}
