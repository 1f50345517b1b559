//! Configuration of the container runtimes, tested without running them.

use std::path::{Path, PathBuf};

use super::container::{Mount, init, mounts};
use super::container::{lxc, oci};
use super::{ContainerSpec, Runtime, Workload, container};
use crate::error::HostError;
use crate::network::namespace::Namespace;
use crate::step::Step;
use wiretail_schema::units::cores::CoreSet;

pub(in crate::deploy) fn workload(directory: &Path) -> Workload {
    Workload {
        argv: vec!["/srv/tool/forward".into(), "in".into(), "out".into()],
        env: vec![("A".into(), "b c".into())],
        directory: directory.into(),
        reads: vec!["/usr/share".into()],
        namespace: Namespace::new("wt-1-0-dut1").expect("a name"),
        cores: CoreSet::new([1, 2, 3]),
        hugepages: false,
    }
}

#[test]
fn program_keeps_its_arguments_and_environment() {
    let args = init(&workload(Path::new("/tmp")));
    assert_eq!(args[3], "wiretail-init");
    assert!(args[4].starts_with("PATH="), "{args:?}");
    assert_eq!(args[5..], ["A=b c", "/srv/tool/forward", "in", "out"]);
}

#[test]
fn only_working_folder_is_writable() {
    let folder = tempfile::tempdir().expect("a folder");
    let tool = folder.path().join("tool");
    std::fs::create_dir(&tool).expect("made");
    let mut workload = workload(&folder.path().join("work"));
    std::fs::create_dir(&workload.directory).expect("made");
    workload.argv[0] = tool.join("forward").display().to_string();
    workload.reads.push(workload.directory.join("rules"));
    let found = mounts(&workload);
    let host = |path: &Path, writable| Mount::Host { path: path.into(), writable, is_folder: true };
    assert_eq!(found[found.len() - 2..], [host(&tool, false), host(&workload.directory, true)]);
    let place = |mount: &Mount| found.iter().position(|other| other == mount).expect("there");
    assert!(place(&Mount::Empty("/tmp".into())) < place(&host(&tool, false)));
    let is_writable_file_system = |mount: &&Mount| matches!(mount, Mount::Host { path, writable: true, .. } if !path.starts_with("/dev"));
    assert_eq!(found.iter().filter(is_writable_file_system).count(), 1, "{found:?}");
}

#[test]
fn runc_config_is_complete() {
    let mounts = [
        Mount::Empty("/tmp".into()),
        Mount::Host { path: "/dev/net/tun".into(), writable: true, is_folder: false },
    ];
    let held = 1 << 13 | 1 << 39;
    let config = oci::config_with("wt-1-0-dut1", &workload(Path::new("/w")), &mounts, held, true);
    assert_eq!(config["process"]["capabilities"]["effective"], serde_json::json!(["CAP_NET_RAW", "CAP_BPF"]));
    assert_eq!(config["process"]["cwd"], "/w");
    assert_eq!(config["process"]["rlimits"][0]["type"], "RLIMIT_MEMLOCK");
    assert_eq!(config["linux"]["cgroupsPath"], "/wt-1-0-dut1");
    assert_eq!(config["linux"]["resources"]["cpu"]["cpus"], "1-3");
    let network = &config["linux"]["namespaces"][4];
    assert_eq!(*network, serde_json::json!({"type": "network", "path": "/run/netns/wt-1-0-dut1"}));
    let last = &config["mounts"].as_array().expect("a list")[5];
    assert_eq!(last["options"], serde_json::json!(["bind", "rw", "rprivate"]));
    let mut anywhere = workload(Path::new("/w"));
    anywhere.cores = CoreSet::default();
    let config = oci::config_with("c", &anywhere, &mounts, 0, false);
    assert!(config["linux"]["resources"].get("cpu").is_none());
    assert_eq!(config["process"]["rlimits"], serde_json::json!([]));
}

#[test]
fn lxc_config_is_complete() {
    let mounts =
        [Mount::Empty("/tmp".into()), Mount::Host { path: "/a b".into(), writable: false, is_folder: true }];
    let rootfs = PathBuf::from("/run/x/rootfs");
    let config = |version_1| {
        lxc::config_with("wt-1-0-dut1", &workload(Path::new("/w")), &mounts, &rootfs, version_1, true)
    };
    let text = config(true);
    for line in [
        "lxc.namespace.share.net = /run/netns/wt-1-0-dut1",
        "lxc.rootfs.path = dir:/run/x/rootfs",
        "lxc.mount.entry = tmpfs tmp tmpfs rw,create=dir 0 0",
        "lxc.mount.entry = /a\\040b a\\040b none rbind,ro,create=dir 0 0",
        "lxc.cgroup.cpuset.cpus = 1-3",
        "lxc.prlimit.memlock = unlimited",
        "lxc.init.cwd = /w",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert!(config(false).contains("\nlxc.cgroup2.cpuset.cpus = 1-3\n"));
}

#[test]
fn container_step_survives_json_round_trip() {
    let container = ContainerSpec {
        name: "wt-1-0-dut1".into(),
        runtime: Runtime::Lxc,
        folder: "/run/x".into(),
        config: "a = b\n".into(),
    };
    let step = Step::AddContainer { container };
    assert_eq!(step.to_string(), "add lxc container wt-1-0-dut1 in /run/x");
    let line = serde_json::to_string(&step).expect("JSON");
    assert_eq!(serde_json::from_str::<Step>(&line).expect("the same"), step);
}

#[test]
fn rejects_invalid_workloads() {
    let folder = Path::new("/w");
    let broken: [fn(&mut Workload); 5] = [
        |workload| workload.argv.clear(),
        |workload| workload.argv[0] = "a=b".into(),
        |workload| workload.env.push((String::new(), "x".into())),
        |workload| workload.directory = "relative".into(),
        |workload| workload.reads.push("/a\nlxc.uts.name = b".into()),
    ];
    for breaks in broken {
        let mut workload = workload(folder);
        workload.check().expect("whole");
        breaks(&mut workload);
        assert!(matches!(workload.check(), Err(HostError::Name { .. })), "{workload:?}");
    }
    // A machine without the runtime reports that first.
    let refused = container(Runtime::Runc, "a/b", &workload(folder), folder).expect_err("no name");
    assert!(matches!(refused, HostError::Name { .. } | HostError::NotInstalled { .. }), "{refused}");
}
