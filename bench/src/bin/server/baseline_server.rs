//! Baseline server that only parses the same body, to measure the cost of HTTP on this machine.

use crate::BenchResult;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use std::io::Write;

/// Prints its address and serves until it is stopped.
pub(crate) fn run() -> BenchResult<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        writeln!(std::io::stderr(), "hello: http://{}, says nothing", listener.local_addr()?)?;
        let router = Router::new().route("/v1/events", post(hello));
        axum::serve(listener, router).await?;
        Ok(Vec::new())
    })
}

async fn hello(body: String) -> (StatusCode, String) {
    match serde_json::from_str::<serde_json::Value>(&body) {
        Ok(event) => (StatusCode::OK, format!(r#"{{"decision":"allow","session":{}}}"#, event["session"])),
        Err(_) => (StatusCode::UNPROCESSABLE_ENTITY, String::new()),
    }
}
