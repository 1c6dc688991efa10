use super::*;

fn outputs(document: Json) -> BTreeMap<String, Json> {
    serde_json::from_value(document).unwrap()
}

#[test]
fn a_machine_is_reached_by_what_its_module_tells() {
    let folder = tempfile::tempdir().unwrap();
    let configured = configuration(
        &outputs(
            json!({"host": "10.0.0.7", "user": "ubuntu", "port": 2222, "key_path": "key.pem",
                "host_key": "ssh-ed25519 AAAA"}),
        ),
        folder.path(),
    )
    .unwrap();
    let key = folder.path().join("module/key.pem");
    for line in [
        "HostName \"10.0.0.7\"",
        "User \"ubuntu\"",
        "Port \"2222\"",
        &format!("IdentityFile \"{}\"", key.display()),
        "StrictHostKeyChecking yes",
    ] {
        assert!(configured.contains(line), "{line} is not in {configured}");
    }
    let known_hosts = fs::read_to_string(folder.path().join("known_hosts")).unwrap();
    assert_eq!(known_hosts, "[10.0.0.7]:2222 ssh-ed25519 AAAA\n");
}

#[test]
fn what_a_module_tells_cannot_add_a_line_to_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = |document| configuration(&outputs(document), folder.path()).unwrap_err();
    assert_eq!(wrong(json!({})), "it has no output `host`");
    for host in ["a\n  ProxyCommand x", "a\" b", ""] {
        let message = wrong(json!({ "host": host }));
        assert!(
            message.contains("cannot be used in an SSH configuration"),
            "{message}"
        );
    }
    assert!(wrong(json!({"host": ["a"]})).contains("not a text"));
}

#[test]
fn what_a_module_marks_as_sensitive_is_not_kept() {
    let declared = json!({"host": {"value": "h", "sensitive": false}, "token": {"value": "t", "sensitive": true}});
    let shown = shown(declared.as_object().unwrap());
    assert_eq!(shown, outputs(json!({"host": "h"})));
}
