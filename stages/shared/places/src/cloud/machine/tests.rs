use super::*;

/// Files on this machine, and no definitions.
struct Nothing;

impl pipeline::Library for Nothing {
    fn find(&self, _: &str, _: &str) -> Option<Json> {
        None
    }

    fn names(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Returns a planned machine of a module that tells no address.
fn planned(folder: &Path) -> Cloud {
    let module = folder.join("module");
    fs::create_dir_all(&module).unwrap();
    let name = folder.display();
    fs::write(module.join("main.tf"), format!("# {name}\n")).unwrap();
    let mut cloud: Cloud = serde_json::from_value(json!({
        "module": module, "cost-per-hour": 1.0, "budget": 1.0,
    }))
    .unwrap();
    cloud.pin(&Nothing).unwrap();
    cloud
}

/// Returns a rented machine of a study with so many users. Its keeper ends like any other, and has nothing to destroy.
fn kept(cloud: &Cloud, folder: &Path, now: usize) -> Arc<Rented> {
    let meter = Meter {
        experiment: "study".to_owned(),
        state: State::Gone,
        owner: ProcessId::own().unwrap(),
        keeper: None,
        scope: Scope::here().unwrap(),
        since: 0,
        until: 0,
        cost_per_hour: 1.0,
        currency: "EUR".to_owned(),
        program: "tofu".into(),
        variables: Vec::new(),
    };
    meter.write(folder).unwrap();
    let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let keeper = Keeper {
        child,
        pulse: Some(channel().0),
        said: channel().1,
        ending: None,
    };
    let one = Arc::new(Rented {
        name: format!("study {}", cloud.name()),
        folder: folder.to_owned(),
        keeper: Mutex::new(keeper),
        outputs: BTreeMap::new(),
        users: Mutex::new(Users {
            now,
            ..Users::default()
        }),
    });
    rented().push(Arc::clone(&one));
    one
}

fn is_rented(machine: &Arc<Rented>) -> bool {
    rented().iter().any(|one| Arc::ptr_eq(one, machine))
}

#[test]
fn a_machine_that_cannot_be_reached_is_given_back_at_once_unless_others_use_it() {
    let folder = tempfile::tempdir().unwrap();
    let cloud = planned(folder.path());
    let store = folder.path().join("store");
    let reach = || {
        let (files, control) = (NamedFiles::default(), Control::quiet());
        rent(&cloud, &store, &files, "study", &control).unwrap_err()
    };
    let machine = kept(&cloud, folder.path(), 1);
    assert!(reach().reason.contains("it has no output `host`"));
    assert!(is_rented(&machine) && machine.check().is_ok());
    assert_eq!(machine.users().now, 1, "the other user");
    // Without the other user, who releases it first.
    machine.users().now = 0;
    assert!(reach().hint.unwrap().contains("output \"host\""));
    assert!(!is_rented(&machine) && machine.check().is_err());
    assert_eq!(
        machine.join().unwrap_err().reason,
        "the machine is being given back"
    );
}

#[test]
fn a_machine_that_is_being_given_back_gets_no_other_user() {
    let folder = tempfile::tempdir().unwrap();
    let machine = kept(&planned(folder.path()), folder.path(), 0);
    machine.join().unwrap();
    assert_eq!(machine.users().now, 1);
    let returned = machine.abandon().expect("it is given back");
    assert_eq!(
        (returned.folder.as_path(), returned.stuck),
        (folder.path(), None)
    );
    // Its keeper would still answer.
    let machine = kept(&planned(folder.path()), folder.path(), 0);
    machine.users().over = true;
    assert!(machine.check().is_ok() && machine.join().is_err());
    assert_eq!(machine.users().now, 0);
    assert!(give_back(&machine).is_some());
    assert!(give_back(&machine).is_none(), "only once");
}

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
