//! HTTP for the clients of buckets: our own TLS, with the operating system's trust.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::{Body, Client};

/// How long opening a connection may take, unless the client sets a shorter time.
const CONNECT: Duration = Duration::from_secs(5);

/// Makes clients.
#[derive(Debug)]
pub(crate) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // On a machine without an identity, nothing answers at the identity's address, so the client sets one second.
        let asked = options.get_config_value(&ClientConfigKey::ConnectTimeout);
        let connect = match asked.is_some_and(|time| time.starts_with("1 ") || time == "1s") {
            true => Duration::from_secs(1),
            false => CONNECT,
        };
        let client = net::client(connect).map_err(|e| object_store::Error::Generic {
            store: "HTTP",
            source: Box::new(e),
        })?;
        Ok(HttpClient::new(Service(client)))
    }
}

#[derive(Debug)]
struct Service(Client);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        // A part of at most a few MiB, which is in memory anyway.
        let body = body.collect().await?.to_bytes();
        let url = head
            .uri
            .to_string()
            .parse::<reqwest::Url>()
            .map_err(|e| HttpError::new(HttpErrorKind::Unknown, e))?;
        let mut ours = reqwest::Request::new(head.method, url);
        *ours.headers_mut() = head.headers;
        *ours.body_mut() = (!body.is_empty()).then(|| Body::from(body));
        let answer = self.0.execute(ours).await.map_err(explained)?;
        let (head, body) = hyper::Response::<Body>::from(answer).into_parts();
        Ok(HttpResponse::from_parts(
            head,
            HttpResponseBody::new(body.map_err(explained)),
        ))
    }
}

/// Returns the kind of failure, from which the client decides whether to retry.
fn explained(error: reqwest::Error) -> HttpError {
    let mut kind = match () {
        () if error.is_timeout() => HttpErrorKind::Timeout,
        () if error.is_connect() => HttpErrorKind::Connect,
        () => HttpErrorKind::Unknown,
    };
    let mut cause = error.source();
    while let Some(inner) = cause.filter(|_| kind == HttpErrorKind::Unknown) {
        if let Some(e) = inner.downcast_ref::<hyper::Error>()
            && (e.is_closed() || e.is_incomplete_message() || e.is_body_write_aborted())
        {
            kind = HttpErrorKind::Interrupted;
        }
        if let Some(e) = inner.downcast_ref::<std::io::Error>() {
            use std::io::ErrorKind as K;
            match e.kind() {
                K::TimedOut => kind = HttpErrorKind::Timeout,
                K::ConnectionAborted | K::ConnectionReset | K::BrokenPipe | K::UnexpectedEof => {
                    kind = HttpErrorKind::Interrupted;
                }
                _ => {}
            }
        }
        cause = inner.source();
    }
    // A URL may be signed.
    HttpError::new(kind, error.without_url())
}
