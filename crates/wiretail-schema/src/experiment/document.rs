//! Documentation of [`KEYS`]: a Markdown table for readers and a JSON Schema for editors.

use serde_json::{Map, Value, json};

use super::keys::{KEYS, KeyRow};
use super::value::Kind;

/// Kinds of values with a unit: name, pattern, description.
///
/// The patterns check the notation as far as a regular expression can. The parser checks the limits of a value
/// (a rate of at least 1 pps, a frame of at least 60 bytes). It also accepts some text that the patterns
/// reject, such as leading and trailing blanks.
const WRITTEN: [(&str, &str, &str); 4] = [
    (
        "rate",
        "^[0-9]+(\\.[0-9]+)? *[kM]?pps$",
        "Packets per second, with the unit pps, kpps or Mpps; for example 10 kpps.",
    ),
    (
        "duration",
        "^[0-9]+(\\.[0-9]+)? *(ns|us|µs|ms|s|min|h)$",
        "A duration, with the unit ns, us, ms, s, min or h; for example 1.5 s.",
    ),
    (
        "size",
        "^([0-9]+ *B|imix-csit|imix-trex|[0-9]+ *x *[0-9]+( *B)?(, *[0-9]+ *x *[0-9]+( *B)?)*)$",
        "Frame size without the frame check sequence, 60 to 9000 bytes, or a mix; for example 100 B, imix-csit or 7x60,4x566,1x1514.",
    ),
    ("percent", "^[0-9]+(\\.[0-9]+)? *%$", "A percentage of at most 100 %; for example 1 %."),
];

/// Returns the name of the definition for a kind with a unit; `None` for other kinds.
fn written(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Rate => Some("rate"),
        Kind::Duration => Some("duration"),
        Kind::Size => Some("size"),
        Kind::Percent => Some("percent"),
        Kind::Text | Kind::File | Kind::Bool | Kind::Choice(_) | Kind::Count(..) | Kind::Goals => None,
    }
}

/// Formats all keys as a Markdown table with one row per key, in the order of [`KEYS`].
pub fn key_table() -> String {
    let mut text =
        String::from("| key | value | default | list | only if | meaning |\n|---|---|---|---|---|---|\n");
    for row in KEYS {
        let default = match row.default {
            None if row.needs.is_some() => "**required in that case**".to_owned(),
            None => "**required**".to_owned(),
            Some("") => "none".to_owned(),
            Some(default) => format!("`{default}`"),
        };
        let list = if row.factor { "yes" } else { "" };
        let only = row.needs.as_ref().map_or_else(String::new, |needs| {
            format!("`{}` {} {}", needs.full_name(), is(needs.is), words(&(needs.values)(), " or "))
        });
        let name = row.full_name();
        text.push_str(&format!(
            "| `{name}` | {} | {default} | {list} | {only} | {} |\n",
            value(row),
            row.about
        ));
    }
    text
}

/// Describes the values of a key in words.
fn value(row: &KeyRow) -> String {
    match row.kind {
        Kind::Text => "text".to_owned(),
        Kind::File => "file".to_owned(),
        Kind::Goals => "goals".to_owned(),
        Kind::Bool => words(&["true", "false"], ", "),
        Kind::Choice(choices) => words(choices, ", "),
        Kind::Count(least, u64::MAX) => format!("number from {least}"),
        Kind::Count(least, most) => format!("number, {least} to {most}"),
        kind => written(kind).unwrap_or_default().to_owned(),
    }
}

fn is(is: bool) -> &'static str {
    if is { "is" } else { "is not" }
}

fn words(words: &[impl AsRef<str>], between: &str) -> String {
    words.iter().map(|word| format!("`{}`", word.as_ref())).collect::<Vec<_>>().join(between)
}

/// Returns the JSON Schema (2020-12) of an experiment file, with TOML tables read as JSON objects.
pub fn json_schema() -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for row in KEYS {
        if row.table.is_empty() {
            properties.insert(row.name.to_owned(), property(row));
        } else {
            let table = properties.entry(row.table).or_insert_with(|| table(row.table));
            table["properties"][row.name] = property(row);
        }
        let outermost = if row.table.is_empty() { row.name } else { row.table };
        if row.is_required() && !required.contains(&outermost) {
            required.push(outermost);
        }
    }
    let definition = |(name, pattern, about): &(&str, &str, &str)| {
        ((*name).to_owned(), json!({ "type": "string", "pattern": pattern, "description": about }))
    };
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Experiment",
        "description": "A Wiretail experiment file: TOML, read as JSON. A key that may hold a list is a factor: the trials are the cross product of all lists.",
        "type": "object",
        "required": required,
        "additionalProperties": false,
        "properties": properties,
        "$defs": WRITTEN.iter().map(definition).collect::<Map<_, _>>(),
    })
}

/// Returns the schema of a table without its keys.
fn table(name: &str) -> Value {
    let required = KEYS.iter().filter(|row| row.table == name && row.is_required());
    let required: Vec<&str> = required.map(|row| row.name).collect();
    let mut table = json!({ "type": "object", "additionalProperties": false, "properties": {} });
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    table
}

/// Returns the schema of one key.
fn property(row: &KeyRow) -> Value {
    let one = match row.kind {
        Kind::Text | Kind::File | Kind::Goals => json!({ "type": "string" }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Choice(choices) => json!({ "enum": choices }),
        Kind::Count(least, u64::MAX) => json!({ "type": "integer", "minimum": least }),
        Kind::Count(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        kind => json!({ "$ref": format!("#/$defs/{}", written(kind).unwrap_or_default()) }),
    };
    let mut property = match row.factor {
        true => json!({ "anyOf": [one, { "type": "array", "minItems": 1, "items": one }] }),
        false => one,
    };
    let only = row.needs.as_ref().map_or_else(String::new, |needs| {
        let (other, values) = (needs.full_name(), (needs.values)().join(" or "));
        format!(" Has an effect only if {other} {} {values}.", is(needs.is))
    });
    property["description"] = json!(format!("{}{only}", row.about));
    if let Some(default) = row.default {
        property["default"] = match row.kind {
            Kind::Count(..) => json!(default.parse::<u64>().unwrap_or_default()),
            Kind::Bool => json!(default == "true"),
            _ => json!(default),
        };
    }
    property
}
