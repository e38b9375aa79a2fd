//! HTTP requests, answered by real PHP through the adapters. Each case runs with every strategy; [`php::Kind`] says what a
//! strategy can't do. The scripts are in `tests/http-behaviour`. `scripts/setup` installs the programs.

mod answers;
mod failures;
mod message;
mod parts;
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
    parts: large_answer_in_parts events announced_length little_credit head_of_large_answer crash_in_parts slow_reader;
    failures: uncaught_exception warnings crash cancel missing_script missing_file;
}
