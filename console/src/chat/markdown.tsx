import { memo } from "../lib/memo";
import type { ComponentChildren, VNode } from "preact";
import { isWebAddress } from "../lib/format";
import { CopyButton } from "../parts/copy_button";
import { texts } from "../texts";

// Markdown as nodes. Nothing is read as HTML, only addresses of the web and of mail become links, and an image is a
// link: showing it would fetch it. Repetitions and depths are bounded, since the text may be anything.
const MAX_DEPTH = 8;
const FENCE = /^ {0,3}(`{3,}|~{3,})[^`]*$/;
const HEADING = /^ {0,3}(#{1,6}) (.*)$/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,9})([-*+]|(\d{1,9})[.)])(?: +|$)/;
/** Private-use characters around a sentence that its source does not support; no text that is shown has them. */
export const [MARK_START, MARK_END] = ["\uE000", "\uE001"];
const MARKS = /[\uE000\uE001]/g;
const INLINE = new RegExp(
  [
    /\uE000([^\uE001]*)\uE001/,
    /\\([\\`*_{}[\]()#+\-.!|~<>])/,
    /(?<tick>`{1,2})([^`]+)\k<tick>/,
    /(?:! ?)?\[([^[\]\n]{0,300})\]\(<?([^\s<>()]{1,2000})>?(?: +"[^"\n]{0,300}")?\)/,
    /\[(\d{1,3})\]/,
    /(https?:\/\/[^\s<>"'`()[\]\uE000\uE001]{0,2000}[^\s<>"'`()[\].,;:!?\uE000\uE001])/,
    /(?<strong>\*\*|(?<!\w)__|~~)(?=\S)([^]{1,500}?)(?<=\S)\k<strong>(?!\w)/,
    /(?<mild>\*|(?<!\w)_)(?=[^\s*_])([^]{1,500}?)(?<=[^\s*_])\k<mild>(?![\w*])/,
  ]
    .map((each) => each.source)
    .join("|"),
  "g",
);
const STYLES: Record<string, "strong" | "em" | "del"> = { "**": "strong", __: "strong", "~~": "del", "*": "em", _: "em" };

/** What stands for [n]; null where there is no such source. */
type ShowCitation = (number: number) => VNode | null;

export function Link({ href, children, class: name }: { href: string; children: ComponentChildren; class?: string }) {
  return (
    <a href={href} title={href} class={name} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}

function inline(text: string, citation: ShowCitation, depth = 0): ComponentChildren[] {
  const nodes: ComponentChildren[] = [];
  let end = 0;
  const plain = (words: string) => words && nodes.push(words.replace(MARKS, ""));
  for (const found of depth < MAX_DEPTH ? text.matchAll(INLINE) : []) {
    const [all, marked, escaped, , code, label, target, number, address, strong, strongText, mild, mildText] = found;
    plain(text.slice(end, found.index));
    end = found.index + all.length;
    if (marked !== undefined) nodes.push(<Unsupported>{inline(marked, citation, depth + 1)}</Unsupported>);
    else if (escaped) nodes.push(escaped);
    else if (code) nodes.push(<code>{code.replace(MARKS, "")}</code>);
    else if (target) {
      const words = inline(label || target, () => null, depth + 1);
      nodes.push(isWebAddress(target) || /^mailto:/i.test(target) ? <Link href={target}>{words}</Link> : words);
    } else if (number) nodes.push(citation(Number(number)) ?? all);
    else if (address) nodes.push(<Link href={address}>{address}</Link>);
    else {
      const Style = STYLES[(strong ?? mild) as string] ?? "em";
      nodes.push(<Style>{inline((strongText ?? mildText) as string, citation, depth + 1)}</Style>);
    }
  }
  plain(text.slice(end));
  return nodes;
}

function Unsupported({ children }: { children: ComponentChildren }) {
  return (
    <mark class="unsupported" title={texts.unsupported}>
      {children}
      <span class="unseen"> ({texts.unsupported})</span>
    </mark>
  );
}

function isDelimiters(line = ""): boolean {
  return /^\|?(?::?-+:?\|)+(?::?-+:?)?$/.test(line.replaceAll(" ", ""));
}

function begins(line: string, next: string | undefined): boolean {
  return (
    FENCE.test(line) ||
    HEADING.test(line) ||
    RULE.test(line) ||
    QUOTE.test(line) ||
    ITEM.test(line) ||
    (line.includes("|") && isDelimiters(next))
  );
}

type Kind = "fence" | "heading" | "rule" | "quote" | "list" | "table" | "paragraph";
interface Block {
  kind: Kind;
  lines: string[];
}

function kindOf(line: string, next: string | undefined, depth: number): Kind {
  if (FENCE.test(line)) return "fence";
  if (HEADING.test(line)) return "heading";
  if (RULE.test(line)) return "rule";
  if (depth < MAX_DEPTH && QUOTE.test(line)) return "quote";
  if (depth < MAX_DEPTH && ITEM.test(line)) return "list";
  return line.includes("|") && isDelimiters(next) ? "table" : "paragraph";
}

/** Where the block that begins at `at` ends, exclusive. */
function endOf(kind: Kind, lines: string[], at: number): number {
  const line = (index: number) => lines[index] ?? "";
  let end = at + 1;
  if (kind === "fence") {
    const mark = FENCE.exec(line(at))?.[1] ?? "```";
    while (end < lines.length && !(/^ {0,3}[`~]+ *$/.test(line(end)) && line(end).trim().startsWith(mark))) end += 1;
    return Math.min(end + 1, lines.length);
  }
  if (kind === "quote") while (end < lines.length && QUOTE.test(line(end))) end += 1;
  if (kind === "table") for (end = at + 2; end < lines.length && line(end).includes("|"); ) end += 1;
  if (kind === "paragraph") while (end < lines.length && line(end).trim() && !begins(line(end), lines[end + 1])) end += 1;
  if (kind === "list") return itemsOf(lines, at).end;
  return end;
}

/** The items of the list that begins at `at`, each with its lines, and where it ends. */
function itemsOf(lines: string[], at: number): { items: string[][]; end: number } {
  const first = ITEM.exec(lines[at] ?? "");
  const items: string[][] = [];
  let end = at;
  while (first && end < lines.length) {
    const line = lines[end] ?? "";
    const item = ITEM.exec(line);
    const isSame = item && indentOf(item) <= indentOf(first) + 1 && Boolean(item[3]) === Boolean(first[3]);
    if (!isSame || RULE.test(line)) break;
    const inset = Math.min(item[0].length, indentOf(item) + 4);
    const inner = [line.slice(item[0].length)];
    for (end += 1; end < lines.length; end += 1) {
      const next = lines[end] ?? "";
      const spaces = /^ */.exec(next)?.[0].length ?? 0;
      const isDeeper = spaces >= Math.min(inset, indentOf(item) + 2);
      if (next.trim() && !isDeeper && (begins(next, lines[end + 1]) || !lines[end - 1]?.trim())) break;
      inner.push(next.slice(Math.min(inset, spaces)));
    }
    items.push(inner);
  }
  return { items, end };
}

function indentOf(item: RegExpExecArray): number {
  return item[1]?.length ?? 0;
}

function blocksOf(lines: string[], depth: number): Block[] {
  const blocks: Block[] = [];
  for (let at = 0; at < lines.length; ) {
    const line = lines[at] ?? "";
    if (!line.trim()) {
      at += 1;
      continue;
    }
    const kind = kindOf(line, lines[at + 1], depth);
    const end = endOf(kind, lines, at);
    blocks.push({ kind, lines: lines.slice(at, end) });
    at = end;
  }
  return blocks;
}

function shown({ kind, lines }: Block, citation: ShowCitation, depth: number, dir: "auto" | undefined): VNode {
  const first = lines[0] ?? "";
  const within = (inner: string[]) => blocksOf(inner, depth + 1).map((each) => shown(each, citation, depth + 1, undefined));
  switch (kind) {
    case "fence":
      return <Code lines={lines} />;
    case "heading": {
      const [, marks = "#", words = ""] = HEADING.exec(first) ?? [];
      const Tag = `h${Math.min(6, marks.length + 2)}` as "h3";
      return <Tag dir={dir}>{inline(words.trim().replace(/ #{1,9}$/, ""), citation)}</Tag>;
    }
    case "rule":
      return <hr />;
    case "quote":
      return <blockquote dir={dir}>{within(lines.map((line) => line.replace(QUOTE, "")))}</blockquote>;
    case "list": {
      const number = ITEM.exec(first)?.[3];
      const items = itemsOf(lines, 0).items.map((inner) => {
        const parts = blocksOf(inner, depth + 1);
        // A tight item is its text, not a paragraph.
        const isTight = parts[0]?.kind === "paragraph" && (parts.length === 1 || parts[1]?.kind === "list");
        const head = isTight ? inline(paragraphOf(parts[0] as Block), citation) : [];
        return <li>{[...head, ...parts.slice(isTight ? 1 : 0).map((part) => shown(part, citation, depth + 1, undefined))]}</li>;
      });
      return number ? (
        <ol dir={dir} start={Number(number)}>
          {items}
        </ol>
      ) : (
        <ul dir={dir}>{items}</ul>
      );
    }
    case "table":
      return <Table lines={lines} citation={citation} dir={dir} />;
    default:
      return <p dir={dir}>{inline(paragraphOf({ kind, lines }), citation)}</p>;
  }
}

function paragraphOf({ lines }: Block): string {
  return lines.map((line) => line.trim()).join("\n");
}

function Code({ lines }: { lines: string[] }) {
  const last = lines.at(-1) ?? "";
  const isClosed = lines.length > 1 && /^ {0,3}[`~]+ *$/.test(last);
  const text = lines.slice(1, isClosed ? -1 : undefined).join("\n").replace(MARKS, "");
  return (
    <div class="code">
      <pre dir="ltr" tabIndex={0}>
        <code>{text}</code>
      </pre>
      <CopyButton text={() => text} />
    </div>
  );
}

function Table({ lines, citation, dir }: { lines: string[]; citation: ShowCitation; dir: "auto" | undefined }) {
  const cells = (line: string) =>
    line
      .trim()
      .replace(/^\||\|$/g, "")
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim());
  const heads = cells(lines[0] ?? "");
  const rows = lines.slice(2).map(cells);
  return (
    <div class="table" dir={dir} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {heads.map((head) => (
              <th>{inline(head, citation)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {heads.map((_, at) => (
                <td>{inline(row[at] ?? "", citation)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface ShownBlock {
  text: string;
  block: Block;
  citation: ShowCitation;
}

// While an answer is written only its last block changes; the others stay as they are.
const Shown = memo<ShownBlock>(
  ({ block, citation }) => shown(block, citation, 0, "auto"),
  (before, after) => before.text === after.text && before.citation === after.citation,
);

/** Markdown of a model or a document. `citation` must stay the same function while it shows the same. */
export function Markdown({ text, citation }: { text: string; citation: ShowCitation }) {
  const blocks = blocksOf(text.replaceAll("\t", "    ").split(/\r?\n/), 0);
  return (
    <>
      {blocks.map((block, at) => (
        <Shown key={at} text={`${block.kind}\n${block.lines.join("\n")}`} block={block} citation={citation} />
      ))}
    </>
  );
}
