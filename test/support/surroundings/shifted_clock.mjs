import { readFileSync, watchFile } from "node:fs";

/*
 * Shifts the clock of a process, as if the clock of its machine was wrong: by CLOCK_SHIFT milliseconds, or by
 * those in the file CLOCK_SHIFT_FILE, also when the file changes. Load it with NODE_OPTIONS=--import. The
 * elapsed time of `performance.now` stays right.
 */
const { CLOCK_SHIFT = "0", CLOCK_SHIFT_FILE: file } = process.env;
const read = () => Number(file === undefined ? CLOCK_SHIFT : readFileSync(file, "utf8"));
let shiftMs = read();
if (file !== undefined) {
  watchFile(file, { interval: 50, persistent: false }, () => {
    shiftMs = read();
  });
}
const RealDate = Date;
const now = () => RealDate.now() + shiftMs;

globalThis.Date = new Proxy(RealDate, {
  construct: (target, given, newTarget) =>
    Reflect.construct(target, given.length === 0 ? [now()] : given, newTarget),
  apply: () => new RealDate(now()).toString(),
  get: (target, name) => (name === "now" ? now : Reflect.get(target, name)),
});
RealDate.prototype.constructor = globalThis.Date;
