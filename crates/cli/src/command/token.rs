//! `stoker token`: edits the tokens of peers on other machines.

use crate::args::{Token as Command, TokenFile, TokenOptions};
use crate::exit::{Failure, Result};
use crate::output::{print, print_json};
use crate::table::Column;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use stoker_gateway::token::{FileError, Role, Secret, Token, create_for, edit, new_secret, read};
use stoker_server::config::parse_time;
use stoker_server::rfc3339;

pub(crate) fn token(command: &Command, json: bool) -> Result {
    match command {
        Command::Create {
            name,
            options,
            file,
        } => {
            let (path, socket) = paths(file)?;
            create(&path, socket.as_deref(), name, options, json)
        }
        Command::List { file } => list(&path(file)?, json),
        Command::Set {
            name,
            options,
            file,
        } => set(&path(file)?, name, options, json),
        Command::Rotate {
            name,
            overlap,
            file,
        } => rotate(&path(file)?, name, overlap.as_deref(), json),
        Command::Revoke { name, file } => revoke(&path(file)?, name, json),
    }
}

/// The token file from the command line or the configuration.
fn path(file: &TokenFile) -> Result<PathBuf> {
    Ok(paths(file)?.0)
}

/// The token file, and the socket of the server whose configuration names it.
fn paths(file: &TokenFile) -> Result<(PathBuf, Option<PathBuf>)> {
    if let Some(path) = &file.tokens {
        return Ok((path.clone(), None));
    }
    let config = file.config.clone().unwrap_or_else(|| "stoker.toml".into());
    let (_, resolved) = super::serve::read(&config).map_err(|failure| match failure {
        Failure::Config(text) if !config.exists() => {
            Failure::Config(format!("{text}; or set the token file with --tokens FILE"))
        }
        other => other,
    })?;
    let directory = super::serve::directory_of(&config);
    let socket = crate::socket::configured_or_default(resolved.socket.clone());
    let socket = super::serve::socket_in(directory, &socket);
    Ok((directory.join(&resolved.listen.tokens), Some(socket)))
}

fn create(
    path: &Path,
    socket: Option<&Path>,
    name: &str,
    options: &TokenOptions,
    json: bool,
) -> Result {
    let mut token = Token {
        name: name.to_owned(),
        created_ms: now_ms(),
        ..Token::default()
    };
    apply(&mut token, options)?;
    let mut presented = None;
    if token.certificate.is_none() {
        let (text, secret) = new_secret(name)?;
        token.secrets = vec![secret];
        presented = Some(text);
    }
    create_file(path, socket)?;
    edit(path, |tokens| {
        if tokens.iter().any(|other| other.name == name) {
            return Err(format!(
                "token '{name}' already exists: change it with 'stoker token set {name}', or give it a new secret \
                 with 'stoker token rotate {name}'"
            ));
        }
        tokens.push(token);
        Ok(())
    })?;
    show_secret(name, presented.as_deref(), json)
}

/// Creates the token file for the server's user if root creates the first token. The server's user is the owner of its
/// socket or, if it does not run, of the file's directory.
fn create_file(path: &Path, socket: Option<&Path>) -> Result {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let directory = path.parent().filter(|parent| *parent != Path::new(""));
    let directory = directory.unwrap_or(Path::new("."));
    let of_server = socket.and_then(|socket| fs::metadata(socket).ok());
    let is_known = of_server.is_some();
    let Some(owner) = of_server.or_else(|| fs::metadata(directory).ok()) else {
        return Ok(());
    };
    if create_for(path, owner.uid(), owner.gid())? && owner.uid() == 0 && !is_known {
        let path = path.display();
        eprintln!(
            "The token file {path} belongs to root. If the server runs as another user, run chown USER {path}."
        );
    }
    Ok(())
}

/// Prints a secret, which is not stored anywhere. It is the only line on standard output, so that a script can save it.
fn show_secret(name: &str, presented: Option<&str>, json: bool) -> Result {
    match (presented, json) {
        (_, true) => print_json(&json!({"name": name, "token": presented}).to_string()),
        (Some(presented), false) => print(presented),
        (None, false) => print(&format!(
            "token {name} was created; peers authenticate with their certificate"
        )),
    }
}

fn set(path: &Path, name: &str, options: &TokenOptions, json: bool) -> Result {
    let (changed, had_secrets) = edit(path, |tokens| {
        let token = find(tokens, name)?;
        let had_secrets = !token.secrets.is_empty();
        apply(token, options).map_err(|failure| failure.to_string())?;
        token.drop_unused_secrets();
        Ok((token.clone(), had_secrets))
    })?;
    let note = match &changed.certificate {
        Some(certificate) if had_secrets => format!(
            "; its secrets are no longer valid, peers authenticate with a certificate for {certificate}"
        ),
        None if changed.secrets.is_empty() => {
            format!("; it has no secret: create one with 'stoker token rotate {name}'")
        }
        _ => String::new(),
    };
    match json {
        true => print_json(&as_json(&changed).to_string()),
        false => print(&format!("token {name} was changed{note}")),
    }
}

fn rotate(path: &Path, name: &str, overlap: Option<&str>, json: bool) -> Result {
    let overlap_ms = overlap
        .map(|text| duration_ms("--overlap", text))
        .transpose()?;
    let (presented, secret) = new_secret(name)?;
    edit(path, |tokens| {
        let token = find(tokens, name)?;
        if let Some(certificate) = &token.certificate {
            return Err(format!(
                "token '{name}' has no secret, because peers authenticate with a certificate for {certificate}; to use \
                 a secret instead, run 'stoker token set {name} --certificate none' first"
            ));
        }
        replace_secret(token, secret, overlap_ms, now_ms());
        Ok(())
    })?;
    show_secret(name, Some(&presented), json)
}

/// Replaces all secrets with a new one. With an overlap, the old ones stay valid until it is over.
fn replace_secret(token: &mut Token, new: Secret, overlap_ms: Option<u64>, now: u64) {
    let until = overlap_ms.map(|overlap| now + overlap);
    let mut kept = Vec::new();
    if let Some(until) = until {
        let valid = |secret: &Secret| secret.expires_ms.is_none_or(|expires| expires > now);
        for mut secret in std::mem::take(&mut token.secrets).into_iter().filter(valid) {
            secret.expires_ms = Some(
                secret
                    .expires_ms
                    .map_or(until, |expires| expires.min(until)),
            );
            kept.push(secret);
        }
    }
    kept.insert(0, new);
    token.secrets = kept;
}

fn revoke(path: &Path, name: &str, json: bool) -> Result {
    edit(path, |tokens| {
        find(tokens, name)?;
        tokens.retain(|token| token.name != name);
        Ok(())
    })?;
    match json {
        true => print_json(&json!({"name": name, "revoked": true}).to_string()),
        false => print(&format!(
            "token {name} was revoked; its open connections end within a second"
        )),
    }
}

fn list(path: &Path, json: bool) -> Result {
    let tokens = read(path)?;
    if json {
        let all: Vec<Value> = tokens.iter().map(as_json).collect();
        return print_json(&json!({"tokens": all}).to_string());
    }
    super::show::show("tokens", &tokens, &COLUMNS)
}

const COLUMNS: [Column<Token>; 7] = [
    ("NAME", |token| (&token.name).into()),
    ("ROLES", |token| roles(token).join(",").into()),
    ("QUEUES", |token| listed(&token.queues).into()),
    ("SERVICES", |token| listed(&token.services).into()),
    ("LIMITS", |token| limits(token).into()),
    ("CERTIFICATE", |token| token.certificate.as_ref().into()),
    ("EXPIRES", |token| token.expires_ms.map(rfc3339).into()),
];

fn listed(patterns: &[String]) -> Option<String> {
    (!patterns.is_empty()).then(|| patterns.join(","))
}

fn roles(token: &Token) -> Vec<&'static str> {
    token.roles.iter().map(|role| role.name()).collect()
}

fn limits(token: &Token) -> Option<String> {
    let limits = [
        (token.connections, "connections"),
        (token.inflight, "in flight"),
        (token.pushes_per_second, "pushes/s"),
    ];
    let set = limits
        .iter()
        .filter_map(|(limit, what)| Some(format!("{} {what}", (*limit)?)));
    let set: Vec<String> = set.collect();
    (!set.is_empty()).then(|| set.join(", "))
}

/// Everything about a token except the hashes of its secrets.
fn as_json(token: &Token) -> Value {
    json!({
        "name": token.name,
        "roles": roles(token),
        "queues": token.queues,
        "services": token.services,
        "connections": token.connections,
        "inflight": token.inflight,
        "pushes_per_second": token.pushes_per_second,
        "certificate": token.certificate,
        "secrets": token.secrets.len(),
        "created_at": rfc3339(token.created_ms),
        "expires_at": token.expires_ms.map(rfc3339),
    })
}

/// Changes the properties that the options set.
fn apply(token: &mut Token, options: &TokenOptions) -> Result {
    if !options.roles.is_empty() {
        let roles = options.roles.iter().map(|role| role.parse::<Role>());
        token.roles = roles
            .collect::<std::result::Result<_, _>>()
            .map_err(Failure::Usage)?;
    }
    let texts = |all: &[String]| match all {
        [none] if none == "none" => Vec::new(),
        all => all.to_vec(),
    };
    if !options.queues.is_empty() {
        token.queues = texts(&options.queues);
    }
    if !options.services.is_empty() {
        token.services = texts(&options.services);
    }
    for (option, given, limit) in [
        (
            "--connections",
            &options.connections,
            &mut token.connections,
        ),
        ("--inflight", &options.inflight, &mut token.inflight),
        (
            "--pushes-per-second",
            &options.pushes_per_second,
            &mut token.pushes_per_second,
        ),
    ] {
        if let Some(text) = given {
            *limit = number_or_none(option, text)?;
        }
    }
    if let Some(text) = &options.expires {
        token.expires_ms = match text.as_str() {
            "never" => None,
            text => Some(now_ms() + duration_ms("--expires", text)?),
        };
    }
    if let Some(name) = &options.certificate {
        token.certificate = (name != "none").then(|| name.clone());
    }
    check_patterns(token)
}

/// A role without a pattern would permit nothing.
fn check_patterns(token: &Token) -> Result {
    let has_some = |role: Role| {
        let names = match role {
            Role::Push => !token.queues.is_empty(),
            Role::Call => !token.services.is_empty(),
            Role::Work => !token.queues.is_empty() || !token.services.is_empty(),
            Role::Read | Role::Admin => true,
        };
        names || token.has(Role::Admin)
    };
    let Some(role) = token.roles.iter().find(|role| !has_some(**role)) else {
        return Ok(());
    };
    let options = match role {
        Role::Push => "--queues",
        Role::Call => "--services",
        _ => "--queues or --services",
    };
    Err(Failure::Usage(format!(
        "the role {role} permits nothing without {options}: add {} with a list of names or patterns, such as 'emails,reports-*', or '*' for all",
        options.split(' ').next().unwrap_or_default()
    )))
}

fn number_or_none(option: &str, text: &str) -> Result<Option<u32>> {
    match text {
        "none" => Ok(None),
        text => match text.parse() {
            Ok(number) if number > 0 => Ok(Some(number)),
            _ => Err(Failure::Usage(format!(
                "invalid {option} {text:?}: expected a number above 0, or none"
            ))),
        },
    }
}

fn duration_ms(option: &str, text: &str) -> Result<u64> {
    let span = parse_time(text).filter(|span| span.as_millis() > 0);
    let span = span.ok_or_else(|| {
        Failure::Usage(format!(
            "invalid {option} {text:?}: expected a positive number and a unit, such as 10m, 12h or 90d"
        ))
    })?;
    Ok(span.as_millis())
}

fn find<'a>(tokens: &'a mut [Token], name: &str) -> std::result::Result<&'a mut Token, String> {
    let mut tokens = tokens.iter_mut();
    let found = tokens.find(|token| token.name == name);
    found.ok_or_else(|| format!("there is no token '{name}'; 'stoker token list' shows all"))
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Rejected(text) => Self::Failed(text),
            other => Self::Failed(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_keeps_the_old_secret_for_the_overlap() {
        let secret = |text: &str, expires_ms| Secret {
            sha256: text.to_owned(),
            expires_ms,
        };
        let mut token = Token {
            secrets: vec![
                secret("a", None),
                secret("gone", Some(5)),
                secret("soon", Some(12)),
            ],
            ..Token::default()
        };
        replace_secret(&mut token, secret("b", None), Some(10), 10);
        let expected = [
            secret("b", None),
            secret("a", Some(20)),
            secret("soon", Some(12)),
        ];
        assert_eq!(token.secrets, expected);
        replace_secret(&mut token, secret("c", None), None, 11);
        assert_eq!(token.secrets, [secret("c", None)]);
    }
}
