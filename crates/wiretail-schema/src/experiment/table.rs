//! The macro [`keys!`] generates types from the table of keys: a struct for each table of an experiment file,
//! an enum for each list of words, and the rows used by the parser and the documentation.

use super::value::Kind;

/// Condition for a key to have an effect: another key has, or does not have, one of these values.
#[derive(Debug)]
pub struct Needs<S> {
    /// Table of the other key.
    pub table: &'static str,
    /// Name of the other key.
    pub name: &'static str,
    /// Whether the other key must have one of the values. If false, it must have none of them.
    pub is: bool,
    /// The values, as texts.
    pub values: fn() -> Vec<String>,
    /// Returns whether the settings meet the condition.
    pub met: fn(&S) -> bool,
}

/// A key of an experiment file; `S` holds a value for every key.
#[derive(Debug)]
pub struct Row<S> {
    /// Table of the key; empty for the top level.
    pub table: &'static str,
    /// Name of the key.
    pub name: &'static str,
    /// Kind of value, with its limits.
    pub kind: Kind,
    /// Default value; `None` if the key is required.
    pub default: Option<&'static str>,
    /// Whether the key may hold a list.
    pub factor: bool,
    /// Condition for the key to have an effect; `None` if it always has one.
    pub needs: Option<Needs<S>>,
    /// Description of the key.
    pub about: &'static str,
    /// Returns whether a text is a valid value of the key.
    pub takes: fn(&str) -> bool,
    /// Returns whether a valid text names a file.
    pub is_file: fn(&str) -> bool,
    /// Returns the value of the key in the given settings, as text.
    pub text: fn(&S) -> String,
    /// Returns the value of the key in the given settings, in its base unit: packets per second, ns, bytes, or
    /// the plain number; 0 for texts.
    pub number: fn(&S) -> u64,
}

impl<S> Row<S> {
    /// Returns the name with its table: "traffic.rate".
    pub fn full_name(&self) -> String {
        full_name(self.table, self.name)
    }

    /// Returns whether every file must contain the key.
    pub fn is_required(&self) -> bool {
        self.default.is_none() && self.needs.is_none()
    }

    /// Returns whether the key has an effect in these settings.
    pub fn applies(&self, settings: &S) -> bool {
        self.needs.as_ref().is_none_or(|needs| (needs.met)(settings))
    }
}

impl<S> Needs<S> {
    /// Returns the other key's name with its table.
    pub fn full_name(&self) -> String {
        full_name(self.table, self.name)
    }
}

fn full_name(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}

/// Generates `Settings`, its structs and enums, and `KEYS` from the table of keys. Syntax of a row:
///
/// ```text
/// /// Description of the key.
/// "toml-name" field: one TYPE = "default";
/// "toml-name" field: list TYPE(1..=64) = required, only where dut.kind is [DutKind::Skeleton];
/// "toml-name" field: list NewEnum { First = "first", Second = "second" } = "first",
///     only where dut.switch not [Switch::None];
/// ```
///
/// `list`: the key may hold a list, which makes it a factor. `required`: the key has no default; with a condition, it
/// is required only if it has an effect. The doc comment is also the text in the documentation and in the JSON
/// Schema.
macro_rules! keys {
    (
        top { $($top:tt)+ }
        $(
            table $table:ident: $Table:ident {
                $(
                    $(#[doc = $about:literal])+
                    $name:literal $field:ident: $arity:ident $Type:ident $(($limits:expr))? $({ $($variants:tt)+ })?
                        = $default:tt $(, only where $of_table:ident.$of_field:ident $is:ident [$($value:expr),+])?;
                )+
            }
        )+
    ) => {
        keys! { @settings { $($top)+ } $($table: $Table { $($field: $Type,)+ })+ }

        $(
            #[doc = concat!("Table `", stringify!($table), "` of an experiment file.")]
            #[derive(Debug, Clone, PartialEq)]
            pub struct $Table {
                $(
                    $(#[doc = $about])+
                    pub $field: $Type,
                )+
            }

            $($(keys! { @choice concat!("Values of `", stringify!($table), ".", $name, "`."), $Type { $($variants)+ } })?)+
        )+

        /// All keys, in the order of the trials: the last factor changes fastest.
        pub const KEYS: &[KeyRow] = keys! {
            @rows [] { $($top)+ } $($(
                stringify!($table), $name, ($table.$field), $arity $Type [$($limits)?] $default,
                [$(Some($crate::experiment::table::Needs {
                    table: stringify!($of_table),
                    name: stringify!($of_field),
                    is: keys!(@is $is),
                    values: || vec![$($crate::experiment::value::Value::text(&$value)),+],
                    met: |settings| [$($value),+].contains(&settings.$of_table.$of_field) == keys!(@is $is),
                }))?],
                ($($about),+);
            )+)+
        };
    };
    (@settings
        { $($(#[doc = $about:literal])+ $name:literal $top:ident: $arity:ident $Top:ident = required;)+ }
        $($table:ident: $Table:ident { $($field:ident: $Type:ident,)+ })+
    ) => {
        /// Values of all keys of an experiment.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Settings {
            $($(#[doc = $about])+ pub $top: $Top,)+
            $(#[doc = concat!("Table `", stringify!($table), "`.")] pub $table: $Table,)+
        }

        impl Settings {
            /// Parses one text for each of [`KEYS`], in their order; `None` if a text is not a value of its
            /// key.
            pub(super) fn read<'a>(mut texts: impl Iterator<Item = &'a str>) -> Option<Self> {
                Some(Self {
                    $($top: <$Top as $crate::experiment::value::Value>::parse(texts.next()?)?,)+
                    $($table: $Table {
                        $($field: <$Type as $crate::experiment::value::Value>::parse(texts.next()?)?,)+
                    },)+
                })
            }
        }
    };
    (@choice $about:expr, $Type:ident { $($Variant:ident = $word:literal),+ $(,)? }) => {
        #[doc = $about]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $Type {
            $(#[doc = concat!("`\"", $word, "\"`")] $Variant,)+
        }

        impl $Type {
            /// Returns the name used in experiment files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$Variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        $crate::experiment::value::choice_value!($Type { $($Variant = $word),+ });
    };
    (@rows []
        { $($(#[doc = $top_about:literal])+ $top_name:literal $top:ident: $top_arity:ident $Top:ident = required;)+ }
        $(
            $table:expr, $name:literal, ($($path:tt)+), $arity:ident $Type:ident [$($limits:expr)?] $default:tt,
            [$($needs:expr)?], ($($about:literal),+);
        )+
    ) => {
        &[
            $(keys!(@row "", $top_name, ($top), $top_arity $Top [] required, [], ($($top_about),+)),)+
            $(keys!(@row $table, $name, ($($path)+), $arity $Type [$($limits)?] $default, [$($needs)?], ($($about),+)),)+
        ]
    };
    (@row $table:expr, $name:literal, ($($path:tt)+), $arity:ident $Type:ident [$($limits:expr)?] $default:tt, [$($needs:expr)?],
        ($($about:literal),+)
    ) => {{
        use $crate::experiment::value::{Kind, Value};

        const KIND: Kind = <$Type as Value>::KIND$(.within($limits))?;
        $crate::experiment::table::Row {
            table: $table,
            name: $name,
            kind: KIND,
            default: keys!(@default $default),
            factor: keys!(@is_factor $arity),
            needs: keys!(@option [$($needs)?]),
            about: concat!($($about),+).trim_ascii_start(),
            takes: |text| $crate::experiment::value::takes::<$Type>(KIND, text),
            is_file: |text| <$Type as Value>::parse(text).is_some_and(|value| value.is_file()),
            text: |settings| Value::text(&settings.$($path)+),
            number: |settings| Value::number(&settings.$($path)+),
        }
    }};
    (@default required) => { None };
    (@default $default:literal) => { Some($default) };
    (@is_factor list) => { true };
    (@is_factor one) => { false };
    (@is is) => { true };
    (@is not) => { false };
    (@option []) => { None };
    (@option [$value:expr]) => { $value };
}
pub(super) use keys;
