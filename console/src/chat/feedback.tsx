import type { Feedback, Input, Problem, Rating } from "groundline-client";
import { useState } from "preact/hooks";
import { problemOf } from "../lib/problem";
import { texts } from "../texts";

const RATINGS: [Rating, string][] = [
  ["RATING_GOOD", texts.helpful],
  ["RATING_BAD", texts.notHelpful],
];

/** Lets the reader say whether the answer was of use, and shows what was said. */
export function Rate({ given, rate }: { given: Feedback | undefined; rate: (feedback: Input<Feedback>) => Promise<Feedback | undefined> }) {
  const [note, setNote] = useState("");
  const send = async (feedback: Input<Feedback>) => {
    setNote("");
    try {
      setNote((await rate(feedback)) ? texts.thanks : texts.takenBack);
    } catch (error) {
      setNote(problemOf(error).message);
    }
  };
  return (
    <div class="rating" role="group" aria-label={texts.rate}>
      {RATINGS.map(([rating, words]) => (
        <button
          type="button"
          class="quiet"
          aria-pressed={given?.rating === rating}
          onClick={() => void send(given?.rating === rating ? {} : { rating })}
        >
          {words}
        </button>
      ))}
      <span role="status">{note}</span>
      {given?.rating === "RATING_BAD" && <Reason given={given} send={send} />}
    </div>
  );
}

function Reason({ given, send }: { given: Feedback; send: (feedback: Input<Feedback>) => Promise<void> }) {
  return (
    <form
      class="more"
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        void send({
          rating: "RATING_BAD",
          problem: form.get("problem") as Problem,
          comment: String(form.get("comment")).trim(),
        });
      }}
    >
      <select name="problem" aria-label={texts.problems.PROBLEM_UNSPECIFIED}>
        {Object.entries(texts.problems).map(([value, words]) => (
          <option value={value} selected={value === (given.problem ?? "PROBLEM_UNSPECIFIED")}>
            {words}
          </option>
        ))}
      </select>
      <input name="comment" maxLength={2000} placeholder={texts.inYourWords} aria-label={texts.comment} defaultValue={given.comment ?? ""} />
      <button>{texts.send}</button>
    </form>
  );
}
