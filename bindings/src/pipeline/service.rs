//! The seam between the pipeline and the service.

use std::future::Future;
use std::sync::Arc;

use http::Response;
use http::request::Parts;

use super::{CallRecord, Exchange, Pipeline};
use crate::Rpc;
use crate::authenticator::Principal;
use crate::body::Body;
use crate::budget::BudgetPermit;
use crate::call::Call;
use crate::codec::Codec;
use crate::error::Error;

/// A service as the pipeline calls it. Generated code implements it for the handlers of a schema's service.
pub trait Service: Sized + Send + Sync + 'static {
    /// What the scope of a request names. It shows its name in logs.
    type Agent: AsRef<str> + Send + Sync + 'static;

    /// Finds what `scope` names, and decides whether the caller may call `call.rpc` there and like this. Leaves in
    /// `call.extensions` those in use.
    ///
    /// # Errors
    /// If the client may not call this, or not like this.
    fn authorize(&self, call: &mut Call, scope: &str) -> Result<Arc<Self::Agent>, Error>;

    /// Passes the handler of `call.rpc()` to [`Pipeline::reply`] or [`Pipeline::stream`].
    fn dispatch<X: Exchange>(
        pipeline: &Pipeline<Self>,
        exchange: &mut X,
        call: PendingCall<'_>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// A call whose scope was resolved: what handlers get.
pub type AgentCall<S> = Call<Arc<<S as Service>::Agent>>;

/// A call of an authenticated caller whose rpc was found, with its message still to be decoded.
#[derive(Debug)]
pub struct PendingCall<'h> {
    pub(super) head: &'h Parts,
    pub(super) principal: Principal,
    pub(super) codec: &'static dyn Codec,
    pub(super) rpc: &'static Rpc,
    pub(super) permit: BudgetPermit,
    pub(super) record: CallRecord,
}

impl PendingCall<'_> {
    /// Returns the rpc that is called.
    pub fn rpc(&self) -> &'static Rpc {
        self.rpc
    }
}
