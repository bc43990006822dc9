//! OpenAPI details that apply to every route: the required role and common error responses.

use crate::api_error::ApiErrorBody;
use crate::auth::AuthRole;
use utoipa::ToSchema;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, ContentBuilder, InfoBuilder, OpenApi, Ref, RefOr, ResponseBuilder};

/// Error responses of every route.
const COMMON_RESPONSES: [(&str, &str); 7] = [
    ("401", "The key is missing or unknown"),
    ("403", "Not allowed: wrong role, session, host name or origin"),
    ("404", "Not found"),
    ("422", "Invalid request"),
    ("429", "Overloaded or over a limit; nothing was accepted"),
    ("500", "The server or its store failed"),
    ("503", "The store is unavailable, or the server is shutting down"),
];
/// Additional error responses of routes with a body.
const BODY_RESPONSES: [(&str, &str); 4] = [
    ("408", "The body did not arrive in time"),
    ("409", "The session has changed, or the id was used with another body"),
    ("413", "The body is too large"),
    ("415", "The body is compressed or has an unsupported media type"),
];

/// Adds the required role and the common error responses to an operation.
pub(crate) fn add_common_responses(operation: &mut Operation, needs: Option<AuthRole>) {
    let role = needs.map_or("none", AuthRole::as_str);
    let extensions = operation.extensions.get_or_insert_with(Extensions::default);
    extensions.insert("x-role".to_owned(), role.into());
    let mut all = COMMON_RESPONSES.to_vec();
    if operation.request_body.is_some() {
        all.extend(BODY_RESPONSES);
    }
    for (status, description) in all {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(ApiErrorBody::name()))).build();
        let mut response =
            ResponseBuilder::new().description(description).content("application/json", content);
        if matches!(status, "429" | "503") {
            let seconds = ObjectBuilder::new().schema_type(Type::Integer).build();
            let header = HeaderBuilder::new()
                .schema(Some(seconds))
                .description(Some("Seconds to wait before a retry"));
            response = response.header("Retry-After", header.build());
        }
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(response.build()));
    }
}

/// Adds the title, the security scheme and the error schema to the document.
pub(crate) fn finish_document(mut document: OpenApi) -> OpenApi {
    let info = InfoBuilder::new().title("Flyball").version("1").description(Some(
        "The governor for AI agents: send events, receive decisions, and let people approve, release and stop.",
    ));
    document.info = info.build();
    let parts = document.components.get_or_insert_with(Components::new);
    let key = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    parts.add_security_scheme("key", key);
    let mut schemas = Vec::new();
    ApiErrorBody::schemas(&mut schemas);
    schemas.push((ApiErrorBody::name().into_owned(), <ApiErrorBody as utoipa::PartialSchema>::schema()));
    parts.schemas.extend(schemas);
    document
}
