import { de } from "./de";
import { en } from "./en";

export type Texts = typeof en;

const LANGUAGES = { en, de };

/** The first language of the reader that there is, with its region: it says how dates and numbers look. */
export const language: string =
  navigator.languages.find((each) => each.slice(0, 2).toLowerCase() in LANGUAGES) ?? "en";

/** Choose the words of the reader's language. */
export function inLanguage<T>(words: Record<keyof typeof LANGUAGES, T>): T {
  return words[language.slice(0, 2).toLowerCase() as keyof typeof LANGUAGES];
}

export const texts: Texts = inLanguage(LANGUAGES);
