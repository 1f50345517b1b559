//! The kernel's `format` files, which contain the position of each field of an event.
//!
//! ```text
//!         field:unsigned int cpu; offset:8;       size:4; signed:0;
//! ```
//! (Documentation/trace/events.rst of the kernel, "Event formats".)

/// Position and type of a field in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name without an array suffix such as `[16]`.
    pub name: String,
    /// Offset from the record's start, in bytes.
    pub offset: usize,
    /// Size in bytes; unspecified for an array that extends to the end of the record.
    pub size: usize,
    /// Whether the value is sign-extended.
    pub signed: bool,
    /// Whether the field contains the position of its content (`__data_loc`). The upper 16 bits hold the
    /// content's length, the lower 16 bits its offset.
    pub dynamic: bool,
}

/// An event as described by its `format` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// Number of the event in each record.
    pub id: u16,
    /// All fields, the common ones first.
    pub fields: Vec<Field>,
}

impl Format {
    /// Parses a `format` file; returns a message about the first error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"));
        let id = id.and_then(|id| id.trim().parse().ok()).ok_or("a format without a line like ID: 372")?;
        let fields = text.lines().filter_map(|line| line.trim_start().strip_prefix("field:"));
        Ok(Self { id, fields: fields.map(field).collect::<Result<_, _>>()? })
    }

    /// Returns the names of an event's numeric values, from its `__print_symbolic(..., { 0, "HI" }, ...)`.
    pub fn symbolic(text: &str) -> Vec<(u64, String)> {
        let list = text.split_once("__print_symbolic(").map_or("", |(_, list)| list);
        let pair = |part: &str| {
            let (number, text) = part.split_once('}')?.0.split_once(',')?;
            Some((number.trim().parse().ok()?, text.trim().trim_matches('"').to_owned()))
        };
        list.split('{').skip(1).map_while(pair).collect()
    }

    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Layout of a page, from `events/header_page`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFormat {
    /// Offset and size of the field with the page's byte count and flags, in bytes.
    pub commit: (usize, usize),
    /// Offset of the first record.
    pub data: usize,
    /// Maximum number of bytes for records.
    pub data_bytes: usize,
}

impl PageFormat {
    /// Largest accepted page, in bytes. The kernel allows sub-buffers of up to 2¹⁶ pages of 4 KiB, but the
    /// page's byte count has only 20 bits.
    const PAGE_MAX: usize = 1 << 20;

    /// Parses `events/header_page`; returns a message about the first error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields = text.lines().filter_map(|line| line.trim_start().strip_prefix("field:"));
        let fields = fields.map(field).collect::<Result<Vec<_>, _>>()?;
        let find = |name: &str| {
            let found = fields.iter().find(|field| field.name == name);
            found.ok_or_else(|| format!("header_page has no field {name}"))
        };
        let (timestamp, commit, data) = (find("timestamp")?, find("commit")?, find("data")?);
        let page = Self { commit: (commit.offset, commit.size), data: data.offset, data_bytes: data.size };
        if (timestamp.offset, timestamp.size) != (0, 8) || !matches!(commit.size, 4 | 8) {
            return Err("header_page has an unsupported timestamp or count field".to_owned());
        }
        if commit.offset.saturating_add(commit.size) > data.offset || page.bytes() > Self::PAGE_MAX {
            return Err(format!("header_page describes a page of {} bytes", page.bytes()));
        }
        Ok(page)
    }

    /// Size of a whole page in bytes.
    pub fn bytes(&self) -> usize {
        self.data.saturating_add(self.data_bytes)
    }
}

/// Parses a field such as `unsigned int cpu;\toffset:8;\tsize:4;\tsigned:0;`.
fn field(text: &str) -> Result<Field, String> {
    let fault = || format!("an unsupported field: {:?}", text.trim());
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next().ok_or_else(fault)?;
    let mut number = |key: &str| -> Option<usize> {
        parts.next()?.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok()
    };
    let (offset, size) = (number("offset").ok_or_else(fault)?, number("size").ok_or_else(fault)?);
    let signed = number("signed").unwrap_or(0) == 1;
    // Records are far shorter than this.
    if offset > 1 << 16 || size > 1 << 24 {
        return Err(fault());
    }
    let dynamic = declaration.starts_with("__data_loc");
    let name = declaration.rsplit([' ', '*']).next().unwrap_or_default();
    let name = name.split('[').next().unwrap_or_default().to_owned();
    Ok(Field { name, offset, size, signed, dynamic })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_format() {
        let text = "name: irq_handler_entry\nID: 225\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;\n\
            \tfield:void * func;\toffset:16;\tsize:8;\tsigned:0;\n\
            \tfield:char prev_comm[16];\toffset:24;\tsize:16;\tsigned:0;\n\n\
            print fmt: \"irq=%d name=%s\", REC->irq, __get_str(name)\n";
        let format = Format::parse(text).expect("a format");
        assert_eq!(format.id, 225);
        let name = format.field("name").expect("a field");
        assert!(name.dynamic && name.offset == 12 && !name.signed);
        assert!(format.field("common_pid").expect("a field").signed);
        assert_eq!(format.field("func").expect("a field").size, 8);
        assert_eq!(format.field("prev_comm").expect("a field").size, 16);
        assert!(format.field("irq").is_none());
        assert!(Format::parse("name: x\n").is_err());
        assert!(Format::parse("ID: 1\n\tfield:int a;\toffset:x;\n").is_err());
    }

    #[test]
    fn parses_symbolic_names() {
        let text =
            r#"print fmt: "vec=%u", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" })"#;
        assert_eq!(Format::symbolic(text), [(0, "HI".to_owned()), (1, "TIMER".to_owned())]);
        assert!(Format::symbolic("print fmt: \"{ 0 }\"").is_empty());
    }

    #[test]
    fn parses_a_page_layout() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        let page = PageFormat::parse(text).expect("a page");
        assert_eq!(page, PageFormat { commit: (8, 8), data: 16, data_bytes: 4080 });
        assert!(PageFormat::parse(&text.replace("4080", "99999999")).is_err());
        assert!(PageFormat::parse(&text.replace("offset:16", "offset:2")).is_err());
        assert!(PageFormat::parse("").is_err());
    }
}
