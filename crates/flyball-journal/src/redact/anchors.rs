//! What the scanner looks for: the beginnings of tokens, names and commands that may stand beside a secret.

use super::known::{TOKENS, Token};

/// What a hit of the scanner may be the beginning of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    /// A token of the table.
    Token(&'static Token),
    /// Three parts in base64url.
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
    /// Three parts, the first of which is a number in base64.
    Discord,
    /// `SK` and 32 hexadecimal digits.
    Twilio,
    /// `SG.….…`.
    SendGrid,
    /// A client secret of Azure.
    Azure,
    /// The address of a webhook, which is a secret itself.
    Hook,
    /// A key or a login of Flyball.
    Flyball,
    /// A password hash as `crypt` writes it.
    Hash,
    /// A command that takes credentials as arguments.
    Command,
    /// A command that reads a password from its standard input.
    Piped,
    /// `IDENTIFIED BY '…'`.
    Identified,
    /// A name such as `password`.
    Word,
    /// `\u00`: a character that JSON wrote as an escape.
    Escape,
    /// A slash that JSON wrote as an escape, inside an anchor.
    Slash,
    /// `%3`: a character that a URL wrote as an escape.
    Percent,
}

/// How many anchors there are.
pub(super) const COUNT: usize = TOKENS.len() + OTHERS.len();

/// The text of an anchor.
pub(super) const fn word(index: usize) -> &'static str {
    if index < TOKENS.len() { TOKENS[index].prefix } else { OTHERS[index - TOKENS.len()].0 }
}

/// The meaning of an anchor.
pub(super) fn anchor(index: usize) -> Anchor {
    match TOKENS.get(index) {
        Some(token) => Anchor::Token(token),
        None => OTHERS.get(index - TOKENS.len()).map_or(Anchor::Word, |(_, anchor)| *anchor),
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
    ("hooks.slack.com", Anchor::Hook),
    ("api/webhooks/", Anchor::Hook),
    ("api\\/webhooks\\/", Anchor::Hook),
    ("flyball_", Anchor::Flyball),
    ("login?link=", Anchor::Flyball),
    ("$1$", Anchor::Hash),
    ("$2a$", Anchor::Hash),
    ("$2b$", Anchor::Hash),
    ("$2y$", Anchor::Hash),
    ("$5$", Anchor::Hash),
    ("$6$", Anchor::Hash),
    ("$7$", Anchor::Hash),
    ("$y$", Anchor::Hash),
    ("$apr1$", Anchor::Hash),
    ("$argon2", Anchor::Hash),
    ("$pbkdf2", Anchor::Hash),
    ("$scrypt$", Anchor::Hash),
    ("{SHA}", Anchor::Hash),
    ("{SSHA}", Anchor::Hash),
    ("{SSHA512}", Anchor::Hash),
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
    ("chpasswd", Anchor::Piped),
    ("sudo -S", Anchor::Piped),
    ("-stdin", Anchor::Piped),
    ("--with-token", Anchor::Piped),
    ("identified by ", Anchor::Identified),
    ("password", Anchor::Word),
    ("passwd", Anchor::Word),
    ("passphrase", Anchor::Word),
    ("passcode", Anchor::Word),
    ("pass", Anchor::Word),
    ("pwd", Anchor::Word),
    ("_pw", Anchor::Word),
    ("secret", Anchor::Word),
    ("api_key", Anchor::Word),
    ("apikey", Anchor::Word),
    ("api-key", Anchor::Word),
    ("token", Anchor::Word),
    ("privatekey", Anchor::Word),
    ("accountkey", Anchor::Word),
    ("sharedaccess", Anchor::Word),
    ("accesskey", Anchor::Word),
    ("encryptionkey", Anchor::Word),
    ("signingkey", Anchor::Word),
    ("masterkey", Anchor::Word),
    ("authkey", Anchor::Word),
    ("_key", Anchor::Word),
    ("-key", Anchor::Word),
    ("_psk", Anchor::Word),
    ("presharedkey", Anchor::Word),
    ("credential", Anchor::Word),
    ("_creds", Anchor::Word),
    ("cookie", Anchor::Word),
    ("auth", Anchor::Word),
    ("authorization", Anchor::Word),
    ("signature", Anchor::Word),
    ("sig=", Anchor::Word),
    ("csrf", Anchor::Word),
    ("xsrf", Anchor::Word),
    ("ticket", Anchor::Word),
    ("bearer ", Anchor::Word),
    ("basic ", Anchor::Word),
    ("1\\/\\/0", Anchor::Slash),
    // Only escapes of ASCII characters can hide an anchor.
    ("\\u00", Anchor::Escape),
    ("%2", Anchor::Percent),
    ("%3", Anchor::Percent),
    ("%4", Anchor::Percent),
    ("%5", Anchor::Percent),
    ("%6", Anchor::Percent),
    ("%7", Anchor::Percent),
];
