//! Tools that a workflow file declares: a program with its arguments, some of them filled in by the model.
//!
//! No shell is involved: a placeholder becomes a part of exactly one argument, whatever the value holds. A value that
//! would be read as an option by the program is refused unless it cannot be one.

use super::error::ToolError;
use super::risk::Risk;
use super::schema;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The longest name of a tool; what the model providers allow.
const NAME_CHARS: usize = 64;

/// A tool that runs a program.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandTool {
    /// Its name: letters, digits, `_` and `-`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments, of type `object`.
    #[serde(default = "no_arguments")]
    pub schema: Value,
    /// The program and its arguments. `{field}` is replaced by that argument of the call, `{{` and `}}` stand for
    /// braces. An element whose field is not in the call is left out.
    pub argv: Vec<String>,
    /// How dangerous it is; `None` = not known, which by default asks a person.
    pub risk: Option<Risk>,
}

/// The schema of a tool without arguments.
fn no_arguments() -> Value {
    serde_json::json!({"type": "object", "properties": {}})
}

impl CommandTool {
    /// Whether the declaration makes sense.
    ///
    /// # Errors
    /// With code `bad_tool`, if the name or the schema cannot be used, or a placeholder has no field.
    pub fn check(&self) -> Result<(), ToolError> {
        let bad = |why: String| {
            let what = format!("the tool '{}' cannot be used: {why}", self.name);
            Err(ToolError::new("bad_tool", what, "correct its declaration in the workflow file"))
        };
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.name.is_empty() || self.name.len() > NAME_CHARS || !self.name.chars().all(letter) {
            return bad(format!("its name is not 1 to {NAME_CHARS} letters, digits, '_' or '-'"));
        }
        if let Err(why) = schema::lint(&self.schema) {
            return bad(why);
        }
        let Some((program, arguments)) = self.argv.split_first().filter(|(program, _)| !program.is_empty())
        else {
            return bad("its argv names no program".to_owned());
        };
        if !matches!(parts(program).as_deref(), Ok([Part::Text(_)])) {
            return bad("its program is a placeholder; the model must not choose it".to_owned());
        }
        let properties = self.schema.get("properties").and_then(Value::as_object);
        for argument in arguments {
            for part in match parts(argument) {
                Ok(parts) => parts,
                Err(why) => return bad(format!("'{argument}' {why}")),
            } {
                if let Part::Field(field) = part
                    && properties.is_none_or(|properties| !properties.contains_key(field))
                {
                    return bad(format!(
                        "'{argument}' names the field '{field}', which is not in its schema"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The command line of a call whose arguments fit the schema.
    ///
    /// # Errors
    /// With code `looks_like_option`, if a value would be taken for an option.
    pub fn command(&self, args: &Value) -> Result<Vec<String>, ToolError> {
        let none = Map::new();
        let args = args.as_object().unwrap_or(&none);
        let mut command: Vec<String> = Vec::with_capacity(self.argv.len());
        let mut options_over = false;
        for (number, argument) in self.argv.iter().enumerate() {
            let Some(filled) = fill(argument, args) else { continue };
            let written = argument.starts_with('{') && !argument.starts_with("{{");
            if number > 0 && written && !options_over && filled.starts_with('-') && !is_number(&filled) {
                let what = format!(
                    "the value '{filled}' for '{argument}' of '{}' would be read as an option",
                    self.name
                );
                return Err(ToolError::new(
                    "looks_like_option",
                    what,
                    "send a value that does not begin with '-'",
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

/// An argument with its fields filled in; `None` if one of them is not in the call.
fn fill(argument: &str, args: &Map<String, Value>) -> Option<String> {
    let mut filled = String::new();
    for part in parts(argument).unwrap_or_default() {
        match part {
            Part::Text(text) => filled.push_str(&text),
            Part::Field(field) => match args.get(field).filter(|value| !value.is_null())? {
                Value::String(text) => filled.push_str(text),
                other => filled.push_str(&other.to_string()),
            },
        }
    }
    Some(filled)
}

/// A piece of an argument.
enum Part<'a> {
    Text(String),
    Field(&'a str),
}

/// Takes an argument apart. `Err` says what is wrong with its braces.
fn parts(argument: &str) -> Result<Vec<Part<'_>>, &'static str> {
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
            brace.strip_prefix('{').ok_or("has a '}' without '{'; write '}}' for the brace itself")?;
        let (field, after) =
            inside.split_once('}').ok_or("has a '{' without '}'; write '{{' for the brace itself")?;
        if !text.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut text)));
        }
        parts.push(Part::Field(field));
        rest = after;
    }
    text.push_str(rest);
    if !text.is_empty() || parts.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}
