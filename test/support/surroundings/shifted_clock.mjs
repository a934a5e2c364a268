/*
 * Shifts the clock of a process by CLOCK_SHIFT milliseconds, as if the clock of its machine was wrong. Load it
 * with NODE_OPTIONS=--import. The elapsed time of `performance.now` stays right.
 */
const shiftMs = Number(process.env.CLOCK_SHIFT ?? 0);
const RealDate = Date;
const now = () => RealDate.now() + shiftMs;

globalThis.Date = new Proxy(RealDate, {
  construct: (target, given, newTarget) =>
    Reflect.construct(target, given.length === 0 ? [now()] : given, newTarget),
  apply: () => new RealDate(now()).toString(),
  get: (target, name) => (name === "now" ? now : Reflect.get(target, name)),
});
RealDate.prototype.constructor = globalThis.Date;
