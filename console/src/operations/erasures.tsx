import type { Erasure, GroundlineClient } from "groundline-client";
import { useState } from "preact/hooks";
import { saveAs } from "../documents/original";
import { count, moment } from "../lib/format";
import { problemOf, type Problem } from "../lib/problem";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { texts } from "../texts";
import { operations } from "../texts/operations";
import { Section } from "./section";

/** Erasures that are shown at first and added by the button. */
const SHOWN = 20;

/** What the reader has had deleted for good, each with its certificate. */
export function ErasuresSection({ client }: { client: GroundlineClient }) {
  const [most, setMost] = useState(SHOWN);
  const loaded = useLoaded(
    async (signal) => {
      const found: Erasure[] = [];
      for await (const erasure of client.all("listErasures", { pageSize: most + 1 }, { signal })) {
        if (found.push(erasure) > most) break;
      }
      return found;
    },
    [client, most],
  );
  const { value } = loaded;
  return (
    <Section id="erasures" title={operations.erasures} loaded={loaded}>
      {value && (
        <>
          {!value.length && <p class="hint">{operations.noErasures}</p>}
          <ul>
            {value.slice(0, most).map((erasure) => (
              <ErasureItem key={erasure.erasureId} client={client} erasure={erasure} />
            ))}
          </ul>
          {value.length > most && (
            <button type="button" onClick={() => setMost(most + SHOWN)}>
              {texts.more}
            </button>
          )}
        </>
      )}
    </Section>
  );
}

function ErasureItem({ client, erasure }: { client: GroundlineClient; erasure: Erasure }) {
  const [problem, setProblem] = useState<Problem>();
  const { erasureId, collectionId, isCollection, eraseTime, documentCount, chunkCount, answerCount } = erasure;
  const certify = async () => {
    setProblem(undefined);
    try {
      const response = await client.getErasureCertificate({ erasureId });
      saveAs(`erasure-${erasureId}.json`, await response.blob());
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  return (
    <li class="job">
      <time dateTime={eraseTime}>{moment(eraseTime)}</time>
      <span>
        {collectionId}
        {isCollection && ` (${operations.whole})`}
      </span>
      <span class="hint">
        {texts.documentsCount(count(documentCount))} · {texts.chunksCount(count(chunkCount))} · {operations.erasedAnswers(count(answerCount))}
      </span>
      <button type="button" class="quiet" onClick={() => void certify()}>
        {operations.certificate}
      </button>
      {problem && <Failure problem={problem} retry={() => void certify()} />}
    </li>
  );
}
