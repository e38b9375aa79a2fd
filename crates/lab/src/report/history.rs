//! The figures of 2018.

/// How long an invocation took in 2018, as average and minimum in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// The letter of the way in the article, if it has one.
    pub letter: Option<char>,
    /// The strategy of Stoker that does the same.
    pub strategy: &'static str,
    pub plain: (u32, u32),
    pub symfony: (u32, u32),
}

const fn way(
    letter: Option<char>,
    strategy: &'static str,
    plain: (u32, u32),
    symfony: (u32, u32),
) -> History {
    History {
        letter,
        strategy,
        plain,
        symfony,
    }
}

/// Execution times on AWS Lambda, from the article of 2018 about ways to run PHP behind its Runtime API, of which Stoker's
/// strategies are the successors. 100 requests, one at a time, to a plain PHP script and to a Symfony application. The first
/// row is a LAMP server outside of Lambda; `exec` was the baseline.
pub static HISTORY: [History; 8] = [
    way(None, "lamp", (1, 0), (6, 4)),
    way(Some('B'), "exec", (21, 15), (42, 22)),
    way(Some('A'), "loop", (4, 1), (6, 2)),
    way(Some('D'), "fork", (11, 6), (20, 12)),
    way(Some('E'), "fastcgi", (5, 1), (18, 11)),
    way(Some('F'), "http", (4, 1), (17, 8)),
    way(Some('G'), "sapi", (5, 2), (8, 5)),
    way(Some('H'), "cgi", (18, 10), (33, 18)),
];

impl History {
    /// The way that does the same as a strategy.
    #[must_use]
    pub fn of(strategy: &str) -> Option<&'static Self> {
        HISTORY.iter().find(|way| way.strategy == strategy)
    }

    /// The average and minimum with an application of the lab that is like one of the article.
    #[must_use]
    pub fn with(&self, application: &str) -> Option<(u32, u32)> {
        match application {
            "hello" => Some(self.plain),
            "symfony" => Some(self.symfony),
            _ => None,
        }
    }
}
