//! What the suites share: dice that can be thrown again, engines, events, and the arguments of a child process.

use flyball::{Decision, PolicySource, Preset, Verdict};
use flyball_journal::{
    Desk, Incoming, Postgres, PostgresOptions, Probe, Recorder, RecorderOptions, Sqlite, SqliteOptions,
    StoreError, Sync,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// What can fail in the harness itself.
pub(crate) type Fallible<T> = Result<T, String>;

/// The time of the first event, in milliseconds since 1970.
const BEGIN: u64 = 1_760_000_000_000;

/// A generator of numbers that gives the same ones for the same seed (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Dice(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if there is none.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }

    /// A number from `from` to `to`, both included.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// As [`Dice::below`], for places in a list.
    pub(crate) fn place(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// A store that is tortured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Engine {
    pub(crate) fn read(text: &str) -> Self {
        match text.strip_prefix("sqlite:") {
            Some(path) => Engine::Sqlite(PathBuf::from(path)),
            None => Engine::Postgres(text.to_owned()),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Engine::Sqlite(path) => format!("sqlite:{}", path.display()),
            Engine::Postgres(url) => url.clone(),
        }
    }

    /// The folder of its files.
    pub(crate) fn folder(&self) -> PathBuf {
        match self {
            Engine::Sqlite(path) => path.parent().map(Path::to_path_buf).unwrap_or_default(),
            Engine::Postgres(_) => PathBuf::new(),
        }
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Engine::Sqlite(_) => "sqlite",
            Engine::Postgres(_) => "postgres",
        }
    }

    /// Opens the store. How hard it syncs, only SQLite can be told.
    pub(crate) fn open_with(&self, sync: Sync, probe: Probe) -> Result<Arc<dyn Desk>, StoreError> {
        match self {
            Engine::Sqlite(path) => {
                Ok(Arc::new(Sqlite::open(path, SqliteOptions { sync, probe, ..SqliteOptions::default() })?))
            }
            Engine::Postgres(url) => {
                let options = PostgresOptions { probe, ..PostgresOptions::default() };
                Ok(Arc::new(Postgres::open_with(url, options)?))
            }
        }
    }

    pub(crate) fn open(&self) -> Result<Arc<dyn Desk>, StoreError> {
        self.open_with(Sync::Full, Probe::default())
    }
}

/// The word for how hard is synced.
pub(crate) const fn sync_word(sync: Sync) -> &'static str {
    match sync {
        Sync::Full => "full",
        Sync::Normal => "normal",
        Sync::Off => "off",
    }
}

pub(crate) fn read_sync(word: &str) -> Sync {
    [Sync::Normal, Sync::Off].into_iter().find(|sync| sync_word(*sync) == word).unwrap_or_default()
}

/// A recorder under the preset `agent`.
pub(crate) fn recorder(store: Arc<dyn Desk>, probe: Probe) -> Recorder {
    let options = RecorderOptions { probe, ..RecorderOptions::default() };
    Recorder::new(store, source(), options)
}

/// The policy of all suites.
pub(crate) fn source() -> PolicySource {
    PolicySource::preset(Preset::Agent)
}

/// Event `number` of a client: always the same for the same arguments. Some calls repeat, so that guards have
/// something to say and every decision depends on what came before it.
pub(crate) fn line(session: &str, client: &str, number: u64) -> String {
    let id = format!("{client}.{number}");
    let tool = ["read_file", "bash", "grep"]
        .get(usize::try_from(number / 2 % 3).unwrap_or(0))
        .copied()
        .unwrap_or("bash");
    let what = (number / 2) % 7 / 3;
    match (number % 24, number % 2) {
        (23, _) => format!(
            r#"{{"type":"human.released","session":"{session}","by":"tester","why":"go on","id":"{id}"}}"#
        ),
        (_, 0) => format!(
            r#"{{"type":"tool.requested","session":"{session}","call":"{client}-{}","tool":"{tool}","args":{{"what":"{what}","pad":"{:0>120}"}},"id":"{id}"}}"#,
            number / 2,
            what * 7919
        ),
        _ => format!(
            r#"{{"type":"tool.finished","session":"{session}","call":"{client}-{}","ok":{},"output":"{what}","id":"{id}"}}"#,
            number / 2,
            !number.is_multiple_of(5)
        ),
    }
}

/// That event, stamped.
pub(crate) fn event(session: &str, client: &str, number: u64) -> Fallible<Incoming> {
    Incoming::read(line(session, client, number), Some(BEGIN + number * 1000)).map_err(|error| error.what)
}

/// Whether a later answer to the same event agrees with the first one: it is the same, or the session has been halted
/// since it allowed the event, and the answer is that halt.
pub(crate) fn answers_agree(first: &str, later: &str, halted_since: bool) -> bool {
    let halt_instead = || {
        let read = |text: &str| serde_json::from_str::<Decision>(text).ok();
        let (first, later) = (read(first)?, read(later)?);
        let same_event = (&first.session, first.seq) == (&later.session, later.seq);
        Some(same_event && first.decision < Verdict::Block && later.decision == Verdict::Halt)
    };
    first == later || (halted_since && halt_instead().unwrap_or(false))
}

/// Whether a decision as JSON is a halt.
pub(crate) fn is_halt(decision: &str) -> bool {
    decision.contains(r#""decision":"halt""#)
}

/// A short digest of a decision as JSON.
pub(crate) fn digest(decision: &str) -> String {
    format!("{:016x}", xxh3_64(decision.as_bytes()))
}

/// Waits.
pub(crate) fn pause(millis: u64) {
    let end = std::time::Instant::now() + Duration::from_millis(millis);
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::park_timeout(left);
    }
}

/// An empty folder.
pub(crate) fn fresh(folder: &Path) -> Fallible<PathBuf> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(wrong)?;
    }
    std::fs::create_dir_all(folder).map_err(wrong)?;
    Ok(folder.to_path_buf())
}

/// Arguments of the form `key=value`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Words(BTreeMap<String, String>);

impl Words {
    pub(crate) fn read(args: &[String]) -> Self {
        let pair = |arg: &String| {
            let (key, value) = arg.split_once('=').unwrap_or((arg, "yes"));
            (key.to_owned(), value.to_owned())
        };
        Words(args.iter().map(pair).collect())
    }

    pub(crate) fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.0.insert(key.to_owned(), value.to_string());
        self
    }

    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    pub(crate) fn number(&self, key: &str) -> u64 {
        self.get(key).parse().unwrap_or(0)
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub(crate) fn args(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|(key, value)| format!("{key}={value}"))
    }
}

/// What was asked for on the command line.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) seed: u64,
    pub(crate) long: bool,
    /// Where the stores are put.
    pub(crate) folder: PathBuf,
    pub(crate) postgres: Option<String>,
}

impl Ask {
    /// A number for the long form, or for the short one.
    pub(crate) const fn pick(&self, long: u64, short: u64) -> u64 {
        if self.long { long } else { short }
    }

    /// Every engine, with a place of its own.
    pub(crate) fn engines(&self, name: &str) -> Fallible<Vec<Engine>> {
        let file = fresh(&self.folder.join(name))?.join("flyball.db");
        let server = self.postgres.clone().map(Engine::Postgres);
        Ok(std::iter::once(Engine::Sqlite(file)).chain(server).collect())
    }

    /// A beginning for the names of sessions that no other run uses: a server keeps what earlier runs left.
    pub(crate) fn tag(&self, name: &str) -> String {
        format!("{name}{:x}x{}", self.seed & 0xffff, std::process::id())
    }
}

/// A line of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) what: String,
    /// What was counted.
    pub(crate) seen: String,
    /// What is wrong, if anything.
    pub(crate) wrong: Vec<String>,
    /// This run is broken on purpose and must go red.
    pub(crate) control: bool,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, seen: impl Into<String>, wrong: Vec<String>) -> Self {
        Row { what: what.into(), seen: seen.into(), wrong, control: false }
    }

    pub(crate) fn control(what: impl Into<String>, seen: impl Into<String>, wrong: Vec<String>) -> Self {
        Row { control: true, ..Row::new(what, seen, wrong) }
    }

    /// Whether it came out as it must.
    pub(crate) fn good(&self) -> bool {
        self.control != self.wrong.is_empty()
    }
}
