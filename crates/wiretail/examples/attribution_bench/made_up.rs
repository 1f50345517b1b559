//! A synthetic trial: a server on core 1 with interruptions, the kernel trace of it, and the delayed packets.

use wiretail_analysis::causes::attribution::PacketTime;
use wiretail_schema::causes::trace::{Gap, ROLES_SCHEMA, Spin, TraceInfo, TraceRoles};
use wiretail_schema::random::Random;

use super::test_support::{
    CALL_ENTRY, CALL_EXIT, FUNCTION_ENTRY, FUNCTION_EXIT, Pages, QUEUE, SOFTIRQ, SOFTIRQ_EXIT, STACK, SWITCH,
    TIMER_ENTRY, TIMER_EXIT, info,
};

/// Thread ids: the device, the calibration loop, an interfering thread, and the load generator.
const DEVICE: i32 = 100;
const SPIN: i32 = 101;
const HOG: i32 = 102;
const FEEDER: i32 = 103;
/// Address of the function that flushes the TLB, in the document of `test_support`.
const FLUSH: u64 = 0x1000;
const MUNMAP: u64 = 0x3000;

/// Length of a slot in ns. The trace consists of slots with ten events each.
const SLOT_NS: u64 = 40_000;
/// Number of slots before the first packet, in which a loop reads the clock.
const SPUN: u64 = 2000;
/// Overhead of an interrupt before its first tracepoint, in ns.
const HEAD_NS: u64 = 1_000;
/// Service time of a packet, in ns.
const SERVICE_NS: u64 = 1_500;
const HOG_NS: u64 = 300_000;

/// Results of a trial, in memory instead of files.
pub struct Trial {
    pub info: TraceInfo,
    /// Trace pages, in the order of the document's streams.
    pub pages: [Vec<u8>; 2],
    pub roles: TraceRoles,
    /// Packets in order of time; the offset between the clocks is 0.
    pub packets: Vec<PacketTime>,
}

/// State of both cores during the synthesis.
struct Cores {
    device: Pages,
    sends: Pages,
    /// Gaps during which the device's core did something else.
    away: Vec<Gap>,
    random: Random,
    events: u64,
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Cores {
    fn on_device(&mut self, at_ns: u64, id: u16, pid: i32, rest: &[u8]) {
        self.device.event(at_ns, id, pid, rest);
        self.events += 1;
    }

    fn on_feeder(&mut self, at_ns: u64, id: u16, pid: i32, rest: &[u8]) {
        self.sends.event(at_ns, id, pid, rest);
        self.events += 1;
    }

    fn softirq(&mut self, at_ns: u64, pid: i32) {
        self.on_device(at_ns, SOFTIRQ, pid, &3_u32.to_le_bytes());
        self.on_device(at_ns + 800, SOFTIRQ_EXIT, pid, &3_u32.to_le_bytes());
        self.away.push(Gap { from_ns: at_ns, to_ns: at_ns + 800 });
    }

    fn timer(&mut self, at_ns: u64, pid: i32) {
        self.on_device(at_ns, TIMER_ENTRY, pid, &236_u32.to_le_bytes());
        self.on_device(at_ns + 1500, TIMER_EXIT, pid, &236_u32.to_le_bytes());
        self.away.push(Gap { from_ns: at_ns - HEAD_NS, to_ns: at_ns + 1500 });
    }

    /// Adds a TLB shootdown: one in 250 takes long, and half of the senders have a stack.
    fn shootdown(&mut self, slot: u64, at_ns: u64, pid: i32) {
        let length_ns = if self.random.below(250) == 0 { 2_000 + self.random.below(13_000) } else { 1200 };
        let sender = 200 + self.random.below(3000) as i32;
        self.on_feeder(at_ns - 2000, QUEUE, sender, &words(&[1, 0x2004, FLUSH, 5]));
        if slot.is_multiple_of(2) {
            let stack = [2, MUNMAP + 8, 0x100_000 + self.random.below(2000)];
            self.sends.event(at_ns - 1999, STACK, sender, &words(&stack));
        }
        self.on_device(at_ns, CALL_ENTRY, pid, &251_u32.to_le_bytes());
        self.on_device(at_ns + 200, FUNCTION_ENTRY, pid, &words(&[FLUSH, 5]));
        self.on_device(at_ns + length_ns - 100, FUNCTION_EXIT, pid, &words(&[FLUSH, 5]));
        self.on_device(at_ns + length_ns, CALL_EXIT, pid, &251_u32.to_le_bytes());
        self.away.push(Gap { from_ns: at_ns - HEAD_NS, to_ns: at_ns + length_ns });
    }

    fn switch(at: impl FnOnce(&[u8]), next: (&str, i32), state: u64) {
        let mut record = vec![0; 56];
        record[24..32].copy_from_slice(&state.to_le_bytes());
        record[32..32 + next.0.len()].copy_from_slice(next.0.as_bytes());
        record[48..52].copy_from_slice(&next.1.to_le_bytes());
        record[52..].copy_from_slice(&40_u32.to_le_bytes());
        at(&record);
    }

    fn hog(&mut self, at_ns: u64) {
        let to_ns = at_ns + HOG_NS;
        Self::switch(|record| self.on_device(at_ns, SWITCH, DEVICE, record), ("hog", HOG), 0);
        Self::switch(|record| self.on_device(to_ns, SWITCH, HOG, record), ("device", DEVICE), 1);
        self.away.push(Gap { from_ns: at_ns, to_ns });
    }

    /// Adds the work of the sending core: a softirq for the packets, and an occasional sleep.
    fn feeding(&mut self, slot: u64, at_ns: u64) {
        self.on_feeder(at_ns + 1000, SOFTIRQ, FEEDER, &3_u32.to_le_bytes());
        self.on_feeder(at_ns + 3000, SOFTIRQ_EXIT, FEEDER, &3_u32.to_le_bytes());
        if slot.is_multiple_of(4) {
            Self::switch(|record| self.on_feeder(at_ns + 4000, SWITCH, FEEDER, record), ("idle", 0), 1);
            Self::switch(|record| self.on_feeder(at_ns + 5000, SWITCH, 0, record), ("feeder", FEEDER), 0);
        }
    }
}

impl Trial {
    /// Synthesizes a trial with about `events` events and `packets` packets.
    pub fn new(events: u64, packets: u64) -> Self {
        let random = Random::new(0x5eed);
        let mut cores =
            Cores { device: Pages::default(), sends: Pages::default(), away: Vec::new(), random, events: 0 };
        let (mut slot, mut free_from_ns) = (1, 0);
        while cores.events < events {
            let at_ns = slot * SLOT_NS;
            let pid = if slot <= SPUN { SPIN } else { DEVICE };
            cores.feeding(slot, at_ns);
            if at_ns >= free_from_ns {
                cores.softirq(at_ns + 5_000, pid);
                if slot.is_multiple_of(4) {
                    cores.timer(at_ns + 12_000, pid);
                }
                cores.shootdown(slot, at_ns + 20_000, pid);
                if slot > SPUN && cores.random.below(20_000) == 0 {
                    cores.hog(at_ns + 38_000);
                    free_from_ns = at_ns + 38_000 + HOG_NS;
                }
            }
            slot += 1;
        }
        let from_ns = (SPUN + 1) * SLOT_NS;
        let end_ns = slot * SLOT_NS;
        let gaps = cores.away.iter().take_while(|gap| gap.to_ns < from_ns).copied().collect();
        let spun = Gap { from_ns: SLOT_NS, to_ns: from_ns };
        let spin = Spin {
            core: 1,
            thread: SPIN,
            span: spun,
            step_ns: 30,
            gaps,
            threshold_ns: 500,
            page_fault_ns: None,
        };
        let roles = TraceRoles {
            schema: ROLES_SCHEMA.to_owned(),
            core: 1,
            threads: vec![DEVICE],
            fifo: true,
            polls: true,
            batch: 1,
            feeding: Some(0),
            stalls: Vec::new(),
            logs_stalls: true,
            spin: Some(spin),
        };
        let packets = serve(packets, Gap { from_ns, to_ns: end_ns }, &cores.away, &mut cores.random);
        let pages = [cores.device.finish(), cores.sends.finish()];
        let mut info = info(&[(1, "cpu1.raw", pages[0].len()), (0, "cpu0.raw", pages[1].len())]);
        info.end_ns = end_ns;
        info.symbols.extend([(MUNMAP, "__x64_sys_munmap".to_owned()), (MUNMAP + 0x1000, "next".to_owned())]);
        Self { info, pages, roles, packets }
    }
}

/// Serves evenly spaced packets with some jitter, one after another, whenever the core is available.
fn serve(packets: u64, time: Gap, away: &[Gap], random: &mut Random) -> Vec<PacketTime> {
    let gap_ns = (time.to_ns - time.from_ns) / (packets + 2);
    let (mut left_ns, mut next) = (0, 0);
    let packet = |index: u64| {
        let in_ns = time.from_ns + index * gap_ns + random.below((gap_ns / 2).max(1));
        let (mut at_ns, mut work_ns) = (in_ns.max(left_ns), SERVICE_NS);
        while away.get(next).is_some_and(|gap| gap.to_ns <= at_ns) {
            next += 1;
        }
        for gap in &away[next..] {
            let free_ns = gap.from_ns.saturating_sub(at_ns);
            if free_ns >= work_ns {
                break;
            }
            work_ns -= free_ns;
            at_ns = gap.to_ns;
        }
        left_ns = at_ns + work_ns;
        PacketTime { index, in_ns: in_ns as i64, delay_ns: (left_ns - in_ns) as i64 }
    };
    (0..packets).map(packet).collect()
}
