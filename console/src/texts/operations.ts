import { inLanguage } from "./index";

const en = {
  lookAgain: "Look again",
  notForKey: "Your key is not for this.",
  notShown: (count: number) => `${count === 1 ? "1 collection is" : `${count} collections are`} not shown: your key is not for ${count === 1 ? "it" : "them"}.`,

  services: "Services",
  servicesHint: "A service is ready when one of its replicas is. The log of one that is not says which dependency fails, as service_not_ready.",
  duties: {
    coordinator: "answers questions",
    retriever: "searches",
    reranker: "ranks passages",
    generator: "calls language models",
    ingestor: "takes documents in",
    bridge: "speaks the OpenAI API and MCP",
  } as Record<string, string>,
  ready: "Ready",
  notReady: "Not ready",
  unknown: "Not known",
  isNotReady: (service: string) => `${service} is not ready`,
  isReady: (service: string) => `${service} is ready`,

  show: "Show",
  allJobs: "All jobs",
  running: "Under way",
  failed: "With failures",
  noSuchJobs: "There are no such jobs.",
  amongLast: (count: string) => `Looked at the last ${count} jobs.`,

  noSourcesAnywhere: "No collection follows a source.",
  collection: "Collection",
  source: "Source",
  lastRun: "Last run",
  neverRan: "has not run yet",
  documents: "Documents",

  indexes: "Indexes",
  indexesHint: "What waits has been handed in and cannot be found yet. Without a vector, a chunk is found by its words alone.",
  searchable: "Searchable",
  waits: "Waits",
  withoutVector: "Without a vector",
  storage: "Storage",
  vectorIndexes: {
    VECTOR_INDEX_STATE_NONE: "too few chunks for one",
    VECTOR_INDEX_STATE_PENDING: "being built",
    VECTOR_INDEX_STATE_READY: "in use",
  } as Record<string, string>,
  fullestQuota: "Fullest quota",
  total: "All of these",

  ownQuotas: "Your quotas",
  jobsCost: (dollars: string, jobs: string) => `The last ${jobs} jobs cost ${dollars} US dollars, where the price is known.`,
  jobsCostNothing: (jobs: string) => `No price is known of the last ${jobs} jobs.`,

  erasures: "Deleted for good",
  noErasures: "Nothing that you asked for was deleted for good.",
  whole: "the collection",
  certificate: "Signed certificate",
  erasedAnswers: (count: string) => `${count} ${count === "1" ? "answer" : "answers"}`,

  keys: "Keys and the audit log",
  keysHint: "They tell of everybody, so no key opens them. Whoever has the gateway's database reads and changes them by command:",
  ofKeys: "who has a key, for what, until when",
  ofAudit: "who changed what, and what was refused",
  ofDoctor: "what is wrong with this installation, and what to do",
};

const de: typeof en = {
  lookAgain: "Neu prüfen",
  notForKey: "Ihr Schlüssel ist nicht dafür.",
  notShown: (count) => `${count === 1 ? "1 Sammlung wird" : `${count} Sammlungen werden`} nicht gezeigt: Ihr Schlüssel ist nicht dafür.`,

  services: "Dienste",
  servicesHint: "Ein Dienst ist bereit, wenn eine seiner Instanzen es ist. Ist er es nicht, nennt sein Protokoll als service_not_ready, was ihm fehlt.",
  duties: {
    coordinator: "beantwortet Fragen",
    retriever: "sucht",
    reranker: "ordnet Fundstellen",
    generator: "ruft Sprachmodelle auf",
    ingestor: "nimmt Dokumente auf",
    bridge: "spricht die OpenAI-API und MCP",
  },
  ready: "Bereit",
  notReady: "Nicht bereit",
  unknown: "Nicht bekannt",
  isNotReady: (service) => `${service} ist nicht bereit`,
  isReady: (service) => `${service} ist bereit`,

  show: "Zeigen",
  allJobs: "Alle Aufträge",
  running: "Laufende",
  failed: "Mit Fehlern",
  noSuchJobs: "Solche Aufträge gibt es nicht.",
  amongLast: (count) => `Durchgesehen: die letzten ${count} Aufträge.`,

  noSourcesAnywhere: "Keine Sammlung folgt einer Quelle.",
  collection: "Sammlung",
  source: "Quelle",
  lastRun: "Letzter Lauf",
  neverRan: "lief noch nicht",
  documents: "Dokumente",

  indexes: "Indizes",
  indexesHint: "Was wartet, ist übergeben und noch nicht zu finden. Ohne Vektor wird ein Abschnitt nur über seine Wörter gefunden.",
  searchable: "Durchsuchbar",
  waits: "Wartet",
  withoutVector: "Ohne Vektor",
  storage: "Speicher",
  vectorIndexes: {
    VECTOR_INDEX_STATE_NONE: "zu wenige Abschnitte",
    VECTOR_INDEX_STATE_PENDING: "wird gebaut",
    VECTOR_INDEX_STATE_READY: "in Gebrauch",
  },
  fullestQuota: "Vollstes Kontingent",
  total: "Alle diese",

  ownQuotas: "Ihre Kontingente",
  jobsCost: (dollars, jobs) => `Die letzten ${jobs} Aufträge kosteten ${dollars} US-Dollar, soweit der Preis bekannt ist.`,
  jobsCostNothing: (jobs) => `Für die letzten ${jobs} Aufträge ist kein Preis bekannt.`,

  erasures: "Endgültig gelöscht",
  noErasures: "Nichts, was Sie löschen ließen, wurde endgültig gelöscht.",
  whole: "die Sammlung",
  certificate: "Signierte Bescheinigung",
  erasedAnswers: (count) => `${count} ${count === "1" ? "Antwort" : "Antworten"}`,

  keys: "Schlüssel und Prüfprotokoll",
  keysHint: "Sie erzählen von allen, also öffnet sie kein Schlüssel. Wer die Datenbank des Gateways hat, liest und ändert sie mit Befehlen:",
  ofKeys: "wer einen Schlüssel hat, wofür, bis wann",
  ofAudit: "wer was geändert hat, und was abgelehnt wurde",
  ofDoctor: "was an dieser Installation nicht stimmt, und was zu tun ist",
};

export const operations = inLanguage({ en, de });
