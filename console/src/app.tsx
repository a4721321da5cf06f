import type { GroundlineClient } from "groundline-client";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Chat } from "./chat/chat";
import { Conversation } from "./chat/conversation";
import { Documents } from "./documents/documents";
import { Uploads } from "./documents/uploads";
import { chatAddress, documentsAddress, EVALUATION, EVERYTHING, OPERATIONS, searchAddress, useAddress } from "./lib/address";
import { Announcer } from "./parts/announcer";
import { later } from "./parts/later";
import { Undo } from "./parts/undo";
import { Search } from "./search/search";
import { SignIn } from "./sign_in/sign_in";
import { useSession } from "./sign_in/use_session";
import { texts } from "./texts";

const Operations = later(() => import("./operations/operations").then((part) => part.Operations));
const Evaluation = later(() => import("./evaluation/evaluation").then((part) => part.Evaluation));

/** The page: its views, for whoever has signed in. */
export function App() {
  // A typed question stays when the session ends.
  const [draft, setDraft] = useState("");
  const { session, signOut, ...asking } = useSession(draft, setDraft);
  return (
    <>
      {session ? (
        <SignedIn client={session.client} draft={draft} setDraft={setDraft} signOut={signOut} />
      ) : (
        <>
          <header>
            <Name />
          </header>
          <SignIn {...asking} />
        </>
      )}
      <Undo />
      <Announcer />
    </>
  );
}

function Name() {
  return (
    <h1>
      <span>Groundline</span>
    </h1>
  );
}

interface SignedInProps {
  client: GroundlineClient;
  draft: string;
  setDraft: (text: string) => void;
  signOut: () => void;
}

function SignedIn({ client, draft, setDraft, signOut }: SignedInProps) {
  const address = useAddress();
  const conversation = useMemo(() => new Conversation(client, setDraft), [client]);
  const uploads = useMemo(() => new Uploads(client), [client]);
  const session = useMemo(() => new AbortController(), [client]);
  // What is under way ends with the session.
  useEffect(
    () => () => {
      if (conversation.unansweredQuery) setDraft(conversation.unansweredQuery);
      conversation.stop();
      uploads.stop();
      session.abort();
    },
    [conversation, uploads, session],
  );
  // Where not all views fit beside each other, the one that is shown does.
  const navigation = useRef<HTMLElement>(null);
  useEffect(() => navigation.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [address.view]);
  const selection = "selection" in address ? address.selection : EVERYTHING;
  return (
    <>
      <header>
        <Name />
        <nav ref={navigation}>
          <a href={chatAddress(selection)} aria-current={address.view === "chat" ? "page" : undefined}>
            {texts.chat}
          </a>
          <a href={searchAddress({ query: "", selection, settings: [], expected: undefined })} aria-current={address.view === "search" ? "page" : undefined}>
            {texts.search}
          </a>
          <a href={documentsAddress()} aria-current={address.view === "documents" ? "page" : undefined}>
            {texts.documents}
          </a>
          <a href={EVALUATION} aria-current={address.view === "evaluation" ? "page" : undefined}>
            {texts.evaluation}
          </a>
          <a href={OPERATIONS} aria-current={address.view === "operations" ? "page" : undefined}>
            {texts.operations}
          </a>
        </nav>
        <button id="sign-out" type="button" onClick={signOut}>
          {texts.signOut}
        </button>
      </header>
      {address.view === "chat" ? (
        <Chat client={client} conversation={conversation} selection={selection} linked={address.passage} draft={draft} setDraft={setDraft} />
      ) : address.view === "search" ? (
        <Search client={client} place={address} />
      ) : address.view === "evaluation" ? (
        <Evaluation client={client} ended={session.signal} />
      ) : address.view === "operations" ? (
        <Operations client={client} />
      ) : (
        <Documents client={client} uploads={uploads} collectionId={address.collectionId} documentId={address.documentId} />
      )}
    </>
  );
}
