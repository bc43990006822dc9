//! Certificates of PostgreSQL servers: verified for other machines unless the address says otherwise.
//!
//! The fake server implements only as much of the protocol as is needed to observe the client after its handshake.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is how a test fails")]

use flyball_store::{PostgresStore, StoreAddress};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The eight bytes with which a client requests TLS.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Observed behavior of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientBehavior {
    /// It accepted the certificate and sent its startup message.
    Encrypted,
    /// It requested TLS and disconnected before its startup message.
    Refused,
    /// It sent its startup message in the clear.
    Plain,
}

struct FakePostgresServer {
    port: u16,
    behavior: Receiver<ClientBehavior>,
    root_certificate: PathBuf,
}

/// Starts a server with a certificate for `name`, signed by a new CA; without `tls` it offers no TLS.
fn start_server(test: &str, name: &str, tls: bool) -> FakePostgresServer {
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
                let _ = tell.send(ClientBehavior::Plain);
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
                (true, true) => ClientBehavior::Encrypted,
                (true, false) => ClientBehavior::Plain,
                (false, _) => ClientBehavior::Refused,
            });
        }
    });
    FakePostgresServer { port, behavior: seen, root_certificate: root }
}

impl FakePostgresServer {
    /// Opens the store at `host`, which resolves to this machine, and returns the client's behavior.
    fn connect(&self, host: &str, query: &str) -> ClientBehavior {
        let port = self.port;
        let url = format!(
            "postgres://user:secret@{host}:{port}/flyball?hostaddr=127.0.0.1&connect_timeout=5{query}"
        );
        let error = PostgresStore::open(&url).unwrap_err();
        assert!(!error.message.contains("secret"), "{error}");
        self.behavior.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

const REMOTE: &str = "db.example.test";

#[test]
fn remote_certificate_is_verified_by_default() {
    let server = start_server("default", REMOTE, true);
    let root = format!("&sslrootcert={}", server.root_certificate.display());
    assert_eq!(server.connect(REMOTE, ""), ClientBehavior::Refused, "an unknown CA");
    assert_eq!(server.connect(REMOTE, "&sslmode=require"), ClientBehavior::Refused, "an unknown CA");
    assert_eq!(server.connect(REMOTE, &root), ClientBehavior::Encrypted);
    assert_eq!(server.connect(REMOTE, &format!("{root}&sslmode=verify-full")), ClientBehavior::Encrypted);
    assert_eq!(server.connect("other.example.test", &root), ClientBehavior::Refused, "another name");
}

#[test]
fn remote_connection_never_falls_back_to_plain_text() {
    let server = start_server("plain", REMOTE, false);
    assert_eq!(server.connect(REMOTE, ""), ClientBehavior::Refused);
    assert_eq!(server.connect(REMOTE, "&sslmode=verify-full"), ClientBehavior::Refused);
}

#[test]
fn weaker_sslmodes_and_local_hosts_are_not_verified() {
    let server = start_server("weaker", REMOTE, true);
    assert_eq!(server.connect(REMOTE, "&sslmode=prefer"), ClientBehavior::Encrypted);
    assert_eq!(server.connect(REMOTE, "&sslmode=disable"), ClientBehavior::Plain);
    assert_eq!(server.connect("localhost", ""), ClientBehavior::Encrypted);
    assert_eq!(server.connect("127.0.0.1", ""), ClientBehavior::Encrypted);
}

#[test]
fn weak_transport_is_reported() {
    let weakness = |url: &str| StoreAddress::parse(url, Path::new(".")).unwrap().transport_weakness();
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
    assert!(PostgresStore::open("postgres://u@h/x?sslmode=sometimes").is_err());
    assert!(PostgresStore::open("postgres://u@h/x?sslrootcert=no/such/file").is_err());
}
