//! Prompts from files: packs, traces, corpora and datasets.

use super::*;

#[test]
fn a_pack_keeps_its_order_and_does_not_repeat_unless_allowed() {
    let pack = |more: &serde_json::Value| {
        let mut pack = json!({"texts": ["a", "b", "c"]});
        pack.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        workload(&json!({"pack": pack}))
    };
    let set = PromptSet::generate(&pack(&json!({})), &origin(1, 1), 1, 2).unwrap();
    assert_eq!(
        (texts(&measured(&set)), texts(&warmup(&set))),
        (vec!["a", "b"], vec!["c"])
    );
    let error = PromptSet::generate(&pack(&json!({})), &origin(1, 1), 0, 4).unwrap_err();
    assert!(error.to_string().contains("holds 3 prompts"), "{error}");
    let set =
        PromptSet::generate(&pack(&json!({"when-short": "repeat"})), &origin(1, 1), 0, 4).unwrap();
    assert_eq!(texts(&measured(&set)), ["a", "b", "c", "a"]);
}

#[test]
fn the_warm_up_takes_prompts_again_if_a_pack_may_repeat_and_has_no_others() {
    let pack = |when_short: &str, warmup: usize| {
        let pack = json!({"texts": ["a", "b", "c"], "when-short": when_short});
        PromptSet::generate(&workload(&json!({"pack": pack})), &origin(1, 1), warmup, 3)
    };
    assert!(pack("refuse", 2).is_err());
    let set = pack("repeat", 2).unwrap();
    assert_eq!(texts(&measured(&set)), ["a", "b", "c"]);
    assert_eq!(warmup(&set).len(), 2);
    let warning = set.repeated().unwrap();
    assert!(
        warning.starts_with("5 prompts were sent, but the file has 3"),
        "{warning}"
    );
    assert_eq!(pack("repeat", 0).unwrap().repeated(), None);
}

#[test]
fn prompts_that_are_the_same_are_counted() {
    let repeated = |prompts: serde_json::Value, n| {
        let set = PromptSet::generate(&workload(&prompts), &origin(1, 1), 0, n).unwrap();
        set.repeated()
    };
    let warning = repeated(json!({"pack": {"texts": ["a", "b", "a", "a"]}}), 4).unwrap();
    assert!(
        warning.starts_with("2 of 4 prompts are the same as an earlier one"),
        "{warning}"
    );
    assert!(repeated(json!({"words": {"length": 1}}), 100).is_some());
    assert_eq!(repeated(json!({"words": {"length": 40}}), 100), None);
}

#[test]
fn an_output_that_replaces_recorded_lengths_is_for_all_rows() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "{\"prompt\": \"a\", \"output_tokens\": 300}\n{\"prompt\": \"b\"}\n",
    )
    .unwrap();
    let asked = |replaces: bool| -> Vec<u32> {
        let workload: Workload = serde_json::from_value(json!({
            "prompts": {"pack": {"file": file.path()}},
            "output": {"tokens": 5, "replaces-recorded": replaces},
        }))
        .unwrap();
        let set = PromptSet::generate(&workload, &origin(1, 1), 0, 2).unwrap();
        measured(&set).iter().map(|p| p.output_tokens).collect()
    };
    assert_eq!((asked(false), asked(true)), (vec![300, 5], vec![5, 5]));
}

#[test]
fn an_entry_of_a_dataset_may_name_the_length_of_its_answers() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let asked = |keys: &str, replaces: bool| {
        let entry =
            format!("{{\"messages\": [{{\"role\": \"user\", \"content\": \"a\"}}]{keys}}}\n");
        std::fs::write(file.path(), entry).unwrap();
        let workload: Workload = serde_json::from_value(json!({
            "prompts": {"dataset": {"file": file.path()}},
            "output": {"tokens": 5, "replaces-recorded": replaces},
        }))
        .unwrap();
        let set = PromptSet::generate(&workload, &origin(1, 1), 0, 1);
        set.map(|set| measured(&set)[0].output_tokens)
            .map_err(|e| e.to_string())
    };
    assert_eq!(asked("", false), Ok(5));
    assert_eq!(asked(", \"output_tokens\": 300", false), Ok(300));
    assert_eq!(asked(", \"output_tokens\": 300", true), Ok(5));
    assert_eq!(asked(", \"output_tokens\": 300.0", false), Ok(300));
    assert_eq!(asked(", \"max_tokens\": 300", true), Ok(5));
    assert_eq!(asked(", \"max_tokens\": null", false), Ok(5));
    // The length of a recorded answer is not a request.
    assert_eq!(asked(", \"completion_tokens\": 9", false), Ok(5));
    let wrong = asked(", \"max_tokens\": 300", false).unwrap_err();
    assert!(wrong.contains("not `max_tokens`: rename it"), "{wrong}");
}

#[test]
fn the_spaces_and_line_breaks_of_a_prompt_in_csv_are_kept() {
    let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    let text = "id, prompt ,output_tokens\n1,\"  two\nlines\n\", 7 \n2,\" \",\n3,b, \n";
    std::fs::write(file.path(), text).unwrap();
    let pack = workload(&json!({"pack": {"file": file.path()}}));
    let set = PromptSet::generate(&pack, &origin(1, 1), 0, 2).unwrap();
    let prompts = measured(&set);
    assert_eq!(texts(&prompts), ["  two\nlines\n", "b"]);
    assert_eq!(prompts[0].output_tokens, 7);
}

#[test]
fn a_pack_file_is_read_and_must_not_change() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"prompt\": \"x\"}\n\n\"y\"\n").unwrap();
    let path = file.path().to_str().unwrap();
    let digest = Digest::of(&std::fs::read(path).unwrap()).to_string();
    let pack = workload(&json!({"pack": {"file": path, "digest": digest}}));
    assert_eq!(
        texts(&measured(
            &PromptSet::generate(&pack, &origin(1, 1), 0, 2).unwrap()
        )),
        ["x", "y"]
    );
    std::fs::write(file.path(), "\"z\"\n").unwrap();
    assert!(
        PromptSet::generate(&pack, &origin(1, 1), 0, 1)
            .unwrap_err()
            .to_string()
            .contains("has changed")
    );
}

#[test]
fn a_pack_may_be_one_json_array() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let made = |text: &str| {
        std::fs::write(file.path(), text).unwrap();
        PromptSet::generate(
            &workload(&json!({"pack": {"file": path}})),
            &origin(1, 1),
            0,
            2,
        )
    };
    let set = made("[\n  {\"prompt\": \"x\", \"output_tokens\": 3},\n  \"y\"\n]\n").unwrap();
    let lengths: Vec<_> = measured(&set)
        .into_iter()
        .map(|p| (p.text, p.output_tokens))
        .collect();
    assert_eq!(lengths[0], ("x".to_owned(), 3));
    assert_eq!(lengths[1].0, "y");
    let error = made("[\"x\", {\"text\": \"y\"}]").unwrap_err().to_string();
    assert!(error.contains("line 1: no `prompt`"), "{error}");
    let error = made("\"x\"\n{\n").unwrap_err().to_string();
    assert!(error.contains("line 2: "), "{error}");
}

#[test]
fn a_trace_decides_the_lengths_of_prompts_and_answers() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "timestamp_s,input_tokens,output_tokens\n0,10,33\n1,20,44\n",
    )
    .unwrap();
    let trace = workload(&json!({"trace": {"file": file.path(), "words-per-token": 0.5}}));
    let set = PromptSet::generate(&trace, &origin(1, 1), 1, 2).unwrap();
    let lengths = |p: &Prompt| (p.text.split(' ').count(), p.output_tokens);
    assert_eq!(
        measured(&set).iter().map(lengths).collect::<Vec<_>>(),
        [(5, 33), (10, 44)]
    );
    assert_eq!(lengths(&warmup(&set)[0]), (5, 33));
    let error = PromptSet::generate(&trace, &origin(1, 1), 0, 3).unwrap_err();
    assert!(
        error.to_string().contains("request 2 has no row"),
        "{error}"
    );
}

#[test]
fn a_pack_may_say_how_much_output_each_line_asks_for() {
    let file = file("{\"prompt\": \"x\", \"output_tokens\": 77}\n{\"prompt\": \"y\"}\n");
    let pack = workload(&json!({"pack": {"file": file.path()}}));
    let set = PromptSet::generate(&pack, &origin(1, 1), 0, 2).unwrap();
    assert_eq!(measured(&set)[0].output_tokens, 77);
    assert!((4..=9).contains(&measured(&set)[1].output_tokens));
    assert_eq!(set.length_source, LengthSource::Given);
    std::fs::write(file.path(), "{\"prompt\": \"x\", \"output_tokens\": 0}").unwrap();
    let error = PromptSet::generate(&pack, &origin(1, 1), 0, 1).unwrap_err();
    assert!(
        error.to_string().contains("line 1: `output_tokens` is 0"),
        "{error}"
    );
}

#[test]
fn a_corpus_of_more_words_than_memory_should_hold_is_refused() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let corpus = workload(&json!({"corpus": {"file": file.path(), "length": 1}}));
    std::io::Write::write_all(&mut file, "w ".repeat(1 << 16).as_bytes()).unwrap();
    assert!(PromptSet::generate(&corpus, &origin(1, 1), 0, 1).is_ok());
    std::io::Write::write_all(&mut file, b"w").unwrap();
    let refused = PromptSet::generate(&corpus, &origin(1, 1), 0, 1).unwrap_err();
    assert!(
        refused.message.contains("more than 65536 words"),
        "{refused}"
    );
    assert!(!refused.by_machine);
}

#[test]
fn passages_of_a_corpus_are_its_words_in_order() {
    let words: Vec<String> = (0..50).map(|i| format!("w{i}")).collect();
    let file = file(&words.join("\n"));
    let corpus = workload(&json!({"corpus": {"file": file.path(), "length": 12}}));
    let set = PromptSet::generate(&corpus, &origin(1, 1), 3, 20).unwrap();
    for prompt in measured(&set).iter().chain(&warmup(&set)) {
        let numbers: Vec<usize> = prompt
            .text
            .split(' ')
            .map(|w| w[1..].parse().unwrap())
            .collect();
        assert_eq!(numbers.len(), 12);
        assert!(numbers.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 50));
    }
    let long = workload(&json!({"corpus": {"file": file.path(), "length": 51}}));
    let error = PromptSet::generate(&long, &origin(1, 1), 0, 1).unwrap_err();
    assert!(error.to_string().contains("holds 50 words"), "{error}");
}

#[test]
fn the_error_for_an_entry_of_a_dataset_says_what_it_lacks_or_which_key_is_no_list() {
    let refusal = |entry: &str| {
        let file = file(entry);
        let dataset = workload(&json!({"dataset": {"file": file.path()}}));
        PromptSet::generate(&dataset, &origin(1, 1), 0, 1)
            .unwrap_err()
            .to_string()
    };
    let text = refusal(r#"[{"id": 1, "conversations": "hello"}]"#);
    assert!(
        text.contains("`conversations` is not a list of turns such as"),
        "{text}"
    );
    let none = refusal(r#"[{"id": 1, "messages": null}]"#);
    assert!(
        none.contains("it has `id`, `messages`, but no value for"),
        "{none}"
    );
}

#[test]
fn a_dataset_gives_first_human_turns_in_an_order_of_the_seed() {
    let file = file(SHAREGPT);
    let dataset = workload(&json!({"dataset": {"file": file.path()}}));
    let texts = |rep| {
        let set = PromptSet::generate(&dataset, &origin(1, rep), 0, 3).unwrap();
        texts(&measured(&set))
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let orders: BTreeSet<Vec<String>> = (0..20).map(texts).collect();
    assert!(orders.len() > 1);
    for order in orders {
        assert_eq!(
            order.iter().map(String::as_str).collect::<BTreeSet<_>>(),
            ["a1", "c1", "d1\n\nmore"].into()
        );
    }
    let error = PromptSet::generate(&dataset, &origin(1, 1), 0, 4).unwrap_err();
    assert!(
        error.to_string().contains("holds 3 conversations"),
        "{error}"
    );
}

#[test]
fn equal_hash_ids_of_a_trace_are_equal_text_and_what_follows_is_a_prompts_own() {
    let file = tempfile::Builder::new()
        .suffix(".jsonl")
        .tempfile()
        .unwrap();
    let rows = [
        json!({"timestamp": 0, "input_length": 1300, "output_length": 4, "hash_ids": [0, 1, 2]}),
        json!({"timestamp": 1, "input_length": 1300, "output_length": 4, "hash_ids": [0, 1, 3]}),
        json!({"timestamp": 2, "input_length": 600, "output_length": 4, "hash_ids": [0, 1]}),
        json!({"timestamp": 3, "input_length": 1300, "output_length": 4, "hash_ids": [7]}),
    ];
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    let made = |per_id: u32| -> Vec<Vec<String>> {
        let trace = json!({"file": path, "words-per-token": 1.0, "tokens-per-hash-id": per_id});
        let workload = workload(&json!({ "trace": trace }));
        let prompts = PromptSet::generate(&workload, &origin(1, 1), 0, 4).unwrap();
        let words = |p: Prompt| p.text.split_whitespace().map(str::to_owned).collect();
        prompts
            .of(Phase::Measured)
            .unwrap()
            .into_iter()
            .map(words)
            .collect()
    };
    let made_of_blocks = made(512);
    let lengths: Vec<usize> = made_of_blocks.iter().map(Vec::len).collect();
    assert_eq!(lengths, [1300, 1300, 600, 1300]);
    let shared = |a: &[String], b: &[String]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    // The list contains repeated words, so the first words after the blocks may be the same by chance.
    assert!((1024..1030).contains(&shared(&made_of_blocks[0], &made_of_blocks[1])));
    // The last word of a block ends a sentence, but it does not in the middle of another block.
    assert!((599..=600).contains(&shared(&made_of_blocks[0], &made_of_blocks[2])));
    assert!(shared(&made_of_blocks[0], &made_of_blocks[3]) < 6);
    let apart = made(0);
    assert!(shared(&apart[0], &apart[1]) < 6);
}

#[test]
fn conversations_and_prompts_are_read_from_json_json_lines_and_csv_alike() {
    let turns = |file: &str, text: &str| -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file);
        std::fs::write(&path, text).unwrap();
        let prompts = json!({"dataset": {"file": path.to_str().unwrap()}});
        let set = PromptSet::generate(&workload(&prompts), &origin(1, 1), 0, 2).unwrap();
        let mut texts: Vec<String> = set
            .of(Phase::Measured)
            .unwrap()
            .into_iter()
            .map(|p| p.text)
            .collect();
        texts.sort();
        texts
    };
    let expected = ["say, a", "say b"].map(str::to_owned).to_vec();
    let mut expected = expected;
    expected.sort();
    for (file, text) in [
        (
            "a.json",
            "[{\"conversations\": [{\"from\": \"human\", \"value\": \"say, a\"}, {\"from\": \"gpt\", \"value\": \"a\"}]},\n {\"messages\": [{\"role\": \"user\", \"content\": \"say b\"}]}]",
        ),
        (
            "a.jsonl",
            "{\"prompt\": \"say, a\", \"completion\": \"a\"}\n\n{\"messages\": [{\"role\": \"user\", \"content\": \"say b\"}]}\n",
        ),
        (
            "a.csv",
            "id,Prompt,response\n1,\"say, a\",a\n2,,x\n3,say b,\n",
        ),
    ] {
        assert_eq!(turns(file, text), expected, "{file}");
    }
}
