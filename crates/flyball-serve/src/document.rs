//! What the document of the interface says about every route: who may, and what can go wrong.

use crate::problem::ProblemBody;
use crate::who::Role;
use utoipa::ToSchema;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, ContentBuilder, InfoBuilder, OpenApi, Ref, RefOr, ResponseBuilder};

/// What any request may be answered with.
const ALWAYS: [(&str, &str); 7] = [
    ("401", "A key is missing where one is needed, or is not known"),
    (
        "403",
        "They may not: another role, another session, another name of the server, or a page of somebody else",
    ),
    ("404", "There is no such thing"),
    ("422", "The request cannot be understood"),
    ("429", "There is too much to do; nothing was taken"),
    ("500", "The server or its store failed"),
    ("503", "The store cannot be reached, or the server is about to stop"),
];
/// What a request with a body may be answered with besides.
const WITH_BODY: [(&str, &str); 4] = [
    ("408", "The body did not arrive in time"),
    ("409", "The session has moved on, or the id came before with another body"),
    ("413", "The body is too large"),
    ("415", "The body is compressed, or of another kind"),
];

/// Adds who may, and what can go wrong.
pub(crate) fn complete(operation: &mut Operation, needs: Option<Role>) {
    let role = needs.map_or("none", Role::as_str);
    let extensions = operation.extensions.get_or_insert_with(Extensions::default);
    extensions.insert("x-role".to_owned(), role.into());
    let mut all = ALWAYS.to_vec();
    if operation.request_body.is_some() {
        all.extend(WITH_BODY);
    }
    for (status, what) in all {
        let words = ContentBuilder::new().schema(Some(Ref::from_schema_name(ProblemBody::name()))).build();
        let mut response = ResponseBuilder::new().description(what).content("application/json", words);
        if matches!(status, "429" | "503") {
            let seconds = ObjectBuilder::new().schema_type(Type::Integer).build();
            let header =
                HeaderBuilder::new().schema(Some(seconds)).description(Some("How many seconds to wait"));
            response = response.header("Retry-After", header.build());
        }
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(response.build()));
    }
}

/// The whole document: what it is, the key, and the words of an error.
pub(crate) fn whole(mut document: OpenApi) -> OpenApi {
    let info = InfoBuilder::new().title("Flyball").version("1").description(Some(
        "The governor for AI agents: events in, decisions out, and a person's word when one is needed.",
    ));
    document.info = info.build();
    let parts = document.components.get_or_insert_with(Components::new);
    let key = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    parts.add_security_scheme("key", key);
    let mut schemas = Vec::new();
    ProblemBody::schemas(&mut schemas);
    schemas.push((ProblemBody::name().into_owned(), <ProblemBody as utoipa::PartialSchema>::schema()));
    parts.schemas.extend(schemas);
    document
}
