//! The address of the server: what it means, how it is shown, and how the connection is guarded.
//!
//! With `sslmode=require` the server must show a certificate that the machine trusts (`SSL_CERT_FILE` names other
//! roots). With `prefer`, the default, a server that offers TLS gets it, whatever its certificate: that keeps a
//! listener out, not an impostor.

use crate::error::{StoreError, Trouble};
use crate::journal::Result;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long a connection may take to come about, unless the address says otherwise.
const CONNECT: Duration = Duration::from_secs(5);
/// After how long a silent server counts as gone.
const SILENCE: Duration = Duration::from_secs(30);

/// Reads an address. The text is never repeated in an error: it may hold a password.
pub(super) fn parse(address: &str) -> Result<Config> {
    // Where we are told to check the certificate, we check all of it; there is no weaker way.
    let address = address
        .replace("sslmode=verify-full", "sslmode=require")
        .replace("sslmode=verify-ca", "sslmode=require");
    let bad = |what: &str| StoreError::new(Trouble::BadAddress, what);
    let mut config: Config = address.parse().map_err(|_| {
        bad("the address of the server cannot be understood: postgres://USER@HOST:PORT/DATABASE?sslmode=require")
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(bad("the address names no server: postgres://USER@HOST/DATABASE"));
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_application_name().is_none() {
        config.application_name("flyball");
    }
    config.keepalives_idle(SILENCE).tcp_user_timeout(SILENCE);
    Ok(config)
}

/// The address without user and password.
pub(super) fn shown(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) if name.contains(':') => format!("[{name}]"),
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => config.get_hostaddrs().first().map(ToString::to_string).unwrap_or_default(),
    };
    let port = match config.get_ports().first() {
        None | Some(5432) => String::new(),
        Some(port) => format!(":{port}"),
    };
    let database = config.get_dbname().or_else(|| config.get_user()).unwrap_or_default();
    format!("postgres://{host}{port}/{database}")
}

/// How the connection is guarded.
pub(super) fn guard(config: &Config) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| {
        StoreError::new(Trouble::BadAddress, format!("TLS cannot be set up on this machine: {error}"))
    })?;
    let client = if config.get_ssl_mode() == SslMode::Require {
        builder.with_root_certificates(roots()?).with_no_client_auth()
    } else {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth()
    };
    Ok(MakeRustlsConnect::new(client))
}

/// The certificates that this machine trusts.
fn roots() -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if store.is_empty() {
        return Err(StoreError::new(
            Trouble::BadAddress,
            "sslmode=require needs certificates to trust, and this machine has none: install ca-certificates, or \
             name a file with SSL_CERT_FILE",
        ));
    }
    Ok(store)
}

/// Takes any certificate, as `prefer` does everywhere: the line is encrypted, the other end is not checked.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
