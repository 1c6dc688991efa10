//! The tables sampled while a cell is under load: the host, processes, GPUs, the server's own metrics and its log.
//! Times are nanoseconds since the cell's start, on the clock of `requests`.

use crate::declare::Word as _;

crate::words! {
    /// Whose process a sample is of.
    pub enum ProcessRole: "role of a process" {
        /// A member of the server's process group.
        Server = "server",
        /// The load generator itself.
        Client = "client",
    }
}

crate::table! {
    /// One row per sample of the host, in order of time. A value is null if the machine does not report it. Counters of
    /// bytes count since boot.
    #[derive(Default, serde::Serialize, serde::Deserialize)]
    pub struct HostSample = "host_telemetry" {
        /// when the sample was taken, since the cell's start
        at_ns: i64 ["ns"],
        /// share of all processors' time since the previous sample that was neither idle nor
        /// waiting for a disk; null in the first row
        cpu_busy: Option<f64> ["1"],
        /// share spent idle with a disk request open; null in the first row
        cpu_wait: Option<f64> ["1"],
        /// share taken by other guests of the hypervisor; null in the first row
        cpu_steal: Option<f64> ["1"],
        /// load average over one minute
        load_1: Option<f64> ["1"],
        /// threads running or waiting for a processor, ours too
        runnable: Option<i64> ["threads"],
        /// memory that is not available to programs
        memory_used_bytes: Option<i64> ["B"],
        /// memory programs can take without swapping
        memory_available_bytes: Option<i64> ["B"],
        /// swap in use
        swap_used_bytes: Option<i64> ["B"],
        /// received since boot, all interfaces but loopback
        network_received_bytes: Option<i64> ["B"],
        /// sent since boot, all interfaces but loopback
        network_sent_bytes: Option<i64> ["B"],
        /// sent to this machine itself since boot
        loopback_bytes: Option<i64> ["B"],
        /// read since boot, all whole disks
        disk_read_bytes: Option<i64> ["B"],
        /// written since boot, all whole disks
        disk_written_bytes: Option<i64> ["B"],
        /// mean frequency of up to 64 processors; null if unknown
        frequency_mhz: Option<f64> ["MHz"],
        /// the hottest thermal zone; null if unknown
        temperature_c: Option<f64> ["°C"],
        /// processors of the machine
        processors: Option<i64> ["processors"],
        /// how often up to 64 processors slowed down for heat since boot; null if unknown
        throttles: Option<i64>,
        /// share of the last ten seconds in which some task waited for memory; null if unknown
        memory_pressure: Option<f64> ["1"],
        /// pages of files kept in memory
        page_cache_bytes: Option<i64> ["B"],
        /// packets lost or damaged since boot, both ways, all interfaces but loopback
        network_errors: Option<i64> ["packets"],
    }
}

crate::table! {
    /// One row per sample of the machine that the server runs on, in order of time, if that is not the machine of the
    /// load generator. The columns are those of `host_telemetry`, which describes the load generator's machine. A value
    /// is null if the exporter does not report it.
    #[derive(Default)]
    pub struct ServerHostSample = "server_host_telemetry" {
        /// when the sample was asked for, since the cell's start
        at_ns: i64 ["ns"],
        /// the name of the exporter or of the host
        source: String,
        /// share of all processors' time since the previous sample that was neither idle nor
        /// waiting for a disk; null in the first row
        cpu_busy: Option<f64> ["1"],
        /// share spent idle with a disk request open; null in the first row
        cpu_wait: Option<f64> ["1"],
        /// share taken by other guests of the hypervisor; null in the first row
        cpu_steal: Option<f64> ["1"],
        /// load average over one minute
        load_1: Option<f64> ["1"],
        /// threads running or waiting for a processor
        runnable: Option<i64> ["threads"],
        /// memory that is not available to programs
        memory_used_bytes: Option<i64> ["B"],
        /// memory programs can take without swapping
        memory_available_bytes: Option<i64> ["B"],
        /// swap in use
        swap_used_bytes: Option<i64> ["B"],
        /// received since boot, all interfaces but loopback
        network_received_bytes: Option<i64> ["B"],
        /// sent since boot, all interfaces but loopback
        network_sent_bytes: Option<i64> ["B"],
        /// sent to the machine itself since boot
        loopback_bytes: Option<i64> ["B"],
        /// read since boot, all whole disks
        disk_read_bytes: Option<i64> ["B"],
        /// written since boot, all whole disks
        disk_written_bytes: Option<i64> ["B"],
        /// mean frequency of its processors; null if unknown
        frequency_mhz: Option<f64> ["MHz"],
        /// the hottest thermal zone; null if unknown
        temperature_c: Option<f64> ["°C"],
        /// processors of the machine
        processors: Option<i64> ["processors"],
        /// how often its processors slowed down for heat since boot; null if unknown
        throttles: Option<i64>,
        /// share of the last ten seconds in which some task waited for memory; null if unknown
        memory_pressure: Option<f64> ["1"],
        /// pages of files kept in memory
        page_cache_bytes: Option<i64> ["B"],
        /// packets lost or damaged since boot, both ways, all interfaces but loopback
        network_errors: Option<i64> ["packets"],
    }
}

impl ServerHostSample {
    /// Converts a sample that was read on another machine with the reader for this one.
    pub fn of(source: &str, sample: &HostSample) -> Self {
        let HostSample {
            at_ns,
            cpu_busy,
            cpu_wait,
            cpu_steal,
            load_1,
            runnable,
            memory_used_bytes,
            memory_available_bytes,
            swap_used_bytes,
            network_received_bytes,
            network_sent_bytes,
            loopback_bytes,
            disk_read_bytes,
            disk_written_bytes,
            frequency_mhz,
            temperature_c,
            processors,
            throttles,
            memory_pressure,
            page_cache_bytes,
            network_errors,
        } = *sample;
        Self {
            at_ns,
            source: source.to_owned(),
            cpu_busy,
            cpu_wait,
            cpu_steal,
            load_1,
            runnable,
            memory_used_bytes,
            memory_available_bytes,
            swap_used_bytes,
            network_received_bytes,
            network_sent_bytes,
            loopback_bytes,
            disk_read_bytes,
            disk_written_bytes,
            frequency_mhz,
            temperature_c,
            processors,
            throttles,
            memory_pressure,
            page_cache_bytes,
            network_errors,
        }
    }
}

crate::table! {
    /// One row per sample of a process, in order of time.
    #[derive(serde::Serialize, serde::Deserialize)]
    pub struct ProcessSample = "process_telemetry" {
        /// when the sample was taken, since the cell's start
        at_ns: i64 ["ns"],
        /// `server`: of the server's process group; `client`: the load generator itself
        role: ProcessRole,
        /// the process
        pid: i64,
        /// its name, at most 15 bytes
        name: String,
        /// its threads
        threads: i64 ["threads"],
        /// processor time over time since its previous sample: 1 is one processor all the while;
        /// null in its first row
        cpu: Option<f64> ["processors"],
        /// processor time since it started, user and system, in ticks of 10 ms as a rule
        cpu_ns: i64 ["ns"],
        /// resident memory, shared pages included
        memory_bytes: i64 ["B"],
        /// fetched from disks since it started; null if we may not read it
        disk_read_bytes: Option<i64> ["B"],
        /// sent to disks since it started; null if we may not read it
        disk_written_bytes: Option<i64> ["B"],
        /// the member of a group of servers that it belongs to; null otherwise
        member: Option<String>,
    }
}

crate::table! {
    /// One row per member of the group of servers behind a load, in the order of their start. Only groups have this
    /// table.
    pub struct Member = "members" {
        /// the role and the number among those of the role, from 0
        member: String,
        /// its role in the group
        role: String,
        /// whether the load goes to it
        loaded: bool,
        /// the engine's name and version
        engine: String,
        /// its GPUs as `CUDA_VISIBLE_DEVICES` names them; null if it sees all
        gpus: Option<String>,
    }
}

crate::table! {
    /// One row per request, with the server that it goes to, in order of requests. Only loads on several servers or on a
    /// group of servers have this table, even if one member of the group is loaded.
    pub struct RequestServer = "request_servers" {
        /// the request, as in `requests`
        request_id: i64,
        /// the member of the group (as in `members`) or, of a load without an experiment, the server's URL
        server: String,
    }
}

crate::table! {
    /// One row per request, with the generator that sends it, in order of requests. Only loads with several generators
    /// have this table.
    pub struct RequestGenerator = "request_generators" {
        /// the request, as in `requests`
        request_id: i64,
        /// its generator, as in `generators`
        generator: i64,
    }
}

crate::table! {
    /// One row per generator of a load with several generators, from 0: its part of the requests, and its figures. The
    /// table `cell` has the worst figures of all generators.
    #[derive(Default)]
    pub struct Generator = "generators" {
        /// which generator, from 0
        generator: i64,
        /// the host it ran on, as the study names it; null on the machine that coordinates
        host: Option<String>,
        /// the most that its clock may have differed from the coordinator's in this cell, by exchanges before and after; part of
        /// `stamp_error_bound`; null on the machine that coordinates, where there is one clock
        clock_bound: Option<f64> ["ms"],
        /// its clients of a closed loop; null for open arrivals
        clients: Option<i64> ["clients"],
        /// measured requests with a row of its own
        requests: i64 ["requests"],
        /// those of them that were answered in full
        ok: i64 ["requests"],
        /// first `sent_ns` of its measured requests; null if it sent none
        window_from_ns: Option<i64> ["ns"],
        /// last `done_ns` of its measured requests; null if it has none
        window_to_ns: Option<i64> ["ns"],
        /// CPU time of its measuring thread in the measured phase; null if the generator was lost
        client_cpu_ns: Option<i64> ["ns"],
        /// median of `send_lag_ns` of its measured requests
        send_lag_p50: Option<f64> ["ms"],
        /// 99th percentile (type 7) of `send_lag_ns` of its measured requests
        send_lag_p99: Option<f64> ["ms"],
        /// largest `send_lag_ns` of its measured requests
        send_lag_max: Option<f64> ["ms"],
        /// ticks of the timer that samples the wake lag
        probes: Option<i64> ["1"],
        /// how late the measuring thread noticed a timer: median
        wake_lag_p50: Option<f64> ["ms"],
        /// how late the measuring thread noticed a timer: 99th percentile
        wake_lag_p99: Option<f64> ["ms"],
        /// how late the measuring thread noticed a timer: largest
        wake_lag_max: Option<f64> ["ms"],
        /// from the thread's waking to a read's stamp: 99th percentile
        read_wait_p99: Option<f64> ["ms"],
        /// how long a request's first write took: 99th percentile
        write_time_p99: Option<f64> ["ms"],
        /// CPU time over wall time of the measuring thread
        client_busy: Option<f64> ["1"],
        /// time runnable but waiting for a core, over wall time
        run_queue_wait: Option<f64> ["1"],
        /// context switches the measuring thread did not ask for
        preemptions: Option<i64> ["1"],
        /// chunks for each socket read that completed one
        chunks_per_read: Option<f64> ["chunks"],
        /// chunks per second over its window
        chunk_rate: Option<f64> ["chunks/s"],
        /// at least 99 % of its arrivals are stamped late by at most this; null without a probe
        stamp_error_bound: Option<f64> ["ms"],
        /// `client_ok`, or `client_bound`: this generator was the bottleneck; null with fewer than 20
        /// probes
        client_verdict: Option<crate::ClientVerdict>,
    }
}

crate::table! {
    /// One row per sample of a GPU, in order of time. A value is null if the GPU does not report it.
    #[derive(Default, serde::Serialize, serde::Deserialize)]
    pub struct GpuSample = "gpu_telemetry" {
        /// when the sample was taken (NVML) or its line came (nvidia-smi), since the cell's start
        at_ns: i64 ["ns"],
        /// the GPU's index on this machine
        gpu: i64,
        /// the GPU's own identity
        uuid: Option<String>,
        /// its model
        name: Option<String>,
        /// power drawn, as the sensor averages it; null if it has none
        power_w: Option<f64> ["W"],
        /// energy since the driver was loaded, by the GPU's own counter; null if unknown
        energy_j: Option<f64> ["J"],
        /// clock of its multiprocessors
        sm_clock_mhz: Option<f64> ["MHz"],
        /// clock of its memory
        memory_clock_mhz: Option<f64> ["MHz"],
        /// its temperature
        temperature_c: Option<f64> ["°C"],
        /// share of the driver's sampling period in which a kernel ran; a kernel that spins counts
        /// as well as one that computes
        sm_utilisation: Option<f64> ["1"],
        /// share of that period in which memory was read or written
        memory_utilisation: Option<f64> ["1"],
        /// memory in use, by all
        memory_used_bytes: Option<i64> ["B"],
        /// total memory
        memory_total_bytes: Option<i64> ["B"],
        /// what limits its clocks, joined by `+`; empty if nothing does
        throttle_reasons: Option<String>,
        /// processes that compute on it, ours too; null if unknown
        compute_processes: Option<i64> ["processes"],
        /// those of them that do not belong to the server; null if unknown, as in a container that hides other processes
        foreign_processes: Option<i64> ["processes"],
    }
}

crate::words! {
    /// What limits the clocks of a GPU, as its driver names it. The column `throttle_reasons` joins them by `+`.
    pub enum ThrottleReason: "throttle reason" {
        /// Nothing runs.
        Idle = "idle",
        /// Somebody set the clocks of programs.
        ApplicationsClocks = "applications-clocks",
        /// It draws as much power as it may.
        PowerCap = "power-cap",
        /// The hardware slows it down, because of heat or power.
        HardwareSlowdown = "hardware-slowdown",
        /// It keeps the clocks of other GPUs.
        SyncBoost = "sync-boost",
        /// The driver slows it down, because of heat.
        Thermal = "thermal",
        /// The hardware slows it down, because of heat.
        HardwareThermal = "hardware-thermal",
        /// The power supply demands it.
        PowerBrake = "power-brake",
        /// Somebody set the clocks of the display.
        DisplayClocks = "display-clocks",
    }
}

impl ThrottleReason {
    /// Returns whether the reason slows down no work: idleness, or clocks that somebody set.
    pub fn is_harmless(self) -> bool {
        matches!(
            self,
            Self::Idle | Self::ApplicationsClocks | Self::DisplayClocks
        )
    }

    /// Returns whether the machine is hot or faulty. A limit on its power is neither.
    pub fn is_fault(self) -> bool {
        matches!(
            self,
            Self::HardwareSlowdown | Self::Thermal | Self::HardwareThermal | Self::PowerBrake
        )
    }
}

/// Returns the reasons in a value of the column `throttle_reasons` that slow down work. A reason without a word may, so it
/// counts.
pub fn slowing_reasons(joined: &str) -> impl Iterator<Item = &str> {
    joined.split('+').filter(|reason| {
        let harmless = ThrottleReason::parse(reason).is_ok_and(ThrottleReason::is_harmless);
        !reason.is_empty() && !harmless
    })
}

crate::table! {
    /// One row per sample of a slot of llama.cpp, in order of time.
    pub struct SlotSample = "slots" {
        /// when the slots were asked for, since the cell's start
        at_ns: i64 ["ns"],
        /// the slot's id
        slot: i64,
        /// whether it serves a request; null if unknown
        processing: Option<bool>,
        /// the server's number of the request it serves or served last; null if none
        task: Option<i64>,
        /// context it has
        context_tokens: Option<i64> ["tok"],
        /// tokens of its request's prompt; null if unknown
        prompt_tokens: Option<i64> ["tok"],
        /// tokens generated for its request; null if unknown
        decoded_tokens: Option<i64> ["tok"],
        /// tokens its request may still get; null if unknown or unlimited
        remaining_tokens: Option<i64> ["tok"],
    }
}

crate::table! {
    /// One row per number of SGLang's server info that is new or has changed since the previous sample, in order of
    /// time.
    pub struct ServerInfoChange = "server_info" {
        /// when the document was asked for, since the cell's start
        at_ns: i64 ["ns"],
        /// where in the document it is: a JSON pointer
        name: String,
        /// its value, in the server's unit; 1 and 0 for true and false
        value: f64,
    }
}

crate::table! {
    /// One row per field of a line of the server's log, in the order of the log, for lines that a pattern of the
    /// engine's definition matches. A line without fields has one row. A line that the definition marks as an error is
    /// the event `error`, with the line as its field `message`.
    pub struct EngineEvent = "engine_events" {
        /// the line's own time since the cell's start, as finely as the log writes it; null if it
        /// has none
        at_ns: Option<i64> ["ns"],
        /// when the line was read, at most an interval after it was written
        seen_ns: i64 ["ns"],
        /// the line's number in `engine_log`, from 1
        line: i64,
        /// the name of the pattern, or `error`
        event: String,
        /// the name of the group; null if the pattern has none
        field: Option<String>,
        /// the field as a number, in the unit the engine's definition names; null if it is not a
        /// number
        value: Option<f64>,
        /// the field as written
        text: Option<String>,
        /// the member of a group of servers that wrote the line, whose number counts in that
        /// member's part of `engine_log`; null otherwise
        member: Option<String>,
    }
}

crate::table! {
    /// One row per sample of a series of the server's Prometheus metrics, in the order in which they were taken.
    pub struct ServerMetric = "server_metrics" {
        /// when the scrape was asked for, since the cell's start
        at_ns: i64 ["ns"],
        /// the metric's name
        name: String,
        /// its labels as the server writes them, without braces; empty if none. Of another address
        /// than the server's own, `exporter="NAME"` comes first, of a member of a group `member="NAME"`
        labels: String,
        /// its value, in the unit the metric's name says
        value: f64,
    }
}

/// The event of [`EngineEvent`] for a line that the engine's definition marks as an error.
pub const ERROR_EVENT: &str = "error";

/// The note of the table `engine_events` with the texts that mark a line as an error, one per line; absent if the
/// engine's definition has none.
pub const ERROR_TEXTS_NOTE: &str = "error_texts";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idleness_and_chosen_clocks_slow_down_no_work_and_a_reason_without_a_word_may() {
        let slowing = |joined| slowing_reasons(joined).collect::<Vec<_>>();
        for joined in ["", "idle", "idle+applications-clocks+display-clocks"] {
            assert!(slowing(joined).is_empty(), "{joined}");
        }
        assert_eq!(
            slowing("display-clocks+thermal+0x8000"),
            ["thermal", "0x8000"]
        );
    }
}
