//! A fixed amount of work whose duration shows the current speed of the core. Another hardware thread of the
//! physical core, possibly of another virtual machine, can use the same execution units. A single chain of
//! dependent operations leaves most units idle, so it would hardly slow down if they were shared. The work
//! therefore consists of several independent chains, which keep the units busy like a text search in packets.

use std::hint::black_box;

/// Size of the text in bytes. Together with the tables, it fits into the L1 cache.
const LEN: usize = 12 << 10;
/// Number of independent chains.
const LANES: usize = 6;
/// Number of passes over the text. They take 25 to 50 µs on processors of the 2020s, so that the time of a
/// clock reading is negligible.
const PASSES: usize = 3;

/// Memory of the work.
#[derive(Debug, Clone)]
pub struct Work {
    text: Box<[u8; LEN]>,
    /// Next state, indexed by the current state and the class of a byte.
    next: Box<[u8; 256]>,
    class: Box<[u8; 256]>,
}

impl Default for Work {
    fn default() -> Self {
        Self::new()
    }
}

impl Work {
    /// Creates a text of words of two to nine letters and the tables for searching it. The content is always
    /// the same.
    pub fn new() -> Self {
        let mut seed = 1_u32;
        let mut draw = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) as u8
        };
        let mut text = Box::new([0; LEN]);
        text.iter_mut().for_each(|byte| *byte = if draw() < 48 { b' ' } else { b'a' + draw() % 26 });
        let mut next = Box::new([0; 256]);
        next.iter_mut().for_each(|state| *state = draw() & 15);
        let mut class = Box::new([0; 256]);
        (0..=255_u8).zip(class.iter_mut()).for_each(|(byte, class)| *class = (byte % 13) << 4);
        Self { text, next, class }
    }

    /// Runs the work once. The result is always the same.
    #[inline(never)]
    pub fn run(&mut self) -> u64 {
        let text = black_box(&*self.text);
        let (mut states, mut found) = ([0_u8; LANES], [0_u64; LANES]);
        let part = LEN / LANES;
        for at in (0..PASSES).flat_map(|_| 0..part) {
            for lane in 0..LANES {
                let byte = text[lane * part + at];
                let state = self.next[usize::from(self.class[usize::from(byte)] | states[lane])];
                if byte == b' ' {
                    found[lane] += u64::from(state);
                }
                states[lane] = state;
            }
        }
        black_box(found.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_deterministic() {
        let mut work = Work::new();
        let first = work.run();
        assert!(first > 0);
        assert_eq!((work.run(), Work::new().run()), (first, first));
        assert!(work.next.iter().all(|state| *state < 16) && work.class.iter().all(|class| class & 15 == 0));
    }
}
