//! Which events are known, and how a record of one becomes an [`Event`].

use std::collections::HashMap;

use wiretail_schema::causes::trace::{EventFormat, TraceInfo};

use super::format::{Field, Format};
use super::{Event, Kind};

/// Most addresses of a stack that are kept; the kernel keeps fewer.
const STACK_MAX: usize = 128;

/// What an event's name is.
enum NameOf {
    /// It has none.
    Nothing,
    /// The text in this field.
    Field(&'static str),
    /// That of the first argument, from the event's own list of names.
    First,
}

/// An event that is known: its kind, and the fields that are its arguments.
type Known = (&'static str, &'static str, Kind, &'static [&'static str], NameOf);

/// All but those of `irq_vectors`, which are known by their last word.
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

/// Texts, stacks and tasks, each kept once.
#[derive(Debug, Default)]
pub(super) struct Names {
    texts: Vec<String>,
    by_text: HashMap<Vec<u8>, u32>,
    stacks: Vec<Vec<u64>>,
    by_stack: HashMap<Vec<u64>, u32>,
    /// The name that a task had last.
    pub tasks: HashMap<i32, u32>,
}

impl Names {
    /// The number of a text; 0 for none.
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

    /// The text of a number.
    pub fn get(&self, number: u32) -> Option<&str> {
        self.texts.get((number as usize).checked_sub(1)?).map(String::as_str)
    }

    /// The stack of a number.
    pub fn get_stack(&self, number: u32) -> Option<&[u64]> {
        self.stacks.get((number as usize).checked_sub(1)?).map(Vec::as_slice)
    }
}

/// Where a number stands in a record.
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

    /// 0 where there is nothing. The sign of a shorter number is extended.
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

    /// What a `__data_loc` field points to.
    fn dynamic(self, record: &[u8]) -> &[u8] {
        let at = self.read(record) as usize;
        let (from, len) = (at & 0xffff, at >> 16 & 0xffff);
        record.get(from..from + len).unwrap_or_default()
    }
}

#[derive(Debug)]
enum Name {
    Fixed(u32),
    /// Up to the first NUL of the field.
    Chars(Place),
    Dynamic(Place),
    /// By the first argument.
    Listed(Vec<(u64, u32)>),
}

/// How records of an event are read.
#[derive(Debug)]
struct Plan {
    kind: Kind,
    /// Bytes of the shortest record that holds all fields.
    bytes_min: usize,
    pid: Place,
    args: [Place; 3],
    /// Whether the first argument is a bit mask behind a `__data_loc`.
    mask: bool,
    name: Name,
}

/// What became of a record.
pub(super) enum Decoded {
    /// An event.
    Event(Event),
    /// The stack of the event before.
    Stack(u32),
    /// An event of a number that is not known.
    Unknown,
    /// Too short for its event; at least so many bytes were expected.
    Short(usize),
}

/// How all records of a trace are read.
#[derive(Debug, Default)]
pub(super) struct Plans {
    /// By the event's number.
    plans: Vec<Option<Plan>>,
    /// The number of stacks, the place of their first address, and that of their process.
    stack: Option<(u16, usize)>,
}

impl Plans {
    /// From the formats of a trace. A known event whose format lacks a field is left out, and told.
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
                remarks.push(format!("{}: not understood, its events are passed over", what()));
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

    /// Reads a record.
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

/// The addresses of a stack up to its end, which some kernels mark by all ones.
fn addresses(record: &[u8], first: usize) -> Vec<u64> {
    let bytes = record.get(first..).unwrap_or_default();
    let words = bytes.chunks_exact(8).map(first_word);
    words.take_while(|address| *address != 0 && *address != u64::MAX).take(STACK_MAX).collect()
}

/// Little endian; fewer than 8 bytes are its lower ones.
fn first_word(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).enumerate().fold(0, |word, (number, byte)| word | u64::from(*byte) << (8 * number))
}

/// A mask as one number, the highest processor's bit first.
fn hexadecimal(mask: &[u8]) -> String {
    mask.iter().rev().map(|byte| format!("{byte:02x}")).collect()
}
