import { AsyncLocalStorage } from "node:async_hooks";
import { readFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import timers from "node:timers/promises";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { openToken, type Token } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { openTokenLink } from "../../../keyvault/token/link.ts";
import { WrongPin } from "../../../keyvault/token/messages.ts";
import { encryptPin } from "../../../keyvault/token/pin_box.ts";
import { until } from "../../support/process.ts";
import { createHome, type VaultHome } from "../fixture.ts";

/* An administrator has no other way to see why the vault signs nothing. */

let home: VaultHome;
let token: Token | undefined;
let lines: Record<string, unknown>[] = [];

beforeAll(async () => {
  home = await createHome();
});
afterEach(async () => {
  await token?.close();
  token = undefined;
  lines = [];
});
afterAll(() => home.remove());

const log = pino(
  { level: "info", base: null, timestamp: false },
  { write: (line) => void lines.push(JSON.parse(line)) },
);
const [INFO, WARN, ERROR] = [30, 40, 50];
const settings = () => tokenSettings(home.config.token);
/** Receives the pauses of the token under test, but not those of other tests' background work. */
const ownPauses = new AsyncLocalStorage<unknown[]>();

test("the log reports a lost token process and its restart, and the process runs in its own session", async () => {
  token = await openToken(await settings(), log);
  expect(lines).toEqual([]);
  if (process.platform === "linux") {
    const { pid } = token;
    const fields = readFileSync(`/proc/${pid()}/stat`, "utf8").split(") ")[1]?.split(" ");
    expect(Number(fields?.[3])).toBe(pid());
  }
  process.kill(token.pid()!, "SIGKILL");
  await expect
    .poll(() => lines.at(-1), { timeout: 20_000 })
    .toEqual({ level: INFO, event: "token_restored" });
  expect(lines[0]).toEqual({ level: ERROR, event: "token_lost" });
});

test("the log reports, at each attempt, why the token process cannot start", async () => {
  const { place, environment } = await settings();
  const moving = { ...place };
  token = await openToken({ place: moving, environment }, log);
  moving.module = "/none.so";
  process.kill(token.pid()!, "SIGKILL");
  const faults = () => lines.filter(({ event }) => event === "token_fault");
  await expect.poll(() => faults().length, { timeout: 20_000 }).toBeGreaterThan(1);
  expect(faults()[0]).toEqual({
    level: ERROR,
    event: "token_fault",
    reason: expect.stringMatching(/^The PKCS#11 module \/none\.so cannot be loaded: ./),
  });
  moving.module = place.module;
  await expect
    .poll(() => lines.at(-1), { timeout: 20_000 })
    .toEqual({ level: INFO, event: "token_restored" });
});

test("the token's process starts again after 50 ms, then after twice the former pause, at most 5 s", async () => {
  const pauses: unknown[] = [];
  token = await ownPauses.run(pauses, async () => openToken(await settings(), log));
  const { setTimeout: sleep } = timers;
  const sleeping = vi.spyOn(timers, "setTimeout").mockImplementation((ms, value, options) => {
    const isOwn = ownPauses.getStore()?.push(ms) !== undefined;
    return sleep(isOwn ? 0 : ms, value, options);
  });
  const { execPath } = process;
  process.execPath = "/none";
  syncBuiltinESMExports();
  try {
    process.kill(token.pid()!, "SIGKILL");
    await until("nine pauses", () => pauses.length >= 9);
  } finally {
    process.execPath = execPath;
    sleeping.mockRestore();
    syncBuiltinESMExports();
  }
  expect(pauses.slice(0, 9)).toEqual([50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
});

test("the pauses grow although the token opens each time, so that a failing token gets few logins", async () => {
  const pauses: unknown[] = [];
  token = await ownPauses.run(pauses, async () => openToken(await settings(), log));
  const { setTimeout: sleep } = timers;
  const sleeping = vi.spyOn(timers, "setTimeout").mockImplementation((ms, value, options) => {
    ownPauses.getStore()?.push(ms);
    return sleep(ms, value, options);
  });
  syncBuiltinESMExports();
  try {
    for (let kills = 0; kills < 3; kills += 1) {
      const former = token.pid()!;
      process.kill(former, "SIGKILL");
      const isOpenAgain = () => ![undefined, former].includes(token?.pid());
      await until("another process", isOpenAgain);
    }
  } finally {
    sleeping.mockRestore();
    syncBuiltinESMExports();
  }
  expect(pauses).toEqual([50, 100, 200]);
});

function isOffered(): boolean {
  try {
    return token!.offer().length > 0;
  } catch {
    return false;
  }
}

test("the log reports a sealing with its reason, and unseal() fails while the new token process starts", async () => {
  token = await openToken(await settings(), log);
  token.seal("asked");
  token.seal("chain_broken");
  await expect.poll(isOffered, { timeout: 20_000 }).toBe(true);
  expect(token.sealed()).toBe("asked");
  expect(lines, "its process is not called lost").toEqual([
    { level: WARN, event: "sealed", reason: "asked" },
  ]);
  const box = encryptPin(Buffer.alloc(64, 0x30), Buffer.from(token.offer()));
  await expect(token.unseal(box)).rejects.toBeInstanceOf(WrongPin);
  const coming = { code: "token_unavailable", message: expect.stringContaining("try again in a moment") };
  expect(() => token!.offer()).toThrow(expect.objectContaining(coming));
  await expect(token.unseal(box)).rejects.toMatchObject(coming);
  await expect.poll(isOffered, { timeout: 20_000 }).toBe(true);
});

test("the log names the call whose missed deadline caused the token process to be killed", async () => {
  const link = openTokenLink({}, log);
  await link.request({ kind: "offer" }, 20_000);
  process.kill(link.pid!, "SIGSTOP");
  await expect(link.request({ kind: "offer" }, 10)).rejects.toThrow("The token's process ended");
  await link.ended;
  expect(lines).toEqual([{ level: ERROR, event: "token_deadline", kind: "offer" }]);
});

test("the log contains the module's output on standard error", async () => {
  await openTokenLink({ NODE_OPTIONS: "--no-such-option" }, log).ended;
  const others = lines.filter(({ level, event }) => level !== WARN || event !== "token_stderr");
  expect(others).toEqual([]);
  expect(lines.map(({ text }) => text).join("")).toContain("--no-such-option");
});

function tokenProcesses(): number[] {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").trim().split(" ");
  return children.filter(isTokenProcess).map(Number);
}

function isTokenProcess(pid: string): boolean {
  try {
    return pid !== "" && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("/token/child");
  } catch {
    return false;
  }
}

test.skipIf(process.platform !== "linux")(
  "a token that is sealed while its next process logs in stays sealed",
  async () => {
    token = await openToken(await settings(), log);
    const former = token.pid()!;
    process.kill(former, "SIGKILL");
    const isComing = () => token!.pid() === undefined && tokenProcesses().some((pid) => pid !== former);
    await expect.poll(isComing, { interval: 1, timeout: 20_000 }).toBe(true);
    token.seal("asked");
    await expect(token.health()).rejects.toMatchObject({ code: "sealed" });
    await expect.poll(isOffered, { timeout: 20_000 }).toBe(true);
    expect(token.sealed()).toBe("asked");
    expect(lines.map(({ event }) => event)).not.toContain("token_restored");
  },
);
