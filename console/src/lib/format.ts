import { language } from "../texts";

const WHOLE = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const SHARE = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 0 });
const MOMENT = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
const DAY = new Intl.DateTimeFormat(language, { dateStyle: "medium" });
const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;

export function count(value: number | string | undefined): string {
  return WHOLE.format(Number(value ?? 0));
}

/** A number with as many digits behind the point at most. */
export function number(value: number | undefined, digits: number): string {
  return new Intl.NumberFormat(language, { maximumFractionDigits: digits }).format(value ?? 0);
}

/** A share from 0 to 1 as a percentage. */
export function percent(share: number): string {
  return SHARE.format(share);
}

/** A time of the contract, in the reader's time zone; "" for none. */
export function moment(time: string | undefined): string {
  return time ? MOMENT.format(new Date(time)) : "";
}

/** A day such as 2026-01-31 in the reader's form. */
export function dayText(day: string): string {
  return DAY.format(new Date(`${day}T12:00:00`));
}

export function bytes(size: number | string | undefined): string {
  let value = Number(size ?? 0);
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const format = { style: "unit", unit: UNITS[unit], unitDisplay: "short", maximumFractionDigits: unit ? 1 : 0 } as const;
  return new Intl.NumberFormat(language, format).format(value);
}

/** A text without empty lines, for where there is little room. */
export function compact(text: string): string {
  return text.replace(/\n\s*\n/g, "\n");
}

/** An opening of an address that a browser may go to, and no script. */
export function isWebAddress(text: string): boolean {
  return /^https?:\/\//i.test(text);
}
