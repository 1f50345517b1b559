//! The kernel's `format` files: which field of an event stands where.
//!
//! ```text
//!         field:unsigned int cpu; offset:8;       size:4; signed:0;
//! ```
//! (Documentation/trace/events.rst of the kernel, "Event formats".)

/// Where a field stands in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Without `[16]`.
    pub name: String,
    /// From the record's start, in bytes.
    pub offset: usize,
    /// In bytes; of an array that ends with the record, any.
    pub size: usize,
    /// Whether to extend its sign.
    pub signed: bool,
    /// Whether the field holds where its content stands: `__data_loc`, the length in the upper 16 bits, the offset in
    /// the lower ones.
    pub dynamic: bool,
}

/// An event as its `format` file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// The number in each record.
    pub id: u16,
    /// Common ones first.
    pub fields: Vec<Field>,
}

impl Format {
    /// Parses a `format` file; a message with what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"));
        let id = id.and_then(|id| id.trim().parse().ok()).ok_or("a format without a line like ID: 372")?;
        let fields = text.lines().filter_map(|line| line.trim_start().strip_prefix("field:"));
        Ok(Self { id, fields: fields.map(field).collect::<Result<_, _>>()? })
    }

    /// The texts of the numbers that the event prints by name, from its `__print_symbolic(..., { 0, "HI" }, ...)`.
    pub fn symbolic(text: &str) -> Vec<(u64, String)> {
        let list = text.split_once("__print_symbolic(").map_or("", |(_, list)| list);
        let pair = |part: &str| {
            let (number, text) = part.split_once('}')?.0.split_once(',')?;
            Some((number.trim().parse().ok()?, text.trim().trim_matches('"').to_owned()))
        };
        list.split('{').skip(1).map_while(pair).collect()
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// What `events/header_page` says of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFormat {
    /// Where the count of the page's bytes and its flags stand, and how wide it is, in bytes.
    pub commit: (usize, usize),
    /// Where records start.
    pub data: usize,
    /// Most bytes of records.
    pub data_bytes: usize,
}

impl PageFormat {
    /// Largest page that is believed, in bytes: the kernel's sub-buffers are at most 2¹⁶ pages of 4 KiB, its count has 20
    /// bits.
    const PAGE_MAX: usize = 1 << 20;

    /// Parses `events/header_page`; a message with what is wrong.
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
            return Err("header_page has a time stamp or a count of an unknown kind".to_owned());
        }
        if commit.offset.saturating_add(commit.size) > data.offset || page.bytes() > Self::PAGE_MAX {
            return Err(format!("header_page says a page has {} bytes", page.bytes()));
        }
        Ok(page)
    }

    /// Of a whole page.
    pub fn bytes(&self) -> usize {
        self.data.saturating_add(self.data_bytes)
    }
}

/// `unsigned int cpu;\toffset:8;\tsize:4;\tsigned:0;`
fn field(text: &str) -> Result<Field, String> {
    let fault = || format!("a field that is not understood: {:?}", text.trim());
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next().ok_or_else(fault)?;
    let mut number = |key: &str| -> Option<usize> {
        parts.next()?.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok()
    };
    let (offset, size) = (number("offset").ok_or_else(fault)?, number("size").ok_or_else(fault)?);
    let signed = number("signed").unwrap_or(0) == 1;
    // A record ends long before this.
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
    fn a_format_is_read() {
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
    fn numbers_have_names() {
        let text =
            r#"print fmt: "vec=%u", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" })"#;
        assert_eq!(Format::symbolic(text), [(0, "HI".to_owned()), (1, "TIMER".to_owned())]);
        assert!(Format::symbolic("print fmt: \"{ 0 }\"").is_empty());
    }

    #[test]
    fn a_page_is_described() {
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
