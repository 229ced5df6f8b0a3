//! What fuzz targets feed that is private to this crate. No part of the interface.

#![allow(missing_docs)]

use std::borrow::Cow;

use http::HeaderMap;

use crate::error::{Error, Protocol};
use crate::jsonrpc::envelope::Envelope;

/// The id as it stands in the body, the method and the parameters of a JSON-RPC request.
pub type ReadEnvelope<'a> = (Option<&'a str>, Cow<'a, str>, Option<&'a str>);

pub fn envelope(body: &[u8]) -> Result<ReadEnvelope<'_>, (Option<&[u8]>, Error)> {
    Envelope::read(body).map(|Envelope { id, method, params }| (id, method, params))
}

pub fn version(protocol: &Protocol, headers: &HeaderMap, query: Option<&str>) -> Result<&'static str, Error> {
    crate::call::choose_codec(protocol, headers, query).map(|codec| codec.version())
}

pub fn extensions(protocol: &Protocol, headers: &HeaderMap) -> Vec<String> {
    crate::call::extensions(protocol, headers)
}
