//! TLS: certificates from PEM, HTTP/2 and HTTP/1.1 by ALPN.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// There is no certificate in it.
    #[error("no certificate in PEM: {0}")]
    Certificate(rustls::pki_types::pem::Error),
    /// There is no private key in it.
    #[error("no private key in PEM: {0}")]
    Key(rustls::pki_types::pem::Error),
    /// They are not of use, or not for each other.
    #[error("certificate and key cannot be used: {0}")]
    Refused(#[from] rustls::Error),
}

/// An acceptor for a chain of certificates, the server's own first, and its key.
///
/// # Errors
/// When the PEM does not hold what it should, or the key is not the certificate's.
pub fn acceptor(certificates: &[u8], key: &[u8]) -> Result<TlsAcceptor, TlsError> {
    let chain =
        CertificateDer::pem_slice_iter(certificates).collect::<Result<Vec<_>, _>>().map_err(TlsError::Certificate)?;
    if chain.is_empty() {
        return Err(TlsError::Certificate(rustls::pki_types::pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
