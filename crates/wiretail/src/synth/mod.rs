//! Synthetic captures with known content, for `wiretail synth`.
//!
//! Writes the pair of pcap files that two taps around a device under test would record. Loss, duplicates,
//! reordering and delays are injected at random, and all injected events are counted exactly. Tests compare
//! an analysis with these counts, and benchmarks use captures of any length. Both files are written in one
//! pass, and only the packets in flight are kept in memory. The same seed gives the same bytes on every
//! machine, because the random part uses integers only.
//!
//! The frames are Ethernet, IPv4 and UDP to port 53. The payload starts with a 4-byte little-endian counter
//! and 0x55, as in MoonGen's MoonSniff. The device changes the last byte of the destination address, as an L2
//! forwarder that rewrites addresses does.

pub mod command;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, BufWriter, Write};

use serde::Serialize;
use wiretail_schema::random;

/// Options of the generator.
#[derive(Debug, Clone, PartialEq)]
pub struct SynthOptions {
    /// Number of packets to send. It is at most 2^32, so that the counter does not repeat.
    pub packets: u64,
    /// Offered load in packets per second, at most 100 million. Packets are evenly spaced except for a jitter
    /// of up to 1 µs or a quarter of the gap. Without this jitter, the ingress timestamps would have a coarse
    /// granularity.
    pub rate_pps: u64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Share of the packets that the device drops.
    pub loss: f64,
    /// Share of the arriving packets that the ingress tap records twice. The second copy is recorded while
    /// the packet is in flight.
    pub duplicate_pre: f64,
    /// Share of the arriving packets that the device sends twice.
    pub duplicate_post: f64,
    /// Share of the arriving packets that are delayed until up to eight later packets have overtaken them.
    pub reorder: f64,
    /// Delay model of the device.
    pub latency: LatencyModel,
    /// Number of flows, distinguished by source port, in round-robin order.
    pub flows: u16,
    /// Frame length in bytes without the frame check sequence, 60 to 1514.
    pub frame_len: usize,
    /// Time of the first packet in ns since 1970.
    pub start_ns: u64,
}

/// One-way delay of a device with one queue. It consists of a fixed part, a variable part with a skewed
/// distribution, and rare long stalls. As in real devices, a stall also delays the following packets.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyModel {
    /// Fixed part in ns, at least 2.
    pub base_ns: u64,
    /// Median of the variable part, in ns. The variable part lies between a quarter of this value and four
    /// times this value.
    pub body_ns: u64,
    /// Length of the shortest stall, in ns. Stalls last up to 128 times as long; each doubling of the length
    /// halves the probability.
    pub tail_ns: u64,
    /// Share of the packets that encounter a stall.
    pub tail_share: f64,
}

impl Default for SynthOptions {
    fn default() -> Self {
        Self {
            packets: 300_000,
            rate_pps: 10_000,
            seed: 1,
            loss: 0.0,
            duplicate_pre: 0.0,
            duplicate_post: 0.0,
            reorder: 0.0,
            latency: LatencyModel { base_ns: 3_000, body_ns: 1_000, tail_ns: 20_000, tail_share: 1e-4 },
            flows: 1,
            frame_len: 100,
            start_ns: 1_600_000_000_000_000_000,
        }
    }
}

/// Number of injected events, counted while the captures are written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct GroundTruth {
    /// Packets sent.
    pub packets: u64,
    /// Records in the ingress capture.
    pub pre_records: u64,
    /// Records in the egress capture.
    pub post_records: u64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that the device dropped.
    pub lost: u64,
    /// Longest run of dropped packets.
    pub longest_loss_run: u64,
    /// Second copies in the ingress capture.
    pub duplicates_pre: u64,
    /// Second copies in the egress capture.
    pub duplicates_post: u64,
    /// Packets that arrived after a packet sent later, not counting second copies (RFC 4737).
    pub reordered: u64,
    /// Packets that encountered a stall, not counting packets that only waited behind them.
    pub stalls: u64,
    /// Smallest delay in ns. This field and the next two exclude second copies.
    pub min_delay_ns: u64,
    /// Largest delay in ns.
    pub max_delay_ns: u64,
    /// Sum of all delays in ns.
    pub delay_ns_sum: u64,
    /// Largest number of packets in flight, including copies.
    pub in_flight_max: u64,
}

/// Writes both captures and returns their content.
///
/// # Errors
/// Returns `InvalidInput` if an option is out of range, or the error of a failed write.
pub fn synthesize(options: &SynthOptions, pre: impl Write, post: impl Write) -> io::Result<GroundTruth> {
    check(options)?;
    let mut device = Device::new(options);
    let mut pre = Tap::new(options, pre, DESTINATION_PRE)?;
    let mut post = Egress {
        tap: Tap::new(options, post, DESTINATION_POST)?,
        in_flight: BinaryHeap::new(),
        newest: None,
        ground_truth: GroundTruth {
            packets: options.packets,
            min_delay_ns: u64::MAX,
            ..GroundTruth::default()
        },
    };
    let mut loss_run = 0;
    for counter in 0..options.packets {
        let counter = counter as u32; // check() limits the number of packets
        let due_ns = options.start_ns + u64::from(counter) * 1_000_000_000 / options.rate_pps;
        let sent_ns = due_ns + device.jitter_ns();
        post.write_until(sent_ns)?;
        pre.write(counter, sent_ns)?;
        let Fate { arrival_ns, copied_ns, repeated_ns } = device.forward(sent_ns);
        if let Some(copied_ns) = copied_ns {
            pre.write(counter, copied_ns)?;
            post.ground_truth.duplicates_pre += 1;
        }
        if let Some(arrival_ns) = arrival_ns {
            post.send(Arrival { time_ns: arrival_ns, counter, copy: false, sent_ns });
            loss_run = 0;
        } else {
            loss_run += 1;
            post.ground_truth.longest_loss_run = post.ground_truth.longest_loss_run.max(loss_run);
        }
        if let Some(time_ns) = repeated_ns {
            post.send(Arrival { time_ns, counter, copy: true, sent_ns });
            post.ground_truth.duplicates_post += 1;
        }
    }
    post.write_until(u64::MAX)?;
    pre.file.flush()?;
    post.tap.file.flush()?;
    let mut ground_truth = post.ground_truth;
    ground_truth.pre_records = ground_truth.packets + ground_truth.duplicates_pre;
    ground_truth.post_records = ground_truth.arrived + ground_truth.duplicates_post;
    ground_truth.lost = ground_truth.packets - ground_truth.arrived;
    ground_truth.stalls = device.stalls;
    if ground_truth.arrived == 0 {
        ground_truth.min_delay_ns = 0;
    }
    Ok(ground_truth)
}

fn check(options: &SynthOptions) -> io::Result<()> {
    let latency = &options.latency;
    let shares =
        [options.loss, options.duplicate_pre, options.duplicate_post, options.reorder, latency.tail_share];
    let fault = if !(1..=1 << 32).contains(&options.packets) {
        "the number of packets must be 1 to 2^32: the 4-byte counter must not repeat"
    } else if !(1..=100_000_000).contains(&options.rate_pps) {
        "the rate must be 1 to 100 million packets per second"
    } else if shares.iter().any(|share| !(0.0..=1.0).contains(share)) {
        "loss, duplicates, reordering and stalls must be shares of the packets, 0 to 1"
    } else if !(60..=1514).contains(&options.frame_len) {
        "the frame length must be 60 to 1514 bytes"
    } else if !(1..=60_000).contains(&options.flows) {
        "the number of flows must be 1 to 60000: each has its own source port"
    } else if latency.base_ns < 2
        || latency.base_ns.max(latency.body_ns).max(latency.tail_ns) > 10_000_000_000
    {
        "delays must be at most 10 s, and the fixed part at least 2 ns"
    } else if options.start_ns > 4_000_000_000_000_000_000 {
        "the start must be before the year 2096: a pcap file counts seconds in 32 bits"
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, fault))
}

/// xoshiro256++ 1.0 by David Blackman and Sebastiano Vigna, "Scrambled Linear Pseudorandom Number
/// Generators", ACM TOMS 47(4), 2021; placed in the public domain.
struct Random([u64; 4]);

impl Random {
    /// Derives the state with SplitMix64, as the authors of xoshiro recommend.
    fn new(seed: u64) -> Self {
        let mut state = random::Random::new(seed);
        Self(std::array::from_fn(|_| state.bits()))
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }
}

/// A random event with a given probability.
#[derive(Clone, Copy)]
struct Chance {
    /// The probability scaled to 2^64, where 2^64 means "always".
    below: u128,
}

impl Chance {
    fn new(share: f64) -> Self {
        // The result is exact, because scaling by a power of two only changes the exponent.
        Self { below: (share * 2f64.powi(64)) as u128 }
    }

    fn happens(self, random: &mut Random) -> bool {
        self.below > 0 && u128::from(random.next()) < self.below
    }
}

/// Times of a packet after its departure.
struct Fate {
    /// Time of arrival, unless the packet is lost.
    arrival_ns: Option<u64>,
    /// Time of the second copy at the ingress tap.
    copied_ns: Option<u64>,
    /// Time of the second arrival.
    repeated_ns: Option<u64>,
}

/// Simulates the load generator's jitter and the device under test. The device forwards packets in order,
/// except for those that it delays.
struct Device {
    random: Random,
    latency: LatencyModel,
    loss: Chance,
    duplicate_pre: Chance,
    duplicate_post: Chance,
    reorder: Chance,
    stall: Chance,
    stalls: u64,
    /// Time between two departures, in ns.
    gap_ns: u64,
    /// Shortest time between two packets at egress, in ns.
    spacing_ns: u64,
    last_arrival_ns: u64,
}

impl Device {
    fn new(options: &SynthOptions) -> Self {
        let gap_ns = 1_000_000_000 / options.rate_pps;
        // Transmission time, at 10 Gbit/s, of the frame and its preamble, check sequence and gap (24 bytes
        // for these three). It is limited so that the queue does not grow without bound.
        let wire_ns = (options.frame_len as u64 + 24) * 8 / 10;
        Self {
            random: Random::new(options.seed),
            latency: options.latency.clone(),
            loss: Chance::new(options.loss),
            duplicate_pre: Chance::new(options.duplicate_pre),
            duplicate_post: Chance::new(options.duplicate_post),
            reorder: Chance::new(options.reorder),
            stall: Chance::new(options.latency.tail_share),
            stalls: 0,
            gap_ns,
            spacing_ns: wire_ns.min(gap_ns / 2),
            last_arrival_ns: 0,
        }
    }

    /// Returns the lateness of the load generator. The lateness is so small that the next packet never
    /// overtakes this one.
    fn jitter_ns(&mut self) -> u64 {
        self.random.next() % (self.gap_ns / 4).clamp(1, 1_000)
    }

    fn forward(&mut self, sent_ns: u64) -> Fate {
        if self.loss.happens(&mut self.random) {
            return Fate { arrival_ns: None, copied_ns: None, repeated_ns: None };
        }
        let ready_ns = sent_ns + self.latency_ns();
        let mut arrival_ns = ready_ns.max(self.last_arrival_ns + self.spacing_ns);
        self.last_arrival_ns = arrival_ns;
        if self.reorder.happens(&mut self.random) {
            arrival_ns += self.gap_ns * (1 + self.random.next() % 8) + self.gap_ns / 2;
        }
        // The time is before this packet arrives and before the next packet departs.
        let copied_ns = sent_ns + self.gap_ns.min(arrival_ns - sent_ns) / 2;
        let copied = self.duplicate_pre.happens(&mut self.random);
        let repeated = self.duplicate_post.happens(&mut self.random);
        Fate {
            arrival_ns: Some(arrival_ns),
            copied_ns: copied.then_some(copied_ns),
            repeated_ns: repeated.then(|| arrival_ns + 1 + self.random.next() % 50_000),
        }
    }

    fn latency_ns(&mut self) -> u64 {
        let mut latency_ns = self.latency.base_ns + self.body_ns();
        if self.stall.happens(&mut self.random) {
            self.stalls += 1;
            let bits = self.random.next();
            let stall_ns = self.latency.tail_ns + ((self.latency.tail_ns * (bits >> 48)) >> 16);
            latency_ns += stall_ns << bits.trailing_zeros().min(6);
        }
        latency_ns
    }

    /// Returns an approximately log-normal delay: two to the power of a sum of four uniform numbers, in fixed
    /// point with 16 fractional bits, linear between powers of two.
    fn body_ns(&mut self) -> u64 {
        let bits = self.random.next();
        let sum: u64 = (0..4).map(|i| (bits >> (16 * i)) & 0xffff).sum();
        let mantissa = (1 << 16) + (sum & 0xffff);
        // The sum is centered at 2.0, the middle of its range; the shift compensates for it.
        ((self.latency.body_ns * mantissa) << (sum >> 16)) >> (16 + 2)
    }
}

/// A future record of the egress capture. The order of the fields defines the order of the records.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    time_ns: u64,
    counter: u32,
    copy: bool,
    sent_ns: u64,
}

/// The egress side: sorts packets by arrival and counts the written records.
struct Egress<W: Write> {
    tap: Tap<W>,
    in_flight: BinaryHeap<Reverse<Arrival>>,
    /// Highest counter that has arrived.
    newest: Option<u32>,
    ground_truth: GroundTruth,
}

impl<W: Write> Egress<W> {
    fn send(&mut self, arrival: Arrival) {
        self.in_flight.push(Reverse(arrival));
        self.ground_truth.in_flight_max = self.ground_truth.in_flight_max.max(self.in_flight.len() as u64);
    }

    /// Writes all packets that have arrived by `now_ns`. Packets that are sent later also arrive later.
    fn write_until(&mut self, now_ns: u64) -> io::Result<()> {
        while self.in_flight.peek().is_some_and(|Reverse(next)| next.time_ns <= now_ns) {
            let Some(Reverse(arrival)) = self.in_flight.pop() else { break };
            self.tap.write(arrival.counter, arrival.time_ns)?;
            if !arrival.copy {
                self.count(&arrival);
            }
        }
        Ok(())
    }

    fn count(&mut self, arrival: &Arrival) {
        let delay_ns = arrival.time_ns - arrival.sent_ns;
        let ground_truth = &mut self.ground_truth;
        ground_truth.arrived += 1;
        ground_truth.min_delay_ns = ground_truth.min_delay_ns.min(delay_ns);
        ground_truth.max_delay_ns = ground_truth.max_delay_ns.max(delay_ns);
        ground_truth.delay_ns_sum += delay_ns;
        ground_truth.reordered += u64::from(self.newest > Some(arrival.counter));
        self.newest = self.newest.max(Some(arrival.counter));
    }
}

/// Last byte of the destination address at ingress, before the device changes it.
const DESTINATION_PRE: u8 = 0x01;
const DESTINATION_POST: u8 = 0x02;

const RECORD_HEADER: usize = 16;
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const UDP: usize = 8;
const IP_AT: usize = RECORD_HEADER + ETHERNET;
const UDP_AT: usize = IP_AT + IPV4;
const PAYLOAD_AT: usize = UDP_AT + UDP;
const PORT_FIRST: u16 = 1024;

/// One capture file. A single record is modified and written for every packet.
struct Tap<W: Write> {
    file: BufWriter<W>,
    record: Vec<u8>,
    flows: u32,
    /// Sums of the 16-bit words that are the same in all packets, for the checksums (RFC 1071).
    ip_sum: u32,
    udp_sum: u32,
}

impl<W: Write> Tap<W> {
    fn new(options: &SynthOptions, file: W, destination: u8) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 18, file);
        // Magic number of pcap with nanoseconds, version 2.4, two zeros, snapshot length, Ethernet.
        for word in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, 1_u32] {
            file.write_all(&word.to_le_bytes())?;
        }
        let record = blank_record(options.frame_len, destination);
        // The pseudo header: addresses, protocol and length of the datagram.
        let pseudo_sum = sum(&record[IP_AT + 12..UDP_AT]) + 17 + sum(&record[UDP_AT + 4..UDP_AT + 6]);
        Ok(Self {
            file,
            flows: u32::from(options.flows),
            ip_sum: sum(&record[IP_AT..UDP_AT]),
            udp_sum: pseudo_sum + sum(&record[UDP_AT..]),
            record,
        })
    }

    fn write(&mut self, counter: u32, time_ns: u64) -> io::Result<()> {
        let record = &mut self.record;
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &((time_ns / 1_000_000_000) as u32).to_le_bytes());
        put(4, &((time_ns % 1_000_000_000) as u32).to_le_bytes());
        let identification = counter & 0xffff;
        put(IP_AT + 4, &(identification as u16).to_be_bytes());
        put(IP_AT + 10, &checksum(self.ip_sum + identification).to_be_bytes());
        let port = u32::from(PORT_FIRST) + counter % self.flows;
        put(UDP_AT, &(port as u16).to_be_bytes());
        let payload = counter.to_le_bytes();
        // RFC 768: a checksum of zero is sent as all ones, because zero means no checksum.
        let udp = match checksum(self.udp_sum + port + sum(&payload)) {
            0 => 0xffff,
            other => other,
        };
        put(UDP_AT + 6, &udp.to_be_bytes());
        put(PAYLOAD_AT, &payload);
        self.file.write_all(record)
    }
}

/// Returns a record with all fields that are the same for all packets of a tap.
fn blank_record(frame_len: usize, destination: u8) -> Vec<u8> {
    let ip_len = frame_len - ETHERNET;
    let mut record = vec![0; RECORD_HEADER + frame_len];
    let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
    put(8, &(frame_len as u32).to_le_bytes());
    put(12, &(frame_len as u32).to_le_bytes());
    // Locally administered addresses; EtherType IPv4.
    put(RECORD_HEADER, &[2, 0, 0, 0, 0, destination, 2, 0, 0, 0, 0, 0x10, 0x08, 0x00]);
    put(IP_AT, &[0x45, 0]);
    put(IP_AT + 2, &(ip_len as u16).to_be_bytes());
    put(IP_AT + 8, &[64, 17]);
    put(IP_AT + 12, &[10, 0, 0, 1, 10, 0, 0, 2]);
    put(UDP_AT + 2, &53_u16.to_be_bytes());
    put(UDP_AT + 4, &((ip_len - IPV4) as u16).to_be_bytes());
    put(PAYLOAD_AT + 4, &[0x55]);
    record
}

/// Sums the big-endian 16-bit words; an odd last byte is the high half of a word.
fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

/// Returns the Internet checksum (RFC 1071) of a sum of words.
fn checksum(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests;
