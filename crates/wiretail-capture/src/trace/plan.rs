//! The known events, and the conversion of their records to [`Event`]s.

use std::collections::HashMap;

use wiretail_schema::causes::trace::{EventFormat, TraceInfo};

use super::format::{Field, Format};
use super::{Event, Kind};

/// Maximum number of addresses kept per stack; the kernel records fewer.
const STACK_MAX: usize = 128;

/// Source of an event's name.
enum NameOf {
    /// The event has no name.
    Nothing,
    /// The text in this field.
    Field(&'static str),
    /// The name of the first argument, from the event's own list of names.
    First,
}

/// A known event: its kind, and the fields used as its arguments.
type Known = (&'static str, &'static str, Kind, &'static [&'static str], NameOf);

/// All known events except those of `irq_vectors`, which are recognized by the last word of their name.
const KNOWN: &[Known] = &[
    ("irq", "irq_handler_entry", Kind::IrqEntry, &["irq"], NameOf::Field("name")),
    ("irq", "irq_handler_exit", Kind::IrqExit, &["irq", "ret"], NameOf::Nothing),
    ("irq", "softirq_entry", Kind::SoftirqEntry, &["vec"], NameOf::First),
    ("irq", "softirq_exit", Kind::SoftirqExit, &["vec"], NameOf::First),
    (
        "sched",
        "sched_switch",
        Kind::Switch,
        &["next_pid", "prev_state", "next_prio"],
        NameOf::Field("next_comm"),
    ),
    ("csd", "csd_queue_cpu", Kind::CsdQueue, &["cpu", "func", "callsite"], NameOf::Nothing),
    ("csd", "csd_function_entry", Kind::CsdEntry, &["func"], NameOf::Nothing),
    ("csd", "csd_function_exit", Kind::CsdExit, &["func"], NameOf::Nothing),
    ("ipi", "ipi_send_cpu", Kind::IpiSend, &["cpu", "callback", "callsite"], NameOf::Nothing),
    ("ipi", "ipi_send_cpumask", Kind::IpiSendMask, &["cpumask", "callback", "callsite"], NameOf::Nothing),
    ("tlb", "tlb_flush", Kind::TlbFlush, &["reason", "pages"], NameOf::First),
    ("nmi", "nmi_handler", Kind::Nmi, &["handler", "delta_ns", "handled"], NameOf::Nothing),
    ("exceptions", "page_fault_user", Kind::PageFaultUser, &["address", "ip", "error_code"], NameOf::Nothing),
    (
        "exceptions",
        "page_fault_kernel",
        Kind::PageFaultKernel,
        &["address", "ip", "error_code"],
        NameOf::Nothing,
    ),
];

/// Texts, stacks and tasks, each stored once.
#[derive(Debug, Default)]
pub(super) struct Names {
    texts: Vec<String>,
    by_text: HashMap<Vec<u8>, u32>,
    stacks: Vec<Vec<u64>>,
    by_stack: HashMap<Vec<u64>, u32>,
    /// The last known name of each task.
    pub tasks: HashMap<i32, u32>,
}

impl Names {
    /// Returns the number assigned to a text; 0 for an empty text.
    pub fn text(&mut self, bytes: &[u8]) -> u32 {
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        if bytes.is_empty() {
            return 0;
        }
        if let Some(number) = self.by_text.get(bytes) {
            return *number;
        }
        self.texts.push(String::from_utf8_lossy(bytes).into_owned());
        let number = self.texts.len() as u32;
        self.by_text.insert(bytes.to_owned(), number);
        number
    }

    fn stack(&mut self, addresses: Vec<u64>) -> u32 {
        if addresses.is_empty() {
            return 0;
        }
        if let Some(number) = self.by_stack.get(&addresses) {
            return *number;
        }
        self.stacks.push(addresses.clone());
        let number = self.stacks.len() as u32;
        self.by_stack.insert(addresses, number);
        number
    }

    /// Returns the text with this number.
    pub fn get(&self, number: u32) -> Option<&str> {
        self.texts.get((number as usize).checked_sub(1)?).map(String::as_str)
    }

    /// Returns the stack with this number.
    pub fn get_stack(&self, number: u32) -> Option<&[u64]> {
        self.stacks.get((number as usize).checked_sub(1)?).map(Vec::as_slice)
    }
}

/// Position of a number in a record.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    offset: usize,
    size: usize,
    signed: bool,
}

impl Place {
    fn of(field: &Field) -> Self {
        Self { offset: field.offset, size: field.size, signed: field.signed }
    }

    /// Returns 0 beyond the record. Shorter signed numbers are sign-extended.
    #[inline]
    fn read(self, record: &[u8]) -> u64 {
        let Some(bytes) = record.get(self.offset..self.offset + self.size) else { return 0 };
        match (bytes, self.signed) {
            (&[a, b, c, d], false) => u32::from_le_bytes([a, b, c, d]).into(),
            (&[a, b, c, d], true) => i32::from_le_bytes([a, b, c, d]) as i64 as u64,
            (&[a, b, c, d, e, f, g, h], _) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            (&[a, b], false) => u16::from_le_bytes([a, b]).into(),
            (&[a, b], true) => i16::from_le_bytes([a, b]) as i64 as u64,
            (&[a], _) => a.into(),
            _ => 0,
        }
    }

    /// Returns the content that a `__data_loc` field points to.
    fn dynamic(self, record: &[u8]) -> &[u8] {
        let at = self.read(record) as usize;
        let (from, len) = (at & 0xffff, at >> 16 & 0xffff);
        record.get(from..from + len).unwrap_or_default()
    }
}

#[derive(Debug)]
enum Name {
    Fixed(u32),
    /// The field up to its first NUL.
    Chars(Place),
    Dynamic(Place),
    /// Selected by the first argument.
    Listed(Vec<(u64, u32)>),
}

/// Describes how records of an event are read.
#[derive(Debug)]
struct Plan {
    kind: Kind,
    /// Length of the shortest record that contains all fields.
    bytes_min: usize,
    pid: Place,
    args: [Place; 3],
    /// Whether the first argument is a bit mask in a `__data_loc` field.
    mask: bool,
    name: Name,
}

/// Result of decoding a record.
pub(super) enum Decoded {
    /// An event.
    Event(Event),
    /// The stack of the previous event.
    Stack(u32),
    /// An event with an unknown number.
    Unknown,
    /// The record is too short for its event; contains the minimum length.
    Short(usize),
}

/// Describes how all records of a trace are read.
#[derive(Debug, Default)]
pub(super) struct Plans {
    /// Plans indexed by event number.
    plans: Vec<Option<Plan>>,
    /// Event number of stacks, and the offset of their first address.
    stack: Option<(u16, usize)>,
}

impl Plans {
    /// Creates the plans from the formats of a trace. Known events whose format lacks a field are omitted,
    /// and a remark is returned for each.
    pub fn new(info: &TraceInfo, names: &mut Names) -> Result<(Self, Vec<String>), String> {
        let mut plans = Self::default();
        let mut remarks = Vec::new();
        for event in &info.events {
            let what = || format!("{}/{}", event.system, event.name);
            let format = Format::parse(&event.format).map_err(|fault| format!("{}: {fault}", what()))?;
            if event.name == "kernel_stack" {
                plans.stack = format.field("caller").map(|field| (format.id, field.offset));
                continue;
            }
            let Some(plan) = plan(event, &format, names) else {
                remarks.push(format!("{}: unsupported format; its events are skipped", what()));
                continue;
            };
            let id = usize::from(format.id);
            if plans.plans.len() <= id {
                plans.plans.resize_with(id + 1, || None);
            }
            plans.plans[id] = Some(plan);
        }
        Ok((plans, remarks))
    }

    #[inline]
    pub fn decode(&self, ts_ns: u64, cpu: u16, record: &[u8], names: &mut Names) -> Decoded {
        let &[low, high, ..] = record else { return Decoded::Short(2) };
        let id = u16::from_le_bytes([low, high]);
        let Some(Some(plan)) = self.plans.get(usize::from(id)) else {
            return match self.stack {
                Some((stack, first)) if stack == id => Decoded::Stack(names.stack(addresses(record, first))),
                _ => Decoded::Unknown,
            };
        };
        if record.len() < plan.bytes_min {
            return Decoded::Short(plan.bytes_min);
        }
        let [first, second, third] = plan.args;
        let mut args = [first.read(record), second.read(record), third.read(record)];
        let mut wide = 0;
        if plan.mask {
            let mask = first.dynamic(record);
            args[0] = first_word(mask);
            if mask.len() > 8 {
                wide = names.text(hexadecimal(mask).as_bytes());
            }
        }
        let name = match &plan.name {
            Name::Fixed(0) => wide,
            Name::Fixed(name) => *name,
            Name::Chars(place) => {
                let chars = record.get(place.offset..place.offset + place.size);
                names.text(chars.unwrap_or_default())
            }
            Name::Dynamic(place) => names.text(place.dynamic(record)),
            Name::Listed(list) => {
                list.iter().find(|(number, _)| *number == args[0]).map_or(0, |(_, name)| *name)
            }
        };
        let pid = plan.pid.read(record) as i32;
        if plan.kind == Kind::Switch {
            names.tasks.insert(args[0] as i32, name);
        }
        Decoded::Event(Event { ts_ns, args, pid, name, stack: 0, cpu, kind: plan.kind })
    }
}

fn plan(event: &EventFormat, format: &Format, names: &mut Names) -> Option<Plan> {
    let (kind, fields, name) = if event.system == "irq_vectors" {
        let (vector, kind) = match event.name.rsplit_once('_')? {
            (vector, "entry") => (vector, Kind::VectorEntry),
            (vector, "exit") => (vector, Kind::VectorExit),
            _ => return None,
        };
        (kind, &["vector"][..], Name::Fixed(names.text(vector.as_bytes())))
    } else {
        let known = KNOWN.iter().find(|known| (known.0, known.1) == (&*event.system, &*event.name))?;
        let name = match &known.4 {
            NameOf::Nothing => Name::Fixed(0),
            NameOf::Field(field) => match format.field(field)? {
                field if field.dynamic => Name::Dynamic(Place::of(field)),
                field => Name::Chars(Place::of(field)),
            },
            NameOf::First => {
                let list = Format::symbolic(&event.format);
                Name::Listed(
                    list.into_iter().map(|(number, text)| (number, names.text(text.as_bytes()))).collect(),
                )
            }
        };
        (known.2, known.3, name)
    };
    let pid = format.field("common_pid")?;
    let common_type = format.field("common_type")?;
    if (common_type.offset, common_type.size) != (0, 2) {
        return None;
    }
    let mut args = [Place::default(); 3];
    let mut bytes_min = pid.offset + pid.size;
    let mut mask = false;
    for (place, name) in args.iter_mut().zip(fields) {
        let field = format.field(name)?;
        mask |= field.dynamic;
        bytes_min = bytes_min.max(field.offset + field.size);
        *place = Place::of(field);
    }
    if let Name::Chars(place) | Name::Dynamic(place) = &name {
        bytes_min = bytes_min.max(place.offset + place.size);
    }
    Some(Plan { kind, bytes_min, pid: Place::of(pid), args, mask, name })
}

/// The addresses of a stack up to its end. Some kernels mark the end with an address whose bits are all ones.
fn addresses(record: &[u8], first: usize) -> Vec<u64> {
    let bytes = record.get(first..).unwrap_or_default();
    let words = bytes.chunks_exact(8).map(first_word);
    words.take_while(|address| *address != 0 && *address != u64::MAX).take(STACK_MAX).collect()
}

/// Reads a little-endian number of at most 8 bytes.
fn first_word(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).enumerate().fold(0, |word, (number, byte)| word | u64::from(*byte) << (8 * number))
}

/// Formats a mask as one hexadecimal number, with the bit of the highest processor first.
fn hexadecimal(mask: &[u8]) -> String {
    mask.iter().rev().map(|byte| format!("{byte:02x}")).collect()
}
