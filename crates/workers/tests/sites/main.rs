//! HTTP requests, answered by real PHP through the adapters, and by the PHP host. Each case runs with every strategy; [`php::Kind`] says what a
//! strategy can't do. The scripts are in `tests/http-behaviour`. `scripts/setup` installs the programs.

mod answers;
mod failures;
mod isolation;
mod message;
mod php;
mod requests;
mod site;
mod upstreams;

/// Makes a test of each case for each strategy.
macro_rules! cases {
    ($($from:ident: $($case:ident)*;)*) => {
        cases!(@ cgi Cgi $($($from $case)*)*);
        cases!(@ fastcgi FastCgi $($($from $case)*)*);
        cases!(@ http Http $($($from $case)*)*);
        cases!(@ sapi Sapi $($($from $case)*)*);
    };
    (@ $strategy:ident $kind:ident $($from:ident $case:ident)*) => {
        mod $strategy {
            $(#[test]
            fn $case() {
                crate::$from::$case(&mut crate::site::Site::start(crate::php::Kind::$kind));
            })*
        }
    };
}

cases! {
    requests: request form upload body_file large_body unread_body head_request other_methods hostile_fields several_cookies not_a_request;
    answers: status_and_fields cookies redirect large_answer too_large_answer no_body middle;
    failures: uncaught_exception warnings cancel missing_script missing_file;
    isolation: globals statics classes constants settings environment directory umask locale handlers buffers temporary_files wrappers random files;
}

/// The adapter, which must outlive the death of the script's process. The PHP host is that process; `crates/cli/tests/it/sapi.rs` kills it.
mod crash {
    use crate::php::Kind;
    use crate::site::Site;

    #[test]
    fn cgi() {
        crate::failures::crash(&mut Site::start(Kind::Cgi));
    }

    #[test]
    fn fastcgi() {
        crate::failures::crash(&mut Site::start(Kind::FastCgi));
    }

    #[test]
    fn http() {
        crate::failures::crash(&mut Site::start(Kind::Http));
    }
}
