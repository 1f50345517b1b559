//! Applies and undoes single steps. Undoing succeeds even if the step was never applied or was already
//! undone, because nothing records whether the last step before a SIGKILL took effect.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::changes::configuration::{self, FileBefore};
use crate::changes::hugepages;
use crate::cpu::tasks;
use crate::deploy;
use crate::error::HostError;
use crate::files::tracefs;
use crate::files::write_value;
use crate::network::links::{add_tap, find_link, with_generic, with_netlink};
use crate::network::namespace::{self, FolderState, Namespace};
use crate::network::netlink::{self, Netlink};
use crate::step::{Step, VethEnd};

/// State before a step. The step and this state are sufficient to undo the step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Before {
    /// There is no state to restore. Undoing removes the created object, or the object disappears with its
    /// namespace.
    Nothing,
    /// State of `/run/netns`, the folder of namespaces.
    Folder(FolderState),
    /// Content of a file, without the trailing newline.
    Value(String),
    /// State of a configuration file.
    File(FileBefore),
    /// State of a link outside the run's namespaces: whether the link was up, and its MTU.
    Link { up: bool, mtu: u32 },
    /// Whether generic receive offload of a link was on.
    Gro { on: bool },
    /// Number of huge pages that do not belong to any run ([`hugepages`]), and whether this run has added its
    /// own.
    HugePages { of_nobody: u64, is_added: bool },
}

/// Reads the state that a step will change. Returns an error if the step would use or overwrite an object
/// that belongs to another program.
pub(crate) fn look(step: &Step) -> Result<Before, HostError> {
    match step {
        Step::PrepareNamespaces => Ok(Before::Folder(namespace::folder_state())),
        Step::AddNamespace { name } => {
            free(!fs::exists(Namespace::new(name)?.path()).unwrap_or(true), step.object())
        }
        Step::AddVeth { a, b } => {
            for end in [a, b] {
                link_is_free(end.namespace.as_deref(), &end.link)?;
            }
            Ok(Before::Nothing)
        }
        Step::AddBridge { namespace, name, .. } => {
            link_is_free(namespace.as_deref(), name).map(|()| Before::Nothing)
        }
        Step::AddTap { namespace, link, .. } => {
            link_is_free(namespace.as_deref(), link).map(|()| Before::Nothing)
        }
        Step::SetUp { namespace: None, link } | Step::SetMtu { namespace: None, link, .. } => {
            let link = find_link(None, link)?;
            let missing =
                || HostError::system("find the link", step.object())(io::ErrorKind::NotFound.into());
            link.map(|link| Before::Link { up: link.up, mtu: link.mtu }).ok_or_else(missing)
        }
        Step::SetGro { namespace, link, .. } => {
            with_generic(namespace.as_deref(), "read the GRO setting", link, |netlink| netlink.gro(link))
                .map(|on| Before::Gro { on })
        }
        Step::WriteFile { path, may_refuse, .. } => match fs::read_to_string(path) {
            Ok(text) => Ok(Before::Value(written_value(path, &text).into())),
            Err(_) if *may_refuse => Ok(Before::Nothing),
            Err(error) => Err(HostError::file("read the current value", path)(error)),
        },
        Step::AddFile { path, .. } => configuration::look(path).map(Before::File),
        Step::AddHugePages { .. } => {
            // This count includes pages that belong to other runs. The journal subtracts them.
            hugepages::count(Path::new("/")).map(|of_nobody| Before::HugePages { of_nobody, is_added: false })
        }
        Step::AddDirectory { path } => free(!fs::exists(path).unwrap_or(true), step.object()),
        Step::AddTraceInstance { name } => free(!tracefs::exists(name)?, step.object()),
        Step::AddContainer { container } => free(container.is_free(), step.object()),
        _ => Ok(Before::Nothing),
    }
}

fn free(is_free: bool, object: String) -> Result<Before, HostError> {
    if is_free { Ok(Before::Nothing) } else { Err(HostError::Exists { object }) }
}

fn link_is_free(namespace: Option<&str>, name: &str) -> Result<(), HostError> {
    if name.is_empty() || name.len() > 15 || name.contains(['/', ' ', '\0', '%', ':']) {
        let expected = "expected a link name of 1 to 15 bytes without `/`, `:`, `%` or blanks";
        return Err(HostError::Name { name: name.into(), expected });
    }
    let taken = find_link(namespace, name)?.is_some();
    free(!taken, format!("{}:{name}", namespace.unwrap_or("host"))).map(|_| ())
}

/// Applies a step that [`look`] has accepted.
pub(crate) fn make(step: &Step, before: &Before) -> Result<(), HostError> {
    match step {
        Step::PrepareNamespaces => namespace::prepare_folder(),
        Step::AddNamespace { name } => namespace::add(name),
        Step::AddVeth { a, b } => add_veth(a, b),
        Step::AddBridge { namespace, name, ports } => {
            with_netlink(namespace.as_deref(), "add the bridge", name, |netlink| {
                netlink.add_bridge(name)?;
                ports.iter().try_for_each(|port| netlink.set_master(port, name))
            })
        }
        Step::AddTap { namespace, link, mac } => add_tap(namespace.as_deref(), link, *mac),
        Step::SetUp { namespace, link } => {
            with_netlink(namespace.as_deref(), "set the link up", link, |netlink| netlink.set_up(link, true))
        }
        Step::SetMtu { namespace, link, mtu } => {
            with_netlink(namespace.as_deref(), "set the MTU", link, |netlink| netlink.set_mtu(link, *mtu))
        }
        Step::AddAddress { namespace, link, address, prefix_len } => {
            with_netlink(namespace.as_deref(), "add the address", link, |netlink| {
                netlink.add_address(link, *address, *prefix_len)
            })
        }
        Step::AddNeighbour { namespace, link, address, mac } => {
            with_netlink(namespace.as_deref(), "add the neighbour", link, |netlink| {
                netlink.add_neighbour(link, *address, *mac)
            })
        }
        Step::AddRoute { namespace, link, destination, prefix_len, gateway } => {
            with_netlink(namespace.as_deref(), "add the route", link, |netlink| {
                netlink.add_route(link, (*destination, *prefix_len), *gateway)
            })
        }
        Step::SetGro { namespace, link, on } => {
            with_generic(namespace.as_deref(), "set GRO", link, |netlink| netlink.set_gro(link, *on))
        }
        Step::SetSysctl { namespace, name, value } => set_sysctl(namespace, name, value),
        Step::DisableIpv6 { namespace } => disable_ipv6(namespace),
        Step::WriteFile { may_refuse: true, .. } if *before == Before::Nothing => Ok(()),
        Step::WriteFile { path, value, may_refuse } => match write_value(path, value) {
            Err(_) if *may_refuse => Ok(()),
            other => other.map_err(HostError::file("write", path)),
        },
        Step::AddHugePages { pages } => hugepages::add(Path::new("/"), *pages),
        Step::AddFile { path, text } => configuration::put(path, text),
        Step::AddDirectory { path } => fs::create_dir(path).map_err(HostError::file("make the folder", path)),
        Step::MoveTasks { from, to, keep } => tasks::move_all(from, to, keep),
        Step::AddTraceInstance { name } => tracefs::add(name),
        Step::AddContainer { container } => deploy::add(container),
    }
}

fn add_veth(a: &VethEnd, b: &VethEnd) -> Result<(), HostError> {
    let b_namespace = match &b.namespace {
        Some(name) => Namespace::new(name)?.open()?,
        None => namespace::own()?,
    };
    with_netlink(a.namespace.as_deref(), "add the veth", &a.link, |netlink| {
        let ends = [a, b].map(|end| netlink::VethEnd { name: &end.link, mac: end.mac });
        netlink.add_veth(ends[0], ends[1], b_namespace.as_fd())
    })
}

/// Disables IPv6 from a thread inside the namespace, because only such a thread sees the namespace's sysctls.
fn disable_ipv6(name: &str) -> Result<(), HostError> {
    namespace::inside(Some(name), || {
        for which in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
            let path = Path::new(&path);
            match write_value(path, "1") {
                // A kernel without IPv6 has nothing to disable.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other.map_err(HostError::system("disable IPv6", name))?,
            }
        }
        Ok(())
    })?
}

fn set_sysctl(namespace: &str, name: &str, value: &str) -> Result<(), HostError> {
    let path = Path::new("/proc/sys").join(name);
    let written = namespace::inside(Some(namespace), || write_value(&path, value))?;
    written.map_err(HostError::system("set the sysctl", format!("{namespace}:{name}")))
}

/// Converts the content of a file to the value to write back. Some files in /sys list all choices and mark
/// the current one, as in `always [madvise] never`, but accept only a single choice.
fn written_value<'a>(path: &Path, text: &'a str) -> &'a str {
    let text = text.trim_end_matches('\n');
    let is_choice = path.components().any(|part| part.as_os_str() == "sys") && !text.contains('\n');
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(chosen, _)| chosen);
    chosen.filter(|chosen| is_choice && !chosen.contains(' ')).unwrap_or(text)
}

/// Outcome of undoing a step.
#[derive(Debug, Default)]
pub(crate) struct StepUndone {
    /// Processes that were still inside a namespace.
    pub killed: Vec<i32>,
    /// Remark about anything that was not undone, with the reason.
    pub remark: Option<String>,
}

/// Undoes a step. `of_others` is the number of huge pages that other runs have added.
pub(crate) fn undo(step: &Step, before: &Before, of_others: u64) -> Result<StepUndone, HostError> {
    let mut undone = StepUndone::default();
    match (step, before) {
        (Step::PrepareNamespaces, Before::Folder(state)) => {
            undone.remark = namespace::restore_folder(*state)?
        }
        (Step::AddNamespace { name }, _) => undone.killed = namespace::remove(name)?,
        (Step::AddVeth { a, .. }, _) => delete_link(a.namespace.as_deref(), &a.link)?,
        (Step::AddBridge { namespace, name, .. }, _) => delete_link(namespace.as_deref(), name)?,
        (Step::AddTap { namespace, link, .. }, _) => delete_link(namespace.as_deref(), link)?,
        (Step::SetUp { namespace: None, link }, Before::Link { up: false, .. }) => {
            on_the_host("set the link down", link, |netlink| netlink.set_up(link, false))?;
        }
        (Step::SetMtu { namespace: None, link, .. }, Before::Link { mtu, .. }) => {
            on_the_host("set the MTU", link, |netlink| netlink.set_mtu(link, *mtu))?;
        }
        (Step::AddAddress { namespace: None, link, address, prefix_len }, _) => {
            on_the_host("remove the address", link, |n| n.delete_address(link, *address, *prefix_len))?;
        }
        (Step::AddNeighbour { namespace: None, link, address, .. }, _) => {
            on_the_host("remove the neighbour", link, |netlink| netlink.delete_neighbour(link, *address))?;
        }
        (Step::AddRoute { namespace: None, link, destination, prefix_len, gateway }, _) => {
            on_the_host("remove the route", link, |netlink| {
                netlink.delete_route(link, (*destination, *prefix_len), *gateway)
            })?;
        }
        (Step::SetGro { namespace, link, .. }, Before::Gro { on }) => {
            restore_gro(namespace.as_deref(), link, *on)?
        }
        (Step::WriteFile { path, .. }, Before::Value(value)) => undone.remark = restore_value(path, value)?,
        (Step::AddFile { path, text }, Before::File(before)) => {
            undone.remark = configuration::put_back(path, text, before)?;
        }
        (Step::AddDirectory { path }, _) => match remove_folder(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(HostError::file("remove the folder", path)(error));
            }
            _ => {}
        },
        (Step::AddHugePages { pages }, before) => {
            let (of_nobody, is_certain) = match before {
                Before::HugePages { of_nobody, is_added } => (*of_nobody, *is_added),
                // The journal was written by an older version that did not record the number of huge pages.
                _ => (0, true),
            };
            let added = hugepages::Added { pages: *pages, of_nobody, is_certain, of_others };
            undone.remark = hugepages::remove(Path::new("/"), added)?;
        }
        (Step::AddTraceInstance { name }, _) => tracefs::remove(name)?,
        (Step::AddContainer { container }, _) => undone.killed = deploy::remove(container)?,
        (Step::MoveTasks { from, to, .. }, _) if to.is_dir() => tasks::move_all(to, from, &[])?,
        // Settings inside a namespace of the run disappear with the namespace.
        _ => {}
    }
    Ok(undone)
}

/// Removes a folder and any sockets that a killed program left in it.
fn remove_folder(path: &Path) -> io::Result<()> {
    let removed = fs::remove_dir(path);
    if !removed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty) {
        return removed;
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_socket() {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir(path)
}

fn restore_value(path: &Path, value: &str) -> Result<Option<String>, HostError> {
    match fs::read_to_string(path) {
        Ok(present) if written_value(path, &present) == value => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Some(format!("{} no longer exists; its value was {value:?}", path.display())))
        }
        _ => write_value(path, value).map(|()| None).map_err(HostError::file("restore the value of", path)),
    }
}

fn delete_link(namespace: Option<&str>, link: &str) -> Result<(), HostError> {
    if let Some(name) = namespace
        && !is_mounted(name)?
    {
        return Ok(());
    }
    gone_is_fine(with_netlink(namespace, "remove the link", link, |netlink| netlink.delete(link)))
}

fn restore_gro(namespace: Option<&str>, link: &str, on: bool) -> Result<(), HostError> {
    if let Some(name) = namespace
        && !is_mounted(name)?
    {
        return Ok(());
    }
    gone_is_fine(with_generic(namespace, "restore GRO", link, |netlink| netlink.set_gro(link, on)))
}

/// Whether a namespace is mounted under this name. A run that is killed between creating the name and
/// mounting the namespace leaves a name without a namespace.
fn is_mounted(name: &str) -> Result<bool, HostError> {
    match Namespace::new(name)?.inside(|| ()) {
        Ok(()) => Ok(true),
        Err(HostError::System { source, .. })
            if source.kind() == io::ErrorKind::NotFound || is(&source, Errno::INVAL) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn on_the_host(
    doing: &'static str,
    link: &str,
    work: impl FnOnce(&mut Netlink) -> io::Result<()>,
) -> Result<(), HostError> {
    gone_is_fine(with_netlink(None, doing, link, work))
}

fn gone_is_fine(result: Result<(), HostError>) -> Result<(), HostError> {
    match result {
        Err(HostError::System { source, .. })
            if [Errno::NODEV, Errno::NOENT, Errno::ADDRNOTAVAIL, Errno::SRCH]
                .iter()
                .any(|errno| is(&source, *errno)) =>
        {
            Ok(())
        }
        other => other,
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_and_existing_link_names() {
        for wrong in ["", "a-name-of-16-byte", "a/b", "a b"] {
            assert!(matches!(link_is_free(None, wrong), Err(HostError::Name { .. })), "{wrong:?}");
        }
        assert!(matches!(link_is_free(None, "lo"), Err(HostError::Exists { .. })));
    }

    #[test]
    fn writes_back_only_the_selected_word_of_a_choice() {
        let value = |path: &str, text| written_value(Path::new(path), text).to_owned();
        assert_eq!(
            value("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            "madvise"
        );
        assert_eq!(value("/proc/irq/9/smp_affinity", "f\n"), "f");
        assert_eq!(value("/etc/x", "a [b] c\n"), "a [b] c");
    }

    #[test]
    fn removes_folder_with_sockets_but_not_with_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sockets");
        let step = Step::AddDirectory { path: path.clone() };
        make(&step, &Before::Nothing).expect("made");
        std::os::unix::net::UnixListener::bind(path.join("to1")).expect("a socket");
        fs::write(path.join("file"), "not ours").expect("written");
        undo(&step, &Before::Nothing, 0).expect_err("another program's file is in it");
        assert!(path.join("file").exists() && !path.join("to1").exists());
        fs::remove_file(path.join("file")).expect("removed");
        undo(&step, &Before::Nothing, 0).expect("empty");
        assert!(!path.exists());
    }

    #[test]
    fn undoing_missing_object_succeeds() {
        let folder = tempfile::tempdir().expect("a folder");
        let step = Step::AddDirectory { path: folder.path().join("none") };
        undo(&step, &Before::Nothing, 0).expect("nothing to do");
        let step = Step::WriteFile { path: folder.path().join("none"), value: "1".into(), may_refuse: false };
        let undone = undo(&step, &Before::Value("0".into()), 0).expect("nothing to do");
        assert!(undone.remark.is_some_and(|remark| remark.contains("no longer exists")));
    }
}
