import { describe, expect, test } from "vitest";
import { helm } from "../support/helm.ts";
import { containersOf, podsOf, render } from "./render.ts";
import { mergeValues, VALUES, type Values } from "./values.ts";

const program = await helm("v4");
if (program.missing !== undefined) console.error(`SKIPPED, missing: ${program.missing}`);

/** A tour requests a few codes. A user may run many tours in an afternoon. */
const ENOUGH = 500;
const NAMES = ["SEND_CODE_PER_ADDRESS", "SEND_CODE_PER_DAY", "SEND_CODE_PER_IP", "VERIFY_CODE_PER_IP"];

describe.skipIf(program.missing !== undefined)("the limits on sign-in codes", () => {
  const limitsOf = async (values: Values) => {
    const pods = podsOf(await render(program.path ?? "", values));
    const settings = pods.flatMap((pod) => containersOf(pod).flatMap(({ env = [] }) => env));
    const found = settings.filter(({ name }) => /_CODE_/.test(name));
    return Object.fromEntries(found.map(({ name, value }) => [name, Number(value)]));
  };

  test("allow many runs of the tour in a trial", async () => {
    const limits = await limitsOf(VALUES.trial ?? {});
    expect(Object.keys(limits).sort()).toEqual(NAMES);
    for (const name of NAMES) expect(limits[name], name).toBeGreaterThan(ENOUGH);
  });

  test("follow the chart's values in a trial", async () => {
    const given: Values = { api: { settings: { SEND_CODE_PER_IP: "7" } } };
    const limits = await limitsOf(mergeValues(VALUES.trial ?? {}, given));
    expect(limits.SEND_CODE_PER_IP).toBe(7);
    expect(limits.SEND_CODE_PER_DAY).toBeGreaterThan(ENOUGH);
  });

  test.each(Object.entries(VALUES).filter(([name]) => !name.startsWith("trial")))(
    "equal the API's defaults in %s",
    async (_, values) => expect(await limitsOf(values)).toEqual({}),
  );
});
