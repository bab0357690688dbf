//! Metrics and health over HTTP.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;

use crate::metrics::Metrics;

/// `GET /metrics` for Prometheus, and `GET /health`: 200 while messages can come, else 503.
pub fn router(metrics: Arc<Metrics>) -> Router {
    Router::new().route("/metrics", get(text)).route("/health", get(health)).with_state(metrics)
}

async fn text(State(metrics): State<Arc<Metrics>>) -> impl axum::response::IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.text())
}

async fn health(State(metrics): State<Arc<Metrics>>) -> (StatusCode, &'static str) {
    if metrics.is_healthy() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no stream\n")
    }
}
