//! Server address: parsing, display, and TLS settings.
//!
//! A connection to another machine verifies the server's certificate and name by default (`verify-full`);
//! `sslmode=require`, `verify-ca` and `verify-full` do the same. The trusted roots are those of the machine
//! (`SSL_CERT_FILE` overrides them), or the file in `sslrootcert`. On the local machine (loopback, socket) the
//! default is `prefer`: encrypted if the server offers it, not verified. `disable`, `allow` and `prefer` in the
//! address are honored; `flyball doctor` warns about them for another machine.

use crate::error::{StoreError, StoreErrorKind};
use crate::event_store::StoreResult;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Default connect timeout, unless the address sets one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Keepalive timeout of a silent server.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(30);

/// A parsed address with its TLS settings.
#[derive(Debug)]
pub(super) struct ConnectionConfig {
    pub(super) config: Config,
    /// File with trusted certificates, if the address names one.
    root_certificates: Option<PathBuf>,
    /// Whether the server is on another machine.
    remote: bool,
}

impl ConnectionConfig {
    /// Whether the server's certificate is verified.
    fn verifies_certificate(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Require
    }

    /// Describes how an attacker on the network could impersonate the server or eavesdrop, if possible.
    pub(super) fn transport_weakness(&self) -> Option<&'static str> {
        match self.config.get_ssl_mode() {
            _ if !self.remote => None,
            SslMode::Disable => Some("the server connection is not encrypted (sslmode=disable)"),
            SslMode::Require => None,
            _ => Some("the server certificate is not verified (sslmode=prefer)"),
        }
    }
}

/// Parses an address. Errors never contain the text, because it may include a password.
pub(super) fn parse(address: &str) -> StoreResult<ConnectionConfig> {
    let bad = |what: &str| StoreError::new(StoreErrorKind::BadAddress, what);
    let (address, options) = split_tls_options(address);
    let mut config: Config = address.parse().map_err(|_| {
        bad("invalid server address; expected postgres://USER@HOST:PORT/DATABASE?sslmode=require")
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(bad("the address has no host; expected postgres://USER@HOST/DATABASE"));
    }
    let remote = is_remote(&config);
    config.ssl_mode(match options.mode.as_deref() {
        None if remote => SslMode::Require,
        None | Some("allow" | "prefer") => SslMode::Prefer,
        Some("disable") => SslMode::Disable,
        // Any verification is full verification.
        Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
        Some(_) => {
            return Err(bad("sslmode must be one of disable, prefer, require, verify-ca, verify-full"));
        }
    });
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("flyball");
    }
    config.keepalives_idle(KEEPALIVE_TIMEOUT).tcp_user_timeout(KEEPALIVE_TIMEOUT);
    let root_certificates = options.root_certificates.filter(|path| path.as_os_str() != "system");
    Ok(ConnectionConfig { config, root_certificates, remote })
}

/// TLS options of an address.
#[derive(Debug, Default)]
struct TlsOptions {
    mode: Option<String>,
    root_certificates: Option<PathBuf>,
}

/// Splits the TLS options off an address, because the client library does not support all of them.
fn split_tls_options(address: &str) -> (String, TlsOptions) {
    let mut options = TlsOptions::default();
    let Some((front, query)) = address.split_once('?') else { return (address.to_owned(), options) };
    let mut rest = Vec::new();
    for part in query.split('&') {
        match part.split_once('=') {
            Some(("sslmode", mode)) => options.mode = Some(mode.to_owned()),
            Some(("sslrootcert", path)) => options.root_certificates = Some(percent_decode(path).into()),
            _ => rest.push(part),
        }
    }
    let query = rest.join("&");
    (if query.is_empty() { front.to_owned() } else { format!("{front}?{query}") }, options)
}

fn percent_decode(text: &str) -> String {
    let mut decoded = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let byte = (*first == b'%')
            .then(|| after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Whether a server may be on another machine. Decided by the name alone, because name resolution is not trusted.
fn is_remote(config: &Config) -> bool {
    let local_name = |name: &str| {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost")
            || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
    };
    let local_host = |host: &Host| match host {
        Host::Tcp(name) => local_name(name),
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    !config.get_hosts().iter().all(local_host)
        || !config.get_hostaddrs().iter().all(|address| address.to_canonical().is_loopback())
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

/// TLS connector for an address.
pub(super) fn tls_connector(address: &ConnectionConfig) -> StoreResult<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| {
        StoreError::new(StoreErrorKind::BadAddress, format!("cannot set up TLS on this machine: {error}"))
    })?;
    let client = if address.verifies_certificate() {
        let roots = address.root_certificates.as_deref().map_or_else(system_roots, roots_from_file)?;
        builder.with_root_certificates(roots).with_no_client_auth()
    } else {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
            .with_no_client_auth()
    };
    Ok(MakeRustlsConnect::new(client))
}

/// Loads certificates from a file.
fn roots_from_file(path: &Path) -> StoreResult<RootCertStore> {
    let bad = |why: String| {
        StoreError::new(
            StoreErrorKind::BadAddress,
            format!("cannot use sslrootcert={}: {why}", path.display()),
        )
    };
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))? {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        store.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    if store.is_empty() { Err(bad("it contains no certificate".to_owned())) } else { Ok(store) }
}

/// The certificates that this machine trusts.
fn system_roots() -> StoreResult<RootCertStore> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if store.is_empty() {
        return Err(StoreError::new(
            StoreErrorKind::BadAddress,
            "cannot verify the server: this machine has no trusted certificates; install ca-certificates, or \
             name a file with sslrootcert=FILE",
        ));
    }
    Ok(store)
}

/// Accepts any certificate, as `prefer` always does: the connection is encrypted but the server is not verified.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
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

/// A server's address without user and password, in the form that its connections report. From an invalid address,
/// everything before the host is removed.
pub(crate) fn redacted_address(url: &str) -> String {
    match url.parse::<Config>() {
        Ok(config) => shown(&config),
        Err(_) => url.rsplit('@').next().unwrap_or_default().to_owned(),
    }
}
