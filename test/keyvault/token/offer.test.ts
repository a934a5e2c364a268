import { expect, test } from "vitest";
import { openToken } from "../../../keyvault/token/client.ts";
import { WrongPin } from "../../../keyvault/token/fault.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { sealPin } from "../../../keyvault/token/pin_box.ts";
import { createHome, SILENT } from "../fixture.ts";

test("between a try and the next offer a sealed token says that one is coming", async () => {
  const home = await createHome();
  const token = await openToken(await tokenSettings(home.config.token), SILENT);
  try {
    token.seal("asked");
    await expect.poll(() => offered(), { timeout: 10_000 }).toBe(true);
    const box = sealPin(Buffer.alloc(64, 0x30), Buffer.from(token.offer()));
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
