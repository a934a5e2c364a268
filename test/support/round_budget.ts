/**
 * Which rounds of a test run that is better the longer it runs, on quick machines and slow ones: `fewest`
 * always, then up to `most` as long as fewer seconds are over, from now, than the environment's `seconds`
 * has. Where that is not set, all of them.
 */
export function roundBudget(
  seconds: string,
  { fewest, most }: { fewest: number; most: number },
): (round: number) => boolean {
  const given = process.env[seconds];
  const end = given === undefined ? Number.POSITIVE_INFINITY : performance.now() + Number(given) * 1000;
  return (round) => round < Math.min(fewest, most) || (round < most && performance.now() < end);
}
