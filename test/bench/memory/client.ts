import { Pool } from "undici";
import type { Agent } from "./agents.ts";
import { type Orders, WINDOW_SECONDS, type Window } from "./windows.ts";

/** In each lane, requests a challenge, presents it, and asks for a decision. Exits after any refusal. */
process.once("disconnect", () => process.exit());
process.once("message", (orders: Orders) => {
  void run(orders).then(() => process.disconnect?.());
});

async function run({ port, lanes, seconds, agents }: Orders): Promise<void> {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: lanes, pipelining: 1 });
  let window: Window = { presents: [], decisions: [] };
  let next = 0;
  const end = performance.now() + seconds * 1000;
  const telling = setInterval(() => {
    process.send?.(window);
    window = { presents: [], decisions: [] };
  }, WINDOW_SECONDS * 1000);

  async function post(agent: Agent, path: string, body: object): Promise<Record<string, unknown>> {
    const answer = await pool.request({
      method: "POST",
      path: `/v1/service/${path}`,
      headers: { "content-type": "application/json", "x-service-api-key": agent.apiKey },
      body: JSON.stringify(body),
    });
    const text = await answer.body.text();
    if (answer.statusCode !== 200) throw new Error(`${path} answered ${answer.statusCode}: ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  }

  async function show(agent: Agent): Promise<void> {
    const { challenge } = await post(agent, "challenge", {});
    const place = `connections/${agent.connectionId}/agents/${agent.agentId}/present`;
    const presentedAt = performance.now();
    const { proof_ref } = await post(agent, place, { challenge });
    const shownAt = performance.now();
    const { decision } = await post(agent, "verify", { proof_ref, required_scope: "data:read" });
    if (decision !== "allow") throw new Error(`a proof was answered ${String(decision)}`);
    window.presents.push(shownAt - presentedAt);
    window.decisions.push(performance.now() - shownAt);
  }

  async function lane(): Promise<void> {
    while (performance.now() < end) {
      const agent = agents[next++ % agents.length];
      if (agent !== undefined) await show(agent);
    }
  }

  await Promise.all(Array.from({ length: lanes }, lane));
  clearInterval(telling);
  await pool.close();
}
