//! Shared by the suites: a seeded random number generator, engines, events, and arguments of child processes.

use flyball::{Decision, PolicySource, Preset, Verdict};
use flyball_store::{
    AdminStore, FailpointHook, PostgresOptions, PostgresStore, Recorder, RecorderOptions, SqliteOptions,
    SqliteStore, StoreError, Submission, SyncMode,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Result with an error of the harness.
pub(crate) type TortureResult<T> = Result<T, String>;

/// Time of the first event, in milliseconds since the Unix epoch.
const START_TIME_MS: u64 = 1_760_000_000_000;

/// A deterministic random number generator (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct TortureRng(u64);

impl TortureRng {
    pub(crate) const fn new(seed: u64) -> Self {
        TortureRng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }

    /// A number from `from` to `to`, inclusive.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// Like [`TortureRng::below`], for list indexes.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// True with a probability of `chance` percent.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// A store under test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreUnderTest {
    Sqlite(PathBuf),
    Postgres(String),
}

impl StoreUnderTest {
    pub(crate) fn parse(text: &str) -> Self {
        match text.strip_prefix("sqlite:") {
            Some(path) => StoreUnderTest::Sqlite(PathBuf::from(path)),
            None => StoreUnderTest::Postgres(text.to_owned()),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            StoreUnderTest::Sqlite(path) => format!("sqlite:{}", path.display()),
            StoreUnderTest::Postgres(url) => url.clone(),
        }
    }

    /// Directory of its files.
    pub(crate) fn folder(&self) -> PathBuf {
        match self {
            StoreUnderTest::Sqlite(path) => path.parent().map(Path::to_path_buf).unwrap_or_default(),
            StoreUnderTest::Postgres(_) => PathBuf::new(),
        }
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            StoreUnderTest::Sqlite(_) => "sqlite",
            StoreUnderTest::Postgres(_) => "postgres",
        }
    }

    /// Opens the store. The sync mode only affects SQLite.
    pub(crate) fn open_with(
        &self,
        sync: SyncMode,
        probe: FailpointHook,
    ) -> Result<Arc<dyn AdminStore>, StoreError> {
        match self {
            StoreUnderTest::Sqlite(path) => Ok(Arc::new(SqliteStore::open(
                path,
                SqliteOptions { sync, failpoints: probe, ..SqliteOptions::default() },
            )?)),
            StoreUnderTest::Postgres(url) => {
                let options = PostgresOptions { failpoints: probe, ..PostgresOptions::default() };
                Ok(Arc::new(PostgresStore::open_with(url, options)?))
            }
        }
    }

    pub(crate) fn open(&self) -> Result<Arc<dyn AdminStore>, StoreError> {
        self.open_with(SyncMode::Full, FailpointHook::default())
    }
}

/// Name of a sync mode.
pub(crate) const fn sync_name(sync: SyncMode) -> &'static str {
    match sync {
        SyncMode::Full => "full",
        SyncMode::Normal => "normal",
        SyncMode::Off => "off",
    }
}

pub(crate) fn parse_sync(word: &str) -> SyncMode {
    [SyncMode::Normal, SyncMode::Off].into_iter().find(|sync| sync_name(*sync) == word).unwrap_or_default()
}

/// A recorder under the preset `agent`.
pub(crate) fn recorder(store: Arc<dyn AdminStore>, probe: FailpointHook) -> Recorder {
    let options = RecorderOptions { failpoints: probe, ..RecorderOptions::default() };
    Recorder::new(store, policy_source(), options)
}

/// The policy of all suites.
pub(crate) fn policy_source() -> PolicySource {
    PolicySource::preset(Preset::Agent)
}

/// Event `number` of a client, deterministic. Some calls repeat, so that guards trip and every decision depends on
/// the events before it.
pub(crate) fn event_line(session: &str, client: &str, number: u64) -> String {
    let id = format!("{client}.{number}");
    let tool = ["read_file", "bash", "grep"]
        .get(usize::try_from(number / 2 % 3).unwrap_or(0))
        .copied()
        .unwrap_or("bash");
    let what = (number / 2) % 7 / 3;
    match (number % 24, number % 2) {
        (23, _) => format!(
            r#"{{"type":"human.released","session":"{session}","by":"tester","why":"continue","id":"{id}"}}"#
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

/// The same event as a submission.
pub(crate) fn event(session: &str, client: &str, number: u64) -> TortureResult<Submission> {
    Submission::parse(event_line(session, client, number), Some(START_TIME_MS + number * 1000))
        .map_err(|error| error.message)
}

/// Whether a later answer to an event agrees with the first one: it is equal, or the session has been halted since
/// the first one allowed the event, and the later one is that halt.
pub(crate) fn answers_agree(first: &str, later: &str, halted_since: bool) -> bool {
    let halt_instead = || {
        let read = |text: &str| serde_json::from_str::<Decision>(text).ok();
        let (first, later) = (read(first)?, read(later)?);
        let same_event = (&first.session, first.seq) == (&later.session, later.seq);
        Some(same_event && first.decision < Verdict::Block && later.decision == Verdict::Halt)
    };
    first == later || (halted_since && halt_instead().unwrap_or(false))
}

/// Whether a decision in JSON is a halt.
pub(crate) fn is_halt(decision: &str) -> bool {
    decision.contains(r#""decision":"halt""#)
}

/// A short digest of a decision in JSON.
pub(crate) fn digest(decision: &str) -> String {
    format!("{:016x}", xxh3_64(decision.as_bytes()))
}

/// Waits.
pub(crate) fn sleep_ms(millis: u64) {
    let end = std::time::Instant::now() + Duration::from_millis(millis);
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::park_timeout(left);
    }
}

/// Creates an empty directory.
pub(crate) fn empty_dir(folder: &Path) -> TortureResult<PathBuf> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(wrong)?;
    }
    std::fs::create_dir_all(folder).map_err(wrong)?;
    Ok(folder.to_path_buf())
}

/// Arguments of the form `key=value`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChildArgs(BTreeMap<String, String>);

impl ChildArgs {
    pub(crate) fn parse(args: &[String]) -> Self {
        let pair = |arg: &String| {
            let (key, value) = arg.split_once('=').unwrap_or((arg, "yes"));
            (key.to_owned(), value.to_owned())
        };
        ChildArgs(args.iter().map(pair).collect())
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

/// Command-line options.
#[derive(Debug, Clone)]
pub(crate) struct TortureOptions {
    pub(crate) seed: u64,
    pub(crate) long: bool,
    /// Directory of the stores.
    pub(crate) folder: PathBuf,
    pub(crate) postgres: Option<String>,
}

impl TortureOptions {
    /// Selects a number for the long or the short form.
    pub(crate) const fn pick(&self, long: u64, short: u64) -> u64 {
        if self.long { long } else { short }
    }

    /// Every engine, each with a separate location.
    pub(crate) fn engines(&self, name: &str) -> TortureResult<Vec<StoreUnderTest>> {
        let file = empty_dir(&self.folder.join(name))?.join("flyball.db");
        let server = self.postgres.clone().map(StoreUnderTest::Postgres);
        Ok(std::iter::once(StoreUnderTest::Sqlite(file)).chain(server).collect())
    }

    /// A unique prefix for session names, because a server keeps the data of earlier runs.
    pub(crate) fn tag(&self, name: &str) -> String {
        format!("{name}{:x}x{}", self.seed & 0xffff, std::process::id())
    }
}

/// A row of the result table.
#[derive(Debug, Clone)]
pub(crate) struct TortureRow {
    pub(crate) name: String,
    /// Summary of the counts.
    pub(crate) counts: String,
    /// The failures.
    pub(crate) failures: Vec<String>,
    /// Whether this run is broken on purpose and must fail.
    pub(crate) control: bool,
}

impl TortureRow {
    pub(crate) fn new(what: impl Into<String>, seen: impl Into<String>, failures: Vec<String>) -> Self {
        TortureRow { name: what.into(), counts: seen.into(), failures, control: false }
    }

    pub(crate) fn control(what: impl Into<String>, seen: impl Into<String>, wrong: Vec<String>) -> Self {
        TortureRow { control: true, ..TortureRow::new(what, seen, wrong) }
    }

    /// Whether the result is the expected one.
    pub(crate) fn is_as_expected(&self) -> bool {
        self.control != self.failures.is_empty()
    }
}
