import { z } from "zod";
import type { Constraint } from "../../protocol/constraints/constraints.ts";

/** A published SDK that cannot verify a certificate, and the constraint that causes this. */
const sdkWarning = z.object({
  sdk: z.enum(["go", "python"]).describe("The published SDK that cannot rebuild the signed bytes"),
  constraint: z.int().describe("Place of the constraint in the certificate, from 0"),
  message: z.string(),
});

/** Warnings about a certificate. They do not prevent an approval, because this service verifies it. */
export const sdkWarnings = z.array(sdkWarning).describe("Empty if every published SDK can verify it");

/** A warning in an answer. */
export type SdkWarning = z.infer<typeof sdkWarning>;

/** Closer to zero, Python writes an exponent of two digits, unlike RFC 8785. */
const LEAST_IN_PYTHON = 1e-4;

const MESSAGES: Record<SdkWarning["sdk"], string> = {
  go: "The published Go SDK refuses this certificate, because a text in it contains <, > or &",
  python: "The published Python SDK refuses this certificate, because a number in it is below 0.0001",
};

/** Returns a warning for each constraint that a published SDK cannot write as the bytes that were signed. */
export function findSdkWarnings(constraints: readonly Constraint[]): SdkWarning[] {
  return constraints.flatMap((constraint, place) =>
    sdksThatFail(constraint).map((sdk) => ({ sdk, constraint: place, message: MESSAGES[sdk] })),
  );
}

function sdksThatFail(constraint: Constraint): SdkWarning["sdk"][] {
  let isSmall = false;
  const text = JSON.stringify(constraint, (_, value) => {
    if (typeof value === "number" && value !== 0 && Math.abs(value) < LEAST_IN_PYTHON) isSmall = true;
    return value;
  });
  return [...(/[<>&]/.test(text) ? (["go"] as const) : []), ...(isSmall ? (["python"] as const) : [])];
}
