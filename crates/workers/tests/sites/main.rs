//! HTTP requests, answered by real PHP through the adapters, and by the PHP host. Each case runs with every strategy; [`php::Kind`] says what a
//! strategy can't do. The scripts are in `tests/http-behaviour`. `scripts/setup` installs the programs.

mod answers;
mod failures;
mod isolation;
mod message;
mod parts;
mod php;
mod requests;
mod site;
mod tasks;
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
    parts: large_answer_in_parts events announced_length little_credit head_of_large_answer slow_reader;
    failures: uncaught_exception warnings cancel missing_script missing_file;
    isolation: globals statics classes constants settings environment directory umask locale handlers buffers temporary_files wrappers random files;
}

/// Calls and jobs, which become requests.
mod posts {
    use crate::php::Kind;
    use crate::site::Site;

    macro_rules! cases {
        ($($strategy:ident $kind:ident)*) => {
            $(mod $strategy {
                use super::{Kind, Site};
                use crate::tasks;

                #[test]
                fn result() {
                    tasks::result(&mut Site::start_for_tasks(Kind::$kind));
                }

                #[test]
                fn statuses() {
                    tasks::statuses(&mut Site::start_for_tasks(Kind::$kind));
                }

                #[test]
                fn crash() {
                    tasks::crash(&mut Site::start_for_tasks(Kind::$kind));
                }

                #[test]
                fn cancel() {
                    tasks::cancel(&mut Site::start_for_tasks(Kind::$kind));
                }

                #[test]
                fn large_result() {
                    tasks::large_result(&mut Site::start_for_tasks(Kind::$kind));
                }
            })*
        };
    }

    cases!(cgi Cgi fastcgi FastCgi http Http);
}

/// Deaths of the script's process, which an adapter must outlive. The PHP host is that process; `crates/cli/tests/it/sapi.rs` kills it.
mod crashes {
    use crate::php::Kind;
    use crate::site::Site;
    use crate::{failures, parts};

    #[test]
    fn cgi() {
        failures::crash(&mut Site::start(Kind::Cgi));
        parts::crash_in_parts(&mut Site::start(Kind::Cgi));
    }

    #[test]
    fn fastcgi() {
        failures::crash(&mut Site::start(Kind::FastCgi));
        parts::crash_in_parts(&mut Site::start(Kind::FastCgi));
    }

    #[test]
    fn http() {
        failures::crash(&mut Site::start(Kind::Http));
        parts::crash_in_parts(&mut Site::start(Kind::Http));
    }
}
