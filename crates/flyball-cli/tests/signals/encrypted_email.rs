//! Email over TLS: STARTTLS and smtps, to a relay with a trusted certificate, and to relays that must receive neither a
//! message nor a password.

use crate::notifications::halt_session;
use crate::receivers::{GREETING, ReceivedEmail, SmtpSessionEnd, receive, serve_smtp};
use crate::server_harness::{TestServer, test_dir};
use crate::sse_client::RECEIVE_TIMEOUT;
use flyball_server::AuthRole;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How a relay encrypts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SmtpEncryption {
    /// On the client's request.
    Starttls,
    /// From the start.
    Smtps,
    /// Never.
    Never,
}

/// A certificate authority that a machine may trust.
struct TestCertificateAuthority(CertifiedIssuer<'static, KeyPair>);

impl TestCertificateAuthority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        TestCertificateAuthority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes its certificate to a file for `SSL_CERT_FILE`.
    fn certificate_file(&self, folder: &Path) -> PathBuf {
        let path = folder.join("trusted.pem");
        std::fs::write(&path, self.0.pem()).unwrap();
        path
    }

    /// The TLS configuration of a local relay.
    fn relay_tls_config(&self) -> Arc<ServerConfig> {
        let own = KeyPair::generate().unwrap();
        let names = ["127.0.0.1", "127.0.0.2"].map(str::to_owned).to_vec();
        let shown = CertificateParams::new(names).unwrap().signed_by(&own, &self.0).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        Arc::new(config.with_no_client_auth().with_single_cert(vec![shown.der().clone()], key).unwrap())
    }
}

/// Starts a relay on a local address; returns the address and the messages it receives.
fn start_relay(
    address: &str,
    encryption: SmtpEncryption,
    config: Arc<ServerConfig>,
) -> (String, Receiver<ReceivedEmail>) {
    let listener = TcpListener::bind(format!("{address}:0")).unwrap();
    let scheme = if encryption == SmtpEncryption::Smtps { "smtps" } else { "smtp" };
    let place = format!("{scheme}://{}", listener.local_addr().unwrap());
    let (tell, letters) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // The relay keeps running when a client disconnects.
            let _ = serve_relay(stream.unwrap(), encryption, &config, &tell);
        }
    });
    (place, letters)
}

fn serve_relay(
    mut stream: TcpStream,
    encryption: SmtpEncryption,
    config: &Arc<ServerConfig>,
    tell: &Sender<ReceivedEmail>,
) -> std::io::Result<()> {
    let sealed = |stream| {
        let line = ServerConnection::new(Arc::clone(config)).map_err(std::io::Error::other)?;
        Ok::<_, std::io::Error>(BufReader::new(StreamOwned::new(line, stream)))
    };
    let email = ReceivedEmail { encrypted: true, ..ReceivedEmail::default() };
    if encryption == SmtpEncryption::Smtps {
        let mut line = sealed(stream)?;
        line.get_mut().write_all(GREETING)?;
        return serve_smtp(&mut line, &email, false, tell).map(|_| ());
    }
    stream.write_all(GREETING)?;
    let mut line = BufReader::new(stream);
    if serve_smtp(&mut line, &ReceivedEmail::default(), encryption == SmtpEncryption::Starttls, tell)?
        == SmtpSessionEnd::StartTls
    {
        serve_smtp(&mut sealed(line.into_inner())?, &email, false, tell)?;
    }
    Ok(())
}

/// A server that sends halt notifications through a relay and trusts only the given authority.
fn server_with_email(name: &str, relay: &str, trusted: &TestCertificateAuthority) -> TestServer {
    let folder = test_dir(name);
    let policy = json!({"notify": true, "journal": {"deliver": [
        {"effects": ["notify"], "attempts": 2, "email": {"to": ["oncall@example.org"], "from": "flyball@example.org",
            "relay": relay, "user": "fly", "password_env": "TEST_MAIL_PASSWORD"}},
    ]}});
    std::fs::write(folder.join("flyball.yaml"), policy.to_string()).unwrap();
    let store = format!("sqlite:{}", folder.join("flyball.db").display());
    let file = trusted.certificate_file(&folder).display().to_string();
    let env = [("TEST_MAIL_PASSWORD", "mail-password-1"), ("SSL_CERT_FILE", file.as_str())];
    let server =
        TestServer::start_with_env(&folder, &store, &["--no-socket", "--policy", "flyball.yaml"], &env);
    halt_session(&server, &server.create_key("bot", AuthRole::Agent), "nightly");
    server
}

/// Waits for a dead outbox message and returns its reason.
fn dead_message(server: &TestServer) -> (u64, String) {
    let began = Instant::now();
    loop {
        let outbox = Command::new(env!("CARGO_BIN_EXE_flyball"))
            .args(["outbox", "--json", "--store", &server.store])
            .current_dir(&server.folder)
            .output()
            .unwrap();
        let text = String::from_utf8(outbox.stdout).unwrap();
        let all: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
        let dead = all.into_iter().find(|message| message["state"] == "dead");
        if let Some(dead) = dead {
            return (dead["attempts"].as_u64().unwrap(), dead["error"].as_str().unwrap().to_owned());
        }
        assert!(began.elapsed() < RECEIVE_TIMEOUT, "no outbox message is dead: {text}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

#[test]
fn email_is_sent_by_starttls_and_smtps_to_a_trusted_relay() {
    let authority = TestCertificateAuthority::new("ours");
    let cases = [
        ("sealed-near", "127.0.0.1", SmtpEncryption::Starttls),
        ("sealed-far", "127.0.0.2", SmtpEncryption::Starttls),
        ("sealed-whole", "127.0.0.1", SmtpEncryption::Smtps),
    ];
    for (name, address, encryption) in cases {
        let (place, letters) = start_relay(address, encryption, authority.relay_tls_config());
        let _server = server_with_email(name, &place, &authority);
        let email = receive(&letters);
        assert!(email.encrypted, "{name}: {email:?}");
        assert!(email.auth.is_some_and(|auth| auth.starts_with("AUTH PLAIN ")), "{name}");
        assert!(email.text.contains("Subject: Session nightly"), "{name}: {}", email.text);
    }
}

#[test]
fn untrusted_relay_gets_nothing_and_the_message_is_dead_lettered() {
    let (trusted, other) =
        (TestCertificateAuthority::new("ours"), TestCertificateAuthority::new("another authority"));
    for (name, encryption) in
        [("unsealed-starttls", SmtpEncryption::Starttls), ("unsealed-smtps", SmtpEncryption::Smtps)]
    {
        let (place, letters) = start_relay("127.0.0.1", encryption, other.relay_tls_config());
        let server = server_with_email(name, &place, &trusted);
        let (attempts, reason) = dead_message(&server);
        assert_eq!(attempts, 2, "{name}: it was retried");
        assert!(reason.contains("certificate: UnknownIssuer"), "{name}: {reason}");
        assert!(reason.contains("SSL_CERT_FILE"), "{name}: the reason must name the fix: {reason}");
        assert!(letters.try_recv().is_err(), "{name}: the relay received a message");
    }
}

#[test]
fn password_is_not_sent_in_cleartext_to_another_machine() {
    let authority = TestCertificateAuthority::new("ours");
    let (place, letters) = start_relay("127.0.0.2", SmtpEncryption::Never, authority.relay_tls_config());
    let server = server_with_email("unsealed-far", &place, &authority);
    let (_, reason) = dead_message(&server);
    assert!(reason.contains("STARTTLS"), "{reason}");
    assert!(letters.try_recv().is_err(), "the relay received a message");
}
