//! Outbox dispatcher: delivers committed effects to the sinks that the policy names.
//!
//! Delivery is at least once, with an idempotency key, so a receiver that honors the key processes each effect
//! exactly once. Failed deliveries are retried with backoff. Permanent failures are kept as dead letters that
//! operators can inspect.

mod email;
mod notification;
mod webhook_signature;

use crate::error::StoreError;
use crate::event_store::{AdminStore, DeliveryOutcome, OutboxMessage};
use crate::failpoint::{Failpoint, FailpointHook};
use flyball::policy::{Delivery, DeliveryTarget, JournalPolicy, WebhookFormat, WebhookTarget};
use notification::OutboxNotification;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a claim outlasts the longest delivery timeout.
const CLAIM_MARGIN_MS: u64 = 30_000;
/// Backoff after the first failure. It doubles with each further one.
const INITIAL_BACKOFF_MS: u64 = 1_000;
/// Upper bound of the backoff.
const MAX_BACKOFF_MS: u64 = 300_000;
/// How often a running command is polled.
const CHILD_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of characters kept of an error.
const MAX_ERROR_CHARS: usize = 300;

/// Counts of delivery outcomes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct DispatchReport {
    /// Delivered.
    pub done: u64,
    /// Failed; will be retried.
    #[serde(rename = "again")]
    pub retried: u64,
    /// Failed permanently.
    pub dead: u64,
}

/// Delivers outbox messages.
pub struct OutboxDispatcher {
    store: Arc<dyn AdminStore>,
    deliveries: Vec<Delivery>,
    failpoints: FailpointHook,
}

impl OutboxDispatcher {
    /// Creates a dispatcher for the deliveries of a policy.
    #[must_use]
    pub fn new(store: Arc<dyn AdminStore>, policy: &JournalPolicy, failpoints: FailpointHook) -> Self {
        OutboxDispatcher { store, deliveries: policy.deliver.clone(), failpoints }
    }

    /// Whether the policy configures no deliveries.
    #[must_use]
    pub fn has_no_deliveries(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Delivers up to `limit` messages that are due.
    ///
    /// # Errors
    /// If the store cannot be read or written. Messages that were delivered but not marked are delivered again later.
    pub fn deliver_due(&self, limit: usize) -> Result<DispatchReport, StoreError> {
        let mut all = DispatchReport::default();
        for _ in 0..limit {
            // One at a time, so that each message is claimed only for its own delivery.
            let longest = self.deliveries.iter().map(|delivery| delivery.timeout_ms).max().unwrap_or(0);
            let Some(message) = self.store.claim_outbox(1, longest.saturating_add(CLAIM_MARGIN_MS))?.pop()
            else {
                break;
            };
            self.failpoints.reach(Failpoint::BeforeEffect);
            let how = if self.is_stale_label(&message)? {
                DeliveryOutcome::Delivered
            } else {
                self.deliver_one(&message)
            };
            self.failpoints.reach(Failpoint::AfterEffect);
            match &how {
                DeliveryOutcome::Delivered => all.done += 1,
                DeliveryOutcome::Retry { .. } => all.retried += 1,
                DeliveryOutcome::Dead { .. } => all.dead += 1,
            }
            self.store.record_delivery(&message.key, &how)?;
        }
        Ok(all)
    }

    /// Whether this message changes a label and the session has since moved on. A late retry must not undo a newer
    /// change.
    fn is_stale_label(&self, message: &OutboxMessage) -> Result<bool, StoreError> {
        let wanted = match message.effect.as_str() {
            "label.added" => true,
            "label.removed" => false,
            _ => return Ok(false),
        };
        let head = self.store.load(&message.session)?.map(|loaded| loaded.head);
        Ok(head.is_some_and(|head| head.summary.label.is_some() != wanted))
    }

    fn deliver_one(&self, message: &OutboxMessage) -> DeliveryOutcome {
        let wanted = |delivery: &&Delivery| sink_id(delivery) == message.sink;
        let Some(delivery) = self.deliveries.iter().find(wanted) else {
            return DeliveryOutcome::Dead { error: "the policy no longer has this delivery".to_owned() };
        };
        let timeout = Duration::from_millis(delivery.timeout_ms);
        let done = match &delivery.target {
            DeliveryTarget::Command(notification) => self.run_command(notification, message, timeout),
            DeliveryTarget::Webhook(webhook) => {
                self.post_webhook(webhook, delivery.page.as_deref(), message, timeout)
            }
            DeliveryTarget::Email(email) => {
                self.failpoints.reach(Failpoint::InEffect);
                let notification = OutboxNotification::from_outbox(message, delivery.page.as_deref());
                self.store_time_ms().and_then(|now| email::send(email, message, &notification, now, timeout))
            }
        };
        match done {
            Ok(()) => DeliveryOutcome::Delivered,
            Err(error) => failure_outcome(message, delivery, error),
        }
    }

    /// Runs a command with the effect on standard input and the key in the environment. Exit code 0 means success.
    fn run_command(
        &self,
        words: &[String],
        message: &OutboxMessage,
        timeout: Duration,
    ) -> Result<(), String> {
        let (program, args) = words.split_first().ok_or("the command is empty")?;
        let mut child = Command::new(program)
            .args(args)
            .env("FLYBALL_KEY", env_value(&message.key))
            .env("FLYBALL_EFFECT", env_value(&message.effect))
            .env("FLYBALL_SESSION", env_value(&message.session))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        self.failpoints.reach(Failpoint::InEffect);
        if let Some(mut pipe) = child.stdin.take() {
            // Not reading the input is not a failure; the exit code decides.
            let _ = pipe.write_all(message.payload.as_bytes());
        }
        wait_for_child(&mut child, timeout, program)
    }

    /// Posts the effect as JSON or as a chat message, with the key as `Idempotency-Key`, signed if a secret is
    /// configured. Any 2xx response means success.
    fn post_webhook(
        &self,
        webhook: &WebhookTarget,
        page: Option<&str>,
        message: &OutboxMessage,
        timeout: Duration,
    ) -> Result<(), String> {
        self.failpoints.reach(Failpoint::InEffect);
        let body = match webhook.format {
            WebhookFormat::Json => message.payload.clone(),
            WebhookFormat::Slack => OutboxNotification::from_outbox(message, page).to_slack().to_string(),
        };
        let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(timeout)).build().into();
        let mut request = agent
            .post(&webhook.url)
            .header("Content-Type", "application/json")
            .header("Idempotency-Key", idempotency_header(&message.key));
        if let Some(variable) = &webhook.secret_env {
            let secret = webhook_signature::secret_from_env(variable)?;
            request = request.header(
                webhook_signature::SIGNATURE_HEADER,
                webhook_signature::sign(&secret, self.store_time_ms()? / 1000, &body),
            );
        }
        request.send(body).map(|_| ()).map_err(|error| error.to_string())
    }

    /// Store time, used as the timestamp of signatures and email.
    fn store_time_ms(&self) -> Result<u64, String> {
        self.store.now().map_err(|error| error.message)
    }
}

/// The key as a valid header value. Session names may contain any characters; if the key cannot be sent as it is, its
/// digest is sent. The body always has the full key.
fn idempotency_header(key: &str) -> String {
    if key.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return key.to_owned();
    }
    format!("blake3:{}", blake3::hash(key.as_bytes()).to_hex())
}

/// A text without NUL bytes, valid as an environment value.
fn env_value(text: &str) -> String {
    text.replace('\0', "")
}

/// Stable id of a delivery, independent of its position in the policy.
pub(crate) fn sink_id(delivery: &Delivery) -> String {
    let target = match &delivery.target {
        DeliveryTarget::Command(words) => format!("command\n{}", words.join("\n")),
        DeliveryTarget::Webhook(WebhookTarget { url: address, format: WebhookFormat::Json, .. }) => {
            format!("webhook\n{address}")
        }
        DeliveryTarget::Webhook(WebhookTarget { url: address, format: WebhookFormat::Slack, .. }) => {
            format!("slack\n{address}")
        }
        DeliveryTarget::Email(email) => {
            format!("email\n{}\n{}\n{}", email.relay, email.from, email.to.join("\n"))
        }
    };
    let digest = blake3::hash(target.as_bytes()).to_hex();
    digest.as_str().get(..16).unwrap_or_default().to_owned()
}

/// The outcome after a failure: a retry with a growing delay, or none.
fn failure_outcome(message: &OutboxMessage, delivery: &Delivery, error: String) -> DeliveryOutcome {
    let error: String = error.chars().take(MAX_ERROR_CHARS).collect();
    let tried = u64::from(message.attempts) + 1;
    if tried >= delivery.attempts {
        return DeliveryOutcome::Dead { error };
    }
    let doubled = INITIAL_BACKOFF_MS.saturating_mul(1 << tried.min(20).saturating_sub(1));
    DeliveryOutcome::Retry { error, after_ms: doubled.min(MAX_BACKOFF_MS) }
}

fn wait_for_child(child: &mut Child, timeout: Duration, program: &str) -> Result<(), String> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                let mut said = String::new();
                if let Some(pipe) = child.stderr.take() {
                    // The error output is optional; without it the status is reported alone.
                    let _ = pipe.take(MAX_ERROR_CHARS as u64).read_to_string(&mut said);
                }
                return Err(format!("{program} exited with {status}: {}", said.trim()));
            }
            Ok(None) if began.elapsed() < timeout => std::thread::park_timeout(CHILD_POLL_INTERVAL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{program} took longer than {} ms", timeout.as_millis()));
            }
            Err(error) => return Err(format!("{program}: {error}")),
        }
    }
}
