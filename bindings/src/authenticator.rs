//! Who calls: what an authenticator sees of a request, and the identity that it finds.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use http::request::Parts;
use rustls::pki_types::CertificateDer;
use serde_json::{Map, Value};

use crate::Error;

/// The other end of a connection, which may be a proxy. Clones share their content.
#[derive(Debug, Clone)]
pub struct Peer {
    address: SocketAddr,
    certificates: Option<Arc<[CertificateDer<'static>]>>,
}

impl Peer {
    /// Makes a peer from its address and the chain of certificates that it showed in the TLS handshake, its own first.
    pub fn new(address: SocketAddr, certificates: Option<&[CertificateDer<'_>]>) -> Self {
        let owned = |chain: &[CertificateDer<'_>]| chain.iter().map(|one| one.clone().into_owned()).collect();
        Self { address, certificates: certificates.map(owned) }
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the certificates that the peer showed, its own first; empty if it showed none.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        self.certificates.as_deref().unwrap_or_default()
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self { address, certificates: None }
    }
}

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        SocketAddr::new(address, 0).into()
    }
}

/// What is known of a request before its body is read.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// Method, path and headers.
    pub head: &'a Parts,
    /// The other end of the connection, and its TLS certificates.
    pub peer: &'a Peer,
}

/// Finds out who calls, before anything but the head of a request is read.
///
/// It is asked once for every request to the service and to the gRPC services beside it. Whether the caller may use a
/// certain part of the service is decided later, by the service's `authorize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot authenticate requests",
    label = "does not implement `Authenticator`",
    note = "implement `async fn authenticate(&self, request: RequestHead<'_>) -> Result<Identity, Error>`, or pass \
            `Anonymous` to accept every caller"
)]
pub trait Authenticator: Send + Sync + 'static {
    /// Returns the identity of the caller.
    ///
    /// # Errors
    /// [`UNAUTHENTICATED`] with a challenge if the credentials are wrong, [`PERMISSION_DENIED`] or [`RATE_LIMITED`].
    ///
    /// [`UNAUTHENTICATED`]: crate::error::kinds::UNAUTHENTICATED
    /// [`PERMISSION_DENIED`]: crate::error::kinds::PERMISSION_DENIED
    /// [`RATE_LIMITED`]: crate::error::kinds::RATE_LIMITED
    fn authenticate(&self, request: RequestHead<'_>) -> impl Future<Output = Result<Identity, Error>> + Send;
}

/// Accepts every caller as [`Identity::anonymous`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Anonymous;

impl Authenticator for Anonymous {
    async fn authenticate(&self, _: RequestHead<'_>) -> Result<Identity, Error> {
        Ok(Identity::anonymous())
    }
}

/// Who a caller is. It becomes a [`Principal`] only inside this crate, after an [`Authenticator`] returned it.
#[derive(Clone, PartialEq)]
pub struct Identity {
    /// The caller's name at whoever vouches for it; empty for an anonymous one.
    pub subject: Arc<str>,
    /// The customer that the caller's data belongs to; empty where there is no authentication.
    pub owner: Arc<str>,
    /// What the credentials allow.
    pub scopes: Vec<String>,
    /// What else the credentials say.
    pub claims: Map<String, Value>,
    /// When the credentials end; `None` for never.
    pub expires: Option<SystemTime>,
}

impl Identity {
    /// Returns the identity of a caller without credentials.
    pub fn anonymous() -> Self {
        Self { subject: Arc::from(""), owner: Arc::from(""), scopes: Vec::new(), claims: Map::new(), expires: None }
    }
}

impl fmt::Debug for Identity {
    /// Leaves out the claims, which may be confidential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, owner, scopes, expires, claims: _ } = self;
        f.debug_struct("Identity")
            .field("subject", subject)
            .field("owner", owner)
            .field("scopes", scopes)
            .field("expires", expires)
            .finish_non_exhaustive()
    }
}

static ANONYMOUS: LazyLock<Arc<Identity>> = LazyLock::new(|| Arc::new(Identity::anonymous()));

/// An authenticated caller. Only the pipeline makes one, so a handler that has one was called after authentication.
#[derive(Debug, Clone)]
pub struct Principal(Arc<Identity>);

impl Principal {
    /// Returns the customer that this caller acts for.
    pub fn owner(&self) -> &Arc<str> {
        &self.0.owner
    }

    /// Returns all that is known of the caller.
    pub fn identity(&self) -> &Identity {
        &self.0
    }
}

type Authenticating<'a> = Pin<Box<dyn Future<Output = Result<Identity, Error>> + Send + 'a>>;

/// [`Authenticator`] behind a pointer.
trait BoxedAuthenticator: Send + Sync {
    fn authenticate<'a>(&'a self, request: RequestHead<'a>) -> Authenticating<'a>;
}

impl<T: Authenticator> BoxedAuthenticator for T {
    fn authenticate<'a>(&'a self, request: RequestHead<'a>) -> Authenticating<'a> {
        Box::pin(Authenticator::authenticate(self, request))
    }
}

/// Any authenticator. `None` stands for [`Anonymous`], which is asked without a boxed future.
pub(crate) struct AnyAuthenticator(Option<Box<dyn BoxedAuthenticator>>);

impl AnyAuthenticator {
    pub(crate) fn new(authenticator: impl Authenticator) -> Self {
        let is_anonymous = (&authenticator as &dyn Any).is::<Anonymous>();
        Self((!is_anonymous).then(|| Box::new(authenticator) as Box<dyn BoxedAuthenticator>))
    }

    pub(crate) async fn authenticate(&self, request: RequestHead<'_>) -> Result<Principal, Error> {
        match &self.0 {
            None => Ok(Principal(ANONYMOUS.clone())),
            Some(authenticator) => Ok(Principal(Arc::new(authenticator.authenticate(request).await?))),
        }
    }
}
