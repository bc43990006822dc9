//! Declared tools of a workflow file: a program with arguments, some of them filled in by the model.
//!
//! No shell is involved: a placeholder becomes part of exactly one argument, regardless of its content. A value that
//! the program could parse as an option is rejected.

use super::args_schema;
use super::risk::Risk;
use super::tool_error::ToolError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Maximum length of a tool name; the limit of the model providers.
const MAX_NAME_CHARS: usize = 64;

/// A tool that runs a program.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandTool {
    /// Name: letters, digits, `_` and `-`.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of its arguments, of type `object`.
    #[serde(default = "no_arguments")]
    pub schema: Value,
    /// The program and its arguments. `{field}` is replaced by that argument of the call; `{{` and `}}` are literal
    /// braces. An element whose field is missing in the call is omitted.
    pub argv: Vec<String>,
    /// Risk class; without one the risk is unknown, and by default a person is asked.
    pub risk: Option<Risk>,
}

/// Schema of a tool without arguments.
fn no_arguments() -> Value {
    serde_json::json!({"type": "object", "properties": {}})
}

impl CommandTool {
    /// Validates the declaration.
    ///
    /// # Errors
    /// `bad_tool` if the name or the schema is invalid, or a placeholder has no field.
    pub fn validate(&self) -> Result<(), ToolError> {
        let bad = |why: String| {
            let what = format!("invalid tool '{}': {why}", self.name);
            Err(ToolError::new("bad_tool", what, "fix its declaration in the workflow file"))
        };
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.name.is_empty() || self.name.len() > MAX_NAME_CHARS || !self.name.chars().all(letter) {
            return bad(format!("its name must be 1 to {MAX_NAME_CHARS} letters, digits, '_' or '-'"));
        }
        if let Err(why) = args_schema::check_schema(&self.schema) {
            return bad(why);
        }
        let Some((program, arguments)) = self.argv.split_first().filter(|(program, _)| !program.is_empty())
        else {
            return bad("its argv is empty".to_owned());
        };
        if !matches!(parse_parts(program).as_deref(), Ok([ArgPart::Text(_)])) {
            return bad("its program is a placeholder; the model must not choose it".to_owned());
        }
        let properties = self.schema.get("properties").and_then(Value::as_object);
        for argument in arguments {
            for part in match parse_parts(argument) {
                Ok(parts) => parts,
                Err(why) => return bad(format!("'{argument}' {why}")),
            } {
                if let ArgPart::Field(field) = part
                    && properties.is_none_or(|properties| !properties.contains_key(field))
                {
                    return bad(format!(
                        "'{argument}' refers to the field '{field}', which is not in its schema"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Command line of a call with validated arguments.
    ///
    /// # Errors
    /// `looks_like_option` if a value would be parsed as an option.
    pub fn build_argv(&self, args: &Value) -> Result<Vec<String>, ToolError> {
        let none = Map::new();
        let args = args.as_object().unwrap_or(&none);
        let mut command: Vec<String> = Vec::with_capacity(self.argv.len());
        let mut options_over = false;
        for (number, argument) in self.argv.iter().enumerate() {
            let Some(filled) = fill_argument(argument, args) else { continue };
            let starts_with_field = argument.starts_with('{') && !argument.starts_with("{{");
            if number > 0
                && starts_with_field
                && !options_over
                && filled.starts_with('-')
                && !is_number(&filled)
            {
                let what = format!(
                    "the value '{filled}' for '{argument}' of '{}' would be parsed as an option",
                    self.name
                );
                return Err(ToolError::new(
                    "looks_like_option",
                    what,
                    "send a value that does not start with '-'",
                ));
            }
            options_over |= argument == "--";
            command.push(filled);
        }
        Ok(command)
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Fills in the fields of an argument; `None` if one is missing in the call.
fn fill_argument(argument: &str, args: &Map<String, Value>) -> Option<String> {
    let mut filled = String::new();
    for part in parse_parts(argument).unwrap_or_default() {
        match part {
            ArgPart::Text(text) => filled.push_str(&text),
            ArgPart::Field(field) => match args.get(field).filter(|value| !value.is_null())? {
                Value::String(text) => filled.push_str(text),
                other => filled.push_str(&other.to_string()),
            },
        }
    }
    Some(filled)
}

/// A part of an argument.
enum ArgPart<'a> {
    Text(String),
    Field(&'a str),
}

/// Splits an argument into parts. `Err` describes a brace error.
fn parse_parts(argument: &str) -> Result<Vec<ArgPart<'_>>, &'static str> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = argument;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, brace) = rest.split_at(at);
        text.push_str(before);
        if let Some(after) = brace.strip_prefix("{{").or_else(|| brace.strip_prefix("}}")) {
            text.push_str(brace.get(..1).unwrap_or_default());
            rest = after;
            continue;
        }
        let inside =
            brace.strip_prefix('{').ok_or("has a '}' without '{'; write '}}' for a literal brace")?;
        let (field, after) =
            inside.split_once('}').ok_or("has a '{' without '}'; write '{{' for a literal brace")?;
        if !text.is_empty() {
            parts.push(ArgPart::Text(std::mem::take(&mut text)));
        }
        parts.push(ArgPart::Field(field));
        rest = after;
    }
    text.push_str(rest);
    if !text.is_empty() || parts.is_empty() {
        parts.push(ArgPart::Text(text));
    }
    Ok(parts)
}
