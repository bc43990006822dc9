//! E-mail through a relay. Encrypted from the start where the policy says so, else as soon as the relay offers it; a
//! password is never sent in the clear to another machine.

use super::sign::secret;
use super::words::Words;
use crate::journal::Errand;
use flyball::policy::Email;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{Message, SmtpTransport, Transport};
use std::time::{Duration, UNIX_EPOCH};

/// The port of a relay that names none.
const PORT: u16 = 25;
/// The same, where all is encrypted from the start.
const SEALED_PORT: u16 = 465;

/// Sends an errand to people. `now` is the time in milliseconds since 1970.
///
/// # Errors
/// If the relay does not take it; the words say why.
pub(super) fn send(
    email: &Email,
    errand: &Errand,
    words: &Words,
    now: u64,
    timeout: Duration,
) -> Result<(), String> {
    let relay = relay(email, timeout)?;
    relay.send(&letter(email, errand, words, now)?).map(|_| ()).map_err(|error| told(&error.to_string()))
}

/// What went wrong, with what to do where that is not plain.
fn told(error: &str) -> String {
    if error.contains("peer certificate") {
        return format!("{error}; this machine does not trust the relay, SSL_CERT_FILE names other roots");
    }
    error.to_owned()
}

fn letter(email: &Email, errand: &Errand, words: &Words, now: u64) -> Result<Message, String> {
    let mailbox = |text: &str| text.parse::<Mailbox>().map_err(|error| format!("{text}: {error}"));
    // The same errand has the same id: who gets it twice sees it once.
    let id = blake3::hash(errand.key.as_bytes()).to_hex();
    let host = email.from.split_once('@').map_or("flyball", |(_, host)| host);
    let mut letter = Message::builder()
        .from(mailbox(&email.from)?)
        .subject(&words.title)
        .date(UNIX_EPOCH + Duration::from_millis(now))
        .message_id(Some(format!("<{}@{host}>", id.as_str().get(..32).unwrap_or_default())))
        .header(ContentType::TEXT_PLAIN);
    for one in &email.to {
        letter = letter.to(mailbox(one)?);
    }
    letter.body(words.text(&errand.key)).map_err(|error| error.to_string())
}

fn relay(email: &Email, timeout: Duration) -> Result<SmtpTransport, String> {
    let (sealed, host, port) = email.relay_parts().ok_or("the address of the relay cannot be used")?;
    let near = ["localhost", "127.0.0.1"].contains(&host);
    let tls = || TlsParameters::new(host.to_owned()).map_err(|error| error.to_string());
    let tls = match (sealed, near) {
        (true, _) => Tls::Wrapper(tls()?),
        (false, true) => Tls::Opportunistic(tls()?),
        (false, false) if email.user.is_some() => Tls::Required(tls()?),
        (false, false) => Tls::Opportunistic(tls()?),
    };
    let port = port.unwrap_or(if sealed { SEALED_PORT } else { PORT });
    let mut relay = SmtpTransport::builder_dangerous(host).port(port).tls(tls).timeout(Some(timeout));
    if let (Some(user), Some(variable)) = (&email.user, &email.password_env) {
        relay = relay.credentials(Credentials::new(user.clone(), secret(variable)?));
    }
    Ok(relay.build())
}
