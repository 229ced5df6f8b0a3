//! Cross-origin requests: which web origins may call. The headers are tower-http's; what it cannot decide is decided here.
//!
//! Two things differ from [`CorsLayer`] on its own. It answers every `OPTIONS` request itself, also where the path or the
//! origin has nothing to do with CORS; here only a preflight of an allowed origin is answered, with `204 No Content`, and
//! everything else reaches the service. And it names `*` on every response; here only on those to a request with an
//! `Origin`.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::TryFutureExt as _;
use futures::future::{Either, MapOk};
use http::header::{
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW, CONTENT_LENGTH, DATE, ETAG, HeaderMap, HeaderName, HeaderValue,
    LAST_MODIFIED, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{Method, Request, Response, StatusCode};
use tower::{Layer, Service};
use tower_http::cors::{self, AllowCredentials, AllowHeaders, AllowOrigin, CorsLayer, ExposeHeaders, Vary};

use super::request_id::REQUEST_ID;

/// Headers of a response that a page may read beside the safelisted ones of the Fetch standard.
static EXPOSED: [HeaderName; 14] = [
    HeaderName::from_static("a2a-version"),
    HeaderName::from_static("a2a-extensions"),
    ALLOW,
    CONTENT_LENGTH,
    DATE,
    ETAG,
    LAST_MODIFIED,
    RETRY_AFTER,
    WWW_AUTHENTICATE,
    REQUEST_ID,
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
    HeaderName::from_static("grpc-encoding"),
];

/// How long a browser may keep the answer to a preflight.
const MAX_AGE: Duration = Duration::from_secs(600);

/// The origins whose pages may call.
#[derive(Debug, Clone)]
pub(super) enum Origins {
    Any,
    Listed(Arc<[HeaderValue]>),
}

impl Origins {
    /// Returns `None` if no origin is allowed.
    pub(super) fn new(origins: &[String]) -> Option<Self> {
        if origins.iter().any(|origin| origin == "*") {
            return Some(Self::Any);
        }
        let listed: Arc<[_]> = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
        (!listed.is_empty()).then_some(Self::Listed(listed))
    }

    pub(super) fn allow(&self, origin: &HeaderValue) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(origins) => origins.contains(origin),
        }
    }
}

/// A layer that lets web pages of the allowed origins call the service under it.
#[derive(Debug, Clone)]
pub(super) struct Cors {
    origins: Origins,
    layer: CorsLayer,
}

impl Cors {
    /// Allows these origins; `*` allows all, and never with credentials. Strings that no `Origin` header can hold are
    /// ignored. Returns `None` if no origin is left: then there is nothing to do for any request.
    pub(super) fn new(origins: &[String], credentials: bool) -> Option<Self> {
        let origins = Origins::new(origins)?;
        let layer = CorsLayer::new()
            .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::DELETE])
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(ExposeHeaders::list(EXPOSED.iter().cloned()))
            .max_age(MAX_AGE);
        let layer = match &origins {
            Origins::Any => layer.allow_origin(AllowOrigin::any()).vary(Vary::list([])),
            Origins::Listed(listed) => {
                let (allowed, trusted) = (listed.clone(), listed.clone());
                layer
                    .allow_origin(AllowOrigin::predicate(move |origin, _| allowed.contains(origin)))
                    .allow_credentials(AllowCredentials::predicate(move |origin, _| {
                        credentials && trusted.contains(origin)
                    }))
                    // Also where the origin is absent or refused: a cache must not give that response to a page that may
                    // read it.
                    .vary([ORIGIN])
            }
        };
        Some(Self { origins, layer })
    }
}

impl<S> Layer<S> for Cors {
    type Service = CorsService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CorsService { origins: self.origins.clone(), cors: self.layer.layer(inner) }
    }
}

/// A service under [`Cors`].
#[derive(Debug, Clone)]
pub(super) struct CorsService<S> {
    origins: Origins,
    cors: cors::Cors<S>,
}

/// What CORS means for one request.
#[derive(Debug, PartialEq, Eq)]
enum Role {
    /// Nothing: it goes to the service as it is.
    None,
    /// It is a preflight of an allowed origin, answered without the service.
    Preflight,
    /// The response of the service gets the headers of CORS.
    Actual,
}

impl Origins {
    fn role(&self, method: &Method, headers: &HeaderMap) -> Role {
        let origin = headers.get(ORIGIN);
        match self {
            _ if method == Method::OPTIONS => {
                let asks = headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
                let allowed = origin.is_some_and(|origin| self.allow(origin));
                if asks && allowed { Role::Preflight } else { Role::None }
            }
            Self::Any if origin.is_none() => Role::None,
            Self::Any | Self::Listed(_) => Role::Actual,
        }
    }
}

type Finish<B> = fn(Response<B>) -> Response<B>;

impl<S, A, B> Service<Request<A>> for CorsService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Default,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Either<S::Future, MapOk<cors::ResponseFuture<S::Future>, Finish<B>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.cors.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let finish: Finish<B> = match self.origins.role(request.method(), request.headers()) {
            Role::None => return Either::Left(self.cors.get_mut().call(request)),
            Role::Preflight => no_content,
            Role::Actual => std::convert::identity,
        };
        Either::Right(self.cors.call(request).map_ok(finish))
    }
}

fn no_content<B>(mut response: Response<B>) -> Response<B> {
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::header::{
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_HEADERS, VARY,
    };
    use tower::ServiceExt as _;

    use super::*;

    const APP: &str = "https://app.example";
    const OTHER: &str = "https://other.example";

    /// Sends one request through the layer to a service that answers 418.
    async fn answer(cors: &Cors, method: Method, origin: Option<&str>) -> Response<String> {
        let mut request = Request::builder().method(method);
        if let Some(origin) = origin {
            request = request
                .header(ORIGIN, origin)
                .header(ACCESS_CONTROL_REQUEST_METHOD, "POST")
                .header(ACCESS_CONTROL_REQUEST_HEADERS, "a2a-version, content-type");
        }
        let service = tower::service_fn(|_| async {
            let mut response = Response::new(String::new());
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            Ok::<_, Infallible>(response)
        });
        cors.layer(service).oneshot(request.body(()).unwrap()).await.unwrap()
    }

    fn cors(origin: &str, credentials: bool) -> Cors {
        Cors::new(&[origin.to_owned()], credentials).unwrap()
    }

    #[tokio::test]
    async fn a_preflight_of_an_allowed_origin_is_answered_and_another_reaches_the_service() {
        let allowed = answer(&cors(APP, false), Method::OPTIONS, Some(APP)).await;
        assert_eq!(allowed.status(), StatusCode::NO_CONTENT);
        assert_eq!(allowed.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], APP);
        assert_eq!(allowed.headers()[ACCESS_CONTROL_ALLOW_HEADERS], "a2a-version, content-type");
        assert_eq!(allowed.headers()[VARY], "origin");
        assert!(allowed.headers().get(ACCESS_CONTROL_ALLOW_CREDENTIALS).is_none());
        for origin in [Some(OTHER), None] {
            let refused = answer(&cors(APP, false), Method::OPTIONS, origin).await;
            assert_eq!(refused.status(), StatusCode::IM_A_TEAPOT, "{origin:?}");
            assert!(refused.headers().get(ACCESS_CONTROL_ALLOW_ORIGIN).is_none(), "{origin:?}");
        }
    }

    #[tokio::test]
    async fn only_pages_of_allowed_origins_may_read_an_answer() {
        let allowed = answer(&cors(APP, false), Method::POST, Some(APP)).await;
        assert_eq!(allowed.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], APP);
        let exposed = allowed.headers()[ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap();
        for header in ["a2a-extensions", "grpc-status", "www-authenticate"] {
            assert!(exposed.split(',').any(|name| name == header), "{header} in {exposed}");
        }
        for origin in [Some(OTHER), None] {
            let refused = answer(&cors(APP, false), Method::POST, origin).await;
            assert!(refused.headers().get(ACCESS_CONTROL_ALLOW_ORIGIN).is_none(), "{origin:?}");
            assert_eq!(refused.headers()[VARY], "origin", "a cache must not give this answer to the page that may");
        }
        assert!(Cors::new(&[], false).is_none() && Cors::new(&["\n".to_owned()], false).is_none());
        let any = answer(&cors("*", false), Method::POST, Some(APP)).await;
        assert_eq!(any.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert!(answer(&cors("*", false), Method::POST, None).await.headers().is_empty());
    }

    #[tokio::test]
    async fn credentials_are_for_listed_origins_only() {
        for (allowed, origin, expected) in [(APP, APP, true), (APP, OTHER, false), ("*", APP, false)] {
            let response = answer(&cors(allowed, true), Method::POST, Some(origin)).await;
            let credentials = response.headers().contains_key(ACCESS_CONTROL_ALLOW_CREDENTIALS);
            assert_eq!(credentials, expected, "{allowed} {origin}");
        }
    }
}
