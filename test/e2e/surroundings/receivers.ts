import type { Answering } from "../load.ts";

type Response = Parameters<Answering>[1];

const ENDLESS_MS = 100;

/** Ways to answer 200 with a body that breaks HTTP, its encoding or every limit. */
const BROKEN: Record<string, (response: Response) => void> = {
  "a body shorter than its length"(response) {
    response.writeHead(200, { "content-length": "1000" });
    response.write("not all", () => response.destroy());
  },
  "a body that is not gzip"(response) {
    response.writeHead(200, { "content-encoding": "gzip" });
    response.end("not gzip");
  },
  "an endless body"(response) {
    response.writeHead(200);
    const timer = setInterval(() => response.write("more"), ENDLESS_MS);
    response.once("close", () => clearInterval(timer));
  },
};

/** Ways to fail, each once per delivery: a second failure would cause a wait of five minutes. */
const FAILING: Record<string, (response: Response) => void> = {
  "status 500": (response) => void response.writeHead(500).end(),
  "no answer": (response) => void response.destroy(),
};

export const BROKEN_ANSWERS = [...Object.keys(BROKEN), ...Object.keys(FAILING)];

/** All receivers of webhooks. They answer 204, or as `broken` says. */
export type Receivers = { broken: string | undefined; answer: Answering };

export function createReceivers(): Receivers {
  const failed = new Set<string>();
  const receivers: Receivers = {
    broken: undefined,
    answer({ deliveryId }, response) {
      const { broken = "" } = receivers;
      const fail = failed.has(deliveryId) ? undefined : FAILING[broken];
      if (fail !== undefined) failed.add(deliveryId);
      const answer = BROKEN[broken] ?? fail;
      answer?.(response);
      return answer === undefined ? 204 : undefined;
    },
  };
  return receivers;
}
