//! The process of a generator.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use artifacts::Digest;
use contract::{Chunk, Phase, Request};
use pipeline::stage::Control;

use super::assignment::{Numbers, Part, Whole};
use super::deal;
use super::messages::{Account, GREETING, LONGEST_ORDER, Order, Sign, Word, read, write};
use crate::drive::{Sending, Sent, expected_requests, schema, unread};
use crate::measure::{Epoch, Gate, Shared, Stop, instant_and_monotonic};
use crate::ordered::{Ordered, Rows, WAITING_BYTES};
use crate::prompts::FileCounter;
use crate::refused::Refusal;
use crate::render::{Renderer, Rendering};
use crate::run::{Ending, LoadError};
use crate::watching::Refused;
use crate::workload::Tokenizer;

/// The hidden subcommand under which a program offers [`generate_process`].
pub const GENERATOR_COMMAND: &str = "__generate";

/// The time between two signs of life.
const SIGN: Duration = Duration::from_millis(200);

/// The approximate number of chunks and requests in one message.
const ROWS_AT_ONCE: usize = 1024;

/// The number of received orders that may wait.
const PARTS_WAITING: usize = 4;

/// Sends a part of a load: reads its orders from `input`, and writes its messages to `output`. If `input` closes before the
/// last message, this process exits at once, because the coordinator is gone.
///
/// # Errors
/// If `output` is gone.
pub fn generate_process(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // A suspended process does not notice that its input is closed.
        let _refused =
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    }
    let line = Arc::new(Line {
        output: Mutex::new(Box::new(BufWriter::new(output))),
        shared: OnceLock::new(),
        stop: Mutex::new(None),
        over: AtomicBool::new(false),
    });
    line.say(&Word::Greeting(GREETING.to_owned()))?;
    let warm = line.clone();
    let gate = Arc::new(Gate::new(move || warm.say_or_end(&Word::Warm)));
    let (sender, orders) = sync_channel(PARTS_WAITING);
    let (heard, opened) = (line.clone(), gate.clone());
    std::thread::Builder::new()
        .name("orders".to_owned())
        .spawn(move || heard.listen(input, &opened, &sender))?;
    let alive = line.clone();
    std::thread::Builder::new()
        .name("signs".to_owned())
        .spawn(move || alive.give_signs())?;
    let last = match generate(&line, &orders, gate) {
        Ok(account) => Word::Done(Box::new(account)),
        Err(LoadError { message, .. }) => Word::Failed(message),
    };
    line.over.store(true, Ordering::Relaxed);
    line.say(&last)
}

/// The connection to the coordinator, in both directions.
struct Line {
    output: Mutex<Box<dyn Write + Send>>,
    shared: OnceLock<Arc<Shared>>,
    stop: Mutex<Option<Stop>>,
    /// Whether the next message is the last one.
    over: AtomicBool,
}

impl Line {
    fn say(&self, word: &Word) -> io::Result<()> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut *output, word)
    }

    /// Sends a message, or exits if the coordinator is gone.
    fn say_or_end(&self, word: &Word) {
        if self.say(word).is_err() {
            std::process::exit(1);
        }
    }

    fn give_signs(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let sign = self.shared.get().map_or_else(Sign::default, |shared| Sign {
                in_flight: shared.in_flight.load(Ordering::Relaxed),
                last_sign_ns: shared.last_sign.load(Ordering::Relaxed),
                answered: shared.answered.load(Ordering::Relaxed),
            });
            self.say_or_end(&Word::Sign(sign));
            std::thread::sleep(SIGN);
        }
    }

    /// Receives orders until the input closes.
    fn listen(&self, input: impl Read, gate: &Gate, parts: &SyncSender<Order>) {
        let mut input = BufReader::new(input);
        loop {
            match read(&mut input, LONGEST_ORDER) {
                Ok(Some(Order::Measure(at_ns))) => gate.open_at(at_ns),
                Ok(Some(Order::Stop(reason))) => self.stop(reason),
                Ok(Some(Order::Clock)) => {
                    let (_, now_ns) = instant_and_monotonic();
                    self.say_or_end(&Word::Clock(now_ns));
                }
                Ok(Some(order)) => {
                    if parts.send(order).is_err() {
                        return;
                    }
                }
                Ok(None) | Err(_) if self.over.load(Ordering::Relaxed) => return,
                Ok(None) | Err(_) => std::process::exit(1),
            }
        }
    }

    fn stop(&self, reason: Stop) {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        if let Some(shared) = self.shared.get() {
            shared.stop(reason);
        }
    }

    /// Lets orders stop the load that begins now.
    fn begins(&self, shared: &Arc<Shared>) {
        let stopped = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        let _first = self.shared.set(shared.clone());
        if let Some(reason) = *stopped {
            shared.stop(reason);
        }
    }
}

/// Receives its part, sends the requests, and hands over the rows.
fn generate(
    line: &Arc<Line>,
    orders: &Receiver<Order>,
    gate: Arc<Gate>,
) -> Result<Account, LoadError> {
    let nothing_more = |_| LoadError::new("its orders ended".to_owned());
    let Order::Assignment(text) = orders.recv().map_err(nothing_more)? else {
        return Err(LoadError::new(
            "the first order is not an assignment".to_owned(),
        ));
    };
    let mut part = Part::begin(&text)?;
    loop {
        match orders.recv().map_err(nothing_more)? {
            Order::Prepare => break,
            order => part.take(order)?,
        }
    }
    let (folder, tokenizer) = (part.assignment.folder(), part.tokenizer.take());
    let whole = part.whole()?;
    let Whole {
        spec,
        target,
        numbers,
        ..
    } = &whole;
    let counter = tokenizer.map(|bytes| counter(spec.workload.tokenizer.as_ref(), &bytes));
    let counter = counter.transpose()?;
    let schema = schema(spec)?;
    let renderer = Renderer {
        spec,
        target,
        servers: whole.servers(),
    };
    let plan = Arc::new(whole.plan(gate));
    let mut rendering = Rendering::new(&renderer, &plan.ahead);
    let rendered = rendering.fill().map_err(|e| unread(&e))?;
    line.say_or_end(&Word::Prepared);
    let Order::Begin(began_ns) = orders.recv().map_err(nothing_more)? else {
        return Err(LoadError::new(
            "it did not receive the start of the clock".to_owned(),
        ));
    };
    let shared = Arc::new(Shared::on(Epoch::began_at(began_ns), numbers.generators));
    line.begins(&shared);
    let figures = line.clone();
    let control = Control::new(
        Arc::new(AtomicBool::new(false)),
        None,
        Box::new(move |progress| {
            if let Some(rates) = progress.rates {
                let done = progress.done;
                figures.say_or_end(&Word::Figures { done, rates });
            }
        }),
    );
    let mut ordered = Ordered::new(folder, WAITING_BYTES);
    let tell = |refusal: Refusal| line.say_or_end(&Word::Refused(refusal));
    let sending = Sending {
        spec,
        target,
        control: &control,
        renderer: &renderer,
        plan: &plan,
        rendering: (!rendered).then_some(rendering),
        shared: &shared,
        schema: schema.as_ref(),
        counter: counter.as_ref(),
        companions: (Vec::new(), SIGN),
        hung_below: None,
        refused: Refused::IsTold(&tell),
    };
    let mut take = |mut request: Request, mut chunks: Vec<Chunk>| {
        renumber(&mut request, &mut chunks, numbers);
        ordered.push(&Rows { request, chunks })
    };
    let Sent {
        ending,
        measured,
        warnings,
        ..
    } = sending.send(&mut take)?;
    let gone = match ending {
        Ending::Gone(server) => Some(server),
        _ => None,
    };
    line.say_or_end(&Word::Sent { gone });
    let Order::HandOver = orders.recv().map_err(nothing_more)? else {
        return Err(LoadError::new("it was not asked for its rows".to_owned()));
    };
    hand_over(line, &ordered)
        .map_err(|e| LoadError::new(format!("the rows cannot be read again: {e}")))?;
    Ok(Account {
        expected_requests: expected_requests(spec, &plan, &measured),
        connections: shared.connections.load(Ordering::Relaxed),
        measured,
        warnings,
    })
}

/// Makes the token counter from the bytes of the workload's tokenizer.
fn counter(tokenizer: Option<&Tokenizer>, bytes: &[u8]) -> Result<FileCounter, LoadError> {
    let name = match tokenizer {
        Some(Tokenizer::File(file)) => file.file.as_str(),
        Some(Tokenizer::Server(_)) | None => "",
    };
    let digest = Digest::of(bytes).to_string();
    FileCounter::of_bytes(name, bytes, digest).map_err(|e| LoadError::new(e.to_string()))
}

/// Numbers the rows of an attempt as with one generator.
fn renumber(request: &mut Request, chunks: &mut [Chunk], numbers: &Numbers) {
    let index = request.prompt_index.unwrap_or_default();
    request.request_id = match request.phase {
        Phase::Warmup => index,
        Phase::Measured => i64::try_from(numbers.warmup).unwrap_or_default() + index,
    };
    for chunk in chunks {
        chunk.request_id = request.request_id;
    }
    let client = |own| deal::client(numbers.generator, numbers.generators, own);
    request.client_id = request.client_id.map(client);
}

/// Sends all rows in the order of requests.
fn hand_over(line: &Line, ordered: &Ordered) -> io::Result<()> {
    let (mut batch, mut size) = (Vec::new(), 0);
    ordered.each(&mut |mut rows| {
        rows.chunks.sort_by_key(|chunk| chunk.at_ns);
        size += 1 + rows.chunks.len();
        batch.push(rows);
        if size >= ROWS_AT_ONCE {
            line.say(&Word::Rows(std::mem::take(&mut batch)))?;
            size = 0;
        }
        Ok(())
    })?;
    line.say(&Word::Rows(batch))
}
