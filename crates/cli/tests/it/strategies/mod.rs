//! What every strategy promises that has processes of its own, with real PHP. Each case runs by each strategy; [`kind::Kind`] says
//! what is different. The scripts are in `tests/php-strategies`.

mod guilty;
mod kind;
mod life;
mod niceness;
mod pool;
mod script;
mod zygotes;

/// Makes a test of each case for each strategy.
macro_rules! cases {
    ($($name:ident from $from:ident by ($($strategy:ident $kind:ident)*): $cases:tt;)*) => {
        $(mod $name {
            $(cases!(@ $from $cases $strategy $kind);)*
        })*
    };
    (@ $from:ident ($($case:ident)*) $strategy:ident $kind:ident) => {
        mod $strategy {
            $(#[test]
            fn $case() {
                if let Some(kind) = crate::strategies::kind::Kind::$kind.if_installed() {
                    crate::strategies::$from::$case(kind);
                }
            })*
        }
    };
}

cases! {
    guilty_tasks from guilty by (r#loop Loop spare Spare fork Fork exec Exec sapi Sapi snapshot Snapshot):
        (kill segfault endless_loop memory memory_of_php exit flood half_written_answer);
    guilty_programs from guilty by (cgi Cgi):
        (kill segfault endless_loop memory memory_of_php exit flood half_written_answer);
    guilty_requests from guilty by (fastcgi FastCgi http Http):
        (kill segfault endless_loop memory_of_php exit half_written_answer);
    running_task from life by (r#loop Loop spare Spare fork Fork exec Exec sapi Sapi snapshot Snapshot cgi Cgi fastcgi FastCgi http Http):
        (cancel reload drain);
    nice from niceness by (r#loop Loop spare Spare fork Fork exec Exec sapi Sapi snapshot Snapshot cgi Cgi fastcgi FastCgi http Http):
        (all_processes);
    one_script from script by (sapi Sapi exec Exec cgi Cgi fastcgi FastCgi): (result facts failure retry large_result);
    statuses from script by (cgi Cgi fastcgi FastCgi http Http): (for_good later later_by_backoff call_fails);
    zygote from zygotes by (fork Fork snapshot Snapshot):
        (failed_boot boot_that_exits boot_that_hangs death broken_reload reload new_server failing_hook failing_warm_up hooks reboot list kills blocked_log
         death_behind_a_blocked_log check_of_a_failed_boot);
}
