interface SearchBoxProps {
  label: string;
  words: string;
  setWords: (words: string) => void;
  maxLength?: number;
}

/** A box for words to find something by, as they are written. */
export function SearchBox({ label, words, setWords, maxLength }: SearchBoxProps) {
  return (
    <input
      type="search"
      maxLength={maxLength}
      aria-label={label}
      placeholder={label}
      value={words}
      onInput={(event) => setWords(event.currentTarget.value)}
    />
  );
}
