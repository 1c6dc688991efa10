"""Load generators side by side against the reference server: what each reports minus what was sent.

    python3 stages/load/benches/peers.py --benchtrail target/release/benchtrail --venv VENV \\
        [--concurrency 1,16,64,256] [--limit 460] [--out peers.md]

Nothing is installed: a tool that VENV lacks is skipped with a message. What can be compared:

    python3 -m venv VENV
    VENV/bin/pip install guidellm==0.8.1 aiperf==0.13.0
    VENV/bin/pip install --no-deps vllm==0.33.0 sglang==0.5.23

The server (`benchtrail __reference`) is a process of its own: first token 50 ms after a request has
been read, 64 tokens 10 ms apart. It logs when it read each request and when it handed each token to
the kernel; that is the truth. guidellm, aiperf and SGLang's Rust client run whole, through their
command lines. vLLM and SGLang's Python client import a whole engine, so their request functions run
unmodified, out of the installed files, under a semaphore and a connector as their own programs have
them; without tokenizer and dataset, which spares them work. Every tool sends max(16, 8 c) requests.

A Markdown table goes to standard output (and --out). The whole ends by itself within --limit
seconds; what there was no time for is said.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TTFT, GAP, TOKENS = 50, 10, 64


def quantile(values, q):
    values = sorted(values)
    if not values:
        return None
    place = q * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


class Server:
    """The reference server; closing its input makes it print its log."""

    def __init__(self, benchtrail, zero):
        waits = ["--log", "0"] if zero else ["--ttft-ms", str(TTFT), "--gap-ms", str(GAP), "--log", "1"]
        self.process = subprocess.Popen(
            [benchtrail, "__reference", "--tokens", str(1 if zero else TOKENS), *waits],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = self.process.stdout.readline().strip()

    def truth(self, last):
        """True TTFTs and gaps, ms, of the last requests: those before were warm-up."""
        text, _ = self.process.communicate(timeout=30)
        # Each line: its place, the prompt's digest, when it was read, when each token was sent.
        rows = [[int(n) for n in line.split()[2:]] for line in text.splitlines()]
        rows = [row for row in rows if len(row) > 2][-last:]
        ttft = [(row[1] - row[0]) / 1e6 for row in rows]
        gaps = [(b - a) / 1e6 for row in rows for a, b in zip(row[1:], row[2:])]
        return ttft, gaps

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def run(command, seconds, cwd):
    """Runs a client; returns its output, and CPU seconds and memory of it and its children."""
    with tempfile.TemporaryFile("w+") as out:
        begun = time.monotonic()
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, cwd=cwd, start_new_session=True,
        )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        timed_out = False
        try:
            process.wait(timeout=max(seconds, 1))
        except subprocess.TimeoutExpired:
            # Its own group, which it began.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            timed_out = True
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        out.seek(0)
        text = out.read()
    if timed_out:
        raise Skip(f"did not end within {seconds:.0f} s")
    if process.returncode != 0:
        raise Skip(f"exit code {process.returncode}: {' '.join(text.split()[-30:])}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return text, {"cpu": cpu, "wall": time.monotonic() - begun}


class Skip(Exception):
    pass


def benchtrail(c, n, url, seconds, room):
    command = [
        room.benchtrail, "load", "--url", url, "--concurrency", str(c), "--requests", str(n),
        "--prompt-words", "20", "--output-tokens", str(room.tokens), "--json",
    ]
    text, cost = run(command, seconds, room.folder)
    document = json.loads(text[text.index("{"):])
    return {
        "ttft": (document["ttft_ms"]["p50"], document["ttft_ms"]["p99"]),
        "itl": document["icl_ms"] and document["icl_ms"]["p50"],
        "rate": document["request_throughput_per_s"],
        "ok": document["requests_ok"],
        **cost,
    }


# What vLLM and SGLang share: the request function of each, driven as its own program drives it.
DRIVER = r'''
import ast, asyncio, importlib.util, json, sys, time, types, traceback
import aiohttp
tool, url, c, n, tokens = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
file = {"vllm": ("vllm", "benchmarks/lib/endpoint_request_func.py"), "sglang": ("sglang", "benchmark/serving.py")}[tool]
path = importlib.util.find_spec(file[0]).submodule_search_locations[0] + "/" + file[1]
api = url + "/v1/completions"
async def main():
    if tool == "vllm":
        spec = importlib.util.spec_from_file_location("endpoint_request_func", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["endpoint_request_func"] = module
        spec.loader.exec_module(module)
        request = module.async_request_openai_completions
        given = module.RequestFuncInput(prompt="word " * 20, api_url=api, prompt_len=20, output_len=tokens,
                                        model="reference", ignore_eos=True)
        connector = aiohttp.TCPConnector(limit=c, limit_per_host=c, ttl_dns_cache=300, use_dns_cache=True,
                                         keepalive_timeout=60, enable_cleanup_closed=True, force_close=False)
        session = aiohttp.ClientSession(connector=connector, trust_env=True,
                                        timeout=aiohttp.ClientTimeout(total=6 * 60 * 60))
        call = lambda: request(request_func_input=given, session=session, pbar=None)
    else:
        # The module imports the engine; only what the request function needs is taken from it.
        tree = ast.parse(open(path).read())
        wanted = {"RequestFuncInput", "RequestFuncOutput", "remove_prefix", "_create_bench_client_session",
                  "get_auth_headers", "get_request_headers", "_get_auth_headers", "_record_server_prompt_len", "_extract_cache_from_sglext",
                  "async_request_openai_completions"}
        keep = [x for x in tree.body if getattr(x, "name", None) in wanted
                or isinstance(x, ast.Assign) and all(isinstance(t, ast.Name) and t.id.isupper() for t in x.targets)
                   and isinstance(x.value, (ast.Constant, ast.BinOp))]
        small = ast.parse(open(path.replace("serving.py", "utils.py")).read())
        keep = [x for x in small.body if getattr(x, "name", None) in wanted] + keep
        code = ast.Module([ast.ImportFrom("__future__", [ast.alias("annotations")], 0), *keep], [])
        module = types.ModuleType("serving")
        sys.modules["serving"] = module
        import os, copy, dataclasses
        module.__dict__.update(aiohttp=aiohttp, json=json, time=time, sys=sys, os=os, traceback=traceback,
            dataclass=dataclasses.dataclass, field=dataclasses.field, deepcopy=copy.deepcopy, uuid=__import__("uuid"),
            args=types.SimpleNamespace(disable_ignore_eos=False, disable_stream=False, return_logprob=False,
                top_logprobs_num=0, header=None, temperature=0.0, top_p=None, logprob_start_len=-1,
                return_routed_experts=False, token_ids_logprob=None, cache_report=False, print_requests=False))
        exec(compile(ast.fix_missing_locations(code), path, "exec"), module.__dict__)
        names = {f.name for f in dataclasses.fields(module.RequestFuncInput)}
        values = dict(prompt="word " * 20, api_url=api, prompt_len=20, output_len=tokens, model="reference",
                      lora_name="", image_data=None, extra_request_body={}, timestamp=None, routing_key=None)
        given = module.RequestFuncInput(**{k: v for k, v in values.items() if k in names})
        call = lambda: module.async_request_openai_completions(request_func_input=given, pbar=None)
        session = None
    gate = asyncio.Semaphore(c)
    async def one():
        async with gate:
            return await call()
    begun = time.perf_counter()
    outputs = await asyncio.gather(*(one() for _ in range(n)))
    seconds = time.perf_counter() - begun
    if session is not None:
        await session.close()
    good = [o for o in outputs if o.success]
    if not good:
        raise SystemExit("no request succeeded: " + str(outputs[0].error)[-400:])
    json.dump({"ttft": [o.ttft * 1e3 for o in good], "itl": [g * 1e3 for o in good for g in o.itl],
               "seconds": seconds, "ok": len(good)}, open(sys.argv[6], "w"))
asyncio.run(main())
'''


def driven(tool):
    def client(c, n, url, seconds, room):
        room.needs(tool)
        out = room.folder / "driven.json"
        out.unlink(missing_ok=True)
        driver = room.folder / "driver.py"
        driver.write_text(DRIVER)
        command = [room.python, str(driver), tool, url, str(c), str(n), str(room.tokens), str(out)]
        _, cost = run(command, seconds, room.folder)
        found = json.loads(out.read_text())
        return {
            "ttft": (quantile(found["ttft"], 0.5), quantile(found["ttft"], 0.99)),
            "itl": quantile(found["itl"], 0.5),
            "rate": found["ok"] / found["seconds"],
            "ok": found["ok"],
            **cost,
        }

    return client


RUST = (
    "import importlib.util,sys,glob,os\n"
    "where=importlib.util.find_spec('sglang').submodule_search_locations[0]\n"
    "path=glob.glob(os.path.join(where,'srt/rust_extensions/_bench*.so'))[0]\n"
    "spec=importlib.util.spec_from_file_location('_bench',path)\n"
    "m=importlib.util.module_from_spec(spec);spec.loader.exec_module(m)\n"
    "m.run_argv(['sglang-bench']+sys.argv[1:])\n"
)


def sglang_rust(c, n, url, seconds, room):
    room.needs("sglang")
    out = room.folder / "rust.jsonl"
    out.unlink(missing_ok=True)
    command = [
        room.python, "-c", RUST, "--backend", "vllm", "--base-url", url, "--model", "reference",
        "--tokenizer", str(room.tokenizer()), "--dataset-name", "random-ids", "--num-prompts", str(n),
        "--random-input-len", "20", "--random-output-len", str(room.tokens), "--random-range-ratio", "1.0",
        "--max-concurrency", str(c), "--warmup-requests", "0", "--output-file", str(out), "--disable-tqdm",
    ]
    _, cost = run(command, seconds, room.folder)
    found = json.loads(out.read_text().splitlines()[-1])
    return {
        "ttft": (found["median_ttft_ms"], found["p99_ttft_ms"]),
        "itl": found["median_itl_ms"],
        "rate": found["request_throughput"],
        "ok": found["completed"],
        **cost,
    }


def guidellm(c, n, url, seconds, room):
    room.needs("guidellm")
    out = room.folder / "guidellm.json"
    out.unlink(missing_ok=True)
    command = [
        str(room.venv / "bin/guidellm"), "run", "--disable-console",
        "--backend", f"kind=openai_http,target={url},model=reference,request_format=/v1/completions,validate_backend=false",
        "--profile", f"kind=concurrent,streams={c}", "--constraint", f"kind=max_requests,count={n}",
        "--tokenizer", f"kind=hf_auto,model={room.tokenizer()}",
        # Its synthetic text comes out empty with a tokenizer of made-up words.
        "--data", f"kind=json_file,path={room.prompts(n)}",
        "--output", f"kind=json,path={out}",
    ]
    _, cost = run(command, seconds, room.folder)
    found = json.loads(out.read_text())["benchmarks"][0]["metrics"]
    ttft = found["time_to_first_token_ms"]["successful"]
    return {
        "ttft": (ttft["percentiles"]["p50"], ttft["percentiles"]["p99"]),
        # One mean a request: it has no gaps.
        "itl": found["inter_token_latency_ms"]["successful"]["percentiles"]["p50"],
        "rate": found["requests_per_second"]["successful"]["mean"],
        "ok": found["request_totals"]["successful"],
        **cost,
    }


def aiperf(c, n, url, seconds, room):
    room.needs("aiperf")
    folder = room.folder / f"aiperf-{c}"
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        str(room.venv / "bin/aiperf"), "profile", "--model", "reference", "--url", url,
        "--endpoint-type", "completions", "--streaming", "--concurrency", str(c), "--request-count", str(n),
        "--tokenizer", str(room.tokenizer()), "--isl", "20", "--osl", str(room.tokens),
        "--artifact-dir", str(folder), "--ui", "none",
    ]
    _, cost = run(command, seconds, room.folder)
    found = json.loads(next(folder.rglob("profile_export_aiperf.json")).read_text())
    return {
        "ttft": (found["time_to_first_token"]["p50"], found["time_to_first_token"]["p99"]),
        "itl": found.get("inter_chunk_latency", found.get("inter_token_latency", {})).get("p50"),
        "rate": found["request_throughput"]["avg"],
        "ok": int(found["request_count"]["avg"]),
        **cost,
    }


TOOLS = {
    "Benchtrail": benchtrail,
    "SGLang, Rust client": sglang_rust,
    "SGLang, Python request function": driven("sglang"),
    "vLLM, request function": driven("vllm"),
    "guidellm": guidellm,
    "aiperf": aiperf,
}

TOKENIZER = r'''
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = {"<unk>": 0, **{f"w{i}": i for i in range(1, 4000)}}
made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
made.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", eos_token="<unk>").save_pretrained(sys.argv[1])
'''


class Room:
    """Where the tools are, and a folder for what they write."""

    def __init__(self, arguments, folder):
        self.benchtrail = str(Path(arguments.benchtrail).resolve())
        self.venv = Path(arguments.venv).absolute()
        self.python = str(self.venv / "bin/python")
        self.folder = Path(folder)
        self.tokens = TOKENS
        self.packages = {}

    def needs(self, package):
        if package not in self.packages:
            code = f"import importlib.metadata as m; print(m.version('{package}'))"
            try:
                asked = subprocess.run([self.python, "-c", code], capture_output=True, text=True, check=False)
                version = asked.stdout.strip()
            except OSError:
                version = ""
            self.packages[package] = version
        if not self.packages[package]:
            raise Skip(f"not installed in {self.venv.name}")

    def prompts(self, n):
        """A file of n prompts of twenty words, no two alike."""
        file = self.folder / "prompts.jsonl"
        with file.open("w") as out:
            for i in range(n):
                prompt = " ".join(f"w{(i * 37 + j * 11) % 3999 + 1}" for j in range(20))
                out.write(json.dumps({"prompt": prompt, "output_tokens_count": self.tokens}) + "\n")
        return file

    def tokenizer(self):
        made = self.folder / "tokenizer"
        if not made.exists():
            asked = subprocess.run([self.python, "-c", TOKENIZER, str(made)], capture_output=True, text=True)
            if asked.returncode:
                raise Skip("no local tokenizer can be made: install `transformers`")
        return made


def cell(value, true=None, signed=True, digits=2):
    if value is None or (signed and true is None):
        return "–"
    return f"{value - true:+.{digits}f}" if signed else f"{value:.{digits}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--benchtrail", required=True)
    parser.add_argument("--venv", required=True)
    parser.add_argument("--concurrency", default="1,16,64,256")
    parser.add_argument("--limit", type=float, default=460.0, help="seconds for the whole")
    parser.add_argument("--only", help="tools whose name contains this")
    parser.add_argument("--no-ceiling", action="store_true")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.limit
    levels = [int(c) for c in arguments.concurrency.split(",")]
    tools = {k: v for k, v in TOOLS.items() if not arguments.only or arguments.only.lower() in k.lower()}
    lines = [
        f"First token after {TTFT} ms, {TOKENS} tokens {GAP} ms apart; reported − sent, ms. Load average "
        f"{os.getloadavg()[0]:.1f} at the start, {os.cpu_count()} cores.",
        "",
        "| tool | streams | answered | TTFT p50 | TTFT p99 | ITL p50 | req/s | of ideal | CPU s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    skipped = []
    ceiling = []

    def attempt(name, client, c, n, zero, room):
        left = end - time.monotonic()
        if left < 5:
            skipped.append(f"{name} at {c}: no time left")
            return None
        server = Server(room.benchtrail, zero)
        try:
            found = client(c, n, server.url, min(left - 2, 120), room)
            truth = ([], []) if zero else server.truth(n)
            return found, truth
        except Skip as why:
            skipped.append(f"{name} at {c}: {why}")
        except (OSError, KeyError, ValueError, TypeError, StopIteration, subprocess.TimeoutExpired) as e:
            skipped.append(f"{name} at {c}: its result is not understood: {type(e).__name__}: {e}")
        finally:
            server.stop()
        return None

    with tempfile.TemporaryDirectory() as folder:
        room = Room(arguments, folder)
        for c in levels:
            for name, client in tools.items():
                n = max(16, 8 * c)
                room.tokens = TOKENS
                got = attempt(name, client, c, n, False, room)
                if got is None:
                    continue
                found, (ttft, gaps) = got
                true = [quantile(ttft, 0.5), quantile(ttft, 0.99), quantile(gaps, 0.5)]
                ideal = c / ((TTFT + GAP * (TOKENS - 1)) / 1000)
                lines.append(
                    f"| {name} | {c} | {found['ok']} of {n} | {cell(found['ttft'][0], true[0])} | "
                    f"{cell(found['ttft'][1], true[1])} | {cell(found['itl'], true[2], digits=3)} | "
                    f"{found['rate']:.1f} | {found['rate'] / ideal:.0%} | {found['cpu']:.2f} |"
                )
                print(lines[-1], file=sys.stderr, flush=True)
        if not arguments.no_ceiling:
            for name, client in tools.items():
                room.tokens = 1
                n = 20_000 if client in (benchtrail, sglang_rust) else 1_000
                got = attempt(name, client, 64, n, True, room)
                if got is not None:
                    found = got[0]
                    ceiling.append(f"| {name} | {n} | {found['rate']:.0f} | {found['ttft'][0]:.2f} |")
    if ceiling:
        lines += ["", "Ceiling: one-token answers without waiting, 64 streams.", ""]
        lines += ["| tool | requests | req/s | TTFT p50 reported, ms |", "|---|---|---|---|", *ceiling]
    if skipped:
        lines += ["", "Left out:", "", *(f"- {line}" for line in skipped)]
    versions = ", ".join(f"{k} {v}" for k, v in sorted(room.packages.items()) if v)
    lines += ["", f"Versions: {versions or 'no peers'}."]
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out:
        Path(arguments.out).write_text(text)


if __name__ == "__main__":
    main()
