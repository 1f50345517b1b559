//! An exact multiset of times. Every percentile computed from it is a measured value.
//!
//! Latencies cluster within a few microseconds. One counter per nanosecond, in pages allocated on first use,
//! is therefore both the fastest and the smallest store: adding a value takes two loads and a store. Values
//! beyond the range of the pages, or beyond their memory limit, go to sorted, delta-coded runs that merge as
//! they grow, at about two bytes per distinct value. Memory is bounded by the number of *distinct* values.

use std::iter::Peekable;

const PAGE_BITS: u32 = 9;
const PAGE_LEN: usize = 1 << PAGE_BITS;
/// Number of pages in the directory. Values below 2^27 ns (134 ms) can have a page. The directory takes 1 MiB
/// of address space; only the touched part uses memory.
const DIRECTORY_LEN: usize = 1 << (27 - PAGE_BITS);
/// Number of values collected before they are sorted into a run.
const BUFFER_LEN: usize = 1 << 15;

/// An exact multiset of non-negative times in ns.
#[derive(Debug, Clone)]
pub struct Counts {
    /// Page number by value / `PAGE_LEN`, or 0 if there is no page. Allocated with the first value.
    directory: Vec<u32>,
    /// Counters, page after page. Page 0 holds no values and is full.
    bins: Vec<u32>,
    /// The value / `PAGE_LEN` that each page covers, indexed by page number - 1.
    pages: Vec<u32>,
    pages_max: usize,
    buffer: Vec<u64>,
    runs: Vec<Run>,
    count: u64,
}

impl Counts {
    /// Creates an empty multiset that uses at most `pages_max` pages of 2 KiB before it falls back to runs.
    pub fn new(pages_max: usize) -> Self {
        Self {
            directory: Vec::new(),
            bins: Vec::new(),
            pages: Vec::new(),
            pages_max,
            buffer: Vec::new(),
            runs: Vec::new(),
            count: 0,
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds one value in ns. Negative values count as 0.
    #[inline]
    pub fn add(&mut self, value_ns: i64) {
        let value = value_ns.max(0) as u64;
        self.count += 1;
        let page = (value >> PAGE_BITS) as usize;
        if let Some(&number) = self.directory.get(page) {
            let slot = number as usize * PAGE_LEN + (value as usize & (PAGE_LEN - 1));
            // All counters of page 0 are full, so a value without a page takes the slow path.
            if let Some(bin) = self.bins.get_mut(slot)
                && *bin < u32::MAX
            {
                *bin += 1;
                return;
            }
        }
        self.add_slow(value);
    }

    #[cold]
    fn add_slow(&mut self, value: u64) {
        let page = (value >> PAGE_BITS) as usize;
        if self.directory.is_empty() {
            self.directory = vec![0; DIRECTORY_LEN];
            self.bins = vec![u32::MAX; PAGE_LEN];
        }
        match self.directory.get_mut(page) {
            Some(number) if *number == 0 && self.pages.len() < self.pages_max => {
                self.pages.push(page as u32);
                *number = self.pages.len() as u32;
                self.bins.resize(self.bins.len() + PAGE_LEN, 0);
                self.bins[self.pages.len() * PAGE_LEN + (value as usize & (PAGE_LEN - 1))] = 1;
            }
            // Either the value has no page, or its counter is full. A full counter has counted 2^32 - 1
            // values; the runs hold the others.
            _ => {
                self.buffer.push(value);
                if self.buffer.len() >= BUFFER_LEN {
                    self.flush();
                }
            }
        }
    }

    /// Adds `times` values of `value_ns`; see [`add`](Self::add).
    pub fn add_times(&mut self, value_ns: i64, times: u64) {
        if times > 0 {
            self.add(value_ns);
            self.add_many(value_ns.max(0) as u64, times - 1);
        }
    }

    /// Adds all values of `other`.
    pub fn absorb(&mut self, other: &Counts) {
        other.for_each(|value, count| {
            self.add_times(value, count);
        });
    }

    fn add_many(&mut self, value: u64, mut times: u64) {
        self.count += times;
        let page = (value >> PAGE_BITS) as usize;
        if let Some(&number) = self.directory.get(page)
            && number != 0
        {
            let bin = &mut self.bins[number as usize * PAGE_LEN + (value as usize & (PAGE_LEN - 1))];
            let taken = times.min(u64::from(u32::MAX - *bin));
            *bin += taken as u32;
            times -= taken;
        }
        if times > 0 {
            self.push_run(Run::encode([(value, times)].into_iter()));
        }
    }

    /// Sorts the collected values into a run, and merges runs of similar size. There are never more than
    /// about twenty runs.
    fn flush(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.sort_unstable();
        let run = Run::encode(RunLengths { values: buffer.iter().copied().peekable() });
        buffer.clear();
        self.buffer = buffer;
        self.push_run(run);
    }

    fn push_run(&mut self, mut run: Run) {
        while let Some(last) = self.runs.pop_if(|last| last.bytes.len() <= 2 * run.bytes.len()) {
            run = Run::encode(Merged { a: last.iter().peekable(), b: run.iter().peekable() });
        }
        self.runs.push(run);
    }

    /// Calls `visit(value_ns, count)` for every distinct value in ascending order.
    pub fn for_each(&self, mut visit: impl FnMut(i64, u64)) {
        let sparse = self.sparse();
        let mut sparse = sparse.iter().peekable();
        let mut pages: Vec<_> = self.pages.iter().zip(1..).collect();
        pages.sort_unstable();
        for (&page, number) in pages {
            let start = number * PAGE_LEN;
            for (slot, &bin) in self.bins[start..start + PAGE_LEN].iter().enumerate() {
                if bin == 0 {
                    continue;
                }
                let value = (u64::from(page) << PAGE_BITS) + slot as u64;
                let mut count = u64::from(bin);
                while let Some((below, times)) = sparse.next_if(|(v, _)| *v <= value) {
                    if below == value {
                        count += times;
                    } else {
                        visit(below as i64, times);
                    }
                }
                visit(value as i64, count);
            }
        }
        for (value, count) in sparse {
            visit(value as i64, count);
        }
    }

    /// Merges all runs and the buffer into one run.
    fn sparse(&self) -> Run {
        let mut buffer = self.buffer.clone();
        buffer.sort_unstable();
        let mut all = Run::encode(RunLengths { values: buffer.iter().copied().peekable() });
        for run in self.runs.iter().rev() {
            all = Run::encode(Merged { a: run.iter().peekable(), b: all.iter().peekable() });
        }
        all
    }
}

/// Distinct values in ascending order with their counts. Each pair is stored as two LEB128 numbers: the
/// difference from the previous value, and the count.
#[derive(Debug, Clone, Default)]
struct Run {
    bytes: Vec<u8>,
}

impl Run {
    fn encode(pairs: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut bytes = Vec::new();
        let mut before = 0;
        for (value, count) in pairs {
            put_varint(&mut bytes, value - before);
            put_varint(&mut bytes, count);
            before = value;
        }
        bytes.shrink_to_fit();
        Self { bytes }
    }

    fn iter(&self) -> RunIter<'_> {
        RunIter { rest: &self.bytes, value: 0 }
    }
}

struct RunIter<'a> {
    rest: &'a [u8],
    value: u64,
}

impl Iterator for RunIter<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        self.value += take_varint(&mut self.rest)?;
        Some((self.value, take_varint(&mut self.rest)?))
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    let mut shift = 0;
    loop {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

/// Groups equal neighbors of an ascending sequence as (value, count).
struct RunLengths<I: Iterator<Item = u64>> {
    values: Peekable<I>,
}

impl<I: Iterator<Item = u64>> Iterator for RunLengths<I> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let value = self.values.next()?;
        let mut count = 1;
        while self.values.next_if_eq(&value).is_some() {
            count += 1;
        }
        Some((value, count))
    }
}

/// Merges two ascending sequences. The counts of equal values add up.
struct Merged<A: Iterator<Item = (u64, u64)>, B: Iterator<Item = (u64, u64)>> {
    a: Peekable<A>,
    b: Peekable<B>,
}

impl<A: Iterator<Item = (u64, u64)>, B: Iterator<Item = (u64, u64)>> Iterator for Merged<A, B> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        match (self.a.peek(), self.b.peek()) {
            (Some(a), Some(b)) if a.0 == b.0 => {
                let (value, count) = self.a.next()?;
                let (_, more) = self.b.next()?;
                Some((value, count + more))
            }
            (Some(a), Some(b)) if a.0 > b.0 => self.b.next(),
            (Some(_), _) => self.a.next(),
            (None, _) => self.b.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use wiretail_schema::random::Random;

    fn listed(counts: &Counts) -> Vec<(i64, u64)> {
        let mut list = Vec::new();
        counts.for_each(|value, count| list.push((value, count)));
        list
    }

    proptest! {
        /// For any mix of small, large and repeated values and any number of pages.
        #[test]
        fn equals_sorted_map(
            values in prop::collection::vec(
                prop_oneof![0..3000i64, 0..200_000_000i64, Just(5_000_000_000i64), 0..i64::MAX],
                0..3000,
            ),
            pages_max in 0..4usize,
            cut in 0..3000usize,
        ) {
            let mut expected = BTreeMap::new();
            let (mut counts, mut part) = (Counts::new(pages_max), Counts::new(pages_max));
            for (i, &value) in values.iter().enumerate() {
                *expected.entry(value).or_insert(0u64) += 1;
                if i < cut { counts.add(value) } else { part.add(value) }
            }
            counts.absorb(&part);
            prop_assert_eq!(counts.count(), values.len() as u64);
            prop_assert_eq!(listed(&counts), expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn scattered_values_use_little_memory() {
        let mut counts = Counts::new(16);
        let mut random = Random::new(1);
        for _ in 0..1_000_000 {
            counts.add(random.below(1_000_000_000) as i64);
        }
        let bytes: usize = counts.runs.iter().map(|run| run.bytes.capacity()).sum();
        assert!(bytes < 4_000_000, "{bytes} bytes in {} runs", counts.runs.len());
        assert!(counts.runs.len() < 24);
        let mut total = 0;
        counts.for_each(|_, count| total += count);
        assert_eq!(total, 1_000_000);
    }

    #[test]
    fn full_counter_overflows_into_run() {
        let mut counts = Counts::new(16);
        counts.add(7);
        counts.add_many(7, u64::from(u32::MAX) - 1);
        counts.add(7);
        counts.add(8);
        assert_eq!(listed(&counts), [(7, 1 << 32), (8, 1)]);
    }
}
