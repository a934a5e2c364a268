/**
 * Whether there is time for another round: true until as many seconds are over as the environment's `name` has, always where it is not set.
 * For tests that are better the longer they run, on machines that are quick or slow.
 */
export function timeBudget(name: string): () => boolean {
  const seconds = process.env[name];
  const end = seconds === undefined ? Number.POSITIVE_INFINITY : performance.now() + Number(seconds) * 1000;
  return () => performance.now() < end;
}
