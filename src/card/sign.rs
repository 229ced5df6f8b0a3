//! Signing cards: private keys from PEM, JSON Web Signatures over the canonical form (A2A 8.4).

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::json;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use super::canonical::{Form, canonicalize};
use super::jwk::{Jwk, JwkSet, base64url};
use crate::config;
use crate::schema::{AgentCard, AgentCardSignature};

/// A key that signs cards.
pub struct SigningKey {
    pair: Pair,
    public: Jwk,
}

enum Pair {
    P256(Box<EcdsaKeyPair>),
    Ed25519(Ed25519KeyPair),
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// Why a card cannot be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    /// The PEM contains no PKCS#8 private key.
    #[error("no private key in PKCS#8 PEM (BEGIN PRIVATE KEY): {0}")]
    Pem(String),
    /// The key is neither P-256 nor Ed25519.
    #[error("neither a P-256 nor an Ed25519 key; `openssl genpkey -algorithm ed25519` makes one")]
    Kind,
    /// Two keys have the same `kid`.
    #[error("two keys are named {0:?}; give each its own kid")]
    SameName(String),
    /// The system provides no random numbers, which ES256 needs.
    #[error("the system provides no random numbers")]
    NoRandomness,
}

impl SigningKey {
    /// Reads a PKCS#8 private key from PEM. A P-256 key signs with ES256, an Ed25519 key with EdDSA.
    ///
    /// Without `kid`, the key is named by its thumbprint.
    ///
    /// # Errors
    /// If the PEM contains no such key.
    pub fn from_pem(pem: &[u8], kid: Option<&str>) -> Result<Self, SigningError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|error| SigningError::Pem(error.to_string()))?;
        let der = der.secret_pkcs8_der();
        let random = SystemRandom::new();
        let pair = if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            Pair::Ed25519(pair)
        } else {
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random);
            Pair::P256(Box::new(pair.map_err(|_| SigningError::Kind)?))
        };
        let mut public = match &pair {
            Pair::P256(pair) => Jwk::p256(pair.public_key().as_ref()),
            Pair::Ed25519(pair) => Jwk::ed25519(pair.public_key().as_ref()),
        };
        public.usage = Some("sig".to_owned());
        public.kid = kid.map(str::to_owned).or_else(|| public.thumbprint());
        Ok(Self { pair, public })
    }

    /// Returns the public key, which verifies the signatures.
    pub fn public(&self) -> &Jwk {
        &self.public
    }

    fn sign(&self, message: &[u8]) -> Result<String, SigningError> {
        let signature = match &self.pair {
            Pair::Ed25519(pair) => pair.sign(message),
            Pair::P256(pair) => pair.sign(&SystemRandom::new(), message).map_err(|_| SigningError::NoRandomness)?,
        };
        Ok(base64url(signature.as_ref()))
    }
}

/// Signs all cards of a server. Holds the keys and the URL of their public halves.
#[derive(Debug, Default)]
pub struct Signer {
    keys: Vec<SigningKey>,
    jku: Option<String>,
}

impl Signer {
    /// Reads the configured keys. `jku` is the URL of the public keys, which goes into the header of each signature.
    ///
    /// # Errors
    /// If a key cannot be used: its index in `server.card_keys`, and the reason.
    pub fn from_config(keys: &[config::CardKey], jku: Option<String>) -> Result<Self, (usize, SigningError)> {
        let mut read: Vec<SigningKey> = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let key =
                SigningKey::from_pem(key.key.reveal().as_bytes(), key.kid.as_deref()).map_err(|error| (at, error))?;
            if let Some(kid) = &key.public.kid
                && read.iter().any(|other| other.public.kid.as_ref() == Some(kid))
            {
                return Err((at, SigningError::SameName(kid.clone())));
            }
            read.push(key);
        }
        Ok(Self { keys: read, jku })
    }

    /// Returns the public keys, which verify the signatures.
    pub fn public(&self) -> JwkSet {
        JwkSet { keys: self.keys.iter().map(|key| key.public.clone()).collect() }
    }

    /// Signs a card with every key.
    ///
    /// Some libraries verify another canonical form than the protocol defines. If the two forms of this card differ,
    /// each key signs both, so that every client finds a valid signature.
    ///
    /// # Errors
    /// [`SigningError::NoRandomness`] if the system provides no random numbers.
    pub fn sign(&self, card: &mut AgentCard) -> Result<(), SigningError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let mut payloads = vec![Form::Protocol.of(card), Form::WithoutEmpty.of(card)];
        payloads.dedup();
        for key in &self.keys {
            let mut header = json!({"alg": key.public.alg, "kid": key.public.kid, "typ": "JOSE"});
            if let Some(jku) = &self.jku {
                header["jku"] = jku.as_str().into();
            }
            let protected = base64url(&canonicalize(&header));
            for payload in &payloads {
                let signature = key.sign(&signing_input(&protected, payload))?;
                card.signatures.push(AgentCardSignature { protected: protected.clone(), signature, header: None });
            }
        }
        Ok(())
    }
}

/// Returns the bytes to sign: the protected header and the payload in base64url, joined with a dot.
pub(super) fn signing_input(protected: &str, payload: &[u8]) -> Vec<u8> {
    format!("{protected}.{}", base64url(payload)).into_bytes()
}
