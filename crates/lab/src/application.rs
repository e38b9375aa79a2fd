//! The applications that can be measured: three that the lab brings along, and applications of users.

use crate::error::{Error, Result};
use crate::folder::{Folder, write_all};
use std::path::{Path, PathBuf};

mod files {
    include!(concat!(env!("OUT_DIR"), "/files.rs"));
}

/// The applications of the lab, and what they need beside PHP.
const BUILT_IN: [&str; 3] = ["hello", "symfony", "laravel"];

/// The frameworks whose applications need no script of their own: the file that marks such an application, and the folder with
/// its scripts.
const FRAMEWORKS: [(&str, &str, &str); 2] = [
    ("artisan", "bootstrap/app.php", "laravel"),
    ("bin/console", "src/Kernel.php", "symfony"),
];

/// An application, and how each kind of strategy starts it.
#[derive(Debug)]
pub(crate) struct Application {
    /// How it is called in the report.
    pub(crate) name: String,
    /// The folder in which its processes run.
    pub(crate) folder: PathBuf,
    /// The path of the page that is fetched.
    pub(crate) path: String,
    /// The script of resident workers, or why there is none.
    pub(crate) worker: std::result::Result<PathBuf, String>,
    /// The script that boots the application in Stoker's PHP host, or why there is none.
    pub(crate) snapshot: std::result::Result<PathBuf, String>,
    /// What its processes have in their environment.
    pub(crate) env: Vec<(&'static str, String)>,
    /// What its page answers, if that is known.
    pub(crate) answer: Option<&'static str>,
    /// Whether its page can show what one task leaves to the next.
    pub(crate) has_probe: bool,
    /// A script that has to run once before the application is started.
    pub(crate) prepare: Option<PathBuf>,
}

impl Application {
    /// Finds the application. `name` names a built-in one, or a folder.
    pub(crate) fn open(name: &str, path: &str, folder: &Folder) -> Result<Self> {
        check_path(path)?;
        let sdk = folder.make("sdk")?;
        write_all(&sdk, files::SDK)?;
        write_all(&sdk, files::LARAVEL_SDK)?;
        let scripts = folder.make("php")?;
        write_all(&scripts, files::SCRIPTS)?;
        let is_built_in = BUILT_IN.contains(&name);
        let home = match is_built_in {
            true => scripts.join(name),
            false => std::path::absolute(name)?,
        };
        if !home.join("public/index.php").is_file() {
            return Err(Error::Invalid(format!(
                "there is no file {}: --app is the folder of an application whose front controller is public/index.php, or one of {}",
                home.join("public/index.php").display(),
                BUILT_IN.join(", ")
            )));
        }
        let framework = FRAMEWORKS
            .iter()
            .find(|(mark, file, _)| home.join(mark).is_file() && home.join(file).is_file());
        let script = |file: &str| {
            let own = home.join(file);
            let general =
                framework.map(|(_, _, name)| scripts.join("workers").join(name).join(file));
            let found = Some(own).filter(|path| path.is_file()).or(general);
            found.ok_or_else(|| format!("the application has no {file}"))
        };
        let prepare = home.join("prepare.php");
        let env = [
            ("LAB_SDK", sdk.to_string_lossy().into_owned()),
            ("LAB_APPLICATION", home.to_string_lossy().into_owned()),
            ("LAB_PATH", path.to_owned()),
        ];
        Ok(Self {
            name: name.to_owned(),
            path: path.to_owned(),
            worker: script("worker.php"),
            snapshot: script("snapshot.php"),
            env: env.into(),
            answer: (is_built_in && path == "/").then_some("Hello world"),
            has_probe: name == BUILT_IN[0],
            prepare: (is_built_in && prepare.is_file()).then_some(prepare),
            folder: home,
        })
    }

    /// The folder with the front controller and public files.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.join("public")
    }

    pub(crate) fn front_controller(&self) -> PathBuf {
        self.folder.join("public/index.php")
    }
}

fn check_path(path: &str) -> Result {
    let is_valid = path.starts_with('/')
        && path.len() <= 2000
        && path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#');
    match is_valid {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "invalid --path {path:?}: expected the path of a page, such as /orders?page=2, of at most 2000 characters, encoded as in a request"
        ))),
    }
}

/// A path as text of configurations.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(name: &str, path: &str) -> (Folder, Result<Application>) {
        let folder = Folder::new().unwrap();
        let opened = Application::open(name, path, &folder);
        (folder, opened)
    }

    #[test]
    fn built_in_applications_have_all_scripts() {
        for name in BUILT_IN {
            let (_folder, opened) = open(name, "/");
            let application = opened.unwrap();
            for script in [
                application.worker.clone().unwrap(),
                application.snapshot.clone().unwrap(),
                application.front_controller(),
            ] {
                assert!(script.is_file(), "{name}: {}", script.display());
            }
            assert_eq!(
                (application.has_probe, application.prepare.is_some()),
                (name == "hello", name != "hello"),
                "{name}"
            );
            let sdk = Path::new(&application.env[0].1);
            assert!(
                sdk.join("src/autoload.php").is_file()
                    && sdk.join("laravel/autoload.php").is_file()
            );
        }
    }

    #[test]
    fn an_application_without_scripts_says_which_are_missing() {
        let own = Folder::new().unwrap();
        write_all(
            own.path(),
            &[("public/index.php", "<?php"), ("snapshot.php", "<?php")],
        )
        .unwrap();
        let (_folder, opened) = open(&text(own.path()), "/a?b");
        let application = opened.unwrap();
        assert_eq!(
            application.worker.unwrap_err(),
            "the application has no worker.php"
        );
        assert_eq!(
            application.snapshot.unwrap(),
            own.path().join("snapshot.php")
        );
    }

    #[test]
    fn bad_names_and_paths_are_rejected() {
        for (name, path, reason) in [
            ("helo", "/", "there is no file"),
            ("/nowhere", "/", "/nowhere/public/index.php"),
            ("hello", "orders", "--path"),
            ("hello", "/a b", "--path"),
            ("hello", "/a\r\nx: y", "--path"),
        ] {
            let error = open(name, path).1.unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
