//! Links, taps and segments of each topology.

use super::*;

fn topology(middle: Middle, devices: usize) -> Topology {
    Topology {
        middle,
        devices,
        switch: Switch::None,
        guests: Guests::None,
        both_directions: false,
        tap_senders: middle == Middle::Nothing,
    }
}

fn assignment(topology: &Topology) -> Vec<String> {
    topology.taps().iter().map(|tap| format!("{}: {}", tap.name, tap.describe(topology))).collect()
}

fn segments(topology: &Topology) -> Vec<(String, usize, usize)> {
    topology.segments().into_iter().map(|segment| (segment.name, segment.pre, segment.post)).collect()
}

#[test]
fn wire_is_tapped_at_both_ends() {
    let wire = topology(Middle::Nothing, 0);
    let expected = ["pre: out of the load generator, leaving", "post: in of the sink, arriving"];
    assert_eq!(assignment(&wire), expected);
    assert_eq!(wire.plan("wt").steps().iter().filter(|step| matches!(step, Step::AddVeth { .. })).count(), 1);
}

#[test]
fn chain_is_tapped_between_hops() {
    let chain = topology(Middle::Bridge, 2);
    let expected = [
        "pre: in of the device 1, arriving",
        "hop1: in of the device 2, arriving",
        "post: in of the sink, arriving",
    ];
    assert_eq!(assignment(&chain), expected);
    let expected = [("forward", 0, 2), ("hop1", 0, 1), ("hop2", 1, 2)];
    assert_eq!(segments(&chain), expected.map(|(name, pre, post)| (name.to_owned(), pre, post)));
}

#[test]
fn both_directions_give_two_segments() {
    let both = Topology { both_directions: true, ..topology(Middle::Ports, 1) };
    let expected = [("forward", 0, 1), ("back", 2, 3)];
    assert_eq!(segments(&both), expected.map(|(name, pre, post)| (name.to_owned(), pre, post)));
    let senders = Topology { tap_senders: true, ..both };
    let expected = [
        "pre: out of the load generator, leaving",
        "post: in of the sink, arriving",
        "back-pre: in of the sink, leaving",
        "back-post: out of the load generator, arriving",
    ];
    assert_eq!(assignment(&senders), expected);
}

#[test]
fn switch_connects_devices() {
    let chain = Topology { switch: Switch::Bridge, ..topology(Middle::Ports, 2) };
    let patches = [("in", "to1"), ("from1", "to2"), ("from2", "out")];
    assert_eq!(chain.patches(), patches.map(|(left, right)| (left.to_owned(), right.to_owned())));
    let expected = [
        "pre: in of the switch, arriving",
        "vnf1-in: in of the device 1, arriving",
        "vnf1-out: from1 of the switch, arriving",
        "vnf2-in: in of the device 2, arriving",
        "vnf2-out: from2 of the switch, arriving",
        "post: in of the sink, arriving",
    ];
    assert_eq!(assignment(&chain), expected);
    let both = Topology { both_directions: true, tap_senders: true, ..chain };
    let expected = [
        "back-pre: out of the switch, arriving",
        "back-vnf2-in: from2 of the switch, leaving",
        "back-vnf2-out: to2 of the switch, arriving",
        "back-vnf1-in: from1 of the switch, leaving",
        "back-vnf1-out: to1 of the switch, arriving",
        "back-post: out of the load generator, arriving",
    ];
    assert_eq!(assignment(&both)[6..], expected);
    assert_eq!(
        segments(&both)[1..4],
        [("back".to_owned(), 6, 11), ("vnf1".to_owned(), 1, 2), ("vnf2".to_owned(), 3, 4)]
    );
    let crossed: Vec<_> = both.taps().iter().map(|tap| (tap.enters, tap.leaves)).collect();
    assert_eq!(crossed[..3], [(None, None), (Some(1), None), (None, Some(1))]);
}

#[test]
fn shared_memory_has_no_links_and_no_taps() {
    let taps = Topology {
        switch: Switch::Ovs,
        guests: Guests::Taps,
        both_directions: true,
        tap_senders: true,
        ..topology(Middle::Ports, 2)
    };
    let made = |topology: &Topology| {
        let steps = topology.plan("wt").steps().to_vec();
        let count = |is: &dyn Fn(&Step) -> bool| steps.iter().filter(|step| is(step)).count();
        let taps = count(&|step| matches!(step, Step::AddTap { .. }));
        (
            count(&|step| matches!(step, Step::AddVeth { .. })),
            taps,
            count(&|step| matches!(step, Step::SetUp { .. })),
        )
    };
    assert_eq!((made(&taps), taps.taps().len(), taps.shared()), ((2, 4, 8), 12, Vec::new()));
    let shared = Topology { guests: Guests::SharedMemory, ..taps };
    assert_eq!(made(&shared), (2, 0, 4));
    assert_eq!(shared.shared(), ["to1", "from1", "to2", "from2"]);
    assert_eq!(shared.patches(), taps.patches());
    let expected = [
        "pre: in of the switch, arriving",
        "post: in of the sink, arriving",
        "back-pre: out of the switch, arriving",
        "back-post: out of the load generator, arriving",
    ];
    assert_eq!(assignment(&shared), expected);
    assert_eq!(segments(&shared), [("forward".to_owned(), 0, 1), ("back".to_owned(), 2, 3)]);
}
