//! Checks valid and invalid experiments against both the parser and the JSON Schema. Both must accept the
//! same files, so that an editor that uses the schema accepts only what the program accepts.

use std::fs;
use std::path::{Path, PathBuf};

use regex_lite::Regex;
use serde_json::{Map, Value, json};
use toml::de::{DeTable, DeValue};
use wiretail_schema::experiment::{Experiment, KEYS, json_schema};

/// Converts TOML to JSON, for the types that occur in experiments.
fn as_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => json!(text.as_ref()),
        DeValue::Integer(number) => {
            number.as_str().parse::<i64>().map_or(Value::Null, |number| json!(number))
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, |number| json!(number)),
        DeValue::Boolean(ground_truth) => json!(ground_truth),
        DeValue::Datetime(time) => json!(time.to_string()),
        DeValue::Array(list) => list.iter().map(|value| as_json(value.get_ref())).collect(),
        DeValue::Table(table) => table_as_json(table),
    }
}

fn table_as_json(table: &DeTable<'_>) -> Value {
    let entry = |(key, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &toml::Spanned<DeValue<'_>>)| {
        (key.get_ref().to_string(), as_json(value.get_ref()))
    };
    Value::Object(table.iter().map(entry).collect::<Map<_, _>>())
}

/// Returns the first violation of a schema by a value. Supports the keywords that our schema uses, and panics
/// on others.
fn fault(value: &Value, schema: &Value, root: &Value, at: &str) -> Option<String> {
    let object = schema.as_object().expect("a schema is an object");
    object.iter().find_map(|(keyword, rule)| match keyword.as_str() {
        "$schema" | "$defs" | "title" | "description" | "default" => None,
        "$ref" => {
            let name = rule.as_str().and_then(|name| name.strip_prefix('#')).expect("a local reference");
            fault(value, root.pointer(name).expect("a definition"), root, at)
        }
        "type" => {
            let fits = match rule.as_str() {
                Some("object") => value.is_object(),
                Some("array") => value.is_array(),
                Some("string") => value.is_string(),
                Some("boolean") => value.is_boolean(),
                Some("integer") => value.is_i64() || value.is_u64(),
                other => panic!("type {other:?}"),
            };
            (!fits).then(|| format!("{at}: {value} is not of type {rule}"))
        }
        "enum" => {
            let fits = rule.as_array().is_some_and(|choices| choices.contains(value));
            (!fits).then(|| format!("{at}: {value} is not one of {rule}"))
        }
        "pattern" => {
            let pattern = Regex::new(rule.as_str().expect("a pattern")).expect("a pattern that parses");
            let fits = value.as_str().is_none_or(|text| pattern.is_match(text));
            (!fits).then(|| format!("{at}: {value} does not match {rule}"))
        }
        "minimum" | "maximum" => {
            let (value, bound) = (value.as_f64()?, rule.as_f64()?);
            let fits = if keyword == "minimum" { value >= bound } else { value <= bound };
            (!fits).then(|| format!("{at}: {value} against {keyword} {bound}"))
        }
        "minItems" => {
            let (items, least) = (value.as_array()?.len() as u64, rule.as_u64()?);
            (items < least).then(|| format!("{at}: {items} items"))
        }
        "items" => value.as_array()?.iter().find_map(|item| fault(item, rule, root, at)),
        "anyOf" => {
            let faults = rule.as_array()?.iter().map(|schema| fault(value, schema, root, at));
            faults.collect::<Option<Vec<_>>>().map(|faults| faults.join("; "))
        }
        "required" => {
            let mut names = rule.as_array()?.iter().filter_map(Value::as_str);
            names.find(|name| value.get(name).is_none()).map(|name| format!("{at}: {name} is missing"))
        }
        "properties" => rule
            .as_object()?
            .iter()
            .find_map(|(name, schema)| fault(value.get(name)?, schema, root, &format!("{at}.{name}"))),
        "additionalProperties" => {
            let mut names = value.as_object()?.keys();
            let known = |name: &&String| schema["properties"].get(name.as_str()).is_some();
            names.find(|name| !known(name)).map(|name| format!("{at}: {name} is unknown"))
        }
        other => panic!("{other}: a keyword that this test does not support"),
    })
}

fn schema_fault(text: &str) -> Option<String> {
    let table = DeTable::parse(text).expect("TOML");
    let schema = json_schema();
    fault(&table_as_json(table.get_ref()), &schema, &schema, "experiment")
}

/// Collects the experiment files below a folder.
fn experiment_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("experiments").flatten() {
        let path = entry.path();
        if path.is_dir() {
            experiment_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
}

#[test]
fn shipped_experiments_parse() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut files = Vec::new();
    experiment_files(&folder, &mut files);
    assert!(files.len() >= 30, "{} experiments in {}", files.len(), folder.display());
    for path in files {
        let text = fs::read_to_string(&path).expect("a file");
        let experiment =
            Experiment::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(schema_fault(&text), None, "{}", path.display());
        assert_eq!(schema_fault(&experiment.to_toml()), None, "{}, resolved", path.display());
    }
}

const RIGHT: &str = "title = \"t\"\nseed = 1\n[dut]\nkind = \"skeleton\"\nbatch = 4\n[traffic]\nrate = \"1 kpps\"\nsize = \"100 B\"\n[trial]\nduration = \"2 s\"\nlate-share = \"1 %\"\nrepeats = 2\n[host]\nfifo = true\n";

#[test]
fn parser_and_schema_reject_invalid_experiments() {
    assert_eq!((Experiment::parse(RIGHT).err(), schema_fault(RIGHT)), (None, None));
    for (right, wrong) in [
        ("title = \"t\"", ""),
        ("seed = 1", "seed = -1"),
        ("seed = 1", "seed = [1, 2]"),
        ("seed = 1", "seed = 1.5"),
        ("seed = 1", "seed = 1\ncolour = \"red\""),
        ("kind = \"skeleton\"\nbatch = 4", ""),
        ("[dut]", "[dot]"),
        ("\"skeleton\"", "\"router\""),
        ("\"skeleton\"", "[\"skeleton\", \"router\"]"),
        ("\"skeleton\"", "[]"),
        ("batch = 4", "bach = 4"),
        ("batch = 4", "batch = 0"),
        ("batch = 4", "batch = 65"),
        ("batch = 4", "batch = true"),
        ("batch = 4", "batch = \"4\""),
        ("batch = 4", "ready = [\"a\", \"b\"]"),
        ("\"1 kpps\"", "1000"),
        ("\"1 kpps\"", "\"1000\""),
        ("\"1 kpps\"", "\"1 kbps\""),
        ("\"1 kpps\"", "[\"1 kpps\", \"fast\"]"),
        ("\"100 B\"", "\"100\""),
        ("\"100 B\"", "\"100 KB\""),
        ("\"100 B\"", "\"imix\""),
        ("\"100 B\"", "\"7x60,\""),
        ("\"2 s\"", "\"2\""),
        ("\"2 s\"", "\"2 days\""),
        ("\"2 s\"", "\"-2 s\""),
        ("\"1 %\"", "\"1\""),
        ("\"1 %\"", "0.01"),
        ("repeats = 2", "repeats = \"twice\""),
        ("repeats = 2", "retries = -1"),
        ("fifo = true", "fifo = \"yes\""),
        ("fifo = true", "fifo = [true, \"no\"]"),
        ("fifo = true", "fifo = 1"),
    ] {
        assert!(RIGHT.contains(right), "{right}");
        let text = RIGHT.replacen(right, wrong, 1);
        assert!(Experiment::parse(&text).is_err(), "the parser accepts {wrong}");
        assert!(schema_fault(&text).is_some(), "the schema accepts {wrong}");
    }
}

#[test]
fn parser_and_schema_accept_all_notations() {
    for (right, other) in [
        ("\"1 kpps\"", "[\"1pps\", \"0.5 Mpps\", \"1.5kpps\"]"),
        (
            "\"100 B\"",
            "[\"60B\", \"9000 B\", \"imix-csit\", \"imix-trex\", \"7x60,4x566,1x1514\", \"7 x 60 B, 1x1514B\"]",
        ),
        ("\"2 s\"", "[\"20 ns\", \"2us\", \"3 µs\", \"1.5ms\", \"10 min\", \"40 h\"]"),
        ("\"1 %\"", "\"0.25%\""),
        ("fifo = true", "fifo = [true, false]"),
        ("repeats = 2", "retries = 0"),
    ] {
        // The duration must be longer than the warm-up.
        let text = RIGHT.replacen(right, other, 1).replace("[trial]", "[trial]\nwarm-up = \"0 s\"");
        assert_eq!((Experiment::parse(&text).err(), schema_fault(&text)), (None, None), "{other}");
    }
}

#[test]
fn schema_contains_every_key() {
    let schema = json_schema();
    for row in KEYS {
        let place = match row.table {
            "" => format!("/properties/{}", row.name),
            table => format!("/properties/{table}/properties/{}", row.name),
        };
        assert!(schema.pointer(&place).is_some(), "{place}");
    }
}
