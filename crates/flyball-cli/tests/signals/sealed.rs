//! E-mail on encrypted lines: STARTTLS and smtps, to a relay whose certificate the machine trusts; and to relays that
//! must get neither a letter nor a password.

use crate::ear::PATIENCE;
use crate::kit::{Server, folder};
use crate::notify::halt;
use crate::receivers::{Ended, GREETING, Letter, next, talk};
use flyball_serve::Role;
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
enum Seal {
    /// When the client asks for it.
    Starttls,
    /// From the start.
    Smtps,
    /// Never.
    Never,
}

/// An authority that a machine may trust.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its certificate as a file, for `SSL_CERT_FILE`.
    fn file(&self, folder: &Path) -> PathBuf {
        let path = folder.join("trusted.pem");
        std::fs::write(&path, self.0.pem()).unwrap();
        path
    }

    /// What a relay of this machine shows.
    fn relay(&self) -> Arc<ServerConfig> {
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

/// A relay at an address of this machine; its place, and the letters that it got.
fn relay(address: &str, seal: Seal, config: Arc<ServerConfig>) -> (String, Receiver<Letter>) {
    let listener = TcpListener::bind(format!("{address}:0")).unwrap();
    let scheme = if seal == Seal::Smtps { "smtps" } else { "smtp" };
    let place = format!("{scheme}://{}", listener.local_addr().unwrap());
    let (tell, letters) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that hangs up is no reason to stop.
            let _ = serve(stream.unwrap(), seal, &config, &tell);
        }
    });
    (place, letters)
}

fn serve(
    mut stream: TcpStream,
    seal: Seal,
    config: &Arc<ServerConfig>,
    tell: &Sender<Letter>,
) -> std::io::Result<()> {
    let sealed = |stream| {
        let line = ServerConnection::new(Arc::clone(config)).map_err(std::io::Error::other)?;
        Ok::<_, std::io::Error>(BufReader::new(StreamOwned::new(line, stream)))
    };
    let letter = Letter { sealed: true, ..Letter::default() };
    if seal == Seal::Smtps {
        let mut line = sealed(stream)?;
        line.get_mut().write_all(GREETING)?;
        return talk(&mut line, &letter, false, tell).map(|_| ());
    }
    stream.write_all(GREETING)?;
    let mut line = BufReader::new(stream);
    if talk(&mut line, &Letter::default(), seal == Seal::Starttls, tell)? == Ended::Sealing {
        talk(&mut sealed(line.into_inner())?, &letter, false, tell)?;
    }
    Ok(())
}

/// A server that tells of a halt through a relay, on a machine that trusts what is in a file.
fn tells(name: &str, relay: &str, trusted: &Authority) -> Server {
    let folder = folder(name);
    let policy = json!({"notify": true, "journal": {"deliver": [
        {"effects": ["notify"], "attempts": 2, "email": {"to": ["oncall@example.org"], "from": "flyball@example.org",
            "relay": relay, "user": "fly", "password_env": "TEST_MAIL_PASSWORD"}},
    ]}});
    std::fs::write(folder.join("flyball.yaml"), policy.to_string()).unwrap();
    let store = format!("sqlite:{}", folder.join("flyball.db").display());
    let file = trusted.file(&folder).display().to_string();
    let env = [("TEST_MAIL_PASSWORD", "mail-password-1"), ("SSL_CERT_FILE", file.as_str())];
    let server = Server::with(&folder, &store, &["--no-socket", "--policy", "flyball.yaml"], &env);
    halt(&server, &server.key("bot", Role::Agent), "nightly");
    server
}

/// Waits until something was given up, and gives its reason.
fn given_up(server: &Server) -> (u64, String) {
    let began = Instant::now();
    loop {
        let told = Command::new(env!("CARGO_BIN_EXE_flyball"))
            .args(["outbox", "--json", "--store", &server.store])
            .current_dir(&server.folder)
            .output()
            .unwrap();
        let text = String::from_utf8(told.stdout).unwrap();
        let all: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
        let dead = all.into_iter().find(|errand| errand["state"] == "dead");
        if let Some(dead) = dead {
            return (dead["attempts"].as_u64().unwrap(), dead["error"].as_str().unwrap().to_owned());
        }
        assert!(began.elapsed() < PATIENCE, "nothing was given up: {text}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

#[test]
fn a_letter_goes_by_starttls_and_by_smtps_to_a_relay_that_is_trusted() {
    let authority = Authority::new("ours");
    let cases = [
        ("sealed-near", "127.0.0.1", Seal::Starttls),
        ("sealed-far", "127.0.0.2", Seal::Starttls),
        ("sealed-whole", "127.0.0.1", Seal::Smtps),
    ];
    for (name, address, seal) in cases {
        let (place, letters) = relay(address, seal, authority.relay());
        let _server = tells(name, &place, &authority);
        let letter = next(&letters);
        assert!(letter.sealed, "{name}: {letter:?}");
        assert!(letter.auth.is_some_and(|auth| auth.starts_with("AUTH PLAIN ")), "{name}");
        assert!(letter.text.contains("Subject: Session nightly"), "{name}: {}", letter.text);
    }
}

#[test]
fn a_relay_that_is_not_trusted_gets_nothing_and_the_errand_ends_with_the_reason() {
    let (trusted, other) = (Authority::new("ours"), Authority::new("somebody else"));
    for (name, seal) in [("unsealed-starttls", Seal::Starttls), ("unsealed-smtps", Seal::Smtps)] {
        let (place, letters) = relay("127.0.0.1", seal, other.relay());
        let server = tells(name, &place, &trusted);
        let (attempts, reason) = given_up(&server);
        assert_eq!(attempts, 2, "{name}: it was tried again");
        assert!(reason.contains("certificate: UnknownIssuer"), "{name}: {reason}");
        assert!(reason.contains("SSL_CERT_FILE"), "{name}: it says what to do: {reason}");
        assert!(letters.try_recv().is_err(), "{name}: it got a letter");
    }
}

#[test]
fn a_password_is_not_sent_in_the_clear_to_another_machine() {
    let authority = Authority::new("ours");
    let (place, letters) = relay("127.0.0.2", Seal::Never, authority.relay());
    let server = tells("unsealed-far", &place, &authority);
    let (_, reason) = given_up(&server);
    assert!(reason.contains("STARTTLS"), "{reason}");
    assert!(letters.try_recv().is_err(), "it got a letter");
}
