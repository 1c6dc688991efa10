//! Sentences beside a table that seem to contradict it but do not: they have a condition, another subject, another
//! quantity or a rounder number. Nothing may be reported.

use foreign::audit;

const ENGINES: &str = "| | Heron | Kite | Osprey | Wren |\n|---|---:|---:|---:|---:|\n| Output tok/s | 1,940 | 2,115 | 2,230 | 1,702 |\n| TTFT mean (ms) | 88 | 74 | 69 | 131 |\n| Peak memory (GiB) | 61.2 | 58.8 | 63.0 | 55.4 |\n\n";
const CLIENTS: &str = "| Clients | Output tok/s | Latency (s) |\n|---:|---:|---:|\n| 1 | 61.2 | 4.18 |\n| 4 | 231.0 | 4.43 |\n| 16 | 801.5 | 5.11 |\n| 64 | 1688.9 | 9.70 |\n\n";
const CARDS: &str = "| Card | Power (W) | Output (tok/s) |\n|---|---:|---:|\n| L4 | 72 | 310 |\n| L40S | 310 | 1,705 |\n| H100 | 610 | 5,490 |\n| H200 | 640 | 6,144 |\n\n";
const TWO: &str = "| Model | Kite tok/s | Wren tok/s |\n|---|---:|---:|\n| oak-1b | 512 | 498 |\n| pine-3b | 341 | 290 |\n| birch-4b | 207 | 261 |\n\n";

#[rustfmt::skip]
const SENTENCES: &[(&str, &str)] = &[
    (ENGINES, "With prefix caching, Osprey reaches 2,950 tok/s."),
    (ENGINES, "Osprey, as tuned by its authors, reaches 2,950 tok/s."),
    (ENGINES, "Osprey, tuned, reaches 2,950 tok/s."),
    (ENGINES, "On two GPUs Osprey reaches 4,300 tok/s."),
    (ENGINES, "On two GPUs, Osprey reaches 4,300 tok/s and Kite 4,100 tok/s."),
    (ENGINES, "Osprey reaches 2,200 tok/s."),
    (ENGINES, "Osprey reaches about 2,100 tok/s."),
    (ENGINES, "Osprey could reach 3,000 tok/s."),
    (ENGINES, "Osprey never reaches 3,000 tok/s."),
    (ENGINES, "Osprey 2 reaches 2,500 tok/s."),
    (ENGINES, "Osprey (FP8) reaches 2,500 tok/s."),
    (ENGINES, "Osprey is the fastest engine; in FP8 it reaches 2,500 tok/s."),
    (ENGINES, "Wren is the fastest engine to load."),
    (ENGINES, "Wren is the fastest engine to compile."),
    (ENGINES, "Wren was the fastest engine of last year."),
    (ENGINES, "Osprey needs 12 GiB less than in March."),
    (ENGINES, "Osprey needs 5 GiB less than before."),
    (ENGINES, "Wren needs the most memory while it starts."),
    (ENGINES, "All four engines stay below 100 ms TTFT on short prompts."),
    (ENGINES, "Every request stays below 100 ms TTFT."),
    (ENGINES, "Over four runs, TTFT ranges from 66 to 72 ms."),
    (ENGINES, "TTFT ranges from 60 to 75 ms for Osprey."),
    (ENGINES, "TTFT ranges from 69 ms to 0.13 s."),
    (ENGINES, "On average, the engines deliver 2,000 tok/s."),
    (ENGINES, "On average, an engine delivers 7.9 tok/s per watt."),
    (ENGINES, "Together, Kite and Wren deliver 3,817 tok/s."),
    (ENGINES, "Three engines were compared with a proxy in front."),
    (ENGINES, "Osprey delivers three times the throughput of Wren on long prompts."),
    (ENGINES, "Kite on a larger card delivers 3,100 tok/s."),
    (ENGINES, "Osprey beats Kite in throughput by 5 %, and its predecessor by 40 %."),
    (ENGINES, "Wren is 1.3 times as fast as it was."),
    (CLIENTS, "With caching, the server delivers 950 tok/s at 16 clients."),
    (CLIENTS, "At 16 clients, the previous release delivers 702.3 tok/s."),
    (CLIENTS, "Our target is 900 tok/s at 16 clients."),
    (CLIENTS, "At 16 clients the server delivers 800 tok/s."),
    (CLIENTS, "Two clients were run by hand."),
    (CLIENTS, "Two clients were tested on another machine."),
    (CLIENTS, "Latency stays below 5 s up to 4 clients."),
    (CLIENTS, "Latency never exceeds 10 s."),
    (CLIENTS, "No request takes more than 4 s on an idle machine."),
    (CLIENTS, "Throughput falls with every retry."),
    (CLIENTS, "Latency falls with every release."),
    (CLIENTS, "The mean of the repeats is 1,750 tok/s at 64 clients."),
    (CLIENTS, "From 4 to 16 clients, a gain of 40 % remains."),
    (CLIENTS, "From 4 to 16 clients, 40 % of the sockets stay open."),
    (CLIENTS, "From 4 to 16 clients throughput grows by a factor of 3.5."),
    (CLIENTS, "From 4 to 16 clients throughput grows by 40 % on the old kernel."),
    (CLIENTS, "From 4 to 16 clients, the cache grows by 40 %."),
    (CLIENTS, "Between 4 and 16 clients, CPU load grows by 60 %."),
    (CARDS, "All cards draw less than 20 W when idle."),
    (CARDS, "The H200 draws 80 W at idle."),
    (CARDS, "Two of the cards were bought in 2021."),
    (CARDS, "No card draws more than 400 W under the power cap."),
    (CARDS, "The L4 and the H200 draw 712 W together."),
    (CARDS, "Together, both racks draw 40 kW."),
    (CARDS, "The four cards draw 1,630 W together."),
    (CARDS, "The H100 draws 610 W, and 700 W in bursts."),
    (CARDS, "In bursts, the H100 draws 700 W."),
    (CARDS, "The L4 has the highest output per watt of its generation."),
    (TWO, "Kite on a larger GPU reaches 900 tok/s on oak-1b."),
    (TWO, "On birch-4b Kite is faster after the patch."),
    (TWO, "Kite is faster on every model of the next release."),
    (TWO, "2 nodes and 8 cards, 16 in all, were used."),
    (TWO, "We lost 3 disks and 4 fans, 7 in all."),
    (TWO, "The median is 20 ms and the tail 80 ms, a loss of 2 %."),
    (TWO, "The build takes 412 s where it took 530 s, a reduction of 22 %."),
    (TWO, "Traffic more than doubled, from 0.4 to 0.9 Gbps."),
    (TWO, "Going from 16 to 32, a gain of 40 % remains."),
    (TWO, "Of 480 starts, 451 succeeded and 20 failed, and 9 were cancelled."),
    (TWO, "A run has 72,000 requests in 20 minutes, 90 req/s at its peak."),
];

#[test]
fn a_true_sentence_with_a_condition_another_subject_or_a_rounder_number_is_not_reported() {
    let alarms: Vec<String> = SENTENCES
        .iter()
        .map(|(table, sentence)| audit("r.md", &format!("# Report\n\n{table}{sentence}\n"), &[]))
        .filter(|audit| !audit.findings.is_empty())
        .map(|audit| audit.to_string())
        .collect();
    assert!(alarms.is_empty(), "{}", alarms.join("\n"));
}
