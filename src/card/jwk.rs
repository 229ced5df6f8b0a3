//! Public keys: JSON Web Keys (RFC 7517), their thumbprints (RFC 7638), and verification with them.

use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use ring::{digest, signature::VerificationAlgorithm};
use serde::{Deserialize, Serialize};
use serde_json::json;
use spki::der::asn1::UintRef;
use spki::der::{Decode as _, Reader as _, SliceReader};
use spki::{ObjectIdentifier, SubjectPublicKeyInfoRef};
use tokio_rustls::rustls::pki_types::SubjectPublicKeyInfoDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use super::canonical::canonicalize;

/// Encodes bytes as base64url without padding, as JSON Web Signatures require.
pub(super) fn base64url(bytes: &[u8]) -> String {
    base64_simd::URL_SAFE_NO_PAD.encode_to_string(bytes)
}

/// Decodes base64url without padding. Returns `None` for any other text.
pub(super) fn from_base64url(text: &str) -> Option<Vec<u8>> {
    base64_simd::URL_SAFE_NO_PAD.decode_to_vec(text).ok()
}

/// A public key. Other members of the JSON are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwk {
    /// The kind of key: `EC`, `OKP` or `RSA`.
    pub kty: String,
    /// The curve of an `EC` or `OKP` key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crv: Option<String>,
    /// The x coordinate of an `EC` key, or the whole `OKP` key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// The y coordinate of an `EC` key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    /// The modulus of an `RSA` key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<String>,
    /// The exponent of an `RSA` key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e: Option<String>,
    /// The name by which signatures refer to the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// The only algorithm to use the key with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// The intended use: `sig` for signatures.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub usage: Option<String>,
}

/// Why a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key cannot be read, or is of an unsupported type.
    #[error("cannot read the public key: {0}")]
    Unreadable(String),
    /// The algorithm is not supported: it is unknown, or it uses no public key.
    #[error("the algorithm {0:?} is not one of {known}", known = ALGORITHMS.join(", "))]
    Algorithm(String),
    /// The type, the algorithm or the use of the key does not fit this algorithm.
    #[error("the key cannot be used with {0}")]
    Mismatch(String),
}

/// The signature algorithms that can be verified.
pub const ALGORITHMS: [&str; 10] =
    ["ES256", "ES384", "EdDSA", "Ed25519", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"];

impl Jwk {
    /// Returns the key for a point on P-256 in uncompressed form: the byte 4, x, y.
    pub(super) fn p256(point: &[u8]) -> Self {
        Self::curve("P-256", "ES256", point)
    }

    fn curve(crv: &str, alg: &str, point: &[u8]) -> Self {
        let (x, y) = point[1..].split_at((point.len() - 1) / 2);
        Self {
            kty: "EC".to_owned(),
            crv: Some(crv.to_owned()),
            x: Some(base64url(x)),
            y: Some(base64url(y)),
            alg: Some(alg.to_owned()),
            ..Self::default()
        }
    }

    /// Returns an Ed25519 key.
    pub(super) fn ed25519(point: &[u8]) -> Self {
        Self {
            kty: "OKP".to_owned(),
            crv: Some("Ed25519".to_owned()),
            x: Some(base64url(point)),
            alg: Some("EdDSA".to_owned()),
            ..Self::default()
        }
    }

    /// Reads a public key from PEM (`BEGIN PUBLIC KEY`): P-256, P-384, Ed25519 or RSA.
    ///
    /// # Errors
    /// If the PEM contains none of these.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let der =
            SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|error| KeyError::Unreadable(error.to_string()))?;
        let unknown = || KeyError::Unreadable("not a key for P-256, P-384, Ed25519 or RSA".to_owned());
        let info = SubjectPublicKeyInfoRef::try_from(der.as_ref()).map_err(|_| unknown())?;
        let key = info.subject_public_key.as_bytes().ok_or_else(unknown)?;
        let curve = || info.algorithm.parameters_oid().ok();
        match (info.algorithm.oid, key.len()) {
            (EC, 65) if curve() == Some(P256) => Ok(Self::p256(key)),
            (EC, 97) if curve() == Some(P384) => Ok(Self::curve("P-384", "ES384", key)),
            (ED25519, 32) => Ok(Self::ed25519(key)),
            (RSA, _) => Self::rsa(key).map_err(|_| unknown()),
            _ => Err(unknown()),
        }
    }

    /// Reads an `RSAPublicKey` (RFC 8017, appendix A.1.1).
    fn rsa(der: &[u8]) -> spki::der::Result<Self> {
        let mut reader = SliceReader::new(der)?;
        let (n, e) = reader
            .sequence(|numbers| Ok::<_, spki::der::Error>((UintRef::decode(numbers)?, UintRef::decode(numbers)?)))?;
        reader.finish()?;
        let number = |number: UintRef<'_>| Some(base64url(number.as_bytes()));
        Ok(Self { kty: "RSA".to_owned(), n: number(n), e: number(e), ..Self::default() })
    }

    /// Returns the SHA-256 thumbprint, which identifies the key, or `None` if the type of the key is unknown.
    pub fn thumbprint(&self) -> Option<String> {
        let Self { crv, x, y, n, e, .. } = self;
        let required = match self.kty.as_str() {
            "EC" => json!({"crv": crv.as_ref()?, "kty": "EC", "x": x.as_ref()?, "y": y.as_ref()?}),
            "OKP" => json!({"crv": crv.as_ref()?, "kty": "OKP", "x": x.as_ref()?}),
            "RSA" => json!({"e": e.as_ref()?, "kty": "RSA", "n": n.as_ref()?}),
            _ => return None,
        };
        Some(base64url(digest::digest(&digest::SHA256, &canonicalize(&required)).as_ref()))
    }

    /// Returns whether this key made the signature of `message`.
    ///
    /// The type of the key has to fit the algorithm, so that an attacker cannot make a verifier use the key with
    /// another algorithm.
    ///
    /// # Errors
    /// If the key cannot be used with this algorithm.
    pub fn verifies(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> Result<bool, KeyError> {
        if !ALGORITHMS.contains(&algorithm) {
            return Err(KeyError::Algorithm(algorithm.to_owned()));
        }
        let same = |a: &str| if a == "Ed25519" { "EdDSA".to_owned() } else { a.to_owned() };
        let mismatch = || KeyError::Mismatch(algorithm.to_owned());
        if self.alg.as_deref().is_some_and(|own| same(own) != same(algorithm))
            || self.usage.as_deref().is_some_and(|usage| usage != "sig")
        {
            return Err(mismatch());
        }
        let member = |text: &Option<String>| {
            let bytes = text.as_deref().and_then(from_base64url);
            bytes.ok_or_else(|| KeyError::Unreadable("a member is missing or not base64url".to_owned()))
        };
        let with = |algorithm: &'static dyn VerificationAlgorithm, key: Vec<u8>| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok()
        };
        match (algorithm, self.kty.as_str(), self.crv.as_deref()) {
            ("ES256", "EC", Some("P-256")) | ("ES384", "EC", Some("P-384")) => {
                let point = [vec![4], member(&self.x)?, member(&self.y)?].concat();
                Ok(if algorithm == "ES256" {
                    with(&signature::ECDSA_P256_SHA256_FIXED, point)
                } else {
                    with(&signature::ECDSA_P384_SHA384_FIXED, point)
                })
            }
            ("EdDSA" | "Ed25519", "OKP", Some("Ed25519")) => Ok(with(&signature::ED25519, member(&self.x)?)),
            (_, "RSA", _) => {
                let parameters = match algorithm {
                    "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                    "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
                    "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
                    "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
                    "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
                    "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => return Err(mismatch()),
                };
                let key = RsaPublicKeyComponents { n: member(&self.n)?, e: member(&self.e)? };
                Ok(key.verify(parameters, message, signature).is_ok())
            }
            _ => Err(mismatch()),
        }
    }
}

/// A set of public keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct JwkSet {
    /// The keys.
    pub keys: Vec<Jwk>,
}

impl JwkSet {
    /// Reads a key set or a single key. Keys that cannot be read are ignored, as RFC 7517 asks.
    ///
    /// # Errors
    /// If the JSON is neither.
    pub fn from_json(json: &[u8]) -> Result<Self, KeyError> {
        let wrong = |text: String| KeyError::Unreadable(text);
        let value: serde_json::Value = serde_json::from_slice(json).map_err(|e| wrong(format!("not JSON: {e}")))?;
        let keys = match &value["keys"] {
            serde_json::Value::Array(keys) => keys.clone(),
            _ if value["kty"].is_string() => vec![value],
            _ => return Err(wrong("neither a JSON Web Key nor a key set".to_owned())),
        };
        Ok(Self { keys: keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect() })
    }

    /// Returns the keys that may have made a signature with this `kid`: those with the name, or else those without a
    /// name.
    pub fn named(&self, kid: &str) -> Vec<&Jwk> {
        let named: Vec<_> = self.keys.iter().filter(|key| key.kid.as_deref() == Some(kid)).collect();
        if !named.is_empty() {
            return named;
        }
        self.keys.iter().filter(|key| key.kid.is_none()).collect()
    }
}

/// The key is on an elliptic curve, which the parameters identify (RFC 5480).
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
/// RFC 8410.
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
/// RFC 8017.
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thumbprint_is_that_of_rfc_7638() {
        // The example of its section 3.1.
        let key = JwkSet::from_json(
            br#"{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"}"#,
        )
        .unwrap();
        assert_eq!(key.keys[0].thumbprint().unwrap(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
        // The example of RFC 8037, appendix A.3.
        let key = Jwk {
            kty: "OKP".into(),
            crv: Some("Ed25519".into()),
            x: Some("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo".into()),
            ..Jwk::default()
        };
        assert_eq!(key.thumbprint().unwrap(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }

    #[test]
    fn a_signature_of_rfc_8037_is_verified_and_a_changed_one_is_not() {
        let key = Jwk {
            kty: "OKP".into(),
            crv: Some("Ed25519".into()),
            x: Some("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo".into()),
            ..Jwk::default()
        };
        let message = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
        let mut signature =
            from_base64url("hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg")
                .unwrap();
        assert_eq!(key.verifies("EdDSA", message, &signature), Ok(true));
        signature[3] ^= 1;
        assert_eq!(key.verifies("EdDSA", message, &signature), Ok(false));
    }

    #[test]
    fn a_key_is_used_for_its_own_algorithm_only() {
        let key = Jwk::ed25519(&[7; 32]);
        assert_eq!(key.verifies("ES256", b"", b""), Err(KeyError::Mismatch("ES256".into())));
        for unsafe_one in ["none", "HS256", "", "es256"] {
            assert_eq!(key.verifies(unsafe_one, b"", b""), Err(KeyError::Algorithm(unsafe_one.into())));
        }
        let for_encryption = Jwk { usage: Some("enc".into()), ..key.clone() };
        assert_eq!(for_encryption.verifies("EdDSA", b"", b""), Err(KeyError::Mismatch("EdDSA".into())));
        let broken = Jwk { x: None, ..key };
        assert!(matches!(broken.verifies("EdDSA", b"", b""), Err(KeyError::Unreadable(_))));
    }

    #[test]
    fn a_key_that_ends_early_or_is_of_another_kind_is_refused() {
        // An Ed25519 key, whole, cut off, and with the identifier of X25519 in its place.
        let whole = [&[0x30, 42, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 33, 0][..], &[7; 32]].concat();
        let pem = |der: &[u8]| {
            let base64 = base64_simd::STANDARD.encode_to_string(der);
            Jwk::from_pem(format!("-----BEGIN PUBLIC KEY-----\n{base64}\n-----END PUBLIC KEY-----\n").as_bytes())
        };
        assert_eq!(pem(&whole), Ok(Jwk::ed25519(&[7; 32])));
        for length in 0..whole.len() {
            assert!(matches!(pem(&whole[..length]), Err(KeyError::Unreadable(_))), "{length} bytes");
        }
        let mut other = whole;
        other[8] = 0x6e;
        assert!(matches!(pem(&other), Err(KeyError::Unreadable(_))));
        assert!(Jwk::rsa(&[0x30, 6, 2, 1, 5, 2, 1, 3]).is_ok());
        for broken in [&[][..], &[0x30], &[0x30, 5, 1], &[0x30, 3, 2, 1, 5], &[0x30, 6, 2, 1, 5, 2, 1, 3, 0]] {
            assert!(Jwk::rsa(broken).is_err(), "{broken:?}");
        }
    }
}
