import { language, texts } from "../texts";

/** Languages that keyword search knows by their endings, as the contract names them. */
const CODES: Record<string, string> = {
  arabic: "ar",
  danish: "da",
  dutch: "nl",
  english: "en",
  finnish: "fi",
  french: "fr",
  german: "de",
  greek: "el",
  hungarian: "hu",
  italian: "it",
  norwegian: "no",
  polish: "pl",
  portuguese: "pt",
  romanian: "ro",
  russian: "ru",
  spanish: "es",
  swedish: "sv",
  tamil: "ta",
  turkish: "tr",
};

export type SpokenLanguage = { name: string; shown: string; isOwn: boolean };

/** The languages in the reader's words and order, their own chosen; last, what is indexed as it is. */
export function languages(): SpokenLanguage[] {
  const names = new Intl.DisplayNames([language], { type: "language" });
  const known = Object.entries(CODES).map(([name, code]) => ({
    name,
    shown: names.of(code) ?? name,
    isOwn: language.slice(0, 2).toLowerCase() === code,
  }));
  const sorted = known.sort((one, other) => one.shown.localeCompare(other.shown, language));
  return [...sorted, { name: "simple", shown: texts.otherLanguage, isOwn: false }];
}
