//! Anchors: the prefixes of tokens, names and commands that may introduce a secret.

use super::token_formats::{TOKENS, TokenFormat};

/// The rule that an anchor selects.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    /// A token with a known prefix.
    Token(&'static TokenFormat),
    /// JSON Web Token: three base64url parts.
    Jwt,
    /// `-----BEGIN … PRIVATE KEY-----`.
    Pem,
    /// A PuTTY key file.
    Putty,
    /// `scheme://`.
    Url,
    /// `user:password@tcp(`.
    Dsn,
    /// `12345678:AA…`.
    Telegram,
    /// Three parts, the first of which is a base64-encoded number.
    Discord,
    /// `SK` and 32 hexadecimal digits.
    Twilio,
    /// `SG.….…`.
    SendGrid,
    /// An Azure client secret.
    Azure,
    /// A webhook URL, which is itself a secret.
    Webhook,
    /// A Flyball key or login token.
    FlyballKey,
    /// A password hash in `crypt` format.
    PasswordHash,
    /// A command that takes credentials as arguments.
    Command,
    /// A command that reads a password from standard input.
    PipedCommand,
    /// `IDENTIFIED BY '…'`.
    SqlIdentifiedBy,
    /// A name such as `password`.
    SecretName,
    /// `\u00`: a character escaped in JSON.
    Escape,
    /// An escaped slash inside an anchor.
    Slash,
    /// `%3`: a percent-encoded character.
    Percent,
}

/// Number of anchors.
pub(super) const ANCHOR_COUNT: usize = TOKENS.len() + OTHERS.len();

/// The text of an anchor.
pub(super) const fn anchor_text(index: usize) -> &'static str {
    if index < TOKENS.len() { TOKENS[index].prefix } else { OTHERS[index - TOKENS.len()].0 }
}

/// The rule of an anchor.
pub(super) fn anchor(index: usize) -> Anchor {
    match TOKENS.get(index) {
        Some(token) => Anchor::Token(token),
        None => OTHERS.get(index - TOKENS.len()).map_or(Anchor::SecretName, |(_, anchor)| *anchor),
    }
}

/// Anchors that are not the prefix of a token.
const OTHERS: &[(&str, Anchor)] = &[
    ("sk0", Anchor::Twilio),
    ("sk1", Anchor::Twilio),
    ("sk2", Anchor::Twilio),
    ("sk3", Anchor::Twilio),
    ("sk4", Anchor::Twilio),
    ("sk5", Anchor::Twilio),
    ("sk6", Anchor::Twilio),
    ("sk7", Anchor::Twilio),
    ("sk8", Anchor::Twilio),
    ("sk9", Anchor::Twilio),
    ("ska", Anchor::Twilio),
    ("skb", Anchor::Twilio),
    ("skc", Anchor::Twilio),
    ("skd", Anchor::Twilio),
    ("ske", Anchor::Twilio),
    ("skf", Anchor::Twilio),
    ("eyJ", Anchor::Jwt),
    ("-----BEGIN ", Anchor::Pem),
    ("---- BEGIN ", Anchor::Pem),
    ("PuTTY-User-Key-File", Anchor::Putty),
    ("://", Anchor::Url),
    (":\\/\\/", Anchor::Url),
    ("@tcp(", Anchor::Dsn),
    ("@unix(", Anchor::Dsn),
    (":AA", Anchor::Telegram),
    ("SG.", Anchor::SendGrid),
    ("Q~", Anchor::Azure),
    ("hooks.slack.com", Anchor::Webhook),
    ("api/webhooks/", Anchor::Webhook),
    ("api\\/webhooks\\/", Anchor::Webhook),
    ("flyball_", Anchor::FlyballKey),
    ("login?link=", Anchor::FlyballKey),
    ("$1$", Anchor::PasswordHash),
    ("$2a$", Anchor::PasswordHash),
    ("$2b$", Anchor::PasswordHash),
    ("$2y$", Anchor::PasswordHash),
    ("$5$", Anchor::PasswordHash),
    ("$6$", Anchor::PasswordHash),
    ("$7$", Anchor::PasswordHash),
    ("$y$", Anchor::PasswordHash),
    ("$apr1$", Anchor::PasswordHash),
    ("$argon2", Anchor::PasswordHash),
    ("$pbkdf2", Anchor::PasswordHash),
    ("$scrypt$", Anchor::PasswordHash),
    ("{SHA}", Anchor::PasswordHash),
    ("{SSHA}", Anchor::PasswordHash),
    ("{SSHA512}", Anchor::PasswordHash),
    ("curl", Anchor::Command),
    ("mysql", Anchor::Command),
    ("mariadb", Anchor::Command),
    ("sshpass", Anchor::Command),
    ("redis-cli", Anchor::Command),
    ("valkey-cli", Anchor::Command),
    ("http ", Anchor::Command),
    ("https ", Anchor::Command),
    ("mongo", Anchor::Command),
    ("ldap", Anchor::Command),
    ("docker login", Anchor::Command),
    ("podman login", Anchor::Command),
    ("registry login", Anchor::Command),
    ("az login", Anchor::Command),
    ("oc login", Anchor::Command),
    ("cf login", Anchor::Command),
    ("vault login", Anchor::Command),
    ("smbclient", Anchor::Command),
    ("sqlcmd", Anchor::Command),
    ("bcp ", Anchor::Command),
    ("zip -", Anchor::Command),
    ("7z ", Anchor::Command),
    ("7za ", Anchor::Command),
    ("openssl", Anchor::Command),
    ("htpasswd", Anchor::Command),
    ("keytool", Anchor::Command),
    ("jarsigner", Anchor::Command),
    ("ssh-keygen", Anchor::Command),
    ("lftp", Anchor::Command),
    ("useradd", Anchor::Command),
    ("usermod", Anchor::Command),
    ("mosquitto_", Anchor::Command),
    ("snmp", Anchor::Command),
    ("--from-literal", Anchor::Command),
    ("chpasswd", Anchor::PipedCommand),
    ("sudo -S", Anchor::PipedCommand),
    ("-stdin", Anchor::PipedCommand),
    ("--with-token", Anchor::PipedCommand),
    ("identified by ", Anchor::SqlIdentifiedBy),
    ("password", Anchor::SecretName),
    ("passwd", Anchor::SecretName),
    ("passphrase", Anchor::SecretName),
    ("passcode", Anchor::SecretName),
    ("pass", Anchor::SecretName),
    ("pwd", Anchor::SecretName),
    ("_pw", Anchor::SecretName),
    ("secret", Anchor::SecretName),
    ("api_key", Anchor::SecretName),
    ("apikey", Anchor::SecretName),
    ("api-key", Anchor::SecretName),
    ("token", Anchor::SecretName),
    ("privatekey", Anchor::SecretName),
    ("accountkey", Anchor::SecretName),
    ("sharedaccess", Anchor::SecretName),
    ("accesskey", Anchor::SecretName),
    ("encryptionkey", Anchor::SecretName),
    ("signingkey", Anchor::SecretName),
    ("masterkey", Anchor::SecretName),
    ("authkey", Anchor::SecretName),
    ("_key", Anchor::SecretName),
    ("-key", Anchor::SecretName),
    ("_psk", Anchor::SecretName),
    ("presharedkey", Anchor::SecretName),
    ("credential", Anchor::SecretName),
    ("_creds", Anchor::SecretName),
    ("cookie", Anchor::SecretName),
    ("auth", Anchor::SecretName),
    ("authorization", Anchor::SecretName),
    ("signature", Anchor::SecretName),
    ("sig=", Anchor::SecretName),
    ("csrf", Anchor::SecretName),
    ("xsrf", Anchor::SecretName),
    ("ticket", Anchor::SecretName),
    ("bearer ", Anchor::SecretName),
    ("basic ", Anchor::SecretName),
    ("1\\/\\/0", Anchor::Slash),
    // Only escaped ASCII characters can hide an anchor.
    ("\\u00", Anchor::Escape),
    ("%2", Anchor::Percent),
    ("%3", Anchor::Percent),
    ("%4", Anchor::Percent),
    ("%5", Anchor::Percent),
    ("%6", Anchor::Percent),
    ("%7", Anchor::Percent),
];
