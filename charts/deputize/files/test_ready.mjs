// Calls each URL of the arguments until it answers 200, for about a minute at most.
import { setTimeout as sleep } from "node:timers/promises";

const SECONDS = 60;

async function ask(url) {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(5_000) });
    return answer.ok ? undefined : `answers ${answer.status}`;
  } catch (error) {
    return `does not answer: ${error.cause?.code ?? error.name}`;
  }
}

for (const url of process.argv.slice(1)) {
  let fault = await ask(url);
  for (let second = 0; fault !== undefined && second < SECONDS; second += 1) {
    await sleep(1_000);
    fault = await ask(url);
  }
  console.log(`${url} ${fault ?? "answers 200"}`);
  if (fault !== undefined) process.exitCode = 1;
}
