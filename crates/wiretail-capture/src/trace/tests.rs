//! Reads traces in the kernel's format, and rejects invalid ones.

use std::fs;
use std::path::Path;

use wiretail_schema::causes::trace::TraceNames;

use super::test_support::sample;
use super::{Event, Kind, Lost, Trace};

fn read(trace: &mut Trace, pages: &[Vec<u8>]) -> Result<(Vec<Event>, super::TraceEnd), super::TraceError> {
    let mut events = Vec::new();
    let end = trace.read_from(pages.iter().map(Vec::as_slice), |event| events.push(*event))?;
    Ok((events, end))
}

#[test]
fn events_are_decoded() {
    let (info, pages) = sample();
    let mut trace = Trace::new(Path::new("t"), info).expect("a trace");
    assert!(trace.remarks().is_empty());
    let (events, end) = read(&mut trace, &pages).expect("whole");
    // Seven events of known kinds per round; a stack belongs to the previous event.
    assert_eq!((events.len(), end.events, end.unknown), (40 * 7, 40 * 7, 40));
    assert!(events.is_sorted_by_key(|event| event.ts_ns));
    let kinds: Vec<Kind> = events[..7].iter().map(|event| event.kind).collect();
    let expected = [
        Kind::VectorEntry,
        Kind::CsdQueue,
        Kind::IpiSendMask,
        Kind::SoftirqEntry,
        Kind::VectorExit,
        Kind::Switch,
        Kind::IrqEntry,
    ];
    assert_eq!(kinds, expected);
    let name = |event: usize| trace.name(events[event].name);
    assert_eq!((name(0), events[0].args[0], events[0].ts_ns), (Some("local_timer"), 236, 1000));
    let queue = events[1];
    assert_eq!((queue.args, queue.cpu, queue.pid), ([1, 0x1000, 0x2004], 0, 7));
    assert_eq!(trace.stack(queue.stack), Some(&[0x1008, 0x2010, 0x2020][..]));
    assert_eq!((trace.task(7), trace.symbol(0x1008)), (Some("sender"), Some(("flush_tlb_func", 8))));
    assert_eq!(trace.symbol(0xfff), None);
    // Bit 1 of the first word, and bit 64.
    assert_eq!(
        (events[2].args[0], name(2), events[2].stack),
        (2, Some("00000000000000010000000000000002"), 0)
    );
    assert_eq!((name(3), name(6)), (Some("NET_RX"), Some("virtio0")));
    assert_eq!((name(5), events[5].args), (Some("other"), [10, 1, 120]));
    assert_eq!((trace.task(10), trace.task(11), trace.task(12)), (Some("other"), Some("third"), None));
    assert_eq!(events[7].ts_ns, 200_001_000, "a delta of more than 27 bits");
    let round = 1000 + 200_000_000 * 20;
    let lost = Lost { stream: 1, cpu: 0, from_ns: round + 7, to_ns: round + 200_000_005, events: Some(17) };
    assert_eq!(end.lost, [lost]);
    assert_eq!(read(&mut trace, &pages).expect("again").0, events);
}

#[test]
fn reads_a_folder_and_reports_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (info, pages) = sample();
    let error = || match Trace::open(folder.path()) {
        Ok(mut trace) => trace.read(|_| ()).expect_err("damaged").to_string(),
        Err(error) => error.to_string(),
    };
    assert!(error().contains("trace.json: cannot be read, at byte 0"), "{}", error());
    fs::write(path("trace.json"), "{}").expect("written");
    assert!(error().contains("expected the document of a trace, wiretail.trace/1"), "{}", error());
    let document = serde_json::to_string(&info).expect("JSON");
    fs::write(path("trace.json"), document.replace("wiretail.trace/1", "wiretail.trace/2")).expect("written");
    assert!(error().contains("written as 'wiretail.trace/2'"), "{}", error());
    fs::write(path("trace.json"), document.replace("cpu1.raw", "../cpu1.raw")).expect("written");
    assert!(error().contains("is not the name of a file in the folder"), "{}", error());
    fs::write(path("trace.json"), &document).expect("written");
    assert!(error().contains("cpu1.raw: cannot be read, at byte 0"), "{}", error());
    fs::write(path("cpu1.raw"), &pages[0]).expect("written");
    fs::write(path("cpu0.sends.raw"), &pages[1]).expect("written");
    let end = Trace::open(folder.path()).and_then(|mut trace| trace.read(|_| ())).expect("whole");
    assert_eq!(end.events, 40 * 7);
    fs::write(path("cpu1.raw"), &pages[0][..pages[0].len() - 1]).expect("written");
    assert!(error().contains("cpu1.raw: damaged at byte 8191: the file has 8191 bytes"), "{}", error());
    let mut foreign = pages[0].clone();
    foreign[4096..].fill(0xff);
    fs::write(path("cpu1.raw"), foreign).expect("written");
    assert!(error().contains("cpu1.raw: damaged at byte 4104: expected a page with"), "{}", error());
}

#[test]
fn rejects_a_truncated_page() {
    let (info, mut pages) = sample();
    let mut trace = Trace::new(Path::new("t"), info).expect("a trace");
    pages[1].truncate(5000);
    let error = read(&mut trace, &pages).expect_err("cut off").to_string();
    assert!(
        error.contains("cpu0.sends.raw: damaged at byte 4096: the file ends after 904 bytes of a page"),
        "{error}"
    );
}

#[test]
fn skips_events_with_an_unsupported_format() {
    let (mut info, pages) = sample();
    for event in info.events.iter_mut().filter(|event| event.name == "csd_queue_cpu") {
        event.format = event.format.replace("void * func;", "void * function;");
    }
    let mut trace = Trace::new(Path::new("t"), info).expect("a trace");
    assert_eq!(trace.remarks(), ["csd/csd_queue_cpu: unsupported format; its events are skipped"]);
    let end = read(&mut trace, &pages).expect("whole").1;
    assert_eq!((end.events, end.unknown), (40 * 6, 80));
}
