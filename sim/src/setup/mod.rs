//! The setup of a seed: a configuration, how busy the seed is, and how much goes wrong.

pub(crate) mod edit;
mod focus;
mod options;
mod section;
mod sections;
mod setting;

use crate::dice::Dice;
use crate::gateway::RemoteToken;
use crate::operator;
use crate::shutdowns::draw_shutdowns;
use crate::storing::Store;
pub(crate) use edit::SectionEdit;
pub(crate) use focus::{Focus, Frequencies};
pub(crate) use section::Section;
pub(crate) use setting::Setting;
use std::time::Duration;

/// The percentage of runs that fail additionally in a storm, so that most runs are not the last of their job.
pub(crate) const STORM_ERRORS: u64 = 40;

/// When a break begins and ends. It lasts longer than a call is rejected after it killed workers.
const BREAK: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(2_600));
/// After a break, clients begin again within this time.
const RESUME_WITHIN: Duration = Duration::from_secs(1);

/// At least this many processes of a pool may be about to end, and more if the pool is larger.
const MIN_LEAVING_PROCESSES: u64 = 4;

/// A pool as it was drawn.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) section: Section,
    /// The sections of earlier reloads.
    pub(crate) former: Vec<Section>,
    /// The maximum time that a task may run, in milliseconds; `None` for no limit.
    pub(crate) task_timeout_ms: Setting<Option<u64>>,
    pub(crate) crash_budget: Setting<u32>,
    /// The number of tasks that one worker runs at once.
    pub(crate) slots: u16,
    /// The pool's workers take tasks on request.
    pub(crate) pulls: bool,
    /// The pool answers the requests of a site.
    pub(crate) serves_site: bool,
}

/// A queue as it was drawn.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) section: Section,
    /// The queue is undeclared: only producers have named it.
    pub(crate) is_undeclared: bool,
    pub(crate) pool: usize,
    pub(crate) tries: Setting<u16>,
    /// Each list of backoff times that the queue ever had, in milliseconds. A list is empty if the queue has none.
    pub(crate) backoffs_ms: Vec<Vec<u32>>,
    pub(crate) ordered: bool,
    /// Jobs are acknowledged on delivery, so each runs at most once.
    pub(crate) on_delivery: Setting<bool>,
    pub(crate) max_waiting: Setting<u64>,
    /// The maximum payload size of a push, in bytes.
    pub(crate) max_body: Setting<u64>,
    pub(crate) limit: Setting<u64>,
    pub(crate) reserve: Setting<u64>,
    /// An operator has set the reserve, so an edit of the file may not apply to it.
    pub(crate) had_reserve_set: bool,
    /// Workers were kept for the queue at some time.
    pub(crate) had_kept_workers: bool,
    pub(crate) per_key: Setting<u64>,
    /// Priorities are strict: jobs of a lower class do not gain priority with age.
    pub(crate) is_strict: Setting<bool>,
    pub(crate) keep_done: Setting<u64>,
    pub(crate) keep_failed: Setting<u64>,
    /// The queue deletes ended jobs after a time that the simulation may reach.
    pub(crate) deletes_soon: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) name: String,
    /// The service is that of a web site: only gateways call it.
    pub(crate) is_site: bool,
    pub(crate) section: Section,
    pub(crate) pool: usize,
    pub(crate) limit: Setting<u64>,
    pub(crate) reserve: Setting<u64>,
    pub(crate) per_key: Setting<u64>,
    /// Workers were kept for the service at some time.
    pub(crate) had_kept_workers: bool,
    /// The time of a call that sets none, in milliseconds.
    pub(crate) timeout_ms: Setting<u64>,
    pub(crate) max_waiting: Setting<u64>,
    pub(crate) max_wait_ms: Setting<u64>,
    pub(crate) is_idempotent: Setting<bool>,
}

/// How likely a run goes wrong, and in which way, in per cent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) error: u64,
    pub(crate) retry: u64,
    pub(crate) crash: u64,
    pub(crate) hang: u64,
    /// How likely a client hangs up, each time that it acts.
    pub(crate) hang_up: u64,
}

impl Trouble {
    pub(crate) const NONE: Self = Self {
        error: 0,
        retry: 0,
        crash: 0,
        hang: 0,
        hang_up: 0,
    };
}

/// Limits per connection or per user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quotas {
    pub(crate) max_inflight: u64,
    pub(crate) user_inflight: u64,
    pub(crate) user_pushes: u64,
    pub(crate) user_queues: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) stoker: Section,
    pub(crate) log: Section,
    pub(crate) pools: Vec<Pool>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) services: Vec<Service>,
    pub(crate) quotas: Quotas,
    pub(crate) trouble: Trouble,
    /// The share of operators' requests in what operators' clients do, in per cent.
    pub(crate) operations: u64,
    /// Pushes have options of their own.
    pub(crate) has_push_options: bool,
    /// The number of requests that all clients make together.
    pub(crate) requests: u64,
    pub(crate) clients: u64,
    /// The number of guests: workers that the angel does not start, and that connect by themselves.
    pub(crate) guests: u64,
    /// The tokens of the users whose clients are on other machines: a gateway relays their connections.
    pub(crate) remote_users: [Option<RemoteToken>; 3],
    /// A gateway relays the connections of guests.
    pub(crate) remote_guests: bool,
    /// How long the gateway waits for a worker that has lost its connection.
    pub(crate) resume_timeout: Duration,
    /// After how many reads and answers, on average, a worker on another machine loses its connection; 0 if never.
    pub(crate) link_losses: u64,
    /// The number of calls in ten requests.
    pub(crate) calls: u64,
    /// For a long time no client requests anything.
    pub(crate) has_break: bool,
    /// The maximum length of a run, in microseconds.
    pub(crate) max_run_us: u64,
    pub(crate) store: Store,
    /// How often Stoker shuts down in the middle of work.
    pub(crate) shutdowns: u64,
    /// The percentage of peers' reads that are late, and the maximum delay of the others in microseconds. Only where
    /// none is late do runs seem quick to the server, so that it prefetches tasks.
    pub(crate) read_delay: (u64, u64),
    /// The page size of the list of jobs at the end.
    pub(crate) page: u64,
    /// The wall clock is set to other times.
    pub(crate) wall_jumps: bool,
    /// Reads and writes are cut short.
    pub(crate) short_io: bool,
    pub(crate) focus: Focus,
    pub(crate) frequencies: Frequencies,
}

impl Setup {
    /// Whether a user may see the jobs of all others.
    pub(crate) fn sees_all(&self, uid: u32) -> bool {
        uid == 0 || self.token_of(uid).is_some_and(|token| token.reads)
    }

    /// The token of a user whose clients are on other machines.
    pub(crate) fn token_of(&self, uid: u32) -> Option<RemoteToken> {
        *self.remote_users.get(uid as usize)?
    }

    pub(crate) fn draw(seed: u64) -> Self {
        let mut dice = Dice::of(seed, "setup");
        let store = Store::draw(&mut Dice::of(seed, "store setup"));
        let stoker = sections::stoker(&mut dice);
        let log = sections::log(&mut dice);
        let mut pools: Vec<Pool> = (0..dice.within(1, 2))
            .map(|no| Pool::read(sections::pool(&mut dice, &format!("p{no}"))))
            .collect();
        for pool in &mut pools {
            pool.slots = *dice.one_of(&[1, 1, 1, 2, 4, 16]);
            pool.pulls = pool.slots == 1 && dice.percent(25);
            pool.set_adapter_slots();
        }
        let mut spare: Vec<u64> = pools.iter().map(|pool| min_slots(&pool.section)).collect();
        let queues = (0..dice.within(1, 4)).map(|no| {
            let pool = dice.below(pools.len() as u64) as usize;
            let (name, of) = (format!("q{no}"), &pools[pool].name);
            Queue::read(
                pool,
                sections::queue(&mut dice, &name, of, &mut spare[pool]),
            )
        });
        let mut queues: Vec<Queue> = queues.collect();
        // Workers offer to serve any queue, so workers of several pools would share an undeclared one.
        if pools.len() == 1 {
            let undeclared = Dice::of(seed, "made up").below(3);
            queues.extend((0..undeclared).map(|no| Queue::undeclared(&format!("m{no}"))));
        }
        let services = (0..dice.below(3)).map(|no| {
            let pool = dice.below(pools.len() as u64) as usize;
            let (name, of) = (format!("s{no}"), &pools[pool].name);
            Service::read(
                pool,
                sections::service(&mut dice, &name, of, &mut spare[pool]),
            )
        });
        let services = services.collect();
        let mut remote = Dice::of(seed, "remote");
        let mut links = Dice::of(seed, "links");
        let shutdowns = draw_shutdowns(seed, &store);
        let mut ages = pools.iter().map(|pool| pool.section.get("max_age"));
        // If a pool started a worker each second, a break would take long to simulate.
        let may_break = ages.all(|age| age != Some("\"1s\""));
        let mut setup = Self {
            quotas: Quotas::read(&stoker),
            stoker,
            log,
            pools,
            queues,
            services,
            trouble: trouble(&mut dice),
            operations: *dice.one_of(&[0, 0, 2, 15, 40]),
            has_push_options: dice.percent(60),
            requests: dice.within(20, 300),
            clients: dice.within(1, 6),
            guests: *dice.one_of(&[0, 0, 0, 1, 3]),
            // The connections of administrators have places of their own, so user 0 stays on this machine.
            remote_users: [false, remote.percent(30), remote.percent(30)]
                .map(|is_remote| is_remote.then(|| RemoteToken::draw(&mut links))),
            remote_guests: remote.percent(50),
            resume_timeout: Duration::from_millis(
                *links.one_of(&[0, 1_000, 10_000, 10_000, 10_000]),
            ),
            link_losses: *links.one_of(&[0, 1, 1, 3, 10]),
            calls: *dice.one_of(&[2, 2, 6]),
            has_break: dice.percent(12) && may_break,
            max_run_us: *dice.one_of(&[20, 50, 150, 1_000, 20_000, 300_000]),
            // Across a restart, delays follow the wall clock.
            wall_jumps: dice.percent(25) && store.server_deaths == 0 && shutdowns == 0,
            store,
            shutdowns,
            page: *Dice::of(seed, "page").one_of(&[4, 40, 1_000]),
            short_io: dice.percent(30),
            read_delay: *dice.one_of(&[(5, 200), (0, 20), (0, 60), (1, 50)]),
            focus: Focus::draw(&mut Dice::of(seed, "focus")),
            frequencies: Frequencies::default(),
        };
        setup.apply_focus(setup.focus, &mut Dice::of(seed, "about"));
        setup.draw_sites(&mut Dice::of(seed, "sites"));
        setup
    }

    /// When an action that is planned for `at` takes place: after the break, if `at` falls into it.
    pub(crate) fn after_break(&self, at: Duration) -> Duration {
        let (from, to) = BREAK;
        match self.has_break && at > from && at < to {
            true => to + (at - from).min(RESUME_WITHIN),
            false => at,
        }
    }

    /// The text of the configuration file.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.stoker.write(&mut text);
        text += &self.store.section();
        self.log.write(&mut text);
        self.pools
            .iter()
            .for_each(|pool| pool.section.write(&mut text));
        self.declared_queues()
            .for_each(|queue| queue.section.write(&mut text));
        self.services
            .iter()
            .for_each(|service| service.section.write(&mut text));
        text
    }

    /// The queues that the file declares, which come before all others.
    pub(crate) fn declared_queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.iter().filter(|queue| !queue.is_undeclared)
    }

    pub(crate) fn sections(&self) -> impl Iterator<Item = &Section> {
        let pools = self.pools.iter().map(|pool| &pool.section);
        let queues = self.declared_queues().map(|queue| &queue.section);
        let services = self.services.iter().map(|service| &service.section);
        [&self.stoker, &self.log]
            .into_iter()
            .chain(pools)
            .chain(queues)
            .chain(services)
    }

    pub(crate) fn pool(&self, name: &str) -> Option<usize> {
        self.pools.iter().position(|pool| pool.name == name)
    }

    /// Whether some workers of this pool are kept for certain queues or services.
    pub(crate) fn keeps_workers(&self, pool: usize) -> bool {
        let mut queues = self.queues.iter();
        let mut services = self.services.iter();
        queues.any(|queue| queue.pool == pool && queue.had_kept_workers)
            || services.any(|service| service.pool == pool && service.had_kept_workers)
    }

    /// Whether the workers of this pool stay unless something happens to them.
    pub(crate) fn is_steady(&self, pool: usize) -> bool {
        let section = &self.pools[pool].section;
        let goes = ["max_tasks", "max_age"].iter();
        self.operations == 0
            && tasks_of_strategy(section).is_none()
            && goes.clone().all(|key| section.get(key).is_none())
    }

    /// Whether runs are too long for the server to prefetch tasks.
    pub(crate) fn never_prefetches(&self) -> bool {
        self.max_run_us >= 20_000
    }

    /// The maximum number of tasks that a worker gets; `None` if there is no limit, or if tasks are prefetched.
    pub(crate) fn max_tasks_of_worker(&self, pool: usize) -> Option<u64> {
        let bounds = self.pools[pool].sections();
        let mut bounds = bounds.map(|section| {
            let limit = tasks_of_strategy(section);
            limit.unwrap_or_else(|| section.number("max_tasks", 0))
        });
        let most = bounds.try_fold(0, |most: u64, bound| (bound > 0).then_some(most.max(bound)));
        most.filter(|_| self.never_prefetches())
    }

    /// The maximum number of workers of a pool, by all sections that it ever had.
    pub(crate) fn max_workers(&self, pool: usize) -> u64 {
        let sections = self.pools[pool].sections();
        let most = sections.map(|section| workers_of(section).1).max();
        most.unwrap_or(0)
    }

    /// The maximum number of processes of a pool: those that work, those that boot as replacements, and as many that
    /// are ending.
    pub(crate) fn max_processes(&self, pool: usize) -> u64 {
        let of_file = self.max_workers(pool);
        let most = match self.operations {
            0 => of_file,
            _ => of_file.max(operator::MAX_WORKERS),
        };
        most + self
            .stoker
            .number("boots_at_once", u64::from(stoker_os::processors()))
            + most.max(MIN_LEAVING_PROCESSES)
    }

    /// The longest time that workers have to finish and leave when the server shuts down.
    pub(crate) fn max_stop_grace(&self) -> Duration {
        let sections = self.pools.iter().flat_map(Pool::sections);
        let graces = sections.map(|section| {
            let task = section.millis("task_timeout", 60_000);
            let grace = section.millis("stop_grace", task.unwrap_or(60_000));
            grace.unwrap_or(60_000)
        });
        Duration::from_millis(graces.max().unwrap_or(0))
    }

    /// Whether a server may continue with what another one has left.
    pub(crate) fn has_restarts(&self) -> bool {
        self.store.server_deaths > 0 || self.shutdowns > 0
    }

    /// The queue with this name.
    pub(crate) fn queue(&self, name: &str) -> Option<usize> {
        self.queues.iter().position(|queue| queue.name == name)
    }

    /// Whether there are more undeclared queues than one user may create, so that a push may be rejected for that.
    /// Whether calls, jobs and answers may take all memory that Stoker may use.
    pub(crate) fn has_little_memory(&self) -> bool {
        self.focus == Focus::Memory
    }

    pub(crate) fn exceeds_user_queues(&self) -> bool {
        let undeclared = self.queues.iter().filter(|queue| queue.is_undeclared);
        undeclared.count() as u64 > self.quotas.user_queues
    }

    /// The methods of a pool's services, which its workers must offer.
    pub(crate) fn calls_of(&self, pool: &str) -> impl Iterator<Item = String> {
        let at = self.pool(pool);
        let all = self.services.iter();
        let all = all.filter(move |service| Some(service.pool) == at);
        all.map(Service::call)
    }

    /// Makes sites of some services. All clients are those of the HTTP gateway then.
    fn draw_sites(&mut self, dice: &mut Dice) {
        if !dice.percent(25) {
            return;
        }
        for service in &mut self.services {
            // Programs that run once per task can't answer HTTP requests.
            let pool = &mut self.pools[service.pool];
            if dice.percent(70) && !pool.is_exec() {
                pool.serves_site = true;
                service.section.make_site();
                *service = Service::read(service.pool, service.section.clone());
            }
        }
        if self.has_sites() {
            self.remote_users = [None; 3];
        }
    }

    pub(crate) fn has_sites(&self) -> bool {
        self.services.iter().any(|service| service.is_site)
    }
}

impl Pool {
    fn read(section: Section) -> Self {
        Self {
            name: section.head.replace("pool.", ""),
            task_timeout_ms: Setting::new(section.millis("task_timeout", 60_000)),
            crash_budget: Setting::new(section.number("crash_budget", 3) as u32),
            slots: 1,
            pulls: false,
            serves_site: false,
            former: Vec::new(),
            section,
        }
    }
}

impl Pool {
    /// All sections that the pool ever had: tasks and processes that began under an earlier one may continue.
    pub(crate) fn sections(&self) -> impl Iterator<Item = &Section> {
        self.former.iter().chain([&self.section])
    }

    /// Whether the pool runs a program per task. An adapter starts the programs, with as many slots as the pool has
    /// workers.
    pub(crate) fn is_exec(&self) -> bool {
        is_exec(&self.section)
    }

    /// Whether the number of tasks of the pool's workers is limited by its strategy, or was before a reload.
    pub(crate) fn may_be_spare(&self) -> bool {
        self.sections().any(|of| tasks_of_strategy(of).is_some())
    }

    /// Whether the pool ran programs at some time.
    pub(crate) fn may_be_exec(&self) -> bool {
        self.sections().any(is_exec)
    }

    /// Whether a section of the pool starts such a worker: an adapter with this many slots, or one without slots.
    pub(crate) fn may_start_worker(&self, adapter_slots: Option<u16>) -> bool {
        self.sections().any(|section| {
            let slots = is_exec(section).then(|| written_workers(section).1 as u16);
            slots == adapter_slots
        })
    }

    /// Whether the pool's workers have several slots or take tasks on request, but do not run programs.
    fn has_special_workers(&self) -> bool {
        self.pulls || self.slots > 1 && !self.may_be_exec()
    }

    /// Gives an `exec` pool one worker, its adapter, with a slot for each program.
    fn set_adapter_slots(&mut self) {
        if self.is_exec() {
            self.slots = written_workers(&self.section).1 as u16;
            self.pulls = false;
        }
    }
}

impl Queue {
    pub(crate) fn draw(dice: &mut Dice, name: &str) -> Self {
        Self::read(0, sections::queue(dice, name, "p0", &mut 0))
    }

    /// A queue without a section: it has all defaults, and is deleted once it is not used.
    fn undeclared(name: &str) -> Self {
        let section = Section::new(format!("queue.{name}"));
        Self {
            is_undeclared: true,
            deletes_soon: true,
            ..Self::read(0, section)
        }
    }

    fn read(pool: usize, section: Section) -> Self {
        let times = section.millis("keep_done_for", 86_400_000).into_iter();
        let times = times.chain(section.millis("keep_failed_for", 86_400_000));
        Self {
            name: section.head.replace("queue.", ""),
            is_undeclared: false,
            pool,
            tries: Setting::new(section.number("tries", 1) as u16),
            backoffs_ms: vec![backoff_of(section.get("backoff").unwrap_or_default())],
            ordered: section.get("ordered") == Some("true"),
            on_delivery: Setting::new(section.get("ack") == Some("\"delivery\"")),
            max_waiting: Setting::new(section.number("max_waiting", 10_000_000)),
            max_body: Setting::new(section.bytes("max_body").unwrap_or(u64::MAX)),
            limit: Setting::new(section.number("limit", u64::MAX)),
            reserve: Setting::new(section.number("reserve", 0)),
            had_reserve_set: false,
            had_kept_workers: section.number("keep", 0) > 0,
            per_key: Setting::new(section.number("per_key", u64::MAX)),
            is_strict: Setting::new(section.get("age_step") == Some("\"none\"")),
            keep_done: Setting::new(section.number("keep_done", 10_000)),
            keep_failed: Setting::new(section.number("keep_failed", 100_000)),
            deletes_soon: times.min().is_some_and(|least| least < 10_000_000),
            section,
        }
    }
}

impl Service {
    /// The name of the method that clients call.
    pub(crate) fn call(&self) -> String {
        match self.is_site {
            true => format!("{}.request", self.name),
            false => format!("{}.ask", self.name),
        }
    }

    fn read(pool: usize, section: Section) -> Self {
        let is_site = section.head.starts_with("site.");
        let default_ms = if is_site { 30_000 } else { 10_000 };
        Self {
            name: match section.head.strip_prefix("site.") {
                Some(site) => format!("{}{site}", stoker_wire::SITE_PREFIX),
                None => section.head.replace("service.", ""),
            },
            is_site,
            pool,
            limit: Setting::new(section.number("limit", u64::MAX)),
            reserve: Setting::new(section.number("reserve", 0)),
            per_key: Setting::new(section.number("per_key", u64::MAX)),
            had_kept_workers: section.number("keep", 0) > 0,
            timeout_ms: Setting::new(section.millis("timeout", default_ms).unwrap_or(u64::MAX)),
            max_waiting: Setting::new(section.number("max_waiting", 10_000)),
            max_wait_ms: Setting::new(section.millis("max_wait", u64::MAX).unwrap_or(u64::MAX)),
            is_idempotent: Setting::new(section.get("idempotent").is_some()),
            section,
        }
    }
}

impl Quotas {
    fn read(section: &Section) -> Self {
        Self {
            max_inflight: section.number("max_inflight", 1_024),
            user_inflight: section.number("user_inflight", 50_000),
            user_pushes: section.number("user_pushes", 50_000),
            user_queues: section.number("user_queues", 900),
        }
    }
}

/// The number of tasks that each worker runs, if the strategy limits it: workers are then started ahead.
fn tasks_of_strategy(section: &Section) -> Option<u64> {
    match section.get("strategy") {
        Some(sections::SPARE) => Some(1),
        // The maximum of `auto`.
        Some(sections::FORK) if section.get("tasks_per_fork") == Some("\"auto\"") => Some(100),
        Some(sections::FORK) => Some(section.number("tasks_per_fork", 1)),
        _ => None,
    }
}

fn is_exec(section: &Section) -> bool {
    section.get("strategy") == Some(sections::EXEC)
}

/// The number of tasks that a pool can certainly run at once, if each of its workers runs one.
fn min_slots(section: &Section) -> u64 {
    match is_exec(section) {
        true => written_workers(section).1,
        false => workers_of(section).0,
    }
}

/// The minimum and the maximum number of processes of a pool.
fn workers_of(section: &Section) -> (u64, u64) {
    match is_exec(section) {
        true => (1, 1),
        false => written_workers(section),
    }
}

impl Setup {
    /// Whether the file may set this size for a pool: the minimum and maximum number of workers as a list in JSON. A pool of
    /// programs has one adapter.
    pub(crate) fn may_have_size(&self, pool: usize, size: &serde_json::Value) -> bool {
        let sizes = self.pools[pool]
            .sections()
            .map(|section| [written_workers(section), workers_of(section)]);
        let mut sizes = sizes.into_iter().flatten();
        sizes.any(|(min, max)| serde_json::json!([min, max]) == *size)
    }
}

/// The two numbers of the key `workers`.
fn written_workers(section: &Section) -> (u64, u64) {
    let text = section.get("workers").unwrap_or_default();
    let digits = text.split(|letter: char| !letter.is_ascii_digit());
    let mut numbers = digits.filter_map(|part| part.parse().ok());
    let mut next = || numbers.next().expect("a pool has two numbers of workers");
    (next(), next())
}

/// The times of a backoff list, in milliseconds.
fn backoff_of(text: &str) -> Vec<u32> {
    match text {
        "[\"0s\"]" => vec![0],
        "[\"100ms\", \"2s\"]" => vec![100, 2_000],
        _ => Vec::new(),
    }
}

/// Draws what goes wrong. In a third of the seeds nothing does, because otherwise no seed would get far.
fn trouble(dice: &mut Dice) -> Trouble {
    if dice.percent(33) {
        return Trouble::NONE;
    }
    // A storm, in which most runs are not the last of their job.
    let storm = if dice.percent(10) { STORM_ERRORS } else { 0 };
    let mut some = |most| {
        if dice.percent(50) {
            dice.below(most)
        } else {
            0
        }
    };
    Trouble {
        error: some(20) + storm,
        retry: some(15),
        crash: some(8),
        hang: some(4),
        hang_up: some(6),
    }
}
