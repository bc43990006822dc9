//! Certificates of PostgreSQL servers: verified for other machines unless the address says otherwise.
//!
//! The server here speaks only as much of the protocol as is needed to see what the client does after its handshake.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use flyball_journal::{Address, Postgres};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The eight bytes with which a client asks for TLS.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// What a client did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// It accepted the certificate and sent its start-up message.
    Encrypted,
    /// It asked for TLS and went away before its start-up message.
    Refused,
    /// It sent its start-up message in clear.
    Plain,
}

struct Impostor {
    port: u16,
    seen: Receiver<Seen>,
    root: PathBuf,
}

/// A server with a certificate for `name`, of a CA of its own; without `tls` it offers none.
fn server(test: &str, name: &str, tls: bool) -> Impostor {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("postgres-tls-{test}.pem"));
    std::fs::write(&root, authority.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = config.with_no_client_auth().with_single_cert(vec![own.der().clone()], key).unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, seen) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut first = [0; 8];
            if stream.read_exact(&mut first).is_err() || first != SSL_REQUEST {
                let _ = tell.send(Seen::Plain);
                continue;
            }
            stream.write_all(if tls { b"S" } else { b"N" }).unwrap();
            let mut startup = [0; 8];
            let started = if tls {
                let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                rustls::Stream::new(&mut connection, &mut stream).read_exact(&mut startup).is_ok()
            } else {
                stream.read_exact(&mut startup).is_ok()
            };
            let _ = tell.send(match (started, tls) {
                (true, true) => Seen::Encrypted,
                (true, false) => Seen::Plain,
                (false, _) => Seen::Refused,
            });
        }
    });
    Impostor { port, seen, root }
}

impl Impostor {
    /// What a client does that opens the store at `host`, which is this machine.
    fn visit(&self, host: &str, query: &str) -> Seen {
        let port = self.port;
        let url = format!(
            "postgres://user:secret@{host}:{port}/flyball?hostaddr=127.0.0.1&connect_timeout=5{query}"
        );
        let error = Postgres::open(&url).unwrap_err();
        assert!(!error.what.contains("secret"), "{error}");
        self.seen.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

const REMOTE: &str = "db.example.test";

#[test]
fn certificate_of_another_machine_is_verified_by_default() {
    let server = server("default", REMOTE, true);
    let root = format!("&sslrootcert={}", server.root.display());
    assert_eq!(server.visit(REMOTE, ""), Seen::Refused, "an unknown CA");
    assert_eq!(server.visit(REMOTE, "&sslmode=require"), Seen::Refused, "an unknown CA");
    assert_eq!(server.visit(REMOTE, &root), Seen::Encrypted);
    assert_eq!(server.visit(REMOTE, &format!("{root}&sslmode=verify-full")), Seen::Encrypted);
    assert_eq!(server.visit("other.example.test", &root), Seen::Refused, "another name");
}

#[test]
fn connection_to_another_machine_never_falls_back_to_plain_text() {
    let server = server("plain", REMOTE, false);
    assert_eq!(server.visit(REMOTE, ""), Seen::Refused);
    assert_eq!(server.visit(REMOTE, "&sslmode=verify-full"), Seen::Refused);
}

#[test]
fn explicit_weaker_modes_and_this_machine_are_not_verified() {
    let server = server("weaker", REMOTE, true);
    assert_eq!(server.visit(REMOTE, "&sslmode=prefer"), Seen::Encrypted);
    assert_eq!(server.visit(REMOTE, "&sslmode=disable"), Seen::Plain);
    assert_eq!(server.visit("localhost", ""), Seen::Encrypted);
    assert_eq!(server.visit("127.0.0.1", ""), Seen::Encrypted);
}

#[test]
fn weak_protection_is_reported() {
    let weakness = |url: &str| Address::read(url, Path::new(".")).unwrap().transport_weakness();
    assert!(weakness("postgres://u@db.example.test/x?sslmode=disable").unwrap().contains("encrypted"));
    assert!(weakness("postgres://u@192.0.2.1/x?sslmode=prefer").unwrap().contains("verified"));
    for strong in [
        "postgres://u@db.example.test/x",
        "postgres://u@h/x?sslmode=require",
        "postgres://u@[::1]/x?sslmode=disable",
        "postgres://u@localhost/x",
        "postgres:///x?host=/var/run/postgresql&sslmode=disable",
        "sqlite:x",
    ] {
        assert_eq!(weakness(strong), None, "{strong}");
    }
    assert!(Postgres::open("postgres://u@h/x?sslmode=sometimes").is_err());
    assert!(Postgres::open("postgres://u@h/x?sslrootcert=no/such/file").is_err());
}
