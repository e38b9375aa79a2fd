//! All rounds of all rows.

use crate::application::Application;
use crate::error::Result;
use crate::folder::Folder;
use crate::interrupt::Interrupt;
use crate::isolation::{Isolation, probe};
use crate::options::Options;
use crate::prepare::prepare;
use crate::report::{Kind, Missing, Report, Row};
use crate::round::{Round, measure};
use crate::server::{Broken, Stop, end_all};
use crate::way::Way;
use std::fs;
use std::path::Path;

/// What is done at the moment.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The number of steps that have been done, and of all.
    pub done: usize,
    pub steps: usize,
    /// Such as `round 2 of 6: fork`.
    pub step: String,
}

/// A row while it is measured.
struct Measuring {
    way: Way,
    kind: Kind,
    isolation: Option<Isolation>,
    rounds: Vec<Round>,
    missing: Option<Broken>,
}

/// Measures an application. `show` is called before each step.
///
/// Whatever happens, all servers are stopped, and their files removed, before this function returns. INT, TERM and HUP end
/// it with [`Error::Interrupted`](crate::Error::Interrupted). They do not end the process any more once this function has been called.
pub fn run(options: &Options, show: &mut dyn FnMut(&Progress)) -> Result<Report> {
    options.check()?;
    let ways = Way::select(&options.strategies)?;
    let folder = Folder::new()?;
    let application = Application::open(&options.application, &options.path, &folder)?;
    let interrupt = Interrupt::install()?;
    let result = prepare(&application, &interrupt).and_then(|()| {
        let mut rows = rows(&ways, &application);
        measure_all(&mut rows, &application, options, &folder, &interrupt, show)?;
        Ok(rows)
    });
    end_all();
    Ok(Report::new(
        options,
        &application,
        result?.into_iter().map(Measuring::row).collect(),
    ))
}

/// A row for each way.
fn rows(ways: &[Way], application: &Application) -> Vec<Measuring> {
    let rows = ways.iter().map(|way| Measuring {
        way: *way,
        kind: Kind::of(*way),
        isolation: None,
        rounds: Vec::new(),
        missing: way.obstacle(application).map(|reason| Broken {
            reason,
            log: Vec::new(),
        }),
    });
    rows.collect()
}

/// The null row: the first way that can be measured, once more.
fn null_row(rows: &[Measuring]) -> Option<Measuring> {
    let first = rows.iter().find(|row| row.missing.is_none())?;
    Some(Measuring {
        way: first.way,
        kind: Kind::Null,
        isolation: None,
        rounds: Vec::new(),
        missing: None,
    })
}

/// First what is isolated, once, which also shows which ways can be measured; then the rounds.
fn measure_all(
    rows: &mut Vec<Measuring>,
    application: &Application,
    options: &Options,
    folder: &Folder,
    interrupt: &Interrupt,
    show: &mut dyn FnMut(&Progress),
) -> Result {
    let rounds = options.rounds as usize;
    let steps = rows.len() + (rows.len() + 1) * rounds;
    let mut done = 0;
    for round in 0..=rounds {
        if round == 1 {
            rows.extend(null_row(rows));
        }
        for at in 0..rows.len() {
            interrupt.check()?;
            // Each row comes first in some round, so that none is always measured after the same other one.
            let at = (at + round) % rows.len();
            let row = &mut rows[at];
            done += 1;
            if row.missing.is_some() {
                continue;
            }
            let name = row.name();
            let step = match round {
                0 => format!("what is isolated: {name}"),
                _ => format!("round {round} of {rounds}: {name}"),
            };
            show(&Progress {
                done: done - 1,
                steps,
                step,
            });
            let place = folder.make(&format!("{at}-{}", row.way.name().replace(':', "-")))?;
            let result = match round {
                0 => row.find_isolation(application, &place, interrupt),
                _ => row.measure(application, &place, options, interrupt),
            };
            match result {
                Ok(()) => {}
                Err(Stop::Broken(broken)) => row.missing = Some(broken),
                Err(Stop::All(error)) => return Err(error),
            }
            fs::remove_dir_all(&place)?;
        }
    }
    Ok(())
}

impl Measuring {
    fn name(&self) -> String {
        match self.kind {
            Kind::Null => format!("{} again", self.way.name()),
            _ => self.way.name(),
        }
    }

    fn find_isolation(
        &mut self,
        application: &Application,
        place: &Path,
        interrupt: &Interrupt,
    ) -> std::result::Result<(), Stop> {
        self.isolation = Some(probe(self.way, application, place, interrupt)?);
        Ok(())
    }

    fn measure(
        &mut self,
        application: &Application,
        place: &Path,
        options: &Options,
        interrupt: &Interrupt,
    ) -> std::result::Result<(), Stop> {
        let size = (options.workers(), options.time());
        self.rounds
            .push(measure(self.way, application, place, size, interrupt)?);
        Ok(())
    }

    fn row(self) -> Row {
        Row {
            name: self.name(),
            makes_calls: self.way.makes_calls(),
            kind: self.kind,
            result: match self.missing {
                Some(broken) => Err(Missing {
                    reason: broken.reason,
                    log: broken.log,
                }),
                None => Ok((&self.rounds[..]).into()),
            },
            isolation: self.isolation,
        }
    }
}
