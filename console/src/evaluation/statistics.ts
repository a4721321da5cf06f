/**
 * How certain figures are, as `groundline eval` says it: the same resamples from the same seed, so that both give the
 * same numbers.
 */

/** Probability below which a difference is taken for more than chance; intervals leave out as much. */
export const SIGNIFICANT = 0.05;
const RESAMPLES = 1000;
const DRAWS = 2000;
const SEED = 27;

/** Figures of questions, a row for each, and what is made of them. */
export type Row = readonly number[];
export type Statistic<T> = (rows: readonly T[]) => number;

/** Return the interval that the statistic of 95 % of resampled sets lies in, for at least one row. */
export function bootstrapInterval<T>(rows: readonly T[], statistic: Statistic<T>): { low: number; high: number } {
  const random = randomNumbers();
  const found = Array.from({ length: RESAMPLES }, () => statistic(rows.map(() => rows[Math.floor(random() * rows.length)] as T)));
  found.sort((one, other) => one - other);
  const cut = Math.round((RESAMPLES * SIGNIFICANT) / 2);
  return { low: found[cut] ?? 0, high: found[RESAMPLES - cut - 1] ?? 0 };
}

/**
 * Return the probability of a difference at least as large as that between two runs over the same questions, if it does
 * not matter which run a question's row is of (Smucker et al., CIKM 2007).
 */
export function randomisationTest<T>(before: readonly T[], after: readonly T[], statistic: Statistic<T>): number {
  const observed = Math.abs(statistic(after) - statistic(before));
  if (!observed) return 1;
  const random = randomNumbers();
  let reached = 0;
  for (let draw = 0; draw < DRAWS; draw += 1) {
    const stays = before.map(() => random() < 0.5);
    const first = stays.map((isSo, at) => (isSo ? before : after)[at] as T);
    const second = stays.map((isSo, at) => (isSo ? after : before)[at] as T);
    // Sums of the same numbers in another order differ in their last bits.
    if (Math.abs(statistic(second) - statistic(first)) >= observed - 1e-12) reached += 1;
  }
  return (reached + 1) / (DRAWS + 1);
}

/** Return the sum as Python's `sum` has it (Neumaier's), to the last bit. */
export function sum(numbers: readonly number[]): number {
  let high = 0;
  let low = 0;
  for (const each of numbers) {
    const total = high + each;
    low += Math.abs(high) >= Math.abs(each) ? high - total + each : each - total + high;
    high = total;
  }
  return high + low;
}

export function mean(numbers: readonly number[]): number {
  return sum(numbers) / numbers.length;
}

const SIZE = 624;
const MIDDLE = 397;

/** The numbers from 0 to 1 that Python's `random.Random(27).random` gives (Matsumoto and Nishimura, TOMACS 1998). */
function randomNumbers(): () => number {
  const state = new Uint32Array(SIZE);
  state[0] = 19650218;
  const mixed = (at: number) => {
    const before = state[at - 1] ?? 0;
    return before ^ (before >>> 30);
  };
  for (let at = 1; at < SIZE; at += 1) state[at] = Math.imul(1812433253, mixed(at)) + at;
  let at = 1;
  const turn = (factor: number, add: (before: number) => number) => {
    state[at] = add((state[at] ?? 0) ^ Math.imul(mixed(at), factor));
    at += 1;
    if (at < SIZE) return;
    state[0] = state[SIZE - 1] ?? 0;
    at = 1;
  };
  // The seed is one word, so that its place is always 0.
  for (let times = 0; times < SIZE; times += 1) turn(1664525, (value) => value + SEED);
  for (let times = 1; times < SIZE; times += 1) turn(1566083941, (value) => value - at);
  state[0] = 0x80000000;
  let next = SIZE;
  const word = () => {
    if (next >= SIZE) {
      for (let place = 0; place < SIZE; place += 1) {
        const joined = ((state[place] ?? 0) & 0x80000000) | ((state[(place + 1) % SIZE] ?? 0) & 0x7fffffff);
        state[place] = (state[(place + MIDDLE) % SIZE] ?? 0) ^ (joined >>> 1) ^ (joined & 1 ? 0x9908b0df : 0);
      }
      next = 0;
    }
    let value = state[next] ?? 0;
    next += 1;
    value ^= value >>> 11;
    value ^= (value << 7) & 0x9d2c5680;
    value ^= (value << 15) & 0xefc60000;
    return (value ^ (value >>> 18)) >>> 0;
  };
  return () => {
    const high = word() >>> 5;
    return (high * 67108864 + (word() >>> 6)) / 9007199254740992;
  };
}
