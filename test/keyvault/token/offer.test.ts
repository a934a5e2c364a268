import { expect, test } from "vitest";
import { openToken } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { openTokenLink } from "../../../keyvault/token/link.ts";
import { StaleOffer, WrongPin } from "../../../keyvault/token/messages.ts";
import { createOffer, encryptPin } from "../../../keyvault/token/pin_box.ts";
import { createHome, SILENT } from "../fixture.ts";

test("between a try and the next offer a sealed token says that one is coming", async () => {
  const home = await createHome();
  const token = await openToken(await tokenSettings(home.config.token), SILENT);
  try {
    token.seal("asked");
    await expect.poll(() => offered(), { timeout: 10_000 }).toBe(true);
    const box = encryptPin(Buffer.alloc(64, 0x30), Buffer.from(token.offer()));
    await expect(token.unseal(box)).rejects.toBeInstanceOf(WrongPin);
    const coming = { code: "token_unavailable", message: expect.stringContaining("try again in a moment") };
    expect(() => token.offer()).toThrow(expect.objectContaining(coming));
    await expect(token.unseal(box)).rejects.toMatchObject(coming);
    await expect.poll(() => offered(), { timeout: 10_000 }).toBe(true);
  } finally {
    await token.close();
    await home.remove();
  }

  function offered(): boolean {
    try {
      return token.offer().length > 0;
    } catch {
      return false;
    }
  }
});

test("a process that was given a wrong PIN, or one that was not encrypted to it, ends by itself: it takes no second try", async () => {
  const home = await createHome();
  const { place, environment } = await tokenSettings(home.config.token);
  const wrong = Buffer.alloc(64, 0x30);
  const boxes = [
    [(offer: Uint8Array) => encryptPin(wrong, offer), WrongPin],
    [() => encryptPin(wrong, createOffer().publicKey), StaleOffer],
  ] as const;
  for (const [boxFor, refusal] of boxes) {
    const link = openTokenLink(environment, SILENT);
    try {
      const { publicKey } = await link.request({ kind: "offer" }, 20_000);
      const tried = link.request({ kind: "unseal", ...place, box: boxFor(publicKey) }, 20_000);
      await expect(tried).rejects.toBeInstanceOf(refusal);
      await link.ended;
      await expect(link.request({ kind: "offer" }, 20_000)).rejects.toThrow(/not running/);
    } finally {
      link.kill();
    }
  }
  await home.remove();
});

test("a process whose token failed once ends by itself: no call meets a token in doubt", async () => {
  const home = await createHome();
  const { place, environment } = await tokenSettings(home.config.token);
  const link = openTokenLink(environment, SILENT);
  try {
    await link.request({ kind: "open", ...place }, 20_000);
    const refused = link.request({ kind: "retire", kek: "kek-1" }, 20_000);
    await expect(refused).rejects.toThrow("kek-1 is not an older version of the key-encryption key");
    await link.ended;
    await expect(link.request({ kind: "health" }, 20_000)).rejects.toThrow(/not running/);
  } finally {
    link.kill();
    await home.remove();
  }
});

test("a process that has opened no token does nothing with one", async () => {
  for (const request of [{ kind: "health" }, { kind: "rotate" }, { kind: "noted_head" }] as const) {
    const link = openTokenLink({}, SILENT);
    await expect(link.request(request, 20_000)).rejects.toThrow("The token is not open");
    await link.ended;
  }
});
