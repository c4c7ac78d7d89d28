//! The toy tells a right schedule from a wrong one.

use warpwright_llm_step::toy::Toy;
use warpwright_llm_step::{
    Capacity, Chunk, CopyState, Executor, Output, Page, Sampling, Score, Slot, Step, Token, Tokens,
};

const CAPACITY: Capacity = Capacity {
    page_tokens: 4,
    pages: 16,
    slots: 4,
    stateful: true,
    sequences: 4,
    tokens: 32,
    context: 40,
    vocabulary: 300,
    drafts: 3,
    top: 5,
};

const PROMPT: [Token; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

fn chunk(slot: u32, position: u32, tokens: &[Token]) -> Chunk {
    Chunk {
        slot: Slot(slot),
        position,
        tokens: Tokens::Known(tokens.to_vec()),
        pages: [3, 1, 2, 0, 5, 6, 7].map(Page).to_vec(),
        sampling: Some(Sampling::greedy()),
        draft: 0,
        score: None,
    }
}

fn run(toy: &mut Toy, copies: Vec<CopyState>, chunk: Chunk) -> Output {
    toy.submit(Step { copies, chunks: vec![chunk] }).unwrap();
    toy.wait().unwrap().remove(0)
}

fn tokens(output: &Output) -> Vec<Token> {
    output.sampled.iter().map(|sampled| sampled.token).collect()
}

/// What follows the prompt: the greedy tokens of the pure function.
fn expected(number: usize) -> Vec<Token> {
    let toy = Toy::new(CAPACITY);
    let mut all = PROMPT.to_vec();
    for _ in 0..number {
        let logits = toy.logits(&all);
        all.push((0..300).max_by(|a, b| logits[*a as usize].total_cmp(&logits[*b as usize])).unwrap());
    }
    all[PROMPT.len()..].to_vec()
}

#[test]
fn chunks_and_last_tokens_give_the_same_answer_as_the_whole() {
    for split in 1..PROMPT.len() {
        let mut toy = Toy::new(CAPACITY);
        let first = Chunk { sampling: None, ..chunk(0, 0, &PROMPT[..split]) };
        assert!(run(&mut toy, vec![], first).sampled.is_empty());
        let mut answer = tokens(&run(&mut toy, vec![], chunk(0, split as u32, &PROMPT[split..])));
        for position in 10..14 {
            let next = Chunk { tokens: Tokens::Last, ..chunk(0, position, &[]) };
            answer.extend(tokens(&run(&mut toy, vec![], next)));
        }
        assert_eq!(answer, expected(5), "split at {split}");
    }
}

#[test]
fn drafts_change_no_token() {
    let mut toy = Toy::new(CAPACITY);
    let mut answer = tokens(&run(&mut toy, vec![], Chunk { draft: 3, ..chunk(0, 0, &PROMPT) }));
    let mut most = answer.len();
    while answer.len() < 12 {
        let position = (PROMPT.len() + answer.len()) as u32 - 1;
        let next = run(&mut toy, vec![], Chunk { tokens: Tokens::Last, draft: 3, ..chunk(0, position, &[]) });
        most = most.max(next.sampled.len());
        answer.extend(tokens(&next));
    }
    assert!(most > 1, "no draft was accepted");
    assert_eq!(answer[..12], expected(12));
}

#[test]
fn a_snapshot_restores_a_prefix() {
    let mut toy = Toy::new(CAPACITY);
    run(&mut toy, vec![], Chunk { sampling: None, ..chunk(0, 0, &PROMPT[..4]) });
    let copies = [(0, 3), (3, 1)].map(|(from, to)| CopyState { from: Slot(from), to: Slot(to) });
    let output = run(&mut toy, copies.to_vec(), chunk(1, 4, &PROMPT[4..]));
    assert_eq!(tokens(&output), expected(1));
}

#[test]
fn mistakes_of_a_scheduler_change_the_answer() {
    let answer = expected(1);
    let after_prefix = |change: &dyn Fn(&mut Chunk)| {
        let mut toy = Toy::new(CAPACITY);
        run(&mut toy, vec![], Chunk { sampling: None, ..chunk(0, 0, &PROMPT[..5]) });
        let mut rest = chunk(0, 5, &PROMPT[5..]);
        change(&mut rest);
        tokens(&run(&mut toy, vec![], rest))
    };
    assert_eq!(after_prefix(&|_| ()), answer);
    assert_ne!(after_prefix(&|rest| rest.slot = Slot(1)), answer, "another slot");
    assert_ne!(after_prefix(&|rest| rest.pages.swap(0, 1)), answer, "pages out of order");
    assert_ne!(after_prefix(&|rest| rest.pages[0] = Page(9)), answer, "a page never written");
    assert_ne!(after_prefix(&|rest| rest.position = 6), answer, "a position too far");
    assert_ne!(
        after_prefix(&|rest| rest.tokens = Tokens::Known(PROMPT[6..].to_vec())),
        answer,
        "a lost token"
    );
}

#[test]
fn targets_are_scored() {
    let mut toy = Toy::new(CAPACITY);
    let score = Some(Score { targets: PROMPT[1..].to_vec(), top: 2 });
    let output = run(&mut toy, vec![], Chunk { score, sampling: None, ..chunk(0, 0, &PROMPT) });
    assert_eq!(output.scored.iter().map(|scored| scored.token).collect::<Vec<_>>(), PROMPT[1..]);
    assert!(output.scored.iter().all(|scored| scored.log_probability < -1.0 && scored.top.len() == 2));
}

#[test]
fn scripts_are_followed() {
    let mut toy = Toy::new(CAPACITY).scripted(vec![9, 10], vec![42, 43]);
    let mut answer = tokens(&run(&mut toy, vec![], chunk(0, 0, &PROMPT)));
    answer.extend(tokens(&run(&mut toy, vec![], Chunk { tokens: Tokens::Last, ..chunk(0, 10, &[]) })));
    assert_eq!(answer, [42, 43]);
}

#[test]
fn steps_that_no_executor_can_run_are_errors() {
    let table: Vec<(&str, Vec<Chunk>)> = vec![
        ("no such slot", vec![chunk(4, 0, &PROMPT)]),
        ("two chunks of Slot(0)", vec![chunk(0, 0, &PROMPT), chunk(0, 0, &PROMPT)]),
        ("two chunks write Page(3)", vec![chunk(0, 0, &PROMPT), chunk(1, 0, &PROMPT)]),
        ("40 tokens in a step for 32", vec![chunk(0, 0, &[1; 40])]),
        ("46 tokens in a context of 40", vec![chunk(0, 36, &PROMPT)]),
        ("a token beyond the vocabulary", vec![chunk(0, 0, &[300])]),
        ("sampled no token", vec![Chunk { tokens: Tokens::Last, ..chunk(0, 4, &[]) }]),
        ("no such page", vec![Chunk { pages: vec![Page(16)], ..chunk(0, 0, &[1]) }]),
        (
            "reads a page that another writes",
            vec![chunk(0, 0, &[1]), Chunk { pages: vec![Page(3), Page(8)], ..chunk(1, 4, &[1]) }],
        ),
    ];
    for (message, chunks) in table {
        let result = Toy::new(CAPACITY).submit(Step { copies: vec![], chunks });
        let error = result.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(message), "{message}: {error}");
    }
    assert!(Toy::new(CAPACITY).fails_at(0).submit(Step::default()).is_err());
}
