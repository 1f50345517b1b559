//! Splits a page of the kernel's ring buffer into records with timestamps (kernel/trace/ring_buffer.c,
//! include/linux/ring_buffer.h).
//!
//! A page starts with the time of its first record and the number of its bytes. A record's header is one
//! word: 5 bits of type or length, and 27 bits of nanoseconds since the previous record.
//!
//! | type | meaning |
//! |---|---|
//! | 0 | a record; the next word is its length in bytes, including itself |
//! | 1 to 28 | a record with this number of words |
//! | 29 | padding: to the end of the page if its delta is 0, otherwise the number of bytes in the next word |
//! | 30 | the next word is the upper part of a long delta |
//! | 31 | the next word is the upper part of an absolute time; its highest 5 bits are taken from the previous time |

use std::ops::Range;

use super::format::PageFormat;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Number of header bits for the delta.
const DELTA_BITS: u32 = 27;
/// Mask for the five highest bits of a time. Absolute times do not contain these bits.
const TIME_HIGH: u64 = 0xf8 << 56;
/// Flag in the count: records before this page were overwritten.
const MISSED: u64 = 1 << 31;
/// Flag in the count: the number of lost records is stored after the page's records.
const MISSED_STORED: u64 = 1 << 30;
/// Mask of the count itself.
const COUNT: u64 = (1 << 20) - 1;

/// An error in a page, with its position.
#[derive(Debug, PartialEq, Eq)]
pub struct PageFault {
    /// Offset from the page's start, in bytes.
    pub offset: usize,
    /// Expected and found content.
    pub detail: String,
}

#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Time of the last record in ns; before the first record, the time of the page.
    pub ts_ns: u64,
    /// Whether records before this page were lost, and their number if the kernel recorded it.
    pub missed: Option<Option<u64>>,
    at: usize,
    end: usize,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Page {
    /// Starts reading a page of `format.bytes()` bytes.
    pub fn begin(bytes: &[u8], format: &PageFormat) -> Result<Self, PageFault> {
        let short = || PageFault { offset: 0, detail: "the page's header is cut off".to_owned() };
        let ts_ns = long(bytes, 0).ok_or_else(short)?;
        let (place, width) = format.commit;
        let commit = if width == 4 { word(bytes, place).map(u64::from) } else { long(bytes, place) };
        let commit = commit.ok_or_else(short)?;
        // The kernel adds its flags as a sign-extended number.
        let is_extended = commit >> 32 == 0xffff_ffff && commit & MISSED != 0;
        let count = (commit & COUNT) as usize;
        let end = format.data + count;
        if commit >> 32 != 0 && !is_extended || count > format.data_bytes || end > bytes.len() {
            let most = format.data_bytes;
            let detail = format!("expected a page with a count of at most {most} bytes, found {commit:#x}");
            return Err(PageFault { offset: place, detail });
        }
        let stored = (commit & MISSED_STORED != 0).then(|| long(bytes, end)).flatten();
        Ok(Self { ts_ns, missed: (commit & MISSED != 0).then_some(stored), at: format.data, end })
    }

    /// Offset of the next record from the page's start.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Position of the next record's content in the page; `None` at the page's end.
    #[inline]
    pub fn next(&mut self, bytes: &[u8]) -> Result<Option<Range<usize>>, PageFault> {
        loop {
            let start = self.at;
            if start >= self.end {
                return Ok(None);
            }
            let cut = || PageFault {
                offset: start,
                detail: format!("a record that ends after the page's {} bytes", self.end),
            };
            let header = word(bytes, start).ok_or_else(cut)?;
            let (kind, delta) = (header & 31, u64::from(header >> 5));
            let (from, to) = match kind {
                1..PADDING => (start + 4, start + 4 + 4 * kind as usize),
                PADDING if delta == 0 => {
                    self.at = self.end;
                    return Ok(None);
                }
                _ => {
                    let next = word(bytes, start + 4).ok_or_else(cut)?;
                    match kind {
                        TIME_EXTEND | TIME_STAMP => {
                            let time = u64::from(next) << DELTA_BITS | delta;
                            self.ts_ns = if kind == TIME_EXTEND {
                                self.ts_ns.wrapping_add(time)
                            } else {
                                absolute(time, self.ts_ns)
                            };
                            self.at = start + 8;
                            if self.at > self.end {
                                return Err(cut());
                            }
                            continue;
                        }
                        PADDING => {
                            // A discarded record. Its delta is added to the time, except for a delta of 1,
                            // which replaces 0.
                            self.ts_ns = self.ts_ns.wrapping_add(if delta == 1 { 0 } else { delta });
                            let skip = start.saturating_add(4).saturating_add(next as usize);
                            if next < 4 || skip > self.end {
                                return Err(cut());
                            }
                            self.at = skip;
                            continue;
                        }
                        _ => {
                            // The length is in bytes, but records are padded to whole words: a record of 5
                            // bytes occupies 8 bytes.
                            let to = (start + 4).saturating_add((next as usize).next_multiple_of(4));
                            if next < 4 {
                                return Err(cut());
                            }
                            (start + 8, to)
                        }
                    }
                }
            };
            if to > self.end {
                return Err(cut());
            }
            self.at = to;
            self.ts_ns = self.ts_ns.wrapping_add(delta);
            return Ok(Some(from..to));
        }
    }
}

/// Completes an absolute time of 59 bits with the highest bits of the previous time.
fn absolute(time: u64, before: u64) -> u64 {
    let whole = time & !TIME_HIGH | before & TIME_HIGH;
    if whole < before { whole.wrapping_add(1 << 59) } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: PageFormat = PageFormat { commit: (8, 8), data: 16, data_bytes: 112 };

    fn page(commit_flags: u64, words: &[u32]) -> Vec<u8> {
        let mut bytes = 1000_u64.to_le_bytes().to_vec();
        bytes.extend((commit_flags | (4 * words.len() as u64)).to_le_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.resize(128, 0);
        bytes
    }

    fn header(kind: u32, delta: u32) -> u32 {
        delta << 5 | kind
    }

    fn records(bytes: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, PageFault> {
        let mut page = Page::begin(bytes, &FORMAT)?;
        let mut records = Vec::new();
        while let Some(record) = page.next(bytes)? {
            records.push((page.ts_ns, bytes[record].to_vec()));
        }
        Ok(records)
    }

    #[test]
    fn reads_every_type_of_record() {
        let words = [
            header(1, 0),
            7, // one word, at the page's time
            header(TIME_EXTEND, 5),
            2, // 2 << 27 | 5 later
            header(0, 10),
            12,
            1,
            2, // length 12: two words of content
            header(PADDING, 1),
            8,
            99, // discarded; its delta does not count
            header(PADDING, 100),
            4, // discarded 100 ns later
            header(TIME_STAMP, 3),
            16, // an absolute time
            header(2, 1),
            3,
            4,
            header(PADDING, 0),
            0,
        ];
        let extended = 1000 + (2 << 27) + 5 + 10;
        let timestamped = (16 << 27) + 3 + 1;
        let expected = vec![
            (1000, vec![7, 0, 0, 0]),
            (extended, vec![1, 0, 0, 0, 2, 0, 0, 0]),
            (timestamped, vec![3, 0, 0, 0, 4, 0, 0, 0]),
        ];
        assert_eq!(records(&page(0, &words)), Ok(expected));
    }

    #[test]
    fn absolute_times_keep_the_previous_high_bits() {
        assert_eq!(absolute(5, 3), 5);
        assert_eq!(absolute(5, 1 << 59 | 3), 1 << 59 | 5);
        assert_eq!(absolute(1, 3), 1 << 59 | 1, "wrapped around");
    }

    #[test]
    fn reports_lost_records() {
        let begin = |bytes: &[u8]| Page::begin(bytes, &FORMAT).expect("a page").missed;
        let mut bytes = page(MISSED | MISSED_STORED, &[header(1, 0), 7]);
        bytes[24..32].copy_from_slice(&42_u64.to_le_bytes());
        assert_eq!(begin(&bytes), Some(Some(42)));
        assert_eq!(begin(&page(MISSED, &[])), Some(None));
        bytes[12..16].fill(0xff);
        assert_eq!(begin(&bytes), Some(Some(42)), "with its sign extended, as the kernel does");
        assert_eq!(begin(&page(0, &[])), None);
    }

    #[test]
    fn reports_invalid_lengths_with_their_offset() {
        let fault = |words: &[u32]| records(&page(0, words)).expect_err("damaged");
        assert_eq!(fault(&[header(1, 0), 7, header(2, 0), 1]).offset, 24);
        assert_eq!(fault(&[header(0, 0), 3]).offset, 16);
        assert_eq!(fault(&[header(0, 0), u32::MAX]).offset, 16);
        assert_eq!(fault(&[header(PADDING, 1), u32::MAX]).offset, 16);
        assert_eq!(fault(&[header(TIME_EXTEND, 1)]).offset, 16);
        assert!(Page::begin(&page(113, &[]), &FORMAT).is_err(), "more than a page holds");
        assert!(Page::begin(&page(1 << 40, &[]), &FORMAT).is_err());
        assert!(Page::begin(&[0; 10], &FORMAT).is_err());
    }
}
