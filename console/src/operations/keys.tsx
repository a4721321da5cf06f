import type { ApiKey, GroundlineClient } from "groundline-client";
import { useId, useState } from "preact/hooks";
import { count, moment } from "../lib/format";
import { problemOf, type Problem } from "../lib/problem";
import { useLoaded } from "../lib/use_loaded";
import { announce } from "../parts/announcer";
import { CopyButton } from "../parts/copy_button";
import { Dialog } from "../parts/dialog";
import { Failure } from "../parts/failure";
import { texts } from "../texts";
import { operations } from "../texts/operations";
import { LookAgain, Section } from "./section";

/** Keys that are shown at first and added by the button. */
const SHOWN = 50;
const SCOPES = ["search", "chat", "ingest", "admin", "administration"] as const;
const DAYS = [30, 90, 365] as const;
const DAY_MS = 86_400_000;

/** The keys of everybody, for who administers the installation. */
export function KeysSection({ client }: { client: GroundlineClient }) {
  const [most, setMost] = useState(SHOWN);
  const [isCreating, setCreating] = useState(false);
  const [revoked, setRevoked] = useState<ApiKey>();
  const loaded = useLoaded(
    async (signal) => {
      const found: ApiKey[] = [];
      for await (const key of client.all("listApiKeys", { pageSize: most + 1 }, { signal })) {
        if (found.push(key) > most) break;
      }
      return found;
    },
    [client, most],
  );
  const { value, reload } = loaded;
  return (
    <Section id="keys" title={operations.keys} hint={operations.keysHint} tools={<LookAgain reload={reload} about={operations.keys} />} loaded={loaded}>
      {value && (
        <>
          <button type="button" onClick={() => setCreating(true)}>
            {operations.newKey}
          </button>
          {value.length ? <Table keys={value.slice(0, most)} revoke={setRevoked} /> : <p class="hint">{operations.noKeys}</p>}
          {value.length > most && (
            <button type="button" onClick={() => setMost(most + SHOWN)}>
              {texts.more}
            </button>
          )}
        </>
      )}
      {isCreating && <NewKey client={client} created={reload} close={() => setCreating(false)} />}
      {revoked && <Revoke client={client} apiKey={revoked} revoked={reload} close={() => setRevoked(undefined)} />}
    </Section>
  );
}

function Table({ keys, revoke }: { keys: readonly ApiKey[]; revoke: (key: ApiKey) => void }) {
  return (
    <div class="table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">{operations.client}</th>
            <th scope="col">{texts.state}</th>
            <th scope="col">{operations.scopes}</th>
            <th scope="col">{operations.principals}</th>
            <th scope="col">{operations.created}</th>
            <th scope="col">{operations.expires}</th>
            <th scope="col">{operations.lastUsed}</th>
            <th scope="col">{operations.keyId}</th>
            <td />
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <tr key={key.keyId}>
              <td dir="auto">{key.name}</td>
              <td>{operations.keyStates[key.state] ?? key.state}</td>
              <td>{key.scopes.join(", ")}</td>
              <td dir="auto">{key.principals.join(", ")}</td>
              <td>{moment(key.createTime)}</td>
              <td>{key.expireTime ? moment(key.expireTime) : operations.never}</td>
              <td>{key.lastUseTime ? moment(key.lastUseTime) : "–"}</td>
              <td>
                <code>{key.keyId}</code>
              </td>
              <td>
                {key.state === "API_KEY_STATE_ACTIVE" && (
                  <button type="button" class="quiet" aria-label={operations.revokeKey(key.name, key.keyId)} onClick={() => revoke(key)}>
                    {operations.revoke}
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface NewKeyProps {
  client: GroundlineClient;
  created: () => void;
  close: () => void;
}

/** Creates a key, and shows its text until the dialog closes. */
function NewKey({ client, created, close }: NewKeyProps) {
  const [secret, setSecret] = useState("");
  const [problem, setProblem] = useState<Problem>();
  const [isBusy, setBusy] = useState(false);
  const create = async (form: FormData) => {
    setProblem(undefined);
    setBusy(true);
    const days = Number(form.get("days"));
    try {
      const reply = await client.createApiKey({
        name: String(form.get("name")).trim(),
        principals: String(form.get("principals"))
          .split(/[\s,]+/)
          .filter(Boolean),
        scopes: form.getAll("scope").map(String),
        ...(days && { expireTime: new Date(Date.now() + days * DAY_MS).toISOString() }),
      });
      setSecret(reply.secret);
      announce(operations.keyCreated);
      created();
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  return (
    <Dialog title={operations.newKey} close={close} id="new-key">
      {secret ? (
        <>
          <p>{operations.secretHint}</p>
          <p class="row">
            <code class="secret">{secret}</code>
            <CopyButton text={() => secret} />
          </p>
        </>
      ) : (
        <form
          class="fields"
          onSubmit={(event) => {
            event.preventDefault();
            void create(new FormData(event.currentTarget));
          }}
        >
          <Fields />
          {problem && <Failure problem={problem} />}
          <button class="primary" disabled={isBusy}>
            {texts.create}
          </button>
        </form>
      )}
    </Dialog>
  );
}

function Fields() {
  const id = useId();
  return (
    <>
      <div class="field">
        <label for={`${id}name`}>{operations.client}</label>
        <input id={`${id}name`} name="name" required maxLength={64} autocomplete="off" aria-describedby={`${id}nameHint`} />
        <span class="hint" id={`${id}nameHint`}>
          {operations.clientHint}
        </span>
      </div>
      <div class="field">
        <label for={`${id}principals`}>{operations.principals}</label>
        <input id={`${id}principals`} name="principals" required autocomplete="off" aria-describedby={`${id}principalsHint`} />
        <span class="hint" id={`${id}principalsHint`}>
          {operations.principalsHint}
        </span>
      </div>
      <fieldset>
        <legend>{operations.scopes}</legend>
        {SCOPES.map((scope) => (
          <div key={scope}>
            <input type="checkbox" name="scope" value={scope} id={`${id}${scope}`} />{" "}
            <label for={`${id}${scope}`}>
              {scope}: {operations.ofScopes[scope]}
            </label>
          </div>
        ))}
      </fieldset>
      <div class="field">
        <label for={`${id}days`}>{operations.expires}</label>
        <select id={`${id}days`} name="days">
          <option value="0">{operations.never}</option>
          {DAYS.map((days) => (
            <option key={days} value={days}>
              {operations.inDays(count(days))}
            </option>
          ))}
        </select>
      </div>
    </>
  );
}

interface RevokeProps {
  client: GroundlineClient;
  apiKey: ApiKey;
  revoked: () => void;
  close: () => void;
}

function Revoke({ client, apiKey: { keyId, name }, revoked, close }: RevokeProps) {
  const [problem, setProblem] = useState<Problem>();
  const act = async () => {
    setProblem(undefined);
    try {
      await client.revokeApiKey({ keyId });
    } catch (error) {
      setProblem(problemOf(error));
      return;
    }
    announce(operations.keyRevoked);
    revoked();
    close();
  };
  return (
    <Dialog title={operations.revokeKey(name, keyId)} close={close} id="revoke-key">
      <p>{operations.revokeHint}</p>
      {problem && <Failure problem={problem} />}
      <button type="button" class="primary" onClick={() => void act()}>
        {operations.revoke}
      </button>
    </Dialog>
  );
}
