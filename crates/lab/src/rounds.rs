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

/// A row for each way, and the null row: the first way that can be measured, once more.
fn rows(ways: &[Way], application: &Application) -> Vec<Measuring> {
    let row = |way: Way, kind: Kind| Measuring {
        way,
        kind,
        isolation: None,
        rounds: Vec::new(),
        missing: way.obstacle(application).map(|reason| Broken {
            reason,
            log: Vec::new(),
        }),
    };
    let mut rows: Vec<Measuring> = ways.iter().map(|way| row(*way, Kind::of(*way))).collect();
    let first = rows
        .iter()
        .find(|row| row.missing.is_none())
        .map(|row| row.way);
    rows.extend(first.map(|way| row(way, Kind::Null)));
    rows
}

/// First what is isolated, once; then the rounds.
fn measure_all(
    rows: &mut [Measuring],
    application: &Application,
    options: &Options,
    folder: &Folder,
    interrupt: &Interrupt,
    show: &mut dyn FnMut(&Progress),
) -> Result {
    let (count, rounds) = (rows.len(), options.rounds as usize);
    let steps = count * (rounds + 1);
    for step in 0..steps {
        interrupt.check()?;
        let round = step / count;
        // Each row comes first in some round, so that none is always measured after the same other one.
        let row = &mut rows[(step + round) % count];
        if row.missing.is_some() {
            continue;
        }
        let name = row.name();
        let what = match round {
            0 => format!("what is isolated: {name}"),
            _ => format!("round {round} of {rounds}: {name}"),
        };
        show(&Progress {
            done: step,
            steps,
            step: what,
        });
        let place = folder.make(&format!(
            "{}-{}",
            step % count,
            row.way.name().replace(':', "-")
        ))?;
        let done = match round {
            0 => row.find_isolation(application, &place, interrupt),
            _ => row.measure(application, &place, options, interrupt),
        };
        match done {
            Ok(()) => {}
            Err(Stop::Broken(broken)) => row.missing = Some(broken),
            Err(Stop::All(error)) => return Err(error),
        }
        fs::remove_dir_all(&place)?;
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
        // The null row shows the noise of figures.
        if self.kind != Kind::Null {
            self.isolation = Some(probe(self.way, application, place, interrupt)?);
        }
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
