//! The courier: performs the effects that the policy sends somewhere, after they were committed.
//!
//! At least once, each with a key: whoever honours the key sees it exactly once. What fails is tried again later, and
//! what fails for good is kept where a person can see it.

mod email;
mod sign;
mod words;

use crate::error::StoreError;
use crate::journal::{Desk, Errand, Settled};
use crate::probe::{Point, Probe};
use flyball::policy::{Delivery, JournalPolicy, Target, Webhook, WebhookFormat};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::Words;

/// How long a claimed errand is nobody else's, beyond the time that it may take.
const HOLD_MS: u64 = 30_000;
/// The first wait after a failure; it doubles with each further one.
const FIRST_WAIT_MS: u64 = 1_000;
/// The longest wait.
const LONGEST_WAIT_MS: u64 = 300_000;
/// How often a running command is looked at.
const GLANCE: Duration = Duration::from_millis(5);
/// How much of an error is kept.
const ERROR_CHARS: usize = 300;

/// What became of the errands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Delivered {
    /// Performed.
    pub done: u64,
    /// Failed; they will be tried again.
    pub again: u64,
    /// Given up.
    pub dead: u64,
}

/// Performs errands.
pub struct Courier {
    journal: Arc<dyn Desk>,
    deliveries: Vec<Delivery>,
    probe: Probe,
}

impl Courier {
    /// A courier for the deliveries of a policy.
    #[must_use]
    pub fn new(journal: Arc<dyn Desk>, policy: &JournalPolicy, probe: Probe) -> Self {
        Courier { journal, deliveries: policy.deliver.clone(), probe }
    }

    /// Whether the policy sends anything anywhere.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Performs the errands whose time has come, at most `limit`.
    ///
    /// # Errors
    /// If the store cannot be read or written. What was performed but not marked is performed again later.
    pub fn deliver(&self, limit: usize) -> Result<Delivered, StoreError> {
        let mut all = Delivered::default();
        for _ in 0..limit {
            // One at a time: an errand is held only as long as it takes.
            let longest = self.deliveries.iter().map(|delivery| delivery.timeout_ms).max().unwrap_or(0);
            let Some(errand) = self.journal.claim(1, longest.saturating_add(HOLD_MS))?.pop() else { break };
            self.probe.pass(Point::BeforeEffect);
            let how = if self.is_stale_label(&errand)? { Settled::Done } else { self.perform(&errand) };
            self.probe.pass(Point::AfterEffect);
            match &how {
                Settled::Done => all.done += 1,
                Settled::Again { .. } => all.again += 1,
                Settled::Dead { .. } => all.dead += 1,
            }
            self.journal.settle(&errand.key, &how)?;
        }
        Ok(all)
    }

    /// Whether a label is to be put on or taken off, and the session has gone on meanwhile: what is tried again after a
    /// failure must not undo what came later.
    fn is_stale_label(&self, errand: &Errand) -> Result<bool, StoreError> {
        let wanted = match errand.effect.as_str() {
            "label.added" => true,
            "label.removed" => false,
            _ => return Ok(false),
        };
        let head = self.journal.load(&errand.session)?.map(|loaded| loaded.head);
        Ok(head.is_some_and(|head| head.glance.label.is_some() != wanted))
    }

    fn perform(&self, errand: &Errand) -> Settled {
        let wanted = |delivery: &&Delivery| sink(delivery) == errand.sink;
        let Some(delivery) = self.deliveries.iter().find(wanted) else {
            return Settled::Dead { error: "the policy has no such delivery any more".to_owned() };
        };
        let timeout = Duration::from_millis(delivery.timeout_ms);
        let done = match &delivery.target {
            Target::Command(words) => self.run(words, errand, timeout),
            Target::Webhook(webhook) => self.post(webhook, delivery.page.as_deref(), errand, timeout),
            Target::Email(email) => {
                self.probe.pass(Point::InEffect);
                let words = Words::of(errand, delivery.page.as_deref());
                self.now().and_then(|now| email::send(email, errand, &words, now, timeout))
            }
        };
        match done {
            Ok(()) => Settled::Done,
            Err(error) => after(errand, delivery, error),
        }
    }

    /// A command gets the effect on its standard input and its key in the environment; exit code 0 is done.
    fn run(&self, words: &[String], errand: &Errand, timeout: Duration) -> Result<(), String> {
        let (program, args) = words.split_first().ok_or("the command is empty")?;
        let mut child = Command::new(program)
            .args(args)
            .env("FLYBALL_KEY", variable(&errand.key))
            .env("FLYBALL_EFFECT", variable(&errand.effect))
            .env("FLYBALL_SESSION", variable(&errand.session))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        self.probe.pass(Point::InEffect);
        if let Some(mut pipe) = child.stdin.take() {
            // A command that reads nothing is no failure; its exit code tells.
            let _ = pipe.write_all(errand.payload.as_bytes());
        }
        wait(&mut child, timeout, program)
    }

    /// A webhook gets the effect as JSON or as a message, with the key as `Idempotency-Key`, signed if there is a secret;
    /// any answer 2xx is done.
    fn post(
        &self,
        webhook: &Webhook,
        page: Option<&str>,
        errand: &Errand,
        timeout: Duration,
    ) -> Result<(), String> {
        self.probe.pass(Point::InEffect);
        let body = match webhook.format {
            WebhookFormat::Json => errand.payload.clone(),
            WebhookFormat::Slack => Words::of(errand, page).slack().to_string(),
        };
        let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(timeout)).build().into();
        let mut request = agent
            .post(&webhook.address)
            .header("Content-Type", "application/json")
            .header("Idempotency-Key", header_key(&errand.key));
        if let Some(variable) = &webhook.secret_env {
            let secret = sign::secret(variable)?;
            request = request.header(sign::HEADER, sign::signature(&secret, self.now()? / 1000, &body));
        }
        request.send(body).map(|_| ()).map_err(|error| error.to_string())
    }

    /// The time of the store, for what is dated.
    fn now(&self) -> Result<u64, String> {
        self.journal.now().map_err(|error| error.what)
    }
}

/// A key as a header can carry it: sessions are named by strangers, in any letters. One that cannot go as it is goes as
/// its digest; the body has it in full.
fn header_key(key: &str) -> String {
    if key.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return key.to_owned();
    }
    format!("blake3:{}", blake3::hash(key.as_bytes()).to_hex())
}

/// A text as a variable can hold it.
fn variable(text: &str) -> String {
    text.replace('\0', "")
}

/// The name under which a delivery is found again, whatever its place in the policy.
pub(crate) fn sink(delivery: &Delivery) -> String {
    let target = match &delivery.target {
        Target::Command(words) => format!("command\n{}", words.join("\n")),
        Target::Webhook(Webhook { address, format: WebhookFormat::Json, .. }) => {
            format!("webhook\n{address}")
        }
        Target::Webhook(Webhook { address, format: WebhookFormat::Slack, .. }) => format!("slack\n{address}"),
        Target::Email(email) => format!("email\n{}\n{}\n{}", email.relay, email.from, email.to.join("\n")),
    };
    let digest = blake3::hash(target.as_bytes()).to_hex();
    digest.as_str().get(..16).unwrap_or_default().to_owned()
}

/// What follows on a failure: another try, later each time, or none.
fn after(errand: &Errand, delivery: &Delivery, error: String) -> Settled {
    let error: String = error.chars().take(ERROR_CHARS).collect();
    let tried = u64::from(errand.attempts) + 1;
    if tried >= delivery.attempts {
        return Settled::Dead { error };
    }
    let doubled = FIRST_WAIT_MS.saturating_mul(1 << tried.min(20).saturating_sub(1));
    Settled::Again { error, after_ms: doubled.min(LONGEST_WAIT_MS) }
}

fn wait(child: &mut Child, timeout: Duration, program: &str) -> Result<(), String> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                let mut said = String::new();
                if let Some(pipe) = child.stderr.take() {
                    // What it said is a help; without it the status must do.
                    let _ = pipe.take(ERROR_CHARS as u64).read_to_string(&mut said);
                }
                return Err(format!("{program} ended with {status}: {}", said.trim()));
            }
            Ok(None) if began.elapsed() < timeout => std::thread::park_timeout(GLANCE),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{program} took longer than {} ms", timeout.as_millis()));
            }
            Err(error) => return Err(format!("{program}: {error}")),
        }
    }
}
