//! Synthetic kernel traces for tests, fuzzing and the benchmark.

use wiretail_schema::causes::trace::{ClockOffset, EventFormat, TRACE_SCHEMA, TraceInfo, TraceStream};

/// Maximum number of record bytes in a page.
const DATA: usize = 4080;
/// Numbers of the events below.
pub const TIMER_ENTRY: u16 = 165;
pub const TIMER_EXIT: u16 = 164;
pub const SWITCH: u16 = 372;
pub const QUEUE: u16 = 529;
pub const MASK: u16 = 353;
pub const HANDLER: u16 = 225;
pub const SOFTIRQ: u16 = 223;
pub const SOFTIRQ_EXIT: u16 = 222;
pub const CALL_ENTRY: u16 = 155;
pub const CALL_EXIT: u16 = 154;
pub const FUNCTION_ENTRY: u16 = 528;
pub const FUNCTION_EXIT: u16 = 527;
pub const STACK: u16 = 4;

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

/// Declaration, offset, size, signed.
type FieldOf = (&'static str, usize, usize, u8);

const EVENTS: &[(u16, &str, &str, &[FieldOf])] = &[
    (TIMER_ENTRY, "irq_vectors", "local_timer_entry", &[("int vector", 8, 4, 1)]),
    (TIMER_EXIT, "irq_vectors", "local_timer_exit", &[("int vector", 8, 4, 1)]),
    (
        SWITCH,
        "sched",
        "sched_switch",
        &[
            ("char prev_comm[16]", 8, 16, 0),
            ("pid_t prev_pid", 24, 4, 1),
            ("int prev_prio", 28, 4, 1),
            ("long prev_state", 32, 8, 1),
            ("char next_comm[16]", 40, 16, 0),
            ("pid_t next_pid", 56, 4, 1),
            ("int next_prio", 60, 4, 1),
        ],
    ),
    (
        QUEUE,
        "csd",
        "csd_queue_cpu",
        &[
            ("unsigned int cpu", 8, 4, 0),
            ("void * callsite", 16, 8, 0),
            ("void * func", 24, 8, 0),
            ("void * csd", 32, 8, 0),
        ],
    ),
    (
        MASK,
        "ipi",
        "ipi_send_cpumask",
        &[
            ("__data_loc cpumask_t cpumask", 8, 4, 0),
            ("void * callsite", 16, 8, 0),
            ("void * callback", 24, 8, 0),
        ],
    ),
    (HANDLER, "irq", "irq_handler_entry", &[("int irq", 8, 4, 1), ("__data_loc char[] name", 12, 4, 0)]),
    (SOFTIRQ, "irq", "softirq_entry", &[("unsigned int vec", 8, 4, 0)]),
    (SOFTIRQ_EXIT, "irq", "softirq_exit", &[("unsigned int vec", 8, 4, 0)]),
    (CALL_ENTRY, "irq_vectors", "call_function_single_entry", &[("int vector", 8, 4, 1)]),
    (CALL_EXIT, "irq_vectors", "call_function_single_exit", &[("int vector", 8, 4, 1)]),
    (FUNCTION_ENTRY, "csd", "csd_function_entry", &[("void * func", 8, 8, 0), ("void * csd", 16, 8, 0)]),
    (FUNCTION_EXIT, "csd", "csd_function_exit", &[("void * func", 8, 8, 0), ("void * csd", 16, 8, 0)]),
    (STACK, "ftrace", "kernel_stack", &[("int size", 8, 4, 1), ("unsigned long caller[8]", 16, 64, 0)]),
];

/// The document of a trace with these files, each given by its processor, name and length.
pub fn info(streams: &[(u32, &str, usize)]) -> TraceInfo {
    let format = |(id, system, name, fields): &(u16, &str, &str, &[FieldOf])| {
        let lines = fields.iter().map(|(declaration, offset, size, signed)| {
            format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
        });
        let names = "__print_symbolic(REC->vec, { 0, \"HI\" }, { 3, \"NET_RX\" })";
        let lines: String = lines.collect();
        let format = format!("name: {name}\nID: {id}\nformat:\n{COMMON}{lines}\nprint fmt: \"\", {names}\n");
        EventFormat { system: (*system).to_owned(), name: (*name).to_owned(), filter: None, format }
    };
    let stream = |(cpu, file, bytes): &(u32, &str, usize)| TraceStream {
        cpu: *cpu,
        file: (*file).to_owned(),
        bytes: *bytes as u64,
        overrun: 0,
        dropped: 0,
    };
    TraceInfo {
        schema: TRACE_SCHEMA.to_owned(),
        wiretail_version: "0".to_owned(),
        kernel: "6.18.0".to_owned(),
        machine: "x86_64".to_owned(),
        clock: "mono".to_owned(),
        start_ns: 500,
        end_ns: 1_000_000_000,
        clock_before: ClockOffset::default(),
        clock_after: ClockOffset::default(),
        clock_stepped: false,
        watched: vec![1],
        stacks: true,
        page_bytes: 16 + DATA as u32,
        header_page: "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n"
            .to_owned(),
        events: EVENTS.iter().map(format).collect(),
        remarks: Vec::new(),
        streams: streams.iter().map(stream).collect(),
        tasks: vec![(7, "sender".to_owned())],
        symbols: vec![(0x1000, "flush_tlb_func".to_owned()), (0x2000, "next".to_owned())],
    }
}

/// Builds the pages of one processor.
#[derive(Debug, Default)]
pub struct Pages {
    bytes: Vec<u8>,
    /// Records of the current page; the time of its first record and its flags follow.
    page: Vec<u8>,
    start_ns: u64,
    flags: u64,
    last_ns: u64,
}

impl Pages {
    /// Adds a record of an event; `rest` is its content after the task's number.
    pub fn event(&mut self, ts_ns: u64, id: u16, pid: i32, rest: &[u8]) {
        let mut record = id.to_le_bytes().to_vec();
        record.extend([0; 2]);
        record.extend(pid.to_le_bytes());
        record.extend(rest);
        record.resize(record.len().next_multiple_of(4), 0);
        if self.page.len() + record.len() + 16 > DATA {
            self.end_page();
        }
        if self.page.is_empty() {
            (self.start_ns, self.last_ns) = (ts_ns, ts_ns);
        }
        let mut delta = ts_ns - self.last_ns;
        self.last_ns = ts_ns;
        if delta >> 27 != 0 {
            let extend = (delta & ((1 << 27) - 1)) << 5 | 30;
            self.page.extend((extend as u32).to_le_bytes());
            self.page.extend(((delta >> 27) as u32).to_le_bytes());
            delta = 0;
        }
        let words = record.len() / 4;
        let kind = if words <= 28 { words as u32 } else { 0 };
        self.page.extend(((delta as u32) << 5 | kind).to_le_bytes());
        if kind == 0 {
            self.page.extend((record.len() as u32 + 4).to_le_bytes());
        }
        self.page.extend(record);
    }

    /// Ends the page, and marks this number of events as overwritten before the next page.
    pub fn lose(&mut self, events: u32) {
        self.end_page();
        self.flags = 3 << 30 | u64::from(events) << 32;
    }

    fn end_page(&mut self) {
        let (flags, lost) = (self.flags & 0xffff_ffff, self.flags >> 32);
        self.bytes.extend(self.start_ns.to_le_bytes());
        // Sign-extended, like the value that the kernel writes.
        let extended = i64::from(flags as u32 as i32) as u64;
        self.bytes.extend((extended | self.page.len() as u64).to_le_bytes());
        let mut page = std::mem::take(&mut self.page);
        if flags != 0 {
            page.extend(lost.to_le_bytes());
        }
        page.resize(DATA, 0);
        self.bytes.extend(page);
        self.flags = 0;
    }

    /// Returns all pages.
    pub fn finish(mut self) -> Vec<u8> {
        if !self.page.is_empty() {
            self.end_page();
        }
        self.bytes
    }
}

/// The pages of two processors with some events of every kind, a few µs apart.
pub fn sample() -> (TraceInfo, [Vec<u8>; 2]) {
    let (mut watched, mut sends) = (Pages::default(), Pages::default());
    let comm = |name: &str| {
        let mut comm = name.as_bytes().to_vec();
        comm.resize(16, 0);
        comm
    };
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    for round in 0..40_u64 {
        let ns = 1000 + 200_000_000 * round;
        watched.event(ns, TIMER_ENTRY, 9, &236_u32.to_le_bytes());
        watched.event(ns + 10, SOFTIRQ, 9, &3_u32.to_le_bytes());
        watched.event(ns + 500, TIMER_EXIT, 9, &236_u32.to_le_bytes());
        let mut switch = comm("worker");
        switch.extend(words(&[9 | 120 << 32, 1]));
        switch.extend(comm(if round % 2 == 0 { "other" } else { "third" }));
        switch.extend(words(&[(10 + round % 2) | 120 << 32]));
        watched.event(ns + 600, SWITCH, 9, &switch);
        let mut handler = words(&[36 | (16 | 8 << 16) << 32]);
        handler.extend(b"virtio0\0");
        watched.event(ns + 700, HANDLER, 9, &handler);
        watched.event(ns + 701, 9999, 9, &[1; 12]);
        sends.event(ns + 5, QUEUE, 7, &words(&[1, 0x2004, 0x1000, 5]));
        sends.event(ns + 6, STACK, 7, &words(&[3, 0x1008, 0x2010, 0x2020]));
        sends.event(ns + 7, MASK, 7, &words(&[32 | 16 << 16, 0x2004, 0x1000, 2, 1]));
        if round == 20 {
            sends.lose(17);
        }
    }
    let pages = [watched.finish(), sends.finish()];
    let streams = [(1, "cpu1.raw", pages[0].len()), (0, "cpu0.sends.raw", pages[1].len())];
    (info(&streams), pages)
}
