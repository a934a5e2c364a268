import { connect } from "node:net";
import { pino } from "pino";
import { expect, test } from "vitest";
import { loadConfig } from "../../../keyvault/config.ts";
import { createRefusedLog } from "../../../keyvault/http/handshakes.ts";
import { serve } from "../../../keyvault/serve.ts";
import { agreeing } from "../../support/clock.ts";
import { createHome, readIdentity } from "../fixture.ts";
import { call } from "./caller_support.ts";

test("a large number of failed handshakes does not fill the log", async () => {
  const home = await createHome();
  const config = loadConfig({ ...home.environment, KEYVAULT_HANDSHAKE_RATE: "50" });
  const lines: string[] = [];
  const serving = await serve(
    config,
    agreeing(),
    pino({ level: "info" }, { write: (line) => void lines.push(line) }),
  );
  const refused = () => lines.filter((line) => line.includes("handshake_refused"));
  try {
    for (let time = 0; time < 300; time += 1) {
      const socket = connect({ port: serving.port, host: "127.0.0.1" });
      await new Promise((resolve) => {
        socket
          .on("error", () => {})
          .on("close", resolve)
          .resume();
        socket.write("GET / HTTP/1.1\r\n\r\n");
      });
    }
    expect(refused().length).toBeGreaterThan(0);
    expect(refused().length).toBeLessThan(150);
  } finally {
    await serving.stop();
    await home.remove();
  }
});

test("createRefusedLog writes at most sixty lines per minute and reason, then the number of omitted lines", () => {
  const lines: object[] = [];
  let now = 0;
  const tell = createRefusedLog({ warn: (line: object) => void lines.push(line) } as never, () => now);
  for (let time = 0; time < 100; time += 1) tell("ECONNRESET", undefined);
  expect(lines).toHaveLength(60);
  tell("revoked", "192.0.2.1");
  expect(lines.at(-1)).toEqual({ event: "handshake_refused", code: "revoked", address: "192.0.2.1" });
  now += 1_000;
  tell("ECONNRESET", "192.0.2.2");
  tell("ECONNRESET", "192.0.2.2");
  expect(lines).toHaveLength(62);
  expect(lines.at(-1)).toMatchObject({ code: "ECONNRESET", address: "192.0.2.2", left_out: 40 });
});

test("a failed call with a long path writes a short log line", async () => {
  const home = await createHome();
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line) => void lines.push(line) });
  const serving = await serve(home.config, agreeing(), log);
  try {
    serving.token.seal("asked");
    lines.length = 0;
    const url = `https://localhost:${serving.port}/v1/keys/${"a".repeat(12_000)}?tenant=acc-1`;
    expect((await call(url, readIdentity(home, "api"))).body.error?.code).toBe("sealed");
    const failed = lines.filter((line) => line.includes("call_failed"));
    expect(failed).toHaveLength(1);
    expect(failed[0]?.length).toBeLessThan(500);
  } finally {
    await serving.stop();
    await home.remove();
  }
});
