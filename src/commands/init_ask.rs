//! The questions of `init` in a terminal.

use std::io::{BufRead, Write as _};

use crate::exit::Stop;
use crate::terminal::complain;

/// Whether questions are asked. Otherwise, every answer is the default.
#[derive(Clone, Copy)]
pub(super) struct Questions {
    pub(super) asked: bool,
}

impl Questions {
    /// Returns what `read` makes of the answer; an empty answer means the default. Asks again if `read` refuses the answer.
    ///
    /// # Errors
    /// If `read` refuses the default of a question that is not asked, the terminal fails, or the user ends the input.
    pub(super) fn answer<T>(
        self,
        question: &str,
        default: &str,
        read: impl Fn(&str) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        match self.asked {
            true => ask(&mut std::io::stdin().lock(), question, default, read),
            false => read(default),
        }
    }
}

fn ask<T>(
    input: &mut impl BufRead,
    question: &str,
    default: &str,
    read: impl Fn(&str) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let wrong = |e: std::io::Error| Stop::refused_at("the terminal", &e);
    loop {
        let mut err = std::io::stderr();
        write!(err, "{question} [{default}]: ").map_err(wrong)?;
        err.flush().map_err(wrong)?;
        let mut answer = String::new();
        if input.read_line(&mut answer).map_err(wrong)? == 0 {
            complain("\nno file was written");
            return Err(Stop::interrupted());
        }
        let answer = answer.trim();
        match read(if answer.is_empty() { default } else { answer }) {
            Ok(answer) => return Ok(answer),
            Err(stop) => {
                let _asks_again = stop.report();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_answer_is_asked_again_and_the_end_of_the_input_is_no_answer() {
        let number = |text: &str| {
            text.parse::<u32>()
                .map_err(|_| Stop::usage(format!("`{text}` is not a number")))
        };
        let answers = |mut input: &[u8]| ask(&mut input, "How many", "3", number);
        assert_eq!(answers(b"?\n\n").ok(), Some(3));
        assert_eq!(answers(b"?\n 8 \n1\n").ok(), Some(8));
        for ended in [&b""[..], b"?\n"] {
            assert_eq!(answers(ended).map_err(|stop| stop.code()), Err(130));
        }
    }
}
