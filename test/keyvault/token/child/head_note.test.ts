import { afterEach, beforeEach, expect, test } from "vitest";
import { openToken, type Token } from "../../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../../keyvault/token/install.ts";
import { createHome, SILENT, type VaultHome } from "../../fixture.ts";

let home: VaultHome;
let token: Token;

beforeEach(async () => {
  home = await createHome();
  token = await openToken(await tokenSettings(home.config.token), SILENT);
});
afterEach(async () => {
  await token.close();
  await home.remove();
});

const open = async () => openToken(await tokenSettings(home.config.token), SILENT);
const head = (seq: number, byte = 1) => ({ seq, mac: Buffer.alloc(32, byte) });
const noted = async (from = token) => {
  const { head: found } = await from.notedHead();
  return found && { seq: found.seq, mac: Buffer.from(found.mac) };
};

test("the newest head is noted, and is there for the next process that opens the token", async () => {
  for (let seq = 100; seq < 120; seq += 1) {
    await token.noteHead(head(seq, seq));
    expect(await noted()).toEqual(head(seq, seq));
  }
  await token.close();
  token = await open();
  expect(await noted()).toEqual(head(119, 119));
  expect((await token.health()).keks).toEqual(["kek-1"]);
});

test("a lower head, or another one of the same number, does not take the place of what is noted", async () => {
  await token.noteHead(head(200));
  await token.noteHead(head(199));
  await token.noteHead(head(200, 2));
  expect(await noted()).toEqual(head(200));
});

test("what another process noted meanwhile counts: a late lower note does not undo it", async () => {
  const other = await open();
  await token.noteHead(head(300));
  await other.noteHead(head(310));
  await token.noteHead(head(305));
  expect(await noted()).toEqual(head(310));
  expect(await noted(other)).toEqual(head(310));
  await other.close();
});

test("noted anew, a lower head takes the place of all that was noted", async () => {
  await token.noteHead(head(400));
  await token.noteHead(head(401));
  await token.noteHead(head(7), true);
  expect(await noted()).toEqual(head(7));
  await token.noteHead(head(8));
  await token.noteHead(head(9));
  expect(await noted()).toEqual(head(9));
});

test("a process that is killed in the middle of its notes leaves a head that was noted, and the token works on", async () => {
  for (let round = 1; round <= 8; round += 1) {
    const from = 1_000 * round;
    let acknowledged = from;
    const noting = (async () => {
      for (let seq = from + 1; seq < from + 900; seq += 1) {
        await token.noteHead(head(seq));
        acknowledged = seq;
      }
    })().catch(() => {});
    await expect.poll(() => acknowledged, { interval: 1 }).toBeGreaterThan(from + round);
    process.kill(token.pid() ?? 0, "SIGKILL");
    await noting;
    await token.close();
    token = await open();
    expect((await noted())?.seq).toBeGreaterThanOrEqual(acknowledged);
  }
});
