//! Email delivery through an SMTP relay.
//!
//! Uses TLS from the start if the policy says so, otherwise STARTTLS if the relay offers it. A password is never sent
//! in the clear to another machine.

use super::notification::OutboxNotification;
use super::webhook_signature::secret_from_env;
use crate::event_store::OutboxMessage;
use flyball::policy::EmailTarget;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{Message, SmtpTransport, Transport};
use std::time::{Duration, UNIX_EPOCH};

/// Default port.
const SMTP_PORT: u16 = 25;
/// Default port with implicit TLS.
const SMTPS_PORT: u16 = 465;

/// Emails an outbox message to the recipients. `now` is in milliseconds since the Unix epoch.
///
/// # Errors
/// If the relay does not accept it; the text says why.
pub(super) fn send(
    email: &EmailTarget,
    message: &OutboxMessage,
    notification: &OutboxNotification,
    now: u64,
    timeout: Duration,
) -> Result<(), String> {
    let relay = smtp_transport(email, timeout)?;
    relay
        .send(&build_message(email, message, notification, now)?)
        .map(|_| ())
        .map_err(|error| explain_error(&error.to_string()))
}

/// Adds a hint to an error whose fix is not obvious.
fn explain_error(error: &str) -> String {
    if error.contains("peer certificate") {
        return format!(
            "{error}; this machine does not trust the relay's certificate: set SSL_CERT_FILE to its root certificate"
        );
    }
    error.to_owned()
}

fn build_message(
    email: &EmailTarget,
    message: &OutboxMessage,
    notification: &OutboxNotification,
    now: u64,
) -> Result<Message, String> {
    let mailbox = |text: &str| text.parse::<Mailbox>().map_err(|error| format!("{text}: {error}"));
    // The id is derived from the key, so that mail clients can drop duplicates.
    let id = blake3::hash(message.key.as_bytes()).to_hex();
    let host = email.from.split_once('@').map_or("flyball", |(_, host)| host);
    let mut letter = Message::builder()
        .from(mailbox(&email.from)?)
        .subject(&notification.title)
        .date(UNIX_EPOCH + Duration::from_millis(now))
        .message_id(Some(format!("<{}@{host}>", id.as_str().get(..32).unwrap_or_default())))
        .header(ContentType::TEXT_PLAIN);
    for one in &email.to {
        letter = letter.to(mailbox(one)?);
    }
    letter.body(notification.to_plain_text(&message.key)).map_err(|error| error.to_string())
}

fn smtp_transport(email: &EmailTarget, timeout: Duration) -> Result<SmtpTransport, String> {
    let (sealed, host, port) = email.relay_parts().ok_or("invalid relay address")?;
    let near = ["localhost", "127.0.0.1"].contains(&host);
    let tls = || TlsParameters::new(host.to_owned()).map_err(|error| error.to_string());
    let tls = match (sealed, near) {
        (true, _) => Tls::Wrapper(tls()?),
        (false, true) => Tls::Opportunistic(tls()?),
        (false, false) if email.user.is_some() => Tls::Required(tls()?),
        (false, false) => Tls::Opportunistic(tls()?),
    };
    let port = port.unwrap_or(if sealed { SMTPS_PORT } else { SMTP_PORT });
    let mut relay = SmtpTransport::builder_dangerous(host).port(port).tls(tls).timeout(Some(timeout));
    if let (Some(user), Some(variable)) = (&email.user, &email.password_env) {
        relay = relay.credentials(Credentials::new(user.clone(), secret_from_env(variable)?));
    }
    Ok(relay.build())
}
