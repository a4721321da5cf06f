import type { FusionMethod, Input, RerankStrategy, RetrievalMode, SearchOptions } from "groundline-client";

/** How a search is done; what is "" or 0 is as the collection is set. */
export interface Settings {
  mode: RetrievalMode | "";
  fusion: FusionMethod | "";
  strategy: RerankStrategy | "";
  topK: number;
}

export const AS_SET: Settings = { mode: "", fusion: "", strategy: "", topK: 0 };

export const MODES = ["RETRIEVAL_MODE_HYBRID", "RETRIEVAL_MODE_KEYWORD", "RETRIEVAL_MODE_SEMANTIC"] as const;
export const FUSIONS = ["FUSION_METHOD_WEIGHTED", "FUSION_METHOD_RRF"] as const;
export const STRATEGIES = [
  "RERANK_STRATEGY_NONE",
  "RERANK_STRATEGY_WEIGHTED",
  "RERANK_STRATEGY_CROSS_ENCODER",
  "RERANK_STRATEGY_API",
  "RERANK_STRATEGY_LLM",
] as const;
export const MOST_PASSAGES = 100;

/** Return the settings of an address, one text for each: "mode.fusion.strategy.topK", each as short as it can be. */
export function parseSettings(text: string): Settings {
  const [mode = "", fusion = "", strategy = "", topK = ""] = text.split(".");
  return {
    mode: MODES.find((each) => shortened(each) === mode) ?? "",
    fusion: FUSIONS.find((each) => shortened(each) === fusion) ?? "",
    strategy: parseStrategy(strategy),
    topK: /^\d{1,3}$/.test(topK) ? Math.min(Number(topK), MOST_PASSAGES) : 0,
  };
}

export function parseStrategy(text: string): RerankStrategy | "" {
  return STRATEGIES.find((each) => shortened(each) === text) ?? "";
}

export function settingsText({ mode, fusion, strategy, topK }: Settings): string {
  return [shortened(mode), shortened(fusion), shortened(strategy), topK || ""].join(".");
}

/** The value of an enum as addresses have it. */
export function shortened(value: string): string {
  return value.replace(/^(RETRIEVAL_MODE|FUSION_METHOD|RERANK_STRATEGY)_/, "").toLowerCase();
}

/** Return the options of a search that also tells what was cut. */
export function optionsOf({ mode, fusion, strategy, topK }: Settings): Input<SearchOptions> {
  return {
    ...(mode && { retrieval: { mode } }),
    rerank: { ...(fusion && { fusion }), ...(strategy && { strategy }), ...(topK && { topK }), includeCut: true },
  };
}
