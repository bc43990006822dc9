//! TLS termination: loads a certificate chain and its key from PEM files.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error as RustlsError, ServerConfig};

/// A certificate and its key.
#[derive(Clone)]
pub struct Tls(pub(crate) TlsAcceptor);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Why a certificate and its key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsError {
    /// Stable code, listed in `docs/errors.md`.
    pub code: &'static str,
    /// The problem, with the file.
    pub message: String,
    /// How to fix it.
    pub help: &'static str,
}

impl Tls {
    /// Reads a certificate chain and its private key, both PEM.
    ///
    /// # Errors
    /// If a file cannot be read, has no certificate or key, or the two do not belong together.
    pub fn load(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| bad_certificate(cert, &error.to_string()))?;
        if chain.is_empty() {
            return Err(bad_certificate(cert, "the file has no certificate"));
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| TlsError {
            code: "tls_key",
            // The parser's messages never contain parts of the key.
            message: format!("{}: cannot read a private key: {error}", key.display()),
            help: "set --tls-key to a PEM file with an unencrypted PKCS #8, PKCS #1 or SEC1 key",
        })?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder =
            builder.with_safe_default_protocol_versions().map_err(|error| unusable(cert, &error))?;
        let config = builder.with_no_client_auth().with_single_cert(chain, secret);
        let mut config = config.map_err(|error| match error {
            RustlsError::InconsistentKeys(_) => mismatch(cert, key),
            RustlsError::InvalidCertificate(_) => bad_certificate(cert, &error.to_string()),
            other => unusable(key, &other),
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls(TlsAcceptor::from(Arc::new(config))))
    }
}

fn bad_certificate(path: &Path, why: &str) -> TlsError {
    TlsError {
        code: "tls_certificate",
        message: format!("{}: cannot read a certificate: {why}", path.display()),
        help: "set --tls-cert to a PEM file with the certificate, followed by its chain",
    }
}

fn mismatch(cert: &Path, key: &Path) -> TlsError {
    TlsError {
        code: "tls_mismatch",
        message: format!("{} is not the key of the certificate in {}", key.display(), cert.display()),
        help: "use the private key that belongs to the certificate",
    }
}

fn unusable(path: &Path, error: &RustlsError) -> TlsError {
    TlsError {
        code: "tls_key",
        message: format!("{}: the key cannot be used: {error}", path.display()),
        help: "use an RSA key of at least 2048 bits, or an ECDSA or Ed25519 key",
    }
}
