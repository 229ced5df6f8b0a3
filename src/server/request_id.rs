//! Ids of requests: a client's own `x-request-id` is kept if it can stand in a log line, else a new one is made.

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use tower::util::MapRequestLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};

/// The header, of requests and of responses.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is kept, in bytes.
const LONGEST: usize = 128;

/// The layers that give each request an id and each response the id of its request.
pub(super) type RequestIdLayers<B> =
    (MapRequestLayer<fn(Request<B>) -> Request<B>>, SetRequestIdLayer<MakeRequestUuid>, PropagateRequestIdLayer);

/// Makes the layers.
pub(super) fn layers<B>() -> RequestIdLayers<B> {
    (
        MapRequestLayer::new(without_bad_id),
        SetRequestIdLayer::new(REQUEST_ID, MakeRequestUuid),
        PropagateRequestIdLayer::new(REQUEST_ID),
    )
}

/// Returns the id of a request that came through the layers.
pub(super) fn id(headers: &HeaderMap) -> &str {
    headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default()
}

fn without_bad_id<B>(mut request: Request<B>) -> Request<B> {
    if request.headers().get(REQUEST_ID).is_some_and(|id| !is_good(id)) {
        request.headers_mut().remove(REQUEST_ID);
    }
    request
}

/// Returns whether an id is short and of visible ASCII characters.
fn is_good(id: &HeaderValue) -> bool {
    let id = id.as_bytes();
    (1..=LONGEST).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use tower::{Layer as _, ServiceExt as _};

    use super::*;

    async fn answered(sent: Option<&str>) -> String {
        let service = tower::service_fn(|request: Request<()>| async move {
            Ok::<_, Infallible>(Response::new(id(request.headers()).to_owned()))
        });
        let mut request = Request::builder();
        if let Some(sent) = sent {
            request = request.header(REQUEST_ID, HeaderValue::from_bytes(sent.as_bytes()).unwrap());
        }
        let response = layers().layer(service).oneshot(request.body(()).unwrap()).await.unwrap();
        assert_eq!(
            response.headers()[REQUEST_ID],
            response.body().as_str(),
            "the service sees the id that is answered"
        );
        response.into_body()
    }

    #[tokio::test]
    async fn a_good_id_is_kept_and_another_is_replaced() {
        let longest = "a".repeat(LONGEST);
        for kept in ["7", "4bf92f35-77b3", "a/b+c=", &longest] {
            assert_eq!(answered(Some(kept)).await, kept);
        }
        for replaced in [None, Some(""), Some("two words"), Some("h\u{e9}"), Some(&*format!("{longest}a"))] {
            let made = answered(replaced).await;
            assert!(uuid::Uuid::try_parse(&made).is_ok(), "{replaced:?}: {made}");
        }
        assert_ne!(answered(None).await, answered(None).await);
    }
}
