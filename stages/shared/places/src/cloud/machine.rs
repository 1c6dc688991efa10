//! Renting a machine, from the run's side: the offer, starting the keeper, reaching the machine over SSH, returning it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipeline::executable::find;
use pipeline::lease::Scope;
use pipeline::process::ProcessId;
use pipeline::sources::NamedFiles;
use pipeline::{Control, Failure, Json};
use serde_json::json;

use super::keeper::{LOG, MODULE, Order, destroy, destruction, last_words};
use super::meter::{self, Meter, State, now};
use super::settings::{Cloud, Terms};
use crate::beat::beat;
use crate::host::Host;
use crate::{COMMAND, Ssh};

/// The machine's name in the OpenSSH configuration written for it.
const ALIAS: &str = "benchtrail-rented";
const POLL: Duration = Duration::from_millis(100);
/// The time between two SSH attempts on a booting machine.
const KNOCK: Duration = Duration::from_secs(3);
/// How long a machine stays when no cell needs it. The next cell may need it right away.
const LINGER: Duration = Duration::from_secs(120);

/// What the user is asked before a machine is rented.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offer {
    /// The program that makes the machine.
    pub program: String,
    /// The module, as the experiment names it.
    pub module: String,
    /// The files of the module, each with its digest.
    pub files: BTreeMap<String, String>,
    /// The cost of everything per hour.
    pub cost_per_hour: f64,
    /// The most that the experiment may cost.
    pub budget: f64,
    /// The currency of both.
    pub currency: String,
}

/// Returns the offer for a machine; `None` if the machine was not planned in this process.
pub fn offer(cloud: &Cloud) -> Option<Offer> {
    let terms = cloud.terms()?;
    let program = program(&terms).map_or_else(|_| "tofu".to_owned(), |p| p.display().to_string());
    let files = terms.files.iter();
    Some(Offer {
        program,
        module: terms.module.clone(),
        files: files
            .map(|(name, source)| (name.clone(), source.digest.to_string()))
            .collect(),
        cost_per_hour: terms.cost_per_hour,
        budget: terms.budget,
        currency: terms.currency,
    })
}

impl Cloud {
    /// Looks for the program that makes the machine.
    ///
    /// # Errors
    /// If the program is missing.
    pub fn ready(&self) -> Result<(), Failure> {
        match self.terms() {
            Some(terms) => program(&terms).map(drop),
            None => Ok(()),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the user's search path decides where the program is"
)]
fn program(terms: &Terms) -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names: Vec<&str> = match &terms.program {
        Some(one) => vec![one],
        None => vec!["tofu", "terraform"],
    };
    for name in &names {
        if let Some(program) = find(name, std::env::split_paths(&path)) {
            return std::path::absolute(program).map_err(|e| Failure::failed(e.to_string()));
        }
    }
    let reason = format!(
        "there is no `{}` on the search path",
        names.join("` and no `")
    );
    Err(Failure::failed(reason).hint("install OpenTofu or Terraform, or name it with `program`"))
}

/// A rented machine. It is given back when [`give_back_all`] is called, some time after its last user releases it, or at
/// once if its last user could not reach it.
#[derive(Debug)]
pub struct Rented {
    name: String,
    folder: PathBuf,
    keeper: Mutex<Keeper>,
    /// The module's outputs, without those marked as sensitive.
    outputs: BTreeMap<String, Json>,
    users: Mutex<Users>,
}

#[derive(Debug, Default)]
struct Users {
    now: usize,
    /// How often the last user has released the machine.
    idle: u64,
    /// Whether the machine is being given back, so that it gets no other user.
    over: bool,
}

#[derive(Debug)]
struct Keeper {
    child: Child,
    pulse: Option<Sender<()>>,
    said: Receiver<Json>,
    /// Why it ends without a request.
    ending: Option<String>,
}

/// A machine that was given back.
#[derive(Clone, Debug, PartialEq)]
pub struct Returned {
    /// The folder with its state and its log.
    pub folder: PathBuf,
    /// The machine's cost.
    pub cost: f64,
    /// The currency of the cost.
    pub currency: String,
    /// Why something may still exist, and the command that destroys it.
    pub stuck: Option<(String, String)>,
}

/// The machines that this process has rented.
static RENTED: Mutex<Vec<Arc<Rented>>> = Mutex::new(Vec::new());

fn rented() -> MutexGuard<'static, Vec<Arc<Rented>>> {
    RENTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rents a machine, or shares the one that this process has rented for the same module and variables.
///
/// # Errors
/// If the budget is spent, the module cannot be applied, or SSH does not answer in time. Nothing is left behind then,
/// unless others use the machine, or the hint says what could not be destroyed.
pub fn rent(
    cloud: &Cloud,
    store: &Path,
    files: &NamedFiles,
    experiment: &str,
    control: &Control,
) -> Result<(Arc<Rented>, Host), Failure> {
    let name = format!("{experiment} {}", cloud.name());
    let mut shared = rented().clone();
    shared.retain(|one| one.name == name);
    let terms = cloud.terms().ok_or_else(|| {
        Failure::failed("the module was not planned in this process").hint("run again")
    })?;
    let machine = match shared.into_iter().find(|one| one.join().is_ok()) {
        Some(one) => one,
        None => {
            for left in sweep(store, control).map_err(|e| Failure::failed(e.to_string()))? {
                if let Some((why, command)) = left.stuck {
                    let reason =
                        format!("an earlier machine of this store could not be destroyed: {why}");
                    return Err(Failure::failed(reason)
                        .hint(format!("destroy it yourself, then run again: {command}")));
                }
            }
            let one = Arc::new(start(
                cloud,
                (&terms, files),
                &name,
                store,
                experiment,
                control,
            )?);
            rented().push(Arc::clone(&one));
            one
        }
    };
    match reach(&machine, cloud, &terms, control) {
        Ok(host) => Ok((machine, host)),
        Err(failure) => {
            let left = machine.abandon().and_then(|returned| returned.stuck);
            Err(match left {
                Some(left) => failure.hint(undestroyed(left)),
                None => failure,
            })
        }
    }
}

/// Returns the hint on what could not be destroyed, given why, and the command that destroys it.
fn undestroyed((why, command): (String, String)) -> String {
    format!("the resources that the module had created could not be destroyed ({why}): {command}")
}

/// Returns what the rented machines of an experiment have cost so far, in one currency.
///
/// # Errors
/// If the folders of the machines in the store cannot be read.
pub fn spent(store: &Path, experiment: &str, currency: &str) -> io::Result<f64> {
    let machines = meter::all(store)?;
    let own = machines
        .iter()
        .filter(|(_, m)| m.experiment == experiment && m.currency == currency);
    // The sum of no numbers is −0.
    Ok(own.fold(0.0, |sum, (_, m)| sum + m.cost()))
}

fn start(
    cloud: &Cloud,
    (terms, files): (&Terms, &NamedFiles),
    name: &str,
    store: &Path,
    experiment: &str,
    control: &Control,
) -> Result<Rented, Failure> {
    let program = program(terms)?;
    let faulty = |e: io::Error| Failure::failed(format!("a folder for the machine: {e}"));
    let spent = spent(store, experiment, &terms.currency).map_err(faulty)?;
    let left = terms.budget - spent;
    if left <= 0.0 {
        let currency = &terms.currency;
        let reason = format!(
            "the budget is spent: {spent:.2} of {:.2} {currency}",
            terms.budget
        );
        return Err(Failure::failed(reason).hint("raise `place.cloud.budget` to continue"));
    }
    let folder = meter::new_folder(store).map_err(faulty)?;
    copy_module(terms, files, &folder.join(MODULE))?;
    let variables = cloud.variables.iter().map(|(name, value)| match value {
        Json::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    let order = Order {
        meter: Meter {
            experiment: experiment.to_owned(),
            state: State::Rented,
            owner: ProcessId::own().map_err(faulty)?,
            keeper: None,
            scope: Scope::here().map_err(faulty)?,
            since: now(),
            until: now(),
            cost_per_hour: terms.cost_per_hour,
            currency: terms.currency.clone(),
            program,
            variables: variables.collect(),
        },
        limit_s: left / terms.cost_per_hour * 3600.0,
    };
    order.write(&folder).map_err(faulty)?;
    // Nothing is made before the keeper runs. From then on, the meter names the machine.
    order.meter.write(&folder).map_err(faulty)?;
    order.meter.note(&folder).map_err(faulty)?;
    let mut keeper = Keeper::start(&folder).map_err(faulty)?;
    let what = format!("creating the machine of {}", terms.module);
    let begun = Instant::now();
    let answer = loop {
        match keeper.said.recv_timeout(POLL) {
            Ok(answer) => break answer,
            Err(RecvTimeoutError::Disconnected) => {
                let reason = format!("the keeper of the machine ended: {}", last_words(&folder));
                drop(keeper.finish(&folder));
                return Err(Failure::failed(reason));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        control.progress(begun.elapsed().as_secs(), None, what.clone());
        if let Err(stopped) = control.check() {
            drop(keeper.finish(&folder));
            return Err(stopped);
        }
    };
    let outputs = match (&answer["ready"], answer["failed"].as_str()) {
        (Json::Object(outputs), _) => shown(outputs),
        (_, why) => {
            let why = why.unwrap_or("the keeper gave no usable answer").to_owned();
            let returned = keeper.finish(&folder);
            let mut failure = Failure::failed(format!("the module {}: {why}", terms.module));
            failure = match returned.stuck {
                Some(left) => failure.hint(undestroyed(left)),
                None => failure.hint(format!(
                    "nothing is left; the complete output is in {}",
                    folder.join(LOG).display()
                )),
            };
            return Err(failure);
        }
    };
    Ok(Rented {
        name: name.to_owned(),
        folder,
        keeper: Mutex::new(keeper),
        outputs,
        // The one that rents it.
        users: Mutex::new(Users {
            now: 1,
            ..Users::default()
        }),
    })
}

/// Returns the outputs of a module by name, without those marked as sensitive.
fn shown(outputs: &serde_json::Map<String, Json>) -> BTreeMap<String, Json> {
    let shown = outputs
        .iter()
        .filter(|(_, o)| o["sensitive"] != json!(true));
    shown
        .map(|(name, output)| (name.clone(), output["value"].clone()))
        .collect()
}

fn copy_module(terms: &Terms, files: &NamedFiles, target: &Path) -> Result<(), Failure> {
    for (name, source) in &terms.files {
        let (_, bytes) = files
            .read(&source.digest.to_string())
            .map_err(|e| Failure::failed(e.message).hint(e.hint))?;
        let file = target.join(name);
        let written = file.parent().map_or(Ok(()), fs::create_dir_all);
        written
            .and_then(|()| fs::write(&file, bytes))
            .map_err(|e| Failure::failed(format!("{}: {e}", file.display())))?;
    }
    Ok(())
}

/// Waits until SSH answers on a machine, and copies our binary there.
fn reach(
    machine: &Rented,
    cloud: &Cloud,
    terms: &Terms,
    control: &Control,
) -> Result<Host, Failure> {
    let config = configuration(&machine.outputs, &machine.folder)
        .map_err(|why| Failure::failed(format!("the module {}: {why}", terms.module)).hint(
            "it needs an `output \"host\"` with the address of the machine; `user`, `port`, `key_path` and `host_key` may follow",
        ))?;
    let file = machine.folder.join("ssh_config");
    fs::write(&file, config).map_err(|e| Failure::failed(format!("{}: {e}", file.display())))?;
    let ssh = Ssh {
        host: ALIAS.to_owned(),
        folder: cloud.folder.clone(),
        config: None,
    };
    let begun = Instant::now();
    let limit = Duration::from_secs(u64::from(terms.boot_timeout_s));
    loop {
        let why = match Host::reach_by(&ssh, Some(file.clone()), control) {
            Ok(host) => return Ok(host),
            Err(why) => why,
        };
        control.check()?;
        machine.check()?;
        if begun.elapsed() >= limit {
            return Err(why);
        }
        std::thread::sleep(KNOCK);
    }
}

/// Returns the OpenSSH configuration for the machine that a module made.
fn configuration(outputs: &BTreeMap<String, Json>, folder: &Path) -> Result<String, String> {
    let word = |name: &str| -> Result<Option<String>, String> {
        let text = match outputs.get(name) {
            None | Some(Json::Null) => return Ok(None),
            Some(Json::String(text)) => text.clone(),
            Some(Json::Number(number)) => number.to_string(),
            Some(other) => return Err(format!("its output `{name}` is {other}, not a text")),
        };
        if text.contains(['\n', '\r', '"', '\0']) || text.is_empty() {
            return Err(format!(
                "its output `{name}` cannot be used in an SSH configuration"
            ));
        }
        Ok(Some(text))
    };
    let host = word("host")?.ok_or("it has no output `host`")?;
    let known_hosts = folder.join("known_hosts");
    let mut lines = vec![
        format!("Host {ALIAS}"),
        format!("  HostName \"{host}\""),
        format!("  UserKnownHostsFile \"{}\"", known_hosts.display()),
    ];
    for (output, option) in [("user", "User"), ("port", "Port")] {
        lines.extend(word(output)?.map(|value| format!("  {option} \"{value}\"")));
    }
    if let Some(path) = word("key_path")? {
        // A relative path starts at the module's folder.
        let path = folder.join(MODULE).join(path);
        lines.push(format!("  IdentityFile \"{}\"", path.display()));
        lines.push("  IdentitiesOnly yes".to_owned());
    }
    match word("host_key")? {
        Some(key) => {
            let port = word("port")?.filter(|port| port != "22");
            let named = port.map_or_else(|| host.clone(), |port| format!("[{host}]:{port}"));
            fs::write(&known_hosts, format!("{named} {}\n", key.trim()))
                .map_err(|e| e.to_string())?;
            lines.push("  StrictHostKeyChecking yes".to_owned());
        }
        // The key of a new machine is not known to anyone yet.
        None => lines.push("  StrictHostKeyChecking accept-new".to_owned()),
    }
    lines.push(String::new());
    Ok(lines.join("\n"))
}

impl Keeper {
    fn start(folder: &Path) -> io::Result<Self> {
        let log = fs::File::create(folder.join("keeper.txt"))?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg(COMMAND)
            .arg(folder)
            .arg("keep")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // The keeper outlives a killed run, and keys pressed in the terminal do not reach it.
            .process_group(0)
            .spawn()?;
        let (pulse, stop) = channel();
        let (sender, said) = channel();
        if let (Some(pipe), Some(out)) = (child.stdin.take(), child.stdout.take()) {
            beat(pipe, stop);
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    let document = serde_json::from_str(&line);
                    if document.is_ok_and(|document| sender.send(document).is_err()) {
                        return;
                    }
                }
            });
        }
        Ok(Self {
            child,
            pulse: Some(pulse),
            said,
            ending: None,
        })
    }

    /// Requests the end, and waits until everything is destroyed. If the keeper was killed, destroys everything itself.
    fn finish(&mut self, folder: &Path) -> Returned {
        drop(self.pulse.take());
        let _its_meter_tells_more = self.child.wait();
        let mut meter = match Meter::read(folder) {
            Ok(meter) => meter,
            Err(e) => {
                return Returned {
                    folder: folder.to_owned(),
                    cost: 0.0,
                    currency: String::new(),
                    stuck: Some((e.to_string(), folder.join(LOG).display().to_string())),
                };
            }
        };
        let mut stuck = None;
        if meter.state != State::Gone
            && let Err(why) = destroy(folder, &mut meter)
        {
            stuck = Some((why, destruction(folder, &meter).join(" ")));
        }
        Returned {
            folder: folder.to_owned(),
            cost: meter.cost(),
            currency: meter.currency,
            stuck,
        }
    }
}

impl Rented {
    /// Returns the module's outputs, without those marked as sensitive.
    pub fn outputs(&self) -> &BTreeMap<String, Json> {
        &self.outputs
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the machine still exists.
    ///
    /// # Errors
    /// If it is ending or has ended: the budget is spent, or the keeper was killed.
    pub fn check(&self) -> Result<(), Failure> {
        let mut keeper = self.keeper();
        let ending = keeper.said.try_iter().last();
        if let Some(why) = ending.and_then(|status| status["ending"].as_str().map(str::to_owned)) {
            keeper.ending = Some(why);
        }
        if let Some(why) = &keeper.ending {
            return Err(Failure::failed(why.clone()));
        }
        match keeper.child.try_wait() {
            Ok(None) if keeper.pulse.is_some() => Ok(()),
            _ => Err(Failure::failed(
                "the machine was given back, or its keeper was killed",
            )),
        }
    }

    /// Begins to use the machine.
    ///
    /// # Errors
    /// Same as [`Self::check`].
    fn join(&self) -> Result<(), Failure> {
        // Under one lock: nobody decides in between that the machine is unused.
        let mut users = self.users();
        if users.over {
            return Err(Failure::failed("the machine is being given back"));
        }
        self.check()?;
        users.now += 1;
        Ok(())
    }

    /// Releases a machine that could not be reached, and gives it back unless others use it: it costs money.
    fn abandon(self: &Arc<Self>) -> Option<Returned> {
        let mut users = self.users();
        users.now = users.now.saturating_sub(1);
        users.over |= users.now == 0;
        let is_unused = users.over;
        drop(users);
        is_unused.then(|| give_back(self)).flatten()
    }

    /// Releases the machine. It is given back if it stays unused for a while.
    pub fn let_go(self: &Arc<Self>) {
        let mut users = self.users();
        users.now = users.now.saturating_sub(1);
        if users.now > 0 {
            return;
        }
        users.idle += 1;
        let (one, idle) = (Arc::clone(self), users.idle);
        drop(users);
        std::thread::spawn(move || {
            std::thread::sleep(LINGER);
            let mut users = one.users();
            let is_unused = users.now == 0 && users.idle == idle;
            users.over |= is_unused;
            drop(users);
            if is_unused {
                give_back(&one);
            }
        });
    }
}

fn give_back(machine: &Arc<Rented>) -> Option<Returned> {
    rented().retain(|one| !Arc::ptr_eq(one, machine));
    let mut keeper = machine.keeper();
    keeper
        .pulse
        .is_some()
        .then(|| keeper.finish(&machine.folder))
}

/// Gives back all machines that this process has rented, at the end of a run. Returns the result for each.
pub fn give_back_all() -> Vec<Returned> {
    let all: Vec<Arc<Rented>> = rented().clone();
    all.iter().filter_map(give_back).collect()
}

/// Destroys machines that earlier runs with a store left behind because both run and keeper were killed.
///
/// # Errors
/// If the store cannot be read.
pub fn sweep(store: &Path, control: &Control) -> io::Result<Vec<Returned>> {
    let mut returned = Vec::new();
    for (folder, mut meter) in meter::all(store)? {
        if !meter.is_left()? {
            continue;
        }
        let ended = if meter.is_noted(&folder) {
            control.progress(0, None, "destroying a machine that an earlier run left");
            destroy(&folder, &mut meter)
        } else {
            // The meter names a program, and a program from another user's meter must not be started.
            Err("it was not rented by you, or its store was moved".to_owned())
        };
        let stuck = ended
            .err()
            .map(|why| (why, destruction(&folder, &meter).join(" ")));
        returned.push(Returned {
            folder,
            cost: meter.cost(),
            currency: meter.currency,
            stuck,
        });
    }
    Ok(returned)
}

#[cfg(test)]
mod tests;
