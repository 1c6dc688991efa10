//! Where the processes of an engine listen, for the message about one that does not answer.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use pipeline::process::group_members;

/// The state of a socket that listens, in the tables of the kernel.
const LISTENS: &str = "0A";

/// Returns what to do if the processes of an engine's group listen, but not at the port at which it is expected on this
/// machine; `None` if they listen there or nowhere, or if it is unknown.
pub(crate) fn elsewhere(leader: u32, port: u16) -> Option<String> {
    let all = addresses(leader);
    let there = |address: &SocketAddr| address.port() == port && is_reached(*address);
    if all.is_empty() || all.iter().any(there) {
        return None;
    }
    let all: Vec<String> = all.iter().map(SocketAddr::to_string).collect();
    Some(format!(
        "it listens on {}, and not on 127.0.0.1:{port}, where Benchtrail asks: check `{{host}}` and `{{port}}` in \
         `launch.arguments`, or raise `ready.timeout-s` if it needs more time",
        all.join(", ")
    ))
}

/// Returns whether a client that connects to 127.0.0.1 reaches an address.
fn is_reached(address: SocketAddr) -> bool {
    match address.ip() {
        std::net::IpAddr::V4(ip) => ip.is_unspecified() || ip == Ipv4Addr::LOCALHOST,
        std::net::IpAddr::V6(ip) => {
            ip.is_unspecified() || ip.to_ipv4_mapped() == Some(Ipv4Addr::LOCALHOST)
        }
    }
}

/// Returns the TCP addresses on which the processes of a group listen; none if the kernel does not say.
fn addresses(leader: u32) -> BTreeSet<SocketAddr> {
    let mut sockets = BTreeSet::new();
    for member in group_members(leader).unwrap_or_default() {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", member.id.pid));
        let links = descriptors.into_iter().flatten().flatten();
        let links = links.filter_map(|entry| fs::read_link(entry.path()).ok());
        sockets.extend(links.filter_map(|link| {
            let name = link.to_str()?.strip_prefix("socket:[")?;
            Some(name.trim_end_matches(']').to_owned())
        }));
    }
    // The engine shares the network of this process.
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let tables = tables.map(|table| fs::read_to_string(table).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines());
    let listening = lines.filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, address, _, LISTENS, _, _, _, _, _, socket, ..] = words[..] else {
            return None;
        };
        sockets.contains(socket).then(|| parse(address)).flatten()
    });
    listening.collect()
}

/// Parses an address of the kernel's tables: words of 32 bits in the machine's order, as hexadecimal digits.
fn parse(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = (0..ip.len()).step_by(8).map(|at| ip.get(at..at + 8));
    let words = words.map(|word| u32::from_str_radix(word?, 16).ok());
    let bytes: Vec<u8> = words
        .map(|word| word.map(u32::to_ne_bytes))
        .collect::<Option<Vec<_>>>()?
        .concat();
    if let Ok(bytes) = <[u8; 4]>::try_from(&bytes[..]) {
        return Some((Ipv4Addr::from(bytes), port).into());
    }
    let bytes = <[u8; 16]>::try_from(&bytes[..]).ok()?;
    Some((Ipv6Addr::from(bytes), port).into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_process_that_listens_elsewhere_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = pipeline::process::stat(std::process::id());
        let group = own.unwrap().unwrap().pgid;
        let all = addresses(group);
        // In a sandbox, the group may be unknown.
        if all.contains(&listener.local_addr().unwrap()) {
            assert_eq!(elsewhere(group, port), None);
            let hint = elsewhere(group, 1).unwrap();
            assert!(hint.contains(&format!("127.0.0.1:{port}")), "{hint}");
        }
    }

    #[test]
    fn addresses_of_the_kernel_are_read() {
        let one = u32::from_ne_bytes([127, 0, 0, 1]);
        let parsed = parse(&format!("{one:08X}:1F90"));
        assert_eq!(parsed, "127.0.0.1:8080".parse().ok());
        let last = u32::from_ne_bytes([0, 0, 0, 1]);
        let parsed = parse(&format!("{:024X}{last:08X}:0050", 0));
        assert_eq!(parsed, "[::1]:80".parse().ok());
        assert_eq!(parse("xyz"), None);
        for (address, reached) in [
            ("127.0.0.1:1", true),
            ("0.0.0.0:1", true),
            ("[::]:1", true),
            ("[::1]:1", false),
            ("10.0.0.1:1", false),
        ] {
            assert_eq!(is_reached(address.parse().unwrap()), reached, "{address}");
        }
    }
}
