//! From the table of keys to types: [`keys!`] makes a struct of each table of an experiment file, an enum of each list of
//! words, and the rows that parsing and documents read.

use super::value::Kind;

/// What a key must meet to have an effect: another key with, or without, one of these values.
#[derive(Debug)]
pub struct Needs<S> {
    /// Table of the other key.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Whether it must have one of the values; else it must have another one.
    pub is: bool,
    /// The values, as texts.
    pub values: fn() -> Vec<String>,
    /// Whether these settings meet it.
    pub met: fn(&S) -> bool,
}

/// A key of an experiment file; `S` holds a value of every key.
#[derive(Debug)]
pub struct Row<S> {
    /// The table it stands in; empty for the top.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it holds, with its limits.
    pub kind: Kind,
    /// Its value where the file has none; None where the file must have one.
    pub default: Option<&'static str>,
    /// Whether it may hold a list.
    pub factor: bool,
    /// Where it has an effect; None: everywhere.
    pub needs: Option<Needs<S>>,
    /// What it means.
    pub about: &'static str,
    /// Whether a text is a value of it, within its limits.
    pub takes: fn(&str) -> bool,
    /// Whether a text, which is a value of it, names a file.
    pub is_file: fn(&str) -> bool,
    /// Its value in some settings, as a text.
    pub text: fn(&S) -> String,
    /// The same in its base unit: packets a second, ns, bytes, or the number itself; 0 for texts.
    pub number: fn(&S) -> u64,
}

impl<S> Row<S> {
    /// Its name with its table: "traffic.rate".
    pub fn full_name(&self) -> String {
        full_name(self.table, self.name)
    }

    /// Whether a file without it is wrong, whatever else is in it.
    pub fn is_required(&self) -> bool {
        self.default.is_none() && self.needs.is_none()
    }

    /// Whether it has an effect in these settings.
    pub fn applies(&self, settings: &S) -> bool {
        self.needs.as_ref().is_none_or(|needs| (needs.met)(settings))
    }
}

impl<S> Needs<S> {
    /// The other key's name with its table.
    pub fn full_name(&self) -> String {
        full_name(self.table, self.name)
    }
}

fn full_name(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}

/// Makes `Settings`, its structs and enums, and `KEYS` of the table of keys. A row is
///
/// ```text
/// /// What it means.
/// "toml-name" field: one TYPE = "default";
/// "toml-name" field: list TYPE(1..=64) = required, only where dut.kind is [DutKind::Skeleton];
/// "toml-name" field: list NewEnum { First = "first", Second = "second" } = "first", only where dut.switch not [Switch::None];
/// ```
///
/// `list`: it may hold a list, and is a factor then. `required`: there is no default; with a condition, the key must be there
/// where it has an effect. The comment is the text in the documentation, too.
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

        /// Every key there is. The order is that of the trials: the last factor changes fastest.
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
        /// A value of every key of an experiment.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Settings {
            $($(#[doc = $about])+ pub $top: $Top,)+
            $(#[doc = concat!("Table `", stringify!($table), "`.")] pub $table: $Table,)+
        }

        impl Settings {
            /// Reads a text for each of [`KEYS`], in their order; None where one is not a value of its key.
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
            /// As files write it.
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
